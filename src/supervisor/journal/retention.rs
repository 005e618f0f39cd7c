//! Which segments may go.

use std::time::Duration;

use super::read::SegmentInfo;
use super::record::Seq;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Closed segments whose last record is older than this go. By the wall clock: the one thing that it decides.
    pub age: Duration,
    /// The oldest closed segments go while all of them together are larger than this, in bytes.
    pub size: u64,
}

/// How many of `segments`, counted from the oldest, may go: never the newest, which has the state of every group, and
/// none from the one on that holds `oldest_open`, the record that an unfinished switch or hook began with.
pub(super) fn expendable(segments: &[SegmentInfo], keep: Keep, oldest_open: Option<Seq>, wall: u64) -> usize {
    let oldest_to_keep = wall.saturating_sub(u64::try_from(keep.age.as_micros()).unwrap_or(u64::MAX));
    let mut left = segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.bytes));
    let closed = segments.len().saturating_sub(1);
    let goes = |segment: &&SegmentInfo| {
        let wanted = oldest_open.is_some_and(|open| segment.last >= open);
        let goes = !wanted && (segment.wall < oldest_to_keep || left > keep.size);
        left = left.saturating_sub(segment.bytes);
        goes
    };
    segments.iter().take(closed).take_while(goes_once(goes)).count()
}

/// `take_while` asks by shared reference only.
fn goes_once<'a>(mut goes: impl FnMut(&&'a SegmentInfo) -> bool) -> impl FnMut(&&'a SegmentInfo) -> bool {
    move |segment| goes(segment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400_000_000;

    fn segments(sizes: &[u64]) -> Vec<SegmentInfo> {
        let one = |(index, bytes): (u64, &u64)| SegmentInfo {
            first: index * 10 + 1,
            last: index * 10 + 10,
            bytes: *bytes,
            wall: index * DAY,
        };
        (0..).zip(sizes).map(one).collect()
    }

    const FOREVER: Keep = Keep { age: Duration::MAX, size: u64::MAX };

    #[test]
    fn segments_go_by_age_from_the_oldest_and_never_the_newest() {
        let keep = Keep { age: Duration::from_secs(2 * 86_400), ..FOREVER };
        let three = segments(&[1, 1, 1]);
        assert_eq!(expendable(&three, keep, None, 2 * DAY), 0, "exactly two days old is kept");
        assert_eq!(expendable(&three, keep, None, 2 * DAY + 1), 1);
        assert_eq!(expendable(&three, keep, None, u64::MAX), 2);
    }

    #[test]
    fn segments_go_by_size_until_the_rest_fits() {
        let sized = |size| expendable(&segments(&[100, 100, 100]), Keep { size, ..FOREVER }, None, 0);
        assert_eq!((sized(300), sized(299), sized(200), sized(199), sized(0)), (0, 1, 1, 2, 2));
    }

    #[test]
    fn b25_what_an_unfinished_switch_refers_to_is_never_dropped() {
        let nothing = Keep { age: Duration::ZERO, size: 0 };
        let open = |seq| expendable(&segments(&[1, 1, 1, 1]), nothing, Some(seq), u64::MAX);
        assert_eq!((open(1), open(10), open(11), open(30), open(31)), (0, 0, 1, 2, 3));
    }

    proptest! {
        #[test]
        fn the_newest_stays_whatever_is_asked(
            sizes in proptest::collection::vec(any::<u64>(), 0..8),
            (age, size, wall) in any::<(u64, u64, u64)>(),
            open in proptest::option::of(1..100_u64),
        ) {
            let all = segments(&sizes);
            let going = expendable(&all, Keep { age: Duration::from_micros(age), size }, open, wall);
            prop_assert!(going == 0 || going < all.len());
            prop_assert!(all.iter().take(going).all(|segment| open.is_none_or(|open| segment.last < open)));
        }
    }
}
