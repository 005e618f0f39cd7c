//! What must hold, and how often it is looked at before it is said not to.

use std::process::ExitCode;

use crate::table::{number, print_table};

/// What the command line asks for.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// As little as is worth looking at.
    pub(crate) smoke: bool,
    /// Only to see whether it runs: `cargo test`, which does not say `--bench`.
    pub(crate) trial: bool,
}

impl Plan {
    /// Whether the row with this number is asked for: all are, unless the command line names some.
    pub(crate) fn wants(self, row: &str) -> bool {
        let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
        named.peek().is_none() || named.any(|named| named == row)
    }
}

#[derive(Default)]
pub(crate) struct Gates(Vec<Gate>);

struct Gate {
    id: &'static str,
    what: String,
    value: f64,
    gate: f64,
    goal: f64,
    /// Whether more is better.
    more: bool,
    /// By how many times it may be missed before the benchmark fails.
    slack: f64,
}

impl Gate {
    fn keeps(&self, limit: f64) -> bool {
        if self.more { self.value >= limit } else { self.value <= limit }
    }

    fn fails(&self) -> bool {
        !self.keeps(if self.more { self.gate / self.slack } else { self.gate * self.slack })
    }
}

impl Gates {
    /// `value` must be at most `gate`, and should be at most `goal`; beyond the gate the benchmark fails.
    pub(crate) fn most(&mut self, id: &'static str, what: impl Into<String>, value: f64, [gate, goal]: [f64; 2]) {
        self.0.push(Gate { id, what: what.into(), value, gate, goal, more: false, slack: 1.0 });
    }

    /// The same where a busy machine disturbs one side more than the other: it fails beyond twice the gate.
    pub(crate) fn noisy(&mut self, id: &'static str, what: impl Into<String>, value: f64, [gate, goal]: [f64; 2]) {
        self.0.push(Gate { id, what: what.into(), value, gate, goal, more: false, slack: 2.0 });
    }

    /// The same, and only told.
    pub(crate) fn told(&mut self, id: &'static str, what: impl Into<String>, value: f64, [gate, goal]: [f64; 2]) {
        self.0.push(Gate { id, what: what.into(), value, gate, goal, more: false, slack: f64::INFINITY });
    }

    /// `value` must be at least `gate`.
    pub(crate) fn least(&mut self, id: &'static str, what: impl Into<String>, value: f64, [gate, goal]: [f64; 2]) {
        self.0.push(Gate { id, what: what.into(), value, gate, goal, more: true, slack: 1.0 });
    }

    fn print(&self) {
        println!();
        let verdict = |gate: &Gate| match (gate.keeps(gate.goal), gate.keeps(gate.gate), gate.fails()) {
            (true, _, _) => "goal",
            (_, true, _) => "gate",
            (_, _, true) => "NO, FAILS",
            (_, _, false) => "no",
        };
        let line = |gate: &Gate| {
            let numbers = [gate.value, gate.gate, gate.goal].map(number);
            let [value, limit, goal] = numbers;
            [gate.id.to_owned(), gate.what.clone(), value, limit, goal, verdict(gate).to_owned()]
        };
        print_table(["#", "what", "value", "gate", "goal", "met"], self.0.iter().map(line));
    }

    fn missed(&self) -> Vec<String> {
        let beyond = self.0.iter().filter(|gate| gate.fails());
        beyond.map(|gate| format!("{}: {}", gate.id, gate.what)).collect()
    }
}

/// Measures, and measures once more if a gate was missed. With `--check` it fails if one was missed both times.
pub(crate) fn run(mut measure: impl FnMut(Plan, &mut Gates)) -> ExitCode {
    let has = |flag| std::env::args().any(|argument| argument == flag);
    let plan = Plan { smoke: has("--smoke"), trial: !has("--bench") };
    let mut once = || {
        let mut gates = Gates::default();
        measure(plan, &mut gates);
        gates.print();
        gates.missed()
    };
    let first = once();
    if first.is_empty() || plan.trial || !has("--check") {
        return ExitCode::SUCCESS;
    }
    println!("\nMissed: {}. Measured once more:\n", first.join("; "));
    let second = once();
    let twice: Vec<_> = first.into_iter().filter(|what| second.contains(what)).collect();
    if twice.is_empty() {
        println!("\nIt was noise: no gate was missed both times.");
        return ExitCode::SUCCESS;
    }
    println!("\nFAILED: missed in two runs: {}", twice.join("; "));
    ExitCode::FAILURE
}
