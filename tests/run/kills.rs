//! `kill -9` at random moments, while switches happen all the time.
//!
//! `BROKER_FAILOVER_KILLS` kills (25 unless it is set; `.ci/run --long` has 200), at the moments that `BROKER_FAILOVER_SEED` gives (which is
//! printed; a random one unless it is set).

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::brokers::Mode;
use crate::rig::{NAMES, Rig, Setting, heard_of, hook};

/// What is not worth being better than this.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_kills_lose_no_decision_and_start_again_as_they_were() {
    let kills = number("BROKER_FAILOVER_KILLS").unwrap_or(25);
    let random = || u64::from(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.subsec_nanos()));
    let seed = number("BROKER_FAILOVER_SEED").unwrap_or_else(random);
    println!("{kills} kills with BROKER_FAILOVER_SEED={seed}");
    let mut dice = Dice(seed);
    let hooks = [("fence", ""), ("switch", ""), ("reconcile", ", idempotent = true"), ("halt", ", idempotent = true")];
    let mut rig = Rig::open(&Setting {
        policy: "failure_threshold = 2\ncooldown = \"0s\"\nfailback_success_threshold = 1\n\
                 max_failbacks_per_window = 100000\nfailback_window = \"10h\"\nhistory_limit = 100000"
            .to_owned(),
        probing: "interval = \"40ms\"\ninterval_when_failing = \"20ms\"\ntimeout = \"1500ms\"".to_owned(),
        hooks: hooks.map(|(stage, more)| hook(stage, more)).concat(),
        endpoints: 3,
        ..Setting::default()
    });
    for (stage, _) in hooks {
        rig.behave(stage, "slow");
    }
    let mut waited = 0;
    for kill in 0..kills {
        // Some do not even live to answer.
        let lifetime = Duration::from_millis(if dice.below(5) == 0 { dice.below(150) } else { 300 + dice.below(900) });
        let end = Instant::now() + lifetime;
        while Instant::now() < end {
            let mode = if dice.below(3) == 0 { Mode::Refuse } else { Mode::Healthy };
            // The primary most of all: it is the one that is left and gone back to.
            let name = NAMES[usize::try_from(dice.below(6)).unwrap_or(0).saturating_sub(3)];
            rig.set(name, mode);
            waited += u32::from(answer_for_hooks(&rig));
            std::thread::sleep(Duration::from_millis(20 + dice.below(60)));
        }
        rig.kill();
        let left = Left::of(&rig.journal());
        rig.spawn(&[]);
        let mut found = None;
        rig.wait("it starts again", |rig| {
            if let Some(status) = rig.ended() {
                panic!("kill {kill}: it does not start: {status:?}\n{}", rig.tell());
            }
            let records = rig.journal();
            let start = records.iter().rposition(|record| record["kind"] == "start").unwrap_or(0);
            let starts = Left::starts(&records);
            // The head of a segment repeats the state as it was before; the start's own comes after the start.
            found = records.into_iter().skip(start).find(|record| record["kind"] == "snapshot");
            found.is_some() && starts > left.starts
        });
        left.compare(&found.expect("a snapshot")["body"]["snapshot"], kill);
    }
    for name in NAMES {
        rig.set(name, Mode::Healthy);
    }
    rig.wait("flow opens at last", |rig| {
        answer_for_hooks(rig);
        rig.ask().is_some_and(|group| group["may_submit"] == true)
    });
    assert!(rig.terminate().success());
    rig.verify();
    let records = rig.journal();
    let switches = decisions(&records);
    let hooks = hooks_have_records(&rig, &records);
    never_two_paths(&rig, &records);
    restarts_decide_on_fresh_evidence(&records);
    unknown_hooks_wait_for_a_person(&records);
    println!("{switches} switches, {hooks} hooks, {waited} times a person was asked, {} records", records.len());
    assert!(switches > kills / 4, "only {switches} switches: that was no load");
}

/// Lets a hook that waits for a person be repeated. True if one waited.
fn answer_for_hooks(rig: &Rig) -> bool {
    let waits = rig.ask().is_some_and(|group| group["waits_for"].to_string().contains("repeat-hook"));
    // It may have been killed meanwhile, or never have answered.
    waits && rig.command(&["repeat-hook"]).is_ok()
}

/// What the last records say.
#[derive(Debug, Default)]
struct Left {
    starts: usize,
    active: Option<(String, u64)>,
    spent: bool,
    flow: String,
    /// Seconds from the last switch to the last record, both in the run's own time.
    switch_age: Option<f64>,
    failbacks: usize,
}

impl Left {
    fn starts(records: &[Value]) -> usize {
        records.iter().filter(|record| record["kind"] == "start").count()
    }

    fn of(records: &[Value]) -> Self {
        let mut left = Self { starts: Self::starts(records), ..Self::default() };
        // The age as of this moment of the run.
        let mut aged: Option<(f64, f64)> = None;
        let mut latest = 0.0;
        let mut in_head = false;
        for record in records {
            let (kind, body, at) =
                (record["kind"].as_str().unwrap_or_default(), &record["body"], record["at"].as_f64().unwrap_or(0.0));
            match kind {
                "segment" => in_head = true,
                "start" => (in_head, latest) = (false, 0.0),
                "input" | "hook_start" | "hook_end" | "note" | "command" => in_head = false,
                _ => {}
            }
            if record["group"] == "main" {
                latest = if kind == "snapshot" { at } else { f64::max(latest, at) };
            }
            if kind == "snapshot" && !in_head {
                let snapshot = &body["snapshot"];
                let active = &snapshot["active"];
                left.active = Some((text(&active["endpoint"]), active["epoch"].as_u64().unwrap_or(0)));
                left.spent = active["spent"] == true;
                left.flow = flow_of(snapshot);
                aged = snapshot["last_switch_age"].as_u64().map(|nanos| (nanos as f64 / 1e9, at));
                left.failbacks = snapshot["failback_ages"].as_array().map_or(0, Vec::len);
            }
            if kind == "input" {
                let answer = &body["answer"];
                if let Some(flow) = answer["flow"].as_str() {
                    left.flow = flow.split(' ').take(2).collect::<Vec<_>>().join(" ");
                }
                if !body["line"]["fence_started"].is_null() && answer["outcome"] != "REFUSED" {
                    left.spent = true;
                }
                if !answer["switch"].is_null() {
                    let switch = &answer["switch"];
                    left.active = Some((text(&switch["to"]), switch["epoch"].as_u64().unwrap_or(0)));
                    left.spent = false;
                    aged = Some((0.0, at));
                    left.failbacks += usize::from(switch["kind"] == "FAILBACK");
                }
            }
        }
        left.switch_age = aged.map(|(age, at)| age + latest - at);
        left
    }

    fn compare(&self, snapshot: &Value, kill: u64) {
        let active = &snapshot["active"];
        let found = (text(&active["endpoint"]), active["epoch"].as_u64().unwrap_or(0));
        assert_eq!(Some(&found), self.active.as_ref(), "kill {kill}: {self:?}");
        assert_eq!(active["spent"] == true, self.spent, "kill {kill}: {self:?} {snapshot}");
        let flow = flow_of(snapshot);
        let expected = if self.flow.starts_with("OPEN") { "OPEN" } else { &self.flow };
        assert_eq!(flow.split(' ').next().filter(|word| *word == "OPEN").unwrap_or(&flow), expected, "kill {kill}");
        let age = snapshot["last_switch_age"].as_u64().map(|nanos| nanos as f64 / 1e9);
        match (age, self.switch_age) {
            // What passed while it was down does not count; what passed from the restart to the snapshot is little.
            (Some(age), Some(expected)) => {
                assert!(age >= expected - 0.001 && age < expected + 5.0, "kill {kill}: {age}, expected {expected}");
            }
            (age, expected) => assert_eq!(age, expected, "kill {kill}"),
        }
        assert_eq!(snapshot["failback_ages"].as_array().map_or(0, Vec::len), self.failbacks, "kill {kill}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Order flow of a snapshot: OPEN, HOLD SWITCHING, HALT NO_TARGET_AVAILABLE.
fn flow_of(snapshot: &Value) -> String {
    let flow = &snapshot["order_flow"];
    match flow.as_str().map(str::to_uppercase).as_deref() {
        Some("OPEN") => "OPEN".to_owned(),
        Some("NO_TARGET_AVAILABLE") => "HALT NO_TARGET_AVAILABLE".to_owned(),
        Some(reason) => format!("HOLD {reason}"),
        None => format!("HALT {flow}"),
    }
}

/// Every epoch was decided once, one after the other. How many there were.
fn decisions(records: &[Value]) -> u64 {
    let mut epoch = 1;
    for record in records {
        if let Some(next) = record["body"]["answer"]["switch"]["epoch"].as_u64() {
            assert_eq!(next, epoch + 1, "{record}");
            epoch = next;
        }
    }
    epoch - 1
}

/// No effect without its record: each hook that ran had been announced, as often as it ran.
fn hooks_have_records(rig: &Rig, records: &[Value]) -> usize {
    let mut announced: BTreeMap<String, i64> = BTreeMap::new();
    for record in records.iter().filter(|record| record["kind"] == "hook_start") {
        let (request, level) = (&record["body"]["request"], &record["body"]["level"]);
        let key = format!("{} {level} {} {}", text(&request["stage"]), text(&request["endpoint"]), request["epoch"]);
        *announced.entry(key).or_default() += 1;
    }
    let log = rig.hooks();
    let ran: Vec<_> = log.iter().filter_map(|line| line.strip_prefix("start ")).collect();
    for line in &ran {
        let key = line.split(' ').take(4).collect::<Vec<_>>().join(" ");
        let left = announced.entry(key.clone()).or_default();
        *left -= 1;
        assert!(*left >= 0, "{key} ran and was not announced");
    }
    ran.len()
}

/// No switch of a new epoch before the fence of the one before has succeeded, by the hooks' own log.
fn never_two_paths(rig: &Rig, records: &[Value]) {
    let rearmed: Vec<_> = records
        .iter()
        .map(|record| &record["body"]["answer"]["switch"])
        .filter(|switch| switch["kind"] == "REARM")
        .filter_map(|switch| switch["epoch"].as_u64())
        .collect();
    let log = rig.hooks();
    let mut highest = 0;
    for (place, line) in log.iter().enumerate() {
        let Some(rest) = line.strip_prefix("start switch ") else { continue };
        let epoch: u64 = rest.split(' ').nth(2).and_then(|epoch| epoch.parse().ok()).expect("an epoch");
        assert!(epoch >= highest, "{line} after epoch {highest}");
        highest = epoch;
        let before = format!(" {}", epoch - 1);
        let fenced = log[..place].iter().any(|line| line.starts_with("end fence ") && line.ends_with(&before));
        assert!(fenced || rearmed.contains(&epoch), "{line}: the epoch before was not fenced");
    }
}

/// After each start nothing is decided, switched, opened or lifted before every endpoint was heard of.
fn restarts_decide_on_fresh_evidence(records: &[Value]) {
    let mut known: Vec<String> = NAMES.map(str::to_owned).to_vec();
    for record in records {
        let body = &record["body"];
        if record["kind"] == "start" || !body["line"]["restart"].is_null() {
            known.clear();
        }
        if let Some(name) = heard_of(record) {
            if !known.iter().any(|one| one == name) {
                known.push(name.to_owned());
            }
        } else if !body["line"]["evaluate"].is_null() || body["request"]["stage"] == "switch" {
            assert_eq!(known.len(), NAMES.len(), "{record} was decided knowing only {known:?}");
        }
    }
}

/// A hook that may not be repeated and has no end is not started again before a person says so.
fn unknown_hooks_wait_for_a_person(records: &[Value]) {
    let mut running: Option<String> = None;
    let mut unknown: Vec<String> = Vec::new();
    for record in records {
        let body = &record["body"];
        match record["kind"].as_str() {
            Some("start") => {
                let hook = running.take().filter(|stage| stage == "fence" || stage == "switch");
                unknown.extend(hook);
            }
            Some("hook_start") => {
                let stage = text(&body["request"]["stage"]);
                assert!(!unknown.contains(&stage), "{record} without a person's word");
                running = Some(stage);
            }
            Some("hook_end") => running = None,
            Some("command") if body["refused"].is_null() => unknown.clear(),
            _ => {}
        }
    }
}
