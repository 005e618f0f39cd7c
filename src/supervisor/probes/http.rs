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

/// Too many requests; and what some exchanges answer to those who did not listen.
const THROTTLED: [u16; 2] = [429, 418];

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
}

impl HttpProbe {
    pub(super) fn new(dialler: Dialler, tls: Option<Connector>, config: &HttpConfig) -> Result<Self, ProberError> {
        Ok(Self {
            request: request(&dialler, config)?,
            head_only: config.method.eq_ignore_ascii_case("HEAD"),
            expect_status: config.expect_status.clone().into(),
            competing_session_status: config.competing_session_status.clone().into(),
            expect_body: config.expect_body.as_ref().map(|text| text.as_bytes().into()),
            dialler,
            tls,
        })
    }

    async fn ask(&self, deadline: Instant) -> Result<Evidence, Box<Verdict>> {
        let started = Instant::now();
        let mut stream = self.dialler.dial(deadline).await?;
        let Some(tls) = &self.tls else {
            self.exchange(&mut stream).await?;
            return Ok(Evidence { latency: started.elapsed(), certificate_expires_in: None });
        };
        // Boxed, so that a probe without TLS does not carry the room for it.
        Box::pin(async move {
            let mut stream = tls.handshake(stream).await?;
            let certificate_expires_in = tls::expires_in(&stream);
            self.exchange(&mut stream).await?;
            let latency = started.elapsed();
            // The answer is in; how the goodbye goes is of no interest.
            let _ = stream.shutdown().await;
            Ok(Evidence { latency, certificate_expires_in })
        })
        .await
    }

    async fn exchange(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Box<Verdict>> {
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
                    return self.judge_body(&body);
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
    if THROTTLED.contains(&status) {
        let retry_after = head.retry_after.as_deref().and_then(|text| retry_after(text, head.date.as_deref()));
        let text = format!("status {status}: asked for patience");
        return Verdict::NoEvidence { cause: NoEvidence::Throttled, text, retry_after };
    }
    Verdict::fault(Fault::UnexpectedAnswer, format!("status {status}, expected {expected:?}"))
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
