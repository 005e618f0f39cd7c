//! `http`: one request on a fresh connection.
//!
//! Written for this one exchange rather than with a general client, which costs half as much again in CPU for each
//! check: no pool, redirect, proxy or retry that could make a dead path look alive, one write, and as few reads as the
//! answer takes.

use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::answer::{Answer, Body, Decoder, Head, LONGEST_BODY};
use super::tcp::Dialler;
use super::tls::{self, Connector};
use super::{Evidence, Fault, NoEvidence, ProbeFuture, Prober, ProberError, Verdict, fault};
use crate::supervisor::clock;
use crate::supervisor::config::HttpConfig;

/// Too many requests.
const THROTTLED: u16 = 429;
/// What exchanges answer to those who did not listen: no more requests from this address until then.
const BANNED: u16 = 418;
/// The credential was not accepted.
const UNAUTHORIZED: u16 = 401;

/// Asks, and compares the answer with what is expected.
pub(super) struct HttpProbe {
    dialler: Dialler,
    tls: Option<Connector>,
    /// The whole request. Holds secrets.
    request: Box<[u8]>,
    head_only: bool,
    expect_status: Box<[u16]>,
    competing_session_status: Box<[u16]>,
    expect_body: Option<Box<[u8]>>,
    account_pointer: Option<Box<str>>,
}

impl HttpProbe {
    pub(super) fn new(dialler: Dialler, tls: Option<Connector>, config: &HttpConfig) -> Result<Self, ProberError> {
        Ok(Self {
            request: request(&dialler, config)?,
            head_only: config.method.eq_ignore_ascii_case("HEAD"),
            expect_status: config.expect_status.clone().into(),
            competing_session_status: config.competing_session_status.clone().into(),
            expect_body: config.expect_body.as_ref().map(|text| text.as_bytes().into()),
            account_pointer: config.account_pointer.as_deref().map(Into::into),
            dialler,
            tls,
        })
    }

    async fn ask(&self, deadline: Instant) -> Result<Evidence, Box<Verdict>> {
        let started = Instant::now();
        let mut stream = self.dialler.dial(deadline).await?;
        let Some(tls) = &self.tls else {
            let account = self.exchange(&mut stream).await?;
            return Ok(Evidence { latency: started.elapsed(), account, ..Evidence::default() });
        };
        // Boxed, so that a probe without TLS does not carry the room for it.
        Box::pin(async move {
            let mut stream = tls.handshake(stream).await?;
            let certificate_expires_in = tls::expires_in(&stream);
            let account = self.exchange(&mut stream).await?;
            let latency = started.elapsed();
            // The answer is in; how the goodbye goes is of no interest.
            let _ = stream.shutdown().await;
            Ok(Evidence { latency, certificate_expires_in, account, ..Evidence::default() })
        })
        .await
    }

    /// The account that the answer names, if it is asked for.
    async fn exchange(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<Option<String>, Box<Verdict>> {
        stream.write_all(&self.request).await.map_err(|error| Box::new(fault::of_io("send the request", &error)))?;
        let mut decoder = Decoder::new(self.head_only);
        let mut judged = false;
        loop {
            let room = decoder.room();
            let read =
                stream.read_buf(room).await.map_err(|error| Box::new(fault::of_io("read the answer", &error)))?;
            let answer = decoder.advance(read == 0).map_err(|wrong| Box::new(wrong.into_verdict()))?;
            match answer {
                Answer::More(None) => {}
                // What the head already decides need not wait for the body.
                Answer::More(Some(head)) if !judged => {
                    self.judge_head(head)?;
                    judged = true;
                }
                Answer::More(Some(_)) => {}
                Answer::Whole(head, body) => {
                    self.judge_head(head)?;
                    self.judge_body(&body)?;
                    return self.account_pointer.as_deref().map(|pointer| account(&body, pointer)).transpose();
                }
            }
        }
    }

    fn judge_head(&self, head: &Head) -> Result<(), Box<Verdict>> {
        if self.expect_status.contains(&head.status) {
            return Ok(());
        }
        Err(Box::new(refusal(head, &self.competing_session_status, &self.expect_status)))
    }

    fn judge_body(&self, body: &Body<'_>) -> Result<(), Box<Verdict>> {
        let Some(expected) = &self.expect_body else { return Ok(()) };
        let (found, which) = match body {
            Body::Complete(body) => (contains(body, expected), "body"),
            Body::TooLong(start) => (contains(start, expected), "first 64 KiB of the body"),
        };
        if found {
            return Ok(());
        }
        let text = format!("the {which} does not contain {:?}", String::from_utf8_lossy(expected));
        Err(Box::new(Verdict::fault(Fault::UnexpectedAnswer, text)))
    }
}

impl Prober for HttpProbe {
    fn overlaps(&self) -> bool {
        true
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move { self.ask(deadline).await.map_or_else(|verdict| *verdict, Verdict::Success) })
    }
}

/// What an answer with another status than those expected says.
pub(super) fn refusal(head: &Head, competing: &[u16], expected: &[u16]) -> Verdict {
    let status = head.status;
    if competing.contains(&status) {
        let text = format!("status {status}: another session holds our login");
        return Verdict::no_evidence(NoEvidence::CompetingSession, text);
    }
    if let THROTTLED | BANNED = status {
        let retry_after = head.retry_after.as_deref().and_then(|text| retry_after(text, head.date.as_deref()));
        let (cause, what) = match status {
            BANNED => (NoEvidence::Banned, "shut out for not listening"),
            _ => (NoEvidence::Throttled, "asked for patience"),
        };
        return Verdict::NoEvidence { cause, text: format!("status {status}: {what}"), retry_after };
    }
    if status == UNAUTHORIZED {
        return Verdict::fault(Fault::LogonRefused, format!("status {status}: the credential was not accepted"));
    }
    Verdict::fault(Fault::UnexpectedAnswer, format!("status {status}, expected {expected:?}"))
}

/// The account at `pointer` in the body, a text or a whole number. A body that does not say is not the expected answer.
fn account(body: &Body<'_>, pointer: &str) -> Result<String, Box<Verdict>> {
    let wrong =
        |what: &str| Box::new(Verdict::fault(Fault::UnexpectedAnswer, format!("account_pointer {pointer:?}: {what}")));
    let Body::Complete(body) = body else { return Err(wrong("the body is longer than 64 KiB")) };
    let json: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("the body is no JSON"))?;
    match json.pointer(pointer) {
        Some(serde_json::Value::String(account)) => Ok(account.trim().to_owned()),
        Some(serde_json::Value::Number(account)) if account.is_u64() => Ok(account.to_string()),
        Some(_) => Err(wrong("neither a text nor a whole number is there")),
        None => Err(wrong("nothing is there")),
    }
}

/// Whether `body` contains `expected`; everything contains nothing.
fn contains(body: &[u8], expected: &[u8]) -> bool {
    debug_assert!(body.len() <= LONGEST_BODY);
    expected.is_empty() || body.windows(expected.len()).any(|window| window == expected)
}

/// What `Retry-After` asks for: seconds, or a date. The date is read by the sender's own clock, if it tells it.
fn retry_after(text: &str, date: Option<&str>) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are more seconds than anyone waits.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let now = date
        .and_then(|date| httpdate::parse_http_date(date.trim()).ok())
        .unwrap_or_else(|| SystemTime::UNIX_EPOCH + Duration::from_nanos(clock::wall()));
    Some(until.duration_since(now).unwrap_or_default())
}

/// What a name of HTTP (a method, a header) consists of.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

pub(super) fn check_path(path: &str) -> Result<(), ProberError> {
    if !path.starts_with('/') || path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        return Err(ProberError::Path { path: path.to_owned() });
    }
    Ok(())
}

pub(super) fn check_headers(headers: &[(String, String)]) -> Result<(), ProberError> {
    let wrong = |(name, value): &&(String, String)| {
        !is_token(name) || value.bytes().any(|b| b.is_ascii_control() && b != b'\t')
    };
    match headers.iter().find(wrong) {
        Some((name, _)) => Err(ProberError::Header { name: name.clone() }),
        None => Ok(()),
    }
}

fn request(dialler: &Dialler, config: &HttpConfig) -> Result<Box<[u8]>, ProberError> {
    if !is_token(&config.method) {
        return Err(ProberError::Method { method: config.method.clone() });
    }
    check_path(&config.path)?;
    check_headers(&config.headers)?;
    let stated = |header: &str| config.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header));
    let target = &dialler.target;
    let mut text = format!("{} {} HTTP/1.1\r\n", config.method, config.path);
    let mut header = |name: &str, value: &str| {
        if !stated(name) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    };
    header("Host", &target.authority());
    header("User-Agent", concat!("broker-failover/", env!("CARGO_PKG_VERSION")));
    header("Accept", "*/*");
    header("Connection", "close");
    if matches!(config.method.as_str(), "POST" | "PUT" | "PATCH") {
        header("Content-Length", "0");
    }
    if let Some(authorization) = target.authorization() {
        header("Authorization", &authorization);
    }
    for (name, value) in &config.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    Ok(text.into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_senders_clock() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(retry_after("30", date), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(" 0 ", None), Some(Duration::ZERO));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", date), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:07 GMT", date), Some(Duration::ZERO));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", None), Some(Duration::ZERO));
        assert_eq!(retry_after("99999999999999999999999", None), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(retry_after("soon", None), None);
        assert_eq!(retry_after("-5", None), None);
        assert_eq!(retry_after("", None), None);
    }
}
