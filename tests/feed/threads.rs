//! A reading is one publication, whatever the threads do: every word of what is published here follows from its epoch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use broker_failover::engine::{EndpointId, Epoch, HaltCode, HoldReason, OrderAction, OrderFlow};
use broker_failover::feed::{FeedReader, FeedWriter, Published, Snapshot, Terms, WhenStale};

use crate::file::Folder;

const NAMES: [&str; 5] = ["east", "west", "north", "south", "a path with a long name, and an umlaut: \u{fc}"];

fn flow(endpoint: EndpointId, epoch: Epoch) -> OrderFlow {
    match epoch.get() % 7 {
        0 => OrderFlow::Open { endpoint, epoch },
        1 => OrderFlow::Hold { reason: HoldReason::Starting },
        2 => OrderFlow::Hold { reason: HoldReason::Switching },
        3 => OrderFlow::Hold { reason: HoldReason::Reconciling },
        4 => OrderFlow::Halt { code: HaltCode::NoTargetAvailable },
        5 => OrderFlow::Halt { code: HaltCode::Operator },
        _ => OrderFlow::Halt { code: HaltCode::Caller },
    }
}

fn parts(epoch: u64) -> (EndpointId, Epoch, &'static str, bool, Terms) {
    let mixed = epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let endpoint = EndpointId::from_index((mixed >> 40) as u16 % 1_000);
    let valid_for = Duration::from_nanos(1 + (mixed >> 20) % 1_000_000);
    let when_stale = if mixed & 2 == 0 { WhenStale::Hold } else { WhenStale::Keep };
    let name = NAMES[(mixed >> 10) as usize % NAMES.len()];
    (endpoint, Epoch::new(epoch).unwrap(), name, mixed & 1 == 0, Terms { valid_for, when_stale })
}

fn check(snapshot: &Snapshot) -> u64 {
    let Some((endpoint, epoch)) = snapshot.active() else { return 0 };
    let (expected, _, name, cancels, terms) = parts(epoch.get());
    let is_cancel = flow(endpoint, epoch).permits(OrderAction::Cancel, cancels);
    assert_eq!(endpoint, expected, "{snapshot:?}");
    assert_eq!(snapshot.order_flow(), flow(endpoint, epoch), "{snapshot:?}");
    assert!(snapshot.is_on(name), "{snapshot:?}");
    assert_eq!(snapshot.permits(OrderAction::Cancel), is_cancel, "{snapshot:?}");
    assert_eq!(snapshot.when_stale(), terms.when_stale, "{snapshot:?}");
    assert_eq!(u128::from(snapshot.valid_until() - snapshot.heartbeat()), terms.valid_for.as_nanos(), "{snapshot:?}");
    epoch.get()
}

#[test]
fn threads_never_read_a_mixture_of_two_publications() {
    let seed = std::env::var("BROKER_FAILOVER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 >> 20 & 0xffff_ffff);
    println!("BROKER_FAILOVER_SEED={seed}");
    for folder in [Folder::new("threads"), Folder::in_memory("threads")] {
        let mut writer = FeedWriter::open(folder.feed()).unwrap();
        let readers = [FeedReader::open(folder.feed()).unwrap(), FeedReader::open(folder.feed()).unwrap()];
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading = readers.map(|reader| {
                let over = &over;
                scope.spawn(move || {
                    let (mut last, mut seen, mut sequence) = (0, 0_u64, 0);
                    while !over.load(Ordering::Relaxed) {
                        let Some(snapshot) = reader.read() else { continue };
                        let epoch = check(&snapshot);
                        assert!(epoch >= last && snapshot.sequence() >= sequence, "it went back");
                        seen += u64::from(epoch != last);
                        (last, sequence) = (epoch, snapshot.sequence());
                    }
                    (seen, last)
                })
            });
            // Rising, but not by one, so that words differ in many bits.
            let mut epoch = seed % 1_000 + 1;
            for step in 0..100_000_u64 {
                epoch += 1 + (seed.rotate_left((step % 64) as u32) & 3);
                let (endpoint, number, name, cancels, terms) = parts(epoch);
                let flow = flow(endpoint, number);
                let cancels = flow.permits(OrderAction::Cancel, cancels);
                writer.publish(Published::new(Some((endpoint, number)), name, flow, cancels), terms).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            for thread in reading {
                let (seen, last) = thread.join().unwrap();
                println!("{seen} publications were read, up to epoch {last} of {epoch}");
                assert!(seen > 10);
            }
        });
    }
}
