//! `tcp`: something accepts. It proves nothing of what stands behind it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_quickack;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::resolve::Resolver;
use super::target::{Host, Target};
use super::{Evidence, Fault, ProbeFuture, Prober, Verdict, fault};

/// How a connection ends when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// By a reset: at probe rates, sockets in TIME_WAIT would use up the local ports. Nor is the connection confirmed
    /// by a packet of its own: the request confirms it, and where there is none, the far side's program is not even
    /// woken. (This is what load balancers' checks do.)
    Abrupt,
    /// In the ordinary way.
    Orderly,
}

/// Where to connect, and how its name is looked up.
#[derive(Clone, Debug)]
pub(super) struct Dialler {
    pub(super) target: Arc<Target>,
    pub(super) resolver: Resolver,
    pub(super) close: Close,
}

impl Dialler {
    /// A fresh connection.
    pub(super) async fn dial(&self, deadline: Instant) -> Result<TcpStream, Box<Verdict>> {
        match &self.target.host {
            Host::Ip(ip) => {
                let address = SocketAddr::new(*ip, self.target.port);
                connect(address, self.close).await.map_err(|error| Box::new(failed(address, &error)))
            }
            // Boxed, so that a probe of an address does not carry the room for it.
            Host::Name(name) => Box::pin(self.dial_name(name, deadline)).await,
        }
    }

    /// The addresses of a name are tried in order, each with its share of the time that is left, so that a silent one
    /// does not hide the next.
    async fn dial_name(&self, name: &str, deadline: Instant) -> Result<TcpStream, Box<Verdict>> {
        let addresses = self.resolver.resolve(name, deadline).await.map_err(Box::new)?;
        let mut last = Verdict::fault(Fault::Dns, format!("{name}: no address"));
        for (place, ip) in addresses.iter().enumerate() {
            let address = SocketAddr::new(*ip, self.target.port);
            let now = Instant::now();
            let others = u32::try_from(addresses.len() - place).unwrap_or(u32::MAX);
            let until = now + deadline.saturating_duration_since(now) / others;
            let connected = timeout_at(until, connect(address, self.close)).await;
            match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = failed(address, &error),
            }
        }
        Err(Box::new(last))
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> Verdict {
    fault::of_io(format_args!("connect {address}"), error)
}

async fn connect(address: SocketAddr, close: Close) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    match close {
        Close::Abrupt => {
            socket.set_zero_linger()?;
            set_tcp_quickack(&socket, false)?;
        }
        // What speaks more than one round trip must not wait for the kernel to gather small writes.
        Close::Orderly => socket.set_nodelay(true)?,
    }
    socket.connect(address).await
}

/// Connects, and hangs up.
#[derive(Debug)]
pub(super) struct TcpProbe(pub(super) Dialler);

impl Prober for TcpProbe {
    fn overlaps(&self) -> bool {
        true
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move {
            let started = Instant::now();
            match self.0.dial(deadline).await {
                Ok(_) => Verdict::Success(Evidence { latency: started.elapsed(), ..Evidence::default() }),
                Err(verdict) => *verdict,
            }
        })
    }
}

/// What is left of `deadline`, for what takes a duration.
pub(super) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
