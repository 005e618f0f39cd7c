//! Health and triggers, by their tables.

use std::collections::BTreeSet;

use broker_failover::engine::*;

use crate::document::Document;
use crate::world::SECOND;

#[test]
fn health_follows_its_table() {
    let table = Document::read().table("Health of an endpoint");
    assert_eq!(table.names(), BTreeSet::from(["UNKNOWN", "HEALTHY", "DEGRADED", "DOWN"]));
    let mut cells = 0;
    for (state, _) in &table.rows {
        for column in &table.columns {
            // The threshold decides which failure is the first that makes DOWN: a failure from each state must be able to be
            // either, so it is set for the number of failures that the state has behind it.
            let behind = match state.as_str() {
                "DEGRADED" => 1,
                "DOWN" => 3,
                _ => 0,
            };
            let threshold = match (column.as_str(), state.as_str()) {
                ("failure, fewer than K in a row", "DOWN") => {
                    assert_eq!(table.cell(state, column), Some("–"), "a DOWN endpoint has K failures behind it");
                    continue;
                }
                ("failure, fewer than K in a row", _) => behind + 2,
                (_, "DEGRADED") => 2,
                (_, "DOWN") => 3,
                _ => 1,
            };
            let settings = PolicySettings { failure_threshold: threshold, ..PolicySettings::default() };
            let mut engine = Engine::new(Policy::new(settings).expect("the policy is within its bounds"));
            let id = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            let now = Timestamp::from_nanos(SECOND);
            if state == "HEALTHY" {
                engine.record_probe(now, id, ProbeResult::Success).expect("it is registered");
            }
            for _ in 0..behind {
                engine.record_probe(now, id, ProbeResult::FAILED).expect("it is registered");
            }
            assert_eq!(engine.health(id).map(|health| health.state().name()), Some(state.as_str()), "{column}");
            let mut probe = |result| assert!(engine.record_probe(now, id, result).is_ok());
            match column.as_str() {
                "success" => probe(ProbeResult::Success),
                "failure, fewer than K in a row" | "failure, K or more in a row" => probe(ProbeResult::FAILED),
                "restart" => {
                    let restored =
                        Engine::restore(engine.policy().clone(), engine.snapshot(now), now, RestartKind::Monitor);
                    engine = restored.expect("its own snapshot restores");
                }
                "changed address" => {
                    let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
                    engine.update_endpoint("west", update).expect("it is not active");
                }
                _ => panic!("{column}: not known here"),
            }
            let found = engine.health(id).map(|health| health.state().name());
            assert_eq!(found, table.cell(state, column), "{state}, {column}");
            cells += 1;
        }
    }
    assert_eq!(cells, 4 * 5 - 1);
}

/// Results of one endpoint, by mark, under a trigger of 2 of 3 and a history of so many, before the result in question.
fn marks_before(state: &str, column: &str) -> Option<(u32, &'static str)> {
    let (holds, least) = match column {
        "success, its condition holds" => (true, 5),
        "success, it does not hold" => (false, 2),
        "failure, armed and it holds" => (true, 2),
        "failure, otherwise" => (false, 2),
        _ => panic!("{column}: not known here"),
    };
    Some(match (state, holds) {
        ("UNKNOWN", false) => (2, ""),
        // Of 2 of 3, no single result makes it.
        ("UNKNOWN", true) => return None,
        ("HEALTHY", true) if least == 5 => (4, "xx+"),
        ("HEALTHY", true) => (2, "x+"),
        ("HEALTHY", false) => (2, "+"),
        ("DEGRADED", true) if least == 5 => (5, "xx"),
        ("DEGRADED", true) => (2, "x"),
        ("DEGRADED", false) if column.starts_with("failure") => (3, "x"),
        ("DEGRADED", false) => (2, "x"),
        ("DOWN", true) => (2, "xx"),
        ("DOWN", false) if column.starts_with("success") => (2, "xx+"),
        // A trigger that is changed holds no more, and has to be armed anew.
        ("DOWN", false) => (2, "xx!"),
        _ => panic!("{state}: not known here"),
    })
}

#[test]
fn a_trigger_follows_its_table() {
    let table = Document::read().table("What a trigger makes of a result");
    assert_eq!(table.names(), BTreeSet::from(["UNKNOWN", "HEALTHY", "DEGRADED", "DOWN"]));
    assert_eq!(table.columns.len(), 4);
    let trigger = |failures, of| Trigger::new(TriggerRule::Failures { failures, of }).expect("a legal trigger");
    for (state, _) in &table.rows {
        for column in &table.columns {
            let success = column.starts_with("success");
            let (failures, of, minimum, marks) = match (state.as_str(), marks_before(state, column)) {
                ("UNKNOWN", None) if success => {
                    assert_eq!(table.cell(state, column), Some("–"), "{state}, {column}");
                    continue;
                }
                ("UNKNOWN", None) => (1, 1, 1, ""),
                // With 2 of 3 it would hold again with the next failure but for the history.
                ("HEALTHY", Some((minimum, "xx+"))) => (1, 4, minimum.max(4), "xx+"),
                (_, Some((minimum, marks))) => (2, 3, minimum, marks),
                (state, None) => panic!("{state}, {column}"),
            };
            let settings = PolicySettings {
                trigger: Some(trigger(failures, of)),
                minimum_history: Some(minimum.max(failures)),
                ..PolicySettings::default()
            };
            let mut engine = Engine::new(Policy::new(settings).expect("the policy is within its bounds"));
            let id = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            let mut probe = |result| {
                engine.record_probe(Timestamp::ZERO, id, result).map(|change| change.to.name()).expect("it is there")
            };
            let mut found = "UNKNOWN";
            let (marks, changed) = (marks.trim_end_matches('!'), marks.ends_with('!'));
            for mark in marks.chars() {
                found = probe(if mark == '+' { ProbeResult::Success } else { ProbeResult::FAILED });
            }
            assert_eq!(found, state.as_str(), "before {column}");
            if changed {
                let update = EndpointUpdate { trigger: Some(trigger(3, 3)), ..EndpointUpdate::default() };
                engine.update_endpoint("west", update).expect("a legal change");
            }
            let result = if success { ProbeResult::Success } else { ProbeResult::FAILED };
            let found = engine.record_probe(Timestamp::ZERO, id, result).map(|change| change.to.name());
            assert_eq!(found.ok(), table.cell(state, column), "{state}, {column}");
        }
    }
}
