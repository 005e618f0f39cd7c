//! FIX acceptors for tests: a small FIX of their own (nothing of the product's codec), one script for each connection.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::sessions::{Book, Expected, Open, Register, handle};

/// A message that came in.
#[derive(Clone, Debug)]
pub struct Received {
    fields: Vec<(u32, String)>,
}

impl Received {
    pub fn get(&self, tag: u32) -> &str {
        self.fields.iter().find(|(found, _)| *found == tag).map_or("", |(_, value)| value)
    }

    pub fn kind(&self) -> &str {
        self.get(35)
    }

    pub fn number(&self) -> u64 {
        self.get(34).parse().expect("a MsgSeqNum")
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// The acceptor's side of one connection. Dropped, it closes.
pub struct Peer {
    stream: Box<dyn Io>,
    buffer: Vec<u8>,
    /// The number of the next message to be sent.
    pub next: u64,
    /// Who logged on, and as whom we answer.
    begin: String,
    pub them: String,
    pub us: String,
    book: Arc<Book>,
    connection: Option<OwnedFd>,
    /// From the Logon to the Logout, whichever side says it.
    session: Option<Open>,
    log: Arc<Mutex<Vec<Received>>>,
}

impl Peer {
    /// The next message; `None` at the end of the stream. What is not FIX fails the test.
    pub async fn read(&mut self) -> Option<Received> {
        loop {
            if let Some(message) = self.whole() {
                self.log.lock().unwrap().push(message.clone());
                return Some(message);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
            }
        }
    }

    fn whole(&mut self) -> Option<Received> {
        let end = self.buffer.windows(4).position(|at| at == b"\x0110=").map(|at| at + 8)?;
        if self.buffer.len() < end {
            return None;
        }
        let bytes: Vec<u8> = self.buffer.drain(..end).collect();
        let text = String::from_utf8(bytes.clone()).expect("ASCII");
        let sum = bytes[..end - 7].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        assert!(text.ends_with(&format!("\u{1}10={sum:03}\u{1}")), "a wrong checksum: {text:?}");
        let fields: Vec<_> = text
            .trim_end_matches('\u{1}')
            .split('\u{1}')
            .map(|field| {
                let (tag, value) = field.split_once('=').expect("a field");
                (tag.parse().expect("a tag"), value.to_owned())
            })
            .collect();
        let tags: Vec<u32> = fields.iter().map(|(tag, _)| *tag).take(3).collect();
        assert_eq!(tags, [8, 9, 35], "{text:?}");
        let body = text.find("\u{1}35=").expect("a body") + 1;
        assert_eq!(fields[1].1, (end - 7 - body).to_string(), "a wrong length: {text:?}");
        Some(Received { fields })
    }

    /// A message as bytes, with the next number.
    pub fn message(&mut self, kind: &str, rest: &str) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        self.numbered(kind, number, rest)
    }

    pub fn numbered(&self, kind: &str, number: u64, rest: &str) -> Vec<u8> {
        let (us, them) = (&self.us, &self.them);
        let body = format!("35={kind}|34={number}|49={us}|52=20261130-05:00:00.000|56={them}|{rest}");
        frame(&self.begin, &body)
    }

    pub async fn send(&mut self, kind: &str, rest: &str) {
        if kind == "5" {
            // Before the answer, which lets the next one in.
            self.session = None;
        }
        let bytes = self.message(kind, rest);
        self.raw(&bytes).await;
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        // The probe may be gone already, which the next read shows.
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// Sends batch after batch until the other side ends, and reads what comes in meanwhile, or not.
    pub async fn flood(&mut self, mut batch: impl FnMut(&mut Self) -> Vec<u8>, reads: bool) {
        loop {
            let bytes = batch(self);
            if self.stream.write_all(&bytes).await.is_err() {
                return;
            }
            if reads && !self.read_what_is_there().await {
                return;
            }
        }
    }

    /// Whether the other side is still there, and wants to be.
    async fn read_what_is_there(&mut self) -> bool {
        let mut piece = [0; 64 * 1024];
        // Polled once: what is not there now comes later.
        while let Ok(read) = tokio::time::timeout(Duration::ZERO, self.stream.read(&mut piece)).await {
            match read {
                Ok(length @ 1..) => self.buffer.extend_from_slice(&piece[..length]),
                _ => return false,
            }
        }
        while let Some(message) = self.whole() {
            self.log.lock().unwrap().push(message.clone());
            if message.kind() == "5" {
                return self.respond(&message).await;
            }
        }
        true
    }

    /// Reads the Logon, and knows from then on who is there.
    pub async fn logon(&mut self) -> Received {
        let logon = self.read().await.expect("a Logon");
        assert_eq!(logon.kind(), "A");
        self.begin = logon.get(8).to_owned();
        self.them = logon.get(49).to_owned();
        self.us = logon.get(56).to_owned();
        self.session = Some(self.book.open(&self.them, self.connection.take()));
        logon
    }

    /// Takes the Logon.
    pub async fn accept(&mut self, rest: &str) -> Received {
        let logon = self.logon().await;
        self.send("A", rest).await;
        logon
    }

    /// What an acceptor does: answers TestRequest and Logout, until the other side ends.
    pub async fn serve(&mut self) {
        while let Some(message) = self.read().await {
            if !self.respond(&message).await {
                return;
            }
        }
    }

    /// Whether the session goes on.
    pub async fn respond(&mut self, message: &Received) -> bool {
        match message.kind() {
            "1" => self.send("0", &format!("112={}|", message.get(112))).await,
            "2" => {
                let fill = format!("43=Y|123=Y|36={}|", self.next);
                let fill = self.numbered("4", message.get(7).parse().expect("a number"), &fill);
                self.raw(&fill).await;
            }
            "5" => {
                self.send("5", "").await;
                return false;
            }
            _ => {}
        }
        true
    }
}

/// `body` in its frame, with `|` for SOH.
pub fn frame(begin: &str, body: &str) -> Vec<u8> {
    let body = body.replace('|', "\u{1}");
    let head = format!("8={begin}\u{1}9={}\u{1}{body}", body.len());
    let sum = head.bytes().fold(0_u8, u8::wrapping_add);
    format!("{head}10={sum:03}\u{1}").into_bytes()
}

type Script = Box<dyn Fn(u64, Peer) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Accepts on a loopback port of its own until it is dropped.
pub struct Acceptor {
    pub address: SocketAddr,
    accepted: Arc<AtomicU64>,
    log: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
    register: Register,
}

impl Acceptor {
    /// Plays `script` on each connection; it is told the connection's number, from 1.
    pub async fn start<F>(script: impl Fn(u64, Peer) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start_with(None, script).await
    }

    pub async fn start_with<F>(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(u64, Peer) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (accepted, log) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let script: Arc<Script> = Arc::new(Box::new(move |number, peer| Box::pin(script(number, peer))));
        let register = Register::new();
        let task = tokio::spawn({
            let (accepted, log, book) = (Arc::clone(&accepted), Arc::clone(&log), register.book());
            async move {
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let number = accepted.fetch_add(1, Ordering::SeqCst) + 1;
                    let (script, tls, log) = (Arc::clone(&script), tls.clone(), Arc::clone(&log));
                    let (book, connection) = (Arc::clone(&book), handle(&stream));
                    tokio::spawn(async move {
                        let stream: Box<dyn Io> = match tls {
                            None => Box::new(stream),
                            Some(tls) => match TlsAcceptor::from(tls).accept(stream).await {
                                Ok(stream) => Box::new(stream),
                                Err(_) => return,
                            },
                        };
                        let (begin, us) = ("FIX.4.4".to_owned(), "BROKER".to_owned());
                        let buffer = Vec::new();
                        let them = "?".to_owned();
                        let peer =
                            Peer { stream, buffer, next: 1, begin, them, us, book, connection, session: None, log };
                        script(number, peer).await;
                    });
                }
            }
        });
        Self { address, accepted, log, task, register }
    }

    /// Nobody gets as far as a Logon here.
    pub fn expect_no_logon(&self) {
        self.register.expect(Expected::None);
    }

    pub fn url(&self) -> String {
        format!("fix://{}", self.address)
    }

    /// Connections so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// MsgType and MsgSeqNum of everything that was read, over all connections.
    pub fn read(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|message| format!("{}{}", message.kind(), message.number())).collect()
    }

    /// Everything that was read.
    pub fn messages(&self) -> Vec<Received> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
