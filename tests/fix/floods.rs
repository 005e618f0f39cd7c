//! Far sides that never pause: each slot has one result, and in time.

use std::time::Duration;

use crate::acceptor::{Acceptor, Peer, Received};
use crate::{folder, identity, part, prober, slot, until};

/// An acceptor that sends these messages without end as soon as somebody is logged on, and reads what it is sent, or not.
async fn flooding(kind: &'static str, rest: &'static str, reads: bool) -> Acceptor {
    Acceptor::start(move |_, mut peer| async move {
        peer.accept("98=0|108=30|141=Y|").await;
        // A copy may be sent again and again as it is: faster than anybody can read it.
        let copies = (0..1_000).flat_map(|_| peer.numbered(kind, 1, rest)).collect::<Vec<_>>();
        let is_copy = rest.starts_with("43=Y|");
        let many = |peer: &mut Peer| (0..100).flat_map(|_| peer.message(kind, rest)).collect();
        peer.flood(|peer| if is_copy { copies.clone() } else { many(peer) }, reads).await;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_side_that_never_pauses_lives_and_keeps_no_slot_and_no_timer_waiting() {
    for (test, kind, rest) in [
        ("flood-copies", "0", "43=Y|"),
        ("flood-beats", "0", ""),
        ("flood-orders", "8", "37=1|150=0|39=0|"),
        ("flood-tests", "1", "112=are you there|"),
        ("flood-gaps", "2", "7=1|16=0|"),
    ] {
        let acceptor = flooding(kind, rest, true).await;
        let mut config = identity(&folder(test));
        config.heart_beat_interval = Duration::from_secs(1);
        config.reset_on_logon = true;
        let prober = prober(&acceptor.url(), &config);
        // More slots than may wait for the thread.
        for number in 0..10 {
            assert_eq!(slot(&prober).await, ("+".to_owned(), String::new()), "{test}, slot {number}");
        }
        let asked = || acceptor.messages().iter().filter(|message| message.get(112).starts_with("probe-")).count();
        until("the TestRequest of each slot but the first", || asked() >= 9).await;
        if kind == "0" {
            // Between the slots too: our own heartbeats are due each second.
            let beats = || acceptor.messages().iter().filter(|message| message.kind() == "0").count();
            let before = beats();
            until("our heartbeats", || beats() >= before + 2).await;
        }
        assert_eq!(acceptor.accepted(), 1, "{test}: one session all the time");
        part(prober).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_of_a_far_side_that_asks_without_end_stay_behind_the_file() {
    let acceptor = Acceptor::start(|_, mut peer| async move {
        peer.accept("98=0|108=30|").await;
        let ask = |peer: &mut Peer| (0..100).flat_map(|_| peer.message("1", "112=are you there|")).collect();
        peer.flood(ask, true).await;
    })
    .await;
    let config = identity(&folder("flood-kept"));
    let prober = prober(&acceptor.url(), &config);
    for _ in 0..5 {
        assert_eq!(slot(&prober).await, ("+".to_owned(), String::new()));
        let sent = acceptor.messages().iter().map(Received::number).max().expect("a Logon");
        let kept: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&config.sequence_file).expect("the file")).expect("JSON");
        assert!(kept["next_out"].as_u64() > Some(sent), "{kept} while {sent} was sent");
    }
    part(prober).await;
    let numbers: Vec<_> = acceptor.messages().iter().map(Received::number).collect();
    assert!(numbers.len() > 100 && numbers.windows(2).all(|two| two[1] == two[0] + 1), "each number once, in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_side_that_asks_without_end_and_takes_no_answer_is_given_up() {
    let acceptor = flooding("1", "112=are you there|", false).await;
    let mut config = identity(&folder("flood-deaf"));
    config.reset_on_logon = true;
    let prober = prober(&acceptor.url(), &config);
    assert_eq!(slot(&prober).await.0, "+");
    let mut last = slot(&prober).await;
    for _ in 0..1_000 {
        if last.0 != "+" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        last = slot(&prober).await;
    }
    let expected = ("Timeout".to_owned(), "the far side takes nothing that we send".to_owned());
    assert_eq!(last, expected, "its buffers are full, and ours are not filled instead");
    part(prober).await;
}
