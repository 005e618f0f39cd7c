//! What a probe can do, and what becomes of its result.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{panic_any, resume_unwind};
use std::sync::atomic::AtomicU32;

use broker_failover::manager::{LONGEST_ERROR, ProbeAborted, ProbeFault};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("no logon")]
struct NoLogon(#[source] Box<dyn Error + Send + Sync>);

/// What is kept of one failure of this probe.
fn error_after(probe: impl Fn(&Endpoint) -> Result<(), ProbeError> + Send + Sync) -> String {
    let manager = managed(probe);
    assert_eq!(manager.probe(EAST).unwrap().to, EndpointState::Degraded);
    error_of(&manager, EAST)
}

#[test]
fn a_probe_failing_with_connection_reset_degrades_then_downs_its_endpoint_with_the_error_named() {
    let manager = managed(|_: &Endpoint| Err(io::Error::from(io::ErrorKind::ConnectionReset))?);
    let states = [(); 3].map(|()| manager.probe(EAST).unwrap().to);
    assert_eq!(states, [EndpointState::Degraded, EndpointState::Degraded, EndpointState::Down]);
    assert_eq!(error_of(&manager, EAST), "ConnectionReset: connection reset");
    success(&manager, EAST);
    assert_eq!(health_of(&manager, EAST).last_probe_error(), None);
}

#[test]
fn the_sources_of_an_error_are_told_and_so_is_the_kind_of_each_io_error_among_them() {
    let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
    let text = error_after(move |_: &Endpoint| Err(NoLogon(Box::new(NoLogon(Box::new(reset())))))?);
    assert_eq!(text, "no logon: no logon: ConnectionReset: connection reset");
    assert_eq!(error_after(|_: &Endpoint| Err(ProbeError::failed("HTTP 503"))), "HTTP 503");
    let boxed = || -> Result<(), Box<dyn Error>> { Err("refused")? };
    assert_eq!(error_after(move |_: &Endpoint| boxed().map_err(|error| ProbeError::caused_by(&*error))), "refused");
}

#[test]
fn an_error_that_is_its_own_source_is_told_within_bounds() {
    #[derive(Debug)]
    struct Circle;
    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("again")
        }
    }
    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }
    let text = error_after(|_: &Endpoint| Err(Circle)?);
    assert!(text.starts_with("again: again: ") && text.len() <= LONGEST_ERROR, "{text}");
}

/// Panics when it is dropped, with another one as often as it says.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        match self.0 {
            0 => panic!("dropped"),
            more => resume_unwind(Box::new(Bomb(more - 1))),
        }
    }
}

#[test]
fn a_panic_is_a_failure_whatever_its_payload_and_the_manager_goes_on() {
    struct Unspeakable;
    impl fmt::Debug for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }
    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }
    impl Error for Unspeakable {}

    let kind = AtomicU32::new(0);
    let manager = managed(|_: &Endpoint| match kind.load(SeqCst) {
        0 => panic!("words"),
        1 => panic!("words of {}", "someone"),
        2 => panic_any(42),
        3 => panic_any(Bomb(0)),
        4 => panic_any(Bomb(1)),
        5 => Err(Unspeakable)?,
        _ => Ok(()),
    });
    let expected = [
        "panic: words",
        "panic: words of someone",
        "panic: not a text",
        "panic: its payload panicked when dropped",
        "panic: its payload panicked when dropped",
        "panic: no words",
    ];
    for (failures, expected) in (1..).zip(expected) {
        let _ = manager.probe(WEST).unwrap();
        assert_eq!(error_of(&manager, WEST), expected);
        assert_eq!(health_of(&manager, WEST).consecutive_failures(), failures);
        kind.fetch_add(1, SeqCst);
    }
    assert_eq!(manager.probe(WEST).unwrap().to, EndpointState::Healthy);
}

#[test]
fn an_abort_reaches_the_caller_however_it_comes_and_nothing_is_counted() {
    let kind = AtomicU32::new(0);
    let manager = managed(|_: &Endpoint| {
        let interrupted = || -> Result<(), ProbeAborted> { Err(ProbeAborted) };
        match kind.load(SeqCst) {
            0 => return Err(ProbeError::Aborted),
            1 => return Err(ProbeAborted.into()),
            2 => interrupted()?,
            3 => panic_any(ProbeAborted),
            4 => Err(NoLogon(Box::new(ProbeAborted)))?,
            5 => Err(io::Error::other(ProbeAborted))?,
            6 => Err(NoLogon(Box::new(io::Error::other(ProbeAborted))))?,
            7 => return Err(ProbeError::caused_by(&ProbeAborted)),
            _ => {}
        }
        Ok(())
    });
    success(&manager, WEST);
    failure(&manager, EAST);
    let (before, path) = (engine_of(&manager), manager.reader().details());
    for _ in 0..8 {
        for id in [EAST, WEST] {
            assert_eq!(manager.probe(id), Err(ProbeFault::Aborted(ProbeAborted)));
            assert_eq!(engine_of(&manager), before, "kind {kind:?}");
        }
        kind.fetch_add(1, SeqCst);
    }
    assert_eq!(manager.reader().details(), path);
    assert_eq!(manager.probe(EAST).unwrap().to, EndpointState::Healthy);
}

#[test]
fn a_text_that_is_too_long_is_cut_between_two_characters_wherever_it_comes_from() {
    let manager = managed(|endpoint: &Endpoint| match &*endpoint.name {
        "east" => Err(ProbeError::failed("é".repeat(LONGEST_ERROR))),
        _ => panic!("{}", "€".repeat(LONGEST_ERROR)),
    });
    let _ = (manager.probe(EAST).unwrap(), manager.probe(WEST).unwrap());
    let (error, panic) = (error_of(&manager, EAST), error_of(&manager, WEST));
    assert_eq!(error, "é".repeat(510) + "...");
    assert_eq!(panic, format!("panic: {}...", "€".repeat(338)));
    assert!([error, panic].iter().all(|text| (LONGEST_ERROR - 3..=LONGEST_ERROR).contains(&text.len())));

    for (length, kept) in [(LONGEST_ERROR, LONGEST_ERROR), (LONGEST_ERROR + 1, LONGEST_ERROR)] {
        let _ = manager.record_probe(EAST, ProbeResult::Failure("x".repeat(length).into())).unwrap();
        assert_eq!(error_of(&manager, EAST).len(), kept);
        assert_eq!(error_of(&manager, EAST).ends_with("..."), length > kept);
    }
}

mockall::mock! {
    Probe {}
    impl Probe for Probe {
        fn probe(&self, endpoint: &Endpoint) -> Result<(), ProbeError>;
    }
}

mockall::mock! {
    Clock {}
    impl Clock for Clock {
        fn now(&self) -> Timestamp;
    }
}

#[test]
fn the_probe_is_called_once_for_each_result_with_the_endpoint_as_it_is_registered() {
    let mut probe = MockProbe::new();
    let moved = Endpoint::backup("west", "us-west-1", "https://west.example", 10);
    probe.expect_probe().withf(move |endpoint| *endpoint == moved).times(1).returning(|_| Ok(()));
    probe.expect_probe().withf(|endpoint| endpoint.primary).times(2).returning(|_| Err(ProbeError::failed("closed")));
    let manager = managed(probe);
    manager
        .update_endpoint("west", EndpointUpdate { region: Some(" us-west-1 ".into()), ..Default::default() })
        .unwrap();
    assert_eq!(manager.probe(WEST).unwrap().to, EndpointState::Healthy);
    assert_eq!([(); 2].map(|()| manager.probe(EAST).unwrap().to), [EndpointState::Degraded; 2]);
}

#[test]
fn an_unknown_endpoint_is_refused_and_never_probed() {
    let mut probe = MockProbe::new();
    probe.expect_probe().never();
    let manager = managed(probe);
    let before = engine_of(&manager);
    for answer in [manager.probe(NOBODY), manager.record_probe(NOBODY, ProbeResult::Success)] {
        assert_eq!(answer, Err(ProbeFault::Refused(EngineError::UnknownEndpoint { endpoint: "#9".into() })));
    }
    assert_eq!(engine_of(&manager), before);
}

#[test]
fn the_clock_is_read_once_for_each_input_and_may_go_back() {
    let mut clock = MockClock::new();
    let mut order = mockall::Sequence::new();
    for nanos in [u64::MAX, 7_000, 50, 40, 30, 20, 10, 0] {
        clock.expect_now().times(1).in_sequence(&mut order).return_const(Timestamp::from_nanos(nanos));
    }
    let settings = PolicySettings { failure_threshold: 1, ..Default::default() };
    // Read at u64::MAX.
    let manager = Manager::with_clock(east_and_west(settings), MockProbe::new(), clock);
    success(&manager, WEST);
    failure(&manager, EAST);
    let decision = manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap();
    assert!(decision.notes.contains(Note::ClockWentBack));
    let fence = decision.fence().expect("a result from the future is fresh");
    assert_eq!(manager.reader().details().since.as_nanos(), 40);
    let switched = manager.evaluate_failover(fence.confirm()).unwrap();
    assert_eq!((switched.active, switched.epoch.get()), (WEST, 2));
    assert!(matches!(manager.confirm_reconciled(2), Ok(OrderFlow::Open { endpoint: WEST, .. })));
    let failback = manager.evaluate_failback(FenceStatus::Unconfirmed).unwrap();
    assert_eq!(failback.outcome, FailoverOutcome::NoAction);
    // Read at 0.
    assert_eq!(manager.snapshot().last_switch_age, Some(0));
}

#[test]
fn the_clock_of_the_operating_system_does_not_go_back() {
    let manager = Manager::new(east_and_west(PolicySettings::default()), |_: &Endpoint| Ok(()));
    let [first, second] = [(); 2].map(|()| manager.read(|_, now| now));
    assert!(first <= second);
    let _ = manager.probe(EAST).unwrap();
    assert!(manager.reader().details().since >= second);
}

/// What `probe(WEST)` answers if `meanwhile` happens while it runs, and the manager after it.
fn probing_west(meanwhile: impl FnOnce(&Manager<Slow, Hand>)) -> (Result<HealthChange, ProbeFault>, Engine) {
    let (probe, entered, answer) = Slow::new();
    let manager = managed(probe);
    let result = thread::scope(|threads| {
        let probing = threads.spawn(|| manager.probe(WEST));
        entered.recv().unwrap();
        // Dropped if `meanwhile` panics, which ends the probe.
        let answer = answer;
        meanwhile(&manager);
        answer.send(Ok(())).unwrap();
        probing.join().unwrap()
    });
    (result, engine_of(&manager))
}

#[test]
fn probes_run_outside_the_lock_and_delay_nobody() {
    watched(|| {
        let (result, engine) = probing_west(|manager| {
            for _ in 0..3 {
                failure(manager, EAST);
            }
            let decision = manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap();
            assert!(decision.requires_trading_halt() && manager.must_halt());
            let north = manager.register(Endpoint::backup("north", "us-north-1", "u", 20)).unwrap();
            success(manager, north);
            assert!(manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap().fence().is_some());
            assert_eq!(manager.active().map(|path| path.endpoint), Some(EAST));
            assert_eq!(manager.reader().details().path.order_flow(), manager.order_flow());
            assert_eq!(manager.snapshot().endpoints.len(), 3);
            let _ = manager.halt(HaltOrder::operator("desk"));
            let _ = manager.resume().unwrap();
            manager.set_maintenance("north", true).unwrap();
        });
        assert_eq!(result.unwrap().to, EndpointState::Healthy);
        assert_eq!(engine.health(WEST).unwrap().consecutive_successes(), 1);
    });
}

#[test]
fn a_result_of_an_old_address_is_dropped() {
    watched(|| {
        let (result, engine) = probing_west(|manager| move_to(manager, "https://elsewhere.example"));
        assert_eq!(result, Err(ProbeFault::Outdated { endpoint: "west".into() }));
        assert_eq!(engine.health(WEST), Some(&Health::default()));
    });
}

#[test]
fn a_result_counts_if_only_the_priority_changed_or_the_old_address_is_the_present_one_again() {
    watched(|| {
        let (result, _) = probing_west(|manager| {
            manager.update_endpoint("west", EndpointUpdate { priority: Some(1), ..Default::default() }).unwrap();
        });
        assert_eq!(result.unwrap().to, EndpointState::Healthy);
        let (result, _) = probing_west(|manager| {
            move_to(manager, "https://elsewhere.example");
            move_to(manager, "https://west.example");
        });
        assert_eq!(result.unwrap().to, EndpointState::Healthy);
    });
}
