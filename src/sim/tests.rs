//! The simulation against closed forms, and what must hold for every seed.

use std::ops::Range;
use std::time::Duration;

use super::*;
use crate::engine::Silence;
use crate::planning::{Blips, Probing, Rate, Share};

const S: fn(u64) -> Duration = Duration::from_secs;

fn run(settings: SimulationSettings) -> Vec<Table> {
    Simulation::new(settings).unwrap().run(|_, _| {}).unwrap()
}

/// What `rate` blips of `mean` a second really come to with probes every `interval`: the expected number of times a day
/// that a run of failed probes reaches `failures`, with overlapping blips counted as one.
///
/// Blips that last at a probe are a Poisson number; each lasts until the next probe with probability exp(-I / m), and new
/// ones that do are Poisson again. So their number from probe to probe is a Markov chain, and a run is a stay above zero.
fn expected_per_day(blips: &Blips, interval: Duration, failures: u32) -> f64 {
    const MOST: usize = 12;
    let (mean, interval) = (blips.mean().as_secs_f64(), interval.as_secs_f64());
    let at_once = blips.rate().per_day() / 86_400.0 * mean;
    let stays = (-interval / mean).exp();
    let poisson = |mean: f64, count: usize| (1..=count).fold((-mean).exp(), |p, k| p * mean / k as f64);
    let choose = |n: usize, k: usize| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
    let step = |from: usize, to: usize| -> f64 {
        let kept = |k: usize| choose(from, k) * stays.powi(k as i32) * (1.0 - stays).powi((from - k) as i32);
        (0..=from.min(to)).map(|k| kept(k) * poisson(at_once * (1.0 - stays), to - k)).sum()
    };
    let mut now = [0.0; MOST];
    now[0] = poisson(at_once, 0);
    for _ in 0..failures {
        let then = |to: usize| if to == 0 { 0.0 } else { (0..MOST).map(|from| now[from] * step(from, to)).sum() };
        now = std::array::from_fn(then);
    }
    86_400.0 / interval * now.iter().sum::<f64>()
}

#[test]
fn false_failovers_agree_with_the_closed_form_within_the_sampling_error() {
    let settings = SimulationSettings { seeds: 10, days: 30, ..Default::default() };
    for table in run(settings.clone()) {
        let blips = Blips::new(settings.blips, table.blip_mean).unwrap();
        for row in &table.rows {
            let (found, closed) = (row.false_failovers_per_day(), row.closed_form.unwrap());
            let failures = u32::try_from(row.failures).unwrap();
            let exact = expected_per_day(&blips, settings.interval, failures);
            // Counts of rare events: their deviation is the root of what is expected.
            let deviation = (exact / 300.0).sqrt();
            let what = format!("{} under {:?}: found {found:.4}, exactly {exact:.4}", row.rule, table.blip_mean);
            assert!((found - exact).abs() <= 4.0 * deviation + 1e-9, "{what}, deviation {deviation:.4}");
            // The closed form leaves overlaps out: of blips that come every 900 s, as many overlap with one before, or
            // prolong it, as come within its mean length, one interval and the patience.
            let reach = table.blip_mean + settings.interval + row.patience;
            let left_out = closed * reach.as_secs_f64() / 900.0;
            assert!((found - closed).abs() <= left_out + 4.0 * deviation, "{what}, closed form {closed:.4}");
        }
    }
}

#[test]
fn the_figures_of_the_worked_example_are_within_the_sampling_error() {
    // 30 days of another random stream.
    let published = [(1, 71.70), (3, 25.30), (6, 5.97), (7, 3.33), (12, 0.20)];
    let tables = run(SimulationSettings::default());
    for (failures, theirs) in published {
        let row = tables[0].rows.iter().find(|row| row.failures == failures).unwrap();
        let ours = row.false_failovers_per_day();
        let deviation = ((ours + theirs) / 30.0).sqrt();
        assert!((ours - theirs).abs() < 3.0 * deviation, "{failures} failures: {ours} and {theirs}");
    }
    let row = tables[1].rows.iter().find(|row| row.failures == 12).unwrap();
    let ours = row.false_failovers_per_day();
    assert!((ours - 13.2).abs() < 3.0 * ((ours + 13.2) / 30.0_f64).sqrt(), "{ours}");
}

#[test]
fn more_patience_means_fewer_false_failovers_and_later_detection_for_every_seed() {
    for table in run(SimulationSettings { seeds: 60, ..Default::default() }) {
        for pair in table.rows.windows(2) {
            let [eager, patient] = pair else { unreachable!() };
            assert!(eager.failures < patient.failures);
            for (eager, patient) in eager.runs.iter().zip(&patient.runs) {
                assert!(eager.false_failovers >= patient.false_failovers, "{eager:?} {patient:?}");
                assert!(eager.outage.unwrap().from_fault <= patient.outage.unwrap().from_fault);
                assert!(eager.silent_as_health >= patient.silent_as_health);
            }
            assert!(eager.false_failovers() >= patient.false_failovers());
            let p50 = |row: &Row| row.detection(50, |found| found.from_probe).unwrap();
            assert!(p50(eager) < p50(patient));
        }
    }
}

#[test]
fn longer_blips_mean_more_false_failovers_of_every_trigger_that_fires() {
    let tables = run(SimulationSettings::default());
    for (short, long) in tables[0].rows.iter().zip(&tables[1].rows).filter(|(_, long)| long.false_failovers() > 0) {
        assert!(short.false_failovers() < long.false_failovers(), "{}", short.rule);
    }
}

#[test]
fn detection_takes_the_patience_and_the_phase_and_nothing_long_enough_is_missed() {
    for table in run(SimulationSettings::default()) {
        let p50 = |row: &Row| row.detection(50, |found| found.from_probe).unwrap().as_secs();
        let found: Vec<_> = table.rows.iter().map(p50).collect();
        assert_eq!(found, [0, 20, 50, 60, 110, 300, 900], "{:?}", table.blip_mean);
        for row in &table.rows {
            assert_eq!(row.missed(), 0);
            for run in &row.runs {
                let Detected { from_probe, from_fault } = run.outage.unwrap();
                // A blip that the outage cuts short has begun to count already.
                assert!(from_probe <= row.patience);
                assert!(from_probe <= from_fault && from_fault < from_probe + S(10));
            }
        }
    }
}

#[test]
fn silence_read_as_health_misses_nearly_every_outage_and_counted_as_a_failure_none() {
    let tables = run(SimulationSettings::default());
    for row in tables.iter().flat_map(|table| &table.rows) {
        let detected = row.silent_detected(Silence::Note);
        assert!(detected <= 3, "{}: {detected} of 30, by luck", row.rule);
        assert_eq!(row.silent_detected(Silence::Failure), 30, "{}", row.rule);
        // Luck is a trigger that had fired before the probes stopped.
        for run in row.runs.iter().filter(|run| run.silent_as_health) {
            assert_eq!(run.outage.unwrap().from_probe, S(0), "{}", row.rule);
        }
    }
}

#[test]
fn a_window_fires_exactly_when_as_many_failures_as_reach_its_length_back_do() {
    let triggers = ["7", "window 60s", "31", "window 300s", "7 of 7"].map(|text| text.parse().unwrap()).to_vec();
    for table in run(SimulationSettings { triggers, seeds: 20, blip_means: vec![S(120)], ..Default::default() }) {
        let [seven, minute, more, five, newest] = &table.rows[..] else { unreachable!() };
        assert!(more.false_failovers() > 50);
        assert_eq!(seven.runs, minute.runs);
        assert_eq!(more.runs, five.runs);
        assert_eq!(seven.false_failovers(), newest.false_failovers());
    }
}

#[test]
fn failures_among_more_results_are_no_fewer() {
    let triggers: Vec<Rule> = ["3", "3 of 3", "3 of 4", "3 of 6", "3 of 12"].map(|text| text.parse().unwrap()).to_vec();
    let settings = SimulationSettings { triggers, probe_loss: Share::percent(2), ..Default::default() };
    for table in run(settings) {
        assert!(table.rows.iter().all(|row| row.closed_form.is_none()), "there is none with probes that are lost");
        let counts: Vec<_> = table.rows.iter().map(Row::false_failovers).collect();
        assert_eq!(counts[0], counts[1]);
        assert!(counts[1] < counts[2] && counts[2] < counts[3], "{counts:?}");
    }
}

#[test]
fn an_outage_shorter_than_the_patience_is_missed() {
    let outage = S(60);
    let none = SimulationSettings { blips: Rate::per_hour(0), outage, ..Default::default() };
    for row in &run(none)[0].rows {
        // At least 5 and at most 6 probes are due in 60 s, whatever the phase; six in a row are needed for 50 s.
        let expected = if row.patience >= S(60) { 30 } else { 0 };
        assert_eq!(row.missed(), expected, "{}", row.rule);
        assert_eq!(row.silent_detected(Silence::Failure), 30 - expected, "{}", row.rule);
        assert_eq!(row.false_failovers(), 0);
        if row.missed() > 15 {
            assert_eq!(row.detection(50, |found| found.from_fault), None);
        }
    }
}

/// What comes of slots one by one, of which `failing` fail.
fn every_probe(watch: &mut Watch, slots: Range<u64>, failing: &[Range<u64>]) {
    let mut ahead = failing.iter().peekable();
    for slot in slots {
        while ahead.next_if(|run| run.end <= slot).is_some() {}
        watch.probe(slot, ahead.peek().is_some_and(|run| run.start <= slot)).unwrap();
    }
}

#[test]
fn probes_that_are_left_out_change_nothing() {
    let texts =
        ["1", "2", "3", "12", "window 1s", "window 60s", "window 300s", "3 of 5", "1 of 1", "2 of 64", "64 of 64"];
    let losses = [Share::NONE, Share::percent(1), Share::percent(10), Share::percent(60)];
    for (seed, (loss, interval)) in (1..).zip(losses.iter().flat_map(|loss| [(*loss, S(10)), (*loss, S(7))])) {
        let blips = Blips::new(Rate::per_hour(6), S(90)).unwrap();
        let weather = Weather::new(seed, &blips, loss, interval);
        for (text, step) in texts.iter().zip([17_280, 1_000, 7, 1].into_iter().cycle()) {
            let what = format!("{text} with {loss} lost, every {interval:?}, {step} at a time");
            let mut some = Watch::new(text.parse().unwrap(), interval, Silence::Note).unwrap();
            let mut all = some.clone();
            let (mut failing, mut weather) = (Vec::new(), weather.clone());
            for start in (1..17_281).step_by(step) {
                let slots = start..17_281.min(start + step as u64);
                weather.failing(slots.clone(), &mut failing);
                some.live(slots.clone(), &failing).unwrap();
                every_probe(&mut all, slots, &failing);
                assert_eq!(some.failovers(), all.failovers(), "{what}");
            }
            // Nor do they change when an outage that follows is found, or silence that does.
            let until = |watch: &Watch, hear: &dyn Fn(&mut Watch, u64) -> bool| {
                let mut watch = watch.clone();
                (17_281..17_481).find(|slot| hear(&mut watch, *slot))
            };
            let hear = |watch: &mut Watch, slot| watch.probe(slot, true).unwrap();
            assert_eq!(until(&some, &hear), until(&all, &hear), "{what}: an outage");
            let hear = |watch: &mut Watch, slot| watch.missing(slot).unwrap();
            assert_eq!(until(&some, &hear), until(&all, &hear), "{what}: silence");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_answers_and_another_one_others() {
    let settings = |first_seed| SimulationSettings { first_seed, seeds: 3, ..Default::default() };
    assert_eq!(run(settings(7)), run(settings(7)));
    assert_ne!(run(settings(7))[0].rows[0].runs[0], run(settings(8))[0].rows[0].runs[0]);
    // A run depends on its own seed, wherever it stands.
    assert_eq!(run(settings(7))[1].rows[1].runs[1..], run(settings(8))[1].rows[1].runs[..2]);
}

#[test]
fn progress_is_told_often_whether_the_days_or_the_outage_are_long_and_ends_with_all() {
    let heard = |settings: SimulationSettings| {
        let mut heard = Vec::new();
        Simulation::new(settings).unwrap().run(|done, all| heard.push((done, all))).unwrap();
        let all = heard[0].1;
        assert!(heard.is_sorted() && heard.iter().all(|(_, of)| *of == all), "{heard:?}");
        assert_eq!(heard.last(), Some(&(all, all)));
        // The longest step, as a share of all.
        heard
            .windows(2)
            .map(|two| (two[1].0 - two[0].0) as f64 / all as f64)
            .fold(heard[0].0 as f64 / all as f64, f64::max)
    };
    let one = || SimulationSettings { seeds: 1, blip_means: vec![S(20)], ..Default::default() };
    assert!(heard(SimulationSettings { days: 100, ..one() }) < 0.1);
    let outage = S(100 * 86_400);
    // One that silence read as health never finds is lived through to its end.
    assert!(heard(SimulationSettings { outage, triggers: vec!["3".parse().unwrap()], ..one() }) < 0.35);
    let two = heard(SimulationSettings { seeds: 2, ..Default::default() });
    assert!(two <= 0.25, "at least run by run: {two}");
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_bounds() {
    let refusal = |change: fn(&mut SimulationSettings)| {
        let mut settings = SimulationSettings::default();
        change(&mut settings);
        Simulation::new(settings).unwrap_err().to_string()
    };
    assert_eq!(refusal(|s| s.seeds = 0), "seeds is 0; expected 1 to 100000");
    assert_eq!(refusal(|s| s.seeds = 100_001), "seeds is 100001; expected 1 to 100000");
    assert_eq!(
        refusal(|s| s.first_seed = u64::MAX),
        "seed is 18446744073709551615; expected at most 18446744073709551585 for 30 seeds"
    );
    assert_eq!(refusal(|s| s.days = 0), "days is 0; expected 1 to 36500");
    assert_eq!(refusal(|s| s.interval = S(0)), "interval is 0ns; expected above zero, and at most a day");
    assert_eq!(refusal(|s| s.interval = S(86_401)), "interval is 86401s; expected above zero, and at most a day");
    let dense = "expected at most 1000000000 probes in the days or the outage of a seed";
    assert_eq!(refusal(|s| s.interval = Duration::from_nanos(1)), format!("interval is 1ns; {dense}"));
    assert_eq!(refusal(|s| s.outage = S(0)), "outage is 0ns; expected above zero, and at most 36500 days");
    assert_eq!(
        refusal(|s| s.blips = Rate::per_second(1_000_000)),
        "blips is 1000000/s; expected at most 1000000000 in the days of a seed"
    );
    assert_eq!(
        refusal(|s| s.blip_means = vec![S(20), S(0)]),
        "blip_mean is 0ns; expected above zero, and at most a day"
    );
    assert_eq!(refusal(|s| s.blip_means.clear()), "blip_mean is empty; expected at least one");
    assert_eq!(refusal(|s| s.triggers.clear()), "triggers is empty; expected at least one");
    let impossible = Rule::Among { failures: 3, of: 65 };
    let settings = SimulationSettings { triggers: vec![impossible], ..Default::default() };
    let refused = Simulation::new(settings).unwrap_err().to_string();
    assert_eq!(refused, "trigger 3 of 65: of is 65; expected 1 to 64");
}

#[test]
fn the_widest_settings_end() {
    let probing = Probing::every(S(86_400)).unwrap();
    let rule: Rule = "window 900s".parse().unwrap();
    assert_eq!(rule.failures(&probing), 2);
    for settings in [
        SimulationSettings { days: 36_500, interval: S(86_400), seeds: 1, ..Default::default() },
        SimulationSettings { seeds: 1, interval: S(3_600), blip_means: vec![S(86_400)], ..Default::default() },
        SimulationSettings { seeds: 1, outage: Duration::from_nanos(1), probe_loss: Share::ALL, ..Default::default() },
        SimulationSettings { seeds: 1, interval: S(86_400), outage: S(86_400) * 36_500, ..Default::default() },
    ] {
        let _ = run(settings);
    }
}
