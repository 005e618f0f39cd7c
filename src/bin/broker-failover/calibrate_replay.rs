//! `calibrate --replay`: what the engine would have done with the history.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker_failover::calibration::counterfactual::{Assumptions, Counterfactual, CounterfactualError, Replayed};
use broker_failover::calibration::{History, Report, Timeline};
use broker_failover::supervisor::config::{GroupConfig, Severity, duration, load};
use serde_json::Value;

use crate::calibrate_replay_output::{assumed, json, rate_note, text};

/// Samples between two calls of `progress`.
const STRIDE: u64 = 1 << 14;

/// The flags of a replay.
#[derive(Clone, clap::Args)]
pub(crate) struct ReplayArguments {
    /// Also run the engine over the history with this configuration, and list every switch that it would have made
    #[arg(long, value_name = "CONFIG", help_heading = "Replay")]
    pub(crate) replay: Option<PathBuf>,
    /// The configuration's group, if it has several [default: the one of --group]
    #[arg(long, value_name = "NAME", requires = "replay", help_heading = "Replay")]
    pub(crate) replay_group: Option<String>,
    /// What a fence takes; it is assumed to succeed [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "replay", help_heading = "Replay")]
    fence_time: Option<Duration>,
    /// What a switch takes; it is assumed to succeed [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "replay", help_heading = "Replay")]
    switch_time: Option<Duration>,
    /// What a reconciliation takes; it is assumed to settle everything [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "replay", help_heading = "Replay")]
    reconcile_time: Option<Duration>,
    /// Assume that a person fails back as soon as the engine allows it, where the group leaves that to a person
    #[arg(long, requires = "replay", help_heading = "Replay")]
    assume_failback: bool,
}

impl ReplayArguments {
    /// The group of the configuration that is to be replayed.
    pub(crate) fn group(&self, of_history: Option<&str>) -> Result<Option<GroupConfig>, String> {
        let Some(file) = &self.replay else { return Ok(None) };
        let wanted = self.replay_group.as_deref().or(of_history);
        group(file, wanted).map(Some)
    }

    pub(crate) fn assumptions(&self, group: &GroupConfig, report: &Report) -> Assumptions {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        Assumptions {
            fence: self.fence_time.unwrap_or_default(),
            switch: self.switch_time.unwrap_or_default(),
            reconcile: self.reconcile_time.unwrap_or_default(),
            person_fails_back: self.assume_failback,
            outage: seconds(report.outage_after_seconds),
            rto: report.rto_seconds.map(seconds).or(group.rto),
        }
    }
}

fn group(file: &Path, wanted: Option<&str>) -> Result<GroupConfig, String> {
    let name = file.display();
    let checked = load(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
    let Some(config) = checked.config else {
        let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<_> = errors.map(|finding| format!("{name}:{finding}")).collect();
        return Err(errors.join("\nbroker-failover: "));
    };
    let names: Vec<_> = config.groups.iter().map(|group| format!("{:?}", group.name)).collect();
    let names = names.join(", ");
    let mut groups = config.groups.into_iter();
    match wanted {
        Some(wanted) => groups
            .find(|group| group.name == wanted)
            .ok_or_else(|| format!("{name}: has no group {wanted:?}; expected one of its groups: {names}")),
        None => match (groups.next(), groups.next()) {
            (Some(group), None) => Ok(group),
            _ => Err(format!("{name}: has the groups {names}; expected --replay-group with one of them")),
        },
    }
}

/// What a second reading of the history came to.
pub(crate) struct Seen {
    pub(crate) timeline: Timeline,
    pub(crate) replayed: Option<Replayed>,
}

impl Seen {
    /// Reads the history of `file` once more; only `endpoints` are replayed, unless there are none.
    pub(crate) fn read(
        file: &Path,
        history: &mut History,
        endpoints: &[String],
        replay: Option<(&GroupConfig, Assumptions)>,
        mut progress: impl FnMut(),
    ) -> Result<Self, String> {
        let started = replay.map(|(group, assumptions)| Counterfactual::new(group, assumptions)).transpose();
        let refused = |error: CounterfactualError| format!("{}: {error}", file.display());
        let mut counterfactual = started.map_err(refused)?;
        let mut timeline = Timeline::default();
        let mut count = 0_u64;
        while let Some(sample) = history.next() {
            let sample = sample.map_err(|error| error.to_string())?;
            timeline.add(&sample);
            let name = history.names().name(sample.endpoint);
            let wanted = endpoints.is_empty() || endpoints.iter().any(|one| one == name);
            if let Some(counterfactual) = counterfactual.as_mut().filter(|_| wanted) {
                counterfactual.sample(sample.at, name, sample.ok).map_err(refused)?;
            }
            count += 1;
            if count % STRIDE == 0 {
                progress();
            }
        }
        let replayed = counterfactual.map(Counterfactual::finish).transpose().map_err(refused)?;
        Ok(Self { timeline, replayed })
    }
}

/// A replay, with what is to be said of it.
pub(crate) struct Replay {
    pub(crate) replayed: Replayed,
    pub(crate) notes: Vec<String>,
}

impl Replay {
    pub(crate) fn new(replayed: Replayed, group: &GroupConfig, report: &Report) -> Self {
        let notes = assumed(&replayed).into_iter().chain(rate_note(group, report)).collect();
        Self { replayed, notes }
    }

    pub(crate) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        text(out, &self.replayed, &self.notes)
    }

    pub(crate) fn json(&self) -> Value {
        json(&self.replayed, &self.notes)
    }
}
