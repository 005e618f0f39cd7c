//! What the group's probes saw of certificates.

use std::time::Duration;

use crate::engine::{EndpointId, Timestamp};
use crate::supervisor::certificates::warning;

use super::core::{Core, Effect, note};

/// A certificate that the latest success of an endpoint saw.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    endpoint: String,
    expires: Timestamp,
    /// Whether it was said that it expires soon.
    told: bool,
}

impl Core {
    /// Keeps until when a certificate is valid, and says once that it expires soon.
    pub(super) fn see_certificate(
        &mut self,
        now: Timestamp,
        endpoint: EndpointId,
        left: Option<Duration>,
        effects: &mut Vec<Effect>,
    ) {
        if left.is_none() && self.certificates.is_empty() {
            return;
        }
        let endpoint = self.name(endpoint);
        let before = self.certificates.iter().position(|seen| seen.endpoint == endpoint);
        let told = before.is_some_and(|place| self.certificates.swap_remove(place).told);
        let Some(left) = left else { return };
        let all: Vec<_> = self.certificates.iter().map(|seen| (&*seen.endpoint, seen.left(now))).collect();
        let text = warning(&endpoint, left, &all);
        let expires = Timestamp::from_nanos(now.as_nanos().saturating_add(Timestamp::from_elapsed(left).as_nanos()));
        self.certificates.push(Seen { endpoint, expires, told: text.is_some() });
        if let Some(text) = text.filter(|_| !told) {
            note(effects, "CERTIFICATE_EXPIRES", text);
        }
    }

    /// Forgets what was seen of the endpoints that `is_other` names.
    pub(super) fn forget_certificates(&mut self, is_other: impl Fn(&str) -> bool) {
        self.certificates.retain(|seen| !is_other(&seen.endpoint));
    }

    /// For how long the certificate that an endpoint last showed is still valid.
    pub(super) fn certificate_left(&self, now: Timestamp, endpoint: &str) -> Option<Duration> {
        self.certificates.iter().find(|seen| seen.endpoint == endpoint).map(|seen| seen.left(now))
    }
}

impl Seen {
    fn left(&self, now: Timestamp) -> Duration {
        Duration::from_nanos(self.expires.nanos_since(now))
    }
}
