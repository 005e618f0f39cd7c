//! What `check` tells of a configuration that it accepts.

use std::fs;

use std::process::Command;

use crate::tools::{file, finish, run};

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
