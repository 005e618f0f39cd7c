//! The verification list that this crate grew from, one test for each of its lines, named after it.

use std::cell::Cell;
use std::io;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::manager::{Manager, ProbeAborted, ProbeError, ProbeFault};

const NO_FENCE: FenceStatus = FenceStatus::Unconfirmed;

fn east() -> Endpoint {
    Endpoint::primary("east", "us-east-1", "https://east.example")
}

fn west() -> Endpoint {
    Endpoint::backup("west", "us-west-2", "https://west.example", 10)
}

fn engine(settings: PolicySettings) -> (Engine, EndpointId, EndpointId) {
    let mut engine = Engine::new(Policy::new(settings).unwrap());
    let (east, west) = (engine.register(east()).unwrap(), engine.register(west()).unwrap());
    engine.validate_configuration().unwrap();
    (engine, east, west)
}

/// A virtual clock: every look at it is a second later.
#[derive(Default)]
struct Clock(Cell<u64>);

impl Clock {
    fn tick(&self) -> Timestamp {
        self.0.set(self.0.get() + 1);
        Timestamp::from_elapsed(Duration::from_secs(self.0.get()))
    }

    fn probe(&self, engine: &mut Engine, endpoint: EndpointId, ok: bool) -> EndpointState {
        let result = if ok { ProbeResult::Success } else { ProbeResult::FAILED };
        engine.record_probe(self.tick(), endpoint, result).unwrap().to
    }
}

#[test]
fn unprobed_backup_is_no_target_available_with_halt_and_active_unchanged_then_one_probe_is_switched() {
    let clock = Clock::default();
    let settings = PolicySettings { failure_threshold: 2, require_fence: false, ..PolicySettings::default() };
    let (mut engine, east, west) = engine(settings);
    assert_eq!(clock.probe(&mut engine, east, false), EndpointState::Degraded);
    assert_eq!(clock.probe(&mut engine, east, false), EndpointState::Down);

    let nowhere = engine.evaluate_failover(clock.tick(), NO_FENCE).unwrap();
    assert_eq!(nowhere.outcome, FailoverOutcome::NoTargetAvailable);
    assert!(nowhere.requires_trading_halt());
    assert_eq!(engine.order_flow(), OrderFlow::Halt { code: HaltCode::NoTargetAvailable });
    assert_eq!((engine.active(), engine.epoch()), (Some(east), Some(Epoch::FIRST)));

    clock.probe(&mut engine, west, true);
    let switched = engine.evaluate_failover(clock.tick(), NO_FENCE).unwrap();
    assert_eq!(switched.outcome.name(), "SWITCHED");
    assert!(!switched.requires_trading_halt());
    assert_eq!(engine.active(), Some(west));
}

#[test]
fn fence_required_leaves_history_empty_until_confirmed() {
    let clock = Clock::default();
    let (mut engine, east, west) = engine(PolicySettings { failure_threshold: 2, ..PolicySettings::default() });
    clock.probe(&mut engine, west, true);
    clock.probe(&mut engine, east, false);
    clock.probe(&mut engine, east, false);

    for _ in 0..3 {
        let decision = engine.evaluate_failover(clock.tick(), NO_FENCE).unwrap();
        let order = FenceOrder { endpoint: east, epoch: Epoch::FIRST, target: west };
        assert_eq!(decision.outcome, FailoverOutcome::FenceRequired(order));
        assert_eq!((engine.history().count(), engine.active()), (0, Some(east)));
    }
    let order = engine.evaluate_failover(clock.tick(), NO_FENCE).unwrap().fence().unwrap();
    let decision = engine.evaluate_failover(clock.tick(), order.confirm()).unwrap();
    let history: Vec<_> = engine.history().map(|entry| entry.event).collect();
    assert_eq!(history, [*decision.event().unwrap()]);
    assert_eq!(engine.active(), Some(west));
}

#[test]
fn a_probe_failing_with_connection_reset_is_degraded_then_down_with_the_error_named_an_abort_still_reaching_the_caller()
{
    let (engine, east, _) = engine(PolicySettings { failure_threshold: 2, ..PolicySettings::default() });
    let (interrupted, unwinds) = (AtomicBool::new(false), AtomicBool::new(false));
    let manager = Manager::new(engine, |_: &Endpoint| -> Result<(), ProbeError> {
        match (interrupted.load(Ordering::Relaxed), unwinds.load(Ordering::Relaxed)) {
            (true, true) => panic_any(ProbeAborted),
            (true, false) => Err(ProbeAborted)?,
            _ => Err(io::Error::from(io::ErrorKind::ConnectionReset))?,
        }
        Ok(())
    });
    let health = || manager.read(|engine, _| engine.health(east).cloned().unwrap());

    assert_eq!(manager.probe(east).unwrap().to, EndpointState::Degraded);
    assert_eq!(manager.probe(east).unwrap().to, EndpointState::Down);
    let before = health();
    let error = before.last_probe_error().unwrap();
    assert!(error.starts_with("ConnectionReset"), "{error:?} names the error");

    interrupted.store(true, Ordering::Relaxed);
    assert_eq!(manager.probe(east), Err(ProbeFault::Aborted(ProbeAborted)));
    unwinds.store(true, Ordering::Relaxed);
    assert_eq!(manager.probe(east), Err(ProbeFault::Aborted(ProbeAborted)));
    assert_eq!(health(), before, "an abort is not a result");
}

/// The engine is given no wall clock at all; a scenario has one, and steps it.
#[cfg(feature = "scenario")]
#[test]
fn a_wall_clock_stepped_a_day_forward_leaves_cooldown_active() {
    let answers = replay(
        r#"{"config":{"policy":{"failure_threshold":2,"cooldown":"600s","failback_success_threshold":1,"require_fence":false},"endpoints":[{"name":"east","region":"us-east-1","url":"https://east.example","primary":true},{"name":"west","region":"us-west-2","url":"https://west.example","priority":10}]}}
{"at":1.0,"probe":"west","ok":true}
{"at":1.0,"probe":"east","ok":false}
{"at":2.0,"probe":"east","ok":false}
{"at":2.0,"evaluate":"failover"}
{"at":3.0,"probe":"east","ok":true}
{"at":3.0,"evaluate":"failback"}
{"at":3.0,"wall_step":86400}
{"at":3.0,"evaluate":"failback"}
{"at":602.0,"probe":"east","ok":true}
{"at":602.0,"evaluate":"failback"}
"#,
    )
    .unwrap();
    let outcomes: Vec<_> = answers.iter().filter_map(|answer| answer["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["SWITCHED", "COOLDOWN_ACTIVE", "COOLDOWN_ACTIVE", "SWITCHED"]);
    let earliest: Vec<_> = answers.iter().filter_map(|answer| answer["earliest_at"].as_f64()).collect();
    assert_eq!(earliest, [602.0, 602.0], "the gate is on the monotonic clock");
}

#[test]
fn success_success_failure_cycles_never_fail_back_with_threshold_3() {
    let clock = Clock::default();
    let settings = PolicySettings {
        failure_threshold: 1,
        failback_success_threshold: 3,
        cooldown: Duration::ZERO,
        require_fence: false,
        ..PolicySettings::default()
    };
    let (mut engine, east, west) = engine(settings);
    clock.probe(&mut engine, west, true);
    clock.probe(&mut engine, east, false);
    assert!(engine.evaluate_failover(clock.tick(), NO_FENCE).unwrap().event().is_some());

    for cycle in 0..100 {
        for ok in [true, true, false] {
            clock.probe(&mut engine, west, true);
            clock.probe(&mut engine, east, ok);
            let outcome = engine.evaluate_failback(clock.tick(), NO_FENCE).unwrap().outcome;
            let expected = if ok { FailoverOutcome::NotStableYet } else { FailoverOutcome::NoAction };
            assert_eq!(outcome, expected, "in cycle {cycle}");
        }
    }
    assert_eq!((engine.active(), engine.history().count()), (Some(west), 1));

    // A third success in a row is what was missing.
    for _ in 0..3 {
        clock.probe(&mut engine, east, true);
    }
    assert_eq!(engine.evaluate_failback(clock.tick(), NO_FENCE).unwrap().active, east);
}

/// The refusal itself is the `compile_fail` doc test of [`Manager`], `src/manager.rs - manager::Manager`. Such a test
/// passes for any error; so this one shows that with a probe the very same line compiles.
#[test]
fn a_missing_probe_does_not_compile() {
    let documented = include_str!("../src/manager.rs");
    let example = documented.split("```compile_fail").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(example.contains("Manager::new(Engine::new(Policy::default()));"), "{example}");
    let _ = Manager::new(Engine::new(Policy::default()), |_: &Endpoint| Ok(()));
}

#[test]
fn threshold_0_is_refused() {
    let refused = Policy::new(PolicySettings { failure_threshold: 0, ..PolicySettings::default() });
    assert_eq!(refused, Err(PolicyError::Count { key: "failure_threshold", found: 0 }));
}

/// In code a negative duration cannot be written: `Duration` has none.
#[cfg(feature = "scenario")]
#[test]
fn negative_duration_in_a_file_is_refused() {
    for key in ["cooldown", "max_health_age", "failback_window"] {
        let file = format!(r#"{{"config":{{"policy":{{"{key}":"-60s"}},"endpoints":[]}}}}"#);
        let refused = replay(&file).unwrap_err();
        assert!(refused.starts_with("line 1, column ") && refused.contains("-60s"), "{refused}");
    }
}

/// What is left after `refused` is what was there before.
fn refuses(mut engine: Engine, endpoint: Endpoint) -> EngineError {
    let before = engine.clone();
    let error = engine.register(endpoint).unwrap_err();
    assert_eq!(engine, before);
    error
}

#[test]
fn blank_field_is_refused() {
    for (field, blank) in [
        (Field::Name, Endpoint { name: " ".into(), ..west() }),
        (Field::Region, Endpoint { region: String::new(), ..west() }),
        (Field::Url, Endpoint { url: "\t\n".into(), ..west() }),
        (Field::Account, west().with_account("")),
    ] {
        let endpoint = blank.name.trim().to_owned();
        assert_eq!(refuses(Engine::new(Policy::default()), blank), EngineError::BlankField { endpoint, field });
    }
}

#[test]
fn duplicate_is_refused() {
    let (engine, ..) = engine(PolicySettings::default());
    let duplicate = || EngineError::DuplicateEndpoint { endpoint: "west".into() };
    assert_eq!(refuses(engine.clone(), west()), duplicate());
    assert_eq!(refuses(engine, Endpoint::backup(" west ", "elsewhere", "https://other.example", 20)), duplicate());
}

#[test]
fn second_primary_is_refused() {
    let (engine, ..) = engine(PolicySettings::default());
    let error = refuses(engine, Endpoint::primary("north", "ca-central-1", "https://north.example"));
    assert_eq!(error, EngineError::SecondPrimary { endpoint: "north".into(), primary: "east".into() });
}

#[test]
fn no_primary_is_refused() {
    let mut engine = Engine::new(Policy::default());
    assert_eq!(engine.validate_configuration(), Err(ConfigurationError::NoPrimary { endpoints: 0 }));
    engine.register(west()).unwrap();
    engine.register(Endpoint { name: "north".into(), ..west() }).unwrap();
    assert_eq!(engine.validate_configuration(), Err(ConfigurationError::NoPrimary { endpoints: 2 }));
}

#[test]
fn single_endpoint_is_refused() {
    let mut engine = Engine::new(Policy::default());
    engine.register(east()).unwrap();
    assert_eq!(engine.validate_configuration(), Err(ConfigurationError::TooFewEndpoints { found: 1 }));
}

#[test]
fn evaluation_without_an_active_endpoint_is_refused() {
    let clock = Clock::default();
    let mut engine = Engine::new(Policy::default());
    let west = engine.register(west()).unwrap();
    clock.probe(&mut engine, west, true);
    let before = engine.clone();
    let refused = Err(EngineError::NoActiveEndpoint);
    assert_eq!(engine.evaluate_failover(clock.tick(), NO_FENCE), refused);
    assert_eq!(engine.evaluate_failback(clock.tick(), NO_FENCE), refused);
    assert_eq!(engine.switchover(clock.tick(), "west", NO_FENCE), refused);
    assert_eq!(engine.rearm(clock.tick()), refused);
    assert_eq!(engine.assess_failover(clock.tick(), NO_FENCE), refused);
    assert_eq!(engine, before);
}

#[cfg(feature = "scenario")]
fn replay(file: &str) -> Result<Vec<serde_json::Value>, String> {
    let mut answers = Vec::new();
    let replayed = broker_failover::scenario::replay(file.as_bytes(), |answer| {
        answers.push(serde_json::from_str(&answer.to_json())?);
        Ok(())
    });
    replayed.map(|_| answers).map_err(|error| error.to_string())
}
