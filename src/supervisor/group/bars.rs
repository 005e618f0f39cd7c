//! Why a path is no target though its probes are green: what was measured, and the bars that follow from it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::{BarCause, EndpointId, Input, Timestamp};

use super::super::config::{Depth, EndpointConfig, Identity, Require, Terms};
use super::super::probes::{Evidence, Fault, MOST_REFUSED_LOGONS, NoEvidence};
use super::core::{Core, Effect, Entry, note};

/// Code of the note that counts a logon that was refused; its text is the credential's name.
pub(super) const LOGON_REFUSED: &str = "LOGON_REFUSED";
/// Code of the note that begins that count anew; likewise.
pub(super) const LOGON_ACCEPTED: &str = "LOGON_ACCEPTED";
/// Code of the halt while the far side has shut out the active path and nothing outside its fate is a target.
const SHARED_BAN: &str = "SHARED_BAN";
/// Code of the bar, the note and the halt where a path fronts another account than the stated one.
const ACCOUNT_MISMATCH: &str = "ACCOUNT_MISMATCH";
/// Code of the halt while another session holds the identity that trades: to log on would end it, and to be ended in turn.
const COMPETING_SESSION: &str = "COMPETING_SESSION";
/// A ban that does not say how long it lasts.
const BAN_OF_UNKNOWN_LENGTH: Duration = Duration::from_secs(300);

/// What was measured of the endpoints beside their health. None of it outlives a restart; the bars do.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// When each depth was last proved, by the engine's number of the endpoint; indexed as [`Depth::ALL`].
    proved: Vec<[Option<Timestamp>; 3]>,
    /// By which endpoint the far side said that it shuts us out, and until when.
    bans: BTreeMap<String, Timestamp>,
    /// How often in a row the active path's probe said that another session holds the identity that trades.
    competing: u32,
}

impl Measured {
    /// `depth`, and with it all that is less deep, is proved of the endpoint.
    fn proves(&mut self, endpoint: EndpointId, now: Timestamp, depth: Depth) {
        if self.proved.len() <= endpoint.index() {
            self.proved.resize(endpoint.index() + 1, [None; 3]);
        }
        let proved = self.proved.get_mut(endpoint.index()).into_iter().flatten();
        for (at, _) in proved.zip(Depth::ALL).filter(|(_, less)| *less <= depth) {
            *at = Some(now);
        }
    }

    /// The endpoints are others now: `kept` says, in the order of their new numbers, which of the old ones each of them
    /// is. What was seen of one that is none of the old ones was of another path.
    pub(super) fn renumber(&mut self, kept: &[(&str, Option<EndpointId>)]) {
        let before = |old: &Option<EndpointId>| old.and_then(|old| self.proved.get(old.index()).copied());
        self.proved = kept.iter().map(|(_, old)| before(old).unwrap_or_default()).collect();
        self.bans.retain(|name, _| kept.iter().any(|(new, old)| new == name && old.is_some()));
    }

    /// Nothing that was proved before a freeze is proved any more. A ban goes on.
    pub(super) fn stalled(&mut self) {
        self.proved.clear();
    }
}

impl Core {
    /// For how long the given depth, or a deeper one, has not been proved anew.
    pub(super) fn depth_age(&self, now: Timestamp, endpoint: EndpointId, depth: Depth) -> Option<u64> {
        let proved = self.measured.proved.get(endpoint.index())?;
        proved.get(depth as usize).copied().flatten().map(|at| now.nanos_since(at))
    }

    /// A success: what it proves, and what it lifts.
    pub(super) fn succeeded(&mut self, now: Timestamp, id: EndpointId, seen: &Evidence, effects: &mut Vec<Effect>) {
        self.measured.proves(id, now, seen.depth);
        if self.engine.active() == Some(id) {
            self.measured.competing = 0;
        }
        if self.engine.bars(id).contains(BarCause::SharedFate) {
            self.answers_again(now, id, effects);
        }
        if !self.memory.refused_logons.is_empty() {
            self.count_accepted(id, effects);
        }
    }

    /// It shuts nobody out any more. An answer to what was asked before the ban is none.
    fn answers_again(&mut self, now: Timestamp, id: EndpointId, effects: &mut Vec<Effect>) {
        let name = self.name(id);
        if self.banned_until(now, &name).is_none() {
            self.bar(now, &name, BarCause::SharedFate, false, effects);
        }
    }

    /// Every credential of a path whose probes all succeeded was accepted.
    fn count_accepted(&mut self, id: EndpointId, effects: &mut Vec<Effect>) {
        let accepted: Vec<_> = match self.configured(&self.name(id)) {
            Some(one) if one.require == Require::All || one.probes.len() == 1 => {
                one.credentials().filter(|name| self.refused(name) > 0).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        for credential in accepted {
            if self.refused(&credential) < MOST_REFUSED_LOGONS {
                self.record(Entry::Note { code: LOGON_ACCEPTED, text: credential }, false, effects);
            }
        }
    }

    /// A fault that says more than that the path fails.
    pub(super) fn faulted(
        &mut self,
        now: Timestamp,
        id: EndpointId,
        fault: Fault,
        text: &str,
        effects: &mut Vec<Effect>,
    ) {
        let name = self.name(id);
        if self.engine.active() == Some(id) {
            self.measured.competing = 0;
        }
        match fault {
            Fault::LogonRefused => self.count_refused(&name, text, effects),
            Fault::AccountMismatch => {
                if !self.engine.bars(id).contains(BarCause::AccountMismatch) {
                    let text = format!("{name}: {text}; barred until a person says unbar {name}");
                    note(effects, ACCOUNT_MISMATCH, text);
                    self.bar(now, &name, BarCause::AccountMismatch, true, effects);
                }
                // Orders would go to another account: there is nothing to weigh, and nothing to wait for.
                if self.engine.active() == Some(id) && self.engine.halt_order().is_none() && !self.is_paused() {
                    self.halt(now, ACCOUNT_MISMATCH, format!("the active path {name}: {text}"), effects);
                }
            }
            _ => {}
        }
    }

    fn count_refused(&mut self, endpoint: &str, text: &str, effects: &mut Vec<Effect>) {
        let credentials: Vec<_> =
            self.configured(endpoint).into_iter().flat_map(EndpointConfig::credentials).map(str::to_owned).collect();
        for credential in credentials {
            self.logon_refused(endpoint, credential, text, effects);
        }
    }

    fn logon_refused(&mut self, endpoint: &str, credential: String, text: &str, effects: &mut Vec<Effect>) {
        self.record(Entry::Note { code: LOGON_REFUSED, text: credential.clone() }, true, effects);
        if self.refused(&credential) == MOST_REFUSED_LOGONS {
            let text = format!("{endpoint}: {text}; no more logons with credential {credential} until clear-logons");
            note(effects, "LOGONS_STOPPED", text);
        }
    }

    /// The logon of the session that is held to an endpoint was refused: it counts like a probe's.
    pub(super) fn session_refused(&mut self, endpoint: &str, text: &str, effects: &mut Vec<Effect>) {
        if let Some(credential) = self.held_terms(endpoint).map(|terms| terms.credential.clone()) {
            self.logon_refused(endpoint, credential, text, effects);
        }
    }

    /// It was opened, which may say that its logon was accepted.
    pub(super) fn session_accepted(&mut self, endpoint: &str, effects: &mut Vec<Effect>) {
        let Some(terms) = self.held_terms(endpoint).filter(|terms| terms.proves >= Depth::Authenticated) else {
            return;
        };
        if (1..MOST_REFUSED_LOGONS).contains(&self.refused(&terms.credential)) {
            let text = terms.credential.clone();
            self.record(Entry::Note { code: LOGON_ACCEPTED, text }, false, effects);
        }
    }

    /// The terms of the session that is held to an endpoint, if it logs on.
    fn held_terms(&self, endpoint: &str) -> Option<&Terms> {
        let watch = self.configured(endpoint)?.watch.as_ref()?;
        Some(&watch.terms).filter(|terms| terms.identity != Identity::None)
    }

    fn refused(&self, credential: &str) -> u32 {
        self.memory.refused_logons.get(credential).copied().unwrap_or(0)
    }

    /// No evidence of the path, and yet an answer that says something.
    pub(super) fn withheld(
        &mut self,
        now: Timestamp,
        id: EndpointId,
        cause: NoEvidence,
        retry_after: Option<Duration>,
        effects: &mut Vec<Effect>,
    ) {
        match cause {
            NoEvidence::Banned => self.banned(now, id, retry_after, effects),
            NoEvidence::CompetingSession => self.competing(now, id, effects),
            _ => {}
        }
    }

    /// Another session holds the identity that trades. It counts for no failure, since a failover would take the session
    /// back, and lose it again; as often as failures would make the path DOWN, trading halts.
    fn competing(&mut self, now: Timestamp, id: EndpointId, effects: &mut Vec<Effect>) {
        let name = self.name(id);
        // A probe's own identity is held by another probe: that costs no order.
        let is_own = self.configured(&name).is_some_and(|one| one.credentials().next().is_some());
        if self.engine.active() != Some(id) || is_own {
            return;
        }
        self.measured.competing = self.measured.competing.saturating_add(1);
        let enough = self.measured.competing >= self.engine.policy().settings().failure_threshold;
        if enough && self.engine.halt_order().is_none() && !self.is_paused() {
            let text = format!("another session holds the identity that trades on {name}: find out whose it is");
            self.halt(now, COMPETING_SESSION, text, effects);
        }
    }

    /// The far side says that it shuts us out.
    fn banned(&mut self, now: Timestamp, id: EndpointId, retry_after: Option<Duration>, effects: &mut Vec<Effect>) {
        let wait = Timestamp::from_elapsed(retry_after.filter(|wait| !wait.is_zero()).unwrap_or(BAN_OF_UNKNOWN_LENGTH));
        let until = Timestamp::from_nanos(now.as_nanos().saturating_add(wait.as_nanos()));
        let name = self.name(id);
        self.measured.bans.retain(|_, until| *until > now);
        if self.measured.bans.insert(name.clone(), until).is_none() {
            let all = self.config.endpoints.iter().map(|one| &*one.endpoint.name);
            let hit: Vec<_> = all.filter(|one| self.banned_until(now, one).is_some()).collect();
            note(effects, "BANNED", format!("{name} is shut out; that hits {}", hit.join(", ")));
        }
    }

    /// Until when the endpoint, or one that shares a key with it, is shut out.
    fn banned_until(&self, now: Timestamp, endpoint: &str) -> Option<Timestamp> {
        let hit = |(name, until): (&String, &Timestamp)| {
            let hit = name == endpoint || self.share_fate(name, endpoint);
            (hit && *until > now).then_some(*until)
        };
        self.measured.bans.iter().filter_map(hit).max()
    }

    fn share_fate(&self, one: &str, other: &str) -> bool {
        let keys = |name| self.configured(name).map_or(&[][..], |one| &*one.shared_fate);
        keys(one).iter().any(|key| keys(other).contains(key))
    }

    fn configured(&self, name: &str) -> Option<&EndpointConfig> {
        self.config.endpoints.iter().find(|one| one.endpoint.name == name)
    }

    /// Puts and lifts the bars that follow from what was measured, before anything is decided. A bar for another account
    /// is not among them: a person lifts it.
    pub(super) fn follow_measured(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let required = self.config.required_depth;
        let oldest = Timestamp::from_elapsed(self.engine.policy().settings().max_health_age).as_nanos();
        let mut changes = Vec::new();
        for (id, endpoint) in self.engine.endpoints() {
            let (name, bars) = (&*endpoint.name, self.engine.bars(id));
            // Whatever succeeds is reachable, so that its health says as much.
            let shallow =
                required > Depth::Reachable && self.depth_age(now, id, required).is_none_or(|age| age > oldest);
            if shallow != bars.contains(BarCause::Depth) {
                changes.push((name.to_owned(), BarCause::Depth, shallow));
            }
            if !bars.contains(BarCause::SharedFate) && self.banned_until(now, name).is_some() {
                changes.push((name.to_owned(), BarCause::SharedFate, true));
            }
        }
        for (name, cause, on) in changes {
            self.bar(now, &name, cause, on, effects);
        }
    }

    /// The active path is shut out: it is left for one that does not share its fate, or trading halts. What shuts us out
    /// told us so itself; nothing is gained by asking three times.
    pub(super) fn leave_banned(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.measured.bans.is_empty() {
            return;
        }
        let Some((id, epoch)) = self.engine.active().zip(self.engine.epoch()) else { return };
        let name = self.name(id);
        let Some(until) = self.banned_until(now, &name) else { return };
        if self.engine.is_spent() {
            return;
        }
        if self.engine.eligible_targets(now).next().is_some() {
            self.lane.start_fence();
            let _ = self.take(now, Input::FenceStarted(epoch.get()), effects);
        } else if self.engine.halt_order().is_none() {
            let left = Duration::from_nanos(until.nanos_since(now)).as_secs();
            let text = format!("{name} is shut out for {left} s, and no path outside its shared fate is a target");
            self.halt(now, SHARED_BAN, text, effects);
        }
    }

    fn bar(&mut self, now: Timestamp, endpoint: &str, cause: BarCause, on: bool, effects: &mut Vec<Effect>) {
        // It names an endpoint of this engine.
        let _ = self.take(now, Input::Bar { endpoint: endpoint.to_owned(), cause, on }, effects);
    }
}
