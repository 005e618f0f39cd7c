//! `simulate`: what each trigger's patience costs, on random blips and outages.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use broker_failover::planning::{Rate, Share, Spoken};
use broker_failover::sim::{Rule, Simulation, SimulationError, SimulationSettings};
use broker_failover::supervisor::config::duration;

use crate::plan::{flag_refused, refuse, write_new};
use crate::printed::printed;
use crate::{simulate_output, simulate_plot};

/// Simulate triggers: how often each fails over for nothing on calm days, how soon it detects an outage, and which
/// outages it misses.
///
/// The triggers run in the engine that runs in production; blips and outages are random. Without arguments it prints the
/// worked example: every value has the default that its flag states. They are a starting point, not a recommendation. The
/// same flags give the same output, byte for byte.
#[derive(clap::Args)]
#[command(
    after_help = "A DURATION is integers with units: 250ms, 60s, 1h 30m (ns, us, ms, s, m, h, d). A RATE is 4/h or 1/3y \
    (s, m, h, d, y). A SHARE is 0.1% or 0.001. A TRIGGER is a number of failures in a row, 3; a window of nothing but \
    failures, \"window 60s\"; or failures among the newest results, \"3 of 5\".\n\n\
    Exit status: 0 simulated; 2 the command line is at fault, or the output cannot be written."
)]
pub(crate) struct Arguments {
    /// Runs, each with a seed of its own; 1 to 100000 [default: 30]
    #[arg(long, value_name = "N", help_heading = "Sample")]
    seeds: Option<u32>,
    /// The seed of the first run; those of the others follow [default: 1]
    #[arg(long, value_name = "N", help_heading = "Sample")]
    seed: Option<u64>,
    /// Calm days in each run; 1 to 36500 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Sample")]
    days: Option<u32>,

    /// From one probe to the next [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "World")]
    interval: Option<Duration>,
    /// Probes that fail one by one though the path works [default: 0%]
    #[arg(long, value_name = "SHARE", help_heading = "World")]
    probe_loss: Option<Share>,
    /// How often blips come, which pass by themselves [default: 4/h]
    #[arg(long, value_name = "RATE", help_heading = "World")]
    blips: Option<Rate>,
    /// Their mean length, a table for each; may be repeated [default: 20s, 60s]
    #[arg(long = "blip-mean", value_name = "DURATION", value_parser = duration, help_heading = "World")]
    blip_means: Vec<Duration>,
    /// How long the outages last: each run has one in which probes fail, and one that takes the prober with it [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "World")]
    outage: Option<Duration>,

    /// A row of the tables; may be repeated [default: 1, 3, 6, window 60s, 12, window 300s, window 900s]
    #[arg(long = "trigger", value_name = "TRIGGER", help_heading = "Triggers")]
    triggers: Vec<Rule>,

    /// As JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Also plot patience against both prices to this file, as SVG; one that exists is not overwritten
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Overwrite it
    #[arg(long, requires = "svg", help_heading = "Output")]
    force: bool,
}

impl Arguments {
    fn settings(&self) -> SimulationSettings {
        let defaults = SimulationSettings::default();
        let or = |given: &Vec<Duration>, default| if given.is_empty() { default } else { given.clone() };
        SimulationSettings {
            seeds: self.seeds.unwrap_or(defaults.seeds),
            first_seed: self.seed.unwrap_or(defaults.first_seed),
            days: self.days.unwrap_or(defaults.days),
            interval: self.interval.unwrap_or(defaults.interval),
            probe_loss: self.probe_loss.unwrap_or(defaults.probe_loss),
            blips: self.blips.unwrap_or(defaults.blips),
            blip_means: or(&self.blip_means, defaults.blip_means),
            triggers: if self.triggers.is_empty() { defaults.triggers } else { self.triggers.clone() },
            outage: self.outage.unwrap_or(defaults.outage),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let simulated = Simulation::new(arguments.settings()).and_then(|simulation| {
        let mut meter = Meter::start();
        let tables = simulation.run(|done, all| meter.show(done, all));
        meter.end();
        tables.map(|tables| (simulation, tables))
    });
    let (simulation, tables) = match simulated {
        Ok(simulated) => simulated,
        Err(SimulationError::Setting { key, found, expected }) => return refuse(&flag_refused(key, &found, &expected)),
        Err(error) => return refuse(&error.to_string()),
    };
    if let Some(file) = &arguments.svg {
        let plot = simulate_plot::svg(simulation.settings(), &tables);
        if let Err(message) = write_new(file, plot.as_bytes(), arguments.force) {
            return refuse(&message);
        }
    }
    let mut out = anstream::stdout().lock();
    let written = match arguments.json {
        true => writeln!(out, "{:#}", simulate_output::json(simulation.settings(), &tables)),
        false => simulate_output::text(&mut out, simulation.settings(), &tables),
    };
    printed(written, "the simulation", ExitCode::SUCCESS)
}

/// How far a long run is and what it will still take, on standard error, if somebody looks at it.
struct Meter {
    started: Instant,
    wanted: bool,
    /// When something was said last.
    said: Option<Instant>,
}

#[expect(clippy::disallowed_methods, reason = "a person is told how long it will take")]
impl Meter {
    fn start() -> Self {
        Self { started: Instant::now(), wanted: io::stderr().is_terminal(), said: None }
    }

    fn show(&mut self, done: u64, all: u64) {
        if self.wanted && self.said.unwrap_or(self.started).elapsed() >= Duration::from_secs(1) {
            self.said = Some(Instant::now());
            let _ = write!(io::stderr(), "\r{:60}", progress(done, all, self.started.elapsed()));
        }
    }

    /// Leaves an empty line.
    fn end(&self) {
        if self.said.is_some() {
            let _ = write!(io::stderr(), "\r{:60}\r", "");
        }
    }
}

/// `simulated 12.5 %, about 2 h 30 min left`, if the rest takes as long as what was done.
fn progress(done: u64, all: u64, took: Duration) -> String {
    let left = took.as_secs_f64() * all.saturating_sub(done) as f64 / done.max(1) as f64;
    let share = done as f64 * 100.0 / all.max(1) as f64;
    // To two of its units, which is more than is known.
    let step = match left {
        minutes if minutes < 3_600.0 => 1.0,
        hours if hours < 86_400.0 => 60.0,
        _ => 3_600.0,
    };
    let left = Duration::try_from_secs_f64((left / step).ceil() * step).unwrap_or(Duration::MAX);
    format!("simulated {share:.1} %, about {} left", Spoken(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_far_it_is_and_what_is_left() {
        let said = |done, all, seconds| progress(done, all, Duration::from_secs(seconds));
        assert_eq!(said(1, 200_000, 2), "simulated 0.0 %, about 4d 16h left");
        assert_eq!(said(50, 100, 5_430), "simulated 50.0 %, about 1h 31m left");
        assert_eq!(said(3, 4, 30), "simulated 75.0 %, about 10s left");
        assert_eq!(said(4, 4, 30), "simulated 100.0 %, about 0s left");
    }
}
