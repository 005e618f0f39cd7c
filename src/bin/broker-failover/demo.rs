//! `demo`: the story on loopback, as a live screen or as plain lines.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::Style;
use broker_failover::supervisor::demo::{Audience, Frame, Options, Scene, Summary, play};
use broker_failover::supervisor::visible::visible;

use crate::table::{ALARM, CARE, GOOD, PLAIN};

/// The panel's columns on a wide terminal, and where the width is not known.
const WIDEST: usize = 100;

/// Three brokers on loopback, an order client and the real supervisor play an outage story, in about 30 s.
#[derive(clap::Args)]
#[command(
    after_help = "Needs no configuration, server or root. Exit status: 0 every invariant held; 1 one was broken; 2 \
    the story could not be played."
)]
pub(crate) struct Arguments {
    /// Play so many times faster (0.1 to 10). Some waits have a floor, so that a busy machine keeps up: 0.2 s
    /// between probes, 1 s until one that hangs has failed, 10 s for the window of the flap limiter
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Seed of the probes' jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (0.1..=10.0).contains(speed));
    speed.ok_or_else(|| "expected a number from 0.1 to 10".to_owned())
}

impl Arguments {
    const fn options(&self) -> Options {
        Options { speed: self.speed, seed: self.seed }
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let options = arguments.options();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let screen = Screen { live: io::stdout().is_terminal(), lines: 0 };
    let played = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(play(options, screen)).map_err(|error| error.to_string()));
    match played {
        Ok(summary) => {
            // A reader that has seen enough changes nothing about how it went.
            let _ = tell(&mut anstream::stdout().lock(), &summary);
            ExitCode::from(status(&summary))
        }
        Err(why) => {
            let _ = writeln!(anstream::stderr(), "broker-failover: demo: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether the invariants held.
fn status(summary: &Summary) -> u8 {
    u8::from(!summary.held())
}

/// Scenes scroll by; on a terminal a panel below them is drawn anew all the time.
struct Screen {
    live: bool,
    /// Lines of the panel that stand on the screen.
    lines: usize,
}

impl Audience for Screen {
    fn scene(&mut self, scene: &Scene) {
        let mut out = anstream::stdout().lock();
        let Scene { flow, .. } = scene;
        let style = style(flow);
        let text = format!("{}  {style}{flow:<26}{style:#}  {}", clock(scene.at), scene.text);
        // Whoever reads may have gone; the story goes on to its verdict.
        let _ = self.wipe(&mut out).and_then(|()| writeln!(out, "{text}")).and_then(|()| out.flush());
    }

    fn frame(&mut self, frame: &Frame) {
        if self.live {
            let mut out = anstream::stdout().lock();
            let drawn = self.wipe(&mut out).and_then(|()| self.panel(&mut out, frame, width()));
            let _ = drawn.and_then(|()| out.flush());
        }
    }
}

impl Screen {
    fn wipe(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.lines > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.lines)?;
            self.lines = 0;
        }
        Ok(())
    }

    /// In lines of at most `width` columns: one that wraps would be two, and wiping one of them would leave the other.
    fn panel(&mut self, out: &mut impl Write, frame: &Frame, width: usize) -> io::Result<()> {
        let group = &frame.group;
        let mut lines = vec![
            vec![(PLAIN, "-".repeat(width))],
            vec![
                (PLAIN, clock(frame.at)),
                (PLAIN, "  ".to_owned()),
                (style(&group.order_flow), group.order_flow.clone()),
            ],
        ];
        for endpoint in &group.endpoints {
            let active = if group.active.as_ref() == Some(&endpoint.name) { "*" } else { " " };
            let style = match endpoint.state {
                "HEALTHY" => GOOD,
                "DOWN" => ALARM,
                _ => CARE,
            };
            let why = endpoint.last_probe_error.as_deref().unwrap_or_default();
            lines.push(vec![
                (PLAIN, format!("  {active} {:<6} ", endpoint.name)),
                (style, format!("{:<9}", endpoint.state)),
                (PLAIN, format!(" {}", visible(why))),
            ]);
        }
        let Frame { accepted, unknown, refused, .. } = frame;
        let orders = format!("orders: {accepted} accepted, {refused} refused while held, {unknown} unknown at first");
        lines.push(vec![(PLAIN, orders)]);
        lines.iter().try_for_each(|line| cut(out, line, width))?;
        self.lines = lines.len();
        Ok(())
    }
}

/// One line of styled pieces, cut off after `width` characters.
fn cut(out: &mut impl Write, pieces: &[(Style, String)], width: usize) -> io::Result<()> {
    let mut left = width;
    for (style, text) in pieces {
        let text: String = text.chars().take(left).collect();
        left -= text.chars().count();
        write!(out, "{style}{text}{style:#}")?;
    }
    writeln!(out)
}

/// Columns of the panel: those of the terminal, as far as lines need them.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { WIDEST } else { columns.min(WIDEST) }
}

fn style(flow: &str) -> Style {
    match flow.split(' ').next() {
        Some("OPEN") => GOOD,
        Some("HALT") => ALARM,
        _ => CARE,
    }
}

fn clock(at: Duration) -> String {
    format!("{:>7.3}s", at.as_secs_f64())
}

fn tell(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    writeln!(out, "\nSwitches by the journal, each from the fault (or the recovery) on:")?;
    writeln!(out, "  {:<24} {:>10} {:>10} {:>10} {:>10}", "", "detect", "fence", "switch", "reconcile")?;
    for switch in &summary.switches {
        let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1000.0);
        let (detect, fence) = (millis(switch.detect), millis(switch.fence));
        let (moved, reconcile) = (millis(switch.switch), millis(switch.reconcile));
        writeln!(out, "  {:<24} {detect:>10} {fence:>10} {moved:>10} {reconcile:>10}", switch.what)?;
    }
    let Summary { accepted, unknown, unknown_taken, refused, book, .. } = summary;
    writeln!(
        out,
        "\nOrders: {accepted} accepted, {refused} refused while flow was held or halted, {unknown} unknown at first \
         (of which {unknown_taken} had been taken); {book} in the broker's book"
    )?;
    writeln!(out, "\nInvariants:")?;
    for (invariant, result) in &summary.invariants {
        match result {
            Ok(()) => writeln!(out, "  {GOOD}held{GOOD:#}    {invariant}")?,
            Err(why) => writeln!(out, "  {ALARM}BROKEN{ALARM:#}  {invariant}: {why}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// What a story came to whose invariants ended so.
    fn summary(invariants: Vec<(&'static str, Result<(), String>)>) -> Summary {
        Summary {
            scenes: Vec::new(),
            switches: Vec::new(),
            accepted: 3,
            unknown: 0,
            unknown_taken: 0,
            refused: 1,
            book: 3,
            invariants,
        }
    }

    #[test]
    fn an_invariant_that_did_not_hold_is_named_with_what_broke_it_and_is_exit_status_1() {
        let told = |summary: &Summary| {
            let mut out = Vec::new();
            tell(&mut out, summary).unwrap();
            anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
        };
        let well = summary(vec![("one", Ok(())), ("two", Ok(()))]);
        assert_eq!(status(&well), 0);
        assert!(told(&well).ends_with("Invariants:\n  held    one\n  held    two\n"), "{}", told(&well));
        // One is enough, wherever it stands.
        for place in 0..3 {
            let mut results = vec![("one", Ok(())), ("two", Ok(()))];
            results.insert(place, ("never two", Err("order 7 went to west".to_owned())));
            let broken = summary(results);
            assert_eq!(status(&broken), 1, "{place}");
            let told = told(&broken);
            assert!(told.contains("\n  BROKEN  never two: order 7 went to west\n"), "{told}");
            assert_eq!(told.matches("\n  held    ").count(), 2, "{told}");
        }
    }

    #[test]
    fn the_seed_and_the_speed_of_the_command_line_are_those_of_the_story() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        let options = |words: &[&str]| Line::try_parse_from(words).map(|line| line.arguments.options()).unwrap();
        assert_eq!(options(&["demo"]).seed, 1);
        let Options { speed, seed } = options(&["demo", "--seed", "18446744073709551615", "--speed=2.5"]);
        assert_eq!((seed, speed.to_bits()), (u64::MAX, 2.5_f64.to_bits()));
    }

    #[test]
    fn a_line_of_the_panel_is_cut_by_characters_and_its_styles_are_closed() {
        let pieces = [(PLAIN, "ab ".to_owned()), (GOOD, "größer".to_owned()), (PLAIN, " tail".to_owned())];
        for (width, expected) in [
            (0, "{}{/}"),
            (2, "ab{}{/}"),
            (6, "ab {}grö{/}"),
            (9, "ab {}größer{/}"),
            (11, "ab {}größer{/} t"),
            (99, "ab {}größer{/} tail"),
        ] {
            let mut out = Vec::new();
            cut(&mut out, &pieces, width).unwrap();
            let expected = expected.replace("{}", &GOOD.to_string()).replace("{/}", &format!("{GOOD:#}"));
            assert_eq!(String::from_utf8(out).unwrap(), expected + "\n", "{width}");
        }
    }
}
