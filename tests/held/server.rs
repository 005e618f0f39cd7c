//! A server of WebSocket sessions and plain requests, with real sockets, that breaks every rule when it is told to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::sessions::{self, Book, Expected, Register};

/// What the handshake of a session says that is held beside the probes, where the probes open WebSockets too.
pub(crate) const HELD: &str = "websocket = { headers = { X-Session = \"held\" } }";

/// How it behaves to new connections, and to the frames of those that are open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mode {
    /// As it should: echoes pings as pongs, answers a text with `{"ok":true}`, a plain request with 200 and `ok`.
    Healthy,
    /// Refuses new connections; those that are open live on.
    Refuse,
    /// Accepts, and resets at once.
    Reset,
    /// Accepts, and says nothing.
    Hang,
    /// Reads the request, and resets.
    ResetInHandshake,
    /// Sends half of the handshake's answer, and closes.
    CutInHandshake,
    /// Another answer than 101, with these further headers.
    Status(u16, &'static str),
    /// An accept key that is not the answer to ours.
    WrongKey,
    /// Chooses this subprotocol, asked for or not.
    Chooses(&'static str),
    /// Healthy, this much later.
    Slow(Duration),
    /// Answers no ping.
    NoPong,
    /// Answers a ping with another payload.
    WrongPong,
    /// Sends an unasked pong, then the right one.
    PongTwice,
    /// Sends these bytes after the handshake, and goes on as if healthy.
    Sends(Vec<u8>),
    /// Sends this text, again and again.
    Repeats(&'static str),
    /// Opens every session, and ends it after this long.
    Drops(Duration),
}

/// A frame as a server sends it.
pub(crate) fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    match payload.len() {
        length @ 0..=125 => bytes.push(length as u8),
        length => {
            bytes.push(126);
            bytes.extend((length as u16).to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

pub(crate) fn close(code: u16, text: &str) -> Vec<u8> {
    frame(8, &[&code.to_be_bytes(), text.as_bytes()].concat())
}

/// What it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// Connections open now.
    pub(crate) open: u64,
    /// Sessions opened: handshakes that succeeded.
    pub(crate) sessions: u64,
    /// Plain requests answered.
    pub(crate) requests: u64,
    /// Pings read.
    pub(crate) pings: u64,
}

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    commands: mpsc::Sender<(Command, oneshot::Sender<()>)>,
    task: JoinHandle<()>,
    register: Register,
}

enum Command {
    Mode(Mode),
}

/// How the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// RST, whatever it was doing.
    Reset,
    /// FIN; over TLS, with the word before it that nothing more comes.
    Fin,
    /// A Close frame, after which it waits for the other side to hang up.
    Close,
}

struct Shared {
    mode: Mutex<Mode>,
    tls: Option<Arc<ServerConfig>>,
    counts: Mutex<Counts>,
    heads: Mutex<Vec<String>>,
    texts: Mutex<Vec<String>>,
    /// Each one sent ends every connection that is open.
    cut: watch::Sender<End>,
    resets: AtomicU64,
    book: Arc<Book>,
    /// Whose sessions they are: one that says in its handshake that it is held, one that says nothing at all (TCP and TLS
    /// sessions that are held do), and one that logs on in its first message.
    held: String,
    silent: String,
    logon: String,
}

impl Server {
    pub(crate) async fn start(mode: Mode, tls: Option<Arc<ServerConfig>>) -> Self {
        let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let address = socket.local_addr().expect("an address");
        let register = Register::new();
        let shared = Arc::new(Shared {
            mode: Mutex::new(mode.clone()),
            tls,
            counts: Mutex::default(),
            heads: Mutex::default(),
            texts: Mutex::default(),
            cut: watch::Sender::new(End::Reset),
            resets: AtomicU64::new(0),
            book: register.book(),
            held: sessions::own("held"),
            silent: sessions::own("silent"),
            logon: sessions::own("logon"),
        });
        let (commands, receiver) = mpsc::channel(1);
        let task = tokio::spawn(listen(address, port(socket, &mode), Arc::clone(&shared), receiver));
        Self { address, shared, commands, task, register }
    }

    /// One of several servers, each of which behaves otherwise.
    pub(crate) async fn start_as_one_of_many(mode: Mode, tls: Option<Arc<ServerConfig>>) -> Self {
        let server = Self::start(mode, tls).await;
        server.register.expect(Expected::Any);
        server
    }

    /// One at which nobody holds a session, or logs on: it is only asked.
    pub(crate) async fn start_for_requests(mode: Mode, tls: Option<Arc<ServerConfig>>) -> Self {
        let server = Self::start(mode, tls).await;
        server.register.expect(Expected::None);
        server
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    pub(crate) async fn set(&self, mode: Mode) {
        let (done, told) = oneshot::channel();
        if self.commands.send((Command::Mode(mode), done)).await.is_ok() {
            let _ = told.await;
        }
    }

    /// Resets every connection that is open; new ones are welcome.
    pub(crate) fn reset_all(&self) {
        self.end_all(End::Reset);
    }

    /// Ends every connection that is open so; new ones are welcome.
    pub(crate) fn end_all(&self, end: End) {
        self.shared.cut.send_replace(end);
    }

    /// What SIGKILL does: the port refuses, and every connection is reset.
    pub(crate) async fn die(&self) {
        self.set(Mode::Refuse).await;
        self.reset_all();
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.shared.counts.lock()
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().clone()
    }

    /// The text messages that came.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.shared.texts.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.reset_all();
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The port is always held, so that nobody else gets it.
enum Port {
    Listening(TcpListener),
    Refusing(#[expect(dead_code, reason = "it is held")] TcpSocket),
    None,
}

fn port(socket: TcpSocket, mode: &Mode) -> Port {
    if *mode == Mode::Refuse {
        return Port::Refusing(socket);
    }
    Port::Listening(socket.listen(1_024).expect("a listener"))
}

async fn listen(
    address: SocketAddr,
    mut held: Port,
    shared: Arc<Shared>,
    mut commands: mpsc::Receiver<(Command, oneshot::Sender<()>)>,
) {
    loop {
        let accepted = async {
            match &held {
                Port::Listening(listener) => listener.accept().await,
                Port::Refusing(_) | Port::None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = commands.recv() => {
                let Some((Command::Mode(mode), done)) = command else { return };
                // Whom the kernel let in already comes in under the old mode.
                if let Port::Listening(listener) = &held {
                    while let Ok(Ok((stream, _))) = timeout(Duration::from_millis(5), listener.accept()).await {
                        shared.admit(stream);
                    }
                }
                if matches!(held, Port::Refusing(_)) != (mode == Mode::Refuse) {
                    held = Port::None;
                    let _ = &held;
                    held = port(bind_again(address).await, &mode);
                }
                *shared.mode.lock() = mode;
                let _ = done.send(());
            }
            stream = accepted => if let Ok((stream, _)) = stream {
                shared.admit(stream);
            },
        }
    }
}

/// A connection that others make may have the port for an instant.
async fn bind_again(address: SocketAddr) -> TcpSocket {
    for _ in 0..2_000 {
        if let Ok(socket) = bind(address) {
            return socket;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{address} was ours");
}

struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().open -= 1;
    }
}

impl Shared {
    /// Serves it as the mode is now, and hears of every end from now on.
    fn admit(self: &Arc<Self>, stream: TcpStream) {
        let mut cut = self.cut.subscribe();
        cut.mark_unchanged();
        let mode = self.mode.lock().clone();
        tokio::spawn(Arc::clone(self).serve(stream, mode, cut));
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, mode: Mode, mut cut: watch::Receiver<End>) {
        {
            let mut counts = self.counts.lock();
            counts.accepted += 1;
            counts.open += 1;
        }
        let _open = Open(&self);
        let connection = sessions::handle(&stream);
        // Dropped in whatever state, the connection is reset: that is what a killed process with unread data does.
        let _ = stream.set_zero_linger();
        let _ = stream.set_nodelay(true);
        tokio::select! {
            biased;
            // First: who is reset at once was there.
            () = self.greet(stream, connection, mode, cut.clone()) => {}
            _ = next(&mut cut, |end| end == End::Reset) => { self.resets.fetch_add(1, Ordering::SeqCst); }
        }
    }

    async fn greet(&self, mut stream: TcpStream, connection: Option<OwnedFd>, mode: Mode, cut: watch::Receiver<End>) {
        match (&mode, &self.tls) {
            (Mode::Reset, _) => {}
            (Mode::Hang, _) => silent(&mut stream).await,
            (_, None) => self.until_ended(&mut stream, connection, mode, cut).await,
            (_, Some(tls)) => {
                if let Ok(mut stream) = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await {
                    self.until_ended(&mut stream, connection, mode, cut).await;
                }
            }
        }
    }

    /// Until it is told to end it in an orderly way; of a reset, its caller hears.
    async fn until_ended(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        connection: Option<OwnedFd>,
        mode: Mode,
        mut cut: watch::Receiver<End>,
    ) {
        let end = tokio::select! {
            biased;
            () = self.converse(stream, connection, mode) => return,
            end = next(&mut cut, |end| end != End::Reset) => end,
        };
        let _ = match end {
            End::Close => stream.write_all(&close(1001, "going away")).await,
            _ => stream.shutdown().await,
        };
        // To close it here would be a reset.
        silent(stream).await;
    }

    async fn converse(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        connection: Option<OwnedFd>,
        mode: Mode,
    ) {
        let mut head = Vec::new();
        // Until it says something.
        let mut speechless = Some(self.book.open(&self.silent, connection.as_ref().and_then(sessions::handle)));
        while !head.ends_with(b"\r\n\r\n") {
            // One byte at a time: what follows the head is a frame already.
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
            if let Some(none) = speechless.take() {
                none.never_was();
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.heads.lock().push(head.clone());
        if let Mode::Slow(duration) = mode {
            tokio::time::sleep(duration).await;
        }
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).map(str::to_owned);
        let answer = match (&mode, key) {
            (Mode::ResetInHandshake, _) => return,
            (Mode::Status(status, more), _) => {
                format!("HTTP/1.1 {status} .\r\n{more}Content-Length: 2\r\nConnection: close\r\n\r\nno")
            }
            (_, None) => {
                self.counts.lock().requests += 1;
                "HTTP/1.1 200 .\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".to_owned()
            }
            (mode, Some(key)) => {
                let key = if *mode == Mode::WrongKey { "dGhlIHNhbXBsZSBub25jZQ==" } else { &*key };
                let accept = derive_accept_key(key.as_bytes());
                let protocol = match mode {
                    Mode::Chooses(name) => format!("Sec-WebSocket-Protocol: {name}\r\n"),
                    _ => String::new(),
                };
                format!(
                    "HTTP/1.1 101 .\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{protocol}\
                     Sec-WebSocket-Accept: {accept}\r\n\r\n"
                )
            }
        };
        if mode == Mode::CutInHandshake {
            let _ = stream.write_all(&answer.as_bytes()[..40]).await;
            let _ = stream.shutdown().await;
            return;
        }
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        if !answer.starts_with("HTTP/1.1 101") {
            let _ = stream.shutdown().await;
            // A reset would overtake the answer.
            return silent(stream).await;
        }
        self.counts.lock().sessions += 1;
        let is_held = head.to_lowercase().contains("x-session: held\r\n");
        let _held = is_held.then(|| self.book.open(&self.held, connection.as_ref().and_then(sessions::handle)));
        match mode {
            Mode::Sends(bytes) => {
                if stream.write_all(&bytes).await.is_ok() {
                    self.frames(stream, connection).await;
                }
            }
            Mode::Repeats(text) => while stream.write_all(&frame(1, text.as_bytes())).await.is_ok() {},
            Mode::Drops(after) => {
                let _ = tokio::time::timeout(after, self.frames(stream, connection)).await;
            }
            _ => self.frames(stream, connection).await,
        }
    }

    /// Answers frames until either side has had enough.
    async fn frames(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin), mut connection: Option<OwnedFd>) {
        let mut logon = None;
        while let Ok((opcode, payload)) = read_frame(stream).await {
            let mode = self.mode.lock().clone();
            let answer = match (opcode, mode) {
                (9, mode) => {
                    self.counts.lock().pings += 1;
                    match mode {
                        Mode::NoPong | Mode::Hang => continue,
                        Mode::WrongPong => frame(10, b"another"),
                        Mode::PongTwice => [frame(10, b""), frame(10, &payload)].concat(),
                        _ => frame(10, &payload),
                    }
                }
                (1, _) => {
                    logon.get_or_insert_with(|| self.book.open(&self.logon, connection.take()));
                    self.texts.lock().push(String::from_utf8_lossy(&payload).into_owned());
                    frame(1, br#"{"ok":true}"#)
                }
                (8, _) => return,
                _ => continue,
            };
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

/// One frame of a client: its opcode and its payload, unmasked. An unmasked one is refused.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let opcode = stream.read_u8().await? & 0x0f;
    let second = stream.read_u8().await?;
    assert!(second & 0x80 != 0, "a client masks what it sends");
    let length = match second & 0x7f {
        126 => usize::from(stream.read_u16().await?),
        length => usize::from(length),
    };
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((opcode, payload))
}

/// The next end of this kind.
async fn next(cut: &mut watch::Receiver<End>, is_meant: impl Fn(End) -> bool) -> End {
    loop {
        cut.changed().await.expect("whoever serves has the sender");
        let end = *cut.borrow_and_update();
        if is_meant(end) {
            return end;
        }
    }
}

/// Says nothing until the other side hangs up.
async fn silent(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 512];
    while let Ok(1..) = stream.read(&mut ignored).await {}
}
