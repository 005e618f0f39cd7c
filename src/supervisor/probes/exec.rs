//! `exec`: a program decides; exit status 0 is a success.
//!
//! It runs without a shell, in a process group of its own, and the whole group is killed when the program has ended or
//! the probe is given up, so that nothing is left behind slot by slot. Of its output only the end is kept.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::tcp::left;
use super::{Evidence, Fault, NoEvidence, ProbeFuture, Prober, Verdict, fault, redact};
use crate::engine::Endpoint;
use crate::supervisor::aside::aside;
use crate::supervisor::config::ExecConfig;

/// Of each output, the end that is kept, in bytes.
const KEPT: usize = 4 * 1024;
/// Of the last line of output, the part that is told, in characters.
const TOLD: usize = 200;
/// How long output is still read after the program's end. Its group is dead by then; only who left it holds the pipe.
const GRACE: Duration = Duration::from_millis(50);

/// Runs a program.
#[derive(Debug)]
pub(super) struct ExecProbe {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    competing_session_exit: Option<u8>,
    logon_refused_exit: Option<u8>,
    /// For one program that is being loaded: behind one that hangs, none is begun.
    loading: Arc<Semaphore>,
}

impl ExecProbe {
    /// `None` without a program.
    pub(super) fn new(config: &ExecConfig, endpoint: &Endpoint) -> Option<Self> {
        let (program, arguments) = config.command.split_first()?;
        let environment = vec![
            ("BROKER_FAILOVER_ENDPOINT", endpoint.name.clone()),
            ("BROKER_FAILOVER_REGION", endpoint.region.clone()),
            ("BROKER_FAILOVER_URL", endpoint.url.clone()),
        ];
        Some(Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment,
            competing_session_exit: config.competing_session_exit,
            logon_refused_exit: config.logon_refused_exit,
            loading: Arc::new(Semaphore::new(1)),
        })
    }

    async fn run(&self, deadline: Instant) -> Result<Evidence, Verdict> {
        let started = Instant::now();
        let mut running = self.start(deadline).await?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = {
            let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
            let reading = async { tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err)) };
            let mut reading = std::pin::pin!(reading);
            let (status, read) = tokio::select! {
                status = running.child.wait() => (status, false),
                _ = &mut reading => (running.child.wait().await, true),
            };
            running.kill();
            if !read {
                let _ = timeout(GRACE, reading).await;
            }
            status
        };
        match status {
            Ok(status) if status.success() => Ok(Evidence { latency: started.elapsed(), ..Evidence::default() }),
            Ok(status) => {
                let told =
                    last_line(&err).or_else(|| last_line(&out)).map_or_else(String::new, |line| format!(": {line}"));
                if status.code().is_some_and(|code| self.competing_session_exit.map(i32::from) == Some(code)) {
                    let text = format!("another session holds our login{told}");
                    return Err(Verdict::no_evidence(NoEvidence::CompetingSession, text));
                }
                if status.code().is_some_and(|code| self.logon_refused_exit.map(i32::from) == Some(code)) {
                    return Err(Verdict::fault(Fault::LogonRefused, format!("the credential was not accepted{told}")));
                }
                Err(Verdict::fault(Fault::UnexpectedAnswer, format!("{}{told}", described(status))))
            }
            Err(error) => Err(Verdict::fault(Fault::Error, format!("wait for {}: {error}", self.program))),
        }
    }

    /// Starting a program blocks until it is loaded, which a hung file system can hold up; so it is done aside.
    async fn start(&self, deadline: Instant) -> Result<Running, Verdict> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.env("BROKER_FAILOVER_TIMEOUT_MS", left(deadline).as_millis().to_string());
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = aside(&self.loading, move || command.spawn().map(Running::new)).await;
        started.and_then(|started| started).map_err(|error| fault::of_spawn(&self.program, &error))
    }
}

impl Prober for ExecProbe {
    /// It may log on, for all we know.
    fn overlaps(&self) -> bool {
        false
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move { self.run(deadline).await.map_or_else(|verdict| verdict, Verdict::Success) })
    }
}

/// A program, and the processes that it started. Dropped, all of them are killed.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, group }
    }

    /// Once. The group's number stays taken while anything of the group is alive, so nobody else is hit: a group of
    /// which nothing is left is at worst the number of nothing.
    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // Gone already is as good as killed.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended without a status".to_owned(),
    }
}

/// The end of what is printed, read on so that the program never blocks on a full pipe.
async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = pipe.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        if kept.len() > KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
}

/// The last line that is not blank, without control characters and credentials, shortened.
fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    let words: Vec<_> = line.split_whitespace().map(redact).collect();
    Some(words.join(" ").chars().filter(|c| !c.is_control()).take(TOLD).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_told_short_and_without_credentials() {
        assert_eq!(last_line(b"one\ntwo  https://u:p@h/x \n\n").as_deref(), Some("two https://***@h/x"));
        assert_eq!(last_line(b" \n"), None);
        assert_eq!(last_line(&vec![b'a'; 1_000]).map(|line| line.len()), Some(TOLD));
    }
}
