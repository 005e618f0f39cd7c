//! The command line: argument parsing and output only.

mod journal;
mod replay;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Decides which network path to a broker carries order flow, and refuses every switch that is not evidenced.
#[derive(Parser)]
#[command(name = "broker-failover", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Journal(arguments) => journal::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "broker-failover", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}
