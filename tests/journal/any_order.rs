//! Anything in any order is recovered, verified and replayed alike.

use std::fs;
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::supervisor::hooks::{HookResult, Stage};
use broker_failover::supervisor::journal::*;
use proptest::prelude::*;

use crate::desk::*;

#[derive(Clone, Debug)]
enum Op {
    Probe(usize, bool),
    Evaluate(u8, u8),
    Spend(bool),
    Reconciled,
    Halt,
    Resume,
    Rearm,
    Maintenance(usize, bool),
    Priority(usize, u32),
    Forget,
    Pass(u64),
    Hook(u8, bool),
    Stage(u8),
    Note(String),
    Reopen(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..3_usize, any::<bool>()).prop_map(|(endpoint, ok)| Op::Probe(endpoint, ok)),
        8 => (0..5_u8, 0..3_u8).prop_map(|(kind, claim)| Op::Evaluate(kind, claim)),
        1 => any::<bool>().prop_map(Op::Spend),
        2 => Just(Op::Reconciled),
        1 => Just(Op::Halt),
        1 => Just(Op::Resume),
        1 => Just(Op::Rearm),
        1 => (0..3_usize, any::<bool>()).prop_map(|(endpoint, on)| Op::Maintenance(endpoint, on)),
        1 => (0..3_usize, 0..50_u32).prop_map(|(endpoint, priority)| Op::Priority(endpoint, priority)),
        1 => Just(Op::Forget),
        4 => (0..3_000_u64).prop_map(Op::Pass),
        1 => (0..5_u8, any::<bool>()).prop_map(|(stage, start)| Op::Hook(stage, start)),
        1 => (0..7_u8).prop_map(Op::Stage),
        1 => "\\PC{0,20}".prop_map(Op::Note),
        1 => any::<bool>().prop_map(Op::Reopen),
    ]
}

impl Desk {
    fn act(&mut self, op: &Op) {
        let name = |index: usize| ["east", "west", "south"][index].to_owned();
        let epoch = self.epoch();
        match op {
            Op::Probe(endpoint, ok) => self.probe(&name(*endpoint), *ok),
            Op::Evaluate(kind, claim) => {
                let claim = [FenceClaim::None, FenceClaim::Present, FenceClaim::Epoch(epoch)][usize::from(*claim)];
                let evaluation = match kind {
                    0 | 1 => Evaluation::Failover,
                    2 | 3 => Evaluation::Failback,
                    _ => Evaluation::Switchover("south".to_owned()),
                };
                self.tell(Input::Evaluate(evaluation, claim));
            }
            Op::Spend(true) => self.tell(Input::FenceStarted(epoch)),
            Op::Spend(false) => self.tell(Input::SwitchFailed(epoch)),
            Op::Reconciled => self.tell(Input::Reconciled(epoch)),
            Op::Halt => self.tell(Input::Halt(HaltOrder::operator("desk"))),
            Op::Resume => self.tell(Input::Resume),
            Op::Rearm => self.tell(Input::Rearm),
            Op::Maintenance(endpoint, on) => self.tell(Input::Maintenance { endpoint: name(*endpoint), on: *on }),
            Op::Priority(endpoint, priority) => {
                let update = EndpointUpdate { priority: Some(*priority), ..EndpointUpdate::default() };
                self.tell(Input::Update { name: name(*endpoint), update: Box::new(update) });
            }
            Op::Forget => self.forget(),
            Op::Pass(millis) => self.now += millis,
            Op::Hook(stage, start) => {
                let stages = [Stage::Fence, Stage::Switch, Stage::Reconcile, Stage::Halt, Stage::Flow];
                let stage = stages[usize::from(*stage)];
                let body = if *start { self.hook_start(stage, 1) } else { self.hook_end(stage, 1, HookResult::Ok) };
                self.append(body);
            }
            Op::Stage(stage) => {
                use SwitchStage::{Abandoned, Decided, Failed, Fenced, Open, Reconciled, Switched};
                let stages = [Decided, Fenced, Switched, Reconciled, Open, Failed, Abandoned];
                self.append(self.stage(stages[usize::from(*stage)]));
            }
            Op::Note(text) => self.append(note(text)),
            Op::Reopen(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happened_is_recovered_verified_and_replayed_alike(
        ops in proptest::collection::vec((0..3_usize, op()), 1..120),
        segment_size in 1..12_000_u64,
        keep_all in any::<bool>(),
    ) {
        let folder = Folder::new("any");
        let size = if keep_all { u64::MAX } else { 2 * segment_size };
        let options = Options { segment_size, keep: Keep { age: Duration::MAX, size }, ..folder.options() };
        let names = ["main", "other", "patient"];
        let (mut journal, recovered) = Journal::open(options.clone(), at(0)).unwrap();
        let mut desks = names.map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
        let mut inputs = 0;
        for (desk, op) in &ops {
            if let Op::Reopen(cleanly) = op {
                if *cleanly {
                    journal.close(at(1), "end").unwrap();
                } else {
                    drop(journal);
                }
                let (opened, recovered) = Journal::open(options.clone(), at(0)).unwrap();
                journal = opened;
                for (name, desk) in names.iter().zip(&desks) {
                    prop_assert_eq!(&recovered.groups[*name].snapshot, &desk.snapshot());
                }
                desks = names.map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
            } else {
                let wrote_before = !matches!(op, Op::Pass(_));
                desks[*desk].act(op);
                inputs += usize::from(wrote_before);
                // Time that no record tells of is not known after a restart.
                if !wrote_before {
                    desks[*desk].append(note("time passed"));
                }
            }
        }
        drop(journal);
        let counts = folder.verify().unwrap();
        let recovered = folder.recover().unwrap();
        for (name, desk) in names.iter().zip(&desks) {
            prop_assert_eq!(&recovered.groups[*name].snapshot, &desk.snapshot());
            let mut lines = Vec::new();
            let begun = export(&folder.0, name, None, |line| lines.push(line.clone())).unwrap();
            if begun {
                replay_alike(&lines);
            }
            prop_assert!(begun || counts.segments[0].first > 1, "nothing is gone, so the whole replays");
        }
        prop_assert!(inputs == 0 || counts.records() > 2);
    }

    #[test]
    fn a_journal_cut_anywhere_opens_if_only_its_last_line_is_touched(cut in 1..4_000_usize) {
        let (folder, _) = small("cut-anywhere");
        let bytes = fs::read(folder.newest()).unwrap();
        let cut = bytes.len() - cut.min(bytes.len() - 1);
        fs::write(folder.newest(), &bytes[..cut]).unwrap();
        // A cut is always in the last line that is left. Only the head was on disk before the file had its name.
        let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        prop_assert_eq!(Journal::open(folder.options(), at(0)).is_ok(), cut > head);
    }
}
