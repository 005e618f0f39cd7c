//! `calibrate --replay` and `calibrate --html` as their users meet them.
#![cfg(feature = "cli")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/history.example.csv.zst");
const EXAMPLE_CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/broker.example.toml");

/// 2025-10-09 08:53:20, in seconds.
const START: u64 = 1_760_000_000;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replayed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("there is room for files");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("it is UTF-8").to_owned()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).expect("there is room for files");
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn calibrate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_broker-failover"));
    command.arg("calibrate").args(arguments).env_remove("CLICOLOR_FORCE").output().expect("the binary runs")
}

/// Standard output of a run that succeeds and says nothing on standard error.
fn calibrated(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = calibrate(arguments);
    assert_eq!((status.code(), String::from_utf8_lossy(&stderr)), (Some(0), "".into()), "{arguments:?}");
    String::from_utf8(stdout).expect("it is UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&calibrated(&[arguments, &["--json"]].concat())).expect("it is JSON")
}

/// What a run says that is refused; it prints nothing else.
fn refusal(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = calibrate(arguments);
    let stderr = String::from_utf8(stderr).expect("it is UTF-8");
    assert_eq!((status.code(), String::from_utf8_lossy(&stdout)), (Some(2), "".into()), "{stderr}");
    stderr
}

/// A history in slots of ten seconds; a row for each endpoint, a letter for each slot: `.` succeeds, `x` fails, a space
/// never came.
fn history(rows: &[(&str, &str)]) -> String {
    let mut text = "timestamp_s,endpoint,ok\n".to_owned();
    let slots = rows.iter().map(|(_, results)| results.len()).max().unwrap_or_default();
    for slot in 0..slots {
        for (endpoint, results) in rows {
            let row = |ok: u8| format!("{},{endpoint},{ok}\n", START + 10 * slot as u64);
            match results.as_bytes().get(slot) {
                Some(b'.') => text.push_str(&row(1)),
                Some(b'x') => text.push_str(&row(0)),
                _ => {}
            }
        }
    }
    text
}

fn group(name: &str, endpoints: [&str; 2]) -> String {
    let [primary, backup] = endpoints;
    format!(
        "[[group]]\nname = \"{name}\"\n[group.probing]\ninterval = \"10s\"\ninterval_when_failing = \"10s\"\n\
         [[group.endpoint]]\nname = \"{primary}\"\nregion = \"r\"\nurl = \"tcp://127.0.0.1:1\"\nprimary = true\nprobe = {{ tcp = {{}} }}\n\
         [[group.endpoint]]\nname = \"{backup}\"\nregion = \"r\"\nurl = \"tcp://127.0.0.1:2\"\npriority = 10\nprobe = {{ tcp = {{}} }}\n\
         [group.failback]\nmode = \"automatic\"\n\
         [group.hooks]\nfence = {{ command = [\"true\"], timeout = \"1s\", proves = \"stopped\" }}\n"
    )
}

fn config(groups: &[String]) -> String {
    format!("[supervisor]\nsocket = \"s\"\njournal = \"j\"\n{}", groups.concat())
}

/// A blip that is left for nothing, an outage of ten minutes, and one of both paths.
fn story() -> String {
    let east = format!(
        "..........xxxx{}{}{}{}{}",
        ".".repeat(30),
        "x".repeat(60),
        ".".repeat(30),
        "x".repeat(40),
        ".".repeat(20)
    );
    let west = format!("{}{}{}", ".".repeat(134), "x".repeat(40), ".".repeat(20));
    history(&[("east", &east), ("west", &west)])
}

const HOLD: [&str; 6] = ["--fence-time", "5s", "--switch-time", "5s", "--reconcile-time", "5s"];

#[test]
fn a_replay_lists_each_switch_with_what_it_saved_and_cost() {
    let folder = Folder::new("table");
    let (history, config) =
        (folder.file("h.csv", story()), folder.file("broker.toml", config(&[group("main", ["east", "west"])])));
    let printed = calibrated(&[&[&*history, "--replay", &config], &HOLD[..]].concat());
    let (_, replay) = printed.split_once("Replay of group ").expect("there is one");
    let expected = "\
main: 2 failovers, 1 of them false; 4 switches in all; 1 outage not left, or late; 1 halt

DECIDED                  EPOCH KIND       FROM -> TO               REASON                HELD     COST  AFTERWARDS
2025-10-09T08:55:20.000Z     2 FAILOVER   east -> west             ACTIVE_DOWN            15s      30s  FALSE: east answered again 20s after the decision
2025-10-09T08:56:30.000Z     3 FAILBACK   west -> east             PRIMARY_RECOVERED      15s      15s  the primary was back
2025-10-09T09:01:00.000Z     4 FAILOVER   east -> west             ACTIVE_DOWN            15s      30s  east failed for 9m 25s more with flow open on west
2025-10-09T09:11:00.000Z     5 FAILBACK   west -> east             PRIMARY_RECOVERED      15s      15s  the primary was back

Outages of the active path that were not left, or late
FIRST FAILED             ENDPOINT         LENGTH  WHY
2025-10-09T09:15:40.000Z east             6m 30s  there was nowhere to go; flow was back 6m 45s after its first failed result

Halts
BEGAN                    ON           CODE                   FOR
2025-10-09T09:16:00.000Z east         NO_TARGET_AVAILABLE    6m 20s
";
    assert!(replay.starts_with(expected), "{replay}");
    for (name, value) in [
        ("saved by failovers: the path left failed, flow open elsewhere", "9m 25s"),
        ("cost of the false ones, with their failbacks", "30s"),
        ("gained by these settings", "8m 55s"),
    ] {
        assert!(replay.contains(&format!("\n{name:<62} {value:>16}\n")), "{name}\n{replay}");
    }
    for note in [
        "Note: a fence takes 5s, a switch 5s, a reconciliation 5s, and each succeeds",
        "Note: no result of any endpoint for more than 30s is a stop of the monitor.",
    ] {
        assert!(replay.contains(note), "{note}\n{replay}");
    }
}

#[test]
fn the_same_as_json_names_every_unit() {
    let folder = Folder::new("json");
    let (history, config) =
        (folder.file("h.csv", story()), folder.file("broker.toml", config(&[group("main", ["east", "west"])])));
    let arguments = [&[&*history, "--replay", &config], &HOLD[..]].concat();
    let replay = &json(&arguments)["replay"];
    assert_eq!(replay["totals"]["failovers"], 2);
    assert_eq!(replay["totals"]["false_failovers"], 1);
    assert_eq!(replay["totals"]["saved_seconds"], 565.0);
    assert_eq!(replay["assumed"]["outage_after_seconds"], 300.0);
    let first = &replay["switches"][0];
    assert_eq!(first["afterwards"], "FALSE");
    assert_eq!(first["recovered"], "2025-10-09T08:55:40.000Z");
    assert_eq!(first["opened"], "2025-10-09T08:55:35.000Z");
    assert_eq!(replay["outages"][0]["why"], "NO_TARGET");
    assert_eq!(replay["halts"][0]["seconds"], 380.0);
    // All of the time is accounted for.
    let total = |key: &str| replay["totals"][key].as_f64().unwrap();
    let parts = [
        "monitor_stopped_seconds",
        "well_seconds",
        "stale_seconds",
        "failing_seconds",
        "held_seconds",
        "halted_seconds",
    ];
    assert!((parts.map(total).iter().sum::<f64>() - total("observed_seconds")).abs() < 1e-6, "{replay:#}");
    // Without a replay there is none, and the report is otherwise the same.
    let alone = json(&[&history]);
    assert_eq!(alone.get("replay"), None);
    assert_eq!(alone["endpoints"], json(&arguments)["endpoints"]);
}

#[test]
fn the_owners_recovery_time_says_what_is_late() {
    let folder = Folder::new("late");
    let (history, config) =
        (folder.file("h.csv", story()), folder.file("broker.toml", config(&[group("main", ["east", "west"])])));
    // 20 s until it is DOWN, 15 s until flow is open.
    for (rto, whys) in [("35s", vec!["NO_TARGET"]), ("34s", vec!["LATE", "NO_TARGET"])] {
        let limits = ["--max-false-per-month", "100000", "--rto", rto];
        let Output { stdout, .. } =
            calibrate(&[&[&*history, "--replay", &config, "--json"], &limits[..], &HOLD].concat());
        let report: Value = serde_json::from_slice(&stdout).expect("it is JSON");
        let outages = report["replay"]["outages"].as_array().unwrap();
        assert_eq!(outages.iter().map(|outage| outage["why"].as_str().unwrap()).collect::<Vec<_>>(), whys, "{rto}");
    }
}

#[test]
fn only_the_endpoints_that_are_asked_for_are_replayed() {
    let folder = Folder::new("endpoints");
    let rows = [("east", "..xxxx...."), ("west", ".........."), ("north", "..........")];
    let history = folder.file("h.csv", history(&rows));
    let config = folder.file("broker.toml", config(&[group("main", ["east", "west"])]));
    assert_eq!(
        refusal(&[&history, "--replay", &config]),
        format!(
            "broker-failover: {history}: the history has the endpoints \"east\", \"north\", \"west\"; group \"main\" of the \
             configuration has \"east\", \"west\"; expected the same names in both\n"
        )
    );
    let replay = &json(&[&history, "--replay", &config, "--endpoint", "east", "--endpoint", "west"])["replay"];
    assert_eq!(replay["totals"]["failovers"], 1);
}

#[test]
fn which_group_is_meant_must_be_clear() {
    let folder = Folder::new("groups");
    let history = folder.file("h.csv", history(&[("a", "..xxxx...."), ("b", "..........")]));
    let config = folder.file("broker.toml", config(&[group("one", ["east", "west"]), group("two", ["a", "b"])]));
    assert_eq!(
        refusal(&[&history, "--replay", &config]),
        format!(
            "broker-failover: {config}: has the groups \"one\", \"two\"; expected --replay-group with one of them\n"
        )
    );
    assert_eq!(
        refusal(&[&history, "--replay", &config, "--replay-group", "three"]),
        format!("broker-failover: {config}: has no group \"three\"; expected one of its groups: \"one\", \"two\"\n")
    );
    let replay = &json(&[&history, "--replay", &config, "--replay-group", "two"])["replay"];
    assert_eq!((&replay["group"], &replay["totals"]["failovers"]), (&"two".into(), &1.into()));
}

#[test]
fn a_configuration_that_is_refused_is_not_replayed() {
    let folder = Folder::new("refused");
    let history = folder.file("h.csv", story());
    let wrong = config(&[group("main", ["east", "west"])]).replace("interval = \"10s\"\ni", "intervall = \"10s\"\ni");
    let config = folder.file("broker.toml", wrong);
    let refused = refusal(&[&history, "--replay", &config]);
    assert!(refused.starts_with(&format!("broker-failover: {config}:")) && refused.contains("intervall"), "{refused}");
    let nowhere = folder.path("nowhere.toml");
    let refused = refusal(&[&history, "--replay", &nowhere]);
    assert!(refused.starts_with(&format!("broker-failover: {nowhere}: cannot be read: ")), "{refused}");
    // What belongs to a replay is nothing without one.
    let refused = refusal(&[&history, "--fence-time", "5s"]);
    assert!(refused.contains("--replay"), "{refused}");
}

/// The tags of a page, without what is between them; panics where they do not match.
fn tags(page: &str) -> Vec<&str> {
    let (mut tags, mut open, mut rest) = (Vec::new(), Vec::new(), page);
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').expect("each tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match tag {
            _ if tag.starts_with('!') || name == "meta" || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{tag} is not what is open"),
            _ => open.push(name),
        }
        tags.push(tag);
    }
    assert_eq!(open, Vec::<&str>::new());
    tags
}

#[test]
fn the_page_needs_no_other_file_and_runs_nothing() {
    let folder = Folder::new("page");
    let (history, config) =
        (folder.file("it's.csv", story()), folder.file("broker.toml", config(&[group("main", ["east", "west"])])));
    let page = folder.path("report.html");
    let limits = ["--max-false-per-month", "100000"];
    calibrated(&[&[&*history, "--replay", &config, "--html", &page], &limits[..], &HOLD].concat());
    let page = fs::read_to_string(page).unwrap();
    let tags = tags(&page);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">") && page.ends_with("</html>\n"));
    for tag in tags {
        let name = tag.split(' ').next().unwrap();
        assert!(!["script", "link", "img", "iframe", "object", "embed", "a", "use", "image"].contains(&name), "{tag}");
        assert!(!tag.contains(" src=") && !tag.contains("href=") && !tag.contains(" on"), "{tag}");
    }
    for foreign in ["@import", "url(", "javascript:"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("://").count(), page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    assert!(page.contains("default-src 'none'"));
    for style in ["prefers-color-scheme: dark", "@media print"] {
        assert!(page.contains(style), "{style}");
    }
    // Whoever reads it can make it again.
    let quoted = history.replace('\'', "&#39;\\&#39;&#39;");
    assert!(page.contains(&format!("broker-failover calibrate &#39;{quoted}&#39; --replay")), "{page:.3000}");
    assert!(page.contains(concat!("broker-failover ", env!("CARGO_PKG_VERSION"))));
    assert!(page.contains("<dt>Rows</dt><dd>388, of which 388 count</dd>"));
    assert!(page.contains("2 failovers, 1 of them false"));
}

#[test]
fn a_table_stands_beside_each_plot_and_says_what_it_shows() {
    let folder = Folder::new("tables");
    let page = folder.path("report.html");
    calibrated(&[EXAMPLE, "--max-false-per-month", "30", "--html", &page, "--replay", EXAMPLE_CONFIG]);
    let page = fs::read_to_string(page).unwrap();
    tags(&page);
    // The timeline, three plots for each of two endpoints and for both together, and the replay.
    assert_eq!(page.matches("<svg ").count(), 11);
    let plots: Vec<_> = page.split("<svg ").skip(1).collect();
    assert!(plots.iter().all(|plot| plot.split("<svg ").next().unwrap().contains("<table>")));
    assert!(plots.iter().all(|plot| plot.contains("role=\"img\" aria-label=\"") && plot.contains("<title>")));
    // Every trigger is in the tables, and in the pictures.
    for trigger in ["1 failure", "3 consecutive", "window 60s", "window 900s"] {
        assert!(page.matches(&format!("<th scope=\"row\">{trigger}</th>")).count() >= 6, "{trigger}");
        assert!(page.matches(&format!(">{trigger}</text>")).count() >= 6, "{trigger}");
    }
    assert!(page.contains("Recommended trigger: "));
    // Both fits beside what was counted, the owner's limit, and a gap that is one.
    for class in ["counted", "exponential", "lognormal"] {
        assert!(page.contains(&format!("class=\"{class}\"/>")), "{class}");
    }
    assert!(page.contains(">limit 30</text>"));
    assert!(page.contains("1 of more than 30s"));
    // No number that is none.
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn names_cannot_break_out_of_the_page() {
    let folder = Folder::new("hostile");
    let (script, svg) = ("<script>alert('1')</script>&", "><svg onload=alert(1)>");
    let config = folder.file("broker.toml", config(&[group("<i>", [script, svg])]));
    let page = folder.path("report.html");
    // No configuration has a name that turns the text after it; a history may.
    let turning = format!("{script}\u{202e}");
    for (name, replay) in [(script, &["--replay", &*config] as &[_]), (&*turning, &[])] {
        let rows = [(name, "....xxxx....x..x."), (svg, ".................")];
        let history = folder.file("h<b>.csv", history(&rows));
        calibrated(&[&[&*history, "--html", &page, "--force"], replay].concat());
        let page = fs::read_to_string(&page).unwrap();
        tags(&page);
        for tag in ["<script", "<svg onload", "<b>", "<i>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;"));
        assert!(!page.contains('\u{202e}'), "it turns the text after it");
        assert_eq!(page.contains("&amp;\\u{202e}"), replay.is_empty());
    }
}

#[test]
fn the_same_history_gives_the_same_bytes() {
    let folder = Folder::new("same");
    let page = folder.path("report.html");
    let run = || {
        let printed = calibrated(&[EXAMPLE, "--replay", EXAMPLE_CONFIG, "--html", &page, "--force", "--json"]);
        (printed, fs::read(&page).unwrap())
    };
    assert!(run() == run());
}

#[test]
fn force_overwrites_no_input_and_no_device() {
    let folder = Folder::new("force");
    let (history, config) = (folder.file("h.csv", story()), folder.file("broker.toml", "mine"));
    let forced = |page: &str| refusal(&[&history, "--replay", &config, "--html", page, "--force"]);
    for input in [&history, &config] {
        let before = fs::read(input).unwrap();
        let said = forced(input);
        assert!(
            said.ends_with(&format!("is an input, {input}, and nothing was written; expected another file\n")),
            "{said}"
        );
        assert_eq!(fs::read(input).unwrap(), before);
    }
    let link = folder.path("device.html");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    assert_eq!(
        refusal(&[&history, "--html", &link, "--force"]),
        format!("broker-failover: {link}: is no ordinary file, and nothing was written; expected one, or none\n")
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link is still there");
}

#[test]
fn a_page_that_exists_is_not_overwritten_and_nothing_is_printed() {
    let folder = Folder::new("exists");
    let (history, page) = (folder.file("h.csv", story()), folder.file("report.html", "mine"));
    assert_eq!(
        refusal(&[&history, "--html", &page]),
        format!("broker-failover: {page}: exists, and nothing was written; --force overwrites it\n")
    );
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
    calibrated(&[&history, "--html", &page, "--force"]);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE html>"));
    let nowhere = folder.path("nowhere/report.html");
    assert!(
        refusal(&[&history, "--html", &nowhere])
            .starts_with(&format!("broker-failover: {nowhere}: cannot be written: "))
    );
}

#[test]
fn a_history_without_a_single_failure_has_plots_too() {
    let folder = Folder::new("calm");
    let history = folder.file("h.csv", history(&[("east", &".".repeat(50))]));
    let page = folder.path("report.html");
    calibrated(&[&history, "--html", &page]);
    let page = fs::read_to_string(page).unwrap();
    tags(&page);
    // The timeline and three plots of the one endpoint.
    assert_eq!(page.matches("<svg ").count(), 4);
    assert!(!page.contains("NaN"));
}
