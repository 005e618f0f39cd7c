//! `check`: everything that is wrong or dangerous in a configuration file, at once.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use broker_failover::planning::Blips;
use broker_failover::supervisor::config::{self, Checked, Effective, Finding, Origin, Severity, json_schema};

mod probe;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Check a configuration file: every error and warning at once, and the detection times that the settings give.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 the file is accepted (there may be warnings); 1 it is, and with --probe not every \
    endpoint answered as it should; 2 it is refused, or cannot be read."
)]
pub(crate) struct Arguments {
    /// The configuration file
    #[arg(required_unless_present = "schema")]
    config: Option<PathBuf>,
    /// Print every value in force with its origin
    #[arg(long)]
    print_effective: bool,
    /// Also ask every endpoint once, as the supervisor would, and say what its probes answer
    #[arg(long)]
    probe: bool,
    /// Print the JSON Schema of configuration files and stop
    #[arg(long)]
    schema: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match tell(arguments) {
        Ok(status) => ExitCode::from(status),
        // The reader has seen enough (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(anstream::stderr(), "broker-failover: {error}");
            ExitCode::from(2)
        }
    }
}

fn tell(arguments: &Arguments) -> io::Result<u8> {
    let mut out = anstream::stdout().lock();
    let Some(file) = arguments.config.as_ref().filter(|_| !arguments.schema) else {
        writeln!(out, "{:#}", json_schema())?;
        return Ok(0);
    };
    let text = config::text_of(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: cannot be read: {error}", file.display())))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let checked = config::parse(&text, folder);
    for finding in &checked.findings {
        let Finding { severity, line, column, key, found, expected } = finding;
        let (style, name) = match severity {
            Severity::Error => (ERROR, "error"),
            Severity::Warning => (WARNING, "warning"),
        };
        writeln!(
            out,
            "{}:{line}:{column}: {style}{name}{style:#}: {key}: {found}; expected {expected}",
            file.display()
        )?;
    }
    if arguments.print_effective {
        effective(&mut out, &config::effective(&text, folder))?;
    }
    bounds(&mut out, &checked)?;
    let Some(config) = &checked.config else { return Ok(2) };
    let all_answer = !arguments.probe || probe::tell(&mut out, config)?;
    // Every finding of an accepted file is a warning.
    let warnings = match checked.findings.len() {
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    writeln!(out, "{}: accepted ({warnings})", file.display())?;
    Ok(u8::from(!all_answer))
}

fn effective(out: &mut impl Write, values: &[Effective]) -> io::Result<()> {
    let width = values.iter().map(|value| value.key.len()).max().unwrap_or(0);
    for value in values {
        let origin = match value.origin {
            Origin::Line(line) => format!("line {line}"),
            Origin::Default => "default".to_owned(),
        };
        writeln!(out, "{:<width$} = {:<40} # {origin}", value.key, value.value)?;
    }
    Ok(())
}

fn bounds(out: &mut impl Write, checked: &Checked) -> io::Result<()> {
    for group in checked.config.iter().flat_map(|config| &config.groups) {
        let detection = group.detection();
        let (refused, hung) = (detection.refused, detection.hung);
        writeln!(
            out,
            "{}: from a fault to DOWN: {:?} to {:?} where the path answers at once (refused, reset, 500), {:?} to {:?} where it hangs",
            group.name, refused.0, refused.1, hung.0, hung.1
        )?;
        match group.needs_person() {
            Some(hook) => writeln!(
                out,
                "{}: from a fault until orders flow again: waits for a person, there is no {hook} hook",
                group.name
            )?,
            None => {
                let worst = group.stages().recovery(hung.1);
                writeln!(
                    out,
                    "{}: from a fault until orders flow again: {worst:?} at worst, if the last hook of each kind succeeds at its deadline",
                    group.name
                )?;
            }
        }
        let blips = Blips::default();
        let timing = group.timing();
        let triggers = group.triggers();
        let Some(hastiest) = triggers.iter().min_by_key(|trigger| trigger.failures(&timing)) else { continue };
        let daily = blips.false_failovers_per_day(*hastiest, &timing);
        let advice =
            if daily < 1.0 { "" } else { "; a larger failure_threshold or interval_when_failing makes them fewer" };
        // Of these the closed form knows one blip alone; two that follow each other may fire the trigger together.
        let (about, besides) = match group.looks_back() {
            false => ("about", ""),
            true => ("at least", "; failures among the newest results also add up over blips, which `simulate` counts"),
        };
        writeln!(
            out,
            "{}: false failovers: {about} {daily:.1} a day, if blips come {blips} (an assumption: measure yours){advice}{besides}",
            group.name
        )?;
    }
    Ok(())
}
