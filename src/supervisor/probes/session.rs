//! A session that is held open beside the probes, so that its end is known at once.
//!
//! It proves nothing while it stands and condemns nothing when it ends; it is only ever a reason to probe. What it is
//! sent is read and thrown away. A far side that is gone without a word is noticed too: for TCP and TLS by the kernel's
//! keepalive, for WebSocket by pings, any message counting as a sign of life.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::SinkExt;
use rustix::net::{Shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::tcp::{Close, Dialler};
use super::tls::Connector;
use super::websocket::{self, Handshake};
use super::{ProberError, Resolver, Target, Verdict, fault};
use crate::supervisor::config::{EndpointConfig, SessionKind};

/// Keepalive probes without an answer after which the kernel gives a connection up.
const UNANSWERED: u32 = 2;
/// Bytes read at once.
const PIECE: usize = 4_096;

/// Ends when the session is lost, and says how, without secrets. Dropped, it hangs up.
pub type Loss = Pin<Box<dyn Future<Output = String> + Send>>;

/// A session that is being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Loss, Verdict>> + Send + 'a>>;

/// Opens sessions to one path.
pub trait Holder: Send + Sync {
    /// Opens one. Whoever asks bounds the time; a name's addresses share what is left until `deadline`.
    fn hold(&self, deadline: Instant) -> Opening<'_>;
}

/// What holds the session that `endpoint` is to be watched by, if it is.
///
/// # Errors
/// It cannot be opened as configured; nothing was asked.
pub fn holder(endpoint: &EndpointConfig, resolver: &Resolver) -> Result<Option<Arc<dyn Holder>>, ProberError> {
    let Some(watch) = &endpoint.watch else { return Ok(None) };
    let target = Arc::new(Target::parse(&endpoint.endpoint.url)?);
    let dialler = Dialler { target, resolver: resolver.clone(), close: Close::Orderly };
    let how = match &watch.session {
        SessionKind::Tcp => How::Tcp(dialler),
        SessionKind::Tls(config) => {
            let connector = Connector::new(config, &dialler.target, false)?;
            How::Tls(dialler, connector)
        }
        SessionKind::WebSocket(config) => {
            How::WebSocket(Box::new(Handshake::new(dialler, config)?), config.subscribe.as_deref().map(Into::into))
        }
    };
    Ok(Some(Arc::new(Session { how, ping_interval: watch.ping_interval })))
}

struct Session {
    how: How,
    ping_interval: Duration,
}

enum How {
    Tcp(Dialler),
    Tls(Dialler, Connector),
    WebSocket(Box<Handshake>, Option<Arc<str>>),
}

impl Holder for Session {
    fn hold(&self, deadline: Instant) -> Opening<'_> {
        Box::pin(async move { self.open(deadline).await.map_err(|verdict| *verdict) })
    }
}

impl Session {
    async fn open(&self, deadline: Instant) -> Result<Loss, Box<Verdict>> {
        match &self.how {
            How::Tcp(dialler) => Ok(Box::pin(until_closed(self.dial(dialler, deadline).await?))),
            How::Tls(dialler, connector) => {
                let stream = self.dial(dialler, deadline).await?;
                Ok(Box::pin(until_closed(connector.handshake(stream).await?)))
            }
            How::WebSocket(handshake, subscribe) => {
                let stream = self.dial(&handshake.dialler, deadline).await?;
                match &handshake.tls {
                    None => self.upgrade(handshake, stream, subscribe).await,
                    Some(tls) => self.upgrade(handshake, tls.handshake(stream).await?, subscribe).await,
                }
            }
        }
    }

    async fn dial(&self, dialler: &Dialler, deadline: Instant) -> Result<Line, Box<Verdict>> {
        let stream = dialler.dial(deadline).await?;
        keep_alive(&stream, self.ping_interval)
            .map_err(|error| Box::new(fault::of_io("set keepalive", &error.into())))?;
        Ok(Line(stream))
    }

    async fn upgrade<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        handshake: &Handshake,
        stream: S,
        subscribe: &Option<Arc<str>>,
    ) -> Result<Loss, Box<Verdict>> {
        let mut socket = handshake.upgrade(stream).await?;
        if let Some(text) = subscribe {
            let sent = socket.send(Message::text(&**text)).await;
            sent.map_err(|error| Box::new(websocket::of_error("send", error)))?;
        }
        Ok(Box::pin(until_silent(socket, self.ping_interval)))
    }
}

/// A connection that hangs up when it is dropped. To close it does not do: a program that is just being started has a copy of
/// it for a moment, and until that is gone too the far side would see this session beside the next one.
struct Line(TcpStream);

impl Drop for Line {
    fn drop(&mut self) {
        // The far side may have been sooner.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Has the kernel notice that the far side is gone: after `interval` without traffic it asks, and gives up when two
/// such questions, or what was sent, have had no answer. The kernel counts in whole seconds.
fn keep_alive(stream: &TcpStream, interval: Duration) -> rustix::io::Result<()> {
    let seconds = Duration::from_secs(interval.as_secs() + u64::from(interval.subsec_nanos() > 0)).max(SECOND);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, seconds)?;
    sockopt::set_tcp_keepintvl(stream, seconds)?;
    sockopt::set_tcp_keepcnt(stream, UNANSWERED)?;
    let given_up = seconds.saturating_mul(UNANSWERED + 1).as_millis();
    sockopt::set_tcp_user_timeout(stream, u32::try_from(given_up).unwrap_or(u32::MAX))
}

const SECOND: Duration = Duration::from_secs(1);

async fn until_closed(mut stream: impl AsyncRead + Unpin) -> String {
    let mut ignored = [0; PIECE];
    loop {
        match stream.read(&mut ignored).await {
            Ok(0) => return "closed by the far side".to_owned(),
            Ok(_) => {}
            Err(error) => return text_of(fault::of_io("read", &error)),
        }
    }
}

async fn until_silent<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, interval: Duration) -> String {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = true;
    loop {
        tokio::select! {
            biased;
            message = websocket::next(&mut socket) => match message {
                Ok(_) => heard = true,
                Err(verdict) => return text_of(*verdict),
            },
            _ = ticks.tick() => {
                if !std::mem::replace(&mut heard, false) {
                    return format!("no sign of life for {interval:?}, not even an answer to a ping");
                }
                match timeout(interval, socket.send(Message::Ping(websocket::payload()))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return text_of(websocket::of_error("send", error)),
                    Err(_) => return format!("it took nothing for {interval:?}"),
                }
            }
        }
    }
}

/// A verdict's words.
pub(super) fn text_of(verdict: Verdict) -> String {
    match verdict {
        Verdict::PathFault { text, .. } | Verdict::NoEvidence { text, .. } => text,
        Verdict::Success(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::fd::AsFd;

    #[tokio::test]
    async fn a_line_that_is_dropped_is_hung_up_whoever_has_a_copy_of_it() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let line = Line(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (mut theirs, _) = listener.accept().await.unwrap();
        // What a program has that was begun and is not yet itself.
        let _copy = line.0.as_fd().try_clone_to_owned().unwrap();
        drop(line);
        let end = timeout(Duration::from_secs(10), theirs.read(&mut [0; 1])).await;
        assert_eq!(end.expect("its end is heard of").unwrap(), 0);
    }

    #[tokio::test]
    async fn the_kernel_is_told_to_notice_a_far_side_that_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        for (millis, seconds) in [(100, 1), (1_000, 1), (1_001, 2), (5_000, 5)] {
            keep_alive(&stream, Duration::from_millis(millis)).unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&stream).unwrap().as_secs(), seconds, "{millis} ms");
            assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap().as_secs(), seconds);
            assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), UNANSWERED);
            assert_eq!(u64::from(sockopt::tcp_user_timeout(&stream).unwrap()), seconds * 3_000);
        }
    }
}
