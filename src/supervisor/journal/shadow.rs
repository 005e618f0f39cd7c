//! What the shadow policy of a group would have done otherwise.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Seconds;

/// Where the two would have differed: as it begins, and once more when it is over.
///
/// `{"endpoint":"east","epoch":1,"group":{..},"shadow":{..}}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowRecord {
    /// The active path when it began.
    pub endpoint: String,
    /// Its epoch.
    pub epoch: u64,
    /// What the group's own policy answered then.
    pub group: ShadowAnswer,
    /// What the shadow policy answered then.
    pub shadow: ShadowAnswer,
    /// How it ended; absent as it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ShadowEnd>,
    /// How long it lasted; absent as it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted: Option<Seconds>,
}

/// One answer to the same question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowAnswer {
    /// Code of the outcome.
    pub outcome: String,
    /// Code of the reason.
    pub reason: String,
    /// State of the active path, as this policy judges it.
    pub state: String,
    /// Where flow would go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Order flow after the answer: `HOLD SWITCHING`.
    pub flow: String,
    /// How long the gate that held would have held on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_in: Option<Seconds>,
}

/// How a difference ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ShadowEnd {
    /// The later of the two came to the same answer.
    Agreed,
    /// What the earlier of the two acted on is over, and the later never came to it.
    Passed,
    /// Flow was moved meanwhile for another reason, or before the later one could come to it.
    Moved,
    /// What was seen is forgotten: a stall, or a reload.
    Forgotten,
}

impl ShadowRecord {
    /// Code of the note as a difference begins.
    pub const DIFFERS: &'static str = "SHADOW_DIFFERS";
    /// Code of the note as it ends.
    pub const ENDED: &'static str = "SHADOW_ENDED";

    /// Code of the note that says it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        if self.ended.is_some() { Self::ENDED } else { Self::DIFFERS }
    }
}

impl fmt::Display for ShadowAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outcome, reason, state, target, flow, opens_in } = self;
        write!(f, "{outcome}")?;
        target.iter().try_for_each(|target| write!(f, " to {target}"))?;
        write!(f, " ({reason}, path {state}, then {flow}")?;
        opens_in.iter().try_for_each(|left| write!(f, ", for {:?} yet", Duration::from_nanos(left.0)))?;
        write!(f, ")")
    }
}

impl fmt::Display for ShadowRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, epoch, group, shadow, ended, lasted } = self;
        write!(f, "{endpoint} #{epoch}: group {group}, shadow {shadow}")?;
        let Some(ended) = ended else { return Ok(()) };
        let lasted = Duration::from_nanos(lasted.map_or(0, |lasted| lasted.0));
        let how = match ended {
            ShadowEnd::Agreed => "then they agreed",
            ShadowEnd::Passed => "then its cause was over",
            ShadowEnd::Moved => "then flow was moved",
            ShadowEnd::Forgotten => "then what was seen was forgotten",
        };
        write!(f, "; for {lasted:?}, {how}")
    }
}
