//! A supervisor between front ends and hook scripts, in a folder of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use broker_failover::supervisor::control::{Answer, Request, ask};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::brokers::{FrontEnd, Mode};
use crate::sessions::{self, Expected, Register};

/// However busy the machine is: what takes this long will not come.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
pub(crate) const NAMES: [&str; 3] = ["east", "west", "north"];
/// Supervisors at the same time: more would only wait for each other.
const PLACES: u32 = 4;

/// The one script of all hooks: says that it starts, behaves as a file tells it, says that it ends.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 99
stage=$BROKER_FAILOVER_STAGE level=${1:-0}
echo "start $stage $level $BROKER_FAILOVER_ENDPOINT $BROKER_FAILOVER_EPOCH to=$BROKER_FAILOVER_TARGET reason=$BROKER_FAILOVER_REASON cod=$BROKER_FAILOVER_CANCEL_ON_DISCONNECT pid=$$ detail=$BROKER_FAILOVER_DETAIL" >> hooks.log
behave=ok
[ -f "behave.$stage" ] && behave=$(cat "behave.$stage")
[ -f "behave.$stage.$level" ] && behave=$(cat "behave.$stage.$level")
case $behave in
  fail) echo "cannot reach $BROKER_FAILOVER_URL"; echo "failed $stage $level $BROKER_FAILOVER_ENDPOINT $BROKER_FAILOVER_EPOCH" >> hooks.log; exit 3 ;;
  crash) kill -SEGV $$ ;;
  hang) sleep 600 & echo "child $!" >> hooks.log; wait ;;
  slow) sleep "0.$(($$ % 3))$(($$ % 7))" ;;
  silent) exit 0 ;;
  mutter) printf 'looking up orders' >&2 ;;
esac
counts='{"resting":0,"filled":0,"unknown":0}'
[ -f counts ] && counts=$(cat counts)
[ "$stage" = reconcile ] && echo "$counts"
echo "end $stage $level $BROKER_FAILOVER_ENDPOINT $BROKER_FAILOVER_EPOCH" >> hooks.log
exit 0
"#;

/// What a supervisor is configured with; the fields are parts of the file.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) policy: String,
    pub(crate) probing: String,
    pub(crate) hooks: String,
    pub(crate) supervisor: String,
    /// More keys of each endpoint.
    pub(crate) endpoint: String,
    /// `http://` or with a user and a password.
    pub(crate) scheme: String,
    pub(crate) endpoints: usize,
    pub(crate) failback: &'static str,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            policy: "failure_threshold = 2\ncooldown = \"1h\"".to_owned(),
            // A timeout leaves a busy machine time to answer.
            probing: "interval = \"100ms\"\ninterval_when_failing = \"50ms\"\ntimeout = \"1500ms\"".to_owned(),
            hooks: all_hooks(),
            supervisor: String::new(),
            endpoint: String::new(),
            scheme: "http://".to_owned(),
            endpoints: 2,
            failback: "automatic",
        }
    }
}

/// A hook of `stage` as the script.
pub(crate) fn hook(stage: &str, more: &str) -> String {
    format!("{stage} = {{ command = [\"./hook.sh\"], timeout = \"20s\"{more} }}\n")
}

pub(crate) fn all_hooks() -> String {
    let idempotent = ", idempotent = true";
    let fence = hook("fence", ", proves = \"session closed\"");
    [fence, hook("switch", ""), hook("reconcile", idempotent), hook("halt", idempotent)].concat()
}

/// A place on the machine.
struct Place;

static TAKEN: Mutex<u32> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Place {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken >= PLACES {
            taken = FREED.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}

pub(crate) struct Rig {
    pub(crate) folder: PathBuf,
    pub(crate) fronts: Vec<FrontEnd>,
    pub(crate) listen: SocketAddr,
    child: Option<Child>,
    runtime: Runtime,
    runs: u32,
    _place: Place,
    /// Of the session that trades, as the hooks' log tells of it; checked when this goes.
    trading: Register,
}

impl Rig {
    /// Front ends that are well, and everything but the supervisor.
    pub(crate) fn new(setting: &Setting) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let place = Place::take();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("broker-failover-run-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let fronts = (0..setting.endpoints)
            .map(|_| runtime.block_on(FrontEnd::start(Mode::Healthy, None)).expect("a front end"))
            .collect();
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let trading = Register::new();
        trading.expect(Expected::Any);
        let rig = Self { folder, fronts, listen, child: None, runtime, runs: 0, _place: place, trading };
        fs::write(rig.file("hook.sh"), SCRIPT).expect("a script");
        fs::set_permissions(rig.file("hook.sh"), fs::Permissions::from_mode(0o755)).expect("an executable script");
        rig.configure(setting);
        rig
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, setting: &Setting) {
        let Setting { policy, probing, hooks, supervisor, endpoint, scheme, failback, .. } = setting;
        let mut text = format!(
            "[supervisor]\nlisten = \"{}\"\nsocket = \"control.sock\"\njournal = \"journal\"\n{supervisor}\n[[group]]\n\
             name = \"main\"\n[group.policy]\n{policy}\n[group.probing]\n{probing}\n",
            self.listen
        );
        for (index, (name, front)) in NAMES.iter().zip(&self.fronts).enumerate() {
            let role = if index == 0 { "primary = true".to_owned() } else { format!("priority = {}", index * 10) };
            let address = front.address();
            let _ = write!(
                text,
                "[[group.endpoint]]\nname = \"{name}\"\nregion = \"{name}\"\nurl = \"{scheme}{address}\"\n{role}\n\
                 cancel_on_disconnect = \"session\"\n{endpoint}\n"
            );
            if !endpoint.contains("probe =") {
                text.push_str("probe = { http = { path = \"/health\", expect_body = \"ok\" } }\n");
            }
        }
        let _ = write!(text, "[group.failback]\nmode = \"{failback}\"\n[group.hooks]\n{hooks}");
        fs::write(self.file("config.toml"), text).expect("a configuration");
    }

    /// Front ends, and a supervisor that has opened flow on east.
    pub(crate) fn open(setting: &Setting) -> Self {
        let mut rig = Self::new(setting);
        rig.start(&["--first-start", "east"]);
        // Nothing is moved before everybody was heard of.
        let known = |one: &Value| one["state"] != "UNKNOWN";
        rig.until("flow is open on east, and every endpoint is known", |group| {
            group["order_flow"] == "OPEN east #1"
                && group["endpoints"].as_array().is_some_and(|all| all.iter().all(known))
        });
        rig
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// How the hook of a stage behaves from now on: ok, fail, crash, hang, slow, silent, mutter.
    pub(crate) fn behave(&self, stage: &str, how: &str) {
        // As a whole: a script may read it just now.
        let new = self.file("behave.new");
        fs::write(&new, how).and_then(|()| fs::rename(new, self.file(&format!("behave.{stage}")))).expect("a file");
    }

    pub(crate) fn set(&self, name: &str, mode: Mode) {
        let front = NAMES.iter().position(|known| *known == name).and_then(|index| self.fronts.get(index));
        self.runtime.block_on(front.expect("a front end").set(mode));
    }

    pub(crate) fn binary(arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
        command.args(arguments).stdin(Stdio::null()).env_remove("RUST_LOG");
        command
    }

    /// Starts the supervisor, and waits until it answers.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        self.spawn(arguments);
        self.wait("the supervisor answers", |rig| {
            if let Some(status) = rig.ended() {
                panic!("the supervisor ended: {status:?}\n{}", rig.tell());
            }
            rig.ask().is_some()
        });
    }

    pub(crate) fn spawn(&mut self, arguments: &[&str]) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.file("err.log")).expect("a log");
        self.spawn_with(arguments, log.into());
    }

    /// Spawns a supervisor with this standard error.
    pub(crate) fn spawn_with(&mut self, arguments: &[&str], log: Stdio) {
        assert!(self.child.is_none(), "one at a time");
        self.runs += 1;
        let out = fs::OpenOptions::new().create(true).append(true).open(self.file("out.log")).expect("a log");
        let config = self.file("config.toml");
        let mut command = Self::binary(&["run"]);
        command.arg(config).args(arguments).stdout(out).stderr(log);
        self.child = Some(command.spawn().expect("the binary"));
    }

    /// Whether the supervisor has ended, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().expect("a child"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("a supervisor").id()
    }

    /// `kill -9`. What it started goes on.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a supervisor");
        child.kill().and_then(|()| child.wait()).expect("a child");
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        self.wait("the supervisor ends", |rig| rig.ended().is_some());
        let status = self.ended().expect("an end");
        self.child = None;
        status
    }

    /// Forgets a supervisor that has ended by itself.
    pub(crate) fn kill_remains(&mut self) {
        assert!(self.ended().is_some());
        self.child = None;
    }

    pub(crate) fn folder_entries(&self, folder: &Path) -> usize {
        fs::read_dir(folder).map(Iterator::count).unwrap_or(0)
    }

    /// Starts where it must not start: exit status and standard error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Self::binary(&["run"]);
        let output = command.arg(self.file("config.toml")).args(arguments).output().expect("the binary");
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The group, if the supervisor answers.
    pub(crate) fn ask(&self) -> Option<Value> {
        match ask(&self.file("control.sock"), &Request::Status { status: true }) {
            Ok(Answer::Ok(groups)) => groups.get(0).cloned(),
            _ => None,
        }
    }

    pub(crate) fn group(&self) -> Value {
        self.ask().unwrap_or_else(|| panic!("no answer\n{}", self.tell()))
    }

    pub(crate) fn flow(&self) -> String {
        self.group()["order_flow"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until `reached`.
    pub(crate) fn until(&mut self, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        self.wait(what, |rig| {
            seen = rig.ask().unwrap_or_default();
            !seen.is_null() && reached(&seen)
        });
        seen
    }

    pub(crate) fn wait(&mut self, what: &str, mut reached: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !reached(self) {
            assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}\n{}", self.tell());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// As long as the supervisor needs for a good number of slots.
    pub(crate) fn some_slots(&mut self) {
        let requests = |rig: &Self| rig.fronts.iter().map(|front| front.counts().accepted).max().unwrap_or(0);
        let begun = requests(self);
        self.wait("some slots", |rig| requests(rig) > begun + 8);
    }

    /// A command by the binary: whether it was obeyed, and what it printed.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let (name, rest) = arguments.split_first().expect("a command");
        let config = self.file("config.toml");
        let output = Self::binary(&[name, "--config"]).arg(config).args(rest).output().expect("the binary");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if *name == "confirm-fence" && output.status.success() {
            self.fenced_by_a_person(rest);
        }
        match output.status.code() {
            Some(0) => Ok(out.trim().to_owned()),
            Some(1) => Err(err.trim().to_owned()),
            status => panic!("{arguments:?}: {status:?} {out}{err}\n{}", self.tell()),
        }
    }

    /// The hooks' log has it that the path of that epoch was fenced.
    fn fenced_by_a_person(&self, arguments: &[&str]) {
        let epoch = arguments.last().expect("an epoch");
        let path = self.hooks().iter().rev().find_map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            (words.len() > 4 && words[4] == *epoch).then(|| words[3].to_owned())
        });
        let mut log = fs::OpenOptions::new().create(true).append(true).open(self.file("hooks.log")).expect("a log");
        // Unless a hook has run in that epoch, it is the first, on the first path.
        writeln!(log, "person fenced 0 {} {epoch}", path.as_deref().unwrap_or(NAMES[0])).expect("a line");
    }

    pub(crate) fn obey(&self, arguments: &[&str]) -> String {
        self.command(arguments).unwrap_or_else(|why| panic!("{arguments:?}: {why}\n{}", self.tell()))
    }

    pub(crate) fn refuse(&self, arguments: &[&str]) -> String {
        self.command(arguments).err().unwrap_or_else(|| panic!("{arguments:?} was obeyed\n{}", self.tell()))
    }

    /// The hooks' own log.
    pub(crate) fn hooks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("hooks.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// `stage endpoint epoch` of each hook that started, in order.
    pub(crate) fn started(&self) -> Vec<String> {
        let of = |line: &String| {
            let words: Vec<_> = line.strip_prefix("start ")?.split(' ').collect();
            Some(format!("{} {} {}", words[0], words[2], words[3]))
        };
        self.hooks().iter().filter_map(of).collect()
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.hooks().iter().filter(|line| line.starts_with(start)).count()
    }

    /// Every record of the journal, in order.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let mut files: Vec<_> = fs::read_dir(self.file("journal"))
            .map(|files| files.filter_map(|file| Some(file.ok()?.path())).collect())
            .unwrap_or_default();
        files.retain(|file: &PathBuf| file.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        let texts = files.iter().map(|file| fs::read_to_string(file).unwrap_or_default());
        // The last line may be half written just now.
        texts
            .flat_map(|text| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>())
            .collect()
    }

    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        self.journal()
            .into_iter()
            .filter(|record| record["kind"] == kind)
            .map(|record| record["body"].clone())
            .collect()
    }

    /// How often a stage's hook is recorded to have succeeded: its own log is ahead of that.
    pub(crate) fn succeeded(&self, stage: &str) -> usize {
        let ok = |end: &&Value| end["stage"] == stage && end["report"]["result"] == "OK";
        self.records("hook_end").iter().filter(ok).count()
    }

    pub(crate) fn noted(&self, code: &str) -> bool {
        self.records("note").iter().any(|note| note["code"] == code)
    }

    /// Status and body of a GET of the status server.
    pub(crate) fn get(&self, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.listen).expect("the status server");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_lowercase(), body.to_owned())
    }

    /// `verify` of the journal by the binary.
    pub(crate) fn verify(&self) {
        let output = Self::binary(&["journal", "verify"]).arg(self.file("journal")).output().expect("the binary");
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.tell());
    }

    /// Everything that helps to understand a failure.
    pub(crate) fn tell(&self) -> String {
        let read = |name: &str| {
            let text = fs::read_to_string(self.file(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(60)..].join("\n")
        };
        let group = self.ask().unwrap_or_default();
        format!("--- hooks\n{}\n--- log\n{}\n--- status\n{group:#}", read("hooks.log"), read("err.log"))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Hooks that hang on purpose are ended by their ids.
        for line in self.hooks() {
            if let Some(pid) = line.split_once("pid=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()) {
                if belongs_to(pid, &self.folder) {
                    let _ =
                        Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).stderr(Stdio::null()).status();
                }
            }
        }
        if !std::thread::panicking() {
            trace_trading(&self.hooks(), &self.trading);
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The session that trades, in the register: it is there from the beginning, ends when its path is fenced, and begins when
/// flow is moved to a path.
fn trace_trading(log: &[String], register: &Register) {
    let (book, identity) = (register.book(), sessions::own("trading"));
    let (mut begun, mut open) = (false, BTreeMap::new());
    for line in log {
        let words: Vec<_> = line.split(' ').collect();
        let [what, stage, _, path, ..] = words[..] else { continue };
        let begins = !begun && matches!(stage, "fence" | "switch" | "reconcile");
        begun |= begins;
        match (what, stage) {
            ("end" | "person", "fence" | "fenced") => drop(open.remove(path)),
            ("start", "switch") => drop(open.entry(path.to_owned()).or_insert_with(|| book.open(&identity, None))),
            _ if begins => drop(open.insert(path.to_owned(), book.open(&identity, None))),
            _ => {}
        }
    }
}

#[test]
fn a_switch_before_the_path_that_is_left_was_fenced_is_seen_in_the_hooks_log() {
    let seen = |log: &[&str]| {
        let register = Register::new();
        trace_trading(&log.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), &register);
        let found = register.check();
        register.expect(Expected::Any);
        // It was shown what it must find; it is not to fail this test for it.
        std::mem::forget(register);
        found.map_err(|why| why.contains("two sessions at once"))
    };
    let opened = ["start reconcile 0 east 1 to= reason=", "end reconcile 0 east 1", "start fence 0 east 1 to=west"];
    let moved = ["start switch 0 west 2 to=west", "end switch 0 west 2", "start reconcile 0 west 2 to="];
    assert_eq!(seen(&opened), Ok(1));
    assert_eq!(seen(&[&opened[..], &["failed fence 0 east 1"], &moved[..]].concat()), Err(true));
    assert_eq!(seen(&[&opened[..], &["end fence 0 east 1"], &moved[..]].concat()), Ok(2));
    assert_eq!(seen(&[&opened[..], &["person fenced 0 east 1"], &moved[..]].concat()), Ok(2));
    assert_eq!(seen(&[&opened[..], &["start switch 0 east 2 to=east"]].concat()), Ok(1), "rearmed: the same path");
}

/// The endpoint that a record is the one result of a slot of.
pub(crate) fn heard_of(record: &Value) -> Option<&str> {
    let body = &record["body"];
    let silent = || body["text"].as_str().filter(|_| body["code"] == "NO_EVIDENCE")?.split(':').next();
    body["line"]["probe"].as_str().or_else(silent)
}

/// Whether the process works in that folder: a number may belong to another process by now.
fn belongs_to(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill");
    assert!(status.success(), "kill -{name} {pid}");
}

/// Whether a process lives (a zombie does not).
pub(crate) fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
