//! Pipes, help, completions and flags.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use crate::tools::{TAKEN, binary, file, run, scenario};

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let inputs: Vec<_> = (0..20_000).map(|_| r#"{"at":1,"status":true}"#).collect();
    let path = file("long.jsonl", &scenario(&inputs));
    for arguments in [vec!["replay", &*path], vec!["replay", "--format", "text", &*path]] {
        let mut child =
            binary(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut first = [0; 100];
        child.stdout.take().expect("it is piped").read_exact(&mut first).expect("there is a first line");
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        assert_eq!((status.code(), String::from_utf8_lossy(&stderr)), (Some(0), "".into()), "{arguments:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_told_by_every_command() {
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let plan = ["plan"];
    for arguments in [&plan[..], &["completions", "bash"], &["--version"], &["-V"], &["--help"], &["check", "--schema"]]
    {
        let output = binary(arguments).stdout(full()).output().expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.starts_with("broker-failover: ") && error.contains("No space left"), "{arguments:?}: {error}");
        // A reader that has seen enough is no failure.
        let (reader, writer) = std::io::pipe().expect("there is a pipe");
        drop(reader);
        let output = binary(arguments).stdout(writer).output().expect("the binary runs");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_command_that_is_not_told_which_supervisor_names_both_ways_to_tell_it() {
    for arguments in [&["status"][..], &["halt"], &["follow"], &["reload"], &["switchover", "west"]] {
        let ran = run(arguments, "");
        assert_eq!(ran.status, 2, "{arguments:?}");
        assert!(ran.stderr.contains("--config <CONFIG>|--socket <SOCKET>"), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(run(&["status", "--config", "a", "--socket", "b"], "").status, 2);
}

#[test]
fn help_tells_what_the_exit_statuses_mean() {
    let top = run(&["--help"], "");
    assert_eq!(top.status, 0);
    assert!(top.stdout.contains("Exit status:") && top.stdout.contains("replay"), "{}", top.stdout);
    let replay = run(&["replay", "--help"], "");
    let said = replay.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for status in [
        "0 every input was taken",
        "1 the engine refused",
        "2 the file is not a scenario",
        "3 --check found a difference",
    ] {
        assert!(said.contains(status), "{status:?} is not in {said}");
    }
    assert!(run(&["--version"], "").stdout.starts_with("broker-failover "));
}

#[test]
fn there_are_completions_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(&["completions", shell], "");
        assert_eq!((ran.status, &*ran.stderr), (0, ""));
        assert!(
            ["replay", "check", "plan", "worst-case", "simulate", "probe-loss"]
                .iter()
                .all(|word| ran.stdout.contains(word)),
            "{shell}"
        );
    }
    assert_eq!(run(&["completions", "abacus"], "").status, 2);
}

#[test]
fn bash_completes_commands_below_commands_and_their_flags() {
    let script = file("completions.bash", &run(&["completions", "bash"], "").stdout);
    let complete = |words: &[&str]| {
        let (current, before) = words.split_last().expect("a word");
        let asked = format!(
            "source {script}\nCOMP_WORDS=(broker-failover {} '{current}')\nCOMP_CWORD={}\n\
             _broker__failover broker-failover '{current}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
            before.join(" "),
            words.len(),
            before.last().unwrap_or(&"broker-failover"),
        );
        let output = Command::new("bash").args(["--norc", "-c", &asked]).output().expect("bash is there");
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        assert_eq!(text(output.stderr), "", "{words:?}");
        text(output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let journal = complete(&["journal", ""]);
    for command in ["show", "verify", "export"] {
        assert!(journal.iter().any(|word| word == command), "{command} in {journal:?}");
    }
    assert_eq!(complete(&["run", "--lo"]), ["--log"]);
    assert_eq!(complete(&["run", "--log", ""]), ["text", "json"]);
    assert_eq!(complete(&["journal", "show", "--no"]), ["--no-probes"]);
    assert_eq!(complete(&["confirm-fence", "--ep"]), ["--epoch"]);
    assert_eq!(complete(&["conf"]), ["confirm-fence", "confirm-reconciled"]);
}

#[test]
fn a_command_line_that_is_at_fault_ends_with_2_and_says_so() {
    let expected = file("line.out", "");
    for arguments in [
        &[][..],
        &["replay"],
        &["replya", "-"],
        &["replay", "--chekc", "-", &expected],
        &["replay", "--check", "-"],
        &["replay", "-", &expected],
        &["replay", "--format", "yaml", "-"],
        &["replay", "--check", "--format", "text", "-", &expected],
        &["replay", "-", &expected, "third"],
        &["--frobnicate"],
    ] {
        let ran = run(arguments, &scenario(&[TAKEN]));
        assert_eq!((ran.status, &*ran.stdout), (2, ""), "{arguments:?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
}
