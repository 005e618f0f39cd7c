//! The session as a whole, without sockets: both sides of each moment, and whatever the far side may say.

use std::sync::Arc;

use proptest::prelude::*;

use super::Secret;
use super::codec::{Body, Decoder, Message, tag};
use super::session::{End, Moment, Session, Terms};
use super::store::Numbers;

const SECOND: u64 = 1_000_000_000;
const HEART_BEAT: u64 = 30;

fn at(nanos: u64) -> Moment {
    Moment { at: nanos, wall: 1_796_016_600_123_456_789_u64.saturating_add(nanos) }
}

pub(super) fn terms() -> Terms {
    Terms {
        begin: "FIX.4.4",
        sender: "PROBE".to_owned(),
        sender_sub: None,
        target: "BROKER".to_owned(),
        target_sub: None,
        username: None,
        heart_beat: HEART_BEAT,
        reset: false,
        default_appl_ver_id: None,
        logon_fields: Vec::new(),
        account_tag: None,
        competing_texts: vec!["already connected".to_owned()],
        competing_status: vec![7],
    }
}

/// What the far side sends: its fields behind the header, with `|` for SOH.
fn said(kind: &str, number: u64, rest: &str) -> Vec<u8> {
    let body = Body::default()
        .with(tag::MSG_TYPE, kind)
        .with(tag::SENDER_COMP_ID, "BROKER")
        .with(tag::TARGET_COMP_ID, "PROBE")
        .with(tag::MSG_SEQ_NUM, number.to_string())
        .with(tag::SENDING_TIME, "20261130-05:00:00.000");
    rest.split('|')
        .filter(|field| !field.is_empty())
        .fold(body, |body, field| {
            let (tag, value) = field.split_once('=').expect("a field");
            body.with(tag.parse().expect("a tag"), value)
        })
        .framed("FIX.4.4")
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    std::iter::from_fn(|| decoder.message().expect("what we send is FIX")).collect()
}

/// What the session sends now, without what is the same in every message: `MsgType MsgSeqNum rest`.
fn sent(session: &mut Session) -> Vec<String> {
    let short = |message: &Message| {
        let text = format!("{message:?}");
        let (_, rest) = text.split_once("|52=").expect("a SendingTime");
        let rest = rest.split_once('|').map_or("", |(_, rest)| rest);
        format!("{} {} {rest}", String::from_utf8_lossy(message.kind()), message.number())
    };
    messages(&session.take_out()).iter().map(short).collect()
}

/// A session that is logged on at second 0, as number 5 on our side and 9 on the other.
fn established(terms: Terms, answer: &str) -> Session {
    let mut session = Session::new(Arc::new(terms), None, Numbers { next_out: 5, next_in: 9 }, at(0));
    session.receive(&said("A", 9, answer), at(0));
    assert!(session.is_established(), "{:?}", session.ended());
    sent(&mut session);
    session
}

fn usual() -> Session {
    established(terms(), "98=0|108=30")
}

#[test]
fn the_logon_says_who_we_are_tag_by_tag() {
    let logon = |terms: Terms, password: Option<&str>| {
        let mut session =
            Session::new(Arc::new(terms), password.map(Secret::new), Numbers { next_out: 7, next_in: 1 }, at(0));
        String::from_utf8(session.take_out()).unwrap().replace('\u{1}', "|")
    };
    let head = |begin: &str, length: usize| format!("8={begin}|9={length}|35=A|49=PROBE|");
    assert_eq!(
        logon(Terms { begin: "FIX.4.2", ..terms() }, None),
        head("FIX.4.2", 66) + "56=BROKER|34=7|52=20261130-05:30:00.123|98=0|108=30|10=048|"
    );
    let full = Terms {
        begin: "FIXT.1.1",
        sender_sub: Some("DESK".to_owned()),
        target_sub: Some("EAST".to_owned()),
        username: Some(Secret::new("user")),
        reset: true,
        default_appl_ver_id: Some("9".to_owned()),
        logon_fields: vec![(8013, Secret::new("S"))],
        ..terms()
    };
    assert_eq!(
        logon(full, Some("pass")),
        head("FIXT.1.1", 120)
            + "50=DESK|56=BROKER|57=EAST|34=1|52=20261130-05:30:00.123|98=0|108=30|141=Y|553=user|554=pass|1137=9|8013=S|10=060|"
    );
}

#[test]
fn heartbeats_go_out_when_nothing_else_did_and_not_a_moment_sooner() {
    let mut session = usual();
    assert_eq!(session.due(), HEART_BEAT * SECOND);
    session.tick(at(HEART_BEAT * SECOND - 1));
    assert_eq!(sent(&mut session), [""; 0]);
    session.tick(at(HEART_BEAT * SECOND));
    assert_eq!(sent(&mut session), ["0 6 "]);
    session.ask(at(40 * SECOND));
    assert_eq!(sent(&mut session), ["1 7 112=probe-1|"]);
    session.receive(&said("0", 10, ""), at(41 * SECOND));
    session.tick(at(70 * SECOND - 1));
    assert_eq!(sent(&mut session), [""; 0]);
    session.tick(at(70 * SECOND));
    assert_eq!(sent(&mut session), ["0 8 "]);
}

#[test]
fn silence_is_asked_about_at_1_2_intervals_and_ends_the_session_at_2() {
    let mut session = usual();
    session.tick(at(36 * SECOND - 1));
    assert_eq!(sent(&mut session), ["0 6 "]);
    session.tick(at(36 * SECOND));
    session.tick(at(36 * SECOND + 1));
    assert_eq!(sent(&mut session), ["1 7 112=probe-1|"], "once");
    session.tick(at(60 * SECOND - 1));
    assert_eq!(session.ended(), None);
    let mut other = usual();
    session.tick(at(60 * SECOND));
    assert_eq!(session.ended(), Some(&End::Silent("the far side has been silent for 60.0s".to_owned())));

    // What we were not there for is not its silence.
    other.excuse(3_600 * SECOND, at(3_660 * SECOND));
    other.tick(at(3_660 * SECOND - 1));
    assert_eq!(other.ended(), None);
    other.tick(at(3_660 * SECOND));
    assert!(other.ended().is_some());
}

#[test]
fn b05_a_heartbeat_interval_of_zero_or_a_huge_one_from_the_peer_is_bounded() {
    for (answer, beat, note) in [
        ("108=30", Some(30), ""),
        ("", Some(30), ""),
        ("108=0", None, "the far side switched heartbeats off; its silence counts by our own 30 s"),
        ("108=1", Some(1), "the far side's HeartBtInt is 1 s, ours 30 s: we send every 1 s"),
        ("108=86400", Some(30), "the far side's HeartBtInt is 86400 s, ours 30 s: we send every 30 s"),
        (
            "108=18446744073709551615",
            Some(30),
            "the far side's HeartBtInt is 18446744073709551615 s, ours 30 s: we send every 30 s",
        ),
        (
            "108=99999999999999999999999",
            Some(30),
            "the far side's HeartBtInt is 18446744073709551615 s, ours 30 s: we send every 30 s",
        ),
    ] {
        let mut session = established(terms(), answer);
        assert_eq!(session.take_notes().join(""), note, "{answer}");
        match beat {
            Some(beat) => {
                session.tick(at(beat * SECOND - 1));
                assert_eq!(sent(&mut session), [""; 0], "{answer}");
                session.tick(at(beat * SECOND));
                assert_eq!(sent(&mut session), ["0 6 "], "{answer}");
            }
            None => {
                session.tick(at(36 * SECOND - 1));
                assert_eq!(sent(&mut session), [""; 0], "off is off");
            }
        }
        // When it counts as silent is ours to say.
        session.tick(at(60 * SECOND - 1));
        assert_eq!(session.ended(), None, "{answer}");
        session.tick(at(60 * SECOND));
        assert!(matches!(session.ended(), Some(End::Silent(_))), "{answer}");
    }
    for wrong in ["-5", "abc", "1.5"] {
        let mut session = Session::new(Arc::new(terms()), None, Numbers::FIRST, at(0));
        session.receive(&said("A", 1, &format!("108={wrong}")), at(0));
        assert_eq!(session.ended(), Some(&End::Wrong(format!("HeartBtInt (108) {wrong:?}; expected seconds"))));
    }
}

#[test]
fn whatever_comes_in_is_a_sign_of_life() {
    for (kind, rest) in [("0", "112=probe-1"), ("0", ""), ("8", "37=1"), ("1", "112=x"), ("3", "45=1|58=no")] {
        let mut session = usual();
        session.ask(at(SECOND));
        let before = session.heard();
        session.receive(&said(kind, 10, rest), at(2 * SECOND));
        assert_eq!((session.heard(), session.rejected()), (before + 1, None), "{kind}");
    }
    // But one that says no to exactly what was asked.
    let mut session = usual();
    session.ask(at(SECOND));
    session.receive(&said("3", 10, "45=6|58=TestRequest is not supported|373=11"), at(2 * SECOND));
    assert_eq!(session.rejected(), Some("\"TestRequest is not supported\" (status 11)"));
    assert!(session.is_established());
}

#[test]
fn a_test_request_is_echoed_and_a_logout_answered() {
    let mut session = usual();
    session.receive(&said("1", 10, "112=are you there"), at(SECOND));
    assert_eq!(sent(&mut session), ["0 6 112=are you there|"]);
    session.receive(&said("5", 11, "58=end of day"), at(SECOND));
    assert_eq!(sent(&mut session), ["5 7 "]);
    assert_eq!(session.ended(), Some(&End::LoggedOut("\"end of day\"".to_owned())));
    assert_eq!(session.numbers(), Numbers { next_out: 8, next_in: 12 });
}

#[test]
fn we_say_goodbye_and_take_the_answer() {
    let mut session = usual();
    session.close(at(SECOND));
    assert_eq!(sent(&mut session), ["5 6 "]);
    session.receive(&said("0", 10, ""), at(SECOND));
    assert_eq!(session.ended(), None);
    session.receive(&said("5", 11, ""), at(SECOND));
    assert_eq!(session.ended(), Some(&End::Done));
    assert_eq!((sent(&mut session), session.numbers()), (Vec::new(), Numbers { next_out: 7, next_in: 12 }));
}

#[test]
fn what_is_asked_to_be_resent_is_filled_and_uses_up_no_number() {
    for (request, answer) in [
        ("7=1|16=0", "4 1 122=20261130-05:30:01.123|123=Y|36=6|"),
        ("7=2|16=3", "4 2 122=20261130-05:30:01.123|123=Y|36=4|"),
        ("7=5|16=5", "4 5 122=20261130-05:30:01.123|123=Y|36=6|"),
        ("7=3|16=18446744073709551616", "4 3 122=20261130-05:30:01.123|123=Y|36=6|"),
        ("7=3|16=999999", "4 3 122=20261130-05:30:01.123|123=Y|36=6|"),
        ("7=3|16=1", "4 3 122=20261130-05:30:01.123|123=Y|36=6|"),
        ("7=6|16=0", "3 6 45=10|373=5|58=BeginSeqNo 6; expected a number from 1 to 5|"),
        ("7=0|16=0", "3 6 45=10|373=5|58=BeginSeqNo 0; expected a number from 1 to 5|"),
        ("16=0", "3 6 45=10|373=5|58=BeginSeqNo 0; expected a number from 1 to 5|"),
    ] {
        let mut session = usual();
        session.receive(&said("2", 10, request), at(SECOND));
        let next_out = if answer.starts_with('4') { 6 } else { 7 };
        assert_eq!(
            (sent(&mut session), session.numbers()),
            (vec![answer.to_owned()], Numbers { next_out, next_in: 11 })
        );
    }
}

#[test]
fn a_gap_is_asked_for_once_and_closed_by_what_fills_it() {
    let mut session = usual();
    for number in [13, 14, 15] {
        session.receive(&said("0", number, ""), at(SECOND));
    }
    assert_eq!(sent(&mut session), ["2 6 7=10|16=0|"], "once, however much more comes");
    session.receive(&said("8", 10, "43=Y|37=1"), at(SECOND));
    session.receive(&said("4", 11, "43=Y|123=Y|36=16"), at(SECOND));
    assert_eq!(session.numbers().next_in, 16);
    session.receive(&said("0", 16, ""), at(SECOND));
    assert_eq!((sent(&mut session), session.numbers().next_in), (Vec::new(), 17));
    // The next gap is another one.
    session.receive(&said("1", 20, "112=x"), at(SECOND));
    assert_eq!(sent(&mut session), ["2 7 7=17|16=0|", "0 8 112=x|"]);
}

#[test]
fn a_gap_that_nobody_fills_ends_the_session_after_three_requests() {
    let mut session = usual();
    session.receive(&said("0", 12, ""), at(0));
    let mut requests = sent(&mut session);
    let mut now = 0;
    while session.ended().is_none() {
        now += SECOND;
        if now % (10 * SECOND) == 0 {
            session.receive(&said("0", 12 + now / SECOND, ""), at(now));
        }
        session.tick(at(now));
        requests.extend(sent(&mut session).into_iter().filter(|sent| sent.starts_with('2')));
    }
    assert_eq!((requests.len(), now), (3, 90 * SECOND), "{requests:?}");
    let text = "asked 3 times, the far side does not fill the gap 10 to 102";
    assert_eq!(session.ended(), Some(&End::Wrong(text.to_owned())));
}

#[test]
fn a_number_that_was_used_before_ends_the_session_unless_it_says_that_it_is_a_copy() {
    let mut session = usual();
    session.receive(&said("8", 9, "43=Y|37=1"), at(SECOND));
    assert!(session.is_established());
    session.receive(&said("8", 9, "37=1"), at(SECOND));
    assert_eq!(sent(&mut session), ["5 6 58=MsgSeqNum too low, expecting 10 but received 9|"]);
    let text = "MsgSeqNum too low, expecting 10 but received 9";
    assert_eq!(session.ended(), Some(&End::Sequence(text.to_owned())));
}

#[test]
fn sequence_reset_only_goes_forward() {
    let mut session = usual();
    session.receive(&said("4", 3, "36=500"), at(SECOND));
    assert_eq!(session.numbers().next_in, 500, "its own number does not count");
    session.receive(&said("4", 500, "36=499"), at(SECOND));
    session.receive(&said("4", 500, "123=Y|36=500"), at(SECOND));
    session.receive(&said("4", 501, "123=Y"), at(SECOND));
    assert_eq!(
        sent(&mut session),
        [
            "3 6 45=500|373=5|58=NewSeqNo 499; expected more than what is there|",
            "3 7 45=500|373=5|58=NewSeqNo 500; expected more than what is there|",
            "3 8 45=501|373=5|58=NewSeqNo is missing; expected more than what is there|",
        ]
    );
    session.receive(&said("4", 502, "123=Y|36=18446744073709551615"), at(SECOND));
    session.receive(&said("0", u64::MAX, ""), at(SECOND));
    session.receive(&said("0", u64::MAX, ""), at(SECOND));
    assert_eq!((session.ended(), session.numbers().next_in), (None, u64::MAX), "nothing wraps");
}

#[test]
fn the_answer_to_a_logon_decides_what_it_came_to() {
    let refused = |text: &str| End::Refused(text.to_owned());
    let sequence = |text: &str| End::Sequence(text.to_owned());
    let wrong = |text: &str| End::Wrong(text.to_owned());
    let cases = [
        (said("5", 9, "58=Bad credentials"), refused("\"Bad credentials\"")),
        (said("5", 9, ""), refused("(no text)")),
        (said("3", 9, "45=5|58=Tag not defined|373=3"), refused("\"Tag not defined\" (status 3)")),
        (said("5", 9, "58=User ALREADY CONNECTED"), End::Competing("\"User ALREADY CONNECTED\"".to_owned())),
        (said("5", 9, "58=No|1409=7"), End::Competing("\"No\" (status 7)".to_owned())),
        (said("5", 9, "58=No|1409=8"), refused("\"No\" (status 8)")),
        (
            said("5", 9, "58=MsgSeqNum too low, expecting 10 but received 5"),
            sequence(
                "the far side expects our MsgSeqNum 10, received 5: \"MsgSeqNum too low, expecting 10 but received 5\"",
            ),
        ),
        (
            said("5", 9, "58=Sequence number is TOO LOW"),
            sequence("the far side expects our MsgSeqNum another, received 5: \"Sequence number is TOO LOW\""),
        ),
        (said("0", 9, ""), wrong("MsgType (35) \"0\" before the Logon was answered; expected A or 5")),
        (said("A", 8, "108=30"), sequence("the far side's Logon has MsgSeqNum 8; expected 9")),
        (
            said("A", 1, "108=30|141=Y"),
            sequence("the far side set its numbers back to 1 unasked (ResetSeqNumFlag); expected 9"),
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            wrong("\"HTTP/1.1 400 Bad Request??\" is no beginning of a FIX message; expected 8=FIX... and 9="),
        ),
    ];
    for (answer, expected) in cases {
        let mut session = Session::new(Arc::new(terms()), None, Numbers { next_out: 5, next_in: 9 }, at(0));
        session.receive(&answer, at(0));
        let end = session.ended().cloned();
        let shown = String::from_utf8_lossy(&answer).replace('\u{1}', "|");
        if let (Some(End::Wrong(found)), End::Wrong(expected)) = (&end, &expected) {
            assert!(found.starts_with(&expected[..20]), "{shown}: {found}");
        } else {
            assert_eq!(end, Some(expected), "{shown}");
        }
    }
    let strangers = [
        ("49=BROKER", "49=OTHER!", "SenderCompID (49) \"OTHER!\"; expected \"BROKER\""),
        ("56=PROBE", "56=YOU", "TargetCompID"),
    ];
    for (from, to, expected) in strangers {
        let text = String::from_utf8(said("A", 9, "")).unwrap();
        let body = text.split_once("35=").unwrap().1.replace(from, to);
        let body = body.split("\u{1}10=").next().unwrap();
        let body = format!("35={body}").split('\u{1}').fold(Body::default(), |all, field| {
            let (tag, value) = field.split_once('=').unwrap();
            all.with(tag.parse().unwrap(), value)
        });
        let mut session = Session::new(Arc::new(terms()), None, Numbers { next_out: 5, next_in: 9 }, at(0));
        session.receive(&body.framed("FIX.4.4"), at(0));
        assert!(
            matches!(session.ended(), Some(End::Wrong(text)) if text.starts_with(expected)),
            "{:?}",
            session.ended()
        );
    }
}

#[test]
fn a_session_that_resets_begins_at_1_on_both_sides() {
    let resets = || Terms { reset: true, ..terms() };
    for (answer, is_right) in [("108=30|141=Y", true), ("108=30", true)] {
        let mut session = Session::new(Arc::new(resets()), None, Numbers { next_out: 50, next_in: 90 }, at(0));
        assert_eq!(sent(&mut session), ["A 1 98=0|108=30|141=Y|"]);
        session.receive(&said("A", 1, answer), at(0));
        assert_eq!((session.is_established(), session.numbers()), (is_right, Numbers { next_out: 2, next_in: 2 }));
    }
    let mut session = Session::new(Arc::new(resets()), None, Numbers::FIRST, at(0));
    session.receive(&said("A", 7, "108=30|141=Y"), at(0));
    assert_eq!(session.ended(), Some(&End::Sequence("the far side's Logon has MsgSeqNum 7; expected 1".to_owned())));
}

#[test]
fn a_logon_answer_ahead_of_us_is_taken_and_the_gap_asked_for() {
    let mut session = Session::new(Arc::new(terms()), None, Numbers { next_out: 5, next_in: 9 }, at(0));
    sent(&mut session);
    session.receive(&said("A", 12, "108=30|1=ACC-7"), at(0));
    assert!(session.is_established());
    assert_eq!(
        (sent(&mut session), session.account()),
        (vec!["2 6 7=9|16=0|".to_owned()], None),
        "nobody asked for it"
    );
}

#[test]
fn the_account_is_read_where_it_is_asked_for_and_a_logon_answer_without_it_is_none() {
    let asks = || Arc::new(Terms { account_tag: Some(1), ..terms() });
    let mut session = Session::new(asks(), None, Numbers::FIRST, at(0));
    session.receive(&said("A", 1, "108=30|1=ACC-7"), at(0));
    assert_eq!((session.is_established(), session.account()), (true, Some("ACC-7")));
    let mut session = Session::new(asks(), None, Numbers::FIRST, at(0));
    sent(&mut session);
    session.receive(&said("A", 1, "108=30"), at(0));
    let why = "the Logon's answer has no field 1, which names the account";
    assert_eq!(session.ended(), Some(&End::Wrong(why.to_owned())));
    assert_eq!(sent(&mut session), [format!("5 2 58={why}|")]);
}

#[test]
fn the_far_sides_text_is_told_short_and_without_our_secrets() {
    let secret = Terms {
        username: Some(Secret::new("trader-joe")),
        logon_fields: vec![(96, Secret::new("s1gnature")), (8013, Secret::new("S"))],
        ..terms()
    };
    let mut session = Session::new(Arc::new(secret), Some(Secret::new("hunter2")), Numbers::FIRST, at(0));
    let text = format!("58=S: trader-joe/hunter2 (s1gnature)\u{7}\nhttps://u:p@h/ {}", "x".repeat(9_000));
    session.receive(&said("5", 1, &text), at(0));
    let Some(End::Refused(text)) = session.ended() else { panic!("{:?}", session.ended()) };
    assert!(text.starts_with("\"S: ***/*** (***)??https://***@h/ xxx"), "{text}");
    assert_eq!(text.chars().count(), 162);
    assert!(!format!("{session:?}").contains("hunter2"));
}

/// What the far side, or time, may do.
#[derive(Clone, Debug)]
enum Event {
    Says(&'static str, u64, String),
    Bytes(Vec<u8>),
    Passes(u64),
    Ask,
    Close,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let number = || prop_oneof![8 => 1..25_u64, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let kind = prop::sample::select(vec!["0", "1", "2", "3", "4", "5", "8", "A", "BE"]);
    let field = (prop::sample::select(vec![7, 16, 36, 43, 45, 58, 108, 112, 123, 141, 373, 1409]), number());
    let value = |tag: u32, number: u64| match tag {
        43 | 123 | 141 if number % 3 > 0 => "Y".to_owned(),
        58 => prop_text(number),
        _ => number.to_string(),
    };
    let fields = proptest::collection::vec(field, 0..4).prop_map(move |fields| {
        fields.into_iter().map(|(tag, number)| format!("{tag}={}", value(tag, number))).collect::<Vec<_>>().join("|")
    });
    let one = prop_oneof![
        12 => (kind, number(), fields).prop_map(|(kind, number, fields)| Event::Says(kind, number.max(1), fields)),
        1 => proptest::collection::vec(any::<u8>(), 0..20).prop_map(Event::Bytes),
        6 => prop_oneof![0..40 * SECOND, Just(u64::MAX / 4)].prop_map(Event::Passes),
        3 => Just(Event::Ask),
        1 => Just(Event::Close),
    ];
    proptest::collection::vec(one, 0..60)
}

fn prop_text(number: u64) -> String {
    ["already connected", "MsgSeqNum too low", "no"][usize::try_from(number % 3).unwrap_or(0)].to_owned()
}

proptest! {
    #[test]
    fn whatever_the_far_side_says_what_we_send_is_in_order_and_time_always_moves_on(
        events in events(), reset in any::<bool>(), logged_on in any::<bool>(),
    ) {
        let start = Numbers { next_out: 5, next_in: 9 };
        let mut session = Session::new(Arc::new(Terms { reset, ..terms() }), None, start, at(0));
        let (mut now, mut next, mut last_in) = (0_u64, if reset { 1 } else { 5 }, 0);
        if logged_on {
            session.receive(&said("A", if reset { 1 } else { 9 }, "108=30"), at(0));
        }
        for event in events {
            let mut heard = 0;
            match event {
                Event::Says(kind, number, fields) => {
                    session.receive(&said(kind, number, &fields), at(now));
                    heard = 1;
                }
                Event::Bytes(bytes) => session.receive(&bytes, at(now)),
                Event::Passes(nanos) => {
                    now = now.saturating_add(nanos);
                    session.tick(at(now));
                    // No timer that is due at once again and again.
                    prop_assert!(!session.is_established() || session.due() > now || now == u64::MAX, "{:?}", session);
                }
                Event::Ask if session.is_established() => session.ask(at(now)),
                Event::Ask => {}
                Event::Close => session.close(at(now)),
            }
            let sent = messages(&session.take_out());
            prop_assert!(sent.len() <= heard + 4, "{} messages at once", sent.len());
            for message in sent {
                if message.is_set(tag::POSS_DUP_FLAG) {
                    prop_assert!(message.number() < next && message.kind() == b"4");
                } else {
                    prop_assert_eq!(message.number(), next);
                    next += 1;
                }
                prop_assert!([&b"A"[..], b"0", b"1", b"2", b"3", b"4", b"5"].contains(&message.kind()));
            }
            prop_assert_eq!(session.numbers().next_out, next);
            prop_assert!(session.numbers().next_in >= last_in);
            last_in = session.numbers().next_in;
        }
    }
}
