//! Other processes: broker front ends, haproxy, whatever else stands beside what is measured.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The one port that everything listens on; the addresses differ.
const PORT: u16 = 18_080;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 4_096;

/// Nanoseconds on a clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until `at`, to within some microseconds.
pub(crate) fn wait_until(at: u64) {
    loop {
        let left = at.saturating_sub(now());
        match left {
            0 => return,
            1..300_000 => std::hint::spin_loop(),
            _ => thread::sleep(Duration::from_nanos(left - 200_000)),
        }
    }
}

pub(crate) fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// Address `last` of this process's own part of the loopback network.
pub(crate) fn address(last: u8) -> SocketAddr {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(127, 64 | high & 63, low, last), PORT))
}

/// What this process was started as, if it was started by this benchmark.
pub(crate) fn as_child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let (role, rest) = arguments.get(1..)?.split_first()?;
    // Whoever started it measures alone: nothing may outlive it.
    let leash = || rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let result = match &**role {
        "serve" => leash().map_err(Into::into).and_then(|()| serve(rest)),
        "supervise" => leash().map_err(Into::into).and_then(|()| crate::checks::supervise(rest)),
        "schedule" => leash().map_err(Into::into).and_then(|()| crate::checks::schedule(rest)),
        "leash" => leash().map_err(Into::into).and_then(|()| Err(Command::new(&rest[0]).args(&rest[1..]).exec())),
        _ => return None,
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role} {rest:?}: {error}");
            ExitCode::FAILURE
        }
    })
}

/// This program once more, in another role. It ends when this thread does.
pub(crate) fn another(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts a program that ends when this thread does; what it says goes into `log`.
pub(crate) fn leashed(program: &str, arguments: &[&str], log: &Path) -> Child {
    let file = fs::File::create(log).expect("a log");
    let both = file.try_clone().expect("a log");
    another("leash")
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both)
        .spawn()
        .expect("a child")
}

/// As many descriptors as may be had.
pub(crate) fn raise_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A front end, or many behind one another, in a process of its own.
pub(crate) struct Server {
    name: &'static str,
    addresses: Vec<SocketAddr>,
    /// Whether each request is told; if not, they are only counted.
    told: bool,
    child: Option<(Child, ChildStdin)>,
    seen: Arc<Seen>,
}

/// What a front end was asked.
#[derive(Default)]
pub(crate) struct Seen {
    /// When each path was last asked for.
    last: Mutex<HashMap<String, u64>>,
    /// Every order, by its number.
    orders: Mutex<Vec<u64>>,
    /// Requests, if they are only counted.
    count: AtomicU64,
    counted: AtomicU64,
}

impl Server {
    pub(crate) fn start(name: &'static str, addresses: Vec<SocketAddr>, told: bool) -> Self {
        let mut server = Self { name, addresses, told, child: None, seen: Arc::default() };
        server.revive();
        server
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// A healthy process in the place of the one that is there, if one is.
    pub(crate) fn revive(&mut self) {
        self.end();
        let mut command = another("serve");
        command.arg(self.name).arg(if self.told { "tell" } else { "count" });
        command.args(self.addresses.iter().map(ToString::to_string));
        let mut child = command.spawn().expect("a front end");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        assert!(output.read_line(&mut line).is_ok() && line == "ready\n", "front end {}: {line:?}", self.name);
        let seen = Arc::clone(&self.seen);
        thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| seen.note(&line)));
        let input = child.stdin.take().expect("its input");
        self.child = Some((child, input));
    }

    fn end(&mut self) {
        if let Some((mut child, _)) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn tell(&mut self, word: &str) {
        if let Some((_, input)) = &mut self.child {
            let _ = writeln!(input, "{word}");
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some((child, _)) = &mut self.child {
            let _ = child.kill();
        }
    }

    /// SIGSTOP: the kernel goes on accepting, nobody answers.
    pub(crate) fn hang(&mut self) {
        if let Some((child, _)) = &self.child {
            let _ = rustix::process::kill_process(Pid::from_child(child), Signal::STOP);
        }
    }

    /// HTTP status 500 to everything from now on.
    pub(crate) fn fail(&mut self) {
        self.tell("fail");
    }

    /// When `path` was last asked for.
    pub(crate) fn last(&self, path: &str) -> Option<u64> {
        self.seen.last.lock().get(path).copied()
    }

    /// The orders that came since the last time.
    pub(crate) fn take_orders(&self) -> Vec<u64> {
        std::mem::take(&mut *self.seen.orders.lock())
    }

    /// How many requests were answered since it started.
    pub(crate) fn count(&mut self) -> u64 {
        let before = self.seen.counted.load(Ordering::Acquire);
        self.tell("count");
        while self.seen.counted.load(Ordering::Acquire) == before {
            pause(1);
        }
        self.seen.count.load(Ordering::Acquire)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Seen {
    fn note(&self, line: &str) {
        let Some((number, what)) = line.split_once(' ') else { return };
        let number = number.parse().unwrap_or(0);
        if what == "counted" {
            self.count.store(number, Ordering::Release);
            self.counted.fetch_add(1, Ordering::Release);
        } else if let Some(order) = what.strip_prefix("/order/") {
            self.orders.lock().extend(order.parse::<u64>());
        } else {
            self.last.lock().insert(what.to_owned(), number);
        }
    }
}

/// The front end's process: `NAME tell|count ADDRESS…`.
fn serve(arguments: &[String]) -> io::Result<()> {
    let [name, told, addresses @ ..] = arguments else { return Err(io::ErrorKind::InvalidInput.into()) };
    raise_descriptors();
    let shared = Arc::new(Shared {
        name: name.clone(),
        told: told == "tell",
        failing: AtomicBool::new(false),
        count: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut last = None;
        for address in addresses {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(address.parse().map_err(|_| io::ErrorKind::InvalidInput)?)?;
            last = Some(tokio::spawn(accept(socket.listen(BACKLOG)?, Arc::clone(&shared))));
        }
        println!("ready");
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for word in io::stdin().lines().map_while(Result::ok) {
                    match &*word {
                        "fail" => shared.failing.store(true, Ordering::Release),
                        _ => println!("{} counted", shared.count.load(Ordering::Acquire)),
                    }
                }
                std::process::exit(0);
            }
        });
        match last {
            Some(task) => task.await.map_err(io::Error::other),
            None => Ok(()),
        }
    })
}

struct Shared {
    name: String,
    told: bool,
    failing: AtomicBool,
    count: AtomicU64,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&shared)));
        }
    }
}

async fn answer(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut request = [0; 1_024];
    let mut length = 0;
    while !request[..length].ends_with(b"\r\n\r\n") {
        match stream.read(&mut request[length..]).await {
            Ok(read @ 1..) => length += read,
            // A check that only connects, or a client that went away.
            _ => return,
        }
    }
    if shared.told {
        let head = String::from_utf8_lossy(&request[..length]);
        println!("{} {}", now(), head.split(' ').nth(1).unwrap_or_default());
    }
    let status = if shared.failing.load(Ordering::Acquire) { "500 Internal Server Error" } else { "200 OK" };
    let Shared { name, .. } = &*shared;
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
    // Whoever asked may be gone.
    let _ = stream.write_all(text.as_bytes()).await;
    shared.count.fetch_add(1, Ordering::Release);
}

/// A running haproxy.
pub(crate) struct Haproxy {
    child: Child,
    socket: PathBuf,
}

impl Haproxy {
    /// Whether there is one; said aloud if not.
    pub(crate) fn is_there() -> bool {
        let found = Command::new("haproxy").arg("-v").output();
        match &found {
            Ok(output) if output.status.success() => {
                println!("beside {}\n", String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default());
            }
            _ => println!("\n!!! SKIPPED: haproxy is not there (Debian package: haproxy), so NOTHING WAS COMPARED\n"),
        }
        found.is_ok()
    }

    /// Starts one with `config`, to which the path of its socket for questions is added.
    pub(crate) fn start(folder: &Path, name: &str, threads: usize, config: &str) -> Self {
        let (file, socket) = (folder.join(format!("{name}.cfg")), folder.join(format!("{name}.sock")));
        let global = format!("global\n  nbthread {threads}\n  stats socket {} level admin\n", socket.display());
        fs::write(&file, global + config).expect("a configuration");
        let log = folder.join(format!("{name}.log"));
        let child = leashed("haproxy", &["-db", "-f", &file.to_string_lossy()], &log);
        let haproxy = Self { child, socket };
        for _ in 0..500 {
            if !haproxy.ask("show info").is_empty() {
                return haproxy;
            }
            pause(10);
        }
        panic!("haproxy does not start: {}", fs::read_to_string(log).unwrap_or_default());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn ask(&self, question: &str) -> String {
        let mut answer = String::new();
        let asked = UnixStream::connect(&self.socket).and_then(|mut stream| {
            writeln!(stream, "{question}")?;
            stream.read_to_string(&mut answer)
        });
        asked.map_or_else(|_| String::new(), |_| answer)
    }

    /// What `show stat` says of `column`, of each server in turn.
    pub(crate) fn servers(&self, column: &str) -> Vec<String> {
        let answer = self.ask("show stat");
        let mut lines = answer.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let Some(head) = lines.next() else { return Vec::new() };
        let Some(place) = head.iter().position(|name| *name == column) else { return Vec::new() };
        lines
            .filter(|line| line.get(1).is_some_and(|name| !matches!(*name, "FRONTEND" | "BACKEND")))
            .filter_map(|line| line.get(place).map(|value| (*value).to_owned()))
            .collect()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Short enough for sockets.
    pub(crate) fn for_sockets() -> Self {
        Self::at(&std::env::temp_dir())
    }

    /// On the disk that the program was built on: a temporary folder may be memory.
    pub(crate) fn on_disk() -> Self {
        Self::at(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    fn at(parent: &Path) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("broker-failover-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
