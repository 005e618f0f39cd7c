//! Replays: exit status, where a scenario comes from, comparison with a golden output, the table for people.

use std::path::PathBuf;

use crate::tools::{
    CONFIG, FAULTY, REFUSED, TAKEN, TAKEN_ANSWER, answers, assert_fault, binary, file, finish, folder, replay, run,
    run_bytes, scenario,
};

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
\x20LINE TIME                INPUT                                ANSWER                      ORDER FLOW               WHY
    2 00:00:01.000        probe P: ok                          HEALTHY                     OPEN P #1                was UNKNOWN
    3 00:00:01.000        probe B: ok                          HEALTHY                     OPEN P #1                was UNKNOWN
    4 00:00:02.500        probe P: ConnectionReset: peer       DEGRADED                    OPEN P #1                was HEALTHY
    5 00:00:03.000        probe P: failed                      DEGRADED                    OPEN P #1
    6 00:00:03.000000001  probe P: panic: \\u{1b}[31mred\\nnext line DOWN                        OPEN P #1                was DEGRADED
    7 00:00:04.000        evaluate failover                    FENCE_REQUIRED              HOLD SWITCHING           fence P epoch 1, then B: the active path may still submit orders: fence it, then ask again
    8 00:00:04.000        fence started, epoch 1               taken                       HOLD SWITCHING
    9 00:00:05.000        evaluate failover (fenced epoch 1)   SWITCHED                    HOLD RECONCILING         FAILOVER P -> B, epoch 2: the active path is DOWN
   10 00:00:06.000        reconciled, epoch 1                  refused STALE_RECONCILE     HOLD RECONCILING         epoch 1 was reconciled, the present epoch is 2; nothing was changed
   11 00:00:06.000        reconciled, epoch 2                  taken                       OPEN B #2
   12 00:00:07.000        probe P: ok                          HEALTHY                     OPEN B #2                was DOWN
   13 01:00:07.000        evaluate failback (fenced epoch 2)   NO_ACTION                   OPEN B #2                the last probe of the primary is too old [STALE_ACTIVE] [FENCE_UNUSED]
   14 01:00:08.000        probe P: ok                          HEALTHY                     OPEN B #2
   15 01:00:08.000        evaluate failback                    NOT_STABLE_YET              OPEN B #2                the primary has not succeeded often enough in a row [STALE_ACTIVE]
   16 01:00:09.000        halt OPERATOR: the desk asked        taken                       HALT OPERATOR
   17 01:00:09.000        status                               status                      HALT OPERATOR            active B, epoch 2; targets: P
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

// ---- The same again ------------------------------------------------------------------------------------------------------

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
