//! One FIX session as a state machine: bytes and time go in, bytes and an end come out. No I/O and no clock.
//!
//! It sends session-level messages only: Logon, Heartbeat, TestRequest, ResendRequest, SequenceReset-GapFill, Reject of
//! a request that makes no sense, Logout. It has no orders, so that there is nothing that it could ever send again:
//! whatever the far side asks to be resent is filled.

use std::sync::Arc;
use std::time::Duration;

use super::super::redact;
use super::Secret;
use super::codec::{Body, Decoder, Message, excerpt, tag};
use super::store::Numbers;
use crate::supervisor::journal::format_time;

/// How often a gap is asked for before the session is given up.
const GAP_REQUESTS: u32 = 3;
/// What is worth a line of the log in one session; a far side may repeat itself without end.
const MOST_NOTES: u32 = 16;
/// Of what the far side says, the part that is told, in characters.
const TOLD: usize = 160;

/// What is agreed with the far side.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// BeginString.
    pub(super) begin: &'static str,
    pub(super) sender: String,
    pub(super) sender_sub: Option<String>,
    pub(super) target: String,
    pub(super) target_sub: Option<String>,
    pub(super) username: Option<Secret>,
    /// Our own HeartBtInt, in seconds.
    pub(super) heart_beat: u64,
    /// Whether each Logon begins at 1, with ResetSeqNumFlag.
    pub(super) reset: bool,
    pub(super) default_appl_ver_id: Option<String>,
    /// Further fields of the Logon.
    pub(super) logon_fields: Vec<(u32, Secret)>,
    /// Which field of the Logon's answer names the account.
    pub(super) account_tag: Option<u32>,
    /// Parts of texts, in lower case, that say that another session holds our identity.
    pub(super) competing_texts: Vec<String>,
    /// SessionStatus (1409) values that say so.
    pub(super) competing_status: Vec<u64>,
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// By the clock of all waits, in nanoseconds.
    pub(super) at: u64,
    /// By the wall clock, in nanoseconds since 1970: what SendingTime says, and nothing else.
    pub(super) wall: u64,
}

/// How a session ended; the texts are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The far side answered our Logon with no.
    Refused(String),
    /// Another session holds our identity.
    Competing(String),
    /// The two sides' sequence numbers do not fit. A further Logon would only use up one more number.
    Sequence(String),
    /// The far side ended it.
    LoggedOut(String),
    /// The far side did what no FIX session does.
    Wrong(String),
    /// Nothing came for two intervals.
    Silent(String),
    /// We ended it, and the far side agreed.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    LoggingOn,
    Established,
    LoggingOut,
    Ended(End),
}

/// A gap in what came in.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The highest number that is known to have been sent.
    until: u64,
    asked_at: u64,
    times: u32,
}

/// A session, from its Logon on.
#[derive(Debug)]
pub(super) struct Session {
    terms: Arc<Terms>,
    password: Option<Secret>,
    numbers: Numbers,
    phase: Phase,
    decoder: Decoder,
    /// What is to be sent.
    out: Vec<u8>,
    /// Messages that came in and were right.
    heard: u64,
    heard_at: u64,
    sent_at: u64,
    /// How often to send something, in seconds; `None` if the far side switched heartbeats off.
    beat: Option<u64>,
    /// Whether the silence since the last message was asked about.
    asked_about_silence: bool,
    gap: Option<Gap>,
    test_requests: u64,
    /// The number of the TestRequest that a probe waits for, and the far side's text if it was rejected.
    asked: Option<u64>,
    rejected: Option<String>,
    account: Option<String>,
    /// What is worth knowing and no fault.
    notes: Vec<String>,
    noted: u32,
}

impl Session {
    /// Begins with the Logon, which is ready to be sent. `numbers` are where the last session ended; a session that
    /// resets begins at 1.
    pub(super) fn new(terms: Arc<Terms>, password: Option<Secret>, numbers: Numbers, now: Moment) -> Self {
        let numbers = if terms.reset { Numbers::FIRST } else { numbers };
        let beat = Some(terms.heart_beat);
        let mut session = Self {
            terms,
            password,
            numbers,
            phase: Phase::LoggingOn,
            decoder: Decoder::default(),
            out: Vec::new(),
            heard: 0,
            heard_at: now.at,
            sent_at: now.at,
            beat,
            asked_about_silence: false,
            gap: None,
            test_requests: 0,
            asked: None,
            rejected: None,
            account: None,
            notes: Vec::new(),
            noted: 0,
        };
        session.send(session.logon(), now);
        session
    }

    fn logon(&self) -> Outgoing {
        let terms = &*self.terms;
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.tell().to_owned());
        let body = Body::default()
            .with(tag::ENCRYPT_METHOD, "0")
            .with(tag::HEART_BT_INT, terms.heart_beat.to_string())
            .with_some(tag::RESET_SEQ_NUM_FLAG, terms.reset.then_some("Y"))
            .with_some(tag::USERNAME, secret(&terms.username))
            .with_some(tag::PASSWORD, secret(&self.password))
            .with_some(tag::DEFAULT_APPL_VER_ID, terms.default_appl_ver_id.as_ref());
        let body = terms.logon_fields.iter().fold(body, |body, (tag, value)| body.with(*tag, value.tell()));
        Outgoing { kind: "A", body }
    }

    /// What is to be sent now; empties it.
    pub(super) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The numbers that the next message of each side has.
    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// How many messages came in that were right: more of them is what shows that the far side lives.
    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    pub(super) fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    pub(super) fn ended(&self) -> Option<&End> {
        match &self.phase {
            Phase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// The account that the Logon's answer named.
    pub(super) fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// Whether, and how, the far side rejected the TestRequest that was asked last.
    pub(super) fn rejected(&self) -> Option<&str> {
        self.rejected.as_deref()
    }

    /// What is worth knowing and no fault; empties it.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, text: String) {
        if self.noted < MOST_NOTES {
            self.noted += 1;
            self.notes.push(text);
        }
    }

    /// Asks the far side for a sign of life.
    pub(super) fn ask(&mut self, now: Moment) {
        self.asked = Some(self.numbers.next_out);
        self.rejected = None;
        self.test_request(now);
    }

    /// Says goodbye. Before the Logon is answered there is nobody to say it to.
    pub(super) fn close(&mut self, now: Moment) {
        match self.phase {
            Phase::Established => {
                self.send(Outgoing { kind: "5", body: Body::default() }, now);
                self.phase = Phase::LoggingOut;
            }
            Phase::LoggingOn => self.phase = Phase::Ended(End::Done),
            Phase::LoggingOut | Phase::Ended(_) => {}
        }
    }

    /// We were not there for so long: the silence of that time was ours.
    pub(super) fn excuse(&mut self, absent: u64, now: Moment) {
        self.heard_at = self.heard_at.saturating_add(absent).min(now.at);
    }

    /// When to call [`Self::tick`] at the latest.
    pub(super) fn due(&self) -> u64 {
        let heart_beat = seconds(self.terms.heart_beat);
        let silence = if self.asked_about_silence { self.ends_at() } else { self.asks_at() };
        let beat = self.beat.map(|beat| self.sent_at.saturating_add(seconds(beat)));
        let gap = self.gap.map(|gap| gap.asked_at.saturating_add(heart_beat));
        [Some(silence), beat, gap].into_iter().flatten().min().unwrap_or(silence)
    }

    fn asks_at(&self) -> u64 {
        // The usual allowance for transmission is a fifth of the interval.
        let heart_beat = seconds(self.terms.heart_beat);
        self.heard_at.saturating_add(heart_beat).saturating_add(heart_beat / 5)
    }

    fn ends_at(&self) -> u64 {
        self.heard_at.saturating_add(seconds(self.terms.heart_beat).saturating_mul(2))
    }

    /// Does what is due by time alone. What lies in the socket must have been received before.
    pub(super) fn tick(&mut self, now: Moment) {
        if !matches!(self.phase, Phase::Established) {
            return;
        }
        if now.at >= self.ends_at() {
            let silent = Duration::from_nanos(now.at.saturating_sub(self.heard_at));
            self.end(End::Silent(format!("the far side has been silent for {silent:.1?}")));
            return;
        }
        if now.at >= self.asks_at() && !self.asked_about_silence {
            self.asked_about_silence = true;
            self.test_request(now);
        }
        if self.beat.is_some_and(|beat| now.at >= self.sent_at.saturating_add(seconds(beat))) {
            self.send(Outgoing { kind: "0", body: Body::default() }, now);
        }
        if let Some(gap) = self.gap.filter(|gap| now.at >= gap.asked_at.saturating_add(seconds(self.terms.heart_beat)))
        {
            if gap.times >= GAP_REQUESTS {
                let next = self.numbers.next_in;
                let text =
                    format!("asked {} times, the far side does not fill the gap {next} to {}", gap.times, gap.until);
                self.end(End::Wrong(text));
            } else {
                self.request_resend(Gap { times: gap.times + 1, ..gap }, now);
            }
        }
    }

    /// Takes what came in.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Moment) {
        self.decoder.push(bytes);
        while self.ended().is_none() {
            match self.decoder.message() {
                Ok(Some(message)) => self.take(&message, now),
                Ok(None) => return,
                Err(garbled) => self.end(End::Wrong(self.hide(&garbled.to_string()))),
            }
        }
    }

    fn take(&mut self, message: &Message, now: Moment) {
        if message.begin() != self.terms.begin {
            let (found, expected) = (excerpt(message.begin().as_bytes(), 20), self.terms.begin);
            return self.end(End::Wrong(format!("BeginString (8) {found:?}; expected {expected:?}")));
        }
        // A refusal is taken from whoever answers: some gateways refuse in another name than the one that was asked.
        let refusal = self.phase == Phase::LoggingOn && matches!(message.kind(), b"5" | b"3");
        if let Some(text) = self.stranger(message).filter(|_| !refusal) {
            return self.end(End::Wrong(text));
        }
        self.heard = self.heard.saturating_add(1);
        self.heard_at = now.at;
        self.asked_about_silence = false;
        if self.phase == Phase::LoggingOn { self.answered(message, now) } else { self.sequenced(message, now) }
    }

    /// Whether a message is from somebody else, or for somebody else.
    fn stranger(&self, message: &Message) -> Option<String> {
        let sides = [
            ("SenderCompID", tag::SENDER_COMP_ID, &self.terms.target),
            ("TargetCompID", tag::TARGET_COMP_ID, &self.terms.sender),
        ];
        sides.into_iter().find_map(|(name, tag, expected)| {
            let found = message.get(tag).unwrap_or_default();
            let differs = found != expected.as_bytes();
            differs.then(|| format!("{name} ({tag}) {:?}; expected {expected:?}", excerpt(found, 40)))
        })
    }

    /// The first message of the far side: the answer to our Logon.
    fn answered(&mut self, message: &Message, now: Moment) {
        match message.kind() {
            b"A" => self.logged_on(message, now),
            b"5" | b"3" => {
                if message.number() == self.numbers.next_in {
                    self.numbers.next_in = message.number().saturating_add(1);
                }
                let end = self.said(message, End::Refused);
                self.end(end);
            }
            kind => {
                let text =
                    format!("MsgType (35) {:?} before the Logon was answered; expected A or 5", excerpt(kind, 5));
                self.end(End::Wrong(text));
            }
        }
    }

    fn logged_on(&mut self, message: &Message, now: Moment) {
        let (number, expected) = (message.number(), self.numbers.next_in);
        let resets = message.is_set(tag::RESET_SEQ_NUM_FLAG);
        if resets && !self.terms.reset {
            let text = format!("the far side set its numbers back to 1 unasked (ResetSeqNumFlag); expected {expected}");
            return self.break_off(End::Sequence, text, now);
        }
        if number < expected || (self.terms.reset && number != expected) {
            let text = format!("the far side's Logon has MsgSeqNum {number}; expected {expected}");
            return self.break_off(End::Sequence, text, now);
        }
        match message.get(tag::HEART_BT_INT).map(|found| (found, message.integer(tag::HEART_BT_INT))) {
            None => {}
            Some((_, Some(interval))) => self.agree(interval),
            Some((found, None)) => {
                let text = format!("HeartBtInt (108) {:?}; expected seconds", excerpt(found, 20));
                return self.break_off(End::Wrong, text, now);
            }
        }
        if let Some(tag) = self.terms.account_tag {
            // One that does not say might be any.
            let Some(account) = message.get(tag) else {
                let text = format!("the Logon's answer has no field {tag}, which names the account");
                return self.break_off(End::Wrong, text, now);
            };
            self.account = Some(excerpt(account, 60));
        }
        self.phase = Phase::Established;
        if number == expected {
            self.numbers.next_in = number.saturating_add(1);
        } else {
            self.request_resend(Gap { until: number, asked_at: now.at, times: 1 }, now);
        }
    }

    /// The far side has a say in how often we send, within bounds; when it counts as silent is by our own interval alone.
    fn agree(&mut self, interval: u64) {
        let own = self.terms.heart_beat;
        self.beat = match interval {
            0 => None,
            interval => Some(interval.min(own)),
        };
        if interval == 0 {
            self.note(format!("the far side switched heartbeats off; its silence counts by our own {own} s"));
        } else if interval != own {
            let beat = interval.min(own);
            self.note(format!("the far side's HeartBtInt is {interval} s, ours {own} s: we send every {beat} s"));
        }
    }

    /// A message of the established session, by its number.
    fn sequenced(&mut self, message: &Message, now: Moment) {
        let (number, expected) = (message.number(), self.numbers.next_in);
        if message.kind() == b"4" && !message.is_set(tag::GAP_FILL_FLAG) {
            return self.reset_in(message, now);
        }
        if number < expected {
            // Sent twice is harmless; sent once with a number that was used before is not.
            if !message.is_set(tag::POSS_DUP_FLAG) {
                if message.kind() == b"5" {
                    return self.act(message, now);
                }
                let text = format!("MsgSeqNum too low, expecting {expected} but received {number}");
                self.break_off(End::Sequence, text, now);
            }
            return;
        }
        if number > expected {
            // What matters at once is answered at once; the rest comes again.
            let first = Gap { until: number, asked_at: now.at, times: 1 };
            match &mut self.gap {
                Some(gap) => gap.until = gap.until.max(number),
                None => self.request_resend(first, now),
            }
            if matches!(message.kind(), b"1" | b"2" | b"5") {
                self.act(message, now);
            }
            return;
        }
        self.numbers.next_in = number.saturating_add(1);
        if message.kind() == b"4" {
            self.filled(message, now);
        } else {
            self.act(message, now);
        }
        self.gap = self.gap.filter(|gap| gap.until >= self.numbers.next_in);
    }

    fn act(&mut self, message: &Message, now: Moment) {
        match message.kind() {
            b"1" => {
                let echo = Body::default().with_some(tag::TEST_REQ_ID, message.get(tag::TEST_REQ_ID));
                self.send(Outgoing { kind: "0", body: echo }, now);
            }
            b"2" => self.fill(message, now),
            b"3" if self.asked.is_some() && message.integer(tag::REF_SEQ_NUM) == self.asked => {
                self.rejected = Some(self.words(message));
            }
            b"5" if self.phase == Phase::LoggingOut => self.end(End::Done),
            b"5" => {
                self.send(Outgoing { kind: "5", body: Body::default() }, now);
                let end = self.said(message, End::LoggedOut);
                self.end(end);
            }
            // Heartbeats, and whatever else a live far side says: it lives.
            _ => {}
        }
    }

    /// ResendRequest: nothing of ours is worth sending again.
    fn fill(&mut self, message: &Message, now: Moment) {
        let begin = message.integer(tag::BEGIN_SEQ_NO).unwrap_or(0);
        let next = self.numbers.next_out;
        if begin == 0 || begin >= next {
            let text = format!("BeginSeqNo {begin}; expected a number from 1 to {}", next.saturating_sub(1));
            return self.reject(message, &text, now);
        }
        let end = message.integer(tag::END_SEQ_NO).filter(|end| *end > 0 && *end >= begin);
        let new = end.map_or(next, |end| end.saturating_add(1).min(next));
        let time = sending_time(now.wall);
        let body = Body::default().with(tag::GAP_FILL_FLAG, "Y").with(tag::NEW_SEQ_NO, new.to_string());
        self.put("4", begin, Some(&time), &body, now);
    }

    /// SequenceReset-GapFill, in its turn.
    fn filled(&mut self, message: &Message, now: Moment) {
        match message.integer(tag::NEW_SEQ_NO) {
            Some(new) if new > message.number() => self.numbers.next_in = new,
            found => self.reject_new_seq_no(message, found, now),
        }
    }

    /// SequenceReset-Reset: its own number does not count.
    fn reset_in(&mut self, message: &Message, now: Moment) {
        match message.integer(tag::NEW_SEQ_NO) {
            Some(new) if new >= self.numbers.next_in => {
                self.numbers.next_in = new;
                self.gap = self.gap.filter(|gap| gap.until >= new);
                self.note(format!("the far side set its numbers forward to {new} (SequenceReset)"));
            }
            found => self.reject_new_seq_no(message, found, now),
        }
    }

    fn reject_new_seq_no(&mut self, message: &Message, found: Option<u64>, now: Moment) {
        let found = found.map_or_else(|| "is missing".to_owned(), |found| found.to_string());
        self.reject(message, &format!("NewSeqNo {found}; expected more than what is there"), now);
    }

    fn reject(&mut self, message: &Message, text: &str, now: Moment) {
        let body = Body::default()
            .with(tag::REF_SEQ_NUM, message.number().to_string())
            // Value is incorrect (out of range) for this tag.
            .with(tag::SESSION_REJECT_REASON, "5")
            .with(tag::TEXT, text);
        self.send(Outgoing { kind: "3", body }, now);
    }

    fn request_resend(&mut self, gap: Gap, now: Moment) {
        let body = Body::default()
            .with(tag::BEGIN_SEQ_NO, self.numbers.next_in.to_string())
            // All that follow.
            .with(tag::END_SEQ_NO, "0");
        self.gap = Some(Gap { asked_at: now.at, ..gap });
        self.send(Outgoing { kind: "2", body }, now);
    }

    fn test_request(&mut self, now: Moment) {
        self.test_requests = self.test_requests.saturating_add(1);
        let body = Body::default().with(tag::TEST_REQ_ID, format!("probe-{}", self.test_requests));
        self.send(Outgoing { kind: "1", body }, now);
    }

    /// Says why, and ends.
    fn break_off(&mut self, end: impl FnOnce(String) -> End, text: String, now: Moment) {
        self.send(Outgoing { kind: "5", body: Body::default().with(tag::TEXT, &text) }, now);
        self.end(end(text));
    }

    fn end(&mut self, end: End) {
        self.phase = Phase::Ended(end);
    }

    fn send(&mut self, message: Outgoing, now: Moment) {
        let number = self.numbers.next_out;
        self.numbers.next_out = number.saturating_add(1);
        self.put(message.kind, number, None, &message.body, now);
        self.sent_at = now.at;
    }

    fn put(&mut self, kind: &str, number: u64, original: Option<&str>, rest: &Body, now: Moment) {
        let terms = &*self.terms;
        let time = sending_time(now.wall);
        let header = Body::default()
            .with(tag::MSG_TYPE, kind)
            .with(tag::SENDER_COMP_ID, &terms.sender)
            .with_some(tag::SENDER_SUB_ID, terms.sender_sub.as_ref())
            .with(tag::TARGET_COMP_ID, &terms.target)
            .with_some(tag::TARGET_SUB_ID, terms.target_sub.as_ref())
            .with(tag::MSG_SEQ_NUM, number.to_string())
            .with_some(tag::POSS_DUP_FLAG, original.map(|_| "Y"))
            .with(tag::SENDING_TIME, &time)
            .with_some(tag::ORIG_SENDING_TIME, original);
        self.out.extend(header.followed_by(rest).framed(terms.begin));
    }

    /// What a Logout or a Reject means, by what it says.
    fn said(&self, message: &Message, otherwise: fn(String) -> End) -> End {
        let text = self.words(message);
        let lower = excerpt(message.get(tag::TEXT).unwrap_or_default(), usize::MAX).to_lowercase();
        let status = message.integer(tag::SESSION_STATUS);
        let terms = &*self.terms;
        if terms.competing_texts.iter().any(|part| lower.contains(part))
            || status.is_some_and(|status| terms.competing_status.contains(&status))
        {
            return End::Competing(text);
        }
        if lower.contains("too low") && lower.contains("seq") {
            let sent = self.numbers.next_out.saturating_sub(1);
            let expected = number_after(&lower, "expect").map_or_else(|| "another".to_owned(), |it| it.to_string());
            let received = number_after(&lower, "received").unwrap_or(sent);
            return End::Sequence(format!(
                "the far side expects our MsgSeqNum {expected}, received {received}: {text}"
            ));
        }
        otherwise(text)
    }

    /// The text of a message, without secrets, with its status if it has one.
    fn words(&self, message: &Message) -> String {
        let text = message.get(tag::TEXT).map(|text| self.hide(&excerpt(text, usize::MAX)));
        let text = text.map_or_else(|| "(no text)".to_owned(), |text| format!("\"{text}\""));
        match message.integer(tag::SESSION_STATUS).or_else(|| message.integer(tag::SESSION_REJECT_REASON)) {
            Some(status) => format!("{text} (status {status})"),
            None => text,
        }
    }

    /// Without what we hold secret and the far side may have echoed, and short.
    fn hide(&self, text: &str) -> String {
        let secrets = self.password.iter().chain(&self.terms.username);
        let secrets = secrets.chain(self.terms.logon_fields.iter().map(|(_, value)| value));
        let mut text = text.to_owned();
        // What is one or two characters long would be found everywhere, and is no secret.
        for secret in secrets.map(Secret::tell).filter(|secret| secret.chars().count() > 2) {
            text = text.replace(secret, "***");
        }
        let words: Vec<_> = text.split_whitespace().map(redact).collect();
        words.join(" ").chars().take(TOLD).collect()
    }
}

/// A message to be sent, without its header.
struct Outgoing {
    kind: &'static str,
    body: Body,
}

fn seconds(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000_000_000)
}

/// `20261130-05:00:00.000`
fn sending_time(wall: u64) -> String {
    let mut text = format_time(wall / 1_000).replace('-', "").replace('T', "-");
    // From microseconds and a Z to milliseconds.
    text.truncate(text.len().saturating_sub(4));
    text
}

/// The first number that follows `word`.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let digits: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
