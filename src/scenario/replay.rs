//! Feeds a scenario to the very engine that runs in production.

use std::io::{self, BufRead, Read};

use thiserror::Error;

use crate::engine::{Engine, InputError, Output, RestartKind, Timestamp};

use super::{Answer, Fault, LONGEST_LINE, Step, Verb, parse};

/// A replay in progress: lines go in one by one.
#[derive(Debug, Default)]
pub struct Replay {
    line: u64,
    stage: Stage,
    /// File time of the last input, and file time at which the engine's own time is zero.
    at: u64,
    origin: u64,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Configuration,
    RestoreOrInputs(Engine),
    Inputs(Engine),
    /// A fault was found; nothing is evaluated any more.
    Stopped,
}

/// What a whole replay came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Inputs that were taken.
    pub taken: u64,
    /// Inputs that the engine refused.
    pub refused: u64,
}

/// Why a replay ended early.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The file is not a scenario.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It cannot be read.
    #[error("cannot read line {line}: {error}")]
    Read {
        /// The line.
        line: u64,
        /// Why.
        error: io::Error,
    },
    /// An answer cannot be delivered.
    #[error("cannot write the answer: {0}")]
    Deliver(io::Error),
}

impl Replay {
    /// A replay that expects the configuration line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next line of the file, without its end, and hands the answer, if the line is an input, to `deliver`.
    ///
    /// # Errors
    /// The line's fault. The replay has then stopped: every further line is a fault too.
    pub fn line<T>(&mut self, text: &[u8], deliver: impl FnOnce(&Answer<'_>) -> T) -> Result<Option<T>, Fault> {
        self.line += 1;
        let stage = std::mem::take(&mut self.stage);
        let result = self.advance(stage, text, deliver);
        result.map_err(|fault| {
            self.stage = Stage::Stopped;
            Fault { line: self.line, ..fault }
        })
    }

    /// The end of the file.
    ///
    /// # Errors
    /// There was no configuration line.
    pub fn finish(self) -> Result<(), Fault> {
        match self.stage {
            Stage::Configuration => {
                let fault = Fault::in_line("", 0, "the end of the file", "a {\"config\":...} line");
                Err(Fault { line: self.line + 1, ..fault })
            }
            Stage::RestoreOrInputs(_) | Stage::Inputs(_) | Stage::Stopped => Ok(()),
        }
    }

    fn advance<T>(
        &mut self,
        stage: Stage,
        text: &[u8],
        deliver: impl FnOnce(&Answer<'_>) -> T,
    ) -> Result<Option<T>, Fault> {
        let text = checked(text, self.line)?;
        if text.trim().is_empty() || text.starts_with('#') {
            self.stage = stage;
            return Ok(None);
        }
        let mut engine = match stage {
            Stage::Stopped => return Err(Fault::in_line(text, 0, "a line after a fault", "the end of the replay")),
            Stage::Configuration => {
                self.stage = Stage::RestoreOrInputs(parse::config(text)?);
                return Ok(None);
            }
            Stage::RestoreOrInputs(engine) if parse::is_restore(text) => {
                self.stage = Stage::Inputs(parse::restore(text, &engine)?);
                return Ok(None);
            }
            Stage::RestoreOrInputs(engine) | Stage::Inputs(engine) => engine,
        };
        let step = parse::step(text, self.at)?;
        self.at = step.at;
        let now = Timestamp::from_nanos(step.at.saturating_sub(self.origin));
        let result = self.take(&mut engine, now, &step)?;
        let answer = Answer { line: self.line, step: &step, result: &result, engine: &engine, origin: self.origin };
        let delivered = deliver(&answer);
        self.stage = Stage::Inputs(engine);
        Ok(Some(delivered))
    }

    fn take(&mut self, engine: &mut Engine, now: Timestamp, step: &Step) -> Result<Result<Output, InputError>, Fault> {
        match &step.verb {
            Verb::Input(input) => Ok(engine.apply(now, input.clone())),
            Verb::Status | Verb::WallStep(_) => Ok(Ok(Output::Done)),
            Verb::Restart(kind) => {
                *engine = restarted(engine, now, *kind)?;
                self.origin = step.at;
                Ok(Ok(Output::Flow(engine.order_flow())))
            }
        }
    }
}

/// Snapshot, drop, restore; the restored engine's time starts at zero.
fn restarted(engine: &Engine, now: Timestamp, kind: RestartKind) -> Result<Engine, Fault> {
    let policy = engine.policy().clone();
    // An engine's own snapshot always restores; were that ever not so, it must not pass unnoticed.
    Engine::restore(policy, engine.snapshot(now), Timestamp::ZERO, kind)
        .map_err(|error| Fault::in_line("", 0, error.to_string(), "a snapshot that restores (please report this)"))
}

fn checked(text: &[u8], line: u64) -> Result<&str, Fault> {
    if text.len() > LONGEST_LINE {
        let fault = Fault::in_line("", 0, "a line of more than 1 MiB", "at most 1048576 bytes a line");
        return Err(Fault { column: LONGEST_LINE + 1, ..fault });
    }
    if line == 1 && text.starts_with(b"\xef\xbb\xbf") {
        return Err(Fault::in_line("", 0, "a byte order mark", "UTF-8 without one"));
    }
    std::str::from_utf8(text).map_err(|error| {
        let valid =
            text.get(..error.valid_up_to()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
        Fault::in_line(valid, valid.len(), "bytes that are not UTF-8", "UTF-8")
    })
}

/// Replays everything that `input` holds, handing each answer to `deliver` as it comes. Memory is bounded by the
/// longest line and by the engine's own state.
///
/// # Errors
/// The first fault of the file, or of reading it or delivering an answer.
pub fn replay(
    mut input: impl BufRead,
    mut deliver: impl FnMut(&Answer<'_>) -> io::Result<()>,
) -> Result<Tally, ReplayError> {
    let mut replay = Replay::new();
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while read_line(&mut input, &mut line).map_err(|error| ReplayError::Read { line: replay.line + 1, error })? {
        let delivered = replay.line(&line, |answer| {
            let count = if answer.result.is_ok() { &mut tally.taken } else { &mut tally.refused };
            *count += 1;
            deliver(answer)
        })?;
        delivered.transpose().map_err(ReplayError::Deliver)?;
    }
    replay.finish()?;
    Ok(tally)
}

/// Reads one line without its end (LF or CRLF), and no more of it than is needed to see that it is too long.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX).saturating_add(2);
    if input.take(most).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    Ok(true)
}
