//! The local control socket: one JSON object a line, a request and then its answer.
//!
//! ```text
//! -> {"group":"main-account","command":{"halt":{"text":"desk asked"}}}
//! <- {"ok":"HALT OPERATOR"}
//! -> {"all":true,"command":"resume"}
//! <- {"ok":[{"group":"main-account","ok":"HOLD RECONCILING"},{"group":"other","error":"NOT_HALTED: .."}]}
//! -> {"reload":true}
//! <- {"ok":"reloaded: main-account: policy cooldown 60s -> 90s"}
//! -> {"status":true}
//! <- {"ok":[{"name":"main-account","active":"east",..}]}
//! -> {"subscribe":true}
//! <- {"number":1,"group":"main-account","order_flow":"OPEN east #1",..}
//! <- ..
//! -> {"group":"main-account","command":{"confirm-fence":{"epoch":7}}}
//! <- {"error":"epoch 7 is not the present epoch 1: nothing was confirmed"}
//! ```
//!
//! A line that begins with `{"report":` is a [gateway's report](super::report).
//!
//! Only the user that runs the supervisor, and root, may connect: the kernel tells who is at the other end.

pub mod subscribe;

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::group::task::GroupHandle;
use super::group::{Command, GroupStatus};
use super::journal::Peer;
use super::report::{self, Desk};
use super::running::ReloadHandle;
use subscribe::Subscriptions;

/// The longest request, in bytes.
const LONGEST_REQUEST: u64 = 64 * 1024;
/// Connections at the same time, subscriptions not counted; for a further one, the one that has been silent for longest
/// makes room. A halt must not wait behind dashboards.
pub(super) const MOST_CONNECTIONS: usize = 128;

/// How long a connection may say nothing: it takes the place of another.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// How long a request that has begun to arrive may take to be complete while others wait for a place.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How long a client may take to take its answer, and the supervisor to give it.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How long one of all groups may take to answer: less, so that the answers of the others are still waited for.
const LONGEST_ANSWER: Duration = Duration::from_secs(12);

/// What is asked over the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Request {
    /// A command to a group.
    Command {
        /// The group; may be left out where there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        /// What is wanted of it.
        command: Command,
    },
    /// A command to every group, each of which answers for itself.
    All {
        /// Always true.
        all: bool,
        /// What is wanted of them.
        command: Command,
    },
    /// The state of every group.
    Status {
        /// Always true.
        status: bool,
    },
    /// The configuration is to be read again.
    Reload {
        /// Always true.
        reload: bool,
    },
    /// Order flow now, and every change of it, until the connection ends; see [`subscribe`].
    Subscribe {
        /// Always true.
        subscribe: bool,
        /// Of this group; of all if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Answer {
    /// Done; for `status`, the groups; for all groups, the [`GroupAnswer`] of each.
    Ok(serde_json::Value),
    /// Refused, and why; nothing was changed.
    Error(String),
}

/// What one of all groups answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupAnswer {
    /// The group.
    pub group: String,
    /// What it answered.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Listens on `path`, readable by this user alone. A socket that an earlier run left behind is replaced; one on which
/// somebody answers is not.
///
/// # Errors
/// Somebody listens there already, or the socket cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    listen_as(path, "control", 0o600)
}

/// Listens on `path`, the socket of that name, with these permissions.
pub(super) fn listen_as(path: &Path, name: &str, mode: u32) -> io::Result<UnixListener> {
    listen_on(path, mode).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on the {name} socket {}: {error}", path.display()))
    })
}

fn listen_on(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another supervisor listens there"));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::symlink_metadata(path) {
        // Whatever else stands there is somebody's: the configuration itself, perhaps.
        Ok(found) if !found.file_type().is_socket() => {
            let text = "something that is not a socket is there already; it was left as it is";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Serves the socket until it is dropped.
pub async fn serve(listener: UnixListener, groups: Arc<[GroupHandle]>, reloads: ReloadHandle, reports: Desk) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let (subscriptions, crowd) = (Subscriptions::default(), Arc::default());
    let service = Service { groups, reloads, reports, subscriptions, crowd };
    loop {
        let Some(stream) = accept(&listener, "control").await else { continue };
        let place = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                service.crowd.begins();
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                service.crowd.ends();
                place
            }
        };
        let service = service.clone();
        tokio::spawn(async move {
            if let Err(error) = talk(stream, &service, place).await {
                info!(%error, "control connection ended");
            }
        });
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Service {
    groups: Arc<[GroupHandle]>,
    reloads: ReloadHandle,
    reports: Desk,
    subscriptions: Subscriptions,
    crowd: Arc<Crowd>,
}

/// Whether somebody waits for a place. If so, the connection that has waited for longest, for its far side to say something
/// or to take an answer, makes room.
#[derive(Default)]
struct Crowd {
    waits: AtomicBool,
    told: Notify,
}

impl Crowd {
    fn begins(&self) {
        self.waits.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// If nobody could make room just then, nobody must do so later, when there is room.
    fn ends(&self) {
        self.waits.store(false, Ordering::Release);
    }

    /// Somebody else is to make room, if that is still needed.
    fn is_left_to_others(&self) {
        if self.waits.load(Ordering::Acquire) {
            self.told.notify_one();
        }
    }

    /// Resolves for one that is to make room.
    async fn asks(&self) {
        loop {
            self.told.notified().await;
            if self.waits.load(Ordering::Acquire) {
                return;
            }
        }
    }
}

/// The next connection to the socket of that name; `None`, after a moment, if there can be none just now.
pub(super) async fn accept(listener: &UnixListener, name: &str) -> Option<UnixStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            // Our own descriptors may be exhausted: others may go.
            warn!(%error, "{name} socket: cannot accept");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Whether the kernel says that it is our own user, or root.
pub(super) fn is_own(caller: Peer) -> bool {
    caller.uid == rustix::process::geteuid().as_raw() || caller.uid == 0
}

/// A connection on which lines are answered by lines.
pub(super) struct Connection {
    pub(super) caller: Peer,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        let peer = stream.peer_cred()?;
        let caller = Peer { uid: peer.uid(), pid: peer.pid().unwrap_or(0) };
        let (reader, writer) = stream.into_split();
        Ok(Self { caller, reader: BufReader::new(reader), writer })
    }

    /// The next line; `None` when there is none any more: the end, a long silence, or a line that is too long, which is
    /// answered.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        read(&mut self.reader, &mut line).await?;
        self.complete(line).await
    }

    /// The same; `None` also if the far side said nothing before others wait for its place. What it has asked already is
    /// answered, though the runtime may not have looked yet: a connection that is closed with its request unread tells
    /// the other side nothing.
    async fn next_unless(&mut self, crowd: &Crowd) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        tokio::select! {
            biased;
            read = read(&mut self.reader, &mut line) => read?,
            () = crowd.asks() => {
                if line.is_empty() && !has_input(self.writer.as_ref()) {
                    return Ok(None);
                }
                // This one makes room when it is answered.
                crowd.is_left_to_others();
                match timeout(LONGEST_REST, read(&mut self.reader, &mut line)).await {
                    Ok(read) => read?,
                    Err(_) => return Ok(None),
                }
            }
        }
        self.complete(line).await
    }

    async fn complete(&mut self, line: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        if !line.ends_with(b"\n") && line.len() as u64 >= LONGEST_REQUEST {
            // What follows belongs to the same line, and is no request of its own.
            let answer = Answer::Error(format!("a request of more than {LONGEST_REQUEST} bytes; nothing was done"));
            self.reply(&answer).await?;
            return Ok(None);
        }
        Ok((!line.is_empty()).then_some(line))
    }

    pub(super) async fn reply(&mut self, answer: &Answer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        // Who does not take its answer would hold its place for ever.
        let told = timeout(LONGEST_WAIT, self.writer.write_all(&line)).await;
        told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads the rest of a line as far as it goes; it is empty at the end, and after a long silence.
async fn read(reader: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) -> io::Result<()> {
    let room = LONGEST_REQUEST.saturating_sub(line.len() as u64);
    let mut limited = reader.take(room);
    match timeout(LONGEST_SILENCE, limited.read_until(b'\n', line)).await {
        Ok(read) => read.map(drop),
        Err(_) => {
            line.clear();
            Ok(())
        }
    }
}

/// Whether the far side has said something that was not read, or has hung up, by what the kernel says.
fn has_input(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::default())).is_ok() && asked[0].revents().contains(PollFlags::IN)
}

async fn talk(stream: UnixStream, service: &Service, place: OwnedSemaphorePermit) -> io::Result<()> {
    let Service { groups, reloads, .. } = service;
    let mut connection = Connection::new(stream)?;
    let caller = connection.caller;
    let mut gateway = service.reports.gateway(caller);
    let mut reports = false;
    loop {
        // A gateway's silence means something; nobody else's does.
        let line = match reports {
            true => connection.next().await?,
            false => connection.next_unless(&service.crowd).await?,
        };
        let Some(line) = line else { return Ok(()) };
        if !is_own(caller) {
            // Only now: a connection that is closed with its request unread tells the other side nothing.
            warn!(%caller, "control socket: refused");
            let own = rustix::process::geteuid().as_raw();
            let answer = Answer::Error(format!("user {} may not control this supervisor (user {own})", caller.uid));
            return connection.reply(&answer).await;
        }
        if let Some(report) = report::of_line(&line) {
            let answer = gateway.take(groups, report).await;
            // Those that found no place among the gateways are not kept either: they could fill every other place.
            reports = gateway.has_place();
            answered(&mut connection, &answer, service, reports).await?;
            continue;
        }
        // What is obeyed or refused is told by the group; a look at the state changes nothing.
        debug!(%caller, request = %String::from_utf8_lossy(line.trim_ascii_end()), "control");
        let answer = match serde_json::from_slice(&line) {
            Ok(Request::Subscribe { subscribe: true, group }) => {
                match group.map(|name| find(groups, Some(&name)).cloned()) {
                    None => return service.subscriptions.serve(connection, groups.to_vec(), place).await,
                    Some(Ok(group)) => return service.subscriptions.serve(connection, vec![group], place).await,
                    Some(Err(why)) => Answer::Error(why),
                }
            }
            Ok(request) => obey(groups, reloads, request, caller).await,
            Err(error) => Answer::Error(format!("not a request: {}; nothing was done", why_not(&line, &error))),
        };
        answered(&mut connection, &answer, service, reports).await?;
    }
}

/// The far side has taken the answer; an error if it makes room because it did not, while others wait.
async fn answered(connection: &mut Connection, answer: &Answer, service: &Service, reports: bool) -> io::Result<()> {
    tokio::select! {
        biased;
        told = connection.reply(answer) => told,
        () = service.crowd.asks(), if !reports => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it did not take its answer while others waited"))
        }
    }
}

/// What is wrong with a line that is no request: in its command, if there is one.
fn why_not(line: &[u8], error: &serde_json::Error) -> String {
    let expected = "expected {\"status\":true} or {\"group\":\"NAME\",\"command\":..}";
    let found: serde_json::Value = match serde_json::from_slice(line) {
        Ok(found) => found,
        Err(error) => return format!("{error}; {expected}"),
    };
    match found.get("command").map(|command| serde_json::from_value::<Command>(command.clone())) {
        Some(Err(error)) => format!("command: {error}"),
        Some(Ok(_)) | None => format!("{error}; {expected}"),
    }
}

async fn obey(groups: &[GroupHandle], reloads: &ReloadHandle, request: Request, caller: Peer) -> Answer {
    match request {
        Request::Reload { .. } => match reloads.reload(Some(caller)).await {
            Ok(text) => Answer::Ok(text.into()),
            Err(why) => Answer::Error(why),
        },
        Request::Status { .. } => match serde_json::to_value(status(groups).await) {
            Ok(value) => Answer::Ok(value),
            Err(error) => Answer::Error(error.to_string()),
        },
        Request::Subscribe { .. } => Answer::Error("subscribe is false; nothing was done".to_owned()),
        Request::All { all: false, .. } => Answer::Error("all is false; nothing was done".to_owned()),
        Request::All { command, .. } => match serde_json::to_value(obey_all(groups, &command, caller).await) {
            Ok(value) => Answer::Ok(value),
            Err(error) => Answer::Error(error.to_string()),
        },
        Request::Command { group, command } => match find(groups, group.as_deref()) {
            Err(why) => Answer::Error(why),
            Ok(group) => match group.ask(command, Some(caller)).await {
                Ok(text) => Answer::Ok(text.into()),
                Err(why) => Answer::Error(why),
            },
        },
    }
}

/// All at once: a group that does not answer (its disk hangs, say) keeps no other from being told, nor from being heard.
async fn obey_all(groups: &[GroupHandle], command: &Command, caller: Peer) -> Vec<GroupAnswer> {
    let mut asked = JoinSet::new();
    for (place, group) in groups.iter().cloned().enumerate() {
        let command = command.clone();
        asked.spawn(async move {
            let answer = match timeout(LONGEST_ANSWER, group.ask(command, Some(caller))).await {
                Ok(Ok(text)) => Answer::Ok(text.into()),
                Ok(Err(why)) => Answer::Error(why),
                Err(_) => {
                    Answer::Error(format!("no answer within {LONGEST_ANSWER:?}; whether it was done is not known"))
                }
            };
            (place, GroupAnswer { group: group.name, answer })
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The state of every group that still runs.
pub async fn status(groups: &[GroupHandle]) -> Vec<GroupStatus> {
    let mut all = Vec::with_capacity(groups.len());
    for group in groups {
        all.extend(group.status().await);
    }
    all
}

/// The group of that name; without one, the only group.
pub(super) fn find<'a>(groups: &'a [GroupHandle], name: Option<&str>) -> Result<&'a GroupHandle, String> {
    let names = || groups.iter().map(|group| &*group.name).collect::<Vec<_>>().join(", ");
    match (name, groups) {
        (Some(name), _) => groups
            .iter()
            .find(|group| group.name == name)
            .ok_or_else(|| format!("no group {name:?}; there is: {}", names())),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("which group? there are: {}", names())),
    }
}

/// Asks a supervisor over its socket.
///
/// # Errors
/// The socket cannot be reached, or its answer cannot be read.
pub fn ask(path: &Path, request: &Request) -> io::Result<Answer> {
    use std::io::{BufRead, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(LONGEST_WAIT))?;
    stream.set_write_timeout(Some(LONGEST_WAIT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let mut answer = String::new();
    let told = stream.write_all(&line).and_then(|()| std::io::BufReader::new(stream).read_line(&mut answer));
    match told {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            let text = format!("no answer within {LONGEST_WAIT:?}; whether it was done is not known");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
        Err(error) => Err(error),
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended without an answer")),
        Ok(_) => serde_json::from_str(&answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn who_makes_room_is_answered_what_it_has_asked_already() {
        let (mut client, near) = std::os::unix::net::UnixStream::pair().unwrap();
        client.write_all(b"{\"status\":true}\n").unwrap();
        near.set_nonblocking(true).unwrap();
        // The runtime was given no moment to see that there is something to read.
        let mut connection = Connection::new(UnixStream::from_std(near).unwrap()).unwrap();
        let crowd = Crowd::default();
        crowd.begins();
        let line = connection.next_unless(&crowd).await.unwrap();
        assert_eq!(line.as_deref(), Some(&b"{\"status\":true}\n"[..]));
        // Nobody else made room meanwhile: now it does.
        assert_eq!(connection.next_unless(&crowd).await.unwrap(), None);
        // One that said half of something does not keep others waiting for long, whether or not that was read already.
        for read in [false, true] {
            client.write_all(b"{\"sta").unwrap();
            let started = tokio::time::Instant::now();
            if read {
                let told = async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    crowd.begins();
                };
                let (line, ()) = tokio::join!(connection.next_unless(&crowd), told);
                assert_eq!(line.unwrap(), None);
            } else {
                crowd.begins();
                assert_eq!(connection.next_unless(&crowd).await.unwrap(), None);
            }
            assert!((LONGEST_REST..LONGEST_SILENCE).contains(&started.elapsed()), "{:?}", started.elapsed());
        }
        // Where nobody waits any more, nobody makes room, whatever was told before.
        crowd.begins();
        crowd.ends();
        client.write_all(b"{\"status\":true}\n").unwrap();
        let line = connection.next_unless(&crowd).await.unwrap();
        assert!(line.is_some_and(|line| line.ends_with(b"{\"status\":true}\n")));
        let silent = timeout(Duration::from_millis(100), connection.next_unless(&crowd)).await;
        assert!(silent.is_err(), "{silent:?}");
    }
}
