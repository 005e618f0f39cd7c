//! A client that blocks, and connects anew when it must.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{LONGEST_LINE, Report, now_ms};

/// How long a report waits to be taken, and then for its answer.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long a supervisor that could not be reached is left alone, in milliseconds.
const REST_MS: u64 = 100;

/// Reports to a supervisor over its socket. It connects at the first report, and anew at the next one after a
/// connection was lost.
#[derive(Debug)]
pub struct Reporter {
    socket: PathBuf,
    connection: Option<BufReader<UnixStream>>,
    rests_until: u64,
}

/// Why a report was not taken. Whatever it counted belongs into the next one.
#[derive(Debug, Error)]
pub enum ReportError {
    /// No supervisor could be asked, or it did not answer; whether it took the report is not known, and does not matter
    /// for anything but its counts.
    #[error("the supervisor was not reached: {0}")]
    Unreachable(#[from] io::Error),
    /// It was refused; nothing was changed. The words are the supervisor's.
    #[error("the report was refused: {0}")]
    Refused(String),
}

#[derive(Serialize)]
struct Line<'a> {
    report: &'a Report,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(serde::de::IgnoredAny),
    Error(String),
}

impl Reporter {
    /// A client of the supervisor whose control socket, or `report_socket`, is at `socket`. Nothing is connected yet.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), connection: None, rests_until: 0 }
    }

    /// Reports, and waits for the answer, for [`LONGEST_WAIT`] twice at most.
    ///
    /// # Errors
    /// [`ReportError`]. For a tenth of a second after a connection failed, no other is tried.
    pub fn report(&mut self, report: &Report) -> Result<(), ReportError> {
        let mut line = serde_json::to_vec(&Line { report }).map_err(io::Error::from)?;
        line.push(b'\n');
        if line.len() > LONGEST_LINE {
            return Err(ReportError::Refused(format!("a report of {} bytes; at most {LONGEST_LINE}", line.len())));
        }
        match self.tell(&line) {
            Ok(Answer::Ok(_)) => Ok(()),
            Ok(Answer::Error(why)) => Err(ReportError::Refused(why)),
            Err(error) => {
                // What still comes on it would be taken for the answer to another report.
                self.connection = None;
                Err(error.into())
            }
        }
    }

    fn tell(&mut self, line: &[u8]) -> io::Result<Answer> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            lost => lost.insert(connect(&self.socket, &mut self.rests_until)?),
        };
        connection.get_mut().write_all(line)?;
        let mut answer = String::new();
        if connection.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended without an answer"));
        }
        serde_json::from_str(&answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

fn connect(socket: &PathBuf, rests_until: &mut u64) -> io::Result<BufReader<UnixStream>> {
    let now = now_ms();
    if now < *rests_until {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "it is left alone for a moment"));
    }
    *rests_until = now.saturating_add(REST_MS);
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LONGEST_WAIT))?;
    stream.set_write_timeout(Some(LONGEST_WAIT))?;
    Ok(BufReader::new(stream))
}
