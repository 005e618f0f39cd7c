//! The `simulate` command as its users meet it.
#![cfg(feature = "cli")]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{fs, str};

/// The output without arguments. It is meant to change only with the model.
const DEFAULT: &str = include_str!("simulation/default.out");

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.arg("simulate").args(arguments).env_remove("CLICOLOR_FORCE");
    command
}

/// Standard output of a run that succeeds and says nothing on standard error.
fn simulate(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(arguments).output().expect("the binary runs");
    assert_eq!((status.code(), String::from_utf8_lossy(&stderr)), (Some(0), "".into()), "{arguments:?}");
    String::from_utf8(stdout).expect("it is UTF-8")
}

/// The one line that a run says that is refused.
fn refusal(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(arguments).output().expect("the binary runs");
    assert_eq!((status.code(), str::from_utf8(&stdout)), (Some(2), Ok("")), "{arguments:?}");
    String::from_utf8(stderr).expect("it is UTF-8")
}

fn fresh(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulate");
    fs::create_dir_all(&folder).expect("there is room for files");
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn without_arguments_it_is_the_worked_example_byte_for_byte() {
    assert_eq!(simulate(&[]), DEFAULT);
    let mut elsewhere = command(&[]);
    elsewhere.env("TZ", "Asia/Tokyo").env("LC_ALL", "de_DE.UTF-8").env("COLUMNS", "40");
    assert_eq!(String::from_utf8(elsewhere.output().expect("the binary runs").stdout).as_deref(), Ok(DEFAULT));
    assert!(DEFAULT.lines().all(|line| line.chars().count() <= 110 && line == line.trim_end()));
}

#[test]
fn every_default_is_the_one_that_its_flag_states() {
    let flags = "--seeds 30 --seed 1 --days 1 --interval 10s --probe-loss 0% --blips 4/h --blip-mean 20s --blip-mean 60s \
                 --outage 1h --trigger 1 --trigger 3 --trigger 6 --trigger window=60s --trigger 12 --trigger window=300s \
                 --trigger window=900s";
    assert_eq!(simulate(&flags.split_whitespace().collect::<Vec<_>>()), DEFAULT);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let (one, two) = (fresh("one.svg"), fresh("two.svg"));
    let json = |seed, file: &str| simulate(&["--seeds", "3", "--seed", seed, "--json", "--svg", file, "--force"]);
    assert_eq!(json("5", &one), json("5", &two));
    let drawn = fs::read(&one).expect("it was written");
    assert_eq!(drawn, fs::read(&two).expect("it was written"));
    assert_ne!(json("5", &one), json("6", &two));
    assert_ne!(drawn, fs::read(&two).expect("it was written"));
}

#[test]
fn as_json_its_units_are_in_its_names() {
    let json: serde_json::Value = serde_json::from_str(&simulate(&["--json"])).expect("it is JSON");
    assert_eq!((&json["seeds"], &json["interval_seconds"]), (&30.into(), &10.0.into()));
    assert_eq!(json["tables"][1]["blip_mean_seconds"], 60.0);
    let row = &json["tables"][0]["triggers"][1];
    assert_eq!(row["trigger"], "3 consecutive");
    assert_eq!(row["patience_seconds"], 20.0);
    assert_eq!(row["detection_from_first_probe_seconds"]["p50"], 20.0);
    assert_eq!((&row["missed"], &row["silent_detected_as_failure"]), (&0.into(), &30.into()));
    let daily = row["false_failovers_per_day"].as_f64().expect("it is a number");
    assert!(DEFAULT.contains(&format!("\n3 consecutive    {daily:>9.2} ")), "{daily}");
    let missed = simulate(&["--json", "--seeds", "2", "--outage", "1m", "--trigger", "12", "--blips", "0/h"]);
    let missed: serde_json::Value = serde_json::from_str(&missed).expect("it is JSON");
    let row = &missed["tables"][0]["triggers"][0];
    assert_eq!((&row["missed"], &row["detection_from_fault_seconds"]["p50"]), (&2.into(), &serde_json::Value::Null));
    let losses = simulate(&["--json", "--seeds", "1", "--probe-loss", "1%", "--trigger", "3 of 5"]);
    assert!(losses.contains(r#""closed_form_per_day": null"#), "{losses}");
}

#[test]
fn a_plot_needs_no_other_file_and_is_never_written_over_one_that_exists() {
    let file = fresh("plot.svg");
    let printed = simulate(&["--svg", &file]);
    assert_eq!(printed, DEFAULT, "it prints what it prints without");
    let plot = fs::read_to_string(&file).expect("it was written");
    assert!(plot.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && plot.ends_with("</svg>\n"));
    for text in
        ["false failovers a calm day", "detection from the fault, seconds", "window 900s", "blips of 60s on average"]
    {
        assert!(plot.contains(text), "{text}");
    }
    assert!(!plot.contains("NaN") && !plot.contains("inf") && !plot.contains("href") && !plot.contains("url("));
    assert_eq!(
        refusal(&["--svg", &file]),
        format!("broker-failover: {file}: exists, and nothing was written; --force overwrites it\n")
    );
    simulate(&["--svg", &file, "--force", "--seeds", "1"]);
    assert_ne!(fs::read_to_string(&file).expect("it is there"), plot);
    let nowhere = format!("{file}/nowhere.svg");
    assert!(refusal(&["--svg", &nowhere]).starts_with(&format!("broker-failover: {nowhere}: cannot be written: ")));
}

#[test]
fn a_plot_of_nothing_at_all_is_a_plot() {
    let file = fresh("nothing.svg");
    let flags =
        ["--svg", &file, "--seeds", "1", "--blips", "0/h", "--outage", "1ns", "--trigger", "1", "--blip-mean", "1s"];
    simulate(&flags);
    let plot = fs::read_to_string(&file).expect("it was written");
    assert!(plot.contains(">missed</text>") && !plot.contains("NaN") && !plot.contains("inf"), "{plot}");
}

#[test]
fn what_cannot_be_simulated_is_refused_in_one_line() {
    let cases = [
        ("--seeds 0", "--seeds is 0; expected 1 to 100000"),
        ("--days 0", "--days is 0; expected 1 to 36500"),
        ("--interval 0s", "--interval is 0ns; expected above zero, and at most a day"),
        ("--interval 1ns", "--interval is 1ns; expected at most 1000000000 probes in the days or the outage of a seed"),
        ("--outage 0s", "--outage is 0ns; expected above zero, and at most 36500 days"),
        ("--blip-mean 0s", "--blip-mean is 0ns; expected above zero, and at most a day"),
        ("--blips 1000000/s", "--blips is 1000000/s; expected at most 1000000000 in the days of a seed"),
    ];
    for (flags, said) in cases {
        let refused = refusal(&flags.split_whitespace().collect::<Vec<_>>());
        assert_eq!(refused, format!("broker-failover: {said}\n"), "{flags}");
    }
    let faulty = [
        ("--trigger", "5 of 3", "failures is 5; expected at most of, which is 3"),
        ("--trigger", "never", "expected failures in a row such as"),
        ("--blips", "often", "expected a rate such as"),
        ("--probe-loss", "101%", "--probe-loss"),
        ("--interval", "10", "--interval"),
        ("--seed", "-1", "-1"),
        ("--force", "--json", "--svg"),
    ];
    for (flag, value, said) in faulty {
        let refused = refusal(&[flag, value]);
        assert!(refused.contains(said), "{flag} {value}: {refused}");
    }
}

#[test]
fn it_is_coloured_on_terminals_only() {
    let coloured = |flags: &[&str]| {
        let output = command(flags).env("CLICOLOR_FORCE", "1").output().expect("the binary runs");
        output.stdout.contains(&b'\x1b')
    };
    assert!(coloured(&["--seeds", "1"]), "forced");
    assert!(!coloured(&["--seeds", "1", "--json"]), "JSON has no colour, not even forced");
    assert!(!simulate(&["--seeds", "1"]).contains('\u{1b}'));
}

#[test]
fn help_states_the_units_the_defaults_and_the_exit_status() {
    let help = simulate(&["--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["Exit status: 0 simulated", "[default: 10s]", "A TRIGGER is", "\"3 of 5\"", "--probe-loss <SHARE>"] {
        assert!(help.contains(said), "{said:?} is not in {help}");
    }
}
