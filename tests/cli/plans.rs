//! Plans: the worked example, files and flags, what no plan can be made of, the decision record.

use std::fs;

use crate::tools::{binary, file, finish, folder, run};

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
fn a_plan_takes_failures_among_results_where_they_are_failures_in_a_row_and_says_what_takes_the_others() {
    let rows = |trigger| run(&["plan", "--trigger", trigger], "").stdout;
    assert!(rows("3").contains("3 consecutive"), "{}", rows("3"));
    assert_eq!(rows("3 of 3"), rows("3"));
    let by_file = file("among.toml", "triggers = [\"3 of 5\"]\n");
    for arguments in [&["plan", "--trigger", "3 of 5"][..], &["plan", &by_file]] {
        let ran = run(arguments, "");
        assert_eq!((ran.status, &*ran.stdout), (2, ""), "{arguments:?}");
        for piece in ["3 of 5", "there is no closed form", "(simulate and calibrate take such a trigger)"] {
            assert!(ran.stderr.contains(piece), "{arguments:?}: {}", ran.stderr);
        }
    }
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
