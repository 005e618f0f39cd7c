//! A small round-robin harness: everything that is compared runs in one process, once in every round, so that all of
//! it meets the same noise. Only the ratios of one run are worth keeping.
//!
//! ```text
//! cargo bench --bench engine                     the whole table
//! cargo bench --bench engine -- --smoke          the same, with short samples
//! cargo bench --bench engine -- --check          fails where a ratio is beyond twice its gate (beyond the gate itself if
//!                                                its row is strict) in two runs in a row
//! cargo bench --bench engine -- --instructions   instruction counts (needs valgrind); fails beyond their bounds
//! cargo bench --bench engine -- cycle            only what has this in its name
//! ```
#![allow(dead_code, reason = "each benchmark uses a part of it")]
#![expect(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a benchmark reads the clock and prints")]

mod table;

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use table::{number, print_table};

/// Iterations whose instructions are counted, of what takes nanoseconds.
const COUNTED: u64 = 8_192;

/// Something that is measured.
#[derive(Clone, Copy)]
pub(crate) struct Subject(usize);

type Operation = Box<dyn FnMut(u64)>;
type Clocked = Box<dyn FnMut(u64) -> Duration>;

enum Body {
    /// Does so many iterations; can be counted too.
    Plain(Operation),
    /// Does so many and says how long they took, which leaves out starting and stopping other threads. Not counted.
    Clocked(Clocked),
}

struct Measured {
    name: String,
    body: Body,
    /// Iterations whose instructions are counted, if any are.
    counted: u64,
    wanted: bool,
    iterations: u64,
    /// Nanoseconds per iteration, one for each round.
    samples: Vec<f64>,
}

impl Measured {
    fn run(&mut self, iterations: u64) -> Duration {
        match &mut self.body {
            Body::Plain(operation) => {
                let start = Instant::now();
                operation(iterations);
                start.elapsed()
            }
            Body::Clocked(clocked) => clocked(iterations),
        }
    }

    /// As many iterations as fill `sample` when nothing disturbs them.
    fn calibrate(&mut self, sample: Duration) {
        // What takes nanoseconds needs some to be timed at all.
        let mut iterations = if self.counted == 1 { 1 } else { 256 };
        loop {
            let took = (0..3).map(|_| self.run(iterations)).min().unwrap_or_default();
            if took * 2 >= sample || iterations >= 1 << 30 {
                let wanted = iterations as f64 * sample.as_secs_f64() / took.as_secs_f64();
                self.iterations = (wanted as u64).max(1);
                return;
            }
            iterations *= 2;
        }
    }

    fn sample(&mut self) {
        let took = self.run(self.iterations);
        self.samples.push(took.as_secs_f64() * 1e9 / self.iterations as f64);
    }
}

/// What a ratio must keep to.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    gate: f64,
    goal: f64,
    /// How many times the gate a check lets pass as noise.
    noise: f64,
    /// The most instructions, as a ratio too.
    instructions: Option<f64>,
}

impl Limits {
    /// Ours takes at most `gate` times, and should take at most `goal` times, what the other takes.
    pub(crate) const fn at_most(gate: f64, goal: f64) -> Self {
        Self { gate, goal, noise: 2.0, instructions: None }
    }

    /// Ours is at least `gate` times, and should be `goal` times, as fast as the other.
    pub(crate) const fn faster(gate: f64, goal: f64) -> Self {
        Self::at_most(1.0 / gate, 1.0 / goal)
    }

    /// Ours executes at most `bound` times the other's instructions.
    pub(crate) const fn instructions(self, bound: f64) -> Self {
        Self { instructions: Some(bound), ..self }
    }

    /// The gate itself is what a check fails beyond: the ratio lies far enough below it that noise does not lead there.
    pub(crate) const fn strict(self) -> Self {
        Self { noise: 1.0, ..self }
    }

    fn passes(self, ratio: f64) -> bool {
        ratio <= self.noise * self.gate
    }

    fn verdict(self, ratio: f64) -> &'static str {
        if ratio <= self.goal {
            "goal"
        } else if ratio <= self.gate {
            "gate"
        } else if self.passes(ratio) {
            "missed"
        } else {
            "BEYOND WHAT NOISE MAY DO"
        }
    }
}

struct Row {
    id: &'static str,
    ours: Subject,
    other: Subject,
    limits: Limits,
}

/// What is measured, and what is compared.
#[derive(Default)]
pub(crate) struct Bench {
    measured: Vec<Measured>,
    rows: Vec<Row>,
}

struct Plan {
    rounds: usize,
    sample: Duration,
}

impl Bench {
    /// Measures `operation`, which does as many iterations as it is told.
    pub(crate) fn subject(&mut self, name: impl Into<String>, operation: impl FnMut(u64) + 'static) -> Subject {
        self.add(name.into(), Body::Plain(Box::new(operation)), COUNTED)
    }

    /// Measures `operation`, one iteration of which does so much that counting one is enough.
    pub(crate) fn long(&mut self, name: impl Into<String>, operation: impl FnMut(u64) + 'static) -> Subject {
        self.add(name.into(), Body::Plain(Box::new(operation)), 1)
    }

    /// Measures `operation`, which takes the time itself.
    pub(crate) fn clocked(
        &mut self,
        name: impl Into<String>,
        operation: impl FnMut(u64) -> Duration + 'static,
    ) -> Subject {
        self.add(name.into(), Body::Clocked(Box::new(operation)), 0)
    }

    /// Measures `operation`, whose instructions would take minutes to count.
    pub(crate) fn uncounted(&mut self, name: impl Into<String>, mut operation: impl FnMut(u64) + 'static) -> Subject {
        self.clocked(name, move |iterations| {
            let start = Instant::now();
            operation(iterations);
            start.elapsed()
        })
    }

    fn add(&mut self, name: String, body: Body, counted: u64) -> Subject {
        self.measured.push(Measured { name, body, counted, wanted: true, iterations: 1, samples: Vec::new() });
        Subject(self.measured.len() - 1)
    }

    /// Compares two subjects, under the number that the target has in `references/performance.md`.
    pub(crate) fn row(&mut self, id: &'static str, ours: Subject, other: Subject, limits: Limits) {
        self.rows.push(Row { id, ours, other, limits });
    }

    /// Does what the command line says.
    pub(crate) fn main(mut self) -> ExitCode {
        let has = |flag| env::args().any(|argument| argument == flag);
        if let Some(part) = env::args().skip(1).find(|argument| !argument.starts_with("--")) {
            self.rows.retain(|row| self.measured[row.ours.0].name.contains(&part));
            let wanted = |index| self.rows.iter().any(|row| row.ours.0 == index || row.other.0 == index);
            (0..self.measured.len()).for_each(|index| self.measured[index].wanted = wanted(index));
        }
        if has("--count") {
            self.count();
            return ExitCode::SUCCESS;
        }
        if has("--instructions") {
            return self.instructions().unwrap_or_else(|error| {
                println!("FAILED: instructions were not counted: {error}");
                ExitCode::FAILURE
            });
        }
        // Cargo says `--bench` when it benchmarks; when it tests, running everything once is enough.
        let plan = match (has("--bench"), has("--smoke")) {
            (false, _) => Plan { rounds: 1, sample: Duration::from_micros(10) },
            (true, true) => Plan { rounds: 101, sample: Duration::from_micros(100) },
            (true, false) => Plan { rounds: 1001, sample: Duration::from_micros(200) },
        };
        let first = self.measure(&plan);
        if !has("--check") || first.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("\nBeyond what noise may do: {}. Measured once more:\n", self.names(&first));
        let second = self.measure(&plan);
        let twice: Vec<usize> = first.into_iter().filter(|row| second.contains(row)).collect();
        if twice.is_empty() {
            println!("\nIt was noise: no row was beyond it both times.");
            return ExitCode::SUCCESS;
        }
        println!("\nFAILED: beyond what noise may do in two runs: {}", self.names(&twice));
        ExitCode::FAILURE
    }

    fn names(&self, rows: &[usize]) -> String {
        let name = |row: &usize| self.rows.get(*row).map_or("", |row| self.measured[row.ours.0].name.as_str());
        rows.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Measures everything and prints it. The rows beyond twice their gate.
    fn measure(&mut self, plan: &Plan) -> Vec<usize> {
        for measured in self.measured.iter_mut().filter(|measured| measured.wanted) {
            measured.calibrate(plan.sample);
            measured.samples.clear();
        }
        for _ in 0..plan.rounds {
            self.measured.iter_mut().filter(|measured| measured.wanted).for_each(Measured::sample);
        }
        let Plan { rounds, sample } = plan;
        println!("{rounds} rounds, {sample:?} for each operation; median [10th-90th percentile]\n");
        let wanted = self.measured.iter().filter(|measured| measured.wanted);
        let absolute = wanted.map(|m| [m.name.clone(), Spread::of(&m.samples).to_string()]);
        print_table(["operation", "ns"], absolute);
        println!();

        let mut beyond = Vec::new();
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let (ours, other) = (&self.measured[row.ours.0], &self.measured[row.other.0]);
            // Round by round, so that a slow stretch slows both sides of a ratio.
            let ratios: Vec<f64> = ours.samples.iter().zip(&other.samples).map(|(a, b)| a / b).collect();
            let ratio = Spread::of(&ratios);
            if !row.limits.passes(ratio.median) {
                beyond.push(index);
            }
            lines.push([
                row.id.to_owned(),
                ours.name.clone(),
                other.name.clone(),
                ratio.to_string(),
                number(row.limits.gate),
                number(row.limits.goal),
                row.limits.verdict(ratio.median).to_owned(),
            ]);
        }
        print_table(["#", "ours", "against", "ratio", "gate", "goal", "verdict"], lines);
        beyond
    }

    /// Runs under callgrind: every plain subject, between marks at which callgrind dumps its counters.
    fn count(&mut self) {
        for measured in &mut self.measured {
            if let Body::Plain(operation) = &mut measured.body {
                operation(measured.counted);
                counting_mark();
                operation(measured.counted);
                counting_mark();
            }
        }
    }

    /// Counts instructions, prints them, and compares the ratios with their bounds.
    fn instructions(&self) -> Result<ExitCode, Box<dyn Error>> {
        let counts = self.count_with_callgrind()?;
        println!("instructions per operation\n");
        let lines = self.measured.iter().zip(&counts);
        print_table(
            ["operation", "instructions"],
            lines.filter_map(|(measured, count)| Some([measured.name.clone(), format!("{:.1}", (*count)?)])),
        );
        println!();

        let mut failed = Vec::new();
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let (Some(ours), Some(other)) = (counts[row.ours.0], counts[row.other.0]) else { continue };
            let ratio = ours / other;
            let verdict = match row.limits.instructions {
                None => "",
                Some(bound) if ratio <= bound => "ok",
                Some(_) => {
                    failed.push(index);
                    "TOO MANY"
                }
            };
            lines.push([
                row.id.to_owned(),
                self.measured[row.ours.0].name.clone(),
                self.measured[row.other.0].name.clone(),
                number(ratio),
                row.limits.instructions.map_or_else(String::new, number),
                verdict.to_owned(),
            ]);
        }
        print_table(["#", "ours", "against", "ratio", "bound", "verdict"], lines);
        if failed.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        println!("\nFAILED: more instructions than their bounds allow: {}", self.names(&failed));
        Ok(ExitCode::FAILURE)
    }

    /// Instructions per operation of each subject; `None` for those that are not counted.
    fn count_with_callgrind(&self) -> Result<Vec<Option<f64>>, Box<dyn Error>> {
        let dumps = env::temp_dir().join(format!("broker-failover-bench-{}", std::process::id()));
        fs::create_dir_all(&dumps)?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--dump-before=*counting_mark*"])
            .arg(format!("--callgrind-out-file={}", dumps.join("dump").display()))
            .arg(env::current_exe()?)
            .arg("--count")
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let mut part = 0;
        let counts = self.measured.iter().map(|measured| match measured.body {
            Body::Clocked(_) => Ok(None),
            Body::Plain(_) => {
                part += 2;
                let total = total_of_dump(&dumps.join(format!("dump.{part}")))?;
                Ok(Some(total / measured.counted as f64))
            }
        });
        let counts = counts.collect();
        fs::remove_dir_all(&dumps)?;
        counts
    }
}

#[inline(never)]
fn counting_mark() {
    black_box(());
}

fn total_of_dump(path: &Path) -> Result<f64, Box<dyn Error>> {
    let dump = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let totals = dump.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or_else(|| format!("{} has no totals", path.display()))?.trim().parse()?)
}

/// The median, and what one sample in ten is below and above.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |tenths| sorted[(sorted.len() - 1) * tenths / 10];
        Self { median: at(5), low: at(1), high: at(9) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}-{}]", number(self.median), number(self.low), number(self.high))
    }
}
