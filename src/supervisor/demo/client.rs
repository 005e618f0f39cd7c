//! A small order client: asks the published path before each order, keeps its own record, and can be fenced.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::path::{ActivePath, PathReader};

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The broker said yes.
    Accepted,
    /// Nobody knows: an error, a time-out or an answer that is none. It may have been taken.
    Unknown,
}

/// One order that left, by the client's own record.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Its id.
    pub id: u64,
    /// The path.
    pub path: ActivePath,
    /// When it left.
    pub at: Instant,
    /// When its fate was known.
    pub done: Instant,
    /// Its fate.
    pub fate: Fate,
}

/// The client's own record.
#[derive(Debug, Default)]
pub struct Record {
    /// Every order that left, in the order of their fates.
    pub sent: Vec<Sent>,
    /// Orders that were not sent because flow was held or halted.
    pub refused: u64,
    /// When each epoch was fenced: after that moment nothing may leave under it.
    pub fenced: BTreeMap<u64, Instant>,
}

/// The client, shared between its sender and its hooks.
#[derive(Debug, Default)]
pub struct Client {
    record: Mutex<Record>,
    /// The highest epoch that was fenced, and the epoch of the order that is on its way.
    gate: Mutex<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    fenced: u64,
    on_its_way: Option<u64>,
}

impl Client {
    /// Sends an order every `pause` on the published path, until dropped.
    pub async fn trade(
        &self,
        reader: PathReader,
        addresses: Vec<SocketAddr>,
        tls: TlsConnector,
        pause: Duration,
        timeout: Duration,
    ) {
        let mut id = 0;
        loop {
            tokio::time::sleep(pause).await;
            let Some(path) = reader.path().open() else {
                self.record.lock().refused += 1;
                continue;
            };
            if !self.enter(path.epoch.get()) {
                self.record.lock().refused += 1;
                continue;
            }
            id += 1;
            let at = Instant::now();
            let address = addresses.get(path.endpoint.index()).copied();
            let sent = async {
                let address = address?;
                submit(address, &tls, id, path.epoch.get()).await
            };
            let fate = match tokio::time::timeout(timeout, sent).await {
                Ok(Some(StatusCode::OK)) => Fate::Accepted,
                _ => Fate::Unknown,
            };
            self.record.lock().sent.push(Sent { id, path, at, done: Instant::now(), fate });
            self.gate.lock().on_its_way = None;
        }
    }

    /// Whether an order may leave under `epoch`; it is then on its way.
    fn enter(&self, epoch: u64) -> bool {
        let mut gate = self.gate.lock();
        if epoch <= gate.fenced {
            return false;
        }
        gate.on_its_way = Some(epoch);
        true
    }

    /// Lets nothing leave under `epoch` any more, and returns once nothing that did is still on its way.
    pub async fn fence(&self, epoch: u64) {
        {
            let mut gate = self.gate.lock();
            gate.fenced = gate.fenced.max(epoch);
        }
        while self.gate.lock().on_its_way.is_some_and(|on_its_way| on_its_way <= epoch) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.record.lock().fenced.entry(epoch).or_insert_with(Instant::now);
    }

    /// Looks at the record.
    pub fn look<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&self.record.lock())
    }
}

impl Record {
    /// Orders whose fate is not known.
    pub fn unknown(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.fate == Fate::Unknown)
    }

    /// Never two unfenced paths: one endpoint per epoch, and an order leaves under an epoch only when every lower epoch
    /// that an order ever left under was fenced before. Says what was wrong.
    ///
    /// # Errors
    /// The first order that broke it.
    pub fn never_two_unfenced_paths(&self) -> Result<(), String> {
        let mut paths = BTreeMap::new();
        for sent in &self.sent {
            let epoch = sent.path.epoch.get();
            let endpoint = *paths.entry(epoch).or_insert(sent.path.endpoint);
            if endpoint != sent.path.endpoint {
                return Err(format!("order {} left on another endpoint in epoch {epoch}", sent.id));
            }
            if self.fenced.get(&epoch).is_some_and(|fenced| sent.done > *fenced) {
                return Err(format!("order {} was on its way after epoch {epoch} was fenced", sent.id));
            }
        }
        for sent in &self.sent {
            let epoch = sent.path.epoch.get();
            let lower = paths.range(..epoch).map(|(lower, _)| *lower);
            let mut unfenced = lower.filter(|lower| self.fenced.get(lower).is_none_or(|fenced| *fenced > sent.at));
            if let Some(lower) = unfenced.next() {
                return Err(format!("order {} left in epoch {epoch} before epoch {lower} was fenced", sent.id));
            }
        }
        Ok(())
    }
}

async fn submit(address: SocketAddr, tls: &TlsConnector, id: u64, epoch: u64) -> Option<StatusCode> {
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let stream = tls.connect(name, stream).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::post("/orders")
        .header(header::HOST, "localhost")
        .body(Full::new(Bytes::from(format!("{id} {epoch}"))))
        .ok()?;
    let mut response = std::pin::pin!(sender.send_request(request));
    let response = tokio::select! {
        response = &mut response => response,
        _ = connection => response.await,
    };
    Some(response.ok()?.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EndpointId, Epoch};

    fn sent(id: u64, endpoint: u16, epoch: u64, at: Instant) -> Sent {
        let path = ActivePath { endpoint: EndpointId::from_index(endpoint), epoch: Epoch::new(epoch).unwrap() };
        Sent { id, path, at, done: at, fate: Fate::Accepted }
    }

    #[test]
    fn the_check_of_the_record_can_fail() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let sound = vec![sent(1, 0, 1, after(0)), sent(2, 1, 2, after(2))];
        let fenced = BTreeMap::from([(1, after(1))]);
        let check = |sent: Vec<Sent>, fenced: BTreeMap<u64, Instant>| {
            Record { sent, fenced, refused: 0 }.never_two_unfenced_paths()
        };
        assert_eq!(check(sound.clone(), fenced.clone()), Ok(()));
        assert!(check(sound.clone(), BTreeMap::new()).is_err(), "never fenced");
        assert!(check(sound.clone(), BTreeMap::from([(1, after(3))])).is_err(), "fenced too late");
        let mut late = sound.clone();
        late.push(sent(3, 0, 1, after(4)));
        assert!(check(late, fenced.clone()).is_err(), "after the fence");
        let mut torn = sound;
        torn.push(sent(3, 0, 2, after(5)));
        assert!(check(torn, fenced).is_err(), "two endpoints in one epoch");
    }
}
