//! `demo`: three broker front ends, an order client and the real supervisor on loopback, and a story that tests them.

pub mod broker;
pub mod client;
mod hooks;
mod story;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::config::{self, Config};
use super::running::{StartError, StartOptions, Supervisor};
use broker::{Book, Broker};
use client::Client;

pub use story::{Audience, Frame, Scene, Summary, SwitchTimes};

/// Names of the front ends, the primary first.
pub const NAMES: [&str; 3] = ["east", "west", "north"];

/// Why a demo could not be played.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A socket, a file or a certificate could not be made.
    #[error("cannot set the stage: {0}")]
    Stage(String),
    /// The supervisor did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Something did not happen in time.
    #[error("{what} did not happen within {limit:?}; order flow is {flow}")]
    Overdue {
        /// What was waited for.
        what: String,
        /// For how long.
        limit: Duration,
        /// Order flow then.
        flow: String,
    },
    /// The journal failed.
    #[error("the journal failed: {0}")]
    Journal(String),
}

/// How a demo is played.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many times faster than in about 30 s; more than 10 leaves a busy machine no time for the flap limiter's scene.
    pub speed: f64,
    /// Seed of the probes' jitter.
    pub seed: u64,
}

/// Everything that the story plays with.
struct Stage {
    brokers: [Broker; 3],
    book: Arc<Book>,
    client: Arc<Client>,
    supervisor: Supervisor,
    folder: Folder,
}

/// A folder of its own that goes with the demo.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let name = format!("broker-failover-demo-{}-{}", std::process::id(), super::clock::wall());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary folder is no failure of the demo.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Plays the story before `audience`.
///
/// # Errors
/// The stage could not be set, or a scene did not come to its end.
pub async fn play(options: Options, audience: impl Audience) -> Result<Summary, DemoError> {
    let stage = Stage::set(options).await?;
    story::play(stage, options, audience).await
}

impl Stage {
    async fn set(options: Options) -> Result<Self, DemoError> {
        let cannot = |error: &dyn std::fmt::Display| DemoError::Stage(error.to_string());
        let folder = Folder::new().map_err(|error| cannot(&error))?;
        let tls = tls::Tls::new(&folder.0).map_err(|error| cannot(&error))?;
        let book = Arc::new(Book::default());
        let start = || Broker::start(Arc::clone(&book), tls.acceptor.clone());
        let started = tokio::try_join!(start(), start(), start()).map_err(|error| cannot(&error))?;
        let brokers: [Broker; 3] = started.into();
        let addresses: [SocketAddr; 3] = std::array::from_fn(|index| brokers[index].address);
        let client = Arc::new(Client::default());
        let hooks = hooks::serve(Arc::clone(&client), Arc::clone(&book)).await.map_err(|error| cannot(&error))?;
        let text = configuration(&addresses, hooks, options.speed);
        let config = checked(&text, &folder)?;
        let start =
            StartOptions { first_start: vec![NAMES[0].to_owned()], seed: options.seed, ..StartOptions::default() };
        let supervisor = Supervisor::start(&config, &start).await?;
        let reader = supervisor.groups.first().map(|group| group.reader.clone());
        if let Some(reader) = reader {
            let (client, pause) = (Arc::clone(&client), Duration::from_millis(20).div_f64(options.speed.min(4.0)));
            let (addresses, connector) = (addresses.to_vec(), tls.connector.clone());
            tokio::spawn(
                async move { client.trade(reader, addresses, connector, pause, Duration::from_millis(300)).await },
            );
        }
        Ok(Self { brokers, book, client, supervisor, folder })
    }
}

fn checked(text: &str, folder: &Folder) -> Result<Config, DemoError> {
    let checked = config::parse(text, &folder.0);
    checked.config.ok_or_else(|| DemoError::Stage(checked.findings.iter().map(ToString::to_string).collect()))
}

/// The demo's own configuration file: the same text that an operator would write.
fn configuration(addresses: &[SocketAddr; 3], hooks: SocketAddr, speed: f64) -> String {
    let scaled = |millis: f64| format!("{}us", (millis * 1000.0 / speed) as u64);
    // However fast the story is played, a busy machine needs time to answer a probe, and to lose the primary and find it
    // stable once more inside the failback window. Slots that are late by three intervals are a stall, which forgets what
    // was seen: such a machine would forget more often than it sees.
    let at_least = |millis: f64, least: f64| scaled(millis.max(least * speed));
    let (interval, failing) = (at_least(500.0, 200.0), at_least(125.0, 100.0));
    let timeout = at_least(1_000.0, 1_000.0);
    let (cooldown, window) = (scaled(2000.0), at_least(12_000.0, 10_000.0));
    let mut text = format!(
        "[supervisor]\nsocket = \"control.sock\"\njournal = \"journal\"\n\n\
         [[group]]\nname = \"demo\"\n\
         [group.policy]\ncooldown = \"{cooldown}\"\nmax_failbacks_per_window = 1\nfailback_window = \"{window}\"\n\
         [group.probing]\ninterval = \"{interval}\"\ninterval_when_failing = \"{failing}\"\ntimeout = \"{timeout}\"\n"
    );
    for (name, address) in NAMES.iter().zip(addresses) {
        let role = match *name {
            "east" => "primary = true",
            "west" => "priority = 10",
            _ => "priority = 20",
        };
        text.push_str(&format!(
            "[[group.endpoint]]\nname = \"{name}\"\nregion = \"{name}\"\nurl = \"https://{address}\"\n{role}\n\
             cancel_on_disconnect = \"none\"\n\
             probe = {{ http = {{ path = \"/health\", expect_body = \"ok\", ca_file = \"ca.pem\", server_name = \"localhost\" }} }}\n"
        ));
    }
    text.push_str(&format!(
        "[group.hooks]\n\
         fence = {{ webhook = \"http://{hooks}/fence\", timeout = \"5s\", proves = \"nothing leaves under that epoch\" }}\n\
         switch = {{ webhook = \"http://{hooks}/switch\", timeout = \"5s\" }}\n\
         reconcile = {{ webhook = \"http://{hooks}/reconcile\", timeout = \"5s\", idempotent = true }}\n\
         halt = {{ webhook = \"http://{hooks}/halt\", timeout = \"5s\", idempotent = true }}\n"
    ));
    text
}
