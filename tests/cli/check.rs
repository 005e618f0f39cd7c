//! What `check` tells of a configuration that it accepts.

use std::fs;

use std::process::Command;

use crate::tools::{assert_fault, file, finish, folder, run};

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
fn a_check_tells_how_long_a_fault_takes_to_be_seen_by_its_settings() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml");
    let scripts = concat!("\"", env!("CARGO_MANIFEST_DIR"), "/tests/configs/");
    let text = fs::read_to_string(example).unwrap().replace("\"./", scripts);
    // Two more failures at 250 ms each, after up to 1 s until the first; a path that hangs is known at each deadline.
    // With five: four more.
    for (threshold, refused, hung) in [(3, "500ms to 1.5s", "1.3s to 2.3s"), (5, "1s to 2s", "1.8s to 2.8s")] {
        let path = file("detects.toml", &text.replace("old = 3", &format!("old = {threshold}")));
        let ran = run(&["check", &path], "");
        let line = format!(
            "main-account: from a fault to DOWN: {refused} where the path answers at once (refused, reset, 500), {hung} \
             where it hangs\n"
        );
        assert!(ran.stdout.contains(&line), "{line}\nfound: {}", ran.stdout);
    }
}

#[test]
fn a_byte_that_is_no_utf_8_is_named_with_its_place() {
    let path = folder().join("no-utf-8.toml");
    fs::write(&path, b"# one\nname = \"\xc3\xa4\xff\"\n").unwrap();
    let path = path.display().to_string();
    let place = "line 2, column 10: found bytes that are not UTF-8; expected UTF-8";
    for command in ["check", "plan"] {
        assert_fault(&run(&[command, &path], ""), &path, &format!("cannot be read: {place}"));
    }
    let status = run(&["status", "--config", &path], "");
    assert!(status.status == 2 && status.stderr.contains(place), "{}", status.stderr);
}

#[test]
fn a_finding_begins_with_the_file_the_line_and_the_column_and_names_the_key() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml");
    let scripts = concat!("\"", env!("CARGO_MANIFEST_DIR"), "/tests/configs/");
    let text = fs::read_to_string(example).unwrap().replace("\"./", scripts);
    let accepted =
        (text.clone(), 0, vec!["6:1: warning: group[0].exclusivity", "26:9: warning: group[0].endpoint[1].probe"]);
    let wrong = text.replace("cooldown = \"60s\"", "cooldown = 60").replacen("timeout = \"2s\"", "timeout = \"0s\"", 1);
    // Behind a path that is as long as this folder's.
    let column = 1 + wrong.lines().nth(29).and_then(|line| line.find("\"0s\"")).unwrap();
    let timeout = format!("30:{column}: error: group[0].hooks.fence.timeout");
    let refused = (wrong, 2, vec!["10:12: error: group[0].policy.cooldown", &timeout]);
    for (text, status, places) in [accepted, refused] {
        let path = file("found.toml", &text);
        let ran = run(&["check", &path], "");
        assert_eq!(ran.status, status, "{}", ran.stdout);
        for place in places {
            let begin = format!("{path}:{place}: ");
            let line = ran.stdout.lines().find(|line| line.starts_with(&begin)).unwrap_or_default();
            assert!(line.contains("; expected "), "{begin}\nfound: {}", ran.stdout);
        }
    }
}

#[test]
fn every_value_in_force_is_printed_with_the_line_that_states_it_or_as_a_default() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/configs/example.toml");
    let ran = run(&["check", "--print-effective", example], "");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = ran.stdout.lines().map(words).collect();
    for line in [
        "supervisor.listen = \"127.0.0.1:9464\" # line 2",
        "group[0].policy.failure_threshold = 3 # line 9",
        "group[0].policy.max_failbacks_per_window = 3 # default",
        "group[0].probing.timeout = 800ms # line 14",
        "group[0].probing.no_evidence_alarm = 30s # default",
        "group[0].endpoint[0].probe.http.path = \"/health\" # line 20",
        "group[0].endpoint[0].require = \"all\" # default",
        "group[0].endpoint[1].probe.tcp = {} # line 26",
        "group[0].hooks.switch.webhook = \"http://127.0.0.1:18090/switch\" # line 31",
        "group[0].hooks.flow = none # default",
        "group[0].hooks.max_hold = 300s # default",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}\nfound: {}", ran.stdout);
    }
    // Each value of the file is there once, with its own line: counted over the file's lines that state one.
    let stated: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|line| line.split_once(" # line ")).map(|(_, number)| number).collect();
    let text = fs::read_to_string(example).unwrap();
    let states =
        |line: &&str| line.split('#').next().is_some_and(|before| before.contains(" = ") || before.contains("  = "));
    assert_eq!(stated.len(), text.lines().filter(states).count(), "{stated:?}");
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

/// A file of so many paths that answer nobody.
fn of_paths(count: usize) -> String {
    let mut text =
        "[supervisor]\nsocket = \"many.sock\"\njournal = \"many-journal\"\n[[group]]\nname = \"main\"\n".to_owned();
    for number in 0..count {
        let role = if number == 0 { "primary = true" } else { "priority = 10" };
        text += &format!(
            "[[group.endpoint]]\nname = \"path-{number}\"\nregion = \"r\"\nurl = \"tcp://127.0.0.1:{}\"\n{role}\nprobe = {{ tcp = {{}} }}\n",
            number + 1
        );
    }
    text
}

#[test]
fn more_descriptors_than_the_soft_limit_permits_are_warned_of_before_and_at_the_start() {
    let limited = |limit: u32, arguments: &[&str]| {
        let mut command = Command::new("sh");
        let script = format!("ulimit -Sn {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_broker-failover")]).args(arguments);
        finish(command, b"")
    };
    // A path that hangs is asked every 250 ms for 800 ms; then the places of clients, a hook, and what every process has.
    let needed = 200 * 4 + 128 + 64 + 3 + 64;
    let many = file("many.toml", &of_paths(200));
    let told = |limit| {
        format!(
            "warning: supervisor: up to {needed} descriptors at once while paths hang, and the soft limit is {limit}"
        )
    };
    let short = needed - 1;
    let ran = limited(short, &["check", &many]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    assert!(ran.stdout.contains(&told(short)) && ran.stdout.contains("LimitNOFILE) of 1059 or more"), "{}", ran.stdout);
    let ran = limited(needed, &["check", &many]);
    assert!(ran.status == 0 && !ran.stdout.contains("descriptors"), "{}", ran.stdout);
    // Nobody says which path is active, so it stops there.
    let ran = limited(short, &["run", &many]);
    assert!(ran.status == 2 && ran.stderr.contains(&told(short)), "{}", ran.stderr);
}
