//! The readers in other languages: the C header in C and C++, and the Python example.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use broker_failover::engine::{
    Endpoint, EndpointId, Engine, Epoch, FenceStatus, OrderFlow, Policy, PolicySettings, ProbeResult, Timestamp,
};
use broker_failover::feed::{FeedWriter, Published, Terms, WhenStale};

use crate::file::Folder;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const FAILOVERS: u64 = 1_000;
pub(crate) const VALID_FOR: Duration = Duration::from_secs(60);

/// The compiled reader; `None`, after saying so aloud, where there is no C compiler.
pub(crate) fn reader() -> Option<&'static Path> {
    static READER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = READER.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("feed-reader-{}", std::process::id()));
        compile("cc", "-std=gnu11", &["-O2".as_ref(), "-o".as_ref(), program.as_os_str()]).then_some(program)
    });
    made.as_deref()
}

fn compile(compiler: &str, standard: &str, more: &[&OsStr]) -> bool {
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(Path::new(ROOT).join("assets"));
    command.args(more);
    if compiler == "c++" {
        command.args(["-x", "c++"]);
    }
    match command.arg(Path::new(ROOT).join("tests/feed/reader.c")).output() {
        Err(error) => {
            println!("SKIPPED: no {compiler}, so the feed was not read in its language: {error}");
            false
        }
        Ok(output) => {
            assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

/// What the C reader says of the feed now.
pub(crate) fn say(reader: &Path, feed: &Path) -> String {
    let output = Command::new(reader).arg("say").arg(feed).output().expect("the reader");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A C reader at full speed, until flow is open in `epoch`; it says each epoch that it comes to.
pub(crate) struct Watcher(Child, BufReader<ChildStdout>);

impl Watcher {
    /// Ends when it has read once.
    pub(crate) fn start(reader: &Path, feed: &Path, epoch: u64, valid_for: Duration) -> Self {
        let (epoch, valid_for) = (epoch.to_string(), valid_for.as_nanos().to_string());
        let mut command = Command::new(reader);
        command.arg("watch").arg(feed).args([epoch, valid_for]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the reader");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let mut watcher = Self(child, out);
        assert_eq!(watcher.line(), "reading");
        watcher
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.1.read_line(&mut line).expect("text") > 0, "it ended without a word");
        line.trim().to_owned()
    }

    /// Waits until it has come to `epoch`, having seen every one before.
    fn has_seen(&mut self, epoch: u64) {
        assert_eq!(self.line(), format!("epoch {epoch}"));
    }

    /// Waits for its end, which must be a good one; how many publications it saw, in how many epochs.
    pub(crate) fn end(mut self) -> (u64, u64) {
        let mut told = self.line();
        while told.starts_with("epoch ") {
            told = self.line();
        }
        assert!(self.0.wait().expect("a child").success(), "{told}");
        println!("the C reader: {told}");
        let numbers: Vec<u64> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[_, publications, epochs, _] = &*numbers else { panic!("{told}") };
        (publications, epochs)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fails over from one endpoint to the other; `publish` is called after each step.
fn fail_over(engine: &mut Engine, mut publish: impl FnMut(&Engine)) {
    let now = Timestamp::ZERO;
    let active = engine.active().unwrap();
    let other = EndpointId::from_index(1 - u16::try_from(active.index()).unwrap());
    let _ = engine.record_probe(now, active, ProbeResult::FAILED).unwrap();
    let _ = engine.record_probe(now, other, ProbeResult::Success).unwrap();
    let fence = engine.evaluate_failover(now, FenceStatus::Unconfirmed).unwrap().fence().unwrap();
    publish(engine);
    let _ = engine.fence_started(fence.epoch.get()).unwrap();
    let decision = engine.evaluate_failover(now, fence.confirm()).unwrap();
    publish(engine);
    let _ = engine.confirm_reconciled(now, decision.epoch.get()).unwrap();
    publish(engine);
}

#[test]
fn a_c_program_sees_nothing_torn_or_impossible_through_a_thousand_failovers_of_the_real_engine() {
    let Some(reader) = reader() else { return };
    let folder = Folder::new("failovers");
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    let terms = Terms { valid_for: VALID_FOR, when_stale: WhenStale::Hold };
    let settings = PolicySettings { failure_threshold: 1, ..Default::default() };
    let mut engine = Engine::new(Policy::new(settings).unwrap());
    let east = engine.register(Endpoint::primary("east", "r", "u")).unwrap();
    let _ = engine.register(Endpoint::backup("west", "r", "u", 1)).unwrap();
    let _ = engine.record_probe(Timestamp::ZERO, east, ProbeResult::Success).unwrap();
    writer.publish(Published::of(&engine), terms).unwrap();
    let mut watcher = Watcher::start(reader, &folder.feed(), FAILOVERS + 1, VALID_FOR);
    watcher.has_seen(1);
    for failover in 0..FAILOVERS {
        fail_over(&mut engine, |engine| {
            // Heartbeats without a pause, so that it meets many a publication in the middle.
            for _ in 0..20 {
                writer.publish(Published::of(engine), terms).unwrap();
            }
            std::thread::sleep(Duration::from_micros(100));
        });
        // On a busy machine it may not have run meanwhile: no failover passes by while it sleeps.
        watcher.has_seen(failover + 2);
    }
    assert_eq!(engine.epoch().map(Epoch::get), Some(FAILOVERS + 1));
    assert!(matches!(engine.order_flow(), OrderFlow::Open { .. }));
    let (publications, epochs) = watcher.end();
    assert_eq!(epochs, FAILOVERS + 1, "all of them");
    assert!(publications >= epochs, "{publications} publications in {epochs} epochs");
}

#[test]
fn the_header_is_cpp_too() {
    let _ = compile("c++", "-std=gnu++11", &["-fsyntax-only".as_ref()]);
}

#[test]
fn the_python_example_tells_how_it_is_used() {
    for flag in ["--help", "-h"] {
        let Ok(output) = Command::new("python3").arg(Path::new(ROOT).join("assets/feed.py")).arg(flag).output() else {
            return println!("SKIPPED: no python3");
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.starts_with("usage: feed.py FILE [READINGS]\n"), "{output:?}");
    }
}

#[test]
fn the_python_example_says_what_the_feed_says() {
    let folder = Folder::new("python");
    let python = |feed: &Path| {
        let mut command = Command::new("python3");
        command.arg(Path::new(ROOT).join("assets/feed.py")).arg(feed).arg("1").output()
    };
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    let endpoint = EndpointId::from_index(1);
    let epoch = Epoch::new(7).unwrap();
    let open = Published::new(Some((endpoint, epoch)), "foobar", OrderFlow::Open { endpoint, epoch }, true);
    writer.publish(open, Terms { valid_for: VALID_FOR, when_stale: WhenStale::Hold }).unwrap();
    let Ok(output) = python(&folder.feed()) else {
        return println!("SKIPPED: no python3, so the feed was not read in its language");
    };
    let told = |output: std::process::Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(told(output), "OPEN epoch 7 endpoint 85944171f73967e8 may submit cancel query");
    writer.stop(open, WhenStale::Hold).unwrap();
    assert_eq!(told(python(&folder.feed()).unwrap()), "OPEN epoch 7 endpoint 85944171f73967e8 may nothing, stale");
    writer.stop(open, WhenStale::Keep).unwrap();
    let kept = "OPEN epoch 7 endpoint 85944171f73967e8 may submit cancel query, stale";
    assert_eq!(told(python(&folder.feed()).unwrap()), kept);
    fs::write(folder.feed(), "too short").unwrap();
    let output = python(&folder.feed()).unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("9 bytes; expected 64"));
}
