//! `journal show`, `verify` and `export`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::desk::*;

fn journal(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.arg("journal").args(&arguments[..1]).arg(folder).args(&arguments[1..]);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn verify_tells_sound_torn_and_damaged_apart() {
    let (folder, _) = small("cli-verify");
    let (status, out, error) = journal(&["verify"], &folder.0);
    assert_eq!((status, &*error), (Some(0), ""));
    assert!(out.contains("inputs are answered as recorded; groups: main"), "{out}");
    assert!(out.contains(" in 1 segment, "), "{out}");
    let bytes = fs::read(folder.newest()).unwrap();
    fs::write(folder.newest(), &bytes[..bytes.len() - 5]).unwrap();
    let (status, _, error) = journal(&["verify"], &folder.0);
    assert_eq!(status, Some(1));
    assert!(error.contains("did not come to its end"), "{error}");
    let mut flipped = bytes;
    flipped[400] ^= 1;
    fs::write(folder.newest(), flipped).unwrap();
    let (status, out, error) = journal(&["verify"], &folder.0);
    assert_eq!((status, &*out), (Some(2), ""));
    assert!(error.contains("00000000000000000001.jsonl, line 2: the checksum"), "{error}");
    let (status, _, error) = journal(&["verify"], &folder.0.join("nowhere"));
    assert_eq!(status, Some(2));
    assert!(error.contains("there is no journal"), "{error}");
}

#[test]
fn show_says_in_words_what_happened_without_colours_in_a_pipe() {
    let (folder, _) = small("cli-show");
    let (status, out, _) = journal(&["show"], &folder.0);
    assert_eq!(status, Some(0));
    for piece in [
        "TIME (UTC)",
        "supervisor 0.1.0 started, process ",
        "probe east failed (Refused: connection): DOWN",
        "failover: FENCE_REQUIRED FENCE_NOT_CONFIRMED east #1 for west, HOLD SWITCHING",
        "failover, epoch 1 fenced: SWITCHED ACTIVE_DOWN east -> west #2, HOLD RECONCILING",
    ] {
        assert!(out.contains(piece), "{piece:?} in\n{out}");
    }
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn a_group_that_the_journal_does_not_know_and_a_journal_that_is_not_there_are_told_apart() {
    let (folder, _) = small("cli-unknown");
    for command in ["show", "export"] {
        let (status, out, error) = journal(&[command, "--group", "nobody"], &folder.0);
        assert_eq!((status, &*out), (Some(2), ""), "{command}");
        assert!(error.ends_with(": says nothing of a group \"nobody\"\n"), "{command}: {error}");
        let (status, out, error) = journal(&[command, "--group", "nobody"], &folder.0.join("nowhere"));
        assert_eq!((status, &*out), (Some(2), ""), "{command}");
        assert!(error.ends_with(": there is no journal\n"), "{command}: {error}");
    }
    // A group that is known, and of which nothing is to be shown, is no fault.
    let (status, out, error) = journal(&["show", "--group", "main", "--since", "2100-01-01T00:00:00Z"], &folder.0);
    assert_eq!((status, out.lines().count(), &*error), (Some(0), 1, ""), "{out}");
}

#[test]
fn show_is_cut_to_what_is_new_since_when_and_how_many_rows() {
    let (folder, _) = small("cli-show-less");
    let rows = |flags: &[&str]| {
        let (status, out, error) = journal(&[&["show"], flags].concat(), &folder.0);
        assert_eq!((status, &*error), (Some(0), ""), "{flags:?}");
        out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = rows(&[]);
    // One row for each change of a path's state, in place of one for each result.
    let brief = rows(&["--no-probes"]);
    let probes = |rows: &[String]| rows.iter().filter(|row| row.contains(" probe ")).cloned().collect::<Vec<_>>();
    let mut states = BTreeMap::new();
    let state = |row: &String| {
        let (question, answer) = row.split_once(" probe ").unwrap().1.split_once(": ").unwrap();
        (question.split(' ').next().unwrap().to_owned(), answer.split(',').next().unwrap().to_owned())
    };
    let news: Vec<_> = probes(&all)
        .into_iter()
        .filter(|row| {
            let (endpoint, answer) = state(row);
            states.insert(endpoint, answer.clone()) != Some(answer) || row.contains(", ")
        })
        .collect();
    assert_eq!(probes(&brief), news);
    assert!(probes(&brief).len() < probes(&all).len(), "{all:#?}");
    let others = |rows: &[String]| rows.len() - probes(rows).len();
    assert_eq!(others(&brief), others(&all), "nothing else repeats here");

    assert_eq!(rows(&["--last", "3"]), all[all.len() - 3..]);
    assert_eq!(rows(&["--last", "1000"]), all);
    assert_eq!(rows(&["--last", "2", "--no-probes"]), brief[brief.len() - 2..]);

    assert_eq!(rows(&["--since", "1h"]), all, "back from the last record");
    assert_eq!(rows(&["--since", "2000-01-01"]), all);
    assert_eq!(rows(&["--since", "2100-01-01T00:00:00Z"]), [""; 0]);
    // A time as a row has it, and as RFC 3339.
    let wall = |row: &String| row.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ");
    let middle = wall(&all[all.len() / 2]);
    let later: Vec<_> = all.iter().filter(|row| wall(row) >= middle).cloned().collect();
    assert_eq!(rows(&["--since", &middle]), later);
    assert_eq!(rows(&["--since", &format!("{}Z", middle.replace(' ', "T")), "--last", "1"]), all[all.len() - 1..]);
    let (status, _, error) = journal(&["show", "--since", "yesterday"], &folder.0);
    assert_eq!(status, Some(2));
    assert!(error.contains("expected a time such as 2026-11-29T22:13:05Z, or a duration back"), "{error}");
}

#[test]
fn what_export_prints_is_what_replay_takes() {
    let (folder, _) = small("cli-export");
    let (status, scenario, error) = journal(&["export", "--group", "main"], &folder.0);
    assert_eq!((status, &*error), (Some(0), ""));
    let mut replay = Command::new(env!("CARGO_BIN_EXE_broker-failover"))
        .args(["replay", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    replay.stdin.take().unwrap().write_all(scenario.as_bytes()).unwrap();
    let output = replay.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"outcome\":\"SWITCHED\""));
}
