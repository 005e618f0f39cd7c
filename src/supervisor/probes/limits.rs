//! What all probes together may ask: budgets, and the logons that a credential may fail.
//!
//! Both are shared by whoever uses the same credential or address, outlive a reload, and are spent before anybody is
//! asked. A slot that finds nothing left asks nobody, and is no evidence.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{Fault, NoEvidence, ProbeFuture, Prober, Verdict};
use crate::supervisor::config::{BudgetConfig, Identity, Terms};

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
        let credential = (terms.identity != Identity::None).then(|| (group.to_owned(), terms.credential.clone()));
        if credential.is_none() && terms.budget.is_none() {
            return prober;
        }
        Box::new(Bounded { prober, limits: self.clone(), budget: terms.budget.clone(), credential })
    }
}

impl Shared {
    /// Takes what one more asking costs, or says what there is none of.
    fn take(&mut self, now: Instant, budget: Option<&str>, credential: Option<&(String, String)>) -> Result<(), Verdict> {
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

struct Bounded {
    prober: Box<dyn Prober>,
    limits: Limits,
    budget: Option<String>,
    credential: Option<(String, String)>,
}

impl Bounded {
    fn count(&self, change: impl FnOnce(&mut Logons)) {
        if let Some(key) = &self.credential {
            change(self.limits.shared.lock().logons.entry(key.clone()).or_default());
        }
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

impl Prober for Bounded {
    fn overlaps(&self) -> bool {
        self.credential.is_none() && self.prober.overlaps()
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move {
            // Given back when this ends, or is given up.
            let _turn = match self.turn(deadline).await {
                Ok(turn) => turn,
                Err(verdict) => return verdict,
            };
            let taken = self.limits.shared.lock().take(Instant::now(), self.budget.as_deref(), self.credential.as_ref());
            if let Err(verdict) = taken {
                return verdict;
            }
            let verdict = self.prober.probe(deadline).await;
            match &verdict {
                Verdict::PathFault { fault: Fault::LogonRefused, .. } => {
                    self.count(|logons| logons.refused = logons.refused.saturating_add(1));
                }
                // A credential that was accepted is right. One that was stopped waits for a person all the same.
                Verdict::Success(_) => self.count(|logons| {
                    if logons.refused < MOST_REFUSED_LOGONS {
                        logons.refused = 0;
                    }
                }),
                _ => {}
            }
            verdict
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::supervisor::probes::Evidence;

    const PER: Duration = Duration::from_secs(10);
    const MOST: usize = 5;

    /// What a broker answers to a logon.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Answer {
        Accepted,
        Refused,
        /// The path fails, whatever the credential.
        Broken,
        /// No answer before the slot is given up.
        Silent,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Probes of so many paths at once, all with one credential.
        Ask(usize, Answer),
        Wait(u64),
        Clear,
        /// The file is read again.
        Reload,
    }

    /// Keeps the book of the far side: when it was asked to let somebody in, and how it answered.
    #[derive(Default)]
    struct Broker {
        asked: Mutex<Vec<Instant>>,
        refused: AtomicUsize,
        answer: Mutex<Option<Answer>>,
    }

    struct Asking(Arc<Broker>);

    impl Prober for Asking {
        fn overlaps(&self) -> bool {
            true
        }

        fn probe(&self, _: Instant) -> ProbeFuture<'_> {
            Box::pin(async move {
                self.0.asked.lock().push(Instant::now());
                tokio::time::sleep(Duration::from_millis(10)).await;
                let answer = *self.0.answer.lock();
                match answer.unwrap_or(Answer::Silent) {
                    Answer::Accepted => {
                        self.0.refused.store(0, Ordering::Relaxed);
                        Verdict::Success(Evidence::default())
                    }
                    Answer::Refused => {
                        self.0.refused.fetch_add(1, Ordering::Relaxed);
                        Verdict::fault(Fault::LogonRefused, "wrong password")
                    }
                    Answer::Broken => Verdict::fault(Fault::Refused, "no route"),
                    Answer::Silent => std::future::pending().await,
                }
            })
        }
    }

    fn config(requests: Option<usize>, logons: Option<usize>) -> BudgetConfig {
        BudgetConfig { name: "key".to_owned(), requests, logons, per: PER }
    }

    fn terms(identity: Identity) -> Terms {
        Terms { identity, credential: "probe".to_owned(), budget: Some("key".to_owned()), ..Terms::default() }
    }

    fn step() -> impl Strategy<Value = Step> {
        let answer = prop_oneof![
            2 => Just(Answer::Accepted), 4 => Just(Answer::Refused), 1 => Just(Answer::Broken), 1 => Just(Answer::Silent)
        ];
        prop_oneof![
            8 => (1..4_usize, answer).prop_map(|(paths, answer)| Step::Ask(paths, answer)),
            4 => (0..12_000_u64).prop_map(Step::Wait),
            1 => Just(Step::Clear),
            1 => Just(Step::Reload),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// Proptest prints the steps, shrunk, and the seed of a failure. The book of the broker is the model: it knows
        /// nothing of how the limits count.
        #[test]
        fn logons_stay_inside_their_budget_and_two_refusals_stop_them_whatever_happens(steps in vec(step(), 1..60)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            runtime.block_on(async move {
                let limits = Limits::default();
                limits.set_budgets(&[config(None, Some(MOST))]);
                let broker = Arc::new(Broker::default());
                let make = || limits.bound("main", &terms(Identity::Own), Box::new(Asking(Arc::clone(&broker))));
                let paths: Arc<[Box<dyn Prober>; 3]> = Arc::new([make(), make(), make()]);
                for step in steps {
                    match step {
                        Step::Ask(count, answer) => {
                            *broker.answer.lock() = Some(answer);
                            let before = broker.asked.lock().len();
                            let mut slots = tokio::task::JoinSet::new();
                            for place in 0..count {
                                let paths = Arc::clone(&paths);
                                slots.spawn(async move {
                                    let deadline = Instant::now() + Duration::from_millis(800);
                                    tokio::time::timeout_at(deadline, paths[place].probe(deadline)).await
                                });
                            }
                            let verdicts = slots.join_all().await;
                            let asked = broker.asked.lock().len() - before;
                            let withheld = verdicts.iter().flatten().filter(|verdict| matches!(verdict,
                                Verdict::NoEvidence { cause: NoEvidence::OverBudget | NoEvidence::LogonsStopped, .. }
                            )).count();
                            prop_assert_eq!(asked + withheld, count, "a slot asks, or says that it did not");
                        }
                        Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                        Step::Clear => {
                            limits.clear_logons("main");
                            broker.refused.store(0, Ordering::Relaxed);
                        }
                        Step::Reload => limits.set_budgets(&[config(None, Some(MOST))]),
                    }
                    let refused = broker.refused.load(Ordering::Relaxed);
                    prop_assert!(refused <= 2, "{} logons were refused without a person", refused);
                }
                let asked = broker.asked.lock().clone();
                for (place, first) in asked.iter().enumerate() {
                    let inside = asked[place..].iter().filter(|time| time.duration_since(*first) < PER).count();
                    prop_assert!(inside <= MOST, "{} logons within {:?}", inside, PER);
                }
                Ok(())
            })?;
        }
    }

    async fn ask(prober: &dyn Prober) -> Verdict {
        prober.probe(Instant::now() + PER).await
    }

    fn is(verdict: &Verdict, cause: NoEvidence) -> bool {
        matches!(verdict, Verdict::NoEvidence { cause: found, .. } if *found == cause)
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_shared_by_name_and_free_again_exactly_when_its_span_is_over() {
        let limits = Limits::default();
        limits.set_budgets(&[config(Some(2), None)]);
        let broker = Arc::new(Broker { answer: Mutex::new(Some(Answer::Accepted)), ..Broker::default() });
        let make = |group: &str| limits.bound(group, &terms(Identity::None), Box::new(Asking(Arc::clone(&broker))));
        let (one, other) = (make("main"), make("second"));
        let begun = Instant::now();
        assert!(matches!(ask(&*one).await, Verdict::Success(_)));
        assert!(matches!(ask(&*other).await, Verdict::Success(_)));
        assert!(is(&ask(&*one).await, NoEvidence::OverBudget));
        tokio::time::sleep_until(begun + PER - Duration::from_millis(1)).await;
        assert!(is(&ask(&*other).await, NoEvidence::OverBudget));
        tokio::time::sleep_until(begun + PER).await;
        assert!(matches!(ask(&*other).await, Verdict::Success(_)));
        assert_eq!(broker.asked.lock().len(), 3, "who has no budget asks nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_from_before_a_restart_stops_logons_of_that_group_alone() {
        let limits = Limits::default();
        limits.recall("main", &BTreeMap::from([("probe".to_owned(), MOST_REFUSED_LOGONS)]));
        let broker = Arc::new(Broker { answer: Mutex::new(Some(Answer::Accepted)), ..Broker::default() });
        let make = |group: &str| limits.bound(group, &terms(Identity::Own), Box::new(Asking(Arc::clone(&broker))));
        assert!(is(&ask(&*make("main")).await, NoEvidence::LogonsStopped));
        assert!(matches!(ask(&*make("second")).await, Verdict::Success(_)));
        limits.clear_logons("main");
        assert!(matches!(ask(&*make("main")).await, Verdict::Success(_)));
    }
}
