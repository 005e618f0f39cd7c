//! The binary as its users meet it: what it prints where, and its exit status.
#![cfg(feature = "cli")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A configuration with a primary and a backup.
const CONFIG: &str = concat!(
    r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"p","primary":true},"#,
    r#"{"name":"B","region":"r","url":"b"}]}}"#
);
const TAKEN: &str = r#"{"at":1,"probe":"P","ok":true}"#;
const TAKEN_ANSWER: &str =
    r#"{"line":2,"at":1.0,"probe":"P","state":"HEALTHY","consecutive_failures":0,"consecutive_successes":1}"#;
const REFUSED: &str = r#"{"at":2,"resume":true}"#;
const FAULTY: &str = r#"{"at":3,"resume":false}"#;

// ---- Exit status ------------------------------------------------------------------------------------------------------

#[test]
fn the_exit_status_tells_what_happened_and_the_worst_thing_wins() {
    let golden = |name: &str, inputs: &[&str]| file(name, &answers(inputs));
    let (right, wrong) = (golden("right.out", &[TAKEN]), file("wrong.out", "{\"line\":2}\n"));
    let right_and_refused = golden("refused.out", &[TAKEN, REFUSED]);
    let check = |expected: &str, inputs: &[&str]| run(&["replay", "--check", "-", expected], &scenario(inputs));

    assert_eq!(replay(&[]).status, 0, "nothing was asked");
    assert_eq!(replay(&[TAKEN]).status, 0);
    assert_eq!(replay(&[TAKEN, REFUSED]).status, 1);
    assert_eq!(replay(&[TAKEN, FAULTY]).status, 2);
    assert_eq!(replay(&[TAKEN, REFUSED, FAULTY]).status, 2, "a fault outranks a refusal");

    assert_eq!(check(&right, &[TAKEN]).status, 0);
    assert_eq!(check(&right_and_refused, &[TAKEN, REFUSED]).status, 1);
    assert_eq!(check(&wrong, &[TAKEN]).status, 3);
    assert_eq!(check(&wrong, &[TAKEN, REFUSED]).status, 3, "a difference outranks a refusal");
    assert_eq!(check(&wrong, &[TAKEN, FAULTY]).status, 2, "a fault outranks a difference");
    assert_eq!(check(&wrong, &[TAKEN, REFUSED, FAULTY]).status, 2);
}

#[test]
fn a_refusal_is_an_answer_and_the_replay_goes_on() {
    let ran = replay(&[TAKEN, REFUSED, r#"{"at":2,"resume":true}"#, r#"{"at":3,"validate":true}"#]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[1].starts_with(r#"{"line":3,"at":2.0,"resume":true,"error":{"code":"NOT_HALTED","message":""#),
        "{ran:?}"
    );
    assert!(lines[1].contains("nothing was changed"));
    assert_eq!(lines[3], r#"{"line":5,"at":3.0,"validate":true}"#);
    assert_eq!((ran.status, &*ran.stderr), (1, ""));
}

// ---- Where a scenario comes from ----------------------------------------------------------------------------------------

#[test]
fn a_file_and_standard_input_give_the_same_answers() {
    let inputs = [TAKEN, REFUSED, r#"{"at":2,"status":true}"#];
    let path = file("same.jsonl", &scenario(&inputs));
    let (from_file, from_input) = (run(&["replay", &path], ""), replay(&inputs));
    assert_eq!((from_file.status, &from_file.stdout), (from_input.status, &from_input.stdout));
    assert_eq!(from_file.stdout.lines().count(), 3);
}

#[test]
fn the_ends_of_lines_do_not_matter() {
    let inputs = [TAKEN, "", "# a comment", "   ", REFUSED];
    let text = scenario(&inputs);
    let expected = run(&["replay", "-"], &text);
    assert_eq!(expected.stdout.lines().count(), 2);
    for variant in
        [text.replace('\n', "\r\n"), text.trim_end().to_owned(), text.replace('\n', "\r\n").trim_end().to_owned()]
    {
        let ran = run(&["replay", "-"], &variant);
        assert_eq!((ran.status, ran.stdout), (1, expected.stdout.clone()), "{variant:?}");
    }
    assert!(expected.stdout.ends_with('\n') && !expected.stdout.contains('\r'));
}

#[test]
fn lines_are_read_up_to_one_mebibyte_and_no_further() {
    const LONGEST: usize = 1 << 20;
    let long = |length: usize| format!("{{\"at\":1,\"status\":true{}}}", " ".repeat(length - 22));
    for end in ["\n", "\r\n", ""] {
        let exact = run(&["replay", "-"], &format!("{CONFIG}\n{}{end}", long(LONGEST)));
        assert_eq!(exact.status, 0, "{}", exact.stderr);
        for too_long in [long(LONGEST + 1), format!("#{}", "x".repeat(LONGEST)), long(3 * LONGEST)] {
            let ran = run(&["replay", "-"], &format!("{CONFIG}\n{TAKEN}\n{too_long}{end}"));
            let expected =
                "line 3, column 1048577: found a line of more than 1 MiB; expected at most 1048576 bytes a line";
            assert_fault(&ran, "standard input", expected);
            assert_eq!(ran.stdout.lines().count(), 1);
        }
    }
}

#[test]
fn what_is_not_utf8_is_pointed_at() {
    let mark = run_bytes(&["replay", "-"], format!("\u{feff}{CONFIG}\n").as_bytes());
    assert_fault(&mark, "standard input", "line 1, column 1: found a byte order mark; expected UTF-8 without one");

    let mut latin1 = format!("{CONFIG}\n{TAKEN}\n{{\"at\":1,\"halt\":\"Ü").into_bytes();
    latin1.extend(b"\xfc\"}\n");
    let ran = run_bytes(&["replay", "-"], &latin1);
    assert_fault(&ran, "standard input", "line 3, column 18: found bytes that are not UTF-8; expected UTF-8");
    assert_eq!(ran.stdout.lines().count(), 1);

    let comment = run_bytes(&["replay", "-"], &[CONFIG.as_bytes(), b"\n# \xff\n"].concat());
    assert_fault(&comment, "standard input", "line 2, column 3: found bytes that are not UTF-8; expected UTF-8");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = folder().join("no such file.jsonl").display().to_string();
    let ran = run(&["replay", &missing], "");
    assert_eq!((ran.status, &*ran.stdout), (2, ""));
    assert!(ran.stderr.starts_with(&format!("broker-failover: {missing}: cannot be read: ")), "{}", ran.stderr);

    let directory = folder().display().to_string();
    let ran = run(&["replay", &directory], "");
    assert_eq!((ran.status, &*ran.stdout), (2, ""));
    assert!(ran.stderr.starts_with(&format!("broker-failover: {directory}: ")), "{}", ran.stderr);

    let ran = run(&["replay", "--check", "-", &missing], &scenario(&[TAKEN]));
    assert_eq!((ran.status, &*ran.stdout), (2, ""));
    assert!(ran.stderr.contains(&missing) && ran.stderr.contains("cannot be read"), "{}", ran.stderr);
}

// ---- Faults of the file ---------------------------------------------------------------------------------------------------

/// Faults of the first line. The place that the message must name is marked with `‸`.
const FAULTS_OF_THE_CONFIGURATION: &[(&str, &str, &str)] = &[
    ("‸", "the end of the file", r#"a {"config":...} line"#),
    ("# only comments\n\n‸", "the end of the file", r#"a {"config":...} line"#),
    (r#"‸{"at":1.0,"status":true}"#, r#"no key "config" in this object"#, r#"{"config":{...}} as the first line"#),
    ("‸[]", "[]", "a JSON object"),
    ("‸hello", "hello", "a JSON object"),
    (r#"{"config":‸[]}"#, r#""config":[]"#, "a JSON object"),
    (r#"{"config":‸null}"#, r#""config":null"#, "a JSON object"),
    (r#"{"config":‸{}}"#, r#"no key "endpoints" in this object"#, "one"),
    (r#"{"config":{"endpoints":‸{}}}"#, r#""endpoints":{}"#, "a JSON array"),
    (r#"{"config":{"endpoints":[]},‸"x":1}"#, r#"the unknown key "x""#, r#"only "config""#),
    (r#"{"config":{"endpoints":[],‸"polcy":{}}}"#, r#"the unknown key "polcy""#, r#"only "policy", "endpoints""#),
    (r#"{"config":{"policy":‸null,"endpoints":[]}}"#, r#""policy":null"#, "a JSON object"),
    // The policy: every bound.
    (r#"{"config":{"policy":{"failure_threshold":‸0},"endpoints":[]}}"#, r#""failure_threshold":0"#, "1 to 4294967295"),
    (
        r#"{"config":{"policy":{"failback_success_threshold":‸0},"endpoints":[]}}"#,
        r#""failback_success_threshold":0"#,
        "1 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"max_failbacks_per_window":‸0},"endpoints":[]}}"#,
        r#""max_failbacks_per_window":0"#,
        "1 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"max_health_age":‸"0s"},"endpoints":[]}}"#,
        r#""max_health_age":"0s""#,
        "1ns to 18446744073709551615ns",
    ),
    (
        r#"{"config":{"policy":{"failback_window":‸"0 d"},"endpoints":[]}}"#,
        r#""failback_window":"0 d""#,
        "1ns to 18446744073709551615ns",
    ),
    (
        r#"{"config":{"policy":{"history_limit":‸4294967296},"endpoints":[]}}"#,
        r#""history_limit":4294967296"#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸-1},"endpoints":[]}}"#,
        r#""failure_threshold":-1"#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸"3"},"endpoints":[]}}"#,
        r#""failure_threshold":"3""#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸2.5},"endpoints":[]}}"#,
        r#""failure_threshold":2.5"#,
        "an integer from 0 to 4294967295",
    ),
    (r#"{"config":{"policy":{"cooldown":‸60},"endpoints":[]}}"#, r#""cooldown":60"#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"-60s"},"endpoints":[]}}"#, r#""cooldown":"-60s""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"60"},"endpoints":[]}}"#, r#""cooldown":"60""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"1.5s"},"endpoints":[]}}"#, r#""cooldown":"1.5s""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"20000000000s"},"endpoints":[]}}"#, r#""cooldown":"20000000000s""#, DURATION),
    (r#"{"config":{"policy":{"require_fence":‸"yes"},"endpoints":[]}}"#, r#""require_fence":"yes""#, "true or false"),
    (
        r#"{"config":{"policy":{"resume_after_halt":‸"never"},"endpoints":[]}}"#,
        r#""resume_after_halt":"never""#,
        r#""reconcile" or "operator""#,
    ),
    (
        r#"{"config":{"policy":{"cooldown":"60s",‸"cooldown":"61s"},"endpoints":[]}}"#,
        r#"the key "cooldown" a second time"#,
        "each key once",
    ),
    (
        r#"{"config":{"policy":{‸"cooldwn":"60s"},"endpoints":[]}}"#,
        r#"the unknown key "cooldwn""#,
        concat!(
            r#"only "failure_threshold", "trigger", "minimum_history", "silence", "cooldown", "cooldown_max", "#,
            r#""max_health_age", "failback_success_threshold", "require_fence", "#,
            r#""max_failbacks_per_window", "failback_window", "require_reconciliation", "resume_after_halt", "history_limit""#
        ),
    ),
    // Patience.
    (
        r#"{"config":{"policy":{"trigger":‸{"window":"1s","of":3}},"endpoints":[]}}"#,
        r#""trigger":{"window":"1s","of":3}"#,
        r#""consecutive" alone, "window" alone, or "failures" with "of""#,
    ),
    (
        r#"{"config":{"policy":{"trigger":{‸"windw":"1s"}},"endpoints":[]}}"#,
        r#"the unknown key "windw""#,
        r#"only "consecutive", "failures", "of", "window""#,
    ),
    (r#"{"config":{"policy":{"trigger":{"failures":1,"of":‸65}},"endpoints":[]}}"#, r#""of":65"#, "1 to 64"),
    (
        r#"{"config":{"policy":{"trigger":{"failures":‸4,"of":3}},"endpoints":[]}}"#,
        r#""failures":4"#,
        "at most of, which is 3",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":3,"trigger":{"consecutive":‸4}},"endpoints":[]}}"#,
        r#""consecutive":4"#,
        "failure_threshold, which is 3",
    ),
    (
        r#"{"config":{"policy":{"minimum_history":‸2},"endpoints":[]}}"#,
        r#""minimum_history":2"#,
        "at least 3, which the trigger needs to fire at all",
    ),
    (r#"{"config":{"policy":{"silence":‸"loud"},"endpoints":[]}}"#, r#""silence":"loud""#, r#""note" or "failure""#),
    (
        r#"{"config":{"policy":{"cooldown":"60s","cooldown_max":‸"59s"},"endpoints":[]}}"#,
        r#""cooldown_max":"59s""#,
        "at least cooldown, which is 60s",
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","trigger":{"window":‸"0s"}}]}}"#,
        r#""window":"0s""#,
        "1ns to 18446744073709551615ns",
    ),
    // The endpoints.
    (r#"{"config":{"endpoints":[‸"P"]}}"#, r#""P""#, "a JSON object"),
    (r#"{"config":{"endpoints":[‸{"name":"P","region":"r"}]}}"#, r#"no key "url" in this object"#, "one"),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u",‸"primry":true}]}}"#,
        r#"the unknown key "primry""#,
        r#"only "name", "region", "url", "account", "primary", "priority", "trigger""#,
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","priority":‸-1}]}}"#,
        r#""priority":-1"#,
        "an integer from 0 to 4294967295",
    ),
    (r#"{"config":{"endpoints":[{"name":"P","region":‸" ","url":"u"}]}}"#, r#""region":" ""#, "text that is not blank"),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u"},{"name":‸" P ","region":"r","url":"u"}]}}"#,
        r#"a second endpoint called "P""#,
        "each name once",
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","primary":true},{"name":"B","region":"r","url":"u","primary":‸true}]}}"#,
        r#""B" as a second primary beside "P""#,
        "one primary",
    ),
    // Broken JSON.
    (r#"{"config":{"endpoints":[]}‸"#, "the end of the line", r#""}""#),
    (r#"{"config":{"endpoints":[‸"#, "the end of the line", r#""]""#),
    (r#"{"config":‸"#, "the end of the line", "a value"),
    (r#"{"config":{"endpoints":[]}}‸}"#, "'}'", "the end of the line"),
    (r#"{"config":{"endpoints":[]}} ‸# no comment here"#, "'#'", "the end of the line"),
    (r#"{‸config:{}}"#, "'c'", "a key in quotation marks"),
    (r#"{"config" ‸{}}"#, "'{'", r#"":""#),
    (r#"{"config":{"endpoints":[‸}}"#, "'}'", "a JSON value"),
];

/// Faults of the snapshot in a second line.
const FAULTS_OF_A_SNAPSHOT: &[(&str, &str, &str, &str)] = &[
    (r#""version":1"#, r#""version":‸2"#, r#""version":2"#, "1"),
    (r#""version":1,"#, "", r#"no key "version" in this object"#, "one"),
    (r#""version":1"#, r#""version":1,‸"extra":0"#, r#"the unknown key "extra""#, SNAPSHOT_KEYS),
    (r#""version":1"#, r#""version":1,‸"version":1"#, r#"the key "version" a second time"#, "each key once"),
    (r#""active":{"#, r#""active":{‸"spend":true,"#, r#"the unknown key "spend""#, SNAPSHOT_ACTIVE_KEYS),
    (r#""epoch":3,"spent""#, r#""epoch":‸0,"spent""#, "epoch 0", "1 to 17592186044415"),
    (r#""epoch":3,"spent""#, r#""epoch":‸-3,"spent""#, "integer -3", "an integer from 0 to 18446744073709551615"),
    (r#""spent":false"#, r#""spent":‸"no""#, r#"string "no""#, "a boolean"),
    (r#""active":{"endpoint":"B""#, r#""active":‸{"endpoint":"X""#, r#""active": "X""#, "the name of one of endpoints"),
    (
        r#""order_flow":"OPEN""#,
        r#""order_flow":‸"CLOSED""#,
        r#"unknown variant "CLOSED""#,
        r#"one of "OPEN", "STARTING", "SWITCHING", "RECONCILING", "NO_TARGET_AVAILABLE", "HALTED""#,
    ),
    (
        r#""order_flow":"OPEN""#,
        r#""order_flow":‸{"HALTED":{"code":" ","text":""}}"#,
        r#""order_flow": HALTED with a blank or reserved code"#,
        "a code of the caller's",
    ),
    (r#""kind":"FAILOVER""#, r#""kind":‸"FALLOVER""#, r#"unknown variant "FALLOVER""#, SWITCH_KINDS),
    (
        r#""history":[{"kind":"FAILOVER","from":"P""#,
        r#""history":‸[{"kind":"FAILOVER","from":"Q""#,
        r#""history": "Q""#,
        "the names of endpoints",
    ),
    (r#""failback_ages":[2,1]"#, r#""failback_ages":‸[1,2]"#, r#""failback_ages": [1, 2]"#, "the oldest first"),
    (r#""history_dropped":0"#, r#""history_dropped":‸null"#, "null", "an integer from 0 to 18446744073709551615"),
    (r#"{"restore":"#, r#"{"restore":1,‸"restore":"#, r#"the key "restore" a second time"#, "each key once"),
];

const SNAPSHOT: &str = concat!(
    r#"{"restore":{"version":1,"endpoints":[{"endpoint":{"name":"P","region":"r","url":"u","primary":true,"priority":0},"#,
    r#""maintenance":false},{"endpoint":{"name":"B","region":"r","url":"u","primary":false,"priority":10},"maintenance":false}],"#,
    r#""active":{"endpoint":"B","epoch":3,"spent":false,"operator_placed":false},"order_flow":"OPEN","#,
    r#""history":[{"kind":"FAILOVER","from":"P","to":"B","from_state":"DOWN","epoch":3,"applied":true}],"#,
    r#""history_dropped":0,"last_switch_age":5,"failback_ages":[2,1]}}"#
);
const SNAPSHOT_KEYS: &str = concat!(
    r#"one of "version", "endpoints", "active", "order_flow", "history", "history_dropped", "last_switch_age", "#,
    r#""failback_ages""#
);
const SNAPSHOT_ACTIVE_KEYS: &str = r#"one of "endpoint", "epoch", "spent", "operator_placed""#;
const SWITCH_KINDS: &str = r#"one of "FAILOVER", "FAILBACK", "SWITCHOVER", "REARM""#;
const DURATION: &str =
    r#"a duration such as "250ms", "60s" or "1h 30m" (integers with ns, us, ms, s, m, h, d; 584 years at most)"#;
const SECONDS: &str = "seconds as a plain decimal, at most 9 fraction digits, from 0 to 18446744073.709551615";
const SIGNED_SECONDS: &str = "seconds as a plain decimal, at most 9 fraction digits, with an optional minus";
const INPUTS: &str = "one of probe, due, tick, evaluate, assess, fence_started, switch_failed, rearm, reconciled, status, \
                      wall_step, restart, register, update, validate, switchover, maintenance, bar, halt, resume";
const EPOCH: &str = "an integer from 0 to 18446744073709551615";
const HALT_CODE: &str = "a code that is not blank and not NO_TARGET_AVAILABLE";

/// Faults of an input line.
const FAULTS_OF_AN_INPUT: &[(&str, &str, &str)] = &[
    // Time.
    (r#"‸{"probe":"P","ok":true}"#, r#"no key "at" in this object"#, "one"),
    (r#"{"at":‸-1,"status":true}"#, r#""at":-1"#, SECONDS),
    (r#"{"at":‸1e3,"status":true}"#, r#""at":1e3"#, SECONDS),
    (r#"{"at":‸"1","status":true}"#, r#""at":"1""#, SECONDS),
    (r#"{"at":‸null,"status":true}"#, r#""at":null"#, SECONDS),
    (r#"{"at":‸0.0000000001,"status":true}"#, r#""at":0.0000000001"#, SECONDS),
    (r#"{"at":‸18446744073.709551616,"status":true}"#, r#""at":18446744073.709551616"#, SECONDS),
    (
        "{\"at\":5,\"status\":true}\n{\"halt\":\"at\",\"at\":‸4.999999999}",
        r#""at":4.999999999"#,
        "5.0 or later, the time of the line before",
    ),
    (
        "{\"at\":5,\"restart\":true}\n{\"at\":‸0,\"status\":true}",
        r#""at":0"#,
        "5.0 or later, the time of the line before",
    ),
    // Which input.
    (r#"‸{"at":1.0}"#, "no input in this object", INPUTS),
    (r#"{"at":1.0,‸"prob":"P","ok":true}"#, r#"the unknown key "prob""#, INPUTS),
    (r#"{"at":1,"probe":"P","ok":true,‸"evaluate":"failover"}"#, r#""evaluate" beside "probe""#, "one input a line"),
    (r#"{"at":1,"evaluate":"failover",‸"assess":"failover"}"#, r#""assess" beside "evaluate""#, "one input a line"),
    (r#"{"at":1,"status":true,‸"resume":true}"#, r#""resume" beside "status""#, "one input a line"),
    // due, tick
    (r#"‸{"at":1,"due":"P"}"#, r#"no key "within" in this object"#, "one"),
    (r#"{"at":1,"due":"P","within":‸"0s"}"#, r#""within":"0s""#, "a duration above zero"),
    (r#"{"at":1,"due":"P","within":‸2}"#, r#""within":2"#, DURATION),
    (r#"{"at":1,"tick":‸1}"#, r#""tick":1"#, "true"),
    // Keys.
    (r#"{"at":1.0,‸"at":2.0,"status":true}"#, r#"the key "at" a second time"#, "each key once"),
    (r#"{"at":1.0,"status":true,‸"\u0061t":2.0}"#, r#"the key "at" a second time"#, "each key once"),
    (
        r#"{"at":1,"probe":"P","ok":false,‸"eror":"x"}"#,
        r#"the unknown key "eror""#,
        r#"only "at", "probe", "error", "panic", "ok""#,
    ),
    (r#"{"at":1,"status":true,‸"ok":true}"#, r#"the unknown key "ok""#, r#"only "at", "status""#),
    (r#"{"at":1,‸"ha\ud800lt":"x"}"#, r#""ha\ud800lt""#, "a key of Unicode characters"),
    (r#"{‸"config":{"endpoints":[]}}"#, r#"the key "config""#, "the configuration as the first line only"),
    ("{\"at\":1,\"status\":true}\n{‸\"restore\":{}}", r#"the key "restore""#, "it right after the configuration only"),
    (r#"{‸"restore":{}}"#, r#""restore" after configured endpoints"#, r#""endpoints":[] in the configuration"#),
    // probe
    (r#"‸{"at":1,"probe":"P"}"#, r#"no key "ok" in this object"#, "one"),
    (r#"{"at":1,"probe":‸null,"ok":true}"#, r#""probe":null"#, "a string"),
    (r#"{"at":1,"probe":"P","ok":‸null}"#, r#""ok":null"#, "true or false"),
    (r#"{"at":1,"probe":"P","ok":‸1}"#, r#""ok":1"#, "true or false"),
    (
        r#"{"at":1,"probe":"P","ok":true,‸"error":"x"}"#,
        r#""error" beside "ok":true"#,
        r#""error" only beside "ok":false"#,
    ),
    (r#"{"at":1,"probe":"P","ok":false,"error":‸null}"#, r#""error":null"#, "a string"),
    (
        r#"{"at":1,"probe":"P",‸"ok":false,"panic":"x"}"#,
        r#""panic" beside "ok" or "error""#,
        r#""panic" in their place"#,
    ),
    (
        r#"{"at":1,"probe":"P","panic":"x",‸"error":"y"}"#,
        r#""panic" beside "ok" or "error""#,
        r#""panic" in their place"#,
    ),
    (r#"{"at":1,"probe":"P","panic":‸true}"#, r#""panic":true"#, "a string"),
    // evaluate, assess, switchover
    (r#"{"at":1,"evaluate":‸"switchover"}"#, r#""evaluate":"switchover""#, r#""failover" or "failback""#),
    (r#"{"at":1,"evaluate":‸null}"#, r#""evaluate":null"#, r#""failover" or "failback""#),
    (r#"{"at":1,"assess":‸"nothing"}"#, r#""assess":"nothing""#, r#""failover", "failback" or "switchover""#),
    (r#"‸{"at":1,"assess":"switchover"}"#, r#"no key "target" in this object"#, "one"),
    (
        r#"{"at":1,"assess":"failover",‸"target":"B"}"#,
        r#"the unknown key "target""#,
        r#"only "at", "assess", "fence_confirmed", "fence_epoch""#,
    ),
    (r#"{"at":1,"switchover":‸1}"#, r#""switchover":1"#, "a string"),
    (
        r#"{"at":1,"evaluate":"failover",‸"fence_epoch":1,"fence_confirmed":true}"#,
        r#""fence_epoch" beside "fence_confirmed""#,
        "at most one of the two",
    ),
    (r#"{"at":1,"evaluate":"failback","fence_confirmed":‸1}"#, r#""fence_confirmed":1"#, "true or false"),
    (r#"{"at":1,"switchover":"B","fence_epoch":‸-1}"#, r#""fence_epoch":-1"#, EPOCH),
    (
        r#"{"at":1,"evaluate":"failover","fence_epoch":‸18446744073709551616}"#,
        r#""fence_epoch":18446744073709551616"#,
        EPOCH,
    ),
    (r#"{"at":1,"rearm":true,‸"fence_epoch":1}"#, r#"the unknown key "fence_epoch""#, r#"only "at", "rearm""#),
    // Reports, flags, restart, wall_step
    (r#"{"at":1,"fence_started":‸1.0}"#, r#""fence_started":1.0"#, EPOCH),
    (r#"{"at":1,"switch_failed":‸"1"}"#, r#""switch_failed":"1""#, EPOCH),
    (r#"{"at":1,"reconciled":‸true}"#, r#""reconciled":true"#, EPOCH),
    (r#"{"at":1,"rearm":‸false}"#, r#""rearm":false"#, "true"),
    (r#"{"at":1,"status":‸1}"#, r#""status":1"#, "true"),
    (r#"{"at":1,"resume":‸"true"}"#, r#""resume":"true""#, "true"),
    (r#"{"at":1,"validate":‸null}"#, r#""validate":null"#, "true"),
    (r#"{"at":1,"restart":‸false}"#, r#""restart":false"#, r#"true or "monitor""#),
    (r#"{"at":1,"restart":‸"gateway"}"#, r#""restart":"gateway""#, r#"true or "monitor""#),
    (r#"{"at":1,"wall_step":‸"1"}"#, r#""wall_step":"1""#, SIGNED_SECONDS),
    (r#"{"at":1,"wall_step":‸1e3}"#, r#""wall_step":1e3"#, SIGNED_SECONDS),
    // register, update, maintenance
    (r#"{"at":1,"register":‸"D"}"#, r#""register":"D""#, "a JSON object"),
    (r#"{"at":1,"register":‸{"name":"D","region":"r"}}"#, r#"no key "url" in this object"#, "one"),
    (
        r#"{"at":1,"register":{"name":"D","region":"r","url":"u",‸"maintenance":true}}"#,
        r#"the unknown key "maintenance""#,
        r#"only "name", "region", "url", "account", "primary", "priority", "trigger""#,
    ),
    (r#"{"at":1,"update":‸{"priority":1}}"#, r#"no key "name" in this object"#, "one"),
    (r#"{"at":1,"update":{"name":"B","priority":‸null}}"#, r#""priority":null"#, "an integer from 0 to 4294967295"),
    (r#"{"at":1,"update":{"name":"B","url":"u",‸"url":"v"}}"#, r#"the key "url" a second time"#, "each key once"),
    (r#"‸{"at":1,"maintenance":"B"}"#, r#"no key "on" in this object"#, "one"),
    (r#"{"at":1,"maintenance":"B","on":‸"yes"}"#, r#""on":"yes""#, "true or false"),
    // halt
    (r#"{"at":1,"halt":‸true}"#, r#""halt":true"#, r#"a reason in words, or {"code":...,"text":...}"#),
    (r#"{"at":1,"halt":‸{"code":"X"}}"#, r#"no key "text" in this object"#, "one"),
    (r#"{"at":1,"halt":{"code":"X","text":"x",‸"who":"me"}}"#, r#"the unknown key "who""#, r#"only "code", "text""#),
    (r#"{"at":1,"halt":{"code":‸"NO_TARGET_AVAILABLE","text":"x"}}"#, r#""code":"NO_TARGET_AVAILABLE""#, HALT_CODE),
    (r#"{"at":1,"halt":{"text":"x","code":‸" "}}"#, r#""code":" ""#, HALT_CODE),
    // Broken JSON.
    ("‸nonsense", "nonsense", "a JSON object"),
    ("‸ # a comment starts in the first column", " # a comment starts in the first column", "a JSON object"),
    (r#"‸[1]"#, "[1]", "a JSON object"),
    (r#"{"at":1,"status":true‸"#, "the end of the line", r#""}""#),
    (r#"{"at":1,"status":true}‸}"#, "'}'", "the end of the line"),
    (r#"{"at":1,"status":true}‸{"at":1,"status":true}"#, "'{'", "the end of the line"),
    (r#"{"at":1 ‸"status":true}"#, r#"'"'"#, r#""," or "}""#),
    (r#"{"at":1,‸,"status":true}"#, "','", "a key in quotation marks"),
    (r#"{"at":1,"status":true,‸}"#, "'}'", "another entry after the comma"),
    (r#"{"at":1,"status":‸}"#, "'}'", "a JSON value"),
    (r#"{"at":1,"status":tru‸}"#, "'}'", "a JSON value"),
    (r#"{"at":0‸1,"status":true}"#, "'1'", "a JSON number"),
    ("{\"at\":1,\"halt\":\"a tab: ‸\t\"}", r"'\t'", r"control characters as escapes, such as \t"),
    (r#"{"at":1,"halt":"\‸x"}"#, "'x'", r"an escape of JSON, such as \n or \u00e9"),
    (r#"{"at":1,"halt":‸"\ud800"}"#, r#""halt":"\ud800""#, "a string of Unicode characters"),
    (r#"{"at":1,"halt":"unclosed}‸"#, "the end of the line", "the closing quotation mark"),
    // Columns count characters, not bytes.
    (r#"{"at":1,"probe":"Zürich 日本","ok":‸1}"#, r#""ok":1"#, "true or false"),
];

#[test]
fn a_fault_of_the_configuration_is_named_with_its_place() {
    for (marked, found, expected) in FAULTS_OF_THE_CONFIGURATION {
        let ran = faulty(marked, found, expected);
        assert_eq!(ran.stdout, "", "{marked}");
    }
}

#[test]
fn a_fault_of_a_snapshot_is_named_with_its_place() {
    let whole = format!("{{\"config\":{{\"endpoints\":[]}}}}\n{SNAPSHOT}\n");
    assert_eq!(run(&["replay", "-"], &whole).status, 0);
    for (part, replacement, found, expected) in FAULTS_OF_A_SNAPSHOT {
        assert!(SNAPSHOT.contains(part), "{part}");
        let mut marked = whole.replacen(part, replacement, 1);
        if !marked.contains('‸') {
            // A missing key is missed at the end of its object.
            marked = marked.replace("}}\n", "‸}}\n").replacen("‸}}", "}}", 1);
        }
        faulty(&marked, found, expected);
    }
}

#[test]
fn a_fault_of_an_input_is_named_with_its_place_and_nothing_is_evaluated_from_there_on() {
    for (marked, found, expected) in FAULTS_OF_AN_INPUT {
        let rest = r#"{"at":9,"halt":"never reached"}"#;
        let ran = faulty(&format!("{CONFIG}\n{marked}\n{rest}\n"), found, expected);
        // Every line of the table but its last is taken.
        assert_eq!(ran.stdout.lines().count(), marked.lines().count() - 1, "{marked}");
        assert!(!ran.stdout.contains("never reached"), "{marked}");
    }
}

#[test]
fn a_misplaced_snapshot_and_the_key_beside_one_are_faults() {
    let empty = r#"{"config":{"endpoints":[]}}"#;
    faulty(&format!("{empty}\n{{\"restore\":{{}},‸\"at\":1}}"), r#"the unknown key "at""#, r#"only "restore""#);
    faulty(&format!("{empty}\n{{\"restore\":‸1}}"), r#""restore":1"#, "a JSON object");
    faulty(
        &format!("{empty}\n{SNAPSHOT}\n{}", SNAPSHOT.replacen('{', "{‸", 1)),
        r#"the key "restore""#,
        "it right after the configuration only",
    );
}

#[test]
fn the_lines_before_a_fault_are_printed() {
    for format in ["json", "text"] {
        let ran = run(&["replay", "--format", format, "-"], &scenario(&[TAKEN, REFUSED, FAULTY, TAKEN]));
        assert_eq!(ran.status, 2);
        assert!(ran.stdout.contains("HEALTHY") && ran.stdout.contains("NOT_HALTED"), "{}", ran.stdout);
        let head = usize::from(format == "text");
        assert_eq!(ran.stdout.lines().count(), 2 + head, "and no end: {}", ran.stdout);
    }
}

/// Replays the text without its mark, and wants a fault with exactly this message at the mark.
fn faulty(marked: &str, found: &str, expected: &str) -> Ran {
    let (before, after) = marked.split_once('‸').unwrap_or_else(|| panic!("no mark in {marked}"));
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let ran = run(&["replay", "-"], &format!("{before}{after}"));
    assert_fault(&ran, "standard input", &format!("line {line}, column {column}: found {found}; expected {expected}"));
    ran
}

fn assert_fault(ran: &Ran, file: &str, message: &str) {
    assert_eq!(ran.stderr, format!("broker-failover: {file}: {message}\n"));
    assert_eq!(ran.status, 2, "{message}");
}

#[test]
fn a_fault_names_the_file() {
    let path = file("faulty.jsonl", &scenario(&[TAKEN, FAULTY]));
    let ran = run(&["replay", &path], "");
    assert_fault(&ran, &path, "line 3, column 18: found \"resume\":false; expected true");
}

// ---- Comparison with a golden output ------------------------------------------------------------------------------------

#[test]
fn a_check_prints_nothing_when_all_is_as_expected() {
    let expected = file("equal.out", &answers(&[TAKEN, REFUSED]));
    let ran = run(&["replay", "--check", "-", &expected], &scenario(&[TAKEN, REFUSED]));
    assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (1, "", ""));
}

#[test]
fn a_check_names_the_first_line_that_differs() {
    let inputs = [TAKEN, REFUSED, r#"{"at":3,"status":true}"#, r#"{"at":4,"evaluate":"failover"}"#];
    let golden = answers(&inputs);
    let check = |name: &str, expected: &str| {
        let expected = file(name, expected);
        let ran = run(&["replay", "--check", "-", &expected], &scenario(&inputs));
        assert_eq!(ran.stdout, "", "{name}");
        (ran.status, ran.stderr.replace(&expected, "EXPECTED"))
    };
    let differs = |line: usize| format!("broker-failover: EXPECTED: line {line} of the expected output differs\n");

    let (status, said) =
        check("two.out", &golden.replace("NOT_HALTED", "NOT_REARMABLE").replace("NO_ACTION", "SWITCHED"));
    assert_eq!(status, 3);
    assert!(said.starts_with(&differs(2)), "{said}");
    assert!(said.contains("expected: {\"line\":3") && said.contains("NOT_REARMABLE"), "{said}");
    assert!(said.contains("found:    {\"line\":3") && said.contains("NOT_HALTED"), "{said}");

    // The words for people may change; nothing else may, the order of keys included.
    let reworded =
        golden.replace("the active path answers", "all is well").replace("there is no halt", "there never was a halt");
    assert_ne!(reworded, golden);
    assert_eq!(check("words.out", &reworded), (1, String::new()));
    let (status, said) = check("order.out", &golden.replace(r#""line":2,"at":1.0"#, r#""at":1.0,"line":2"#));
    assert!(status == 3 && said.starts_with(&differs(1)), "{said}");
    let (status, said) = check("number.out", &golden.replace(r#""epoch":1"#, r#""epoch":1.0"#));
    assert!(status == 3 && said.starts_with(&differs(3)), "{said}");

    // A line too few, and one too many.
    let (last, short) =
        (golden.lines().last().unwrap_or_default(), golden.lines().take(3).collect::<Vec<_>>().join("\n"));
    let (status, said) = check("missing.out", &short);
    assert!(status == 3 && said.starts_with(&differs(4)) && said.contains("expected: nothing more"), "{said}");
    let (status, said) = check("surplus.out", &format!("{golden}{last}\n"));
    assert!(status == 3 && said.starts_with(&differs(5)) && said.contains("found:    nothing more"), "{said}");
    let (status, said) = check("empty.out", "");
    assert!(status == 3 && said.starts_with(&differs(1)), "{said}");

    // Ends of lines, and blank lines at the end, are no difference.
    assert_eq!(check("crlf.out", &golden.replace('\n', "\r\n")), (1, String::new()));
    assert_eq!(check("blank.out", &format!("{golden}\n\n")), (1, String::new()));
}

#[test]
fn a_check_of_a_file_that_is_no_scenario_names_the_fault() {
    let expected = file("fault.out", "{\"line\":9}\n");
    let ran = run(&["replay", "--check", "-", &expected], &scenario(&[TAKEN, FAULTY]));
    assert_fault(&ran, "standard input", "line 3, column 18: found \"resume\":false; expected true");
}

// ---- The table for people -------------------------------------------------------------------------------------------------

const TOLD: &[&str] = &[
    TAKEN,
    r#"{"at":1,"probe":"B","ok":true}"#,
    r#"{"at":2.5,"probe":"P","ok":false,"error":"ConnectionReset: peer"}"#,
    r#"{"at":3,"probe":"P","ok":false}"#,
    r#"{"at":3.000000001,"probe":"P","panic":"\u001b[31mred\nnext line"}"#,
    r#"{"at":4,"evaluate":"failover"}"#,
    r#"{"at":4,"fence_started":1}"#,
    r#"{"at":5,"evaluate":"failover","fence_epoch":1}"#,
    r#"{"at":6,"reconciled":1}"#,
    r#"{"at":6,"reconciled":2}"#,
    r#"{"at":7,"probe":"P","ok":true}"#,
    r#"{"at":3607,"evaluate":"failback","fence_epoch":2}"#,
    r#"{"at":3608,"probe":"P","ok":true}"#,
    r#"{"at":3608,"evaluate":"failback"}"#,
    r#"{"at":3609,"halt":"the desk asked"}"#,
    r#"{"at":3609,"status":true}"#,
];

const TABLE: &str = "\
\x20LINE         TIME  INPUT                                ANSWER                      ORDER FLOW               WHY
    2 00:00:01.000  probe P: ok                          HEALTHY                     OPEN P #1                was UNKNOWN
    3 00:00:01.000  probe B: ok                          HEALTHY                     OPEN P #1                was UNKNOWN
    4 00:00:02.500  probe P: ConnectionReset: peer       DEGRADED                    OPEN P #1                was HEALTHY
    5 00:00:03.000  probe P: failed                      DEGRADED                    OPEN P #1
    6 00:00:03.000000001  probe P: panic: \\u{1b}[31mred\\nnext line DOWN                        OPEN P #1                was DEGRADED
    7 00:00:04.000  evaluate failover                    FENCE_REQUIRED              HOLD SWITCHING           fence P epoch 1, then B: the active path may still submit orders: fence it, then ask again
    8 00:00:04.000  fence started, epoch 1               taken                       HOLD SWITCHING
    9 00:00:05.000  evaluate failover (fenced epoch 1)   SWITCHED                    HOLD RECONCILING         FAILOVER P -> B, epoch 2: the active path is DOWN
   10 00:00:06.000  reconciled, epoch 1                  refused STALE_RECONCILE     HOLD RECONCILING         epoch 1 was reconciled, the present epoch is 2; nothing was changed
   11 00:00:06.000  reconciled, epoch 2                  taken                       OPEN B #2
   12 00:00:07.000  probe P: ok                          HEALTHY                     OPEN B #2                was DOWN
   13 01:00:07.000  evaluate failback (fenced epoch 2)   NO_ACTION                   OPEN B #2                the last probe of the primary is too old [STALE_ACTIVE] [FENCE_UNUSED]
   14 01:00:08.000  probe P: ok                          HEALTHY                     OPEN B #2
   15 01:00:08.000  evaluate failback                    NOT_STABLE_YET              OPEN B #2                the primary has not succeeded often enough in a row [STALE_ACTIVE]
   16 01:00:09.000  halt OPERATOR: the desk asked        taken                       HALT OPERATOR
   17 01:00:09.000  status                               status                      HALT OPERATOR            active B, epoch 2; targets: P
16 inputs: 15 taken, 1 refused
";

#[test]
fn the_table_reads_as_it_did() {
    let ran = run(&["replay", "--format", "text", "-"], &scenario(TOLD));
    assert_eq!(ran.stdout, TABLE);
    assert_eq!((ran.status, &*ran.stderr), (1, ""));
}

#[test]
fn colour_is_for_terminals_and_for_those_who_force_it() {
    let coloured = |variables: &[(&str, &str)]| {
        let mut command = binary(&["replay", "--format", "text", "-"]);
        command
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR")
            .env_remove("CLICOLOR_FORCE")
            .envs(variables.iter().copied());
        let ran = finish(command, scenario(TOLD).as_bytes());
        assert_eq!(ran.status, 1);
        ran.stdout.contains('\u{1b}')
    };
    assert!(!coloured(&[]), "piped");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("NO_COLOR", "1")]));
    let json = finish(
        {
            let mut command = binary(&["replay", "-"]);
            command.env("CLICOLOR_FORCE", "1");
            command
        },
        scenario(TOLD).as_bytes(),
    );
    assert!(!json.stdout.contains('\u{1b}'), "JSON has no colour, not even forced");
}

// ---- Plans ------------------------------------------------------------------------------------------------------------------

const PLAN: &str = "\
Recovery by trigger and tier; RTO 15m

TRIGGER          DETECTION     WORST FALSE/DAY        HOT            WARM            COLD
1 failure               0s       10s     75.55       180s ok         320s ok         920s over
3 consecutive          20s       30s     27.79       200s ok         340s ok         940s over
6 consecutive          50s       60s      6.20       230s ok         370s ok         970s over
window 60s             60s       70s      3.76       240s ok         380s ok         980s over
12 consecutive        110s      120s      0.31       290s ok         430s ok       1,030s over
window 300s           300s      310s      0.00       480s ok         620s ok       1,220s over
window 900s           900s      910s      0.00     1,080s over     1,220s over     1,820s over
detection that the RTO leaves                        720s            580s            none

hot  = detection + promotion 60s + shift 120s
warm = detection + promotion 60s + state load 140s + shift 120s
cold = detection + promotion 60s + capacity 600s + state load 140s + shift 120s
DETECTION counts from the first failed probe. WORST adds one interval (10s) before it, and the timeout
(0s) after the last, for a path that hangs. The tiers are judged by DETECTION.
FALSE/DAY, false failovers a day, is a closed form for blips that come 4 an hour, 20s long on average.
That is an assumption: measure yours.
";

const PLAN_EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/plan.example.toml");

const PLAN_OF_THE_EXAMPLE: &str = "\
Recovery by trigger and tier; RTO 12m

TRIGGER          DETECTION     WORST FALSE/DAY        HOT            WARM            COLD
3 consecutive          20s       35s     27.79       211s ok         211s ok         261s ok
6 consecutive          50s       65s      6.20       241s ok         241s ok         291s ok
12 consecutive        110s      125s      0.31       301s ok         301s ok         351s ok
window 60s             60s       75s      3.76       251s ok         251s ok         301s ok
detection that the RTO leaves                        544s            544s            494s

Error budget that one recovery uses: 99.99% of a 30-day month leaves 4m 19.2s, 40% of the flow is hit

TRIGGER                                               HOT            WARM            COLD
3 consecutive                                       32.6%           32.6%           40.3%
6 consecutive                                       37.2%           37.2%           44.9%
12 consecutive                                      46.5%           46.5%           54.2%
window 60s                                          38.7%           38.7%           46.5%

Options in USD a year; an hour of downtime costs 22,000, outages: 1 in 3 years

OPTION                                     RTO        RPO      RUNNING     DOWNTIME     ITS COST       IN ALL  VERDICT
warm standby behind DNS                    47m        30s            0      15m 40s        5,744        5,744  misses the RTO by 35m
warm standby behind a load balancer         4m        30s       37,200       1m 20s          489       37,689  chosen
active-active                              30s         0s      529,200          10s        61.11      529,261  costs 491,572 more

hot  = detection + gate 90s + promotion 80s + shift 6s
warm = detection + gate 90s + promotion 80s + shift 6s; beside them state load 40s
cold = detection + capacity 180s + state load 40s + shift 6s; beside them gate 90s, promotion 80s
DETECTION counts from the first failed probe. WORST adds one interval (10s) before it, and the timeout
(5s) after the last, for a path that hangs. The tiers are judged by WORST.
FALSE/DAY, false failovers a day, is a closed form for blips that come 4 an hour, 20s long on average.
That is an assumption: measure yours.
";

#[test]
fn a_plan_without_arguments_is_the_worked_example() {
    let ran = run(&["plan"], "");
    assert_eq!(ran.stdout, PLAN);
    assert_eq!((ran.status, &*ran.stderr), (0, ""));
}

#[test]
fn the_example_of_a_plan_file_reads_as_it_did() {
    let ran = run(&["plan", PLAN_EXAMPLE], "");
    assert_eq!(ran.stdout, PLAN_OF_THE_EXAMPLE);
    assert_eq!((ran.status, &*ran.stderr), (0, ""));
}

#[test]
fn flags_and_a_file_say_the_same_and_flags_outrank_the_file() {
    let keys = "rto = \"20m\"\nworst_case = true\ngate = \"1s\"\ngate_not_before = \"15s\"\npromotion = \"2s\"\ncapacity = \"3s\"\n\
        state = \"4GB\"\nstate_rate = \"500MB/s\"\nbeside_gate = true\nrouting = \"dns:60s\"\nshift = \"5m\"\nttl = \"5s\"\n\
        backoff = \"6s\"\ninterval = \"7s\"\ninterval_when_failing = \"2s\"\ntimeout = \"1s\"\ntriggers = [\"4\", \"window 70s\"]\n\
        blips = \"5/d\"\nblip_mean = \"8s\"\navailability = \"99.9%\"\nmonth = \"average\"\nhit = \"0.25\"\n";
    let flags = "--rto 20m --worst-case --gate 1s --gate-not-before 15s --promotion 2s --capacity 3s --state 4GB --state-rate 500MB/s \
        --beside-gate --routing dns:60s --shift 5m --ttl 5s --backoff 6s --interval 7s --interval-when-failing 2s --timeout 1s \
        --trigger 4 --trigger window:70s --blips 5/d --blip-mean 8s --availability 99.9% --month average --hit 0.25";
    let flags: Vec<_> = ["plan", "--json"].into_iter().chain(flags.split_whitespace()).collect();
    let by_flags = run(&flags, "");
    let by_file = run(&["plan", "--json", &file("plan.toml", keys)], "");
    assert_eq!((by_flags.status, &*by_flags.stderr), (0, ""));
    assert_eq!(by_file.stdout, by_flags.stdout);

    let other = keys.replace("20m", "19m").replace("99.9%", "99%").replace("\"4\", ", "").replace("4GB", "40GB");
    let other = file("outranked.toml", &other);
    let outranked: Vec<_> = flags.iter().copied().chain([&*other]).collect();
    assert_eq!(run(&outranked, "").stdout, by_flags.stdout);
}

#[test]
fn a_plan_says_with_its_status_whether_the_target_can_be_met() {
    let status =
        |arguments: &str| run(&["plan"].into_iter().chain(arguments.split_whitespace()).collect::<Vec<_>>(), "").status;
    assert_eq!(status("--rto 180s"), 0, "one failure on a hot standby");
    assert_eq!(status("--rto 179s"), 1);
    assert_eq!(status("--rto 180s --worst-case"), 1);
    assert_eq!(status("--rto 190s --worst-case"), 0);
    let refused = run(&["plan", "--routing", "dns:300s", "--rto", "10m"], "");
    assert_eq!(refused.status, 1);
    assert!(
        refused.stdout.contains("Refused: an RTO of 10m is below the floor of DNS with a TTL of 5m"),
        "{}",
        refused.stdout
    );
    // Every option misses the target, though a trigger meets it.
    let options =
        fs::read_to_string(PLAN_EXAMPLE).unwrap().replace("rpo = \"30s\"                    #", "rpo = \"0s\" #");
    let options = options.replace("rpo = \"0s\"\ncost", "rpo = \"1s\"\ncost");
    let ran = run(&["plan", &file("no-option.toml", &options)], "");
    assert_eq!((ran.status, ran.stdout.contains("misses the RPO by 30s")), (1, true), "{}", ran.stdout);
}

#[test]
fn what_no_plan_can_be_made_of_is_refused_where_it_stands() {
    let option = "[[option]]\nname = \"x\"\nrto = \"1s\"\nrpo = \"0s\"\ncost_per_month = 1\n";
    let priced = format!("downtime_per_hour = 1\nevents = \"1/y\"\n{option}");
    let cases = [
        ("rto = 900\n".to_owned(), "1:7: error: rto: found 900; expected a duration such as"),
        ("\nrot = \"15m\"\n".to_owned(), "2:1: error: rot: an unknown key; expected one of: rto, "),
        ("state = \"140\"\n".to_owned(), "1:9: error: state: found \"140\"; expected an amount of data"),
        ("state_rate = \"0B/s\"\n".to_owned(), "1:14: error: state_rate: found \"0B/s\"; expected data a second"),
        ("triggers = [\"3\", \"0\"]\n".to_owned(), "1:12: error: triggers: found \"0\"; expected failures in a row"),
        ("triggers = []\n".to_owned(), "1:12: error: triggers: none; expected at least one"),
        ("interval = \"0s\"\n".to_owned(), "1:12: error: interval: 0s; expected a duration above zero"),
        (
            "interval_when_failing = \"11s\"\n".to_owned(),
            "error: interval_when_failing: 11s; expected at most interval (10s)",
        ),
        ("blips = \"4\"\n".to_owned(), "1:9: error: blips: found \"4\"; expected a rate"),
        ("availability = \"100%\"\n".to_owned(), "1:16: error: availability: 100%; expected less"),
        ("hit = \"40%\"\n".to_owned(), "1:7: error: hit: a value that nothing uses; expected availability beside it"),
        ("month = \"31d\"\n".to_owned(), "1:9: error: month: found \"31d\"; expected \"30d\" or \"average\""),
        ("routing = \"dns:60s\"\nshift = \"1s\"\n".to_owned(), "2:9: error: shift: 1s; expected at least 300s"),
        (
            "events = \"1/y\"\n".to_owned(),
            "error: events: a value that nothing uses; expected at least one [[option]] beside it",
        ),
        (option.to_owned(), "error: downtime_per_hour: the key is missing"),
        (
            "option = []\ndowntime_per_hour = 1\nevents = \"1/y\"\n".to_owned(),
            "1:10: error: option: none; expected at least one option",
        ),
        (
            priced.replace("cost_per_month = 1", "cost = 1"),
            "error: option[0].cost: an unknown key; expected one of: name, rung",
        ),
        (
            priced.replace("cost_per_month = 1", "cost_per_month = \"1\""),
            "error: option[0].cost_per_month: found \"1\"; expected an integer",
        ),
        (priced.replace("rto = \"1s\"", "rto = 1"), "error: option[0].rto: found 1; expected a duration"),
        (
            priced.replace("name", "rung = \"hot\"\nname"),
            "error: option[0].rung: found \"hot\"; expected \"backup-and-restore\" or",
        ),
    ];
    for (index, (text, expected)) in cases.iter().enumerate() {
        let path = file(&format!("faulty-plan-{index}.toml"), text);
        let ran = run(&["plan", &path], "");
        assert_eq!((ran.status, &*ran.stdout), (2, ""), "{text}");
        assert!(ran.stderr.starts_with(&format!("broker-failover: {path}:")), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}\nfound: {}", ran.stderr);
    }
    assert_eq!(run(&["plan", &file("sound-plan.toml", &priced)], "").status, 0);
    for flags in [
        "--rto 900",
        "--rto -1s",
        "--interval 0s",
        "--trigger 0",
        "--blips 4",
        "--month 30d",
        "--hit 40%",
        "--availability 100%",
        "--routing dns",
        "--state 140",
        "--adr x.md",
        "--force",
        "--currency EUR",
        "no-such-file.toml",
    ] {
        let ran = run(&["plan"].into_iter().chain(flags.split_whitespace()).collect::<Vec<_>>(), "");
        assert_eq!((ran.status, &*ran.stdout), (2, ""), "{flags}");
        assert!(!ran.stderr.is_empty(), "{flags}");
    }
}

#[test]
fn a_plan_as_json_has_its_units_in_its_names() {
    let ran = run(&["plan", "--json", PLAN_EXAMPLE], "");
    let plan: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(plan["rto_seconds"], 720.0);
    assert_eq!(plan["fits"], true);
    assert_eq!(plan["triggers"][0]["trigger"], "3 consecutive");
    assert_eq!(plan["triggers"][0]["tiers"][0]["recovery_seconds"], 211.0);
    assert_eq!(plan["tiers"][2]["detection_left_seconds"], 494.0);
    assert_eq!(plan["budget"]["allowed_seconds"], 259.2);
    assert_eq!(plan["decision"]["chosen"], "warm standby behind a load balancer");
    let bare: serde_json::Value = serde_json::from_str(&run(&["plan", "--json"], "").stdout).expect("it is JSON");
    assert!(bare["budget"].is_null() && bare["decision"].is_null() && bare["routing"].is_null());
    assert!(bare["tiers"][2]["detection_left_seconds"].is_null());
}

#[test]
fn a_decision_record_is_written_whole_and_never_over_another_file_unasked() {
    let place = folder().join("records");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).expect("the folder can be made");
    let path = place.join("0001-standby.md").to_str().expect("the path is UTF-8").to_owned();
    let write = |more: &[&str]| run(&[&["plan", PLAN_EXAMPLE, "--adr", &path][..], more].concat(), "");
    let ran = write(&[]);
    assert_eq!((ran.status, &*ran.stderr), (0, &*format!("broker-failover: the decision is written to {path}\n")));
    let record = fs::read_to_string(&path).expect("it is there");
    assert!(record.starts_with("# Decision: warm standby behind a load balancer\n"), "{record}");
    assert!(
        record.contains("### active-active") && record.contains("Not in these sums: conflict handling"),
        "{record}"
    );

    fs::write(&path, "by hand").expect("it can be written");
    let refused = write(&[]);
    assert_eq!((refused.status, &*refused.stdout), (2, ""));
    assert!(refused.stderr.contains("exists, and nothing was written; --force overwrites it"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "by hand");

    assert_eq!(write(&["--force"]).status, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), record);
    let names: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["0001-standby.md"], "nothing is left beside it");

    let nowhere = place.join("no").join("where.md").to_str().unwrap().to_owned();
    let ran = run(&["plan", PLAN_EXAMPLE, "--adr", &nowhere], "");
    assert_eq!((ran.status, &*ran.stdout), (2, ""));
    assert!(ran.stderr.contains("cannot be written"), "{}", ran.stderr);
}

#[test]
fn a_plan_is_coloured_on_terminals_only_and_its_text_cannot_steer_them() {
    let hostile =
        fs::read_to_string(PLAN_EXAMPLE).unwrap().replace("\"active-active\"\nrung", "\"\\u001b[31mred\"\nrung");
    let path = file("hostile.toml", &hostile);
    let coloured = |arguments: &[&str], forced: bool| {
        let mut command = binary(arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
        command.envs(forced.then_some(("CLICOLOR_FORCE", "1")));
        finish(command, b"").stdout
    };
    assert!(coloured(&["plan", &path], true).contains("\u{1b}"), "forced");
    assert!(!coloured(&["plan", "--json", &path], true).contains("\u{1b}"), "JSON has no colour, not even forced");
    let plain = coloured(&["plan", &path], false);
    assert!(!plain.contains("\u{1b}") && plain.contains("\\u{1b}[31mred"), "{plain}");
}

#[test]
fn a_check_tells_what_the_settings_promise() {
    let ran = run(&["check", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml")], "");
    for line in [
        "main-account: from a fault until orders flow again: 36.3s at worst",
        "main-account: false failovers: about 91.3 a day, if blips come 4 an hour, 20s long on average (an assumption",
    ] {
        assert!(ran.stdout.contains(line), "{line}\nfound: {}", ran.stdout);
    }
}

#[test]
fn a_check_says_that_failures_among_the_newest_results_add_up() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml");
    let scripts = concat!("\"", env!("CARGO_MANIFEST_DIR"), "/tests/configs/");
    let text = fs::read_to_string(example).unwrap().replace("\"./", scripts);
    for (of, said) in [(3, "false failovers: about "), (5, "false failovers: at least ")] {
        let trigger = format!("trigger = {{ failures = 3, of = {of} }}");
        let path = file("looks_back.toml", &text.replacen("failure_threshold = 3", &trigger, 1));
        let ran = run(&["check", &path], "");
        assert!(ran.stdout.contains(said), "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.contains("also add up over blips"), of == 5, "{}", ran.stdout);
    }
}

#[test]
fn a_check_ends_with_its_verdict() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml");
    let text = fs::read_to_string(example).unwrap();
    let last = |path: &str| {
        let ran = run(&["check", path], "");
        (ran.status, ran.stdout.lines().last().unwrap_or_default().to_owned(), ran.stdout)
    };
    let warnings = |out: &str| out.lines().filter(|line| line.contains(": warning: ")).count();
    let (status, verdict, out) = last(example);
    assert_eq!((status, warnings(&out)), (0, 3), "a tcp probe proves little, and two keys are not stated: {out}");
    assert_eq!(verdict, format!("{example}: accepted (3 warnings)"));
    let unhalted = text.replace("./fence.sh", "true").replace("./reconcile.sh", "true").replace("halt  ", "# halt");
    let other = file("verdict.toml", &unhalted);
    let (status, verdict, out) = last(&other);
    assert!(status == 0 && warnings(&out) > 1, "{out}");
    assert_eq!(verdict, format!("{other}: accepted ({} warnings)", warnings(&out)));
    let (status, _, out) = last(&file("verdict-refused.toml", &text.replacen("name = ", "nmae = ", 1)));
    assert_eq!((status, out.contains("accepted")), (2, false), "{out}");
    assert!(out.contains("the key is missing; expected a value: "), "{out}");
}

// ---- Pipes, help, flags ---------------------------------------------------------------------------------------------------

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

#[test]
fn the_same_file_gives_the_same_bytes() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/b32_second_failover_inside_cooldown.jsonl");
    let path = path.to_str().expect("the path is UTF-8");
    for format in ["json", "text"] {
        let once = run(&["replay", "--format", format, path], "");
        for zone in ["UTC", "Asia/Tokyo"] {
            let mut command = binary(&["replay", "--format", format, path]);
            command.env("TZ", zone).env("LC_ALL", "de_DE.UTF-8").env("COLUMNS", "40");
            assert_eq!(finish(command, b"").stdout, once.stdout, "{format} {zone}");
        }
        assert_eq!(once.status, 0);
    }
}

#[test]
fn the_answer_to_a_probe_is_what_the_format_says() {
    assert_eq!(replay(&[TAKEN]).stdout, format!("{TAKEN_ANSWER}\n"));
}

// ---- Tools ------------------------------------------------------------------------------------------------------------------

#[derive(Debug)]
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

fn scenario(inputs: &[&str]) -> String {
    let lines: Vec<_> = [CONFIG].iter().chain(inputs).map(|line| format!("{line}\n")).collect();
    lines.concat()
}

fn replay(inputs: &[&str]) -> Ran {
    run(&["replay", "-"], &scenario(inputs))
}

/// What the replay of these inputs prints.
fn answers(inputs: &[&str]) -> String {
    replay(inputs).stdout
}

fn run(arguments: &[&str], input: &str) -> Ran {
    run_bytes(arguments, input.as_bytes())
}

fn run_bytes(arguments: &[&str], input: &[u8]) -> Ran {
    finish(binary(arguments), input)
}

fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.args(arguments);
    command
}

fn finish(mut command: Command, input: &[u8]) -> Ran {
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
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// A file with this content, by its path. Every test gives its files names of their own.
fn file(name: &str, content: &str) -> String {
    let path = folder().join(name);
    fs::write(&path, content).expect("the file can be written");
    path.to_str().expect("the path is UTF-8").to_owned()
}
