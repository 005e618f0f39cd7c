//! A hook as a program: argv without a shell, its own process group, killed as a whole.

use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::aside::aside;
use super::{Ended, HookRequest, HookResult, LONGEST_OUTPUT};

/// How long output is still read after the program's exit.
const GRACE: Duration = Duration::from_millis(100);

/// For the programs that are being loaded: behind this many that hang, none is begun.
static LOADING: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(64)));

pub(super) async fn run(
    argv: &[String],
    request: &HookRequest,
    deadline: Instant,
    abandoned: impl Future<Output = ()>,
) -> Ended {
    let Some((program, arguments)) = argv.split_first() else {
        return Ended::of(HookResult::Unreachable("an empty command".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment(request)).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut abandoned = pin!(abandoned);
    // Starting a program blocks until it is loaded, which a hung file system can hold up; so it is done aside.
    let starting = aside(&LOADING, move || command.spawn().map(|child| Started(Some(child))));
    let started = tokio::select! {
        started = timeout_at(deadline, starting) => started,
        () = &mut abandoned => return Ended::of(HookResult::Abandoned),
    };
    let mut child = match started.map(|started| started.and_then(|started| started)) {
        Err(_) => return Ended::of(HookResult::Timeout),
        Ok(Err(error)) => return Ended::of(HookResult::Unreachable(format!("start {program}: {error}"))),
        Ok(Ok(mut started)) => match started.0.take() {
            Some(child) => child,
            None => return Ended::of(HookResult::Unreachable(format!("start {program}: it is gone"))),
        },
    };
    let group = Group::of(&child);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let ended = {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let reading = async { tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err)) };
        let ended = exit(&mut child, reading);
        tokio::select! {
            ended = timeout_at(deadline, ended) => ended.unwrap_or(HookResult::Timeout),
            () = &mut abandoned => HookResult::Abandoned,
        }
    };
    if matches!(ended, HookResult::Timeout | HookResult::Abandoned) {
        // It, and whatever it started, must not act later, in another epoch. The child was not waited for yet, so its
        // number cannot belong to anybody else.
        group.kill();
    }
    Ended { result: ended, muttered: err, output: out }
}

/// The exit of the program. What it left running (a gateway that a switch hook started, say) may hold its output open:
/// that is read for a moment longer, not waited for.
async fn exit(child: &mut Child, reading: impl Future) -> HookResult {
    let mut reading = std::pin::pin!(reading);
    let status = tokio::select! {
        status = child.wait() => {
            let _ = timeout(GRACE, reading).await;
            status
        }
        _ = &mut reading => child.wait().await,
    };
    status.map_or_else(|error| HookResult::Unreachable(error.to_string()), result_of)
}

/// What the program is told, in its environment.
fn environment(request: &HookRequest) -> Vec<(&'static str, String)> {
    let stage = request.stage.to_string();
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        ("BROKER_FAILOVER_STAGE", stage),
        ("BROKER_FAILOVER_GROUP", request.group.clone()),
        ("BROKER_FAILOVER_ENDPOINT", request.endpoint.clone()),
        ("BROKER_FAILOVER_URL", request.url.clone()),
        ("BROKER_FAILOVER_EPOCH", request.epoch.to_string()),
        ("BROKER_FAILOVER_TARGET", optional(&request.target)),
        ("BROKER_FAILOVER_REASON", request.reason.clone()),
        ("BROKER_FAILOVER_DETAIL", optional(&request.detail)),
        ("BROKER_FAILOVER_CANCEL_ON_DISCONNECT", optional(&request.cancel_on_disconnect)),
    ]
}

fn result_of(status: ExitStatus) -> HookResult {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => HookResult::Ok,
        (Some(code), _) => HookResult::Exit(code),
        (None, signal) => HookResult::Exit(signal.map_or(i32::MIN, |signal| -signal)),
    }
}

/// The end of what is printed, read to its end so that the program never blocks on a full pipe.
async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = pipe.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..read).unwrap_or_default());
        if kept.len() > LONGEST_OUTPUT {
            kept.drain(..kept.len() - LONGEST_OUTPUT);
        }
    }
}

/// A program that was just started. Dropped with it inside, nobody wants it any more: it is killed.
struct Started(Option<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &self.0 {
            Group::of(child).kill();
        }
    }
}

/// A child's process group.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // Gone already is as good as killed.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
