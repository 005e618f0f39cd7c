//! The command line: argument parsing and output only.

mod check;
mod journal;
mod replay;
mod table;

use std::io::Write;
use std::process::ExitCode;

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
    Check(check::Arguments),
    Replay(replay::Arguments),
    Journal(journal::Arguments),
    /// Print a completion script: broker-failover completions bash > /etc/bash_completion.d/broker-failover
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "broker-failover", &mut script);
            // A reader that has seen enough (`| head`) is no failure.
            let _ = std::io::stdout().write_all(&script);
            ExitCode::SUCCESS
        }
    }
}
