//! A small broker front end on loopback, with real sockets, whose behaviour can be changed while it runs.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it, as it would of a library")]

pub mod certificates;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// The longest request head, in bytes.
const LONGEST_REQUEST: usize = 16 * 1024;

/// How a front end behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers 200 with the body `ok`.
    Healthy,
    /// Refuses new connections. Those that are open live on.
    Refuse,
    /// Accepts, and resets at once.
    Reset,
    /// Accepts, and closes at once without a word.
    Close,
    /// Accepts, and never says anything, not even a TLS greeting.
    Hang,
    /// Answers as if healthy, after this long.
    Slow(Duration),
    /// Answers with this status.
    Status(u16),
    /// Answers 200 with this body.
    Body(String),
    /// Sends half of its answer, and closes.
    Cut,
    /// Sends half of its answer's head, and falls silent.
    HalfOpen,
    /// Answers with something that is not HTTP.
    Garbage,
    /// Asks for patience.
    Throttle {
        /// 429 or 418.
        status: u16,
        /// `Retry-After`, as it stands there.
        retry_after: Option<String>,
    },
}

/// What a front end has seen since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// The most that were open at once.
    pub most_open: u64,
    /// Requests read.
    pub requests: u64,
}

/// A broker front end: listens on a loopback port of its own until it is dropped.
pub struct FrontEnd {
    address: SocketAddr,
    state: Arc<State>,
    changes: mpsc::Sender<Change>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    accepted: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
    requests: AtomicU64,
}

struct Change {
    what: What,
    done: oneshot::Sender<()>,
}

enum What {
    Mode(Mode),
    Tls(Option<Arc<ServerConfig>>),
    CutAll,
}

/// What a connection is served with.
#[derive(Clone)]
struct Service {
    mode: Mode,
    tls: Option<Arc<ServerConfig>>,
}

impl FrontEnd {
    /// Starts one that speaks plain text, or TLS. It runs on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// No port.
    pub async fn start(mode: Mode, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = socket.local_addr()?;
        let state = Arc::new(State::default());
        let (changes, receiver) = mpsc::channel(1);
        let port = Port::of(socket, &mode)?;
        let listener =
            Listener { address, port, state: Arc::clone(&state), service: watch::Sender::new(Service { mode, tls }) };
        let task = tokio::spawn(listener.run(receiver));
        Ok(Self { address, state, changes, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `scheme://127.0.0.1:port`
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// Behaves like this from now on, to connections that are open too.
    pub async fn set(&self, mode: Mode) {
        self.change(What::Mode(mode)).await;
    }

    /// Greets new connections like this from now on.
    pub async fn set_tls(&self, tls: Option<Arc<ServerConfig>>) {
        self.change(What::Tls(tls)).await;
    }

    /// Closes every connection that is open, as the system does for a process that is killed.
    pub async fn cut_all(&self) {
        self.change(What::CutAll).await;
    }

    /// Dies: refuses, and closes every connection that is open.
    pub async fn die(&self) {
        self.set(Mode::Refuse).await;
        self.cut_all().await;
    }

    /// What it has seen.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            accepted: read(&self.state.accepted),
            open: read(&self.state.open),
            most_open: read(&self.state.most_open),
            requests: read(&self.state.requests),
        }
    }

    async fn change(&self, what: What) {
        let (done, told) = oneshot::channel();
        if self.changes.send(Change { what, done }).await.is_ok() {
            let _ = told.await;
        }
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A socket that holds the port, and refuses connections until it listens.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The same for a port that was ours until now: a connection that others make may have it for an instant.
fn bind_again(address: SocketAddr) -> io::Result<TcpSocket> {
    for _ in 0..400 {
        match bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(Duration::from_millis(5)),
            bound => return bound,
        }
    }
    bind(address)
}

/// The port: always held, so that nobody else gets it.
enum Port {
    Listening(TcpListener),
    Refusing(TcpSocket),
}

impl Port {
    fn of(socket: TcpSocket, mode: &Mode) -> io::Result<Self> {
        Ok(if *mode == Mode::Refuse { Self::Refusing(socket) } else { Self::Listening(socket.listen(BACKLOG)?) })
    }
}

struct Listener {
    address: SocketAddr,
    port: Port,
    state: Arc<State>,
    service: watch::Sender<Service>,
}

impl Listener {
    async fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = async {
                match &self.port {
                    Port::Listening(listener) => listener.accept().await,
                    Port::Refusing(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                change = changes.recv() => match change {
                    Some(change) => {
                        if matches!(change.what, What::CutAll) {
                            connections.shutdown().await;
                        }
                        self.apply(change.what);
                        let _ = change.done.send(());
                    }
                    None => return,
                },
                stream = accepted => if let Ok((stream, _)) = stream {
                    self.state.accepted.fetch_add(1, Ordering::SeqCst);
                    let open = Open::new(Arc::clone(&self.state));
                    connections.spawn(serve(stream, self.service.subscribe(), open));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    fn apply(&mut self, what: What) {
        match what {
            What::CutAll => {}
            What::Tls(tls) => self.service.send_modify(|service| service.tls = tls),
            What::Mode(mode) => {
                let refusing = matches!(self.port, Port::Refusing(_));
                if refusing != (mode == Mode::Refuse) {
                    self.turn(&mode);
                }
                self.service.send_modify(|service| service.mode = mode);
            }
        }
    }

    /// From listening to refusing, or back.
    fn turn(&mut self, mode: &Mode) {
        // The address is free again only once the old socket is gone.
        let other = match TcpSocket::new_v4() {
            Ok(placeholder) => std::mem::replace(&mut self.port, Port::Refusing(placeholder)),
            Err(_) => return,
        };
        let port = match other {
            Port::Refusing(socket) => Port::of(socket, mode),
            Port::Listening(listener) => {
                drop(listener);
                bind_again(self.address).and_then(|socket| Port::of(socket, mode))
            }
        };
        if let Ok(port) = port {
            self.port = port;
        }
    }
}

/// A connection that is open.
struct Open(Arc<State>);

impl Open {
    fn new(state: Arc<State>) -> Self {
        let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_open.fetch_max(open, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(stream: TcpStream, service: watch::Receiver<Service>, open: Open) {
    let Service { mode, tls } = service.borrow().clone();
    match mode {
        Mode::Reset => {
            let _ = stream.set_zero_linger();
            return;
        }
        Mode::Close => return,
        Mode::Hang => return silent(stream).await,
        _ => {}
    }
    match tls {
        None => converse(stream, service, &open).await,
        Some(tls) => {
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                converse(stream, service, &open).await;
            }
        }
    }
}

/// Says nothing until the other side hangs up.
async fn silent(mut stream: impl AsyncRead + Unpin) {
    let mut ignored = [0; 512];
    while let Ok(1..) = stream.read(&mut ignored).await {}
}

/// Answers requests until either side has had enough.
async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, service: watch::Receiver<Service>, open: &Open) {
    let mut request = Vec::new();
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut request).await {
                Ok(1..) if request.len() <= LONGEST_REQUEST => {}
                _ => return,
            }
        }
        open.0.requests.fetch_add(1, Ordering::SeqCst);
        let mode = service.borrow().mode.clone();
        if let Mode::Slow(duration) = mode {
            tokio::time::sleep(duration).await;
        }
        let last = request.to_ascii_lowercase().windows(17).any(|window| window == b"connection: close");
        let (answer, then) = answer(&mode, last);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        match then {
            Then::GoOn => {}
            Then::Close => {
                let _ = stream.shutdown().await;
                return;
            }
            Then::Silence => return silent(stream).await,
        }
    }
}

enum Then {
    GoOn,
    Close,
    Silence,
}

fn answer(mode: &Mode, last: bool) -> (String, Then) {
    let whole = |status: u16, body: &str| {
        let connection = if last { "close" } else { "keep-alive" };
        let length = body.len();
        format!("HTTP/1.1 {status} .\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n{body}")
    };
    let then = if last { Then::Close } else { Then::GoOn };
    match mode {
        Mode::Status(status) => (whole(*status, "no"), then),
        Mode::Body(body) => (whole(200, body), then),
        Mode::Cut => ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok".to_owned(), Then::Close),
        Mode::HalfOpen => ("HTTP/1.1 200 OK\r\nContent-Le".to_owned(), Then::Silence),
        Mode::Garbage => ("220 mail.example ESMTP\r\n".to_owned(), Then::Close),
        Mode::Throttle { status, retry_after } => {
            let wish = retry_after.as_ref().map_or_else(String::new, |text| format!("Retry-After: {text}\r\n"));
            (format!("HTTP/1.1 {status} .\r\n{wish}Content-Length: 0\r\nConnection: close\r\n\r\n"), Then::Close)
        }
        Mode::Healthy | Mode::Slow(_) | Mode::Refuse | Mode::Reset | Mode::Close | Mode::Hang => {
            (whole(200, "ok"), then)
        }
    }
}
