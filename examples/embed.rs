//! A gateway's loop. The primary path dies and comes back; later no path is left, and trading halts until one is.
//! What lies outside this process is simulated, so it runs anywhere: `cargo run --example embed`
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "an example prints and waits")]

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::manager::{Manager, Probe};
use broker_failover::path::PathReader;

/// The far side: which paths answer, and the one epoch whose orders are accepted (0: all paths are fenced).
#[derive(Default)]
struct Broker {
    east_is_up: AtomicBool,
    west_is_up: AtomicBool,
    epoch: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicBool,
}

fn main() -> Result<(), Box<dyn Error>> {
    // The cooldown is this short for the demonstration only; everything else is a default.
    let policy = Policy::new(PolicySettings { cooldown: Duration::from_millis(5), ..Default::default() })?;
    let mut engine = Engine::new(policy);
    let east = engine.register(Endpoint::primary("east", "us-east-1", "https://east.example"))?;
    let west = engine.register(Endpoint::backup("west", "us-west-2", "https://west.example", 10))?;
    // With nothing to fail over to, nothing would ever fail here: it would just never act. So ask before trading.
    engine.validate_configuration()?;

    let broker = Broker { epoch: AtomicU64::new(1), ..Default::default() };
    // A probe should exercise what orders need, and must bound its own time. An error is a failure, and so is a panic.
    let manager = Manager::new(engine, |endpoint: &Endpoint| {
        let up = if endpoint.name == "east" { &broker.east_is_up } else { &broker.west_is_up };
        if up.load(SeqCst) { Ok(()) } else { Err(io::Error::from(io::ErrorKind::ConnectionReset))? }
    });
    thread::scope(|threads| {
        let reader = manager.reader();
        threads.spawn(|| send_orders(reader, &broker));
        let traded = (1..=24).try_for_each(|second| {
            broker.east_is_up.store(!matches!(second, 4..8 | 18..22), SeqCst);
            broker.west_is_up.store(!matches!(second, 18..23), SeqCst);
            // Elsewhere, give each a thread: probes run outside the lock, so that a slow one delays nobody else.
            let (east, west) = (manager.probe(east)?.to, manager.probe(west)?.to);
            let mut decision = act(&manager, &broker, |fence| manager.evaluate_failover(fence))?;
            if decision.outcome == FailoverOutcome::NoAction {
                // Going back is a wish, not a need: ask only when nothing is more urgent.
                let failback = act(&manager, &broker, |fence| manager.evaluate_failback(fence))?;
                decision = if failback.outcome == FailoverOutcome::NoAction { decision } else { failback };
            }
            if manager.order_flow() == (OrderFlow::Hold { reason: HoldReason::Reconciling }) {
                println!("   settle the orders in flight against the broker's book for epoch {}", decision.epoch);
                let _ = manager.confirm_reconciled(decision.epoch.get())?;
            }
            let flow = if manager.must_halt() { "HALT" } else { "open" };
            let (outcome, reason) = (decision.outcome.name(), decision.reason);
            println!("{second:>2} east {east:8} west {west:8} epoch {} {flow}  {outcome}: {reason}", decision.epoch);
            thread::sleep(Duration::from_millis(3));
            Ok::<(), Box<dyn Error>>(())
        });
        broker.closed.store(true, SeqCst);
        traded
    })?;
    println!("{} orders accepted", broker.accepted.into_inner());
    assert_eq!(manager.active().map(|path| (path.endpoint, path.epoch.get())), Some((east, 3)));
    Ok(())
}

/// Asks; fences if that is the answer, and asks again; carries out what was decided.
fn act(
    manager: &Manager<impl Probe>,
    broker: &Broker,
    ask: impl Fn(FenceStatus) -> Result<FailoverDecision, EngineError>,
) -> Result<FailoverDecision, EngineError> {
    let mut decision = ask(FenceStatus::Unconfirmed)?;
    if let Some(order) = decision.fence() {
        println!("   fence endpoint {} in epoch {}", order.endpoint.index(), order.epoch);
        // Said first: from here on this epoch never opens again, even if the fence hangs or this process dies.
        let _ = manager.fence_started(order.epoch.get())?;
        broker.epoch.store(0, SeqCst);
        // Confirm only what is certain. A fence that timed out confirms nothing: ask again later.
        decision = ask(order.confirm())?;
    }
    match decision.outcome {
        FailoverOutcome::Switched(event) => {
            // Store `manager.snapshot()` first: the decision must outlive this process. If the transport then can't be
            // moved, say `manager.switch_failed(epoch)` and ask again.
            println!("   move the transport to endpoint {} in epoch {}", event.to.index(), event.epoch);
            broker.epoch.store(event.epoch.get(), SeqCst);
        }
        FailoverOutcome::NoTargetAvailable => println!("   nowhere to go: call a person"),
        FailoverOutcome::FlapSuppressed { .. } => println!("   the primary oscillates: call a person"),
        FailoverOutcome::NoAction | FailoverOutcome::FenceRequired(_) => {}
        FailoverOutcome::CooldownActive { .. } | FailoverOutcome::NotStableYet => {}
    }
    Ok(decision)
}

/// The order path: atomic loads only, no lock and no clock.
fn send_orders(reader: PathReader, broker: &Broker) {
    while !broker.closed.load(SeqCst) {
        // ... waiting for something to send takes a while, so look once more just before it leaves.
        if let Some(path) = reader.path().open().filter(|path| reader.still_open(*path)) {
            // The epoch goes along. The real guard is the far side's: it refuses any other, however late it arrives.
            let accepted = broker.epoch.load(SeqCst) == path.epoch.get();
            broker.accepted.fetch_add(accepted.into(), SeqCst);
        }
        thread::yield_now();
    }
}

#[test]
fn the_example_ends_on_the_primary_again_two_epochs_later() {
    main().unwrap();
}
