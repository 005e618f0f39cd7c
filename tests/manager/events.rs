//! What is told, by `tracing` events.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::OnceLock;

use broker_failover::manager::ProbeFault;
use tracing::field::Visit;
use tracing::{Event, Metadata, Subscriber, field, span};

use super::*;

/// Keeps each event as a line, and calls back while it is told.
#[derive(Clone, Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    call_back: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = event.metadata().level().to_string();
        for (name, value) in fields.0 {
            let value = if value.contains(' ') { format!("'{value}'") } else { value };
            line += &if name == "message" { format!(" {value}") } else { format!(" {name}={value}") };
        }
        self.lines.lock().unwrap().push(line);
        if let Some(call_back) = self.call_back.get() {
            call_back();
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Recorder {
    /// What is told while `action` runs.
    fn told<T>(&self, action: impl FnOnce() -> T) -> Vec<String> {
        tracing::subscriber::with_default(self.clone(), action);
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

fn assert_told<T>(expected: &[&str], action: impl FnOnce() -> T) {
    assert_eq!(Recorder::default().told(action), expected);
}

#[test]
fn every_change_of_state_is_told_with_the_error_that_made_it() {
    let manager = managed(|_: &Endpoint| Err(io::Error::from(io::ErrorKind::ConnectionReset))?);
    let reset = "error='ConnectionReset: connection reset'";
    let probe = || manager.probe(WEST).unwrap();
    let told = format!("INFO endpoint=west {reset} from=UNKNOWN 'endpoint state changed' to=DEGRADED");
    assert_told(&[&told], probe);
    assert_told(&[], probe);
    let told = format!("WARN endpoint=west {reset} from=DEGRADED 'endpoint state changed' to=DOWN");
    assert_told(&[&told], probe);
    assert_told(&["INFO endpoint=west from=DOWN 'endpoint state changed' to=HEALTHY"], || success(&manager, WEST));
    assert_told(
        &[
            "INFO endpoint=west input=update taken",
            "INFO endpoint=west from=HEALTHY 'endpoint state changed' to=UNKNOWN",
        ],
        || move_to(&manager, "https://elsewhere.example"),
    );
}

#[test]
fn every_refusal_is_told_with_its_code() {
    let manager = fed(Hand::default());
    let stale = FenceStatus::Confirmed { endpoint: EAST, epoch: 7 };
    let told = Recorder::default().told(|| {
        let _ = manager.evaluate_failover(stale);
        let _ = manager.evaluate_failback(stale);
        let _ = manager.switchover("nobody", FenceStatus::Unconfirmed);
        let _ = manager.rearm();
        let _ = manager.fence_started(7);
        let _ = manager.switch_failed(7);
        let _ = manager.confirm_reconciled(7);
        let _ = manager.resume();
        let _ = manager.register(Endpoint::backup("west", "r", "u", 1));
        let _ = manager.update_endpoint("east", EndpointUpdate { url: Some("u".into()), ..Default::default() });
        let _ = manager.set_maintenance("nobody", true);
        let _ = manager.probe(NOBODY);
        let _ = manager.record_probe(NOBODY, ProbeResult::Success);
        let _ = Manager::new(Engine::new(Policy::default()), |_: &Endpoint| Ok(())).validate_configuration();
    });
    // The sentences are the engine's, and end all but the last in "nothing was changed".
    let without_sentence = |line: &String| {
        let (start, rest) = line.split_once(" error='").unwrap();
        let (sentence, end) = rest.split_once("' ").unwrap();
        assert!(sentence.ends_with("; nothing was changed") || start.contains("NO_PRIMARY"), "{sentence}");
        format!("{start} {end}")
    };
    assert_eq!(
        told.iter().map(without_sentence).collect::<Vec<_>>(),
        [
            "WARN code=STALE_FENCE input=failover refused",
            "WARN code=STALE_FENCE input=failback refused",
            "WARN code=UNKNOWN_ENDPOINT input=switchover refused",
            "WARN code=NOT_REARMABLE input=rearm refused",
            "WARN code=STALE_FENCE epoch=7 input=fence_started refused",
            "WARN code=STALE_FENCE epoch=7 input=switch_failed refused",
            "WARN code=NOT_RECONCILING epoch=7 input=reconciled refused",
            "WARN code=NOT_HALTED input=resume refused",
            "WARN code=DUPLICATE_ENDPOINT endpoint=west input=register refused",
            "WARN code=ENDPOINT_IS_ACTIVE endpoint=east input=update refused",
            "WARN code=UNKNOWN_ENDPOINT endpoint=nobody input='maintenance on' refused",
            "WARN code=UNKNOWN_ENDPOINT input=probe refused",
            "WARN code=UNKNOWN_ENDPOINT input=probe refused",
            "WARN code=NO_PRIMARY input=validate refused",
        ]
    );
}

#[test]
fn every_switch_and_every_change_of_order_flow_is_told_with_endpoints_and_epoch() {
    let clock = Hand::default();
    let manager = fed(clock.clone());
    let evaluate = |fence| manager.evaluate_failover(fence).unwrap();
    let present = |endpoint, epoch| FenceStatus::Confirmed { endpoint, epoch };
    assert_told(
        &[
            "INFO endpoint=east epoch=1 'order flow OPEN'",
            "INFO endpoint=east from=UNKNOWN 'endpoint state changed' to=HEALTHY",
        ],
        || success(&manager, EAST),
    );
    assert_told(&["TRACE epoch=1 evaluation=failover evaluated outcome=NO_ACTION reason=ACTIVE_HEALTHY"], || {
        evaluate(FenceStatus::Unconfirmed)
    });
    failure(&manager, EAST);
    let nowhere = "ERROR epoch=1 evaluation=failover 'the active path is lost and there is nowhere to go' \
                   outcome=NO_TARGET_AVAILABLE reason=NO_ELIGIBLE_TARGET";
    assert_told(&["ERROR code=NoTargetAvailable 'order flow HALT'", nowhere], || evaluate(FenceStatus::Unconfirmed));
    assert_told(&[nowhere], || evaluate(FenceStatus::Unconfirmed));
    success(&manager, WEST);
    assert_told(
        &["WARN endpoint=east epoch=1 evaluation=failover 'fence required' outcome=FENCE_REQUIRED \
           reason=FENCE_NOT_CONFIRMED target=west"],
        || evaluate(FenceStatus::Unconfirmed),
    );
    assert_told(&["INFO epoch=1 input=fence_started taken"], || manager.fence_started(1).unwrap());
    assert_told(
        &[
            "WARN 'order flow HOLD' reason=RECONCILING",
            "WARN epoch=2 evaluation=failover from=east from_state=DOWN kind=FAILOVER switched outcome=SWITCHED \
             reason=ACTIVE_DOWN to=west",
        ],
        || evaluate(present(EAST, 1)),
    );
    assert_told(&["INFO endpoint=west epoch=2 'order flow OPEN'", "INFO epoch=2 input=reconciled taken"], || {
        manager.confirm_reconciled(2).unwrap()
    });
    success(&manager, EAST);
    assert_told(
        &["DEBUG epoch=2 evaluation=failback evaluated outcome=COOLDOWN_ACTIVE reason=COOLDOWN_NOT_ELAPSED"],
        || manager.evaluate_failback(FenceStatus::Unconfirmed).unwrap(),
    );
    assert_told(&["WARN 'order flow HOLD' reason=SWITCHING", "INFO epoch=2 input=switch_failed taken"], || {
        manager.switch_failed(2).unwrap()
    });
    assert_told(
        &["ERROR code=Caller 'order flow HALT'", "ERROR code=RIVAL 'trading halt ordered' text='another session'"],
        || manager.halt(HaltOrder::new("RIVAL", "another session").unwrap()),
    );
    assert_told(
        &["WARN epoch=3 evaluation=rearm from=west from_state=HEALTHY kind=REARM switched outcome=SWITCHED \
           reason=OPERATOR_REARM to=west"],
        || manager.rearm().unwrap(),
    );
    assert_told(&["WARN 'order flow HOLD' reason=RECONCILING", "INFO input=resume taken"], || manager.resume());
    assert_told(&["INFO endpoint=east input='maintenance off' taken"], || manager.set_maintenance("east", false));
    assert_told(&["INFO endpoint=north input=register taken"], || {
        manager.register(Endpoint::backup("north", "r", "u", 1))
    });
}

#[test]
fn a_suppressed_failback_is_told_as_a_warning() {
    let settings = PolicySettings {
        failure_threshold: 1,
        failback_success_threshold: 1,
        max_failbacks_per_window: 1,
        cooldown: Duration::ZERO,
        require_fence: false,
        require_reconciliation: false,
        ..Default::default()
    };
    let manager = Manager::with_clock(east_and_west(settings), |_: &Endpoint| Ok(()), Hand::default());
    let flap = || {
        success(&manager, WEST);
        failure(&manager, EAST);
        let _ = manager.evaluate_failover(FenceStatus::Unconfirmed).unwrap();
        success(&manager, EAST);
        manager.evaluate_failback(FenceStatus::Unconfirmed).unwrap()
    };
    assert!(flap().event().is_some());
    let told = Recorder::default().told(flap);
    let suppressed = "WARN epoch=4 evaluation=failback 'the primary oscillates' outcome=FLAP_SUPPRESSED \
                      reason=FAILBACK_BUDGET_SPENT";
    assert_eq!(told.last().map(String::as_str), Some(suppressed), "{told:#?}");
    let opened = "INFO endpoint=west epoch=4 'order flow OPEN'".to_owned();
    assert!(told.contains(&opened), "a switch that opens at once is a change of order flow: {told:#?}");
}

#[test]
fn results_that_are_not_counted_are_told_to_whoever_debugs() {
    let told = Recorder::default().told(|| {
        let _ = managed(|_: &Endpoint| Err(ProbeError::Aborted)).probe(EAST);
    });
    assert_eq!(told, ["DEBUG endpoint=east 'probe aborted'"]);
}

#[test]
fn a_subscriber_may_call_the_manager_and_sees_what_it_is_told_of() {
    watched(|| {
        let clock = Hand::default();
        let own: Arc<OnceLock<Arc<dyn Fn() + Send + Sync>>> = Arc::default();
        let moving = Arc::clone(&own);
        // While it probes west for the second time, west moves: the result is dropped, which is told too.
        let manager = Arc::new(Manager::with_clock(
            east_and_west(PolicySettings { failure_threshold: 1, ..Default::default() }),
            move |endpoint: &Endpoint| match moving.get() {
                Some(move_west) if endpoint.name == "west" => {
                    move_west();
                    Ok(())
                }
                _ => Err(ProbeError::failed("closed")),
            },
            clock,
        ));
        let (recorder, halted) = (Recorder::default(), Arc::new(Mutex::new(Vec::new())));
        let (seen, called) = (Arc::clone(&halted), Arc::clone(&manager));
        let _ = recorder.call_back.set(Box::new(move || {
            seen.lock().unwrap().push(called.must_halt());
            success(&*called, WEST);
            let _ = (called.snapshot(), called.reader().details(), called.validate_configuration());
            let _ = called.evaluate_failover(FenceStatus::Unconfirmed);
            let _ = called.probe(NOBODY);
            let _ = called.set_maintenance("west", false);
        }));
        let told = recorder.told(|| {
            assert_eq!(manager.probe(EAST).unwrap().to, EndpointState::Down);
            let mover = Arc::clone(&manager);
            let _ = own.set(Arc::new(move || move_to(&*mover, "https://elsewhere.example")));
            assert_eq!(manager.probe(WEST), Err(ProbeFault::Outdated { endpoint: "west".into() }));
            let _ = manager.halt(HaltOrder::operator("desk"));
            let _ = manager.fence_started(7);
            let fence = FenceStatus::Confirmed { endpoint: EAST, epoch: 1 };
            assert!(manager.evaluate_failover(fence).unwrap().event().is_some());
            let _ = manager.resume().unwrap();
        });
        let of = |part: &str| told.iter().position(|line| line.contains(part)).expect(part);
        assert!(of("got another address") < of("order flow HALT") && of("order flow HALT") < of("switched"));
        let halted = halted.lock().unwrap();
        assert_eq!(halted.len(), told.len());
        assert!(halted[of("trading halt ordered")], "a halt holds before it is told");
        assert!(!halted[of("got another address")]);
    });
}
