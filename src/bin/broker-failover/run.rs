//! `run`: the supervisor beside a gateway, until it is told to stop.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use broker_failover::supervisor::config::{Config, Severity, load};
use broker_failover::supervisor::group::task::until_one_ends;
use broker_failover::supervisor::running::{StartOptions, Supervisor};
use broker_failover::supervisor::{control, report, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::log::Log;

/// Watch the configured groups and move flow, unattended, until SIGTERM or SIGINT. SIGHUP has it read the configuration
/// again.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 stopped on request; 2 the configuration is refused, or the supervisor cannot \
    start; 3 the journal failed; 4 a group's loop ended by a fault of its own.")]
pub(crate) struct Arguments {
    /// The configuration file
    config: PathBuf,
    /// Probe and assess, but run no hook and move nothing. The journal is written all the same, a first start included: the
    /// next run goes on from there
    #[arg(long)]
    dry_run: bool,
    /// For a group without state: the endpoint that carries its flow now. The group's name may be left out where there
    /// is only one. May be repeated
    #[arg(long, value_name = "[GROUP=]ENDPOINT")]
    first_start: Vec<String>,
    /// How to log to standard error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log: Format,
}

/// How long a stop waits for the journal's disk.
const FAREWELL: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut log = match log_to_stderr(arguments.log) {
        Ok(log) => log,
        Err(error) => {
            let _ = writeln!(anstream::stderr(), "broker-failover: no thread for the log: {error}");
            return ExitCode::from(2);
        }
    };
    let status = match started(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, status)) => {
            let _ = log.write_all(format!("broker-failover: {message}\n").as_bytes());
            ExitCode::from(status)
        }
    };
    log.flush();
    status
}

fn started(arguments: &Arguments) -> Result<(), (String, u8)> {
    let config = configuration(arguments).map_err(|message| (message, 2))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| (error.to_string(), 2))?;
    let ended = runtime.block_on(supervise(&config, arguments));
    // Whatever still waits for a disk is not waited for.
    runtime.shutdown_background();
    ended
}

fn configuration(arguments: &Arguments) -> Result<Config, String> {
    let file = arguments.config.display();
    let checked = load(&arguments.config).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    for finding in &checked.findings {
        if finding.severity == Severity::Warning || checked.config.is_none() {
            let _ = writeln!(anstream::stderr(), "{file}:{finding}");
        }
    }
    checked.config.ok_or_else(|| format!("{file} is refused; nothing was started"))
}

/// The sockets that were made, removed however it ends. One that is left behind is replaced.
#[derive(Default)]
struct Sockets(Vec<PathBuf>);

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            let _ = std::fs::remove_file(socket);
        }
    }
}

async fn supervise(config: &Config, arguments: &Arguments) -> Result<(), (String, u8)> {
    let refused = |error: &dyn std::fmt::Display| (error.to_string(), 2);
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| refused(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| refused(&error))?;
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| refused(&error))?;
    // All sockets first: a second supervisor must notice the first one before it touches anything.
    let mut sockets = Sockets::default();
    let socket = control::listen(&config.supervisor.socket).map_err(|error| refused(&error))?;
    sockets.0.push(config.supervisor.socket.clone());
    let report_socket = match &config.supervisor.report_socket {
        Some(path) => Some(report::listen(path).map_err(|error| refused(&error))?),
        None => None,
    };
    sockets.0.extend(config.supervisor.report_socket.clone());
    let listener = match config.supervisor.listen {
        Some(address) => {
            Some(TcpListener::bind(address).await.map_err(|error| refused(&format!("listen {address}: {error}")))?)
        }
        None => None,
    };
    let options = StartOptions {
        first_start: arguments.first_start.clone(),
        dry_run: arguments.dry_run,
        seed: u64::from(std::process::id()),
        file: Some(arguments.config.clone()),
    };
    let supervisor = Supervisor::start(config, &options).await.map_err(|error| refused(&error))?;
    let (groups, reports) = (&supervisor.groups, &supervisor.reports);
    let control = tokio::spawn(control::serve(socket, Arc::clone(groups), supervisor.reloads.clone(), reports.clone()));
    let users = Arc::from(&*config.supervisor.report_users);
    let reporting =
        report_socket.map(|socket| tokio::spawn(report::serve(socket, Arc::clone(groups), reports.clone(), users)));
    let status = listener.map(|listener| tokio::spawn(serve::serve(listener, Arc::clone(&supervisor.groups))));
    let listening = config.supervisor.listen.map_or_else(|| "not served".to_owned(), |address| format!("on {address}"));
    let (groups, path) = (config.groups.len(), config.supervisor.socket.display());
    let groups = if groups == 1 { "1 group".to_owned() } else { format!("{groups} groups") };
    let dry = if arguments.dry_run { ", dry run: nothing is moved" } else { "" };
    info!("running: {groups}, control socket {path}, status {listening}{dry}");
    let mut broken = None;
    let reloads = supervisor.reloads.clone();
    let reloading = tokio::spawn(async move {
        // Those that come during a reload are one more.
        while hangup.recv().await.is_some() {
            // It was logged and written down.
            let _ = reloads.reload(None).await;
        }
    });
    let reason = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        name = until_one_ends(&supervisor.groups) => {
            broken = Some(format!("the loop of group {name:?} ended by a fault of its own: nobody decides for it any more"));
            "a group's loop ended"
        }
    };
    info!("stopping: {reason}");
    reloading.abort();
    control.abort();
    status.iter().chain(&reporting).for_each(tokio::task::JoinHandle::abort);
    // Before the journal is let go of: from then on, the next run may have made its own there.
    drop(sockets);
    let stopped = tokio::time::timeout(FAREWELL, supervisor.stop(reason)).await;
    let stopped = stopped.map_err(|_| (format!("the journal's disk has not answered for {FAREWELL:?}"), 3))?;
    stopped.map_err(|error| (error.to_string(), 3))?;
    broken.map_or(Ok(()), |why| Err((why, 4)))
}

fn log_to_stderr(format: Format) -> std::io::Result<Log> {
    use std::io::IsTerminal;
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = Log::start(std::io::stderr())?;
    let queue = log.clone();
    let builder = fmt().with_env_filter(filter).log_internal_errors(false).with_writer(move || queue.clone());
    match format {
        Format::Text => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
    Ok(log)
}
