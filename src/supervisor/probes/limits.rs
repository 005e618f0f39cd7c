//! What all probes and held sessions together may ask: budgets, and the logons that a credential may fail.
//!
//! Both are shared by whoever uses the same credential or address, outlive a reload, and are spent before anybody is
//! asked. A slot that finds nothing left asks nobody, and is no evidence.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{Fault, Holder, Loss, NoEvidence, Opening, ProbeFuture, Prober, Verdict};
use crate::supervisor::config::{BudgetConfig, Depth, Identity, Terms};
use crate::supervisor::report::Inbox;

/// Refused logons of one credential after which no more are tried, until a person says so: a wrong password that is
/// tried again and again locks the account.
pub const MOST_REFUSED_LOGONS: u32 = 2;

/// The limits of all groups. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    budgets: HashMap<String, Budget>,
    /// By group and credential.
    logons: HashMap<(String, String), Logons>,
}

/// What was asked inside the present span.
#[derive(Debug)]
struct Budget {
    config: BudgetConfig,
    requests: VecDeque<Instant>,
    logons: VecDeque<Instant>,
}

/// What came of one credential's logons, and whose turn it is: they come one after the other, so that no broker sees two
/// sessions of one identity, and no third logon is under way while the second is being refused.
#[derive(Debug)]
struct Logons {
    refused: u32,
    turn: Arc<Semaphore>,
}

impl Default for Logons {
    fn default() -> Self {
        Self { refused: 0, turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Limits {
    /// The budgets as they are from now on. What was spent of one that stays is spent.
    pub fn set_budgets(&self, budgets: &[BudgetConfig]) {
        let mut shared = self.shared.lock();
        let mut before = std::mem::take(&mut shared.budgets);
        for config in budgets {
            let (requests, logons) =
                before.remove(&config.name).map(|budget| (budget.requests, budget.logons)).unwrap_or_default();
            shared.budgets.insert(config.name.clone(), Budget { config: config.clone(), requests, logons });
        }
    }

    /// The refused logons of a group's credentials as they are known from before.
    pub fn recall(&self, group: &str, refused: &BTreeMap<String, u32>) {
        let mut shared = self.shared.lock();
        for (credential, refused) in refused {
            let key = (group.to_owned(), credential.clone());
            shared.logons.entry(key).or_default().refused = *refused;
        }
    }

    /// A person cleared the refused logons of a group's credentials.
    pub fn clear_logons(&self, group: &str) {
        for ((of, _), logons) in &mut self.shared.lock().logons {
            if of == group {
                logons.refused = 0;
            }
        }
    }

    /// `prober` inside these limits; as it is, if it has none.
    pub(super) fn bound(&self, group: &str, terms: &Terms, prober: Box<dyn Prober>) -> Box<dyn Prober> {
        match self.account(group, terms) {
            Some(account) => Box::new(Bounded { prober, account }),
            None => prober,
        }
    }

    /// The same for what holds a session: each opening costs what a probe costs, and what is open costs nothing.
    pub(super) fn bound_holder(&self, group: &str, terms: &Terms, holder: Arc<dyn Holder>) -> Arc<dyn Holder> {
        match self.account(group, terms) {
            Some(account) => Arc::new(BoundedHolder { holder, account, proves: terms.proves }),
            None => holder,
        }
    }

    fn account(&self, group: &str, terms: &Terms) -> Option<Account> {
        let credential = (terms.identity != Identity::None).then(|| (group.to_owned(), terms.credential.clone()));
        let budget = terms.budget.clone();
        (credential.is_some() || budget.is_some()).then(|| Account { limits: self.clone(), budget, credential })
    }
}

impl Shared {
    /// Takes what one more asking costs, or says what there is none of.
    fn take(
        &mut self,
        now: Instant,
        budget: Option<&str>,
        credential: Option<&(String, String)>,
    ) -> Result<(), Verdict> {
        let refused = credential.and_then(|key| self.logons.get(key)).map_or(0, |logons| logons.refused);
        if let Some((_, name)) = credential.filter(|_| refused >= MOST_REFUSED_LOGONS) {
            let text = format!("{refused} logons with credential {name} were refused: clear-logons once it is right");
            return Err(Verdict::no_evidence(NoEvidence::LogonsStopped, text));
        }
        match budget.and_then(|name| self.budgets.get_mut(name)) {
            Some(budget) => budget.take(now, credential.is_some()),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// What a logon came to. One that was given up is not known to have been refused.
    fn settle(&mut self, credential: &(String, String), verdict: &Verdict) {
        let logons = self.logons.entry(credential.clone()).or_default();
        match verdict {
            Verdict::PathFault { fault: Fault::LogonRefused, .. } => logons.refused = logons.refused.saturating_add(1),
            Verdict::Success(_) => logons.accepted(),
            _ => {}
        }
    }

    /// Of the opening of a session, which `proves` so much.
    fn settle_opening(&mut self, credential: &(String, String), proves: Depth, opened: &Result<Loss, Verdict>) {
        match opened {
            Ok(_) if proves >= Depth::Authenticated => {
                self.logons.entry(credential.clone()).or_default().accepted();
            }
            Ok(_) => {}
            Err(verdict) => self.settle(credential, verdict),
        }
    }
}

impl Logons {
    /// A credential that was accepted is right. One that was stopped waits for a person all the same.
    const fn accepted(&mut self) {
        if self.refused < MOST_REFUSED_LOGONS {
            self.refused = 0;
        }
    }
}

impl Budget {
    fn take(&mut self, now: Instant, logs_on: bool) -> Result<(), Verdict> {
        let BudgetConfig { name, requests, logons, per } = &self.config;
        let over = |key: &str, most: usize| {
            let text = format!("not asked: the {most} {key} of budget {name} for {per:?} are spent");
            Err(Verdict::no_evidence(NoEvidence::OverBudget, text))
        };
        expire(&mut self.requests, now, *per);
        expire(&mut self.logons, now, *per);
        match (requests, logons) {
            (Some(most), _) if self.requests.len() >= *most => return over("requests", *most),
            (_, Some(most)) if logs_on && self.logons.len() >= *most => return over("logons", *most),
            _ => {}
        }
        // What has no limit need not be remembered.
        if requests.is_some() {
            self.requests.push_back(now);
        }
        if logs_on && logons.is_some() {
            self.logons.push_back(now);
        }
        Ok(())
    }
}

fn expire(times: &mut VecDeque<Instant>, now: Instant, per: Duration) {
    while times.front().is_some_and(|time| now.saturating_duration_since(*time) >= per) {
        times.pop_front();
    }
}

/// What an asking is charged to.
struct Account {
    limits: Limits,
    budget: Option<String>,
    credential: Option<(String, String)>,
}

impl Account {
    /// Takes what one more asking costs, when it is the credential's turn: that lasts until what this gives is dropped, also
    /// with whoever is given up.
    async fn open(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Verdict> {
        let turn = self.turn(deadline).await?;
        self.limits.shared.lock().take(Instant::now(), self.budget.as_deref(), self.credential.as_ref())?;
        Ok(turn)
    }

    /// Waits for the turn of the credential, but leaves the logon itself half of the time: that somebody else's takes long
    /// is no fault of this path.
    async fn turn(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Verdict> {
        let Some(key) = &self.credential else { return Ok(None) };
        let turn = Arc::clone(&self.limits.shared.lock().logons.entry(key.clone()).or_default().turn);
        let latest = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        match timeout_at(latest, turn.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => {
                let text = format!("not asked: another session with credential {} is open", key.1);
                Err(Verdict::no_evidence(NoEvidence::OverBudget, text))
            }
        }
    }
}

/// A prober inside the limits.
struct Bounded {
    prober: Box<dyn Prober>,
    account: Account,
}

impl Prober for Bounded {
    fn inbox(&self) -> Option<Arc<Inbox>> {
        self.prober.inbox()
    }

    fn overlaps(&self) -> bool {
        // A slot that waits for its turn is none that a broker sees.
        self.prober.overlaps()
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move {
            let _turn = match self.account.open(deadline).await {
                Ok(turn) => turn,
                Err(verdict) => return verdict,
            };
            let verdict = self.prober.probe(deadline).await;
            if let Some(credential) = &self.account.credential {
                self.account.limits.shared.lock().settle(credential, &verdict);
            }
            verdict
        })
    }
}

/// What holds a session, inside the limits.
struct BoundedHolder {
    holder: Arc<dyn Holder>,
    account: Account,
    /// What its opening proves.
    proves: Depth,
}

impl Holder for BoundedHolder {
    fn hold(&self, deadline: Instant) -> Opening<'_> {
        Box::pin(async move {
            // Until it is logged on, not for as long as it is held: others with that credential would never have a turn.
            let _turn = self.account.open(deadline).await?;
            let opened = self.holder.hold(deadline).await;
            if let Some(credential) = &self.account.credential {
                self.account.limits.shared.lock().settle_opening(credential, self.proves, &opened);
            }
            opened
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Context, Poll, Waker};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::supervisor::probes::{Evidence, Loss};

    const PER: Duration = Duration::from_secs(10);
    const MOST: usize = 5;

    /// What a broker answers to a logon.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Answer {
        Accepted,
        Refused,
        /// The path fails, whatever the credential.
        Broken,
        /// The slot is given up.
        Silent,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A slot of a path, all of which use one credential.
        Ask(Answer),
        Wait(u64),
        Clear,
        /// The file is read again.
        Reload,
    }

    fn config(requests: Option<usize>, logons: Option<usize>) -> BudgetConfig {
        BudgetConfig { name: "key".to_owned(), requests, logons, per: PER }
    }

    fn credential(group: &str) -> (String, String) {
        (group.to_owned(), "probe".to_owned())
    }

    fn step() -> impl Strategy<Value = Step> {
        let answer = prop_oneof![
            2 => Just(Answer::Accepted), 4 => Just(Answer::Refused), 1 => Just(Answer::Broken), 1 => Just(Answer::Silent)
        ];
        let waits = prop_oneof![0..12_000_u64, Just(10_000), Just(9_999), Just(2_000)];
        prop_oneof![8 => answer.prop_map(Step::Ask), 4 => waits.prop_map(Step::Wait), 1 => Just(Step::Clear), 1 => Just(Step::Reload)]
    }

    fn is(taken: &Result<(), Verdict>, cause: NoEvidence) -> bool {
        matches!(taken, Err(Verdict::NoEvidence { cause: found, .. }) if *found == cause)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// The book of the broker is the model: when it was asked, and how often in a row it said no. It knows nothing of
        /// how the limits count. A failure prints the steps, shrunk, and the seed.
        #[test]
        fn logons_stay_inside_their_budget_and_two_refusals_stop_them_whatever_happens(steps in vec(step(), 1..80)) {
            let limits = Limits::default();
            limits.set_budgets(&[config(None, Some(MOST))]);
            let key = credential("main");
            let mut now = Instant::now();
            let (mut asked, mut refused) = (Vec::<Instant>::new(), 0);
            for step in steps {
                match step {
                    Step::Ask(answer) => {
                        let taken = limits.shared.lock().take(now, Some("key"), Some(&key));
                        let inside = asked.iter().filter(|time| now.duration_since(**time) < PER).count();
                        if refused == 2 {
                            prop_assert!(is(&taken, NoEvidence::LogonsStopped), "{:?} after two refusals", taken);
                        } else if inside == MOST {
                            prop_assert!(is(&taken, NoEvidence::OverBudget), "{:?} over budget", taken);
                        } else {
                            prop_assert_eq!(&taken, &Ok(()), "nothing stands in its way");
                            asked.push(now);
                            let verdict = match answer {
                                Answer::Accepted => Verdict::Success(Evidence::default()),
                                Answer::Refused => Verdict::fault(Fault::LogonRefused, "wrong password"),
                                Answer::Broken => Verdict::fault(Fault::Refused, "no route"),
                                Answer::Silent => continue,
                            };
                            limits.shared.lock().settle(&key, &verdict);
                            refused = match answer {
                                Answer::Accepted => 0,
                                Answer::Refused => refused + 1,
                                Answer::Broken | Answer::Silent => refused,
                            };
                        }
                    }
                    Step::Wait(millis) => now += Duration::from_millis(millis),
                    Step::Clear => {
                        limits.clear_logons("main");
                        refused = 0;
                    }
                    Step::Reload => limits.set_budgets(&[config(None, Some(MOST))]),
                }
            }
            for (place, first) in asked.iter().enumerate() {
                let inside = asked[place..].iter().filter(|time| time.duration_since(*first) < PER).count();
                prop_assert!(inside <= MOST, "{} logons within {:?}", inside, PER);
            }
        }
    }

    /// What a broker sees, and what it is about to answer to whoever is there.
    #[derive(Default)]
    struct Desk {
        asked: usize,
        open: usize,
        answer: Option<Verdict>,
    }

    /// A path to it: a logon that waits for its answer, and hangs up when it is given up.
    struct Waits(Arc<Mutex<Desk>>);

    struct Session<'a>(&'a Mutex<Desk>);

    impl Drop for Session<'_> {
        fn drop(&mut self) {
            self.0.lock().open -= 1;
        }
    }

    impl Prober for Waits {
        fn overlaps(&self) -> bool {
            false
        }

        fn probe(&self, _: Instant) -> ProbeFuture<'_> {
            Box::pin(async {
                let session = Session(&self.0);
                {
                    let mut desk = session.0.lock();
                    (desk.asked, desk.open) = (desk.asked + 1, desk.open + 1);
                }
                poll_fn(|_| session.0.lock().answer.take().map_or(Poll::Pending, Poll::Ready)).await
            })
        }
    }

    const PATHS: usize = 3;

    #[derive(Clone, Copy, Debug)]
    enum Turn {
        /// A slot of this path comes due, if none is under way.
        Begin(usize),
        /// A slot is given up, wherever it is: waiting for its turn, just let in, or at the broker.
        GiveUp(usize),
        /// The broker answers whoever is there. `Silent`: it does not.
        Answer(Answer),
        Clear,
        /// The file is read again, and allows so many more.
        Allow(usize),
    }

    fn turn() -> impl Strategy<Value = Turn> {
        let answer = prop_oneof![
            2 => Just(Answer::Accepted), 3 => Just(Answer::Refused), 1 => Just(Answer::Broken), 1 => Just(Answer::Silent)
        ];
        prop_oneof![
            6 => (0..PATHS).prop_map(Turn::Begin),
            3 => (0..PATHS).prop_map(Turn::GiveUp),
            5 => answer.prop_map(Turn::Answer),
            1 => Just(Turn::Clear),
            1 => (0..3_usize).prop_map(Turn::Allow),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// The same of whole slots, which may be given up in the middle, in a span that does not end. Each slot is looked at
        /// after every step, so that whatever can go on does.
        #[test]
        fn slots_that_are_given_up_open_no_second_session_spend_no_more_and_leave_the_turn_to_the_next(
            turns in vec(turn(), 1..80)
        ) {
            // Nothing waits so long that its timers would ever be asked.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _inside = runtime.enter();
            let deadline = Instant::now() + Duration::from_secs(86_400);
            let desk = Arc::new(Mutex::new(Desk::default()));
            let (limits, mut allowed, mut refused) = (Limits::default(), MOST, 0);
            let allow = |most| BudgetConfig { per: Duration::from_secs(86_400), ..config(None, Some(most)) };
            limits.set_budgets(&[allow(allowed)]);
            let terms = Terms {
                identity: Identity::Own,
                credential: "probe".to_owned(),
                budget: Some("key".to_owned()),
                ..Terms::default()
            };
            let path = |_| limits.bound("main", &terms, Box::new(Waits(Arc::clone(&desk))));
            let paths: [_; PATHS] = std::array::from_fn(path);
            let mut slots: [Option<ProbeFuture<'_>>; PATHS] = std::array::from_fn(|_| None);
            for turn in turns {
                match turn {
                    Turn::Begin(path) if slots[path].is_none() => slots[path] = Some(paths[path].probe(deadline)),
                    Turn::Begin(_) => {}
                    Turn::GiveUp(path) => slots[path] = None,
                    Turn::Answer(answer) => {
                        let is_there = desk.lock().open > 0;
                        desk.lock().answer = match answer {
                            Answer::Accepted => Some(Verdict::Success(Evidence::default())),
                            Answer::Refused => Some(Verdict::fault(Fault::LogonRefused, "wrong password")),
                            Answer::Broken => Some(Verdict::fault(Fault::Refused, "no route")),
                            Answer::Silent => None,
                        }
                        .filter(|_| is_there);
                    }
                    Turn::Clear => {
                        limits.clear_logons("main");
                        refused = 0;
                    }
                    Turn::Allow(more) => {
                        allowed += more;
                        limits.set_budgets(&[allow(allowed)]);
                    }
                }
                // Once for each that the one before it may let in.
                for path in (0..PATHS).cycle().take(PATHS * PATHS) {
                    let Some(slot) = &mut slots[path] else { continue };
                    let before = desk.lock().asked;
                    let polled = slot.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    let Desk { asked, open, .. } = *desk.lock();
                    prop_assert!(open <= 1, "two sessions at once");
                    if asked > before {
                        prop_assert!(refused < 2, "asked after two refusals");
                        prop_assert!(before < allowed, "asked {} times of {}", asked, allowed);
                    }
                    let Poll::Ready(verdict) = polled else { continue };
                    slots[path] = None;
                    match &verdict {
                        Verdict::Success(_) => refused = 0,
                        Verdict::PathFault { fault: Fault::LogonRefused, .. } => refused += 1,
                        Verdict::PathFault { .. } => {}
                        Verdict::NoEvidence { cause: NoEvidence::LogonsStopped, .. } => prop_assert_eq!(refused, 2),
                        Verdict::NoEvidence { cause: NoEvidence::OverBudget, .. } => prop_assert_eq!(asked, allowed),
                        verdict => prop_assert!(false, "{:?}", verdict),
                    }
                }
                let waiting = slots.iter().flatten().count();
                prop_assert_eq!(desk.lock().open, usize::from(waiting > 0), "{} slots wait for nobody", waiting);
            }
        }
    }

    #[test]
    fn a_budget_is_shared_by_name_and_free_again_exactly_when_its_span_is_over() {
        let limits = Limits::default();
        limits.set_budgets(&[config(Some(2), None)]);
        let take = |now| limits.shared.lock().take(now, Some("key"), None);
        let begun = Instant::now();
        assert_eq!((take(begun), take(begun + Duration::from_secs(1))), (Ok(()), Ok(())));
        assert!(is(&take(begun + PER - Duration::from_nanos(1)), NoEvidence::OverBudget));
        assert_eq!(take(begun + PER), Ok(()));
        assert!(is(&take(begun + PER), NoEvidence::OverBudget), "the second one is still inside");
        limits.set_budgets(&[config(Some(3), None)]);
        assert_eq!(take(begun + PER), Ok(()), "a reload changes what is allowed, and nothing that was spent");
        assert!(is(&take(begun + PER), NoEvidence::OverBudget));
    }

    /// Counts who asks; each session stands for as long as it is held.
    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Holder for Counting {
        fn hold(&self, _: Instant) -> Opening<'_> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let loss: Loss = Box::pin(std::future::pending());
            Box::pin(std::future::ready(Ok(loss)))
        }
    }

    #[tokio::test]
    async fn each_opening_of_a_held_session_costs_as_a_probe_does_and_a_standing_one_is_in_nobodys_way() {
        for (config, says) in [(config(Some(2), None), "2 requests"), (config(None, Some(2)), "2 logons")] {
            let limits = Limits::default();
            limits.set_budgets(&[config]);
            let own = Terms { identity: Identity::Own, credential: "probe".to_owned(), ..Terms::default() };
            let charged = Terms { budget: Some("key".to_owned()), ..own.clone() };
            let counting = Arc::new(Counting::default());
            let holder = |terms| limits.bound_holder("main", terms, Arc::<Counting>::clone(&counting));
            let open = async |terms| holder(terms).hold(Instant::now() + Duration::from_secs(60)).await;
            let (first, second) = (open(&charged).await.is_ok(), open(&charged).await.is_ok());
            let _standing = open(&own).await.expect("charged to nothing");
            assert!(first && second, "the turn ends when it is logged on");
            let Err(Verdict::NoEvidence { cause: NoEvidence::OverBudget, text, .. }) = open(&charged).await else {
                panic!("{says}")
            };
            assert!(text.contains(says), "{text}");
            assert_eq!(counting.0.load(Ordering::SeqCst), 3, "over budget, nobody is asked");
            // What stops the probes of a credential stops what is held with it.
            limits.recall("main", &BTreeMap::from([("probe".to_owned(), MOST_REFUSED_LOGONS)]));
            let stopped = open(&own).await.err().map(Err);
            assert!(stopped.is_some_and(|stopped| is(&stopped, NoEvidence::LogonsStopped)));
            limits.clear_logons("main");
            assert!(open(&own).await.is_ok());
        }
    }

    /// Opens, or is refused.
    struct Answering(Answer);

    impl Holder for Answering {
        fn hold(&self, _: Instant) -> Opening<'_> {
            let loss: Loss = Box::pin(std::future::pending());
            let opened = match self.0 {
                Answer::Accepted => Ok(loss),
                _ => Err(Verdict::fault(Fault::LogonRefused, "status 401")),
            };
            Box::pin(std::future::ready(opened))
        }
    }

    #[tokio::test]
    async fn a_held_sessions_refused_logons_stop_its_credential_and_only_an_opening_that_proves_something_clears_one() {
        for (proves, goes_on) in [(Depth::Authenticated, true), (Depth::Reachable, false)] {
            let limits = Limits::default();
            let terms = Terms { proves, identity: Identity::Own, credential: "probe".to_owned(), ..Terms::default() };
            let open = async |answer| {
                let holder = limits.bound_holder("main", &terms, Arc::new(Answering(answer)));
                holder.hold(Instant::now() + Duration::from_secs(60)).await
            };
            assert!(open(Answer::Refused).await.is_err());
            assert!(open(Answer::Accepted).await.is_ok());
            assert!(open(Answer::Refused).await.is_err());
            assert_eq!(open(Answer::Accepted).await.is_ok(), goes_on, "{proves}");
            assert!(open(Answer::Refused).await.is_err());
            let last = open(Answer::Refused).await.err().map(Err);
            assert_eq!(last.is_some_and(|last| is(&last, NoEvidence::LogonsStopped)), !goes_on);
            let stopped = open(Answer::Accepted).await.err().map(Err);
            assert!(stopped.is_some_and(|stopped| is(&stopped, NoEvidence::LogonsStopped)), "two in a row");
        }
    }

    #[test]
    fn what_is_known_from_before_a_restart_stops_logons_of_that_group_alone() {
        let limits = Limits::default();
        limits.recall("main", &BTreeMap::from([("probe".to_owned(), MOST_REFUSED_LOGONS)]));
        let take = |group: &str| limits.shared.lock().take(Instant::now(), None, Some(&credential(group)));
        assert!(is(&take("main"), NoEvidence::LogonsStopped));
        assert_eq!(take("second"), Ok(()));
        limits.clear_logons("main");
        assert_eq!(take("main"), Ok(()));
    }
}
