//! `demo`: the story on loopback, as a live screen or as plain lines.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use broker_failover::supervisor::demo::{Audience, Frame, Options, Scene, Summary, play};

const GOOD: Style = AnsiColor::Green.on_default();
const CARE: Style = AnsiColor::Yellow.on_default();
const ALARM: Style = AnsiColor::Red.on_default().bold();

/// Three brokers on loopback, an order client and the real supervisor play an outage story, in about 30 s.
#[derive(clap::Args)]
#[command(
    after_help = "Needs no configuration, server or root. Exit status: 0 every invariant held; 1 one was broken; 2 \
    the story could not be played."
)]
pub(crate) struct Arguments {
    /// Play so many times faster (0.1 to 20)
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Seed of the probes' jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "expected a number from 0.1 to 20".to_owned())?;
    if (0.1..=20.0).contains(&speed) { Ok(speed) } else { Err("expected a number from 0.1 to 20".to_owned()) }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let options = Options { speed: arguments.speed, seed: arguments.seed };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let screen = Screen { live: io::stdout().is_terminal(), lines: 0 };
    let played = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(play(options, screen)).map_err(|error| error.to_string()));
    match played {
        Ok(summary) => {
            // A reader that has seen enough changes nothing about how it went.
            let _ = tell(&mut anstream::stdout().lock(), &summary);
            if summary.held() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(why) => {
            let _ = writeln!(anstream::stderr(), "broker-failover: demo: {why}");
            ExitCode::from(2)
        }
    }
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
        let flow = scene.group.as_ref().map_or("", |group| &group.order_flow);
        let style = style(flow);
        let text = format!("{}  {style}{flow:<26}{style:#}  {}", clock(scene.at), scene.text);
        // Whoever reads may have gone; the story goes on to its verdict.
        let _ = self.wipe(&mut out).and_then(|()| writeln!(out, "{text}")).and_then(|()| out.flush());
    }

    fn frame(&mut self, frame: &Frame) {
        if self.live {
            let mut out = anstream::stdout().lock();
            let _ = self.wipe(&mut out).and_then(|()| self.panel(&mut out, frame)).and_then(|()| out.flush());
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

    fn panel(&mut self, out: &mut impl Write, frame: &Frame) -> io::Result<()> {
        let group = &frame.group;
        let style = style(&group.order_flow);
        writeln!(out, "{:-<100}", "")?;
        writeln!(out, "{}  {style}{}{style:#}", clock(frame.at), group.order_flow)?;
        for endpoint in &group.endpoints {
            let active = if group.active.as_ref() == Some(&endpoint.name) { "*" } else { " " };
            let style = match endpoint.state {
                "HEALTHY" => GOOD,
                "DOWN" => ALARM,
                _ => CARE,
            };
            let why = endpoint.last_probe_error.as_deref().unwrap_or_default();
            let why: String = why.chars().take(70).collect();
            writeln!(out, "  {active} {:<6} {style}{:<9}{style:#} {why}", endpoint.name, endpoint.state)?;
        }
        let Frame { accepted, unknown, refused, .. } = frame;
        writeln!(out, "orders: {accepted} accepted, {refused} refused while held, {unknown} unknown at first")?;
        self.lines = group.endpoints.len() + 3;
        Ok(())
    }
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
