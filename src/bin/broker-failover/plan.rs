//! `plan`: which trigger and which standby meet a recovery time, and what they cost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use broker_failover::planning::{
    Budgeting, Bytes, DecisionRecord, Money, Month, Plan, PlanSettings, Preparation, Rate, RoutingLayer, Share,
    Throughput, Trigger,
};
use broker_failover::supervisor::config::{duration, load_plan};
use broker_failover::supervisor::visible::visible;

use crate::plan_output;
use crate::printed::printed;

/// Plan a recovery: which trigger and which standby meet a recovery time, how often a trigger fires for nothing, and
/// which option is the cheapest.
///
/// Without arguments it prints the worked example: every value has the default that its flag states. They are a starting
/// point, not a recommendation.
#[derive(clap::Args)]
#[command(
    after_help = "A DURATION is integers with units: 250ms, 60s, 1h 30m (ns, us, ms, s, m, h, d). A RATE is 200/s, 4/h or \
    1/3y (s, m, h, d, y). A SIZE is 140GB or 1.5TiB. A SHARE is 99.99% or 0.4. A TRIGGER is a number of failures in a row, \
    3, or a window, \"window 60s\".\n\n\
    Exit status: 0 the target can be met, by some trigger on some tier and by some option if there are any; 1 nothing meets \
    it; 2 the command line or the file is at fault, or the record cannot be written."
)]
pub(crate) struct Arguments {
    /// A plan file in TOML: the flags as keys, with _ for -, and [[option]] tables. Flags outrank it
    file: Option<PathBuf>,

    /// Recovery takes at most this [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Target")]
    rto: Option<Duration>,
    /// Judge by the worst phase and a path that hangs [default: count from the first failed probe]
    #[arg(long, help_heading = "Target")]
    worst_case: bool,
    /// What moves traffic: anycast, load-balancer, client:10s or dns:60s. An RTO below its floor is refused [default: not asked]
    #[arg(long, value_name = "LAYER", help_heading = "Target")]
    routing: Option<RoutingLayer>,
    /// What was promised; prints the error budget that one recovery uses [default: not asked]
    #[arg(long, value_name = "SHARE", help_heading = "Target")]
    availability: Option<Share>,
    /// The month of the error budget: 30d, or average (30.44 days) [default: 30d]
    #[arg(long, value_name = "MONTH", help_heading = "Target")]
    month: Option<Month>,
    /// The share of the flow that an outage hits [default: 100%]
    #[arg(long, value_name = "SHARE", help_heading = "Target")]
    hit: Option<Share>,

    /// Checks and approval [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    gate: Option<Duration>,
    /// From the fault on, when the gate may close at the earliest: the old holder's lease and the margin [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    gate_not_before: Option<Duration>,
    /// The standby becomes the one that may write [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    promotion: Option<Duration>,
    /// Machines that have to start; a cold standby only [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    capacity: Option<Duration>,
    /// State that has to be loaded; a warm and a cold standby [default: 140GB]
    #[arg(long, value_name = "SIZE", help_heading = "Stages")]
    state: Option<Bytes>,
    /// How fast it is loaded [default: 1GB/s]
    #[arg(long, value_name = "SIZE/s", help_heading = "Stages")]
    state_rate: Option<Throughput>,
    /// Capacity and state load begin at detection, beside gate and promotion [default: after the promotion]
    #[arg(long, help_heading = "Stages")]
    beside_gate: bool,
    /// Traffic moves [default: 120s, or with --routing what that layer usually takes]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    shift: Option<Duration>,
    /// Clients that keep the old address [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    ttl: Option<Duration>,
    /// Clients that wait before they try again [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Stages")]
    backoff: Option<Duration>,

    /// From one probe to the next [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Detection")]
    interval: Option<Duration>,
    /// The same after a failure [default: as before it]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Detection")]
    interval_when_failing: Option<Duration>,
    /// When a probe is given up [default: 0s, every fault answers at once]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Detection")]
    timeout: Option<Duration>,
    /// A row of the table; may be repeated [default: 1, 3, 6, window 60s, 12, window 300s, window 900s]
    #[arg(long = "trigger", value_name = "TRIGGER", help_heading = "Detection")]
    triggers: Vec<Trigger>,
    /// How often blips come, which pass by themselves [default: 4/h]
    #[arg(long, value_name = "RATE", help_heading = "Detection")]
    blips: Option<Rate>,
    /// Their mean length [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Detection")]
    blip_mean: Option<Duration>,

    /// At most this is lost, as a span of writes [default: not asked]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "file", help_heading = "Decision (needs [[option]] in FILE)")]
    rpo: Option<Duration>,
    /// What an hour of downtime costs, in whole units of the currency
    #[arg(long, value_name = "SUM", requires = "file", help_heading = "Decision (needs [[option]] in FILE)")]
    downtime_per_hour: Option<u64>,
    /// Outages that need a recovery
    #[arg(long, value_name = "RATE", requires = "file", help_heading = "Decision (needs [[option]] in FILE)")]
    events: Option<Rate>,
    /// The currency of every sum, in the words to print [default: USD]
    #[arg(long, value_name = "TEXT", requires = "file", help_heading = "Decision (needs [[option]] in FILE)")]
    currency: Option<String>,
    /// Write the decision, every option and the arithmetic as Markdown to this file; one that exists is not overwritten
    #[arg(long, value_name = "FILE", requires = "file", help_heading = "Decision (needs [[option]] in FILE)")]
    adr: Option<PathBuf>,
    /// Overwrite it
    #[arg(long, requires = "adr", help_heading = "Decision (needs [[option]] in FILE)")]
    force: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let plan = match plan(arguments) {
        Ok(plan) => plan,
        Err(message) => return refuse(&message),
    };
    if let Some(file) = &arguments.adr {
        if let Err(message) = record(&plan, arguments, file) {
            return refuse(&message);
        }
        // On standard error: standard output is the plan, and may be JSON.
        let _ = writeln!(anstream::stderr(), "broker-failover: the decision is written to {}", file.display());
    }
    let mut out = anstream::stdout().lock();
    let written = match arguments.json {
        true => writeln!(out, "{:#}", plan_output::json(&plan)),
        false => plan_output::text(&mut out, &plan),
    };
    printed(written, "the plan", ExitCode::from(u8::from(!plan.fits())))
}

/// The plan that the file and the flags describe.
fn plan(arguments: &Arguments) -> Result<Plan, String> {
    let mut settings = match &arguments.file {
        Some(file) => read(file)?,
        None => PlanSettings::default(),
    };
    outrank(&mut settings, arguments)?;
    Plan::new(settings).map_err(|error| error.to_string())
}

fn read(file: &Path) -> Result<PlanSettings, String> {
    let name = file.display();
    let read = load_plan(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
    read.settings.ok_or_else(|| {
        let findings: Vec<_> = read.findings.iter().map(|finding| format!("{name}:{finding}")).collect();
        findings.join("\nbroker-failover: ")
    })
}

/// Puts the flags over what the file said.
fn outrank(settings: &mut PlanSettings, arguments: &Arguments) -> Result<(), String> {
    fn put<T: Clone>(value: &mut T, flag: &Option<T>) {
        if let Some(flag) = flag {
            value.clone_from(flag);
        }
    }
    fn some<T: Clone>(value: &mut Option<T>, flag: &Option<T>) {
        if flag.is_some() {
            value.clone_from(flag);
        }
    }
    put(&mut settings.rto, &arguments.rto);
    settings.worst_case |= arguments.worst_case;
    some(&mut settings.routing, &arguments.routing);
    put(&mut settings.gate, &arguments.gate);
    put(&mut settings.gate_not_before, &arguments.gate_not_before);
    put(&mut settings.promotion, &arguments.promotion);
    put(&mut settings.capacity, &arguments.capacity);
    put(&mut settings.state, &arguments.state);
    put(&mut settings.state_rate, &arguments.state_rate);
    if arguments.beside_gate {
        settings.preparation = Preparation::BesideGate;
    }
    some(&mut settings.shift, &arguments.shift);
    put(&mut settings.ttl, &arguments.ttl);
    put(&mut settings.backoff, &arguments.backoff);
    put(&mut settings.interval, &arguments.interval);
    some(&mut settings.interval_when_failing, &arguments.interval_when_failing);
    put(&mut settings.timeout, &arguments.timeout);
    if !arguments.triggers.is_empty() {
        settings.triggers.clone_from(&arguments.triggers);
    }
    put(&mut settings.blips, &arguments.blips);
    put(&mut settings.blip_mean, &arguments.blip_mean);
    budget(settings, arguments)?;
    if let Some(ladder) = &mut settings.ladder {
        some(&mut ladder.rpo, &arguments.rpo);
        put(&mut ladder.downtime_per_hour, &arguments.downtime_per_hour.map(Money::units));
        put(&mut ladder.events, &arguments.events);
        put(&mut ladder.currency, &arguments.currency);
    } else if arguments.rpo.is_some()
        || arguments.downtime_per_hour.is_some()
        || arguments.events.is_some()
        || arguments.currency.is_some()
        || arguments.adr.is_some()
    {
        return Err("a decision needs options: at least one [[option]] in the plan file".to_owned());
    }
    Ok(())
}

fn budget(settings: &mut PlanSettings, arguments: &Arguments) -> Result<(), String> {
    let Arguments { availability, month, hit, .. } = arguments;
    let stated = settings.budget;
    let Some(availability) = availability.or(stated.map(|budget| budget.availability)) else {
        return match (month, hit) {
            (None, None) => Ok(()),
            _ => Err("--month and --hit need --availability: there is no budget without it".to_owned()),
        };
    };
    settings.budget = Some(Budgeting {
        availability,
        month: month.or(stated.map(|budget| budget.month)).unwrap_or(Month::ThirtyDays),
        hit: hit.or(stated.map(|budget| budget.hit)).unwrap_or(Share::ALL),
    });
    Ok(())
}

/// Writes the decision record: whole, or not at all.
fn record(plan: &Plan, arguments: &Arguments, file: &Path) -> Result<(), String> {
    let Some(ladder) = plan.ladder() else { return Ok(()) };
    not_an_input(file, arguments.file.iter().map(PathBuf::as_path))?;
    let text = DecisionRecord(ladder).to_string();
    write_new(file, text.as_bytes(), arguments.force)
}

/// Refuses to write over what was read: `--force` is meant for the output of an earlier run.
pub(crate) fn not_an_input<'a>(file: &Path, inputs: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    // A file that is not there yet would be where its folder is.
    let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let Some(file_is) =
        file.canonicalize().ok().or_else(|| folder?.canonicalize().ok()?.join(file.file_name()?).into())
    else {
        return Ok(());
    };
    for input in inputs {
        // A folder is read as a whole.
        if let Some(read) = input.canonicalize().ok().filter(|input| file_is.starts_with(input)) {
            let relation = if read == file_is { "is an input" } else { "is in a folder that is an input" };
            return Err(format!(
                "{}: {relation}, {}, and nothing was written; expected another file",
                file.display(),
                input.display()
            ));
        }
    }
    Ok(())
}

/// Writes a file beside its place, then puts it there in one step: a reader sees all of it or what was there before.
fn replace(file: &Path, content: &[u8], overwrite: bool) -> io::Result<()> {
    let name = file.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = folder.join(format!(".{}.{}.new", name.to_string_lossy(), std::process::id()));
    // Whatever is wrong with the file beside it must not be taken for the file itself being there.
    let beside_fault = |error| io::Error::other(format!("{}: {error}", beside.display()));
    let mut unfinished = OpenOptions::new().write(true).create_new(true).open(&beside).map_err(beside_fault)?;
    let put = unfinished.write_all(content).and_then(|()| unfinished.sync_all()).and_then(|()| match overwrite {
        true => fs::rename(&beside, file),
        // A link, unlike a rename, never replaces what is there.
        false => fs::hard_link(&beside, file),
    });
    // After a rename it is gone already.
    let _ = fs::remove_file(&beside);
    put.and_then(|()| File::open(folder)?.sync_all())
}

/// Writes a file whole or not at all; one that exists only if it is to be overwritten, and never in the place of a folder,
/// a device or a pipe.
///
/// # Errors
/// Why nothing was written, in words.
pub(crate) fn write_new(file: &Path, content: &[u8], overwrite: bool) -> Result<(), String> {
    if overwrite && file.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(format!("{}: is no ordinary file, and nothing was written; expected one, or none", file.display()));
    }
    replace(file, content, overwrite).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(file),
        _ => format!("{}: cannot be written: {error}", file.display()),
    })
}

/// What is said of a file that exists and is not to be overwritten.
pub(crate) fn exists(file: &Path) -> String {
    format!("{}: exists, and nothing was written; --force overwrites it", file.display())
}

/// What is wrong with the value of a flag that the library knows by `key`.
pub(crate) fn flag_refused(key: &str, found: &str, expected: &str) -> String {
    // A list has a flag for each of its entries.
    let flag = if key == "triggers" { "trigger".to_owned() } else { key.replace('_', "-") };
    format!("--{flag} is {found}; expected {expected}")
}

/// Refuses, in one line for each line of the message.
pub(crate) fn refuse(message: &str) -> ExitCode {
    let lines: Vec<_> = message.split('\n').map(visible).collect();
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(anstream::stderr(), "broker-failover: {}", lines.join("\n"));
    ExitCode::from(2)
}
