//! The 64 bytes: eight little-endian words, and what they mean. The table is in `references/gateway-feed.md`.

use crate::engine::{EndpointId, Engine, Epoch, HaltCode, HoldReason, OrderAction, OrderFlow};

/// Bytes of a feed.
pub const SIZE: usize = 64;
/// The layout's version. A reader refuses any other.
pub const VERSION: u8 = 1;

pub(super) const WORDS: usize = SIZE / 8;
/// The first word: what the file is, and its layout.
#[cfg_attr(loom, allow(dead_code, reason = "only the sequence lock is checked there"))]
pub(super) const MAGIC: [u8; 8] = [b'B', b'F', b'F', b'E', b'E', b'D', VERSION, 0];
/// Which word the sequence is; the payload follows it.
pub(super) const SEQUENCE: usize = 1;
pub(super) const PAYLOAD: usize = WORDS - 2;

const NO_ENDPOINT: u64 = 0xffff;
const FLOW_SHIFT: u32 = 16;
const PERMITS_SHIFT: u32 = 24;
const FLAGS_SHIFT: u32 = 32;

// Nothing is zero: a file that was never written permits nothing and says nothing.
const OPEN: u64 = 1;
const STARTING: u64 = 16;
const SWITCHING: u64 = 17;
const RECONCILING: u64 = 18;
const NO_TARGET: u64 = 32;
const OPERATOR: u64 = 33;
const CALLER: u64 = 34;

const SUBMIT: u64 = 1 << PERMITS_SHIFT;
const CANCEL: u64 = 1 << (PERMITS_SHIFT + 1);
const QUERY: u64 = 1 << (PERMITS_SHIFT + 2);

const KEEP: u64 = 1 << FLAGS_SHIFT;
const STOPPED: u64 = 1 << (FLAGS_SHIFT + 1);

/// What a gateway does once a feed is stale: its operator's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenStale {
    /// Nothing new: as in a hold. The default.
    #[default]
    Hold,
    /// It goes on with what the feed said last: a supervisor that died is not a path that died.
    Keep,
}

/// What is to be published of a group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    endpoint: u64,
    flow: u64,
    permits: u64,
    epoch: u64,
    name: u64,
}

impl Published {
    /// What `engine` says.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        let active = engine.active().zip(engine.epoch());
        let name = engine.active().and_then(|id| engine.endpoint(id)).map_or("", |endpoint| &endpoint.name);
        Self::new(active, name, engine.order_flow(), engine.permits(OrderAction::Cancel))
    }

    /// The same from its parts: the active endpoint with its epoch and its name, order flow, and whether cancels are
    /// allowed, which a halt alone does not say.
    #[must_use]
    pub fn new(active: Option<(EndpointId, Epoch)>, name: &str, flow: OrderFlow, cancels: bool) -> Self {
        let bit = |action, bit| if flow.permits(action, false) { bit } else { 0 };
        Self {
            endpoint: active.map_or(NO_ENDPOINT, |(endpoint, _)| endpoint.index() as u64),
            flow: encode(flow),
            permits: bit(OrderAction::Submit, SUBMIT)
                | bit(OrderAction::Query, QUERY)
                | if cancels { CANCEL } else { 0 },
            epoch: active.map_or(0, |(_, epoch)| epoch.get()),
            name: active.map_or(0, |_| name_hash(name)),
        }
    }

    /// The payload that says so at `now`, until `valid_until`, in this boot.
    #[cfg_attr(loom, allow(dead_code, reason = "only the sequence lock is checked there"))]
    pub(super) const fn payload(
        self,
        now: u64,
        valid_until: u64,
        when_stale: WhenStale,
        stopped: bool,
        boot: u64,
    ) -> [u64; PAYLOAD] {
        let keep = match when_stale {
            WhenStale::Hold => 0,
            WhenStale::Keep => KEEP,
        };
        let stopped = if stopped { STOPPED } else { 0 };
        let state = self.endpoint | self.flow << FLOW_SHIFT | self.permits | keep | stopped;
        [state, self.epoch, valid_until, now, boot, self.name]
    }
}

const fn encode(flow: OrderFlow) -> u64 {
    match flow {
        OrderFlow::Open { .. } => OPEN,
        OrderFlow::Hold { reason: HoldReason::Starting } => STARTING,
        OrderFlow::Hold { reason: HoldReason::Switching } => SWITCHING,
        OrderFlow::Hold { reason: HoldReason::Reconciling } => RECONCILING,
        OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => NO_TARGET,
        OrderFlow::Halt { code: HaltCode::Operator } => OPERATOR,
        OrderFlow::Halt { code: HaltCode::Caller } => CALLER,
    }
}

/// One reading of a feed: everything as of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "orders must not be sent against the feed"]
pub struct Snapshot {
    sequence: u64,
    payload: [u64; PAYLOAD],
}

impl Snapshot {
    #[inline]
    pub(super) const fn new(sequence: u64, payload: [u64; PAYLOAD]) -> Self {
        Self { sequence, payload }
    }

    /// Its number: even, and higher with every publication, heartbeats included.
    #[inline]
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The active endpoint's place in its group, and its epoch; `None`: nothing is active. A reload may give an endpoint
    /// another place: go by [`is_on`](Self::is_on).
    #[inline]
    #[must_use]
    pub const fn active(&self) -> Option<(EndpointId, Epoch)> {
        match Epoch::new(self.payload[1]) {
            Some(epoch) => Some((EndpointId::from_index((self.payload[0] & NO_ENDPOINT) as u16), epoch)),
            None => None,
        }
    }

    /// The epoch. Send it along with every order, and refuse an order of another epoch where it leaves. `None`: nothing
    /// is active.
    #[inline]
    #[must_use]
    pub const fn epoch(&self) -> Option<Epoch> {
        Epoch::new(self.payload[1])
    }

    /// [`name_hash`] of the active endpoint's name; 0: nothing is active.
    #[inline]
    #[must_use]
    pub const fn endpoint_hash(&self) -> u64 {
        self.payload[5]
    }

    /// Whether the active endpoint has this name.
    #[must_use]
    pub const fn is_on(&self, name: &str) -> bool {
        self.payload[1] != 0 && self.payload[5] == name_hash(name)
    }

    /// Order flow, as it was last published. An unknown code, of a later version, is a hold.
    #[inline]
    pub const fn order_flow(&self) -> OrderFlow {
        match self.payload[0] >> FLOW_SHIFT & 0xff {
            SWITCHING => OrderFlow::Hold { reason: HoldReason::Switching },
            RECONCILING => OrderFlow::Hold { reason: HoldReason::Reconciling },
            NO_TARGET => OrderFlow::Halt { code: HaltCode::NoTargetAvailable },
            OPERATOR => OrderFlow::Halt { code: HaltCode::Operator },
            CALLER => OrderFlow::Halt { code: HaltCode::Caller },
            code => match self.active() {
                Some((endpoint, epoch)) if code == OPEN => OrderFlow::Open { endpoint, epoch },
                _ => OrderFlow::Hold { reason: HoldReason::Starting },
            },
        }
    }

    /// Whether order flow allows `action` on the active path, if this still holds: ask [`may`](Self::may).
    #[inline]
    #[must_use]
    pub const fn permits(&self, action: OrderAction) -> bool {
        let bit = match action {
            OrderAction::Submit => SUBMIT,
            OrderAction::Cancel => CANCEL,
            OrderAction::Query => QUERY,
        };
        self.payload[0] & bit != 0
    }

    /// Whether `action` may be done on the active path at `now`, on the clock of [`now`](super::now()): it is permitted,
    /// and the feed holds, or is to be kept when it does not.
    #[inline]
    #[must_use]
    pub const fn may(&self, action: OrderAction, now: u64) -> bool {
        self.permits(action) && (!self.is_stale(now) || self.payload[0] & KEEP != 0)
    }

    /// Whether nobody vouches for this any more at `now`: the supervisor is dead, hung, stopped or frozen, or its machine
    /// is.
    #[inline]
    #[must_use]
    pub const fn is_stale(&self, now: u64) -> bool {
        now >= self.payload[2]
    }

    /// Until when it holds, in nanoseconds on the clock of [`now`](super::now()); from that moment on it is stale.
    #[inline]
    #[must_use]
    pub const fn valid_until(&self) -> u64 {
        self.payload[2]
    }

    /// When it was published, on the same clock.
    #[inline]
    #[must_use]
    pub const fn heartbeat(&self) -> u64 {
        self.payload[3]
    }

    #[cfg_attr(loom, allow(dead_code, reason = "only the sequence lock is checked there"))]
    pub(super) const fn boot(&self) -> u64 {
        self.payload[4]
    }

    /// What to do once it is stale.
    #[inline]
    #[must_use]
    pub const fn when_stale(&self) -> WhenStale {
        if self.payload[0] & KEEP != 0 { WhenStale::Keep } else { WhenStale::Hold }
    }

    /// Whether the supervisor said that it stops, and did not just disappear.
    #[inline]
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.payload[0] & STOPPED != 0
    }
}

/// FNV-1a, 64 bits, of a name's UTF-8: how a feed names an endpoint in eight bytes. A gateway computes it once for each
/// name that it knows.
#[must_use]
pub const fn name_hash(name: &str) -> u64 {
    let (bytes, mut at, mut hash) = (name.as_bytes(), 0, 0xcbf2_9ce4_8422_2325_u64);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Endpoint, FenceStatus, HaltOrder, Policy, PolicySettings, ProbeResult, Timestamp};

    const ACTIONS: [OrderAction; 3] = [OrderAction::Submit, OrderAction::Cancel, OrderAction::Query];

    fn snapshot(engine: &Engine, when_stale: WhenStale) -> Snapshot {
        Snapshot::new(2, Published::of(engine).payload(5, 10, when_stale, false, 7))
    }

    fn says_the_same(engine: &Engine) {
        let snapshot = snapshot(engine, WhenStale::Hold);
        assert_eq!(snapshot.active(), engine.active().zip(engine.epoch()));
        assert_eq!(snapshot.order_flow(), engine.order_flow());
        let name = engine.active().and_then(|id| engine.endpoint(id)).map_or("", |endpoint| &endpoint.name);
        assert_eq!(snapshot.is_on(name), engine.active().is_some());
        for action in ACTIONS {
            assert_eq!(snapshot.permits(action), engine.permits(action), "{action:?} in {:?}", engine.order_flow());
        }
    }

    #[test]
    fn a_snapshot_says_what_the_engine_says_in_every_state() {
        let settings = PolicySettings { failure_threshold: 1, ..Default::default() };
        let mut engine = Engine::new(Policy::new(settings).unwrap());
        let now = Timestamp::ZERO;
        says_the_same(&engine);
        let east = engine.register(Endpoint::primary("east", "r", "u")).unwrap();
        let west = engine.register(Endpoint::backup("west", "r", "u", 1)).unwrap();
        says_the_same(&engine);
        let _ = engine.record_probe(now, east, ProbeResult::Success).unwrap();
        says_the_same(&engine);
        let _ = engine.halt(HaltOrder::operator("desk"));
        says_the_same(&engine);
        let _ = engine.halt(HaltOrder::new("HOLD_EXPIRED", "").unwrap());
        says_the_same(&engine);
        let _ = engine.resume().unwrap();
        says_the_same(&engine);
        let _ = engine.record_probe(now, east, ProbeResult::FAILED).unwrap();
        let _ = engine.evaluate_failover(now, FenceStatus::Unconfirmed).unwrap();
        says_the_same(&engine);
        let _ = engine.record_probe(now, west, ProbeResult::Success).unwrap();
        let fence = engine.evaluate_failover(now, FenceStatus::Unconfirmed).unwrap().fence().unwrap();
        says_the_same(&engine);
        let _ = engine.evaluate_failover(now, fence.confirm()).unwrap();
        says_the_same(&engine);
        assert!(snapshot(&engine, WhenStale::Hold).is_on("west"));
    }

    #[test]
    fn what_may_be_done_ends_with_its_moment_unless_it_is_to_be_kept() {
        let mut engine = Engine::new(Policy::default());
        let east = engine.register(Endpoint::primary("east", "r", "u")).unwrap();
        let _ = engine.record_probe(Timestamp::ZERO, east, ProbeResult::Success).unwrap();
        let (hold, keep) = (snapshot(&engine, WhenStale::Hold), snapshot(&engine, WhenStale::Keep));
        for action in ACTIONS {
            assert!(hold.may(action, 9) && !hold.may(action, 10), "{action:?}");
            assert!(keep.may(action, 9) && keep.may(action, u64::MAX), "{action:?}");
        }
        assert!(!keep.is_stale(9) && keep.is_stale(10));
        let _ = engine.fence_started(1).unwrap();
        assert!(ACTIONS.iter().all(|action| !snapshot(&engine, WhenStale::Keep).may(*action, 0)));
    }

    #[test]
    fn a_file_that_was_never_written_and_a_code_of_a_later_version_permit_nothing() {
        let empty = Snapshot::new(0, [0; PAYLOAD]);
        assert_eq!(empty.order_flow(), OrderFlow::Hold { reason: HoldReason::Starting });
        assert!(empty.is_stale(0) && empty.active().is_none() && !empty.is_on(""));
        let later = Snapshot::new(0, [99 << FLOW_SHIFT, 1, u64::MAX, 0, 0, 0]);
        assert_eq!(later.order_flow(), OrderFlow::Hold { reason: HoldReason::Starting });
        assert!(ACTIONS.iter().all(|action| !empty.may(*action, 0) && !later.may(*action, 0)));
    }

    #[test]
    fn the_hash_is_the_published_fnv_1a() {
        // From the algorithm's own test vectors.
        assert_eq!(name_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(name_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(name_hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
