//! The command line: argument parsing and output only.

mod calibrate;
mod calibrate_html;
mod calibrate_output;
mod calibrate_plots;
mod calibrate_replay;
mod calibrate_replay_output;
mod calibrate_times;
mod check;
mod control;
mod demo;
mod follow;
mod journal;
mod log;
mod plan;
mod plan_output;
mod printed;
mod replay;
mod run;
mod simulate;
mod simulate_output;
mod simulate_plot;
mod svg;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use broker_failover::supervisor::group;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Decides which network path to a broker carries order flow, and refuses every switch that is not evidenced.
#[derive(Parser)]
#[command(name = "broker-failover", version, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 done; 2 the command line or a file is at fault; more in the help of each command."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Check(check::Arguments),
    Plan(Box<plan::Arguments>),
    Simulate(Box<simulate::Arguments>),
    Calibrate(Box<calibrate::Arguments>),
    Run(run::Arguments),
    /// Print the state of a running supervisor
    Status {
        #[command(flatten)]
        target: control::Target,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    Follow(follow::Arguments),
    /// Say that the active path, in this epoch, can no longer submit orders
    ConfirmFence {
        #[command(flatten)]
        target: control::Target,
        /// The epoch that was fenced
        #[arg(long)]
        epoch: u64,
    },
    /// Say that orders in flight are settled against the broker's book for this epoch
    ConfirmReconciled {
        #[command(flatten)]
        target: control::Target,
        /// The epoch
        #[arg(long)]
        epoch: u64,
    },
    /// Let a hook of which it is not known whether it ran be repeated
    RepeatHook(control::Target),
    /// Halt trading
    Halt {
        #[command(flatten)]
        targets: control::Targets,
        /// Why, in free words: halt --config CONFIG desk asked [default: by hand]
        #[arg(value_name = "WORDS", allow_negative_numbers = true)]
        words: Vec<OsString>,
    },
    /// Lift a halt
    Resume(control::Targets),
    /// Give the active path a new epoch: for a fence that could not be completed and a path that works
    Rearm(control::Target),
    /// Move flow to an endpoint
    Switchover {
        #[command(flatten)]
        target: control::Target,
        /// The endpoint
        endpoint: String,
    },
    /// Move flow back to the primary, through every gate
    Failback(control::Target),
    /// Go on probing and assessing, but run no hook and move nothing
    Pause(control::Targets),
    /// End a pause
    Unpause(control::Targets),
    /// Read the configuration again and take it over, or say why not; the same as SIGHUP
    #[command(after_help = "Exit status: 0 taken over, or nothing differs; 1 refused, nothing was changed; 2 no \
        supervisor answers.")]
    Reload(control::Supervisor),
    /// Let an endpoint be a target again that was found to front another account: you made sure that it does not
    Unbar {
        #[command(flatten)]
        target: control::Target,
        /// The endpoint
        endpoint: String,
    },
    /// Let probes log on again after two logons were refused: you made sure of the credential
    ClearLogons(control::Target),
    /// Put an endpoint into maintenance, or take it out
    Maintenance {
        #[command(flatten)]
        target: control::Target,
        /// The endpoint
        endpoint: String,
        /// on or off
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    Replay(replay::Arguments),
    Journal(journal::Arguments),
    /// Print a completion script: broker-failover completions bash > /etc/bash_completion.d/broker-failover
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// clap_complete names the cases of its bash script after a program `broker` with a command `failover`, and looks them up
/// under the program's own name (clap issue 6421): without this nothing below the commands' names is completed.
fn whole_bash(script: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(script).replace("broker__subcmd__failover", "broker__failover").into_bytes()
}

/// The command line. A halt must not fail because a word of its reason looks like a flag: what is none is a word.
fn parsed() -> Result<Cli, ExitCode> {
    let given: Vec<_> = std::env::args_os().collect();
    let refused = match Cli::try_parse_from(&given) {
        Ok(cli) => return Ok(cli),
        Err(refused) => refused,
    };
    let halt = given.get(1).is_some_and(|name| name == "halt") && refused.kind() == ErrorKind::UnknownArgument;
    let again = halt.then(|| Cli::try_parse_from(reason_last(&given)).ok()).flatten();
    again.ok_or_else(|| {
        if refused.use_stderr() {
            refused.exit();
        }
        // Help and the version.
        printed::printed(refused.print(), "the answer", ExitCode::SUCCESS)
    })
}

/// The arguments of `halt` with its flags first and then, as such, the words.
fn reason_last(given: &[OsString]) -> Vec<OsString> {
    let command = Cli::command();
    let flags: Vec<_> = command.find_subcommand("halt").into_iter().flat_map(|halt| halt.get_arguments()).collect();
    let (mut first, mut words) = (given.iter().take(2).cloned().collect::<Vec<_>>(), vec![OsString::from("--")]);
    let mut rest = given.iter().skip(2);
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            words.extend(rest.by_ref().cloned());
            break;
        }
        let (name, value) = text.split_once('=').map_or((&*text, false), |(name, _)| (name, true));
        let flag = flags.iter().find(|flag| {
            let long = flag.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long));
            long || flag.get_short().is_some_and(|short| name.strip_prefix('-') == Some(&*short.to_string()))
        });
        match flag {
            None => words.push(argument.clone()),
            Some(flag) => {
                first.push(argument.clone());
                first.extend(rest.by_ref().take(usize::from(!value && flag.get_action().takes_values())).cloned());
            }
        }
    }
    first.extend(words);
    first
}

fn main() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    match cli.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Status { target, json } => control::status(&target, json),
        Command::Follow(arguments) => follow::run(&arguments),
        Command::ConfirmFence { target, epoch } => control::command(&target, group::Command::ConfirmFence { epoch }),
        Command::ConfirmReconciled { target, epoch } => {
            control::command(&target, group::Command::ConfirmReconciled { epoch })
        }
        Command::RepeatHook(target) => control::command(&target, group::Command::RepeatHook),
        Command::Halt { targets, words } => {
            control::commands(&targets, group::Command::Halt { text: control::reason(&words) })
        }
        Command::Resume(targets) => control::commands(&targets, group::Command::Resume),
        Command::Rearm(target) => control::command(&target, group::Command::Rearm),
        Command::Switchover { target, endpoint } => {
            control::command(&target, group::Command::Switchover { target: endpoint })
        }
        Command::Failback(target) => control::command(&target, group::Command::Failback),
        Command::Pause(targets) => control::commands(&targets, group::Command::Pause),
        Command::Reload(supervisor) => control::reload(&supervisor),
        Command::Unpause(targets) => control::commands(&targets, group::Command::Unpause),
        Command::Maintenance { target, endpoint, state } => {
            control::command(&target, group::Command::Maintenance { endpoint, on: state == "on" })
        }
        Command::Unbar { target, endpoint } => control::command(&target, group::Command::Unbar { endpoint }),
        Command::ClearLogons(target) => control::command(&target, group::Command::ClearLogons),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "broker-failover", &mut script);
            if shell == clap_complete::Shell::Bash {
                script = whole_bash(&script);
            }
            let mut out = std::io::stdout().lock();
            let written = out.write_all(&script).and_then(|()| out.flush());
            printed::printed(written, "the script", ExitCode::SUCCESS)
        }
    }
}
