//! `websocket`: a handshake on a fresh connection, then a message that shows that somebody is there.
//!
//! A handshake alone may be answered by a proxy that has nobody behind it. So one of two things must come: a message
//! that contains the expected text, or the pong to our ping, with our payload (any other pong is legal and ignored).

use std::hash::{BuildHasher, RandomState};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::{Request, Response, generate_key};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig as Limits};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::answer::Head;
use super::target::Scheme;
use super::tcp::Dialler;
use super::tls::{self, Connector};
use super::{Evidence, Fault, ProbeFuture, Prober, ProberError, Verdict, fault, http};
use crate::supervisor::config::WebSocketConfig;

/// The longest message that is taken in, in bytes; one that says it is longer is a fault before it is read.
const LONGEST_MESSAGE: usize = 1 << 20;
/// Messages that may come before the one that is waited for.
const MOST_MESSAGES: usize = 256;
/// Bytes read at once.
const PIECE: usize = 4_096;
/// Switching protocols: the one status of a handshake that succeeds.
const SWITCHING: u16 = 101;

/// Opens a WebSocket session.
pub(super) struct Handshake {
    pub(super) dialler: Dialler,
    pub(super) tls: Option<Connector>,
    uri: Uri,
    /// Without the key, which is another for each session. Holds secrets.
    headers: HeaderMap,
    competing_session_status: Box<[u16]>,
}

impl Handshake {
    pub(super) fn new(dialler: Dialler, config: &WebSocketConfig) -> Result<Self, ProberError> {
        let tls = match dialler.target.scheme {
            Scheme::Ws => None,
            Scheme::Wss => Some(Connector::new(&config.tls, &dialler.target, true)?),
            other => {
                return Err(ProberError::Scheme {
                    probe: "websocket",
                    expected: "ws:// or wss://",
                    scheme: other.name(),
                });
            }
        };
        http::check_path(&config.path)?;
        http::check_headers(&config.headers)?;
        let wrong = || ProberError::Path { path: config.path.clone() };
        let authority = dialler.target.authority();
        let uri = Uri::builder()
            .scheme(dialler.target.scheme.name())
            .authority(&*authority)
            .path_and_query(&*config.path)
            .build()
            .map_err(|_| wrong())?;
        Ok(Self {
            headers: headers(&dialler, config)?,
            uri,
            competing_session_status: config.competing_session_status.clone().into(),
            dialler,
            tls,
        })
    }

    /// The session on a connection that stands.
    pub(super) async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Result<WebSocketStream<S>, Box<Verdict>> {
        let mut request = Request::new(());
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().clone_from(&self.headers);
        // A key is base64, which every header may hold.
        if let Ok(key) = HeaderValue::try_from(generate_key()) {
            request.headers_mut().insert(header::SEC_WEBSOCKET_KEY, key);
        }
        let limits = Limits::default()
            .read_buffer_size(PIECE)
            .write_buffer_size(0)
            .max_write_buffer_size(LONGEST_MESSAGE)
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE));
        match client_async_with_config(request, stream, Some(limits)).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => Err(Box::new(self.refused(&response))),
            Err(error) => Err(Box::new(of_error("WebSocket handshake", error))),
        }
    }

    fn refused(&self, response: &Response) -> Verdict {
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = response.status().as_u16();
        let head = Head { status, retry_after: text(header::RETRY_AFTER), date: text(header::DATE) };
        http::refusal(&head, &self.competing_session_status, &[SWITCHING])
    }
}

/// The headers of the handshake's request, but for the key.
fn headers(dialler: &Dialler, config: &WebSocketConfig) -> Result<HeaderMap, ProberError> {
    let mut headers = HeaderMap::new();
    let of = |name: &str| ProberError::Header { name: name.to_owned() };
    let mut put = |name: &str, value: &str| -> Result<(), ProberError> {
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| of(name))?;
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| of(name))?, value);
        Ok(())
    };
    put("Host", &dialler.target.authority())?;
    put("User-Agent", concat!("broker-failover/", env!("CARGO_PKG_VERSION")))?;
    if let Some(authorization) = dialler.target.authorization() {
        put("Authorization", &authorization)?;
    }
    for (name, value) in &config.headers {
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("sec-websocket-") || matches!(&*lower, "connection" | "upgrade") {
            return Err(ProberError::HandshakeHeader { name: name.clone() });
        }
        put(name, value)?;
    }
    if let Some(subprotocol) = &config.subprotocol {
        if !http::is_token(subprotocol) {
            return Err(ProberError::Subprotocol { subprotocol: subprotocol.clone() });
        }
        put("Sec-WebSocket-Protocol", subprotocol)?;
    }
    put("Connection", "Upgrade")?;
    put("Upgrade", "websocket")?;
    put("Sec-WebSocket-Version", "13")?;
    Ok(headers)
}

/// Opens a session, waits for what shows that it works, and says goodbye.
pub(super) struct WebSocketProbe {
    handshake: Handshake,
    subscribe: Option<Box<str>>,
    expect_message: Option<Box<str>>,
}

impl WebSocketProbe {
    pub(super) fn new(dialler: Dialler, config: &WebSocketConfig) -> Result<Self, ProberError> {
        Ok(Self {
            handshake: Handshake::new(dialler, config)?,
            subscribe: config.subscribe.as_deref().map(Into::into),
            expect_message: config.expect_message.as_deref().map(Into::into),
        })
    }

    async fn ask(&self, deadline: Instant) -> Result<Evidence, Box<Verdict>> {
        let started = Instant::now();
        let stream = self.handshake.dialler.dial(deadline).await?;
        let Some(tls) = &self.handshake.tls else {
            self.converse(self.handshake.upgrade(stream).await?).await?;
            return Ok(Evidence { latency: started.elapsed(), ..Evidence::default() });
        };
        let stream = tls.handshake(stream).await?;
        let certificate_expires_in = tls::expires_in(&stream);
        self.converse(self.handshake.upgrade(stream).await?).await?;
        Ok(Evidence { latency: started.elapsed(), certificate_expires_in, ..Evidence::default() })
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut socket: WebSocketStream<S>,
    ) -> Result<(), Box<Verdict>> {
        let send = |error| Box::new(of_error("send", error));
        if let Some(text) = &self.subscribe {
            socket.send(Message::text(&**text)).await.map_err(send)?;
        }
        let ping = payload();
        if self.expect_message.is_none() {
            socket.send(Message::Ping(ping.clone())).await.map_err(send)?;
        }
        for _ in 0..MOST_MESSAGES {
            let message = next(&mut socket).await?;
            let shows = match (&self.expect_message, &message) {
                (Some(expected), Message::Text(text)) => text.as_str().contains(&**expected),
                (Some(expected), Message::Binary(bytes)) => contains(bytes, expected.as_bytes()),
                (None, Message::Pong(payload)) => *payload == ping,
                _ => false,
            };
            if shows {
                // What was waited for is in; how the goodbye goes is of no interest.
                let _ = socket.close(None).await;
                return Ok(());
            }
        }
        let text = match &self.expect_message {
            Some(expected) => format!("{MOST_MESSAGES} messages, and none contains {expected:?}"),
            None => format!("{MOST_MESSAGES} messages, and no pong to our ping"),
        };
        Err(Box::new(Verdict::fault(Fault::UnexpectedAnswer, text)))
    }
}

impl Prober for WebSocketProbe {
    /// What is sent after the handshake may be a logon.
    fn overlaps(&self) -> bool {
        self.subscribe.is_none()
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move { self.ask(deadline).await.map_or_else(|verdict| *verdict, Verdict::Success) })
    }
}

/// A ping's payload: nobody can know it beforehand.
pub(super) fn payload() -> Bytes {
    Bytes::copy_from_slice(&RandomState::new().hash_one(()).to_be_bytes())
}

/// The next message; that the session ends is a fault.
pub(super) async fn next<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Result<Message, Box<Verdict>> {
    match socket.next().await {
        Some(Ok(Message::Close(frame))) => Err(Box::new(closed(frame.as_ref()))),
        Some(Ok(message)) => Ok(message),
        Some(Err(error)) => Err(Box::new(of_error("read", error))),
        None => Err(Box::new(closed(None))),
    }
}

fn closed(frame: Option<&CloseFrame>) -> Verdict {
    let text = match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed by the far side, code {}", u16::from(frame.code)),
        Some(frame) => format!("closed by the far side, code {}: {:?}", u16::from(frame.code), frame.reason.as_str()),
        None => "closed by the far side, without a code".to_owned(),
    };
    Verdict::fault(Fault::Reset, text)
}

/// The verdict on an error of the session; `doing` says what was being done.
pub(super) fn of_error(doing: &str, error: Error) -> Verdict {
    let fault = match error {
        Error::Io(error) => return fault::of_io(doing, &error),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::HandshakeIncomplete | ProtocolError::ResetWithoutClosingHandshake) => {
            Fault::Reset
        }
        _ => Fault::UnexpectedAnswer,
    };
    Verdict::fault(fault, format!("{doing}: {error}"))
}

fn contains(bytes: &[u8], expected: &[u8]) -> bool {
    expected.is_empty() || bytes.windows(expected.len()).any(|window| window == expected)
}
