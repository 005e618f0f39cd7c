//! How fast the layer in front of the paths can move traffic: the floor of any recovery time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::error::TextError;
use super::text::{Spoken, span};

const S: fn(u64) -> Duration = Duration::from_secs;

/// What moves traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingLayer {
    /// One address announced from several places; an announcement is withdrawn.
    Anycast,
    /// A load balancer at the edge that checks every region itself.
    GlobalLoadBalancer,
    /// Clients that hold a list of endpoints and check them.
    ClientSide {
        /// How often a client checks.
        check: Duration,
    },
    /// A record that is changed, and caches that expire, or do not.
    Dns {
        /// Its time to live.
        ttl: Duration,
    },
}

/// A recovery time that the routing layer cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "an RTO of {} is below the floor of {layer}, which moves traffic in {} to {}{}: no standby and no trigger helps",
    Spoken(*rto), Spoken(layer.failover().0), Spoken(layer.failover().1), layer.tail()
)]
pub struct BelowFloor {
    /// The RTO that was asked for.
    pub rto: Duration,
    /// The layer.
    pub layer: RoutingLayer,
}

impl RoutingLayer {
    /// How long a failover realistically takes, at best and usually.
    ///
    /// Anycast and the load balancer have round figures of our own for "seconds" and "tens of seconds" (1 s to 60 s, and
    /// 1 s to 10 s, with 6 s measured). Client side: one check at best, two at worst. DNS: 5 to 15 minutes at a TTL of
    /// 60 s or less, because caches keep minimums of their own; 15 to 60 minutes at 300 s; in proportion between the two
    /// and above.
    #[must_use]
    pub fn failover(self) -> (Duration, Duration) {
        match self {
            Self::Anycast => (S(1), S(60)),
            Self::GlobalLoadBalancer => (S(1), S(10)),
            Self::ClientSide { check } => (check, check.saturating_mul(2)),
            Self::Dns { ttl } => {
                let (short, long) = (S(60), S(300));
                if ttl <= short {
                    (S(300), S(900))
                } else if ttl >= long {
                    (ttl.saturating_mul(3), ttl.saturating_mul(12))
                } else {
                    // From 60 s to 300 s the bounds rise by 600 s and 2,700 s: 2.5 s and 11.25 s for each second.
                    let over = ttl - short;
                    (S(300) + over * 5 / 2, S(900) + over * 45 / 4)
                }
            }
        }
    }

    /// The recovery time below which nothing goes.
    #[must_use]
    pub fn floor(self) -> Duration {
        self.failover().0
    }

    /// Whether an RTO is at least the floor.
    ///
    /// # Errors
    /// It is below, with the reason.
    pub fn admits(self, rto: Duration) -> Result<(), BelowFloor> {
        if rto < self.floor() { Err(BelowFloor { rto, layer: self }) } else { Ok(()) }
    }

    const fn tail(self) -> &'static str {
        match self {
            Self::Dns { .. } => ", with a tail of hours",
            _ => "",
        }
    }
}

impl fmt::Display for RoutingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anycast => f.write_str("BGP anycast"),
            Self::GlobalLoadBalancer => f.write_str("a global load balancer"),
            Self::ClientSide { check } => write!(f, "clients that check every {}", Spoken(*check)),
            Self::Dns { ttl } => write!(f, "DNS with a TTL of {}", Spoken(*ttl)),
        }
    }
}

impl FromStr for RoutingLayer {
    type Err = TextError;

    /// `anycast`, `load-balancer`, `client:10s` or `dns:60s`.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let after = |prefix| text.trim().strip_prefix(prefix).and_then(span);
        let read = || match text.trim() {
            "anycast" => Some(Self::Anycast),
            "load-balancer" => Some(Self::GlobalLoadBalancer),
            _ => after("client:")
                .map(|check| Self::ClientSide { check })
                .or_else(|| after("dns:").map(|ttl| Self::Dns { ttl })),
        };
        read().ok_or_else(|| TextError::new(text, "\"anycast\", \"load-balancer\", \"client:10s\" or \"dns:60s\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_of_dns_rises_with_the_ttl_and_has_a_bottom() {
        let dns = |ttl| RoutingLayer::Dns { ttl: S(ttl) }.failover();
        assert_eq!(dns(0), dns(60), "caches keep minimums of their own");
        assert_eq!(dns(180), (S(600), S(2_250)));
        assert_eq!(dns(300), (S(900), S(3_600)));
        let mut before = dns(60);
        for ttl in 61..1_000 {
            let now = dns(ttl);
            assert!(now.0 > before.0 && now.1 > before.1, "{ttl}");
            before = now;
        }
        assert_eq!(RoutingLayer::Dns { ttl: Duration::MAX }.failover(), (Duration::MAX, Duration::MAX));
    }

    #[test]
    fn both_sides_of_the_floor() {
        let layer = RoutingLayer::ClientSide { check: S(10) };
        assert_eq!(layer.admits(S(10)), Ok(()));
        assert!(layer.admits(S(10) - Duration::from_nanos(1)).is_err());
    }

    #[test]
    fn layers_are_read_or_refused() {
        assert_eq!("dns:60s".parse(), Ok(RoutingLayer::Dns { ttl: S(60) }));
        assert_eq!("client:10s".parse(), Ok(RoutingLayer::ClientSide { check: S(10) }));
        assert_eq!("anycast".parse(), Ok(RoutingLayer::Anycast));
        assert_eq!("load-balancer".parse(), Ok(RoutingLayer::GlobalLoadBalancer));
        for text in ["", "dns", "dns:60", "dns:-1s", "anycast:1s", "bgp", "client:s", "load-balancer:"] {
            assert!(text.parse::<RoutingLayer>().is_err(), "{text}");
        }
    }
}
