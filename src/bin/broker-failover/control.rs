//! The commands of a running supervisor, over its local socket.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use broker_failover::supervisor::config;
use broker_failover::supervisor::control::{Answer, Request, ask};
use broker_failover::supervisor::group::Command;
use broker_failover::supervisor::visible::{one_line, visible};
use serde_json::Value;

use crate::printed::printed;

/// Which supervisor.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Supervisor {
    /// Its configuration file, which names the socket
    #[arg(long, short, value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Its control socket
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// Which supervisor, and which of its groups.
#[derive(clap::Args)]
pub(crate) struct Target {
    #[command(flatten)]
    supervisor: Supervisor,
    /// The group; may be left out where there is only one
    #[arg(long, short)]
    group: Option<String>,
}

/// Which supervisor, and which of its groups, or all of them.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 done; 1 refused, by one group at least; 2 no supervisor answers.")]
pub(crate) struct Targets {
    #[command(flatten)]
    target: Target,
    /// Every group of the supervisor
    #[arg(long, conflicts_with = "group")]
    all: bool,
}

impl Supervisor {
    pub(crate) fn socket(&self) -> Result<PathBuf, String> {
        match (&self.socket, &self.config) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(file)) => config::socket(file).map_err(|error| format!("{}: {error}", file.display())),
            (None, None) => Err("which supervisor? --config or --socket".to_owned()),
        }
    }
}

/// Sends a command and prints the answer. Exit status: 0 done; 1 refused; 2 the supervisor cannot be reached.
pub(crate) fn command(target: &Target, command: Command) -> ExitCode {
    obey(&target.supervisor, &Request::Command { group: target.group.clone(), command })
}

/// The same for one group or for all: then with one line a group, and status 1 if any refused.
pub(crate) fn commands(targets: &Targets, command: Command) -> ExitCode {
    let Targets { target: Target { supervisor, group }, all } = targets;
    let request = match all {
        true => Request::All { all: true, command },
        false => Request::Command { group: group.clone(), command },
    };
    match send(supervisor, &request) {
        Ok(Answer::Ok(Value::Array(answers))) if *all => answers.iter().fold(ExitCode::SUCCESS, |status, answer| {
            let name = answer["group"].as_str().unwrap_or_default();
            match (&answer["ok"], &answer["error"]) {
                (Value::String(done), Value::Null) => {
                    say(&visible(&format!("{name}: {done}")));
                    status
                }
                (_, why) => refuse(&visible(&format!("{name}: {}", why.as_str().unwrap_or("no answer"))), 1),
            }
        }),
        Ok(Answer::Error(why)) if group.is_none() && !all && why.starts_with("which group?") => {
            refuse(&format!("{why} (--group GROUP, or --all)"), 1)
        }
        answer => tell(answer),
    }
}

/// The most of a halt's words that is told, in bytes.
const LONGEST_REASON: usize = 4_096;

/// What a halt is for, in the words of the command line. Whatever they are: no halt fails for them.
pub(crate) fn reason(words: &[OsString]) -> String {
    let text = words.join(OsStr::new(" ")).to_string_lossy().trim().to_owned();
    match text.len() {
        0 => "by hand".to_owned(),
        1..=LONGEST_REASON => text,
        _ => {
            let ends = text.char_indices().map(|(at, _)| at).take_while(|at| at + '…'.len_utf8() <= LONGEST_REASON);
            format!("{}…", text.get(..ends.last().unwrap_or(0)).unwrap_or_default())
        }
    }
}

/// Has the configuration read again. Exit status as for [`command`].
pub(crate) fn reload(supervisor: &Supervisor) -> ExitCode {
    obey(supervisor, &Request::Reload { reload: true })
}

fn obey(supervisor: &Supervisor, request: &Request) -> ExitCode {
    tell(send(supervisor, request))
}

fn tell(answer: Result<Answer, String>) -> ExitCode {
    match answer {
        Ok(Answer::Ok(text)) => {
            let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
            say(&visible(&text));
            ExitCode::SUCCESS
        }
        Ok(Answer::Error(why)) => refuse(&visible(&why), 1),
        Err(why) => refuse(&why, 2),
    }
}

/// Prints the state of every group, or of the one that is asked for.
pub(crate) fn status(target: &Target, json: bool) -> ExitCode {
    let groups = match send(&target.supervisor, &Request::Status { status: true }) {
        Ok(Answer::Ok(Value::Array(groups))) => groups,
        Ok(Answer::Ok(other)) => return refuse(&visible(&format!("an answer that is no status: {other}")), 2),
        Ok(Answer::Error(why)) => return refuse(&visible(&why), 1),
        Err(why) => return refuse(&why, 2),
    };
    let names: Vec<_> = groups.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    let wanted: Vec<_> =
        groups.into_iter().filter(|one| target.group.as_deref().is_none_or(|name| one["name"] == name)).collect();
    if wanted.is_empty() {
        let group = target.group.as_deref().unwrap_or_default();
        return refuse(&format!("no group {group:?}; there is: {}", names.join(", ")), 1);
    }
    let mut out = anstream::stdout().lock();
    let written = match json {
        true => writeln!(out, "{:#}", Value::Array(wanted)),
        false => wanted.iter().try_for_each(|group| writeln!(out, "{}", table(group))),
    };
    printed(written, "the state", ExitCode::SUCCESS)
}

fn send(supervisor: &Supervisor, request: &Request) -> Result<Answer, String> {
    let socket = supervisor.socket()?;
    ask(&socket, request).map_err(|error| unreachable(&socket, &error))
}

pub(crate) fn unreachable(socket: &Path, error: &io::Error) -> String {
    let socket = socket.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "the control socket {socket}: {error}: only the user that the supervisor runs as, and root, may ask it"
            )
        }
        _ => format!("the control socket {socket}: no supervisor answers there: {error}"),
    }
}

fn table(group: &Value) -> String {
    // What people and far sides wrote stays on its line.
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), one_line);
    let mut out = format!("{}: {}", text(&group["name"]), text(&group["order_flow"]));
    let mut more = |present: bool, what: String| {
        if present {
            out.push_str(", ");
            out.push_str(&what);
        }
    };
    more(group["spent"] == true, "epoch spent".to_owned());
    more(group["paused"] == true, "PAUSED".to_owned());
    more(group["halt_confirmed"] == false, "halt UNCONFIRMED".to_owned());
    more(!group["halt_text"].is_null(), text(&group["halt_text"]));
    more(!group["would_answer"].is_null(), format!("would answer {}", text(&group["would_answer"])));
    more(group["shadow"]["differs"].is_string(), format!("shadow differs: {}", text(&group["shadow"]["differs"])));
    more(!group["hook_trouble"].is_null(), text(&group["hook_trouble"]));
    more(!group["waits_for"].is_null(), format!("waits for a person: {}", text(&group["waits_for"])));
    for endpoint in group["endpoints"].as_array().into_iter().flatten() {
        let active = if group["active"] == endpoint["name"] { "*" } else { " " };
        let age = endpoint["health_age"].as_f64().map_or_else(|| "never".to_owned(), |age| format!("{age:.1} s ago"));
        let why = [&endpoint["last_probe_error"], &endpoint["unusable"]].into_iter().find(|why| !why.is_null());
        out.push_str(&format!(
            "\n  {active} {:<16} {:<9} {:>12}  {}",
            text(&endpoint["name"]),
            text(&endpoint["state"]),
            age,
            why.map(text).unwrap_or_default()
        ));
    }
    out
}

fn say(text: &str) {
    // A reader that has seen enough is no failure.
    let _ = writeln!(anstream::stdout(), "{text}");
}

pub(crate) fn refuse(why: &str, status: u8) -> ExitCode {
    let _ = writeln!(anstream::stderr(), "broker-failover: {why}");
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_words_stay_on_their_line_and_steer_no_terminal() {
        let group = json!({
            "name": "ma\u{202e}in",
            "order_flow": "HALT",
            "halt_text": "a\nb\u{1b}[2J",
            "endpoints": [{"name": "ea\u{2066}st", "state": "DOWN", "last_probe_error": "x\ry"}],
        });
        let shown = table(&group);
        assert!(shown.starts_with("ma in: HALT, ") && shown.contains("a b [2J") && shown.contains("ea st"), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\r']), "{shown}");
    }
}
