//! `journal`: reads what a supervisor recorded.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use broker_failover::engine::{Evaluation, FenceClaim, HaltOrder, Input, ProbeResult, RestartKind, SnapshotFlow};
use broker_failover::planning::counted;
use broker_failover::scenario::Verb;
use broker_failover::supervisor::config::duration;
use broker_failover::supervisor::group::Command as Asked;
use broker_failover::supervisor::hooks::{HookReport, HookResult};
use broker_failover::supervisor::journal::{
    Answer, Body, Checkpoint, CommandRecord, Counts, Exported, ReadError, Record, Seq, StageRecord, Torn, export,
    follow_nothing, for_each, read_time, verify,
};
use broker_failover::supervisor::visible::one_line;

const ALARM: Style = AnsiColor::Red.on_default().bold();
const MOVE: Style = AnsiColor::Cyan.on_default().bold();
const CARE: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const FAINT: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// Read what a supervisor recorded. Nothing is changed, and the supervisor may be running.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 the journal is sound; 1 its last line is torn, which the next start cuts; 2 it is \
    damaged, of another version, or cannot be read (show, export: or says nothing of the group)."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print what happened, as a table for people. Times are UTC
    Show(Show),
    /// Check every line, the chain, the numbers, and that every input is answered as recorded
    Verify {
        /// The journal's folder
        dir: PathBuf,
    },
    /// Print what a group went through as a scenario: broker-failover journal export DIR --group G | broker-failover replay -
    Export {
        /// The journal's folder
        dir: PathBuf,
        /// The group
        #[arg(long)]
        group: String,
        /// Up to this record (the last one)
        #[arg(long)]
        to: Option<Seq>,
    },
}

#[derive(clap::Args)]
struct Show {
    /// The journal's folder
    dir: PathBuf,
    /// Only this group
    #[arg(long)]
    group: Option<String>,
    /// Leave out what only repeats: results of probes that leave their endpoint in the state that it was in, and answers
    /// that say the same again
    #[arg(long)]
    no_probes: bool,
    /// Only from then on: 2026-11-29T22:13:05Z (UTC if it names no offset), or a duration back from the last record: 2h
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
    /// Only the last N of the rows that the other flags leave
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// The state that each segment begins with, too
    #[arg(long)]
    all: bool,
}

/// A moment.
#[derive(Clone, Copy)]
enum Since {
    /// Microseconds since 1970.
    At(u64),
    /// Before the last record.
    Back(Duration),
}

fn since(text: &str) -> Result<Since, String> {
    let back = || duration(text).ok().map(Since::Back);
    read_time(text).map(Since::At).or_else(back).ok_or_else(|| {
        "expected a time such as 2026-11-29T22:13:05Z, or a duration back from the last record such as 2h".to_owned()
    })
}

/// How a run ended; the number is the exit status.
#[derive(Clone, Copy)]
enum Ending {
    Sound = 0,
    Torn = 1,
    Damaged = 2,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut out = Out { to: BufWriter::new(anstream::stdout().lock()), error: None };
    let ending = match &arguments.command {
        Command::Show(arguments) => show(arguments, &mut out),
        Command::Verify { dir } => check(dir, &mut out),
        Command::Export { dir, group, to } => print_scenario(dir, group, *to, &mut out),
    };
    out.print(|to| to.flush());
    let ending = ending.unwrap_or_else(|message| {
        complain(&message);
        Ending::Damaged
    });
    let ending = match out.error {
        // The reader has seen enough (`| head`).
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write: {error}"));
            Ending::Damaged
        }
        _ => ending,
    };
    ExitCode::from(ending as u8)
}

/// Standard output; the first error ends the printing.
struct Out<W: Write> {
    to: W,
    error: Option<io::Error>,
}

impl<W: Write> Out<W> {
    fn print(&mut self, print: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = print(&mut self.to).err();
        }
    }
}

fn show(arguments: &Show, out: &mut Out<impl Write>) -> Result<Ending, String> {
    let Show { dir, group, no_probes, since, last, all } = arguments;
    let from = match since {
        None => 0,
        Some(Since::At(wall)) => *wall,
        Some(Since::Back(back)) => {
            let mut newest = 0;
            // Damage is told below, after what stands before it.
            let _ = for_each(dir, |record, _| newest = record.wall);
            newest.saturating_sub(u64::try_from(back.as_micros()).unwrap_or(u64::MAX))
        }
    };
    let (mut records, mut known) = (0_u64, false);
    let (mut said, mut kept) = (Said::default(), VecDeque::new());
    let torn = for_each(dir, |record, in_head| {
        records += 1;
        let asked = group.as_ref().is_none_or(|group| record.group.as_ref().is_some_and(|of| **of == **group));
        if asked && !known {
            known = true;
            out.print(|to| writeln!(to, "{:>8} {:<26} {:<14} WHAT", "RECORD", "TIME (UTC)", "GROUP"));
        }
        let wanted = asked && (*all || !in_head) && record.wall >= from;
        if !wanted || *no_probes && said.repeats(record) {
            return;
        }
        match last {
            None => out.print(|to| row(to, record)),
            Some(last) => {
                kept.push_back(record.clone());
                if kept.len() > *last {
                    kept.pop_front();
                }
            }
        }
    });
    kept.iter().for_each(|record| out.print(|to| row(to, record)));
    let torn = torn.map_err(|error| message(dir, &error))?;
    if records == 0 {
        return Err(nothing(dir));
    }
    if let Some(group) = group.as_ref().filter(|_| !known) {
        return Err(unknown(dir, group));
    }
    Ok(torn.map_or(Ending::Sound, |torn| {
        complain(&torn_text(&torn));
        Ending::Torn
    }))
}

/// What was said last, by group and question.
#[derive(Default)]
struct Said(HashMap<(String, String), String>);

impl Said {
    /// Whether a record says no more than the one before it of the same group that answers the same question.
    fn repeats(&mut self, record: &Record) -> bool {
        let group = record.group.as_deref().unwrap_or_default();
        // That order flow changed is said once, and is never a repetition.
        let plain = |answer: &Answer| Answer { flow: None, ..answer.clone() }.to_string();
        let (question, answer) = match &record.body {
            Body::Start(_) => {
                self.0.clear();
                return false;
            }
            Body::Input { verb: Verb::Restart(_), .. } => {
                self.0.retain(|(of, _), _| of != group);
                return false;
            }
            Body::Input { verb: Verb::Input(Input::Probe { endpoint, .. }), answer } => {
                (format!("probe {endpoint}"), plain(answer))
            }
            Body::Input { verb, answer } => match verb {
                Verb::Input(Input::Evaluate(..) | Input::Assess(..) | Input::Tick | Input::Due { .. }) => {
                    (input(verb), plain(answer))
                }
                _ => return false,
            },
            // The result of a slot, too.
            Body::Note(note) if note.code == "NO_EVIDENCE" => {
                let endpoint = note.text.split(':').next().unwrap_or_default();
                (format!("probe {endpoint}"), note.text.to_string())
            }
            _ => return false,
        };
        let before = self.0.insert((group.to_owned(), question), answer.clone());
        let moves_flow = matches!(&record.body, Body::Input { answer: Answer { flow: Some(_), .. }, .. });
        !moves_flow && before.is_some_and(|before| before == answer)
    }
}

fn check(dir: &Path, out: &mut Out<impl Write>) -> Result<Ending, String> {
    let counts = verify(dir, follow_nothing).map_err(|error| message(dir, &error))?;
    let Some((oldest, newest)) = counts.segments.first().zip(counts.segments.last()) else {
        return Err(nothing(dir));
    };
    let Counts { segments, kinds, inputs, groups, torn } = &counts;
    out.print(|to| {
        let (records, bytes) = (counted(counts.records(), "record"), counted(counts.bytes(), "byte"));
        let (segments, are) = (counted(segments.len(), "segment"), if *inputs == 1 { "is" } else { "are" });
        writeln!(to, "{records} ({} to {}) in {segments}, {bytes}; the chain is whole", oldest.first, newest.last)?;
        writeln!(to, "{} {are} answered as recorded; groups: {}", counted(inputs, "input"), groups.join(", "))?;
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        writeln!(to, "{}", kinds.join(", "))
    });
    Ok(match torn {
        None => Ending::Sound,
        Some(torn) => {
            complain(&torn_text(torn));
            Ending::Torn
        }
    })
}

fn print_scenario(dir: &Path, group: &str, to: Option<Seq>, out: &mut Out<impl Write>) -> Result<Ending, String> {
    let exported = export(dir, group, to, |Exported { line, .. }| out.print(|to| writeln!(to, "{line}")));
    match exported.map_err(|error| message(dir, &error))? {
        true => Ok(Ending::Sound),
        false => {
            let mut records = 0_u64;
            for_each(dir, |_, _| records += 1).map_err(|error| message(dir, &error))?;
            Err(if records == 0 { nothing(dir) } else { unknown(dir, group) })
        }
    }
}

fn torn_text(torn: &Torn) -> String {
    let Torn { segment, line, bytes, .. } = torn;
    format!(
        "{segment}, line {line}: {} of a write that did not come to its end; the next start cuts that and keeps \
         it aside (a supervisor that is writing at this moment looks the same)",
        counted(bytes.len(), "byte")
    )
}

fn nothing(dir: &Path) -> String {
    format!("{}: there is no journal", dir.display())
}

fn unknown(dir: &Path, group: &str) -> String {
    format!("{}: says nothing of a group {group:?}", dir.display())
}

fn message(dir: &Path, error: &ReadError) -> String {
    match error {
        ReadError::Damaged(_) => format!("{}: {error}", dir.display()),
        ReadError::Io { .. } => error.to_string(),
    }
}

fn row(to: &mut impl Write, record: &Record) -> io::Result<()> {
    let (style, what) = describe(&record.body);
    // A person's words may hold anything; a row stays a row.
    let what = one_line(&what);
    let wall = record.wall_text().replace('T', " ").replace('Z', "");
    let group = one_line(record.group.as_deref().unwrap_or("-"));
    writeln!(to, "{:>8} {wall:<26} {group:<14} {style}{what}{style:#}", record.seq)
}

/// What happened in words, and how loud it is.
fn describe(body: &Body) -> (Style, String) {
    match body {
        Body::Segment(segment) => (FAINT, format!("a segment begins with {}", counted(segment.groups, "group"))),
        Body::Start(start) => {
            let (version, pid, hash) = (&start.version, start.pid, &start.config_hash);
            (MOVE, format!("supervisor {version} started, process {pid}, configuration {hash}"))
        }
        Body::Config(config) => (FAINT, format!("configured: {}", config.line)),
        Body::Snapshot(checkpoint) => (FAINT, state(checkpoint)),
        Body::Input { verb, answer } => (loudness(answer), format!("{}: {answer}", input(verb))),
        Body::HookStart(hook) => {
            let request = &hook.request;
            let (stage, endpoint, epoch, level) = (request.stage, &request.endpoint, request.epoch, hook.level);
            (CARE, format!("hook {stage} level {level} starts: {endpoint} #{epoch}, {}", request.reason))
        }
        Body::HookEnd(hook) => {
            let (style, how) = ended(&hook.report);
            let (stage, endpoint, epoch, level) = (hook.stage, &hook.endpoint, hook.epoch, hook.level);
            (style, format!("hook {stage} level {level} ended: {endpoint} #{epoch}, {how}"))
        }
        Body::Stage(stage) => (MOVE, stage_text(stage)),
        Body::Command(command) => command_text(command),
        Body::Note(note) if note.shadow.is_some() => (CARE, format!("{}: {}", note.code, note.text)),
        Body::Note(note) => (ALARM, format!("{}: {}", note.code, note.text)),
        Body::Stop(stop) => (MOVE, format!("supervisor stopped: {}", stop.reason)),
    }
}

fn state(checkpoint: &Checkpoint) -> String {
    let snapshot = &checkpoint.snapshot;
    let active = snapshot.active.as_ref().map_or_else(
        || "nothing active".to_owned(),
        |active| format!("{} #{}{}", active.endpoint, active.epoch, if active.spent { " (spent)" } else { "" }),
    );
    let flow = match &snapshot.order_flow {
        SnapshotFlow::Open => "OPEN".to_owned(),
        SnapshotFlow::Starting => "HOLD STARTING".to_owned(),
        SnapshotFlow::Switching => "HOLD SWITCHING".to_owned(),
        SnapshotFlow::Reconciling => "HOLD RECONCILING".to_owned(),
        SnapshotFlow::NoTargetAvailable => "HALT NO_TARGET_AVAILABLE".to_owned(),
        SnapshotFlow::Halted { code, text } => format!("HALT {code}, {text}"),
    };
    format!("state: {active}, {flow}")
}

fn loudness(answer: &Answer) -> Style {
    if answer.flow.as_deref().is_some_and(|flow| flow.starts_with("HALT")) {
        return ALARM;
    }
    match &*answer.outcome {
        "NO_TARGET_AVAILABLE" | "DOWN" | Answer::REFUSED => ALARM,
        "SWITCHED" => MOVE,
        "FENCE_REQUIRED" | "COOLDOWN_ACTIVE" | "NOT_STABLE_YET" | "FLAP_SUPPRESSED" | "DEGRADED" => CARE,
        "HEALTHY" => GOOD,
        _ => PLAIN,
    }
}

fn input(verb: &Verb) -> String {
    let claimed = |claim: &FenceClaim| match claim {
        FenceClaim::None => String::new(),
        FenceClaim::Present => ", fenced".to_owned(),
        FenceClaim::Epoch(epoch) => format!(", epoch {epoch} fenced"),
    };
    let question = |evaluation: &Evaluation| match evaluation {
        Evaluation::Failover => "failover".to_owned(),
        Evaluation::Failback => "failback".to_owned(),
        Evaluation::Switchover(target) => format!("switchover to {target}"),
    };
    match verb {
        Verb::Restart(RestartKind::Monitor) => "what was seen is forgotten (restart of the monitor)".to_owned(),
        Verb::Restart(RestartKind::Gateway) => "restart of the gateway".to_owned(),
        Verb::Status | Verb::WallStep(_) => verb.name().to_owned(),
        Verb::Input(input) => match input {
            Input::Probe { endpoint, result: ProbeResult::Success } => format!("probe {endpoint} ok"),
            Input::Probe { endpoint, result: ProbeResult::Failure(error) } => {
                format!("probe {endpoint} failed ({error})")
            }
            Input::Evaluate(evaluation, claim) => format!("{}{}", question(evaluation), claimed(claim)),
            Input::Assess(evaluation, claim) => format!("assess {}{}", question(evaluation), claimed(claim)),
            Input::FenceStarted(epoch) => format!("fence started, epoch {epoch}"),
            Input::SwitchFailed(epoch) => format!("switch failed, epoch {epoch}"),
            Input::Reconciled(epoch) => format!("reconciled, epoch {epoch}"),
            Input::Register(endpoint) => format!("endpoint {} registered", endpoint.name),
            Input::Update { name, .. } => format!("endpoint {name} updated"),
            Input::Maintenance { endpoint, on } => format!("maintenance {endpoint} {}", if *on { "on" } else { "off" }),
            Input::Bar { endpoint, cause, on: true } => format!("{endpoint} is barred: {}", cause.code()),
            Input::Bar { endpoint, cause, on: false } => format!("bar of {endpoint} lifted: {}", cause.code()),
            Input::Halt(order) if order.code() == HaltOrder::OPERATOR => format!("halt: {}", order.text()),
            Input::Halt(order) => format!("halt {}: {}", order.code(), order.text()),
            Input::Due { endpoint, within } => format!("a result of {endpoint} is due within {within:?}"),
            Input::Tick | Input::Rearm | Input::Validate | Input::Resume => verb.name().to_owned(),
        },
    }
}

fn ended(report: &HookReport) -> (Style, String) {
    let counts = report.counts.map_or_else(String::new, |counts| {
        format!(", {} resting, {} filled, {} unknown", counts.resting, counts.filled, counts.unknown)
    });
    match &report.result {
        HookResult::Ok => (GOOD, format!("ok in {} ms{counts}", report.millis)),
        failed => (ALARM, format!("{failed} after {} ms: {:?}", report.millis, report.output)),
    }
}

fn stage_text(stage: &StageRecord) -> String {
    let kind = stage.kind.map_or("switch", |kind| kind.name());
    let to = stage.to.as_deref().unwrap_or("?");
    let mut text = format!("{kind} {} -> {to}: {}, epoch {}", stage.from, stage.stage.name(), stage.epoch);
    if let Some(fence) = &stage.fence {
        text = format!("{text}, fenced by {}", fence.by);
        if let Some(proves) = &fence.proves {
            text = format!("{text} ({proves})");
        }
    }
    if let Some(detail) = &stage.detail {
        text = format!("{text}: {detail}");
    }
    text
}

fn command_text(command: &CommandRecord) -> (Style, String) {
    let who = command.peer.map_or_else(String::new, |peer| format!(" by user {}, process {}", peer.uid, peer.pid));
    // What another version asked, as it is written.
    let asked = serde_json::from_value::<Asked>(command.command.clone())
        .map_or_else(|_| command.command.to_string(), |asked| asked.to_string());
    match &command.refused {
        None => (CARE, format!("command{who}: {asked}")),
        Some(why) => (ALARM, format!("command{who}: {asked}, refused: {why}")),
    }
}

fn complain(message: &str) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(anstream::stderr(), "broker-failover: {message}");
}
