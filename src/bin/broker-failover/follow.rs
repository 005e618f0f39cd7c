//! `follow`: order flow as it changes, one line a change.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use broker_failover::supervisor::control::Request;
use broker_failover::supervisor::control::subscribe::KEEPALIVE;
use broker_failover::supervisor::visible::one_line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use crate::control::{Supervisor, refuse, unreachable};

/// Print order flow now, and then every change of it, until the supervisor ends
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 nobody reads any more; 1 refused; 2 no supervisor answers, or it has ended.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    supervisor: Supervisor,
    /// The group; all of them if left out
    #[arg(long, short)]
    group: Option<String>,
    /// As JSON Lines, keepalives included
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let socket = match arguments.supervisor.socket() {
        Ok(socket) => socket,
        Err(why) => return refuse(&why, 2),
    };
    let request = Request::Subscribe { subscribe: true, group: arguments.group.clone() };
    let begun = UnixStream::connect(&socket).and_then(|mut stream| {
        // One keepalive may be lost to a machine that is busy.
        stream.set_read_timeout(Some(KEEPALIVE * 3))?;
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        Ok(stream)
    });
    let stream = match begun {
        Ok(stream) => stream,
        Err(error) => return refuse(&unreachable(&socket, &error), 2),
    };
    for line in BufReader::new(stream).lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return refuse(&format!("nothing was heard for {:?}: the supervisor hangs", KEEPALIVE * 3), 2);
            }
            Err(error) => return refuse(&unreachable(&socket, &error), 2),
        };
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(why) = value["error"].as_str() {
            return refuse(why, 1);
        }
        let text = if arguments.json { Some(line) } else { in_words(&value) };
        let is_read = match text {
            Some(text) => writeln!(anstream::stdout(), "{text}").is_ok(),
            None => !nobody_reads(),
        };
        if !is_read {
            return ExitCode::SUCCESS;
        }
    }
    refuse("the supervisor has ended", 2)
}

/// Whether standard output is a pipe whose other end is closed: with nothing to write, nothing else would tell.
fn nobody_reads() -> bool {
    let out = std::io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

/// `main-account: OPEN east #1 (epoch 1 on east; may submit, cancel, query)`; nothing for a keepalive.
fn in_words(value: &Value) -> Option<String> {
    let group = value["group"].as_str()?;
    if value["ended"] == true {
        return Some(one_line(&format!("{group}: its loop has ended")));
    }
    let flow = value["order_flow"].as_str()?;
    let may = [("may_submit", "submit"), ("may_cancel", "cancel"), ("may_query", "query")];
    let may: Vec<_> = may.into_iter().filter(|(key, _)| value[key] == true).map(|(_, name)| name).collect();
    let may = if may.is_empty() { "nothing".to_owned() } else { may.join(", ") };
    let path = match (value["endpoint"].as_str(), value["epoch"].as_u64()) {
        (Some(endpoint), Some(epoch)) => format!("epoch {epoch} on {endpoint}"),
        _ => "no path".to_owned(),
    };
    let mut text = format!("{group}: {flow} ({path}; may {may})");
    for key in ["reason", "halt_text"] {
        if let Some(word) = value[key].as_str() {
            text.push_str(", ");
            text.push_str(word);
        }
    }
    Some(one_line(&text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_words_stay_on_their_line_and_steer_no_terminal() {
        let told =
            json!({"group": "ma\u{202e}in", "order_flow": "HALT", "halt_text": "a\nb\u{1b}[2J", "endpoint": null});
        assert_eq!(in_words(&told).unwrap(), "ma in: HALT (no path; may nothing), a b [2J");
        let ended = json!({"group": "ma\u{2066}in", "ended": true});
        assert_eq!(in_words(&ended).unwrap(), "ma in: its loop has ended");
    }
}
