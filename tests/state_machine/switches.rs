//! The active path, the epoch and what is remembered: what each switch changes beside order flow.

use broker_failover::engine::*;

use crate::document::Document;
use crate::world::{Answer, EAST, INPUTS, LINE, WEST, World};

/// What is remembered beside health and order flow.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    active: Option<EndpointId>,
    epoch: Option<Epoch>,
    spent: bool,
    placed: bool,
    last_switch: Option<u64>,
    failbacks: usize,
    history: Vec<HistoryEntry>,
}

impl Memory {
    pub(crate) fn of(world: &World) -> Self {
        let engine = &world.engine;
        Self {
            active: engine.active(),
            epoch: engine.epoch(),
            spent: engine.is_spent(),
            placed: engine.is_operator_placed(),
            last_switch: engine.last_switch_age(world.now),
            failbacks: engine.failback_ages(world.now).count(),
            history: engine.history().collect(),
        }
    }
}

#[test]
fn what_each_switch_changes_beside_order_flow() {
    let table = Document::read().table("Active path, epoch, and what else is remembered");
    for (row, _) in &table.rows {
        for placed in [false, true] {
            let mut world = World::new(true, false);
            world.after(2_000).evidence(&[(EAST, "++"), (LINE, "++")]);
            if placed {
                // From west, where no operator put it, to line.
                world.expect_switch(|w| w.switchover("line", true));
                world.after(2_000).evidence(&[(EAST, "++"), (WEST, "+"), (LINE, "++")]);
            }
            let epoch = world.engine.epoch().map_or(0, Epoch::get);
            let backup = if placed { "west" } else { "line" };
            let active = world.engine.active().expect("a path is active");
            let mut before = Memory::of(&world);
            match row.as_str() {
                "register of the primary" => {
                    world.engine = Engine::new(Policy::default());
                    before = Memory::of(&world);
                    world.engine.register(Endpoint::primary("east", "r", "e")).expect("it is the first");
                }
                "SWITCHED, kind FAILOVER" => {
                    world.results(&[(active, "xx"), (EAST, "xx")]);
                    world.expect_switch(|w| w.failover(true));
                }
                "SWITCHED, kind FAILBACK" if placed => {
                    world.failback(true);
                    assert_eq!(Memory::of(&world), before, "an operator placed it");
                    continue;
                }
                "SWITCHED, kind FAILBACK" => world.expect_switch(|w| w.failback(true)),
                "SWITCHED, kind SWITCHOVER, to a backup" => world.expect_switch(|w| w.switchover(backup, true)),
                "SWITCHED, kind SWITCHOVER, to the primary" => world.expect_switch(|w| w.switchover("east", true)),
                "SWITCHED, kind REARM" => {
                    world.results(&[(active, "++")]);
                    Answer::flow(world.engine.fence_started(epoch));
                    before = Memory::of(&world);
                    world.expect_switch(World::rearm);
                }
                "fence_started" => drop(Answer::flow(world.engine.fence_started(epoch))),
                "switch_failed" => drop(Answer::flow(world.engine.switch_failed(epoch))),
                _ => panic!("{row}: not known here"),
            }
            let after = Memory::of(&world);
            let target = world.engine.id(backup).ok();
            for column in &table.columns {
                let cell = table.cell(row, column).expect("the table has this cell");
                let holds = match (column.as_str(), cell) {
                    ("active", "=") => after.active == before.active,
                    ("active", "target") => after.active == target,
                    ("active", "primary") => after.active == Some(EAST),
                    ("epoch", "=") => after.epoch == before.epoch,
                    ("epoch", "+1") => after.epoch.map(Epoch::get) == before.epoch.map(|epoch| epoch.get() + 1),
                    ("epoch", "1") => after.epoch == Some(Epoch::FIRST),
                    ("spent", "no") => !after.spent,
                    ("spent", "yes") => after.spent,
                    ("placed by an operator", "=") => after.placed == before.placed,
                    ("placed by an operator", yes_or_no) => after.placed == (yes_or_no == "yes"),
                    ("last switch", "=") => after.last_switch == before.last_switch,
                    ("last switch", "now") => after.last_switch == Some(0),
                    ("failbacks inside the window", "=") => after.failbacks == before.failbacks,
                    ("failbacks inside the window", "one more") => after.failbacks == before.failbacks + 1,
                    ("history", "=") => after.history == before.history,
                    ("history", "one more") => {
                        let newest = after.history.last().map(|entry| (entry.applied, Some(entry.event.epoch)));
                        after.history.len() == before.history.len() + 1 && newest == Some((true, after.epoch))
                    }
                    ("history", "not applied") => {
                        let mut marked = before.history.clone();
                        marked.last_mut().expect("there was a switch").applied = false;
                        after.history == marked
                    }
                    _ => panic!("{row}, {column}: {cell:?} is not known here"),
                };
                assert!(holds, "{row}, {column}: not {cell:?}\n{before:?}\n{after:?}");
            }
        }
    }

    // Everything else changes none of it.
    for input in INPUTS.iter().filter(|input| !input.name.contains("SWITCHED") && !input.name.contains("this epoch")) {
        for column in Document::read().table("The table").columns {
            let mut world = World::in_state(&column, true, false);
            (input.prepare)(&mut world);
            let before = Memory::of(&world);
            (input.apply)(&mut world);
            let rearmed = input.name == "rearm, proven" && before.spent;
            assert!(rearmed || Memory::of(&world) == before, "{column}, {}", input.name);
        }
    }
}
