//! Errors: their order, and that they change nothing.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use broker_failover::engine::*;

use crate::document::{Document, root};
use crate::world::{Answer, SECOND};

#[test]
fn errors_come_in_their_order_and_change_nothing() {
    let table = Document::read().table("Errors and their order");
    let mut told = BTreeSet::new();
    for (input, cells) in &table.rows {
        let codes: Vec<&str> = cells[0].split(", ").collect();
        for (place, code) in codes.iter().enumerate() {
            told.insert((*code).to_owned());
            // 65,536 registrations are too many for a test of every run.
            if *code == "TOO_MANY_ENDPOINTS" {
                continue;
            }
            let found = provoke(input, &codes[place..]);
            assert_eq!(found, *code, "{input}");
        }
    }
    assert_eq!(told, error_codes(), "the codes of the table, and those of the engine");
    let inputs: BTreeSet<_> = table.names();
    for input in [
        "register",
        "update",
        "validate",
        "probe",
        "due",
        "maintenance",
        "bar",
        "evaluate failover",
        "evaluate failback",
    ] {
        assert!(inputs.contains(input), "{input}");
    }
}

/// The error that this input meets in a world in which all of `faults` apply, as far as they can apply at once.
fn provoke(input: &str, faults: &[&str]) -> &'static str {
    let has = |fault: &str| faults.contains(&fault);
    let now = Timestamp::from_nanos(SECOND);
    let mut engine =
        Engine::new(Policy::new(PolicySettings { failure_threshold: 1, ..PolicySettings::default() }).expect("ok"));
    if !has("NO_ACTIVE_ENDPOINT") {
        engine.register(Endpoint::primary("east", "r", "e")).expect("ok");
        engine.register(Endpoint::backup("west", "r", "w", 10)).expect("ok");
    }
    if has("EPOCHS_EXHAUSTED") && !has("NO_ACTIVE_ENDPOINT") {
        let mut snapshot = engine.snapshot(now);
        let active = snapshot.active.as_mut().expect("the primary is active");
        active.epoch = Epoch::LAST;
        if input == "evaluate failback" {
            active.endpoint = "west".to_owned();
        }
        if input == "rearm" {
            (active.spent, snapshot.order_flow) = (true, SnapshotFlow::Switching);
        }
        snapshot.last_switch_age = Some(u64::MAX);
        engine = Engine::restore(engine.policy().clone(), snapshot, now, RestartKind::Monitor).expect("it restores");
        for id in [0, 1].map(EndpointId::from_index) {
            // Whatever would switch, would do so here.
            let down = input == "evaluate failover" && engine.active() == Some(id);
            for _ in 0..3 {
                let result = if down { ProbeResult::FAILED } else { ProbeResult::Success };
                engine.record_probe(now, id, result).expect("it is registered");
            }
        }
    }
    let (active, epoch) = (engine.active(), engine.epoch().map_or(1, Epoch::get));
    let fence = match active {
        _ if has("STALE_FENCE") => FenceStatus::Confirmed { endpoint: EndpointId::from_index(0), epoch: 77 },
        Some(endpoint) => FenceStatus::Confirmed { endpoint, epoch },
        None => FenceStatus::Unconfirmed,
    };
    let text = |fault: &str| if has(fault) { " " } else { "text" }.to_owned();
    if has("NOT_REARMABLE") && active.is_some() {
        // At the last epoch, but DOWN.
        engine.record_probe(now, EndpointId::from_index(0), ProbeResult::FAILED).expect("it is registered");
    }
    let before = engine.clone();
    let answer = match input {
        "register" => {
            let name = if has("DUPLICATE_ENDPOINT") { "west" } else { "line" };
            let endpoint = Endpoint::backup(name, text("BLANK_FIELD"), "l", 20);
            Answer::done(engine.register(Endpoint { primary: has("SECOND_PRIMARY"), ..endpoint }))
        }
        "update" => {
            let name = if has("UNKNOWN_ENDPOINT") { "nowhere" } else { "east" };
            let update = EndpointUpdate {
                region: has("BLANK_FIELD").then(|| text("BLANK_FIELD")),
                url: Some("elsewhere".to_owned()),
                primary: has("ROLE_CHANGE").then_some(false),
                ..EndpointUpdate::default()
            };
            Answer::done(engine.update_endpoint(name, update))
        }
        "validate" => {
            let mut wrong = Engine::new(Policy::default());
            let mut register = |endpoint| assert!(wrong.register(endpoint).is_ok());
            if !has("NO_PRIMARY") {
                register(Endpoint::primary("east", "r", "e").with_account("U1"));
            }
            if !has("TOO_FEW_ENDPOINTS") {
                register(Endpoint::backup("west", "r", "w", 10).with_account("U2"));
            }
            return wrong.validate_configuration().expect_err("it is refused").code();
        }
        "probe" => Answer::done(engine.record_probe(now, EndpointId::from_index(9), ProbeResult::Success)),
        "due" => Answer::done(engine.due(now, EndpointId::from_index(9), Duration::from_secs(1))),
        "maintenance" => Answer::done(engine.set_maintenance("nowhere", true)),
        "bar" => Answer::done(engine.set_bar("nowhere", BarCause::Depth, true)),
        "evaluate failover" => Answer::decision(engine.evaluate_failover(now, fence)),
        "evaluate failback" => {
            // The cooldown of a switch that lies further back than it is known.
            Answer::decision(engine.evaluate_failback(now, fence))
        }
        "switchover" => {
            let target = match () {
                () if has("UNKNOWN_ENDPOINT") => "nowhere",
                () if has("ALREADY_ACTIVE") => "east",
                () => "west",
            };
            if has("TARGET_NOT_ELIGIBLE") && active.is_some() {
                engine.set_maintenance("east", true).expect("it is registered");
                engine.set_maintenance("west", true).expect("it is registered");
            }
            let before = engine.clone();
            let answer = Answer::decision(engine.switchover(now, target, fence));
            assert_eq!(engine, before, "{faults:?}");
            answer
        }
        "rearm" => Answer::decision(engine.rearm(now)),
        "fence_started" => Answer::flow(engine.fence_started(if has("STALE_FENCE") { 77 } else { epoch })),
        "switch_failed" => Answer::flow(engine.switch_failed(if has("STALE_FENCE") { 77 } else { epoch })),
        "reconciled" => {
            if !has("NOT_RECONCILING") {
                let snapshot = engine.snapshot(now);
                engine =
                    Engine::restore(engine.policy().clone(), snapshot, now, RestartKind::Gateway).expect("it restores");
            }
            Answer::flow(engine.confirm_reconciled(now, 77))
        }
        "resume" => Answer::flow(engine.resume()),
        "halt" => Answer::done(HaltOrder::new("NO_TARGET_AVAILABLE", "text")),
        _ => panic!("{input}: not known here"),
    };
    if !matches!(input, "switchover" | "reconciled") {
        assert_eq!(engine, before, "{input} {faults:?}");
    }
    match answer {
        Answer::Refused(code) => code,
        taken @ Answer::Taken { .. } => panic!("{input} {faults:?}: {taken:?}"),
    }
}

/// The codes of the errors, from the library's source: it has no list of them.
fn error_codes() -> BTreeSet<String> {
    let source = fs::read_to_string(root().join("src/engine/error.rs")).expect("the source is there");
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once("=> \""));
    let codes = arms.filter_map(|(_, code)| Some(code.strip_suffix("\",")?.to_owned()));
    codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect()
}
