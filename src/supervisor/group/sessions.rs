//! What the group hears of the sessions that are held open to its endpoints. None of it is evidence.

use super::super::scheduler::Confirmed;
use super::core::{Core, Effect, note};

/// Something about the session to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionNews {
    /// It stands.
    Open,
    /// It ended.
    Lost {
        /// How, in words.
        text: String,
        /// Whether probes were asked for.
        confirmed: Confirmed,
    },
    /// It could not be opened.
    Refused {
        /// Why, in words.
        text: String,
        /// Whether it was its logon that was refused.
        logon_refused: bool,
    },
    /// What held it died by a fault of its own; another takes its place.
    Died {
        /// How, in words.
        text: String,
    },
}

/// What is known of one endpoint's session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionState {
    /// `open`, `lost`, `refused` or `died`.
    pub(super) now: &'static str,
    /// How often one ended, since this supervisor started.
    pub(super) lost: u64,
}

impl Core {
    /// Writes it down. What is the same as before is not news.
    pub(super) fn hear_of_session(&mut self, endpoint: String, news: SessionNews, effects: &mut Vec<Effect>) {
        match &news {
            SessionNews::Open => self.session_accepted(&endpoint, effects),
            SessionNews::Refused { text, logon_refused: true } => self.session_refused(&endpoint, text, effects),
            _ => {}
        }
        let state = self.sessions.entry(endpoint.clone()).or_default();
        let before = state.now;
        let (now, code, text) = match news {
            SessionNews::Open => ("open", "SESSION_OPEN", "a session is held".to_owned()),
            SessionNews::Lost { text, confirmed } => {
                state.lost += 1;
                ("lost", "SESSION_LOST", format!("{text}; {}", in_words(confirmed)))
            }
            SessionNews::Refused { text, .. } => ("refused", "SESSION_REFUSED", text),
            SessionNews::Died { text } => ("died", "WATCH_DIED", format!("{text}; it is started again")),
        };
        state.now = now;
        if (before, now) != ("refused", "refused") {
            note(effects, code, format!("{endpoint}: {text}"));
        }
    }

    /// The state of an endpoint's session; `None` if none is held to it.
    pub(super) fn session(&self, endpoint: &str) -> Option<SessionState> {
        let watched = self.config().endpoints.iter().any(|one| one.endpoint.name == endpoint && one.watch.is_some());
        let unheard = SessionState { now: "opening", lost: 0 };
        watched.then(|| self.sessions.get(endpoint).cloned().unwrap_or(unheard))
    }
}

fn in_words(confirmed: Confirmed) -> &'static str {
    match confirmed {
        Confirmed::Begun => "it is probed at once",
        Confirmed::Joined => "it is being probed at once already",
        Confirmed::Spent => "it was probed at once too often lately: only the ordinary slots go on",
        Confirmed::Barred => "it cannot be probed at once now: it wants patience, or its results are not taken",
        Confirmed::Unwatched => "it is not probed any more",
    }
}
