//! The sequence file, who may use it, and the end of a session.

use std::fs;
use std::time::Duration;

use broker_failover::supervisor::config::FixConfig;
use broker_failover::supervisor::probes::{Verdict, probe_once};
use serde_json::Value;

use crate::acceptor::{Acceptor, Peer};
use crate::sessions::opened;
use crate::{PATIENT, folder, identity, part, prober, slot, until};

/// The numbers as the file has them: next out, next in.
fn kept(config: &FixConfig) -> (u64, u64) {
    let text = fs::read_to_string(&config.sequence_file).expect("the file");
    let kept: Value = serde_json::from_str(&text).expect("JSON");
    (kept["next_out"].as_u64().expect("a number"), kept["next_in"].as_u64().expect("a number"))
}

/// An acceptor that goes on counting from session to session, as one does that never resets.
async fn counting() -> Acceptor {
    let next = std::sync::Arc::new(std::sync::Mutex::new((1, 1)));
    Acceptor::start(move |_, mut peer: Peer| {
        let next = std::sync::Arc::clone(&next);
        async move {
            let (expected, ours) = *next.lock().unwrap();
            peer.next = ours;
            let logon = peer.accept("98=0|108=30|").await;
            assert!(logon.number() >= expected, "{} where {expected} was expected", logon.number());
            if logon.number() > expected {
                peer.send("2", &format!("7={expected}|16=0|")).await;
            }
            let mut highest = logon.number();
            while let Some(message) = peer.read().await {
                if message.get(43) != "Y" {
                    highest = message.number();
                }
                let goes_on = peer.respond(&message).await;
                *next.lock().unwrap() = (highest + 1, peer.next);
                if !goes_on {
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_go_on_from_session_to_session_and_the_goodbye_is_said() {
    let acceptor = counting().await;
    let config = identity(&folder("goes-on"));
    for round in 0..3 {
        let prober = prober(&acceptor.url(), &config);
        assert_eq!(slot(&prober).await.0, "+");
        assert_eq!(slot(&prober).await.0, "+");
        // While it runs, the file is ahead.
        assert!(kept(&config).0 >= 64 + round * 3, "{:?}", kept(&config));
        part(prober).await;
        assert_eq!(kept(&config), (round * 3 + 4, round * 3 + 4));
    }
    assert_eq!(acceptor.read(), ["A1", "12", "53", "A4", "15", "56", "A7", "18", "59"]);
    assert_eq!(opened(&config.sender_comp_id), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_numbers_jump_and_are_filled_but_never_used_twice() {
    let acceptor = counting().await;
    let config = identity(&folder("crash"));
    let before = prober(&acceptor.url(), &config);
    assert_eq!(slot(&before).await.0, "+");
    assert_eq!(slot(&before).await.0, "+");
    let as_a_crash_leaves_it = fs::read(&config.sequence_file).expect("the file");
    part(before).await;
    fs::write(&config.sequence_file, as_a_crash_leaves_it).expect("written");

    let after = prober(&acceptor.url(), &config);
    assert_eq!(slot(&after).await.0, "+");
    assert_eq!(slot(&after).await.0, "+");
    part(after).await;
    let read = acceptor.messages();
    let fill = read.iter().find(|message| message.kind() == "4").expect("a SequenceReset");
    assert_eq!((fill.get(34), fill.get(43), fill.get(123)), ("4", "Y", "Y"));
    assert!(fill.get(36).parse::<u64>().expect("a number") > 65, "{fill:?}");
    // Our own side was behind, and asked.
    let resend = read.iter().find(|message| message.kind() == "2").expect("a ResendRequest");
    assert_eq!((resend.get(7), resend.get(16)), ("1", "0"));
    let mut numbers: Vec<_> =
        read.iter().filter(|message| message.get(43) != "Y").map(crate::acceptor::Received::number).collect();
    let count = numbers.len();
    numbers.dedup();
    assert!(numbers.is_sorted() && numbers.len() == count, "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_messages_than_the_file_was_ahead_go_out_all_the_same() {
    let acceptor = counting().await;
    let config = identity(&folder("many"));
    let prober = prober(&acceptor.url(), &config);
    for _ in 0..200 {
        assert_eq!(slot(&prober).await.0, "+");
    }
    part(prober).await;
    assert_eq!((acceptor.accepted(), kept(&config)), (1, (202, 202)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_foreign_file_is_one_clear_error_and_nobody_logs_on() {
    let acceptor = counting().await;
    let config = identity(&folder("damaged"));
    let name = format!("FIX.4.4 {} -> BROKER", config.sender_comp_id);
    for (contents, found) in [
        ("", "EOF"),
        (
            "{\"version\":1,\"session\":\"FIX.4.4 OTHER -> BROKER\",\"next_out\":5,\"next_in\":5}",
            "session \"FIX.4.4 OTHER",
        ),
        ("\0\0\0\0\0\0\0\0", "expected value"),
    ] {
        fs::write(&config.sequence_file, contents).expect("written");
        let prober = prober(&acceptor.url(), &config);
        let (kind, text) = slot(&prober).await;
        assert_eq!(kind, "Error", "{text}");
        assert!(text.contains(found) && text.contains(&format!("expected the numbers of session {name}")), "{text}");
        assert_eq!(fs::read_to_string(&config.sequence_file).expect("the file"), contents, "it is left as it is");
        part(prober).await;
    }
    assert_eq!(acceptor.accepted(), 0);
    // The recovery that the text names: without the file the session begins at 1.
    fs::remove_file(&config.sequence_file).expect("removed");
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    part(prober).await;
    assert_eq!(acceptor.read(), ["A1", "52"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_second_holder_of_one_identity_does_not_log_on_until_the_first_has_logged_out() {
    let acceptor = counting().await;
    let config = identity(&folder("second"));
    let (first, second) = (prober(&acceptor.url(), &config), prober(&acceptor.url(), &config));
    assert_eq!(slot(&first).await.0, "+");
    let (kind, text) = slot(&second).await;
    assert_eq!(kind, "?CompetingSession");
    assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");
    assert_eq!(acceptor.accepted(), 1);
    drop(first);
    // As after a reload: the new prober comes in as soon as the old one is out.
    for _ in 0..1_000 {
        if slot(&second).await.0 == "+" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(slot(&second).await.0, "+");
    assert_eq!(opened(&config.sender_comp_id), 2);
    part(second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_resets_begins_at_1_each_time_and_keeps_no_numbers() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        let logon = peer.accept("98=0|108=30|141=Y|").await;
        assert_eq!((logon.number(), logon.get(141)), (1, "Y"));
        peer.serve().await;
    })
    .await;
    let mut config = identity(&folder("resets"));
    config.reset_on_logon = true;
    for _ in 0..2 {
        let prober = prober(&acceptor.url(), &config);
        assert_eq!(slot(&prober).await.0, "+");
        part(prober).await;
    }
    assert_eq!(acceptor.read(), ["A1", "52", "A1", "52"]);
    assert!(!config.sequence_file.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_side_that_does_not_answer_the_goodbye_is_not_waited_for_long() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        while peer.read().await.is_some() {}
    })
    .await;
    let config = identity(&folder("no-goodbye"));
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    part(prober).await;
    assert_eq!(acceptor.read(), ["A1", "52"]);
    assert_eq!(kept(&config), (3, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_is_given_up_leaves_no_logon_behind() {
    let acceptor = counting().await;
    let config = identity(&folder("given-up"));
    let prober = prober(&acceptor.url(), &config);
    // Given up at once, again and again; whatever came of it, the next slot works.
    for _ in 0..2 {
        let _ = tokio::time::timeout(Duration::ZERO, prober.probe(tokio::time::Instant::now() + PATIENT)).await;
        tokio::task::yield_now().await;
    }
    let verdict = probe_once(&*prober, PATIENT).await;
    let verdict = match verdict {
        Verdict::Success(_) => verdict,
        _ => probe_once(&*prober, PATIENT).await,
    };
    assert!(matches!(verdict, Verdict::Success(_)), "{verdict:?}");
    until("the end of all other connections", || opened(&config.sender_comp_id) >= 1).await;
    part(prober).await;
}
