//! One way to misbehave each, and exactly what comes of it, slot by slot.

use std::sync::Arc;
use std::time::Duration;

use broker_failover::engine::{
    Endpoint, EndpointState, Engine, FailoverOutcome, FenceStatus, Policy, ProbeResult, Timestamp,
};
use broker_failover::supervisor::config::FixConfig;
use broker_failover::supervisor::probes::{Password, Secret};

use crate::acceptor::{Acceptor, Peer, frame};
use crate::brokers::certificates::Authority;
use crate::sessions::{is_closed, opened};
use crate::{folder, identity, part, prober, short_slot, slot, until};

const WAIT: &str = "?LogonWait";

/// Slots against `script`, and how many connections they made.
async fn slots<F>(
    test: &str,
    count: usize,
    script: impl Fn(u64, Peer) -> F + Send + Sync + 'static,
) -> (Vec<(String, String)>, u64)
where
    F: Future<Output = ()> + Send + 'static,
{
    let acceptor = Acceptor::start(script).await;
    let config = identity(&folder(test));
    let prober = prober(&acceptor.url(), &config);
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(slot(&prober).await);
    }
    part(prober).await;
    (seen, acceptor.accepted())
}

fn kinds(seen: &[(String, String)]) -> Vec<&str> {
    seen.iter().map(|(kind, _)| kind.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_dropped_before_the_logon_is_answered_is_a_fault_three_times_and_then_waits() {
    let (seen, connections) = slots("dropped", 5, |number, mut peer| async move {
        // At once, or after the Logon was read.
        if number > 1 {
            peer.logon().await;
        }
    })
    .await;
    assert_eq!(kinds(&seen), ["Reset", "Reset", "Reset", WAIT, WAIT]);
    assert_eq!(connections, 3, "growing waits, not a storm");
    assert!(seen[2].1.contains("did not answer the Logon"), "{seen:?}");
    assert!(seen[3].1.contains("because: the far side closed"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_three_logons_that_are_dropped_make_the_path_down_and_flow_moves_to_the_one_that_logs_on() {
    let tunnel = Acceptor::start(|_, _| async {}).await;
    tunnel.expect_no_logon();
    let backup = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        peer.serve().await;
    })
    .await;
    let probers =
        [prober(&tunnel.url(), &identity(&folder("b01-p"))), prober(&backup.url(), &identity(&folder("b01-b")))];
    let mut engine = Engine::new(Policy::default());
    let ids = [
        engine.register(Endpoint::primary("P", "us-east-1", tunnel.url())).expect("registered"),
        engine.register(Endpoint::backup("B", "us-west-2", backup.url(), 10)).expect("registered"),
    ];
    let at = |second: u64| Timestamp::from_nanos(second * 1_000_000_000);
    for round in 0..3 {
        for (id, prober) in ids.iter().zip(&probers) {
            let (kind, text) = slot(prober).await;
            let result = if kind == "+" { ProbeResult::Success } else { ProbeResult::Failure(text.into()) };
            engine.record_probe(at(round), *id, result).expect("registered");
        }
    }
    let states = ids.map(|id| engine.health(id).expect("registered").state());
    assert_eq!(states, [EndpointState::Down, EndpointState::Healthy]);
    let decision = engine.evaluate_failover(at(3), FenceStatus::Unconfirmed).expect("an active path");
    let FailoverOutcome::FenceRequired(fence) = decision.outcome else { panic!("{decision:?}") };
    let decision = engine.evaluate_failover(at(3), fence.confirm()).expect("an active path");
    assert!(matches!(decision.outcome, FailoverOutcome::Switched(_)), "{decision:?}");
    let [p, b] = probers;
    part(p).await;
    part(b).await;
}

/// With another checksum.
fn garbled(mut message: Vec<u8>) -> Vec<u8> {
    let last = message.len() - 2;
    message[last] = if message[last] == b'0' { b'1' } else { b'0' };
    message
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_checksum_a_stranger_or_another_protocol_is_no_answer() {
    let (seen, _) = slots("checksum", 4, |number, mut peer| async move {
        peer.logon().await;
        let mut answer = peer.message("A", "98=0|108=30|");
        match number {
            1 => answer = garbled(answer),
            2 => answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
            _ => {
                peer.us = "MALLORY".to_owned();
                answer = peer.message("A", "98=0|108=30|");
            }
        }
        peer.raw(&answer).await;
        peer.read().await;
    })
    .await;
    assert_eq!(kinds(&seen), ["UnexpectedAnswer", "UnexpectedAnswer", "UnexpectedAnswer", WAIT]);
    assert!(seen[0].1.contains("CheckSum (10)") && seen[0].1.contains("expected"), "{seen:?}");
    assert!(seen[1].1.contains("HTTP/1.1 400") && seen[1].1.contains("8=FIX"), "{seen:?}");
    assert_eq!(seen[2].1, "SenderCompID (49) \"MALLORY\"; expected \"BROKER\"");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_a_sequence_number_too_low_stops_after_one_logon_until_a_person_has_looked() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        let expected = if number == 1 { 4_711 } else { 9_000 };
        let received = peer.logon().await.number();
        if received < expected && number == 1 {
            let text = format!("58=MsgSeqNum too low, expecting {expected} but received {received}|");
            return peer.send("5", &text).await;
        }
        peer.next = 2;
        peer.send("A", "98=0|108=30|").await;
        peer.serve().await;
    })
    .await;
    let config = identity(&folder("too-low"));
    let first = prober(&acceptor.url(), &config);
    let (kind, text) = slot(&first).await;
    assert_eq!(kind, "SequenceBroken");
    assert!(text.contains("expects our MsgSeqNum 4711, received 1:"), "{text}");
    assert!(text.contains("No further Logon until a person has looked at"), "{text}");
    for _ in 0..3 {
        let (kind, text) = slot(&first).await;
        assert_eq!(kind, WAIT, "{text}");
    }
    part(first).await;

    // A restart is no person.
    let second = prober(&acceptor.url(), &config);
    let (kind, text) = slot(&second).await;
    assert!(kind == WAIT && text.contains("until a person has looked at") && text.contains("4711"), "{text}");
    assert_eq!(acceptor.accepted(), 1, "no storm of Logons that would creep up to the number by luck");

    // A person sets the numbers right, which the next slot sees.
    let kept = std::fs::read_to_string(&config.sequence_file).expect("the file");
    assert!(kept.contains("\"stopped\":"), "{kept}");
    let right = format!(
        "{{\"version\":1,\"session\":\"FIX.4.4 {} -> BROKER\",\"next_out\":4711,\"next_in\":2}}\n",
        config.sender_comp_id
    );
    std::fs::write(&config.sequence_file, right).expect("written");
    assert_eq!(slot(&second).await, ("+".to_owned(), String::new()));
    part(second).await;
    assert_eq!(acceptor.read(), ["A1", "A4711", "54712"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_checksum_in_the_session_ends_it_and_the_next_slot_logs_on_again() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        peer.next = number;
        peer.accept("98=0|108=30|").await;
        if number == 1 {
            let request = peer.read().await.expect("a TestRequest");
            let answer = peer.message("0", &format!("112={}|", request.get(112)));
            peer.raw(&garbled(answer)).await;
        }
        peer.serve().await;
    })
    .await;
    let config = identity(&folder("garbled-later"));
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    let (kind, text) = slot(&prober).await;
    assert!(kind == "UnexpectedAnswer" && text.contains("CheckSum (10)"), "{kind} {text}");
    assert_eq!((slot(&prober).await.0, slot(&prober).await.0), ("+".to_owned(), "+".to_owned()));
    assert_eq!((acceptor.read(), acceptor.accepted()), (["A1", "12", "A3", "14"].map(str::to_owned).to_vec(), 2));
    part(prober).await;
}

/// What is asked of a far side whose number was used before: nothing, until a person has looked.
async fn stops_logons_by_its_own_number(
    config: &FixConfig,
    good: usize,
    says: &str,
    acceptor: &Acceptor,
    read: &[&str],
) {
    let test = &config.sender_comp_id;
    let first = prober(&acceptor.url(), config);
    for _ in 0..good {
        assert_eq!(slot(&first).await.0, "+", "{test}");
    }
    let (kind, text) = slot(&first).await;
    assert!(kind == "SequenceBroken" && text.starts_with(says), "{test}: {kind} {text}");
    assert!(text.contains("No further Logon until a person has looked at"), "{test}: {text}");
    for _ in 0..3 {
        assert_eq!(slot(&first).await.0, WAIT, "{test}");
    }
    part(first).await;
    // A restart is no person.
    let second = prober(&acceptor.url(), config);
    let (kind, text) = slot(&second).await;
    assert!(kind == WAIT && text.contains("until a person has looked at") && text.contains(says), "{test}: {text}");
    part(second).await;
    assert_eq!((acceptor.read(), acceptor.accepted()), (read.iter().map(ToString::to_string).collect(), 1), "{test}");
    let logout = acceptor.messages().pop().expect("our Logout");
    assert!(logout.get(58).starts_with(says), "{test}: the far side is told why: {logout:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_a_far_side_whose_own_number_is_too_low_is_told_so_and_not_asked_again() {
    // In its Logon: a session before had gone further.
    let in_logon = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        peer.serve().await;
    })
    .await;
    let config = identity(&folder("low-logon"));
    let kept = format!(
        "{{\"version\":1,\"session\":\"FIX.4.4 {} -> BROKER\",\"next_out\":7,\"next_in\":5}}\n",
        config.sender_comp_id
    );
    std::fs::write(&config.sequence_file, kept).expect("written");
    let says = "the far side's Logon has MsgSeqNum 1; expected 5";
    stops_logons_by_its_own_number(&config, 0, says, &in_logon, &["A7", "58"]).await;

    // In the session, where it would otherwise be the sign of life that was asked for.
    let in_session = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        let request = peer.read().await.expect("a TestRequest");
        peer.respond(&request).await;
        let request = peer.read().await.expect("another");
        let used = peer.numbered("0", 2, &format!("112={}|", request.get(112)));
        peer.raw(&used).await;
        peer.serve().await;
    })
    .await;
    let says = "MsgSeqNum too low, expecting 3 but received 2";
    stops_logons_by_its_own_number(&identity(&folder("low-session")), 2, says, &in_session, &["A1", "12", "13", "54"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_far_sides_test_request_is_answered_with_its_own_words_between_the_slots() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        peer.send("1", "112=are you there?|").await;
        peer.serve().await;
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("asked")));
    assert_eq!(slot(&prober).await.0, "+");
    until("our Heartbeat", || acceptor.read().len() == 2).await;
    let answer = acceptor.messages().pop().expect("it");
    assert_eq!((answer.kind(), answer.number(), answer.get(112)), ("0", 2, "are you there?"));
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(acceptor.read(), ["A1", "02", "13"]);
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_logon_is_told_with_the_far_sides_text_and_without_our_secrets() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        let logon = peer.logon().await;
        let (user, password) = (logon.get(553).to_owned(), logon.get(554).to_owned());
        peer.send("5", &format!("58=no {user}/{password} here, {}|", "x".repeat(5_000))).await;
    })
    .await;
    let folder = folder("refused");
    let file = folder.join("password");
    std::fs::write(&file, "correct horse\nsecond line\n").expect("written");
    let mut config = identity(&folder);
    config.username = Some("joe".to_owned());
    config.password = Some(Password::File(file.clone()));
    let first = prober(&acceptor.url(), &config);
    let (kind, text) = slot(&first).await;
    assert_eq!(kind, "LogonRefused");
    assert!(text.starts_with("the Logon was refused: \"no ***/*** here, xxx") && text.len() < 250, "{text}");
    assert_eq!(slot(&first).await.0, WAIT, "one refusal is not repeated at the pace of the slots");
    assert_eq!(acceptor.accepted(), 1);
    assert_eq!(acceptor.messages()[0].get(554), "correct horse");
    part(first).await;

    std::fs::remove_file(&file).expect("removed");
    let without_file = prober(&acceptor.url(), &config);
    let (kind, text) = slot(&without_file).await;
    assert!(kind == "Error" && text.contains("password_file"), "{text}");
    part(without_file).await;
    config.password = Some(Password::Environment("BROKER_FAILOVER_NO_SUCH_VARIABLE".to_owned()));
    let without_variable = prober(&acceptor.url(), &config);
    let (kind, text) = slot(&without_variable).await;
    assert!(kind == "Error" && text.contains("BROKER_FAILOVER_NO_SUCH_VARIABLE is not set"), "{text}");
    part(without_variable).await;
    config.password = Some(Password::Stated(Secret::new("hunter2")));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert_eq!(acceptor.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b06_an_identity_that_another_session_holds_is_no_evidence_of_the_path() {
    for (test, text, status, expected) in [
        ("held-text", "already connected", 0, "?CompetingSession"),
        ("held-status", "(nothing)", 4, "?CompetingSession"),
        ("held-unknown", "(nothing)", 0, "LogonRefused"),
    ] {
        let acceptor = Acceptor::start(|_, mut peer| async move {
            peer.logon().await;
            peer.send("5", "58=User Already Connected elsewhere|1409=4|").await;
        })
        .await;
        let mut config = identity(&folder(test));
        config.competing_session_text = vec![text.to_owned()];
        config.competing_session_status = vec![status];
        let prober = prober(&acceptor.url(), &config);
        let (kind, text) = slot(&prober).await;
        assert_eq!(kind, expected, "{text}");
        assert_eq!(text.starts_with("IDENTITY_HELD: "), expected == "?CompetingSession", "{text}");
        assert!(text.contains("\"User Already Connected elsewhere\" (status 4)"), "{text}");
        for _ in 0..3 {
            assert_eq!(slot(&prober).await.0, WAIT);
        }
        assert_eq!(acceptor.accepted(), 1, "at most one reclaim for each wait");
        part(prober).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_session_that_is_evicted_does_not_evict_back() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        let request = peer.read().await.expect("a TestRequest");
        peer.respond(&request).await;
        peer.send("5", "58=Logged on from another place: already connected|").await;
        peer.read().await;
    })
    .await;
    let mut config = identity(&folder("evicted"));
    config.competing_session_text = vec!["already connected".to_owned()];
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(slot(&prober).await.0, "+");
    until("our Logout", || acceptor.read().len() == 3).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (kind, text) = slot(&prober).await;
    assert!(kind == "?CompetingSession" && text.starts_with("IDENTITY_HELD"), "{kind} {text}");
    assert_eq!((slot(&prober).await.0.as_str(), slot(&prober).await.0.as_str()), (WAIT, WAIT));
    assert_eq!(acceptor.accepted(), 1);
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_in_the_session_is_answered_told_with_its_text_and_followed_by_a_new_logon() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        peer.next = if number == 1 { 1 } else { 4 };
        peer.accept("98=0|108=30|").await;
        if number == 1 {
            let request = peer.read().await.expect("a TestRequest");
            peer.respond(&request).await;
            peer.send("5", "58=end of the trading day|").await;
        }
        peer.serve().await;
    })
    .await;
    let config = identity(&folder("day-end"));
    let prober = prober(&acceptor.url(), &config);
    assert_eq!((slot(&prober).await.0, slot(&prober).await.0), ("+".to_owned(), "+".to_owned()));
    until("our Logout", || acceptor.read().len() == 3).await;
    until("its end", || is_closed(&config.sender_comp_id)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let told = ("Reset".to_owned(), "the far side logged out: \"end of the trading day\"".to_owned());
    assert_eq!(slot(&prober).await, told);
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(
        (acceptor.read(), opened(&config.sender_comp_id)),
        (["A1", "12", "53", "A4"].map(str::to_owned).to_vec(), 2)
    );
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_zero_or_huge_heartbeat_interval_makes_no_busy_loop_and_ends_nothing() {
    for (test, interval) in [
        ("beat-0", "0"),
        ("beat-86400", "86400"),
        ("beat-max", "18446744073709551615"),
        ("beat-more", "99999999999999999999999"),
    ] {
        let acceptor = Acceptor::start(move |_, mut peer| async move {
            peer.accept(&format!("98=0|108={interval}|")).await;
            peer.serve().await;
        })
        .await;
        let prober = prober(&acceptor.url(), &identity(&folder(test)));
        for _ in 0..3 {
            assert_eq!(slot(&prober).await.0, "+", "{interval}");
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(acceptor.read(), ["A1", "12", "13"], "{interval}: nothing but what the slots asked");
        part(prober).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_heartbeat_interval_of_one_second_is_one_a_second_and_not_more() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=1|").await;
        peer.serve().await;
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("beat-1")));
    let begun = tokio::time::Instant::now();
    assert_eq!(slot(&prober).await.0, "+");
    until("two heartbeats", || acceptor.read().len() >= 3).await;
    let read = acceptor.read();
    assert_eq!(read[..3], ["A1", "02", "03"], "after a second each, whatever ours is");
    assert!(
        read.len() as u64 <= 1 + begun.elapsed().as_secs() && begun.elapsed() >= Duration::from_secs(2),
        "{read:?}"
    );
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_a_far_side_that_is_busy_with_other_traffic_lives() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        // It never answers a TestRequest.
        while peer.read().await.is_some_and(|message| message.kind() == "1") {
            peer.send("8", "37=1|150=0|39=0|").await;
        }
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("busy")));
    for _ in 0..4 {
        assert_eq!(slot(&prober).await.0, "+");
    }
    assert_eq!(acceptor.accepted(), 1);
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_after_the_connect_is_a_timeout_and_the_connection_is_not_left_behind() {
    let (ended, mut closed) = tokio::sync::mpsc::channel(8);
    let acceptor = Acceptor::start(move |_, mut peer| {
        let ended = ended.clone();
        async move {
            peer.logon().await;
            let _ = ended.send(peer.read().await.is_none()).await;
        }
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("silent")));
    for _ in 0..3 {
        assert_eq!(short_slot(&prober).await.0, "Timeout");
        assert_eq!(closed.recv().await, Some(true));
    }
    assert_eq!(short_slot(&prober).await.0, WAIT);
    assert_eq!(acceptor.accepted(), 3);
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_after_the_logon_fails_each_slot_and_ends_the_session_after_two_intervals() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        peer.next = number;
        peer.accept("98=0|108=1|").await;
        if number == 1 {
            while peer.read().await.is_some() {}
        } else {
            peer.serve().await;
        }
    })
    .await;
    let mut config = identity(&folder("silent-later"));
    config.heart_beat_interval = Duration::from_secs(1);
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(short_slot(&prober).await.0, "Timeout");
    // The session ends by itself; one more slot is told how.
    let (mut faults, mut kind, mut text) = (0, String::new(), String::new());
    while kind != "+" && faults < 20 {
        (kind, text) = short_slot(&prober).await;
        faults += 1;
        if text.contains("has been silent for") {
            break;
        }
    }
    assert!(kind == "Timeout" && text.contains("the far side has been silent for"), "{kind} {text}");
    assert_eq!(slot(&prober).await.0, "+", "the next slot logs on again");
    assert_eq!((acceptor.accepted(), opened(&config.sender_comp_id)), (2, 2));
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_message_is_waited_for_and_a_cut_one_is_a_fault() {
    let acceptor = Acceptor::start(|number, mut peer| async move {
        peer.logon().await;
        let answer = peer.message("A", "98=0|108=30|");
        match number {
            1 => peer.raw(&answer[..answer.len() / 2]).await,
            2 => {
                peer.raw(&answer[..answer.len() - 1]).await;
                peer.read().await;
            }
            _ => {
                for byte in answer {
                    peer.raw(&[byte]).await;
                    tokio::task::yield_now().await;
                }
                peer.serve().await;
            }
        }
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("half")));
    assert_eq!(slot(&prober).await.0, "Reset");
    assert_eq!(short_slot(&prober).await.0, "Timeout");
    assert_eq!(slot(&prober).await.0, "+", "byte by byte it is whole in the end");
    assert_eq!(slot(&prober).await.0, "+");
    part(prober).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_length_that_lies_takes_no_memory_and_is_refused() {
    let (seen, _) = slots("length", 3, |number, mut peer| async move {
        peer.logon().await;
        let bytes = match number {
            1 => b"8=FIX.4.4\x019=999999999\x0135=A\x01".to_vec(),
            2 => b"8=FIX.4.4\x019=12\x0135=A\x0134=1\x0149=BROKER\x0110=000\x01".to_vec(),
            _ => frame("FIX.4.4", "35=A|49=BROKER|56=X|34=1|34=2|52=20261130-05:00:00|"),
        };
        peer.raw(&bytes).await;
        peer.read().await;
    })
    .await;
    assert_eq!(kinds(&seen), ["UnexpectedAnswer"; 3]);
    assert_eq!(seen[0].1, "BodyLength (9) \"999999999\"; expected a number from 5 to 65536");
    assert!(seen[1].1.contains("where BodyLength (9) says that CheckSum (10) stands"), "{seen:?}");
    assert_eq!(seen[2].1, "the message has a field 34 too many");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_resend_requests_is_filled_and_nothing_is_sent_twice() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        for _ in 0..200 {
            peer.send("2", "7=1|16=0|").await;
        }
        peer.serve().await;
    })
    .await;
    let prober = prober(&acceptor.url(), &identity(&folder("storm")));
    for _ in 0..3 {
        assert_eq!(slot(&prober).await.0, "+");
    }
    part(prober).await;
    let read = acceptor.messages();
    let fills = read.iter().filter(|message| message.kind() == "4");
    assert!(fills.clone().all(|fill| fill.get(43) == "Y" && fill.get(123) == "Y" && fill.number() == 1));
    assert_eq!(fills.count(), 200);
    let others: Vec<_> = acceptor.read().into_iter().filter(|message| !message.starts_with('4')).collect();
    assert_eq!(others, ["A1", "12", "13", "54"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_lost_between_two_slots_is_one_fault_and_then_a_new_logon() {
    let (kill, killed) = tokio::sync::watch::channel(0_u64);
    let acceptor = Acceptor::start(move |number, mut peer| {
        let mut killed = killed.clone();
        async move {
            peer.next = if number == 1 { 1 } else { 3 };
            peer.accept("98=0|108=30|").await;
            tokio::select! {
                () = peer.serve() => {}
                _ = killed.wait_for(|killed| *killed >= number) => {}
            }
        }
    })
    .await;
    let config = identity(&folder("lost"));
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(slot(&prober).await.0, "+");
    kill.send(1).expect("somebody listens");
    until("the end of the session", || is_closed(&config.sender_comp_id)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (kind, text) = slot(&prober).await;
    assert_eq!((kind.as_str(), text.as_str()), ("Reset", "the far side closed the session"));
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(slot(&prober).await.0, "+");
    assert_eq!(opened(&config.sender_comp_id), 2);
    part(prober).await;
    assert_eq!(acceptor.read(), ["A1", "12", "A3", "14", "55"], "the numbers go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixs_speaks_tls_and_what_is_wrong_with_it_is_a_fault_of_tls() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let serve = |_, mut peer: Peer| async move {
        peer.accept("98=0|108=30|").await;
        peer.serve().await;
    };
    let right = Acceptor::start_with(Some(ours.server("localhost", -1..90)), serve).await;
    let stranger = Acceptor::start_with(Some(theirs.server("localhost", -1..90)), serve).await;
    let expired = Acceptor::start_with(Some(ours.server("localhost", -9..-1)), serve).await;
    let plain = Acceptor::start(|_, mut peer| async move {
        peer.raw(b"I speak no TLS\r\n").await;
    })
    .await;
    [&stranger, &expired, &plain].into_iter().for_each(Acceptor::expect_no_logon);
    let folder = folder("tls");
    let mut config = identity(&folder);
    config.tls.ca_file = Some(ours.file("fix"));
    let at = |acceptor: &Acceptor, scheme: &str| format!("{scheme}://localhost:{}", acceptor.address.port());
    for (acceptor, scheme, expected) in [
        (&stranger, "fixs", "Tls"),
        (&expired, "fixs", "Tls"),
        (&plain, "fixs", "Tls"),
        (&right, "fix", "UnexpectedAnswer"),
        (&right, "fixs", "+"),
    ] {
        let prober: Arc<_> = prober(&at(acceptor, scheme), &config);
        let (kind, text) = slot(&prober).await;
        assert_eq!(kind, expected, "{scheme}: {text}");
        part(prober).await;
    }
    config.tls.server_name = Some("other.example".to_owned());
    let prober = prober(&at(&right, "fixs"), &config);
    let (kind, text) = slot(&prober).await;
    assert_eq!(kind, "Tls", "{text}");
    part(prober).await;
}
