//! The clients in C and Python, and gateways of other users.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use broker_failover::report::{Report, ReportError, Reporter, Session};

use crate::gateway::reported;
use crate::rig::{Rig, Setting, is_root};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Nobody's number on most systems; all that matters is that it is not ours.
const NOBODY: u32 = 65_534;

fn setting() -> Setting {
    Setting {
        policy: "failure_threshold = 1000000\ncooldown = \"1h\"\nsilence = \"note\"".to_owned(),
        ..Setting::default()
    }
}

/// A supervisor of which only west is reported.
fn supervisor(more: &str) -> Rig {
    let (mut rig, gateway) = reported(Setting { supervisor: more.to_owned(), ..setting() }, "");
    drop(gateway);
    rig.until("it runs", |group| group["order_flow"] == "OPEN east #1");
    rig
}

fn has(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The C client, strictly compiled.
fn c_gateway(rig: &Rig) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !has(&compiler) {
        println!("SKIPPED: there is no C compiler ({compiler})");
        return None;
    }
    let program = rig.file("gateway");
    compile(&compiler, &["-std=c11".as_ref(), "-O1".as_ref(), "-o".as_ref(), program.as_os_str()]);
    Some(program)
}

/// The gateway in C by `compiler`, which warns of nothing.
fn compile(compiler: &str, more: &[&OsStr]) {
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"])
        .arg(format!("-I{ROOT}/assets"))
        .args(more)
        .arg(format!("{ROOT}/tests/report/gateway.c"))
        .output()
        .expect("a compiler");
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_header_is_cpp_too() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !has(&compiler) {
        return println!("SKIPPED: there is no C++ compiler ({compiler})");
    }
    compile(&compiler, &["-std=c++11", "-fsyntax-only", "-x", "c++"].map(AsRef::as_ref));
}

fn c_reports(program: &Path, socket: &Path, arguments: [&str; 6], user: Option<u32>) -> (bool, String) {
    let mut command = Command::new(program);
    command.arg(socket).args(arguments);
    if let Some(user) = user {
        command.uid(user);
    }
    let output = command.output().expect("the gateway");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Successes in a row and the last error of east.
fn east(rig: &Rig) -> (u64, String) {
    let one = rig.group()["endpoints"][0].clone();
    let error = one["last_probe_error"].as_str().unwrap_or_default().to_owned();
    (one["consecutive_successes"].as_u64().unwrap_or(0), error)
}

#[test]
fn a_gateway_in_c_is_heard() {
    let mut rig = supervisor("");
    let Some(program) = c_gateway(&rig) else { return };
    let socket = rig.file("control.sock");
    let (before, _) = east(&rig);
    let (all, answers) = c_reports(&program, &socket, ["main", "east", "1", "up", "sending", "10"], None);
    assert!(all && answers == "0 \n".repeat(10), "{answers}");
    rig.until("it counts", |group| group["endpoints"][0]["consecutive_successes"].as_u64() > Some(before));
    let (_, answers) = c_reports(&program, &socket, ["main", "east", "1", "down", "-", "3"], None);
    assert_eq!(answers, "0 \n".repeat(3));
    rig.until("and its session", |group| {
        group["endpoints"][0]["last_probe_error"].as_str().is_some_and(|text| text.starts_with("NoSession"))
    });
    // What is refused, and why; names that need care in JSON; what cannot be a line; who is not there.
    let (_, answers) = c_reports(&program, &socket, ["ma\"in\\\n\u{e9}", "east", "1", "up", "-", "1"], None);
    assert!(
        answers.starts_with("1 {\"error\":\"no group \\\"ma\\\\\\\"in\\\\\\\\\\\\né\\\"; there is: main"),
        "{answers}"
    );
    for length in (1..1100).step_by(7) {
        let name = "\"".repeat(length);
        let (_, answers) = c_reports(&program, &rig.file("nowhere.sock"), [&name, "e", "1", "up", "-", "1"], None);
        let expected =
            if answers.starts_with('1') { "1 a report of more than 1024 bytes" } else { "2 cannot connect: " };
        assert!(answers.starts_with(expected), "{length}: {answers}");
    }
    let (_, answers) = c_reports(&program, Path::new(&"p".repeat(200)), ["m", "e", "1", "up", "-", "1"], None);
    assert!(answers.starts_with("2 cannot connect: "), "{answers}");
    // A restart between two reports costs the one that finds the connection lost.
    let child = Command::new(&program)
        .arg(&socket)
        .args(["main", "east", "1", "up", "-", "100"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the gateway");
    let known = east(&rig).0;
    rig.until("it reports", |group| group["endpoints"][0]["consecutive_successes"].as_u64() > Some(known));
    rig.kill();
    rig.start(&[]);
    let output = child.wait_with_output().expect("its end");
    let answers = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answers.contains("2 ") && answers.ends_with("0 \n"), "{answers}");
}

#[test]
fn a_gateway_in_python_is_heard() {
    if !has("python3") {
        println!("SKIPPED: there is no python3");
        return;
    }
    let mut rig = supervisor("");
    let python = |socket: &Path, arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(format!("{ROOT}/examples/report.py")).arg(socket).args(arguments);
        let output = command.output().expect("python3");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), out, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let socket = rig.file("control.sock");
    let (before, _) = east(&rig);
    let (status, out, err) = python(&socket, &["main", "east", "1", "--sending", "--times", "10", "--every", "0.05"]);
    assert_eq!((status, &*out), (Some(0), &*"taken\n".repeat(10)), "{err}");
    rig.until("it counts", |group| group["endpoints"][0]["consecutive_successes"].as_u64() > Some(before));
    let (status, ..) = python(&socket, &["main", "east", "1", "--session", "logging-on", "--times", "2"]);
    assert_eq!(status, Some(0));
    rig.until("and its session", |group| {
        group["endpoints"][0]["last_probe_error"].as_str().is_some_and(|text| text.starts_with("NoSession: logging on"))
    });
    let (status, out, _) = python(&socket, &["main", "south", "1", "--times", "1"]);
    assert!(status == Some(1) && out.starts_with("Refused: no endpoint \"south\""), "{out}");
    let (status, out, _) = python(&rig.file("nowhere.sock"), &["main", "east", "1", "--times", "1"]);
    assert!(status == Some(1) && out.starts_with("FileNotFoundError"), "{out}");
    // A gateway in Python that sends on a path that never was its own.
    let (_, out, _) = python(&socket, &["main", "west", "1", "--sending", "--times", "1"]);
    assert!(out.starts_with("Refused: TWO_LIVE_PATHS: "), "{out}");
    rig.until("trading is halted", |group| group["order_flow"] == "HALT TWO_LIVE_PATHS");
}

#[test]
fn the_client_in_rust_tells_what_became_of_a_report() {
    let mut rig = supervisor("");
    let report = || Report { session: Session::Up, heartbeat_age_ms: Some(0), ..Report::new("main", "east", 1) };
    let mut reporter = Reporter::new(rig.file("control.sock"));
    reporter.report(&report()).unwrap();
    let long = Report { group: "x".repeat(2000), ..report() };
    assert!(matches!(reporter.report(&long), Err(ReportError::Refused(why)) if why.contains("at most 1024")));
    reporter.report(&report()).unwrap();
    rig.kill();
    assert!(matches!(reporter.report(&report()), Err(ReportError::Unreachable(_))));
    assert!(matches!(reporter.report(&report()), Err(ReportError::Unreachable(_))), "left alone, or not there");
    rig.start(&[]);
    rig.wait("it is there again", |_| reporter.report(&report()).is_ok());
}

#[test]
fn another_user_may_report_where_the_file_says_so_and_command_nothing() {
    if !is_root() {
        println!("SKIPPED: only root can be another user");
        return;
    }
    let mut rig = supervisor(&format!("report_socket = \"report.sock\"\nreport_users = [\"{NOBODY}\"]"));
    let Some(program) = c_gateway(&rig) else { return };
    let (control, reports) = (rig.file("control.sock"), rig.file("report.sock"));
    let (before, _) = east(&rig);
    let (all, answers) = c_reports(&program, &reports, ["main", "east", "1", "up", "sending", "10"], Some(NOBODY));
    assert!(all, "{answers}");
    rig.until("it counts", |group| group["endpoints"][0]["consecutive_successes"].as_u64() > Some(before));
    // Not on the control socket, and nobody else.
    let (_, answers) = c_reports(&program, &control, ["main", "east", "1", "up", "-", "1"], Some(NOBODY));
    assert!(answers.starts_with("2 cannot connect: Permission denied"), "{answers}");
    let (_, answers) = c_reports(&program, &reports, ["main", "east", "1", "up", "-", "1"], Some(NOBODY - 1));
    assert_eq!(answers, "1 {\"error\":\"user 65533 may not report here: it is not among report_users\"}\n");
    // Nothing but reports, whoever asks.
    let request = broker_failover::supervisor::control::Request::Status { status: true };
    let answer = broker_failover::supervisor::control::ask(&reports, &request).unwrap();
    let refused = "not a report: expected {\"report\":{..}}, and nothing else is taken here; nothing was changed";
    assert_eq!(serde_json::to_value(answer).unwrap(), serde_json::json!({ "error": refused }));
    let halted = |rig: &Rig| rig.group()["order_flow"].as_str().is_some_and(|flow| flow.starts_with("HALT"));
    assert!(!halted(&rig));
    // What it gives away halts trading all the same, and the evidence names it.
    let (_, answers) = c_reports(&program, &reports, ["main", "west", "1", "up", "sending", "1"], Some(NOBODY));
    assert!(answers.starts_with("1 {\"error\":\"TWO_LIVE_PATHS: a gateway (user 65534, process "), "{answers}");
    rig.wait("trading is halted", |rig| halted(rig));
    rig.terminate();
    assert!(!control.exists() && !reports.exists());
}

/// Holds as many connections as it can, says so, and says nothing on them.
const STRANGER: &str = "
import socket, sys
held = []
for _ in range(200):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(sys.argv[1])
    held.append(stream)
print(held[0].makefile().readline(), end='', flush=True)
sys.stdin.read()
";

#[test]
fn who_may_not_report_takes_no_place_of_who_may() {
    if !is_root() || !has("python3") {
        println!("SKIPPED: it takes root, who can be another user, and python3");
        return;
    }
    let mut rig = supervisor("report_socket = \"report.sock\"");
    let socket = rig.file("report.sock");
    let mut stranger = Command::new("python3");
    stranger.args(["-c", STRANGER]).arg(&socket).uid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut stranger = stranger.spawn().unwrap();
    // Those that find room to be told why are told, though they say nothing.
    let mut told = String::new();
    BufReader::new(stranger.stdout.take().unwrap()).read_line(&mut told).unwrap();
    assert_eq!(told, "{\"error\":\"user 65534 may not report here: it is not among report_users\"}\n");
    let mut reporter = Reporter::new(&socket);
    reporter.report(&Report { session: Session::Up, ..Report::new("main", "east", 1) }).unwrap();
    // It held them until now.
    assert!(stranger.try_wait().unwrap().is_none());
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
    rig.terminate();
}
