//! `replay`: feeds a scenario file to the engine and prints what it answers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use broker_failover::scenario::{Answer, Difference, Golden, ReplayError, Tally, replay};

use crate::table::Table;

/// Feed a scenario file to the engine and print what it answers, one line per input.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 every input was taken; 1 the engine refused an input; 2 the file is not a \
    scenario, or cannot be read; 3 --check found a difference. 2 outranks 3, 3 outranks 1.")]
pub(crate) struct Arguments {
    /// The scenario file, or - for standard input
    file: PathBuf,
    /// Compare with this golden output instead of printing (the words for people are not compared)
    expected: Option<PathBuf>,
    /// Compare FILE's answers with EXPECTED
    #[arg(long, requires = "expected")]
    check: bool,
    /// json: one object a line, the scenario format's output. text: a table for people
    #[arg(long, value_enum, default_value_t = Format::Json, conflicts_with = "check")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Json,
    Text,
}

/// How a run ended; the number is the exit status.
enum Ending {
    Taken = 0,
    Refused = 1,
    Fault = 2,
    Different = 3,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let ending = match (&arguments.expected, arguments.check) {
        (Some(expected), true) => check(&arguments.file, expected),
        (Some(_), false) => Err("EXPECTED is only for --check".to_owned()),
        (None, _) => print(&arguments.file, arguments.format),
    };
    let ending = ending.unwrap_or_else(|message| {
        complain(&message);
        Ending::Fault
    });
    ExitCode::from(ending as u8)
}

fn print(file: &Path, format: Format) -> Result<Ending, String> {
    let input = open(file)?;
    let mut out = BufWriter::new(anstream::stdout().lock());
    let mut table = Table::default();
    let result = replay(input, |answer| match format {
        Format::Json => writeln!(out, "{}", answer.to_json()),
        Format::Text => table.row(&mut out, answer),
    });
    // What came before a fault is printed, whatever the fault.
    let flushed = match (&result, format) {
        (Ok(tally), Format::Text) => table.end(&mut out, *tally).and_then(|()| out.flush()),
        _ => out.flush(),
    };
    match (result, flushed) {
        (Err(ReplayError::Deliver(error)), _) | (_, Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            // The reader has seen enough (`| head`): that is no fault of the file.
            Ok(Ending::Taken)
        }
        (result, flushed) => {
            let ending = ending(result.map_err(|error| message(file, &error))?);
            flushed.map_err(|error| format!("cannot write the answers: {error}"))?;
            Ok(ending)
        }
    }
}

fn check(file: &Path, expected: &Path) -> Result<Ending, String> {
    let golden = std::fs::read_to_string(expected).map_err(|error| unreadable(expected, &error))?;
    let mut golden = Golden::new(&golden);
    let mut difference: Option<Difference> = None;
    let tally = replay(open(file)?, |answer: &Answer<'_>| {
        if difference.is_none() {
            difference = golden.compare(&answer.to_json()).err();
        }
        Ok(())
    })
    .map_err(|error| message(file, &error))?;
    match difference.or_else(|| golden.finish().err()) {
        Some(difference) => {
            complain(&format!("{}: {difference}", expected.display()));
            Ok(Ending::Different)
        }
        None => Ok(ending(tally)),
    }
}

fn ending(tally: Tally) -> Ending {
    if tally.refused == 0 { Ending::Taken } else { Ending::Refused }
}

fn open(file: &Path) -> Result<Box<dyn BufRead>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    Ok(Box::new(BufReader::new(opened)))
}

fn message(file: &Path, error: &ReplayError) -> String {
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    format!("{name}: {error}")
}

fn unreadable(file: &Path, error: &io::Error) -> String {
    format!("{}: cannot be read: {error}", file.display())
}

fn complain(message: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(anstream::stderr(), "broker-failover: {message}");
}
