//! The demo's story, played fast: what it promises on a screen it must keep here.

#![cfg(feature = "cli")]

use std::process::Command;

use tokio::sync::Mutex;

use broker_failover::supervisor::demo::{Audience, Frame, Options, Scene, play};

/// Two stories at once would only wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// What happens, in the words of the scenes, however fast and with whatever jitter it is played.
const STORY: [&str; 25] = [
    "order flow opens on east",
    "east dies: its port refuses connections",
    "FAILOVER east -> west: flow is held",
    "FAILOVER east -> west: fenced, a new epoch",
    "FAILOVER east -> west: reconciled, flow is open",
    "east is back; a failback waits for the cooldown and for three successes in a row",
    "FAILBACK west -> east: flow is held",
    "FAILBACK west -> east: fenced, a new epoch",
    "FAILBACK west -> east: reconciled, flow is open",
    "east hangs: it accepts connections and never answers",
    "FAILOVER east -> west: flow is held",
    "FAILOVER east -> west: fenced, a new epoch",
    "FAILOVER east -> west: reconciled, flow is open",
    "east is back once more: one failback inside the window is all that is allowed",
    "the flap limiter holds the failback back",
    "FLAP_SUPPRESSED: the primary oscillates, flow stays on west",
    "the window passes and east stays well",
    "FAILBACK west -> east: flow is held",
    "FAILBACK west -> east: fenced, a new epoch",
    "FAILBACK west -> east: reconciled, flow is open",
    "everything dies: east answers 500, west cuts connections, north breaks TLS",
    "west and north are DOWN",
    "trading halts",
    "the halt is confirmed by its hook",
    "nowhere to go: trading is halted, and the halt hook confirmed it",
];

/// Keeps the scenes.
#[derive(Default)]
struct Witness {
    flows: Vec<String>,
}

impl Audience for &mut Witness {
    fn scene(&mut self, scene: &Scene) {
        self.flows.push(scene.flow.clone());
    }

    fn frame(&mut self, _: &Frame) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_story_keeps_every_invariant_and_switches_in_its_order() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let mut witness = Witness::default();
    let summary = play(Options { speed: 6.0, seed: 7 }, &mut witness).await.expect("the story comes to its end");
    for (invariant, result) in &summary.invariants {
        assert_eq!(*result, Ok(()), "{invariant}");
    }
    assert!(summary.held() && summary.invariants.len() >= 3);
    let texts: Vec<_> = summary.scenes.iter().map(|scene| &*scene.text).collect();
    assert_eq!(texts, STORY);
    let switches: Vec<_> = summary.switches.iter().map(|switch| switch.what.as_str()).collect();
    assert_eq!(
        switches,
        ["FAILOVER east -> west", "FAILBACK west -> east", "FAILOVER east -> west", "FAILBACK west -> east"]
    );
    let last = summary.scenes.last().and_then(|scene| scene.group.as_ref()).expect("the group at the end");
    assert_eq!(last.order_flow, "HALT NO_TARGET_AVAILABLE");
    assert_eq!(last.halt_confirmed, Some(true));
    let history: Vec<_> = last
        .history
        .iter()
        .map(|switch| (switch.kind, &*switch.from, &*switch.to, switch.epoch, switch.applied))
        .collect();
    assert_eq!(
        history,
        [
            ("FAILOVER", "east", "west", 2, true),
            ("FAILBACK", "west", "east", 3, true),
            ("FAILOVER", "east", "west", 4, true),
            ("FAILBACK", "west", "east", 5, true),
        ]
    );
    let suppressed = summary.scenes.iter().position(|scene| scene.text.starts_with("FLAP_SUPPRESSED"));
    assert!(suppressed.is_some(), "the limiter held a failback back");
    for (flow, what) in [("OPEN west #2", "failed over"), ("OPEN east #3", "failed back"), ("OPEN west #4", "again")] {
        assert!(witness.flows.iter().any(|seen| seen == flow), "{what}: {flow} not among {:?}", witness.flows);
    }
    for (text, flow) in
        [("flow is held", "HOLD SWITCHING"), ("a new epoch", "HOLD RECONCILING"), ("flow is open", "OPEN ")]
    {
        let scenes: Vec<_> = summary.scenes.iter().filter(|scene| scene.text.ends_with(text)).collect();
        assert_eq!(scenes.len(), 4, "{text}");
        assert!(scenes.iter().all(|scene| scene.flow.starts_with(flow)), "what a scene is about: {scenes:?}");
    }
    assert!(summary.accepted > 0 && summary.refused > 0);
    assert_eq!(summary.book, summary.accepted + summary.unknown_taken, "the broker and the client count the same");
}

#[test]
fn the_binary_plays_it_in_plain_lines_when_nobody_watches() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    // The seed of the story above.
    let output = Command::new(env!("CARGO_BIN_EXE_broker-failover"))
        .args(["demo", "--speed", "10", "--seed", "7"])
        .output()
        .expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(!out.contains('\x1b'), "no escape sequence in a pipe: {out}");
    assert_eq!(out.matches("\n  held ").count(), 3, "{out}");
    let scenes = out.lines().take_while(|line| !line.is_empty());
    let texts: Vec<_> = scenes.map(|line| line.get(38..).unwrap_or_default()).collect();
    assert_eq!(texts, STORY, "the same story");
    assert!(out.contains("FAILOVER east -> west") && out.contains("FLAP_SUPPRESSED"), "{out}");
    assert_eq!(err, "");
}

#[test]
fn a_speed_that_a_busy_machine_cannot_follow_is_refused() {
    let demo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_broker-failover")).arg("demo").args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for speed in ["11", "0.09", "0", "-1", "nan", "fast"] {
        let (status, text) = demo(&[&format!("--speed={speed}")]);
        assert_eq!(status, Some(2), "{speed}");
        assert!(text.contains("expected a number from 0.1 to 10"), "{text}");
    }
    let (_, help) = demo(&["--help"]);
    assert!(help.contains("(0.1 to 10). Some waits have a floor"), "{help}");
}
