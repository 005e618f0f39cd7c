//! Order flow: every cell of its tables, and what each state permits.

use std::collections::BTreeSet;

use broker_failover::engine::*;

use crate::document::Document;
use crate::world::{Answer, INPUTS, Input, SECOND, WEST, World};

#[test]
fn every_cell_of_the_tables_is_what_the_engine_does() {
    let document = Document::read();
    let table = document.table("The table");
    let open_at_once = document.table("Without reconciliation");
    let latched = document.table("When only an operator resumes");
    let driven: BTreeSet<_> = INPUTS.iter().map(|input| input.name).collect();
    assert_eq!(table.names(), driven, "the rows of the table, and the inputs that this test knows");
    for other in [&open_at_once, &latched] {
        assert_eq!(other.columns, table.columns);
        assert!(other.names().is_subset(&driven));
    }

    let mut cells = 0;
    for (reconcile, operator_resumes) in [(true, false), (false, false), (true, true), (false, true)] {
        for column in &table.columns {
            for input in INPUTS {
                let in_engines_halt = column.starts_with("NO_TARGET");
                let differing = [(&latched, operator_resumes && in_engines_halt), (&open_at_once, !reconcile)];
                let differing = differing.into_iter().filter(|(_, holds)| *holds);
                let cell = differing.filter_map(|(table, _)| table.cell(input.name, column)).next();
                let cell = cell.or_else(|| table.cell(input.name, column)).expect("the table has every row");
                let world = World::in_state(column, reconcile, operator_resumes);
                drive(&world, column, input, cell).unwrap_or_else(|wrong| {
                    panic!("{column}, {}: {wrong} ({reconcile}, {operator_resumes})", input.name)
                });
                cells += 1;
            }
        }
        // A row of a smaller table must say the same as the large one where its policy makes no difference.
        if reconcile && operator_resumes {
            for (row, cells) in &latched.rows {
                for (column, cell) in latched.columns.iter().zip(cells) {
                    let same = column.starts_with("NO_TARGET") || table.cell(row, column) == Some(cell.as_str());
                    assert!(same, "{row}, {column}: {cell} differs without a reason");
                }
            }
        }
    }
    assert_eq!(cells, 4 * 9 * INPUTS.len());
}

/// Gives the input to an engine in the state of the column and compares with the cell.
fn drive(world: &World, column: &str, input: &Input, cell: &str) -> Result<(), String> {
    let mut world = world.clone();
    assert_eq!(world.state(), column, "the way into the state");
    (input.prepare)(&mut world);
    let (prepared, before) = (world.state(), world.clone());
    let answers = (input.apply)(&mut world);
    let arises = prepared == column && answers.iter().all(|answer| answer.shows(input.name));
    if cell == "–" {
        return if arises { Err(format!("it arises, with {answers:?}")) } else { Ok(()) };
    }
    if !arises {
        return Err(format!("it does not arise: {prepared} before, {answers:?}"));
    }
    let flow = |state: &str| state.strip_suffix(", spent").unwrap_or(state).to_owned();
    let found = flow(&world.state());
    for answer in &answers {
        match answer {
            Answer::Refused(code) if *code == cell => {
                assert_eq!(world.engine, before.engine, "a refused input changes nothing");
            }
            Answer::Refused(code) => return Err(format!("refused with {code}; the table says {cell}")),
            Answer::Taken { .. } => {
                let expected = if cell == "=" { flow(column) } else { cell.to_owned() };
                if found != expected {
                    return Err(format!("it became {found}; the table says {cell}"));
                }
            }
        }
    }
    let (flow_before, flow_after) = (before.engine.order_flow(), world.engine.order_flow());
    // An ordered halt takes the code of the latest order.
    if cell == "=" && flow_after != flow_before && found != "ORDERED" {
        return Err(format!("{flow_before:?} became {flow_after:?}; the table says that it stays"));
    }
    if let Some(Answer::Taken { flow: Some(told), .. }) = answers.last() {
        assert_eq!(*told, flow_after, "the answer tells order flow as it is");
    }
    if let OrderFlow::Open { endpoint, epoch } = flow_after {
        assert_eq!((Some(endpoint), Some(epoch)), (world.engine.active(), world.engine.epoch()));
        assert!(!world.engine.is_spent());
    }
    Ok(())
}

#[test]
fn nothing_is_active_before_a_primary_is_registered() {
    let table = Document::read().table("Nothing is active");
    let mut driven = BTreeSet::new();
    for column in &table.columns {
        for (row, _) in &table.rows {
            let cell = table.cell(row, column).expect("the table has this cell");
            let mut engine = Engine::new(Policy::default());
            let backup = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            if column == "ORDERED" {
                assert!(engine.halt(HaltOrder::operator("the test asked")).is_halt());
            }
            let before = engine.clone();
            let answers = without_active(&mut engine, backup, row).unwrap_or_else(|| panic!("{row}: not known here"));
            driven.insert(row.clone());
            let flow = match engine.order_flow() {
                OrderFlow::Hold { reason } => reason.name(),
                OrderFlow::Halt { code: HaltCode::Operator } => "ORDERED",
                other => panic!("{row}, {column}: {other:?}"),
            };
            for answer in answers {
                match answer {
                    Answer::Refused(code) => {
                        assert_eq!(code, cell, "{row}, {column}");
                        assert_eq!(engine, before, "{row}, {column}");
                    }
                    Answer::Taken { .. } => {
                        assert_eq!(flow, if cell == "=" { column.as_str() } else { cell }, "{row}, {column}");
                    }
                }
            }
            assert_eq!(engine.epoch().map(Epoch::get), (row == "register of the primary").then_some(1), "{row}");
            assert!(!engine.is_spent() && !engine.permits(OrderAction::Submit), "{row}");
        }
    }
    assert_eq!(driven.len(), 16);
}

fn without_active(engine: &mut Engine, backup: EndpointId, row: &str) -> Option<Vec<Answer>> {
    let now = Timestamp::from_nanos(SECOND);
    let claims = [FenceStatus::Unconfirmed, FenceStatus::Confirmed { endpoint: backup, epoch: 1 }];
    let mut ask = |ask: &dyn Fn(&mut Engine, FenceStatus) -> Result<FailoverDecision, EngineError>| {
        claims.map(|claim| Answer::decision(ask(engine, claim))).to_vec()
    };
    let restart = |engine: &mut Engine, kind| {
        let restored = Engine::restore(engine.policy().clone(), engine.snapshot(now), now, kind);
        *engine = restored.expect("its own snapshot restores");
        vec![Answer::flow(Ok(engine.order_flow()))]
    };
    Some(match row {
        "probe of a backup" => vec![Answer::done(engine.record_probe(now, backup, ProbeResult::Success))],
        "evaluate failover" => ask(&|engine, claim| engine.evaluate_failover(now, claim)),
        "evaluate failback" => ask(&|engine, claim| engine.evaluate_failback(now, claim)),
        "switchover" => ask(&|engine, claim| engine.switchover(now, "nowhere", claim)),
        "any assessment" => [
            ask(&|engine, claim| engine.assess_failover(now, claim)),
            ask(&|engine, claim| engine.assess_failback(now, claim)),
            ask(&|engine, claim| engine.assess_switchover(now, "west", claim)),
        ]
        .concat(),
        "rearm" => vec![Answer::decision(engine.rearm(now))],
        "fence_started" => vec![Answer::flow(engine.fence_started(1))],
        "switch_failed" => vec![Answer::flow(engine.switch_failed(1))],
        "reconciled" => vec![Answer::flow(engine.confirm_reconciled(now, 1))],
        "halt" => vec![Answer::flow(Ok(engine.halt(HaltOrder::operator("again"))))],
        "resume" => vec![Answer::flow(engine.resume())],
        "restart of the gateway" => restart(engine, RestartKind::Gateway),
        "restart of the monitor" => restart(engine, RestartKind::Monitor),
        "validate" => vec![match engine.validate_configuration() {
            Err(error) => Answer::Refused(error.code()),
            Ok(()) => Answer::done(Ok(())),
        }],
        "register, update, maintenance, bar of a backup" => {
            let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
            vec![
                Answer::done(engine.register(Endpoint::backup("line", "r", "l", 20))),
                Answer::done(engine.update_endpoint("west", update)),
                Answer::done(engine.set_maintenance("west", true)),
                Answer::done(engine.set_bar("west", BarCause::SharedFate, true)),
            ]
        }
        "register of the primary" => vec![Answer::done(engine.register(Endpoint::primary("east", "r", "e")))],
        _ => return None,
    })
}

#[test]
fn each_state_permits_what_its_row_says() {
    let document = Document::read();
    let table = document.table("What each state permits");
    assert_eq!(table.columns, ["submit", "cancel", "query"]);
    let mut states = BTreeSet::new();
    for column in document.table("The table").columns {
        let state = column.strip_suffix(", spent").unwrap_or(&column).to_owned();
        for (marks, healthy) in [("", false), ("x", false), ("xx", false), ("+", true)] {
            let mut world = World::in_state(&column, true, false);
            world.restart(RestartKind::Monitor);
            world.results(&[(WEST, marks)]);
            if world.state() != column {
                continue; // A success opened STARTING.
            }
            let able = healthy && !world.engine.is_spent();
            for (action, name) in
                [(OrderAction::Submit, "submit"), (OrderAction::Cancel, "cancel"), (OrderAction::Query, "query")]
            {
                let permitted = match table.cell(&state, name) {
                    Some("yes") => true,
                    Some("no") => false,
                    Some("if able") => able,
                    other => panic!("{state}, {name}: {other:?}"),
                };
                assert_eq!(world.engine.permits(action), permitted, "{column}, {name}, west {marks:?}");
            }
        }
        states.insert(state);
    }
    assert_eq!(states, table.names().into_iter().map(str::to_owned).collect());
}
