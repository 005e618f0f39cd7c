//! What runs on every probe and every tick of the loop does not allocate, however many endpoints there are.
//!
//! `allocation_counter` counts this thread's allocations, so that the test harness's own don't matter.

use std::borrow::Cow;
use std::time::Duration;

use allocation_counter::measure;
use broker_failover::engine::*;

const SIZES: [usize; 3] = [2, 10, 1_000];
const NOW: Timestamp = Timestamp::from_nanos(1);

/// The primary and every backup are HEALTHY.
fn healthy(endpoints: usize) -> (Engine, Vec<EndpointId>) {
    let mut engine = Engine::new(Policy::default());
    let mut ids = vec![engine.register(Endpoint::primary("primary", "here", "https://primary.example")).unwrap()];
    for number in 1..endpoints {
        let backup = Endpoint::backup(format!("backup {number}"), "there", "https://backup.example", 10);
        ids.push(engine.register(backup).unwrap());
    }
    for id in &ids {
        engine.record_probe(NOW, *id, ProbeResult::Success).unwrap();
    }
    (engine, ids)
}

fn fail(engine: &mut Engine, id: EndpointId) {
    for _ in 0..engine.policy().settings().failure_threshold {
        engine.record_probe(NOW, id, ProbeResult::FAILED).unwrap();
    }
}

fn allocations(run: impl FnOnce()) -> u64 {
    measure(run).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8]))), 1);
}

#[test]
fn recording_a_success_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        fail(&mut engine, ids[size - 1]);
        let count = allocations(|| {
            for id in &ids {
                engine.record_probe(NOW, *id, ProbeResult::Success).unwrap();
            }
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}

#[test]
fn recording_a_failure_keeps_the_text_that_is_moved_in_and_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        for _ in 0..3 {
            let mut errors: Vec<_> = (0..size).map(|i| Cow::Owned(format!("ConnectionReset: peer {i}"))).collect();
            let count = allocations(|| {
                for id in ids.iter().rev() {
                    let error = errors.pop().expect("one for each endpoint");
                    engine.record_probe(NOW, *id, ProbeResult::Failure(error)).unwrap();
                }
            });
            assert_eq!(count, 0, "with {size} endpoints");
        }
        let last = engine.health(ids[1]).unwrap();
        assert_eq!(last.last_probe_error(), Some("ConnectionReset: peer 1"));
        assert_eq!(last.state(), EndpointState::Down);
    }
}

#[test]
fn patient_triggers_and_signs_of_life_allocate_nothing() {
    let rules = [
        TriggerRule::Window(Duration::from_secs(60)),
        TriggerRule::Failures { failures: 60, of: 64 },
        TriggerRule::Consecutive(3),
    ];
    for (size, rule) in SIZES.into_iter().flat_map(|size| rules.map(|rule| (size, rule))) {
        let trigger = Some(Trigger::new(rule).unwrap());
        let settings =
            PolicySettings { trigger, minimum_history: Some(64), silence: Silence::Failure, ..Default::default() };
        let mut engine = Engine::new(Policy::new(settings).unwrap());
        let mut ids = vec![engine.register(Endpoint::primary("primary", "here", "https://primary.example")).unwrap()];
        for number in 1..size {
            let backup = Endpoint::backup(format!("backup {number}"), "there", "https://backup.example", 10);
            ids.push(engine.register(backup).unwrap());
        }
        let mut missing = 0;
        let count = allocations(|| {
            for second in 0..70_u64 {
                let now = Timestamp::from_nanos(second * 1_000_000_000);
                for id in &ids {
                    missing += engine.due(now, *id, Duration::from_millis(1_500)).unwrap().missing;
                }
                for id in ids.iter().skip(1) {
                    engine.record_probe(now, *id, ProbeResult::FAILED).unwrap();
                }
                missing += engine.tick(now).missing;
            }
        });
        assert_eq!(count, 0, "with {size} endpoints, {rule:?}");
        assert!(missing > 30, "{missing} results of the primary were missing");
        assert!(engine.health(ids[1]).is_some_and(|health| health.state() == EndpointState::Down), "{rule:?}");
    }
}

#[test]
fn an_evaluation_that_finds_nothing_to_do_allocates_nothing() {
    for size in SIZES {
        let (mut engine, _) = healthy(size);
        let count = allocations(|| {
            for _ in 0..3 {
                let failover = engine.evaluate_failover(NOW, FenceStatus::Unconfirmed).unwrap();
                let failback = engine.evaluate_failback(NOW, FenceStatus::Unconfirmed).unwrap();
                assert_eq!(failover.outcome, FailoverOutcome::NoAction);
                assert_eq!(failback.outcome, FailoverOutcome::NoAction);
            }
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}

#[test]
fn an_evaluation_that_asks_for_a_fence_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        fail(&mut engine, ids[0]);
        let count = allocations(|| {
            let decision = engine.evaluate_failover(NOW, FenceStatus::Unconfirmed).unwrap();
            assert_eq!(decision.fence().map(|order| order.endpoint), Some(ids[0]));
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}

#[test]
fn an_evaluation_that_finds_nowhere_to_go_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        for id in ids {
            fail(&mut engine, id);
        }
        let count = allocations(|| {
            let decision = engine.evaluate_failover(NOW, FenceStatus::Unconfirmed).unwrap();
            assert!(decision.requires_trading_halt());
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}

#[test]
fn barring_every_target_and_lifting_the_bars_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        let names: Vec<_> = engine.endpoints().map(|(_, endpoint)| endpoint.name.clone()).collect();
        fail(&mut engine, ids[0]);
        let count = allocations(|| {
            for name in &names {
                engine.set_bar(name, BarCause::Depth, true).unwrap();
            }
            let decision = engine.evaluate_failover(NOW, FenceStatus::Unconfirmed).unwrap();
            assert_eq!(decision.reason, Reason::OnlyBarredTargets);
            engine.set_bar(&names[1], BarCause::Depth, false).unwrap();
        });
        assert_eq!(count, 0, "with {size} endpoints");
        assert_eq!(engine.eligible_targets(NOW).collect::<Vec<_>>(), [ids[1]]);
    }
}

#[test]
fn a_gated_failback_allocates_nothing() {
    for size in SIZES {
        let (mut engine, ids) = healthy(size);
        fail(&mut engine, ids[0]);
        let order = engine.evaluate_failover(NOW, FenceStatus::Unconfirmed).unwrap().fence().unwrap();
        assert!(engine.evaluate_failover(NOW, order.confirm()).unwrap().event().is_some());
        engine.record_probe(NOW, ids[0], ProbeResult::Success).unwrap();
        let count = allocations(|| {
            let decision = engine.evaluate_failback(NOW, FenceStatus::Unconfirmed).unwrap();
            assert_eq!(decision.outcome.name(), "COOLDOWN_ACTIVE");
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}

#[test]
fn what_the_order_path_reads_allocates_nothing() {
    for size in SIZES {
        let (engine, _) = healthy(size);
        let count = allocations(|| {
            assert!(matches!(engine.order_flow(), OrderFlow::Open { .. }));
            assert!(engine.permits(OrderAction::Submit));
            assert_eq!(engine.eligible_targets(NOW).count(), size - 1);
        });
        assert_eq!(count, 0, "with {size} endpoints");
    }
}
