//! Plan files: the inputs of `broker-failover plan`, as TOML.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::planning::{
    Budgeting, Candidate, LadderSettings, Money, Month, Plan, PlanSettings, Preparation, Rung, Share, TextError,
};
use crate::scenario::{DURATION, parse_duration};

use super::build::text_of;
use super::findings::{Finding, Findings};
use super::keys::{Key, Kind, Presence, Shape, key};
use super::read::{self, Table};

/// The largest sum of money that a file may state, in whole units.
const MOST_MONEY: u64 = 1_000_000_000_000_000;
const MONEY: Kind = Kind::Integer { least: 0, most: MOST_MONEY };

const RUNGS: [&str; Rung::ALL.len()] =
    [Rung::ALL[0].key(), Rung::ALL[1].key(), Rung::ALL[2].key(), Rung::ALL[3].key(), Rung::ALL[4].key()];

const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Key {
    key(name, kind, Presence::Optional, about)
}

/// Every key of a plan file, once. They are the command's flags, with `_` for `-`.
static PLAN: Shape = Shape {
    about: "Inputs of broker-failover plan",
    keys: &[
        optional("rto", Kind::Duration, "Recovery takes at most this"),
        optional("worst_case", Kind::Flag, "Judge by the worst case"),
        optional("gate", Kind::Duration, "Checks and approval"),
        optional("gate_not_before", Kind::Duration, "From the fault on, when the gate may close at the earliest"),
        optional("promotion", Kind::Duration, "The standby becomes the one that may write"),
        optional("capacity", Kind::Duration, "Machines that have to start (cold)"),
        optional("state", Kind::Text, "State that has to be loaded (warm, cold), such as \"140GB\""),
        optional("state_rate", Kind::Text, "How fast it is loaded, such as \"1GB/s\""),
        optional("beside_gate", Kind::Flag, "Whether capacity and state load begin at detection"),
        optional("shift", Kind::Duration, "Traffic moves"),
        optional("ttl", Kind::Duration, "Clients that keep the old address"),
        optional("backoff", Kind::Duration, "Clients that wait before they try again"),
        optional("interval", Kind::Duration, "From one probe to the next"),
        optional("interval_when_failing", Kind::Duration, "The same after a failure"),
        optional("timeout", Kind::Duration, "When a probe is given up"),
        optional("triggers", Kind::Texts, "Rows of the table, such as [\"3\", \"window 60s\"]"),
        optional("blips", Kind::Text, "How often blips come, such as \"4/h\""),
        optional("blip_mean", Kind::Duration, "Their mean length"),
        optional("availability", Kind::Text, "What was promised, such as \"99.99%\""),
        optional("month", Kind::Text, "The month of the error budget: \"30d\" or \"average\""),
        optional("hit", Kind::Text, "The share that an outage hits, such as \"40%\""),
        optional("routing", Kind::Text, "What moves traffic, such as \"dns:60s\""),
        optional("rpo", Kind::Duration, "At most this is lost, as a span of writes"),
        optional("downtime_per_hour", MONEY, "What an hour of downtime costs, in whole units"),
        optional("events", Kind::Text, "Outages that need a recovery, such as \"1/3y\""),
        optional("currency", Kind::Text, "The currency of every sum"),
        optional("option", Kind::Tables(&OPTION), "The options to decide between"),
    ],
};

static OPTION: Shape = Shape {
    about: "One option",
    keys: &[
        key("name", Kind::Text, Presence::Required, "What it is called"),
        optional("rung", Kind::Choice(&RUNGS), "Which rung of the ladder it is"),
        key("rto", Kind::Duration, Presence::Required, "How long a recovery takes, measured"),
        key("rpo", Kind::Duration, Presence::Required, "How much it may lose, as a span of writes"),
        key("cost_per_month", MONEY, Presence::Required, "What it costs to run, in whole units"),
        optional("unpriced", Kind::Text, "What it costs that is not in the sum"),
    ],
};

/// What reading a plan file came to.
#[derive(Debug)]
pub struct PlanFile {
    /// The inputs, if nothing in the file is refused. What the file leaves out has its default.
    pub settings: Option<PlanSettings>,
    /// Every error, in the order of the file.
    pub findings: Vec<Finding>,
}

/// Reads a plan file.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn load_plan(file: &Path) -> std::io::Result<PlanFile> {
    Ok(parse_plan(&text_of(file)?))
}

/// Reads the text of a plan file. Unknown keys are errors, and a bare number is never a duration.
#[must_use]
pub fn parse_plan(text: &str) -> PlanFile {
    let mut findings = Findings::new(text);
    let file = read::file(text, &PLAN, &mut findings);
    let mut reader = Reader { file: &file, findings };
    let settings = reader.settings();
    // A sum of single values that is no plan is told at the key that is in the way.
    if let (0, Err(error)) = (reader.findings.errors(), Plan::new(settings.clone())) {
        let key = if error.key == "rung" { "option" } else { error.key };
        reader.findings.error(&file.span_of(key), &file.path_of(key), error.found, error.expected);
    }
    let settings = Some(settings).filter(|_| reader.findings.errors() == 0);
    PlanFile { settings, findings: reader.findings.sorted() }
}

/// A duration such as `1h 30m`, as every file and flag takes it.
///
/// # Errors
/// Anything else; a bare number is never a duration.
pub fn duration(text: &str) -> Result<Duration, TextError> {
    parse_duration(text).ok_or_else(|| TextError { found: text.to_owned(), expected: DURATION })
}

struct Reader<'a> {
    file: &'a Table,
    findings: Findings<'a>,
}

impl Reader<'_> {
    fn settings(&mut self) -> PlanSettings {
        let file = self.file;
        let default = PlanSettings::default();
        let span = |key, or| file.duration(key).unwrap_or(or);
        let triggers = match file.entry("triggers") {
            Some(_) => file.texts("triggers").iter().filter_map(|text| self.read("triggers", text)).collect(),
            None => default.triggers,
        };
        PlanSettings {
            rto: span("rto", default.rto),
            worst_case: file.flag("worst_case"),
            gate: span("gate", default.gate),
            gate_not_before: span("gate_not_before", default.gate_not_before),
            promotion: span("promotion", default.promotion),
            capacity: span("capacity", default.capacity),
            state: self.text("state").unwrap_or(default.state),
            state_rate: self.text("state_rate").unwrap_or(default.state_rate),
            preparation: match file.flag("beside_gate") {
                true => Preparation::BesideGate,
                false => Preparation::AfterPromotion,
            },
            shift: file.duration("shift"),
            ttl: span("ttl", default.ttl),
            backoff: span("backoff", default.backoff),
            interval: span("interval", default.interval),
            interval_when_failing: file.duration("interval_when_failing"),
            timeout: span("timeout", default.timeout),
            triggers,
            blips: self.text("blips").unwrap_or(default.blips),
            blip_mean: span("blip_mean", default.blip_mean),
            budget: self.budget(),
            routing: self.text("routing"),
            ladder: self.ladder(),
        }
    }

    fn budget(&mut self) -> Option<Budgeting> {
        let month = self.text("month");
        let hit = self.text("hit");
        let availability = self.text("availability");
        for (key, given) in [("month", month.is_some()), ("hit", hit.is_some())] {
            if given && self.file.entry("availability").is_none() {
                self.error(key, "a value that nothing uses", "availability beside it");
            }
        }
        let (month, hit) = (month.unwrap_or(Month::ThirtyDays), hit.unwrap_or(Share::ALL));
        Some(Budgeting { availability: availability?, month, hit })
    }

    fn ladder(&mut self) -> Option<LadderSettings> {
        let events = self.text("events");
        let candidates: Vec<_> = self.file.tables("option").iter().filter_map(candidate).collect();
        if self.file.entry("option").is_none() {
            for key in ["rpo", "downtime_per_hour", "events", "currency"] {
                if self.file.entry(key).is_some() {
                    self.error(key, "a value that nothing uses", "at least one [[option]] beside it");
                }
            }
            return None;
        }
        for key in ["downtime_per_hour", "events"] {
            if self.file.entry(key).is_none() {
                self.error(key, "the key is missing", "a value: the options are priced with it");
            }
        }
        let rto = self.file.duration("rto").unwrap_or(PlanSettings::default().rto);
        Some(LadderSettings {
            rto,
            rpo: self.file.duration("rpo"),
            routing: None,
            downtime_per_hour: Money::units(self.file.integer("downtime_per_hour")?),
            events: events?,
            currency: self.file.text("currency").unwrap_or("USD").to_owned(),
            candidates,
        })
    }

    /// The text at `key`, read; what cannot be read is a finding.
    fn text<T: FromStr<Err = TextError>>(&mut self, key: &str) -> Option<T> {
        let text = self.file.text(key)?;
        self.read(key, text)
    }

    fn read<T: FromStr<Err = TextError>>(&mut self, key: &str, text: &str) -> Option<T> {
        text.parse().map_err(|TextError { found, expected }| self.error(key, format!("found {found:?}"), expected)).ok()
    }

    fn error(&mut self, key: &str, found: impl Display, expected: &str) {
        self.findings.error(&self.file.span_of(key), &self.file.path_of(key), found.to_string(), expected);
    }
}

fn candidate(table: &Table) -> Option<Candidate> {
    let rung = table.text("rung").and_then(|key| Rung::ALL.into_iter().find(|rung| rung.key() == key));
    Some(Candidate {
        name: table.text("name")?.to_owned(),
        rung,
        rto: table.duration("rto")?,
        rpo: table.duration("rpo")?,
        cost_per_month: Money::units(table.integer("cost_per_month")?),
        unpriced: table.text("unpriced").unwrap_or_default().to_owned(),
    })
}
