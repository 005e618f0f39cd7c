//! What `check` tells of a configuration that it accepts.

use std::fs;

use crate::tools::{file, run};

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
