//! The `calibrate` command as its users meet it, and the histories that it reads.
#![cfg(feature = "cli")]

mod command;
mod histories;
mod journal;
mod memory;
mod refusals;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// 2025-10-09 08:53:20, in seconds.
const START: u64 = 1_760_000_000;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("calibrate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("there is room for files");
        Self(path)
    }

    /// A file of it.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("there is room for files");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command(history: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.arg("calibrate").arg(history).args(arguments).env_remove("CLICOLOR_FORCE");
    command.output().expect("the binary runs")
}

/// Standard output of a run that says nothing on standard error, and its exit status.
fn calibrated(history: &Path, arguments: &[&str]) -> (String, i32) {
    let Output { status, stdout, stderr } = command(history, arguments);
    assert_eq!(String::from_utf8_lossy(&stderr), "", "{history:?} {arguments:?}");
    (String::from_utf8(stdout).expect("it is UTF-8"), status.code().expect("it ended"))
}

/// The same as JSON.
fn json(history: &Path, arguments: &[&str]) -> serde_json::Value {
    let (text, status) = calibrated(history, &[arguments, &["--json"]].concat());
    assert!(status < 2, "{text}");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The one line that a run says that is refused, without the program's name and the file's.
fn refusal(history: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(history, arguments);
    let stderr = String::from_utf8(stderr).expect("it is UTF-8");
    assert_eq!((status.code(), String::from_utf8_lossy(&stdout)), (Some(2), "".into()), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let file = format!("broker-failover: {}", history.display());
    stderr.trim_end().strip_prefix(&file).unwrap_or(&stderr).to_owned()
}

/// A history of so many slots of ten seconds as rows of CSV: `.` succeeds, `x` fails, a space never came.
fn rows(endpoint: &str, results: &str) -> String {
    let row = |(slot, result): (usize, char)| {
        let at = START + 10 * slot as u64;
        (result != ' ')
            .then(|| format!("{at},{endpoint},{},{}\n", result == '.', if result == '.' { "12.5" } else { "" }))
    };
    results.chars().enumerate().filter_map(row).collect()
}

const HEADER: &str = "timestamp_s,endpoint,ok,latency_ms\n";

/// Some blips of different lengths and an outage in 20 minutes.
const SMALL: &str = "....................x..........xx.............xxx......x.............................xxxxxxxxxx....x..........xx...";

fn small() -> String {
    format!("{HEADER}{}", rows("east", SMALL))
}
