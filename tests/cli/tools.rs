//! Running the binary, and the smallest scenario.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A configuration with a primary and a backup.
pub(crate) const CONFIG: &str = concat!(
    r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"p","primary":true},"#,
    r#"{"name":"B","region":"r","url":"b"}]}}"#
);
pub(crate) const TAKEN: &str = r#"{"at":1,"probe":"P","ok":true}"#;
pub(crate) const TAKEN_ANSWER: &str =
    r#"{"line":2,"at":1.0,"probe":"P","state":"HEALTHY","consecutive_failures":0,"consecutive_successes":1}"#;
pub(crate) const REFUSED: &str = r#"{"at":2,"resume":true}"#;
pub(crate) const FAULTY: &str = r#"{"at":3,"resume":false}"#;

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn scenario(inputs: &[&str]) -> String {
    let lines: Vec<_> = [CONFIG].iter().chain(inputs).map(|line| format!("{line}\n")).collect();
    lines.concat()
}

pub(crate) fn replay(inputs: &[&str]) -> Ran {
    run(&["replay", "-"], &scenario(inputs))
}

/// What the replay of these inputs prints.
pub(crate) fn answers(inputs: &[&str]) -> String {
    replay(inputs).stdout
}

pub(crate) fn run(arguments: &[&str], input: &str) -> Ran {
    run_bytes(arguments, input.as_bytes())
}

pub(crate) fn run_bytes(arguments: &[&str], input: &[u8]) -> Ran {
    finish(binary(arguments), input)
}

pub(crate) fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.args(arguments);
    command
}

pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    // Written beside the reading, so that neither side waits for a full pipe. A program that stops reading early is no failure.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer ends");
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    Ran { status: status.code().expect("no signal"), stdout: text(stdout), stderr: text(stderr) }
}

/// A place for files, which Cargo provides for this test alone.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// A file with this content, by its path. Every test gives its files names of their own.
pub(crate) fn file(name: &str, content: &str) -> String {
    let path = folder().join(name);
    fs::write(&path, content).expect("the file can be written");
    path.to_str().expect("the path is UTF-8").to_owned()
}

pub(crate) fn assert_fault(ran: &Ran, file: &str, message: &str) {
    assert_eq!(ran.stderr, format!("broker-failover: {file}: {message}\n"));
    assert_eq!(ran.status, 2, "{message}");
}
