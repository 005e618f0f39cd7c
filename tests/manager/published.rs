//! What is published.

use broker_failover::path::{ActivePath, PathReader};

use super::*;

/// What is published is what the engine says; returns it.
fn published(manager: &Manager<impl Probe, impl Clock>) -> (Option<(EndpointId, u64)>, OrderFlow) {
    let engine = engine_of(manager);
    let active = manager.active();
    assert_eq!(active.map(|path| (path.endpoint, path.epoch)), engine.active().zip(engine.epoch()));
    assert_eq!(manager.order_flow(), engine.order_flow());
    assert_eq!(manager.must_halt(), engine.order_flow().is_halt());
    for action in [OrderAction::Submit, OrderAction::Cancel, OrderAction::Query] {
        assert_eq!(manager.permits(action), engine.permits(action), "{action:?} in {:?}", engine.order_flow());
    }
    let reader = manager.reader();
    let path = reader.path();
    assert_eq!((path, reader.active(), reader.order_flow()), (reader.details().path, active, manager.order_flow()));
    assert_eq!(path.open(), active.filter(|_| manager.permits(OrderAction::Submit)));
    assert!(active.is_none_or(|path| reader.still_open(path) == manager.permits(OrderAction::Submit)));
    (active.map(|path| (path.endpoint, path.epoch.get())), engine.order_flow())
}

fn open(endpoint: EndpointId, epoch: u64) -> (Option<(EndpointId, u64)>, OrderFlow) {
    (Some((endpoint, epoch)), OrderFlow::Open { endpoint, epoch: Epoch::new(epoch).unwrap() })
}

#[test]
fn every_kind_of_change_is_published_before_its_call_returns() {
    let settings = PolicySettings { failure_threshold: 1, failback_success_threshold: 1, ..Default::default() };
    let clock = Hand::default();
    let policy = Policy::new(settings).unwrap();
    let manager = Manager::with_clock(Engine::new(policy), |_: &Endpoint| Ok(()), clock.clone());
    let evaluate = || manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap();
    assert_eq!(published(&manager), (None, STARTING));
    let _ = manager.halt(HaltOrder::operator("not yet"));
    assert_eq!(published(&manager), (None, ORDERED));
    let _ = manager.resume().unwrap();
    assert_eq!(published(&manager), (None, STARTING));
    let east = manager.register(Endpoint::primary("east", "r", "u")).unwrap();
    let west = manager.register(Endpoint::backup("west", "r", "v", 10)).unwrap();
    assert_eq!(published(&manager), (Some((east, 1)), STARTING));
    let _ = manager.probe(east).unwrap();
    assert_eq!(published(&manager), open(east, 1));

    failure(&manager, east);
    assert_eq!(published(&manager), open(east, 1));
    assert!(evaluate().requires_trading_halt());
    assert_eq!(published(&manager), (Some((east, 1)), NO_TARGET));
    success(&manager, east);
    assert_eq!(published(&manager), (Some((east, 1)), NO_TARGET));
    assert!(manager.permits(OrderAction::Cancel), "a halted path that answers takes cancels");
    let _ = evaluate();
    assert_eq!(published(&manager), (Some((east, 1)), RECONCILING));
    let _ = manager.confirm_reconciled(1).unwrap();
    assert_eq!(published(&manager), open(east, 1));

    success(&manager, west);
    failure(&manager, east);
    let fence = evaluate().fence().unwrap();
    assert_eq!(published(&manager), (Some((east, 1)), SWITCHING));
    let _ = manager.evaluate_failover(fence.confirm()).unwrap();
    assert_eq!(published(&manager), (Some((west, 2)), RECONCILING));
    let _ = manager.switch_failed(2).unwrap();
    assert_eq!(published(&manager), (Some((west, 2)), SWITCHING));
    let _ = manager.rearm().unwrap();
    assert_eq!(published(&manager), (Some((west, 3)), RECONCILING));
    let _ = manager.confirm_reconciled(3).unwrap();
    assert_eq!(published(&manager), open(west, 3));

    let _ = manager.halt(HaltOrder::operator("desk"));
    assert_eq!(published(&manager), (Some((west, 3)), ORDERED));
    manager.set_maintenance("west", true).unwrap();
    manager.update_endpoint("east", EndpointUpdate { url: Some("w".into()), ..Default::default() }).unwrap();
    assert_eq!(published(&manager), (Some((west, 3)), ORDERED));
    let _ = manager.fence_started(3).unwrap();
    assert!(!manager.permits(OrderAction::Cancel), "a spent epoch takes nothing");
    let _ = manager.resume().unwrap();
    assert_eq!(published(&manager), (Some((west, 3)), SWITCHING));
    manager.set_maintenance("west", false).unwrap();

    success(&manager, east);
    let present = |epoch| FenceStatus::Confirmed { endpoint: west, epoch };
    let _ = manager.switchover("east", present(3)).unwrap();
    assert_eq!(published(&manager), (Some((east, 4)), RECONCILING));
    failure(&manager, east);
    let _ = manager.evaluate_failover(FenceStatus::Confirmed { endpoint: east, epoch: 4 }).unwrap();
    assert_eq!(published(&manager), (Some((west, 5)), RECONCILING));
    success(&manager, east);
    clock.set(60_000_000_000);
    success(&manager, east);
    let _ = manager.evaluate_failback(present(5)).unwrap();
    assert_eq!(published(&manager), (Some((east, 6)), RECONCILING));
}

#[test]
fn a_refusal_changes_nothing_that_is_published() {
    let clock = Hand::default();
    let manager = fed(clock.clone());
    let (before, details) = (engine_of(&manager), manager.reader().details());
    clock.set(5);
    let stale = FenceStatus::Confirmed { endpoint: EAST, epoch: 7 };
    let codes = [
        manager.evaluate_failover(stale).unwrap_err().code(),
        manager.evaluate_failback(stale).unwrap_err().code(),
        manager.switchover("west", stale).unwrap_err().code(),
        manager.switchover("west", FenceStatus::Unconfirmed).unwrap_err().code(),
        manager.rearm().unwrap_err().code(),
        manager.fence_started(2).unwrap_err().code(),
        manager.switch_failed(2).unwrap_err().code(),
        manager.confirm_reconciled(1).unwrap_err().code(),
        manager.resume().unwrap_err().code(),
        manager.register(Endpoint::primary("south", "r", "u")).unwrap_err().code(),
        manager.update_endpoint("nobody", EndpointUpdate::default()).unwrap_err().code(),
        manager.set_maintenance("nobody", true).unwrap_err().code(),
    ];
    let expected = "STALE_FENCE STALE_FENCE STALE_FENCE TARGET_NOT_ELIGIBLE NOT_REARMABLE STALE_FENCE STALE_FENCE \
                    NOT_RECONCILING NOT_HALTED SECOND_PRIMARY UNKNOWN_ENDPOINT UNKNOWN_ENDPOINT";
    assert_eq!(codes.join(" "), expected);
    assert_eq!((engine_of(&manager), manager.reader().details()), (before, details));
}

#[test]
fn details_tell_since_when_and_for_what_reason_the_path_is_what_it_is() {
    let clock = Hand::default();
    clock.set(3);
    let manager = fed(clock.clone());
    let details = |since: u64, reason: Option<Reason>| {
        let details = manager.reader().details();
        assert_eq!((details.since.as_nanos(), details.reason), (since, reason), "{:?}", details.path.order_flow());
        assert_eq!(details.path, manager.reader().path());
        clock.set(clock.0.load(SeqCst) + 1);
    };
    let evaluate = || manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap();
    details(3, None);
    success(&manager, EAST);
    details(4, None);
    success(&manager, EAST);
    let _ = evaluate();
    details(4, None);
    failure(&manager, EAST);
    let _ = evaluate();
    details(6, Some(Reason::NoEligibleTarget));
    let _ = evaluate();
    details(6, Some(Reason::NoEligibleTarget));
    // The halted path answers, fails and answers: it takes cancels, or not, and is halted since then all the same.
    for result in [success, failure, success] {
        result(&manager, EAST);
        details(6, Some(Reason::NoEligibleTarget));
    }
    let _ = evaluate();
    details(11, Some(Reason::ActiveHealthy));
    let _ = manager.confirm_reconciled(1).unwrap();
    details(12, None);
    success(&manager, WEST);
    failure(&manager, EAST);
    let fence = evaluate().fence().unwrap();
    details(13, Some(Reason::FenceNotConfirmed));
    let _ = manager.fence_started(1).unwrap();
    details(13, Some(Reason::FenceNotConfirmed));
    let _ = manager.evaluate_failover(fence.confirm()).unwrap();
    details(15, Some(Reason::ActiveDown));
    let _ = manager.halt(HaltOrder::operator("desk"));
    details(16, None);
}

#[test]
fn a_reader_outlives_its_manager_and_says_what_was_published_last() {
    fn shared<T: Send + Sync>(value: T) -> T {
        value
    }
    let manager = shared(fed(Hand::default()));
    success(&manager, EAST);
    let reader: PathReader = shared(manager.reader());
    drop(manager);
    assert_eq!(reader.clone().path().open(), reader.active());
    assert!(reader.still_open(ActivePath { endpoint: EAST, epoch: Epoch::FIRST }));
    assert!(!reader.still_open(ActivePath { endpoint: EAST, epoch: Epoch::new(2).unwrap() }));
    assert!(!reader.still_open(ActivePath { endpoint: WEST, epoch: Epoch::FIRST }));
}

#[test]
fn a_restored_manager_publishes_what_its_snapshot_says() {
    let manager = fed(Hand::default());
    success(&manager, EAST);
    success(&manager, WEST);
    let _ = manager.switchover("west", FenceStatus::Confirmed { endpoint: EAST, epoch: 1 }).unwrap();
    let _ = manager.confirm_reconciled(2).unwrap();
    let policy = Policy::default();
    let restored = |kind| {
        let probe = |_: &Endpoint| Ok(());
        Manager::restore(policy.clone(), manager.snapshot(), kind, probe).unwrap()
    };
    assert_eq!(published(&restored(RestartKind::Monitor)), open(WEST, 2));
    let gateway = restored(RestartKind::Gateway);
    assert_eq!(published(&gateway), (Some((WEST, 2)), RECONCILING));
    assert_eq!(health_of(&gateway, WEST), Health::default());
    assert_eq!(gateway.probe(WEST).unwrap().from, EndpointState::Unknown);
    let _ = gateway.confirm_reconciled(2).unwrap();
    assert_eq!(published(&gateway), open(WEST, 2));

    let of_another_version = Snapshot { version: 9, ..manager.snapshot() };
    let refused = Manager::restore(policy.clone(), of_another_version, RestartKind::Monitor, |_: &Endpoint| Ok(()));
    assert_eq!(refused.unwrap_err(), RestoreError::Version { found: 9, expected: Snapshot::VERSION });
}
