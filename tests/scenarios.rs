//! The golden scenarios: each `tests/scenarios/*.jsonl`, what it must show, and the output that it had when somebody audited
//! it. `tests/scenarios/README.md` is for those who write one.
//!
//! A scenario states what must be seen in comments (`# expect:` above a line, `# answer:` below it). They were written from the
//! prose before anything was run, and are held against the answers here; so a golden file can't be blessed wrong.
#![cfg(feature = "cli")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use broker_failover::engine::{Engine, Note, OrderFlow, Policy, Reason, Timestamp};
use broker_failover::scenario::{Answer, Golden, Replay, Verb};
use serde_json::value::RawValue;

/// The field cases that have an engine part: each has at least one scenario, named after it.
const FIELD_CASES: [&str; 11] = ["b05", "b07", "b14", "b16", "b17", "b21", "b22", "b29", "b31", "b32", "b34"];

// ---- The golden files -----------------------------------------------------------------------------------------------

#[test]
fn every_scenario_has_a_golden_output_and_every_golden_output_its_scenario() {
    let stems = |extension| -> BTreeSet<String> {
        let files = files_in(&folder(), extension).into_iter();
        files.map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned()).collect()
    };
    let (scenarios, golden) = (stems("jsonl"), stems("out"));
    assert_eq!(scenarios.difference(&golden).collect::<Vec<_>>(), [""; 0], "without a golden output");
    assert_eq!(golden.difference(&scenarios).collect::<Vec<_>>(), [""; 0], "without a scenario");
    for case in FIELD_CASES {
        assert!(scenarios.iter().any(|name| name.starts_with(&format!("{case}_"))), "no scenario shows {case}");
    }
    for name in scenarios {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(plain), "{name}: a name has lower-case letters, digits and underscores");
    }
}

#[test]
fn every_scenario_answers_as_its_golden_output_says() {
    let bless =
        blessing(env::var("BROKER_FAILOVER_BLESS").ok(), env::var("CI").ok()).unwrap_or_else(|no| panic!("{no}"));
    for scenario in files_in(&folder(), "jsonl") {
        let lines = replay_file(&scenario);
        let printed: String = lines.iter().map(|line| format!("{}\n", line.json)).collect();
        let expected = scenario.with_extension("out");
        if bless {
            fs::write(&expected, printed).expect("the golden output can be written");
            continue;
        }
        let expected = read(&expected);
        let mut golden = Golden::new(&expected);
        for line in &lines {
            golden.compare(&line.json).unwrap_or_else(|difference| panic!("{}: {difference}", scenario.display()));
        }
        golden.finish().unwrap_or_else(|difference| panic!("{}: {difference}", scenario.display()));
    }
}

#[test]
fn the_binary_finds_no_difference_either() {
    for scenario in files_in(&folder(), "jsonl") {
        let refused = replay_file(&scenario).iter().any(|line| line.fields.contains_key("error"));
        let Output { status, stdout, stderr } =
            binary(&["replay", "--check", utf8(&scenario), utf8(&scenario.with_extension("out"))]);
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(i32::from(refused)), "{}: {said}", scenario.display());
        assert!(stdout.is_empty() && stderr.is_empty(), "{}: {said}", scenario.display());
    }
}

#[test]
fn blessing_is_refused_in_ci() {
    let on = || Some("1".to_owned());
    assert_eq!(blessing(None, None), Ok(false));
    assert_eq!(blessing(on(), None), Ok(true));
    assert_eq!(blessing(on(), Some("false".to_owned())), Ok(true));
    assert_eq!(blessing(None, Some("true".to_owned())), Ok(false));
    assert!(blessing(on(), Some("true".to_owned())).is_err());
    assert!(blessing(Some("yes".to_owned()), None).is_err());
}

/// Whether to write the golden outputs instead of comparing with them.
fn blessing(bless: Option<String>, ci: Option<String>) -> Result<bool, String> {
    match (bless.as_deref(), ci.as_deref()) {
        (None | Some(""), _) => Ok(false),
        (Some("1"), Some("true")) => {
            Err("BROKER_FAILOVER_BLESS=1 with CI=true: a gate doesn't write what it compares".to_owned())
        }
        (Some("1"), _) => Ok(true),
        (Some(other), _) => Err(format!("BROKER_FAILOVER_BLESS is {other:?}; expected 1, or nothing")),
    }
}

// ---- What the scenarios say must be seen ------------------------------------------------------------------------------

#[test]
fn every_scenario_shows_what_it_says() {
    let mut wrong = String::new();
    for scenario in files_in(&folder(), "jsonl").into_iter().chain(instructive()) {
        let text = read(&scenario);
        let name = utf8(&scenario).to_owned();
        if !text.starts_with("# ") {
            writeln!(wrong, "{name}: the first line is a comment that says what it is for")
                .expect("a string takes text");
        }
        wrong += &mistakes(&name, &text, Rigour::EveryLine);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_instructive_scenarios_are_complete_and_refuse_nothing() {
    let names: Vec<_> = instructive().iter().map(|path| path.file_name().map(|name| name.to_owned())).collect();
    assert!(names.len() >= 4, "{names:?}");
    for scenario in instructive() {
        for format in ["json", "text"] {
            let Output { status, stdout, stderr } = binary(&["replay", "--format", format, utf8(&scenario)]);
            let said = String::from_utf8_lossy(&stderr);
            assert_eq!(status.code(), Some(0), "{} {format}: {said}", scenario.display());
            assert!(!stdout.is_empty());
        }
    }
}

#[test]
fn every_scenario_in_the_documentation_replays_and_shows_what_it_says() {
    let mut files = files_in(&root().join("references"), "md");
    files.extend([root().join("README.md")].into_iter().filter(|path| path.exists()));
    let (mut wrong, mut blocks) = (String::new(), 0);
    for file in files {
        for (line, block) in blocks_of(&read(&file), "jsonl") {
            blocks += 1;
            wrong += &mistakes(&format!("{} from line {line}", file.display()), &block, Rigour::WhatIsSaid);
        }
    }
    assert!(blocks > 0, "no document shows a scenario");
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Nothing that an output can say is left without a scenario that says it.
#[test]
fn the_scenarios_say_all_that_can_be_said() {
    let lines: Vec<Line> = files_in(&folder(), "jsonl").iter().flat_map(|scenario| replay_file(scenario)).collect();
    let said = |key: &str| -> BTreeSet<String> {
        let texts = lines.iter().filter_map(|line| line.text(key));
        texts.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let missing = |codes: BTreeSet<String>, key: &str| codes.difference(&said(key)).cloned().collect::<Vec<_>>();
    let outcomes =
        "NO_ACTION SWITCHED FENCE_REQUIRED NO_TARGET_AVAILABLE COOLDOWN_ACTIVE NOT_STABLE_YET FLAP_SUPPRESSED";
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(missing(words(outcomes), "outcome"), [""; 0]);
    assert_eq!(missing(words("FAILOVER FAILBACK SWITCHOVER REARM"), "event.kind"), [""; 0]);
    assert_eq!(missing(words("UNKNOWN HEALTHY DEGRADED DOWN"), "P.state"), [""; 0]);
    assert_eq!(missing(words("OPEN HOLD HALT"), "order_flow.state"), [""; 0]);
    assert_eq!(missing(Reason::ALL.iter().map(|reason| reason.code().to_owned()).collect(), "reason_code"), [""; 0]);
    // Time never goes back in a scenario.
    let notes = Note::ALL.iter().filter(|note| **note != Note::ClockWentBack);
    assert_eq!(missing(notes.map(|note| note.code().to_owned()).collect(), "notes"), [""; 0]);
    // 65,536 endpoints are not worth a file, and a blank or reserved halt code is a fault of the file.
    let errors = error_codes().into_iter().filter(|code| code != "TOO_MANY_ENDPOINTS" && code != "HALT_CODE");
    assert_eq!(missing(errors.collect(), "error.code"), [""; 0]);
}

#[test]
fn a_wrong_expectation_is_noticed() {
    let scenario = |comment: &str, line: &str| {
        format!(
            "# p\n{{\"config\":{{\"endpoints\":[{{\"name\":\"P\",\"region\":\"r\",\"url\":\"u\",\"primary\":true}}]}}}}\n\
             {{\"at\":1,\"probe\":\"P\",\"ok\":true}}\n# expect: {comment}\n{line}\n"
        )
    };
    let wrong = |comment: &str, line: &str| mistakes("x", &scenario(comment, line), Rigour::EveryLine);
    let evaluate = r#"{"at":2,"evaluate":"failover","fence_epoch":1}"#;
    assert_eq!(wrong("NO_ACTION; FENCE_UNUSED; ACTIVE_HEALTHY; OPEN P 1; active P; epoch 1", evaluate), "");
    for comment in [
        "NO_ACTION",                   // the note is not expected
        "SWITCHED; FENCE_UNUSED",      // another outcome
        "FENCE_UNUSED; OPEN P 2",      // another epoch
        "FENCE_UNUSED; epoch 2",       // another value
        "FENCE_UNUSED; kind FAILOVER", // a key that is not there
        "FENCE_UNUSED; refused STALE_FENCE",
        "FENCE_UNUSED; NO_ACTOIN",
        "FENCE_UNUSED; NO_ACTION; STALE_ACTIVE",
    ] {
        assert_ne!(wrong(comment, evaluate), "", "{comment}");
    }
    let refused = r#"{"at":2,"resume":true}"#;
    assert_eq!(wrong("refused NOT_HALTED; OPEN P 1", refused), "");
    assert_ne!(wrong("OPEN P 1", refused), "", "a refusal must be expected");
    assert_ne!(wrong("taken", "# nothing"), "", "an expectation of no line");
    assert_ne!(mistakes("x", &scenario("HEALTHY", ""), Rigour::EveryLine), "");
    let silent = scenario("x", "").replace("# expect: x", evaluate);
    assert_ne!(mistakes("x", &silent, Rigour::EveryLine), "", "an evaluation of which nothing is expected");
}

/// How much a scenario must say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rigour {
    /// What is expected of each line but the probes.
    EveryLine,
    /// As much as it likes.
    WhatIsSaid,
}

/// Everything in which `text` and its own comments disagree, one a line.
fn mistakes(name: &str, text: &str, rigour: Rigour) -> String {
    let answers = replay_text(text).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let mut answers = answers.into_iter().map(|line| (line.number, line)).collect::<BTreeMap<_, _>>();
    let mut wrong = String::new();
    let mut complain =
        |number: usize, what: String| writeln!(wrong, "{name}, line {number}: {what}").expect("it is text");
    let (mut expected, mut last) = (Vec::new(), None);
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(said) = text.strip_prefix("# expect:") {
            expected.extend(phrases(said));
        } else if let Some(said) = text.strip_prefix("# answer:") {
            match &last {
                Some(line) => check(line, &phrases(said), &mut |what| complain(number, what)),
                None => complain(number, "no line above it has an answer".to_owned()),
            }
        } else if let Some(line) = answers.remove(&number) {
            if expected.is_empty() && rigour == Rigour::EveryLine && !line.is_probe {
                complain(number, "nothing is expected of it".to_owned());
            } else if !expected.is_empty() {
                check(&line, &std::mem::take(&mut expected), &mut |what| complain(number, what));
            }
            last = Some(line);
        }
    }
    if !expected.is_empty() {
        complain(text.lines().count(), format!("{expected:?} is expected of no line"));
    }
    wrong
}

fn phrases(said: &str) -> Vec<String> {
    said.split(';').map(|phrase| phrase.trim().to_owned()).filter(|phrase| !phrase.is_empty()).collect()
}

/// Holds what is expected against a line. See `tests/scenarios/README.md` for the phrases.
fn check(line: &Line, expected: &[String], complain: &mut impl FnMut(String)) {
    let mut notes = BTreeSet::new();
    let mut refusal = false;
    for phrase in expected {
        let words: Vec<&str> = phrase.split_whitespace().collect();
        let holds = match words[..] {
            ["OPEN", _, _] | ["HOLD" | "HALT", _] => line.flow == *phrase,
            ["taken"] => !line.fields.contains_key("error"),
            ["refused", code] => {
                refusal = true;
                line.text("error.code").as_deref() == Some(code)
            }
            ["fence", endpoint, "epoch", epoch] => {
                line.text("fence.endpoint").as_deref() == Some(endpoint)
                    && line.text("fence.epoch").as_deref() == Some(epoch)
            }
            ["target", target] => line.text("fence.target").as_deref() == Some(target),
            ["kind", kind] => line.text("event.kind").as_deref() == Some(kind),
            ["switch", epoch, kind, from, to, fate @ ("applied" | "failed")] => {
                line.switches.contains(&[epoch, kind, from, to, fate].join(" "))
            }
            ["permits", ref actions @ ..] => line.permits == actions.join(" "),
            ["no", key] => line.text(key).is_none(),
            [code] if Note::ALL.iter().any(|note| note.code() == code) => {
                notes.insert(code.to_owned());
                true // Held against the notes as a whole, below.
            }
            [code] if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
                ["outcome", "state", "reason_code"].iter().any(|key| line.text(key).as_deref() == Some(code))
            }
            [key, ref value @ ..] => line.text(key) == Some(value.join(" ")),
            [] => true,
        };
        if !holds {
            complain(format!("expected {phrase:?}; found {} and order flow {}", line.json, line.flow));
        }
    }
    let mut found: BTreeSet<_> = line.text("notes").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    found.remove("none");
    if found != notes && line.fields.contains_key("notes") {
        complain(format!("expected exactly the notes that it names; found {found:?} in {}", line.json));
    }
    if line.fields.contains_key("error") && !refusal {
        complain(format!("it was refused, which is not expected: {}", line.json));
    }
}

// ---- The field case that is a loop --------------------------------------------------------------------------------------

/// B22: whichever of one to five endpoints is the unprobed one, it is never a target, and its first success makes it one.
#[test]
fn b22_unprobed_is_no_target_at_any_place() {
    for count in 2..=5_usize {
        for unprobed in 1..count {
            let endpoints: Vec<String> = (0..count)
                .map(|i| format!(r#"{{"name":"e{i}","region":"r","url":"u{i}","primary":{},"priority":{i}}}"#, i == 0))
                .collect();
            let mut file = format!(
                "{{\"config\":{{\"policy\":{{\"failure_threshold\":1,\"require_fence\":false}},\"endpoints\":[{}]}}}}\n",
                endpoints.join(",")
            );
            for i in (0..count).filter(|i| *i != unprobed) {
                let ok = i != 0;
                writeln!(file, r#"{{"at":1,"probe":"e{i}","ok":{ok}}}"#).expect("it is text");
            }
            file += "{\"at\":1,\"assess\":\"failover\"}\n{\"at\":1,\"status\":true}\n";
            writeln!(file, r#"{{"at":2,"probe":"e{unprobed}","ok":true}}"#).expect("it is text");
            file += "{\"at\":2,\"status\":true}\n";
            let lines = replay_text(&file).expect("it is a scenario");
            let [.., assessed, before, _, after] = &lines[..] else { panic!("too few answers") };
            let name = |i: usize| format!("e{i}");
            let others = || (1..count).filter(|i| *i != unprobed).map(name);
            let listed = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(" ") };
            assert_eq!(before.text("eligible_targets"), Some(listed(others().collect())), "{file}");
            assert_eq!(after.text("eligible_targets"), Some(listed((1..count).map(name).collect())), "{file}");
            match others().next() {
                Some(best) => assert_eq!(assessed.text("active"), Some(best), "{file}"),
                None => assert_eq!(assessed.text("outcome").as_deref(), Some("NO_TARGET_AVAILABLE"), "{file}"),
            }
        }
    }
}

// ---- The document of the format -------------------------------------------------------------------------------------------

/// Every key, verb and code that an output can hold is explained, and each code is listed where it belongs.
#[test]
fn the_format_is_documented_to_the_last_code() {
    let document = read(&root().join("references/scenario-format.md"));
    let listed = |heading: &str| codes_listed(&document, heading);
    let reasons: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code().to_owned()).collect();
    let notes: BTreeSet<_> = Note::ALL.iter().map(|note| note.code().to_owned()).collect();
    assert_eq!(listed("Reason codes"), reasons);
    assert_eq!(listed("Notes"), notes);
    assert_eq!(listed("Error codes"), error_codes());

    // Every key of an input, of a policy, of a snapshot and of an output.
    let mut keys = BTreeSet::new();
    let snapshot = Engine::new(Policy::default()).snapshot(Timestamp::ZERO);
    keys_of(&serde_json::to_string(&snapshot).expect("a snapshot is JSON"), &mut keys);
    for scenario in files_in(&folder(), "jsonl") {
        let inputs = read(&scenario);
        for line in inputs.lines().filter(|line| line.trim_start().starts_with('{')) {
            keys_of(line, &mut keys);
        }
        for line in replay_file(&scenario) {
            keys_of(&line.json, &mut keys);
        }
    }
    assert!(keys.len() > 60, "{keys:?}");
    let told = |key: &str| document.contains(&format!("`{key}`")) || document.contains(&format!("\"{key}\":"));
    assert_eq!(keys.iter().filter(|key| !told(key)).collect::<Vec<_>>(), [""; 0]);
}

/// All keys of the objects in `json`.
fn keys_of(json: &str, keys: &mut BTreeSet<String>) {
    match serde_json::from_str(json) {
        Ok(serde_json::Value::Object(object)) => {
            for (key, value) in object {
                keys_of(&value.to_string(), keys);
                keys.insert(key);
            }
        }
        Ok(serde_json::Value::Array(items)) => items.iter().for_each(|item| keys_of(&item.to_string(), keys)),
        _ => {}
    }
}

/// The codes of `EngineError` and `ConfigurationError`, which have no list in the library: taken from its source, so that a new
/// one can't be left out here.
fn error_codes() -> BTreeSet<String> {
    let source = read(&root().join("src/engine/error.rs"));
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once("=> \""));
    let codes = arms.filter_map(|(_, code)| Some(code.strip_suffix("\",")?.to_owned()));
    let codes: BTreeSet<_> = codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect();
    assert!(codes.len() >= 20 && codes.contains("STALE_FENCE") && codes.contains("NO_PRIMARY"), "{codes:?}");
    codes
}

/// The codes in the first column of the table under a heading.
fn codes_listed(document: &str, heading: &str) -> BTreeSet<String> {
    let section = document.split("\n#").find(|section| section.trim_start_matches(['#', ' ']).starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading:?}"));
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let codes = rows.map(|(code, _)| code.to_owned());
    codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect()
}

// ---- Tools --------------------------------------------------------------------------------------------------------------

/// A line of output, and what it does not print.
struct Line {
    number: usize,
    json: String,
    fields: BTreeMap<String, String>,
    is_probe: bool,
    /// Order flow as it prints it, or else as it is after it, in the words of an expectation.
    flow: String,
    /// What order flow permits after it.
    permits: String,
    /// The history, if it is printed, in the words of an expectation.
    switches: Vec<String>,
}

impl Line {
    fn of(answer: &Answer<'_>) -> Self {
        let json = answer.to_json();
        let mut fields = BTreeMap::new();
        flatten("", &json, &mut fields);
        let switches = (0..).map_while(|i| {
            let at = |key: &str| fields.get(&format!("history.{i}.{key}")).cloned();
            let fate = if at("applied")? == "true" { "applied" } else { "failed" };
            Some([at("epoch")?, at("kind")?, at("from")?, at("to")?, fate.to_owned()].join(" "))
        });
        let name = answer.step.verb.name();
        Self {
            number: usize::try_from(answer.line).expect("a file has fewer lines"),
            switches: switches.collect(),
            is_probe: name == "probe",
            flow: printed_flow(&fields).unwrap_or_else(|| flow(answer)),
            permits: permitted(answer.engine),
            fields,
            json,
        }
    }

    /// The value at a key, as text: strings without quotes, lists joined by spaces.
    fn text(&self, key: &str) -> Option<String> {
        self.fields.get(key).cloned()
    }
}

/// All scalar values and lists of scalars under `json`, each by its path; list entries go by their index, and entries of
/// `endpoints` by their name.
fn flatten(path: &str, json: &str, fields: &mut BTreeMap<String, String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if json.starts_with('{') {
        let object: BTreeMap<String, &RawValue> = serde_json::from_str(json).expect("output is JSON");
        for (key, value) in object {
            flatten(&below(&key), value.get(), fields);
        }
        fields.insert(path.to_owned(), "{}".to_owned());
    } else if json.starts_with('[') {
        let list: Vec<&RawValue> = serde_json::from_str(json).expect("output is JSON");
        let mut plain = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let name = serde_json::from_str::<serde_json::Value>(value.get()).ok();
            let name = name.as_ref().and_then(|value| value.get("name")?.as_str().map(str::to_owned));
            match name {
                Some(name) => flatten(&name, value.get(), fields),
                None if value.get().starts_with('{') => flatten(&below(&index.to_string()), value.get(), fields),
                None => plain.push(scalar(value.get())),
            }
        }
        let none = || "none".to_owned();
        fields.insert(path.to_owned(), if list.is_empty() { none() } else { plain.join(" ") });
    } else {
        fields.insert(path.to_owned(), scalar(json));
    }
}

fn scalar(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

fn printed_flow(fields: &BTreeMap<String, String>) -> Option<String> {
    let at = |key: &str| fields.get(&format!("order_flow.{key}")).map(String::as_str);
    let words = [at("state"), at("endpoint"), at("epoch"), at("reason"), at("code")];
    at("state").map(|_| words.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

fn flow(answer: &Answer<'_>) -> String {
    match answer.engine.order_flow() {
        OrderFlow::Open { endpoint, epoch } => format!("OPEN {} {epoch}", answer.name(endpoint)),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { code } => format!("HALT {}", answer.halt_code(code)),
    }
}

fn permitted(engine: &Engine) -> String {
    use broker_failover::engine::OrderAction::{Cancel, Query, Submit};
    let actions = [(Submit, "submit"), (Cancel, "cancel"), (Query, "query")];
    let permitted: Vec<_> =
        actions.into_iter().filter(|(action, _)| engine.permits(*action)).map(|(_, name)| name).collect();
    if permitted.is_empty() { "nothing".to_owned() } else { permitted.join(" ") }
}

/// The answers of the library, one for each input.
fn replay_text(text: &str) -> Result<Vec<Line>, String> {
    let mut replay = Replay::new();
    let mut answers = Vec::new();
    for line in text.lines() {
        answers.extend(
            replay
                .line(line.as_bytes(), |answer| {
                    if let Verb::Status = answer.step.verb {
                        assert!(answer.result.is_ok(), "status is never refused");
                    }
                    Line::of(answer)
                })
                .map_err(|fault| fault.to_string())?,
        );
    }
    replay.finish().map_err(|fault| fault.to_string())?;
    Ok(answers)
}

fn replay_file(path: &Path) -> Vec<Line> {
    replay_text(&read(path)).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

fn binary(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_broker-failover")).args(arguments).output().expect("the binary runs")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> PathBuf {
    root().join("tests/scenarios")
}

fn instructive() -> Vec<PathBuf> {
    files_in(&root().join("assets/scenarios"), "jsonl")
}

/// In order of their names, so that the same tree gives the same report.
fn files_in(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

/// The fenced blocks of one language, with the line on which each starts.
fn blocks_of(document: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(found) = line.trim_start().strip_prefix("```") else { continue };
        let block: String = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim_start() != "```")
            .map(|line| format!("{line}\n"))
            .collect();
        if found.trim() == language {
            blocks.push((number + 2, block));
        }
    }
    blocks
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}
