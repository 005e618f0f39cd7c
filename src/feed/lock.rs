//! The sequence lock's read side: everything that one publication wrote, or nothing.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::layout::{PAYLOAD, SEQUENCE, Snapshot, WORDS};

/// Attempts before a reader says that it cannot tell: some 50 microseconds on the writer's doorstep, which a publication
/// of one or two takes only when the writer was preempted in the middle of it.
#[cfg(not(loom))]
const ATTEMPTS: u32 = 1_000;
#[cfg(loom)]
const ATTEMPTS: u32 = 2;

/// One publication; `None` while one is being written, all the attempts long.
///
/// Loads are relaxed, with fences between them: no other load is sound on a mapping that may only be read.
#[inline]
pub(super) fn read(words: &[AtomicU64; WORDS]) -> Option<Snapshot> {
    let [_, _, payload @ ..] = words;
    for _ in 0..ATTEMPTS {
        let before = u64::from_le(words[SEQUENCE].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let mut read = [0; PAYLOAD];
        for (to, from) in read.iter_mut().zip(payload) {
            *to = u64::from_le(from.load(Ordering::Relaxed));
        }
        fence(Ordering::Acquire);
        if before & 1 == 0 && u64::from_le(words[SEQUENCE].load(Ordering::Relaxed)) == before {
            return Some(Snapshot::new(before, read));
        }
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        std::hint::spin_loop();
    }
    None
}

/// Every interleaving of a writer and its readers, as far as the memory model lets them differ:
/// `RUSTFLAGS="--cfg loom" cargo test --release --features feed --lib feed::`
#[cfg(all(test, loom))]
mod interleavings {
    use std::collections::BTreeSet;
    use std::sync::{Arc as Shelf, Mutex};

    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// What is published as the `nth`: every word of it follows from that.
    fn payload(nth: u64) -> [u64; PAYLOAD] {
        std::array::from_fn(|word| nth * 100 + word as u64)
    }

    /// The three steps of the writer, with the order between them that the file system's lock gives it.
    fn publish(words: &[AtomicU64; WORDS], nth: u64) {
        words[SEQUENCE].store(nth * 2 - 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in words[SEQUENCE + 1..].iter().zip(payload(nth)) {
            word.store(value, Ordering::Relaxed);
        }
        words[SEQUENCE].store(nth * 2, Ordering::Release);
    }

    fn interleave(last: u64, interruptions: usize) -> BTreeSet<Option<u64>> {
        let readings = Shelf::new(Mutex::new(BTreeSet::new()));
        let shelf = Shelf::clone(&readings);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(interruptions);
        builder.check(move || {
            let words = Arc::new(std::array::from_fn(|word| {
                AtomicU64::new(word.checked_sub(SEQUENCE + 1).map_or(0, |word| payload(0)[word]))
            }));
            let written = Arc::clone(&words);
            let writer = thread::spawn(move || (1..=last).for_each(|nth| publish(&written, nth)));
            let reading = read(&words).map(|snapshot| {
                let nth = snapshot.sequence() / 2;
                assert_eq!(snapshot, Snapshot::new(nth * 2, payload(nth)), "a mixture");
                nth
            });
            shelf.lock().unwrap().insert(reading);
            writer.join().unwrap();
        });
        let readings = readings.lock().unwrap().clone();
        readings
    }

    #[test]
    fn a_reading_is_one_publication_or_none() {
        assert_eq!(interleave(1, 3), BTreeSet::from([None, Some(0), Some(1)]));
    }

    #[test]
    fn neither_is_one_of_two_publications_in_a_row_a_mixture() {
        assert_eq!(interleave(2, 2), BTreeSet::from([None, Some(0), Some(1), Some(2)]));
    }
}
