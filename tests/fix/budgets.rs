//! What the slots of a session are charged to, and the turn of a credential.

use std::sync::Arc;
use std::time::Duration;

use broker_failover::supervisor::config::{BudgetConfig, FixConfig, Identity, Terms};
use broker_failover::supervisor::probes::{Limits, Prober, Resolver, probe_once, within};

use crate::acceptor::{Acceptor, Peer};
use crate::{PATIENT, endpoint, folder, identity, part, short_slot, slot, until};

const OVER: &str = "?OverBudget";

async fn serve(mut peer: Peer) {
    peer.accept("98=0|108=30|").await;
    peer.serve().await;
}

/// A probe of `group` that logs on with the group's one credential, and is charged to the one budget.
fn charged(limits: &Limits, group: &str, acceptor: &Acceptor, config: &FixConfig) -> Arc<dyn Prober> {
    let terms = Terms {
        identity: Identity::Own,
        credential: "probe".to_owned(),
        budget: Some("key".to_owned()),
        ..Terms::default()
    };
    within(limits, group, &endpoint(&acceptor.url(), config, terms), &Resolver::default()).expect("a prober")
}

fn budget(requests: Option<usize>, logons: Option<usize>) -> Limits {
    let limits = Limits::default();
    limits.set_budgets(&[BudgetConfig { name: "key".to_owned(), requests, logons, per: Duration::from_secs(3_600) }]);
    limits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_each_slot_of_a_session_is_charged_to_the_budget_that_groups_share_and_one_over_it_sends_nothing() {
    for (name, requests, logons, says) in [
        ("requests", Some(3), None, "not asked: the 3 requests of budget key for 3600s are spent"),
        ("logons", None, Some(3), "not asked: the 3 logons of budget key for 3600s are spent"),
    ] {
        let limits = budget(requests, logons);
        let acceptors = [Acceptor::start(|_, peer| serve(peer)).await, Acceptor::start(|_, peer| serve(peer)).await];
        let [one, other] = ["one", "other"].map(|side| identity(&folder(&format!("charged-{name}-{side}"))));
        let one = charged(&limits, "main", &acceptors[0], &one);
        let other = charged(&limits, "second", &acceptors[1], &other);
        assert_eq!(
            (slot(&one).await.0, slot(&other).await.0, slot(&one).await.0),
            ("+".into(), "+".into(), "+".into())
        );
        for prober in [&one, &other, &one] {
            assert_eq!(slot(prober).await, (OVER.to_owned(), says.to_owned()));
        }
        assert_eq!(acceptors.each_ref().map(Acceptor::read), [vec!["A1", "12"], vec!["A1"]], "{name}");
        // More is allowed now: the sessions stood all the time.
        let more = |most: Option<usize>| most.map(|most| most + 2);
        let config = BudgetConfig {
            name: "key".to_owned(),
            requests: more(requests),
            logons: more(logons),
            per: Duration::from_secs(3_600),
        };
        limits.set_budgets(&[config]);
        assert_eq!(
            (slot(&other).await.0, slot(&one).await.0, slot(&one).await.0),
            ("+".into(), "+".into(), OVER.into())
        );
        assert_eq!(acceptors.each_ref().map(Acceptor::accepted), [1, 1], "{name}");
        part(one).await;
        part(other).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_a_logon_whose_turn_does_not_come_in_time_asks_nobody_and_is_no_evidence_of_its_path() {
    let limits = budget(None, Some(2));
    // It takes the Logon, and never answers.
    let hanging = Acceptor::start(|_, mut peer| async move {
        peer.logon().await;
        peer.read().await;
    })
    .await;
    let well = Acceptor::start(|_, peer| serve(peer)).await;
    let (one, other) = (identity(&folder("turn-one")), identity(&folder("turn-other")));
    let (one, other) = (charged(&limits, "main", &hanging, &one), charged(&limits, "main", &well, &other));
    let waits = tokio::spawn({
        let one = Arc::clone(&one);
        async move { probe_once(&*one, PATIENT * 10).await }
    });
    until("its Logon", || hanging.read().len() == 1).await;
    for _ in 0..3 {
        let says = "not asked: another session with credential probe is open";
        assert_eq!(short_slot(&other).await, (OVER.to_owned(), says.to_owned()));
    }
    assert_eq!(well.accepted(), 0, "no second session of one credential");
    // Given up, it leaves the turn to the next; and what did not get one was not charged.
    waits.abort();
    assert!(waits.await.is_err());
    assert_eq!(slot(&other).await.0, "+");
    assert_eq!(slot(&other).await.0, OVER);
    part(one).await;
    part(other).await;
}
