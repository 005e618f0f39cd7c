//! A small broker front end on loopback: real sockets, real TLS, and every way to fail that the story needs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// How a front end behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers.
    Healthy,
    /// Does not listen.
    Refuse,
    /// Accepts and never answers.
    Hang,
    /// Answers 500 to everything.
    Error500,
    /// Closes the connection in the middle of a request.
    Cut,
    /// Answers a TLS handshake with noise.
    BreakTls,
}

/// The broker's one book: every front end fronts the same account.
#[derive(Debug, Default)]
pub struct Book {
    /// Orders by client id, with the epoch under which they came.
    orders: Mutex<BTreeMap<u64, u64>>,
}

impl Book {
    /// How many orders the broker took.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.orders.lock().len()
    }

    /// Whether the broker took the order `id`.
    #[must_use]
    pub fn has(&self, id: u64) -> bool {
        self.orders.lock().contains_key(&id)
    }
}

/// A running front end.
#[derive(Debug)]
pub struct Broker {
    /// Where it listens; the same while it refuses and after.
    pub address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl Broker {
    /// Starts a healthy front end of `book` on a free port of the loopback interface.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(book: Arc<Book>, tls: TlsAcceptor) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (mode, watched) = watch::channel(Mode::Healthy);
        tokio::spawn(serve(address, listener, watched, book, tls));
        Ok(Self { address, mode })
    }

    /// Changes how it behaves; connections that are open are dropped.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// The port: held while it refuses too, so that no other socket of this machine gets it meanwhile.
enum Port {
    Listening(TcpListener),
    Refusing(TcpSocket),
}

impl Port {
    fn new(address: SocketAddr, refuses: bool) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(if refuses { Self::Refusing(socket) } else { Self::Listening(socket.listen(64)?) })
    }

    /// The same port, turned from one to the other.
    async fn turned(self, address: SocketAddr, refuses: bool) -> Self {
        match self {
            Self::Listening(listener) if !refuses => Self::Listening(listener),
            Self::Refusing(socket) if refuses => Self::Refusing(socket),
            other => {
                // The address is free again only once the old socket is gone.
                drop(other);
                loop {
                    match Self::new(address, refuses) {
                        Ok(port) => return port,
                        // It is held by a closing connection for a moment.
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            }
        }
    }
}

async fn serve(
    address: SocketAddr,
    listener: TcpListener,
    mut mode: watch::Receiver<Mode>,
    book: Arc<Book>,
    tls: TlsAcceptor,
) {
    let mut port = Port::Listening(listener);
    loop {
        let now = *mode.borrow_and_update();
        port = port.turned(address, now == Mode::Refuse).await;
        let accepted = async {
            match &port {
                Port::Listening(listener) => listener.accept().await,
                Port::Refusing(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = mode.changed() => if changed.is_err() { return },
            accepted = accepted => if let Ok((stream, _)) = accepted {
                let (book, tls, mut mode) = (Arc::clone(&book), tls.clone(), mode.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = talk(stream, now, book, tls) => {}
                        // A change of mode cuts what is open; so does the end of the broker.
                        _ = mode.changed() => {}
                    }
                });
            },
        }
    }
}

async fn talk(mut stream: TcpStream, mode: Mode, book: Arc<Book>, tls: TlsAcceptor) {
    match mode {
        Mode::Hang => std::future::pending().await,
        Mode::BreakTls => {
            // The client sees noise where a handshake should be, whether or not it is all written.
            let _ = stream.write_all(b"not a handshake at all\r\n\r\n").await;
        }
        Mode::Cut | Mode::Healthy | Mode::Error500 | Mode::Refuse => {
            let Ok(stream) = tls.accept(stream).await else { return };
            if mode == Mode::Cut {
                return;
            }
            let service = service_fn(move |request| answer(request, mode, Arc::clone(&book)));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that goes away early is its own affair.
            let _ = connection.await;
        }
    }
}

/// `GET /health`; `POST /orders` with `ID EPOCH`, idempotent by id.
async fn answer(
    request: Request<hyper::body::Incoming>,
    mode: Mode,
    book: Arc<Book>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = Limited::new(request.into_body(), 1024).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (status, text) = match (mode, method, &*path) {
        (Mode::Error500, _, _) => (StatusCode::INTERNAL_SERVER_ERROR, "overloaded"),
        (_, Method::GET, "/health") => (StatusCode::OK, "ok"),
        (_, Method::POST, "/orders") => match order(&body) {
            Some((id, epoch)) => {
                book.orders.lock().entry(id).or_insert(epoch);
                (StatusCode::OK, "accepted")
            }
            None => (StatusCode::BAD_REQUEST, "expected ID EPOCH"),
        },
        _ => (StatusCode::NOT_FOUND, "no such thing"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}

fn order(body: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(body).ok()?;
    let (id, epoch) = text.split_once(' ')?;
    Some((id.parse().ok()?, epoch.parse().ok()?))
}
