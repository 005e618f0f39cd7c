//! The story: primary lost, back, lost again, oscillating, back, everything lost.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::broker::Mode;
use super::{DemoError, Options, Stage};
use crate::engine::Timestamp;
use crate::supervisor::group::GroupStatus;
use crate::supervisor::journal::{self, Body, ReadError, SwitchStage};

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Since the curtain rose.
    pub at: Duration,
    /// In words.
    pub text: String,
    /// Order flow that it is about.
    pub flow: String,
    /// The group, as it was then.
    pub group: Option<GroupStatus>,
}

/// How long each stage of one switch took, by the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchTimes {
    /// FAILOVER or FAILBACK, and the paths.
    pub what: String,
    /// From the fault, or from the recovery, until it was decided to leave the path.
    pub detect: Duration,
    /// Until the path that is left was fenced.
    pub fence: Duration,
    /// Until the transport was moved.
    pub switch: Duration,
    /// Until orders in flight were settled and flow was open.
    pub reconcile: Duration,
}

/// What began a switch.
struct Cause {
    what: String,
    at: Timestamp,
}

/// What it came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The scenes in order.
    pub scenes: Vec<Scene>,
    /// One per switch.
    pub switches: Vec<SwitchTimes>,
    /// Orders that the broker said yes to.
    pub accepted: usize,
    /// Orders of which nobody knew at first.
    pub unknown: usize,
    /// Of these, how many the broker had taken.
    pub unknown_taken: usize,
    /// Orders that were not sent, since flow was held or halted.
    pub refused: u64,
    /// Orders in the broker's book.
    pub book: usize,
    /// The invariants, and what broke them.
    pub invariants: Vec<(&'static str, Result<(), String>)>,
}

impl Summary {
    /// Whether every invariant held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.invariants.iter().all(|(_, result)| result.is_ok())
    }
}

/// What a live screen shows.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Since the curtain rose.
    pub at: Duration,
    /// The group now.
    pub group: GroupStatus,
    /// Orders that left, and were accepted.
    pub accepted: usize,
    /// Orders of which nobody knows.
    pub unknown: usize,
    /// Orders that were not sent, since flow was held or halted.
    pub refused: u64,
}

/// Watches a story as it is played.
pub trait Audience {
    /// Something happened.
    fn scene(&mut self, scene: &Scene);
    /// Some time passed; only for a screen.
    fn frame(&mut self, frame: &Frame);
}

/// How often a live screen is drawn.
const FRAME: Duration = Duration::from_millis(100);

struct Play<'a, F> {
    stage: &'a Stage,
    begun: Instant,
    limit: Duration,
    audience: F,
    drawn: Instant,
    scenes: Vec<Scene>,
    causes: Vec<Cause>,
}

pub(super) async fn play(stage: Stage, options: Options, audience: impl Audience) -> Result<Summary, DemoError> {
    let mut play = Play {
        stage: &stage,
        begun: Instant::now(),
        // However busy the machine is, a scene that takes this long will not come.
        limit: Duration::from_secs_f64(60.0 / options.speed.min(1.0)),
        audience,
        drawn: Instant::now(),
        scenes: Vec::new(),
        causes: Vec::new(),
    };
    play.acts(options).await?;
    let (scenes, causes) = (play.scenes, play.causes);
    stage.end(scenes, &causes).await
}

impl<F: Audience> Play<'_, F> {
    async fn acts(&mut self, options: Options) -> Result<(), DemoError> {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds / options.speed);
        self.until("order flow opens on east", |group| group.order_flow.starts_with("OPEN east")).await?;
        self.pause(seconds(3.0)).await;

        self.say("east dies: its port refuses connections").await;
        self.switch("FAILOVER east -> west", 0, Mode::Refuse, "OPEN west").await?;
        self.pause(seconds(3.0)).await;

        self.say("east is back; a failback waits for the cooldown and for three successes in a row").await;
        self.switch("FAILBACK west -> east", 0, Mode::Healthy, "OPEN east").await?;
        self.pause(seconds(3.0)).await;

        self.say("east hangs: it accepts connections and never answers").await;
        self.switch("FAILOVER east -> west", 0, Mode::Hang, "OPEN west").await?;
        self.pause(seconds(2.0)).await;

        self.say("east is back once more: one failback inside the window is all that is allowed").await;
        self.set(0, Mode::Healthy);
        self.until_answer("the flap limiter holds the failback back", "FLAP_SUPPRESSED").await?;
        self.say("FLAP_SUPPRESSED: the primary oscillates, flow stays on west").await;
        self.pause(seconds(2.0)).await;

        self.say("the window passes and east stays well").await;
        self.switch("FAILBACK west -> east", 0, Mode::Healthy, "OPEN east").await?;
        self.pause(seconds(3.0)).await;

        self.say("everything dies: east answers 500, west cuts connections, north breaks TLS").await;
        self.set(1, Mode::Cut);
        self.set(2, Mode::BreakTls);
        self.until("west and north are DOWN", |group| group.endpoints.iter().skip(1).all(|one| one.state == "DOWN"))
            .await?;
        self.set(0, Mode::Error500);
        self.until("trading halts", |group| group.order_flow == "HALT NO_TARGET_AVAILABLE").await?;
        self.until("the halt is confirmed by its hook", |group| group.halt_confirmed == Some(true)).await?;
        self.say("nowhere to go: trading is halted, and the halt hook confirmed it").await;
        self.pause(seconds(2.0)).await;
        Ok(())
    }

    async fn pause(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let group = self.group().await;
            self.draw(group.as_ref());
            tokio::time::sleep((end - Instant::now()).min(FRAME)).await;
        }
    }

    fn draw(&mut self, group: Option<&GroupStatus>) {
        let Some(group) = group.filter(|_| self.drawn.elapsed() >= FRAME) else { return };
        self.drawn = Instant::now();
        let frame = self.stage.client.look(|record| Frame {
            at: self.begun.elapsed(),
            group: group.clone(),
            accepted: record.sent.len() - record.unknown().count(),
            unknown: record.unknown().count(),
            refused: record.refused,
        });
        self.audience.frame(&frame);
    }

    fn set(&self, broker: usize, mode: Mode) {
        if let Some(broker) = self.stage.brokers.get(broker) {
            broker.set(mode);
        }
    }

    /// Changes how a front end behaves and times what follows.
    async fn switch(&mut self, what: &str, broker: usize, mode: Mode, then: &str) -> Result<(), DemoError> {
        let epoch = self.group().await.and_then(|group| group.epoch).unwrap_or(0);
        self.causes.push(Cause { what: what.to_owned(), at: self.stage.supervisor.now() });
        self.set(broker, mode);
        let (held, fenced) = (format!("{what}: flow is held"), format!("{what}: fenced, a new epoch"));
        self.passing(&held, Some("HOLD SWITCHING"), |group| !group.may_submit || group.epoch > Some(epoch)).await?;
        self.passing(&fenced, Some("HOLD RECONCILING"), |group| group.epoch > Some(epoch)).await?;
        self.until(&format!("{what}: reconciled, flow is open"), |group| group.order_flow.starts_with(then)).await
    }

    async fn until(&mut self, what: &str, reached: impl Fn(&GroupStatus) -> bool) -> Result<(), DemoError> {
        self.passing(what, None, reached).await
    }

    /// Waits for what leads through the order flow `through`, which may be over before anybody looks.
    async fn passing(
        &mut self,
        what: &str,
        through: Option<&str>,
        reached: impl Fn(&GroupStatus) -> bool,
    ) -> Result<(), DemoError> {
        let deadline = Instant::now() + self.limit;
        loop {
            let group = self.group().await;
            self.draw(group.as_ref());
            if group.as_ref().is_some_and(&reached) {
                self.scene(what.to_owned(), through, group);
                return Ok(());
            }
            if Instant::now() > deadline {
                let flow = group.map(|group| group.order_flow).unwrap_or_default();
                return Err(DemoError::Overdue { what: what.to_owned(), limit: self.limit, flow });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the last failback evaluation gave this outcome.
    async fn until_answer(&mut self, what: &str, outcome: &str) -> Result<(), DemoError> {
        self.until(what, |group| group.failback_answer.as_deref() == Some(outcome)).await
    }

    async fn say(&mut self, text: &str) {
        let group = self.group().await;
        self.scene(text.to_owned(), None, group);
    }

    fn scene(&mut self, text: String, flow: Option<&str>, group: Option<GroupStatus>) {
        let seen = || group.as_ref().map(|group| group.order_flow.clone()).unwrap_or_default();
        let scene = Scene { at: self.begun.elapsed(), text, flow: flow.map_or_else(seen, str::to_owned), group };
        self.audience.scene(&scene);
        self.scenes.push(scene);
    }

    async fn group(&self) -> Option<GroupStatus> {
        self.stage.supervisor.groups.first()?.status().await
    }
}

impl Stage {
    async fn end(self, scenes: Vec<Scene>, causes: &[Cause]) -> Result<Summary, DemoError> {
        let Self { book, client, supervisor, folder, .. } = self;
        supervisor.stop("the story is over").await.map_err(|error| DemoError::Journal(error.to_string()))?;
        let journal = folder.0.join("journal");
        let switches = times(&journal, causes).map_err(|error| DemoError::Journal(error.to_string()))?;
        let journal = journal::verify(&journal, journal::follow_nothing);
        let summary = client.look(|record| {
            let accepted = record.sent.len() - record.unknown().count();
            let unknown_taken = record.unknown().filter(|sent| book.has(sent.id)).count();
            let lost = record.sent.iter().find(|sent| sent.fate == super::client::Fate::Accepted && !book.has(sent.id));
            let nothing_lost = match lost {
                Some(sent) => Err(format!("order {} was accepted and is not in the book", sent.id)),
                None if accepted + unknown_taken == book.taken() => Ok(()),
                None => Err(format!(
                    "{} orders in the book, {} known to the client",
                    book.taken(),
                    accepted + unknown_taken
                )),
            };
            let invariants = vec![
                ("never two unfenced paths, by the order client's own record", record.never_two_unfenced_paths()),
                ("no order lost or doubled between client and broker", nothing_lost),
                (
                    "the journal is whole and replays to the same decisions",
                    journal.map(|_| ()).map_err(|error| error.to_string()),
                ),
            ];
            let (unknown, refused, taken) = (record.unknown().count(), record.refused, book.taken());
            Summary { scenes, switches, accepted, unknown, unknown_taken, refused, book: taken, invariants }
        });
        Ok(summary)
    }
}

/// When each stage that followed from a cause was come to, by the journal.
fn times(folder: &Path, causes: &[Cause]) -> Result<Vec<SwitchTimes>, ReadError> {
    let mut stages = Vec::new();
    journal::for_each(folder, |record, _| {
        if let Body::Stage(stage) = &record.body {
            stages.push((stage.stage, record.at));
        }
    })?;
    let of = |Cause { what, at }: &Cause| {
        let mut from = *at;
        let mut rest = stages.iter().filter(|(_, reached)| *reached >= *at);
        let mut took = |wanted: SwitchStage| {
            let (_, reached) = rest.find(|(stage, _)| *stage == wanted)?;
            let nanos = reached.nanos_since(std::mem::replace(&mut from, *reached));
            Some(Duration::from_nanos(nanos))
        };
        Some(SwitchTimes {
            what: what.clone(),
            detect: took(SwitchStage::Decided)?,
            fence: took(SwitchStage::Fenced)?,
            switch: took(SwitchStage::Switched)?,
            reconcile: took(SwitchStage::Open)?,
        })
    };
    Ok(causes.iter().filter_map(of).collect())
}
