//! What differs between two configurations, what that does to each group, and what a reload refuses whatever the state.
//!
//! Nothing here has an effect. What the state of a group refuses is [the group's](super::group) to say; who asks all
//! groups and then has all of them or none change is the [running supervisor](super::running).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::engine::{Endpoint, Policy, PolicySettings, ResumeAfterHalt, Silence, Trigger, TriggerRule};
use crate::feed::WhenStale;
use crate::planning::counted;

use super::config::{
    CancelOnDisconnect, Config, Depth, EndpointConfig, Exclusivity, FailbackMode, GroupConfig, Hooks, Probing, Require,
    SupervisorConfig, redacted,
};

/// What a reload does to one group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupChange {
    /// The group as it becomes.
    pub config: GroupConfig,
    /// What differs, in words, without secrets.
    pub words: Vec<String>,
    /// Whether the policy differs: the engine starts as after a restart of the monitor.
    pub policy: bool,
    /// The endpoints, by name, that are other paths than before: new, at another address, or asked otherwise.
    pub others: BTreeSet<String>,
    /// The endpoints, by name, of which nothing is known any more: those, and all of them where the policy differs.
    pub unknown: BTreeSet<String>,
    /// The endpoints, by name, whose slots begin anew: those, and all of them where the pace differs.
    pub rewatched: BTreeSet<String>,
}

/// What leads from `old` to `new`: the groups that differ. Empty if nothing does.
///
/// # Errors
/// What only a restart can change, one sentence each: what was found, and what was expected.
pub fn compare(old: &Config, new: &Config) -> Result<Vec<GroupChange>, Vec<String>> {
    let mut refused = supervisor(&old.supervisor, &new.supervisor);
    for gone in old.groups.iter().filter(|group| find(new, &group.name).is_none()) {
        refused.push(format!(
            "group {:?} is not in the file any more; expected every group that runs (a group is removed or renamed by \
             a restart)",
            gone.name
        ));
    }
    for added in new.groups.iter().filter(|group| find(old, &group.name).is_none()) {
        refused.push(format!(
            "group {:?} does not run; expected only groups that do (a group is added or renamed by a restart, which \
             asks for --first-start)",
            added.name
        ));
    }
    let mut changes = Vec::new();
    for (before, after) in old.groups.iter().filter_map(|before| Some((before, find(new, &before.name)?))) {
        refused.extend(primary(before, after));
        refused.extend(feed(before, after));
        changes.extend(of_group(before, after));
    }
    if refused.is_empty() { Ok(changes) } else { Err(refused) }
}

fn find<'a>(config: &'a Config, name: &str) -> Option<&'a GroupConfig> {
    config.groups.iter().find(|group| group.name == name)
}

fn supervisor(old: &SupervisorConfig, new: &SupervisorConfig) -> Vec<String> {
    // Every key is named: a new one cannot be forgotten here.
    let SupervisorConfig { listen, socket, report_socket, report_users, journal, segment_size, keep_for, keep_size } =
        old;
    let mut words = Vec::new();
    differs(&mut words, "listen", listen, &new.listen);
    differs(&mut words, "socket", socket, &new.socket);
    differs(&mut words, "report_socket", report_socket, &new.report_socket);
    differs(&mut words, "report_users", report_users, &new.report_users);
    differs(&mut words, "journal", journal, &new.journal);
    differs(&mut words, "segment_size", segment_size, &new.segment_size);
    differs(&mut words, "keep_for", keep_for, &new.keep_for);
    differs(&mut words, "keep_size", keep_size, &new.keep_size);
    words.into_iter().map(|what| format!("[supervisor] {what}; expected no change (it needs a restart)")).collect()
}

fn differs<T: PartialEq + InWords>(words: &mut Vec<String>, key: &str, old: &T, new: &T) {
    if old != new {
        words.push(format!("{key} {} -> {}", old.in_words(), new.in_words()));
    }
}

/// A value as the file would have it, or nearly.
trait InWords {
    fn in_words(&self) -> String;
}

impl<T: InWords> InWords for Option<T> {
    fn in_words(&self) -> String {
        self.as_ref().map_or_else(|| "not set".to_owned(), InWords::in_words)
    }
}

/// Types whose debug form is what the file has.
macro_rules! as_in_debug {
    ($($kind:ty),*) => {$(
        impl InWords for $kind {
            fn in_words(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

as_in_debug!(bool, u32, u64, usize, f64, SocketAddr, Duration, String, PathBuf, Vec<String>, Vec<u32>);

/// Choices, whose names the file has in small letters.
macro_rules! in_small_letters {
    ($($kind:ty),*) => {$(
        impl InWords for $kind {
            fn in_words(&self) -> String {
                format!("{self:?}").to_lowercase()
            }
        }
    )*};
}

in_small_letters!(CancelOnDisconnect, FailbackMode, Require, ResumeAfterHalt, Silence, WhenStale);

impl InWords for Depth {
    fn in_words(&self) -> String {
        self.name().to_owned()
    }
}

impl InWords for Exclusivity {
    fn in_words(&self) -> String {
        self.name().to_owned()
    }
}

impl InWords for Trigger {
    fn in_words(&self) -> String {
        match self.rule() {
            TriggerRule::Consecutive(failures) => format!("{} in a row", counted(failures, "failure")),
            TriggerRule::Window(span) => format!("a window of {span:?}"),
            TriggerRule::Failures { failures, of } => {
                format!("{} of {}", counted(failures, "failure"), counted(of, "result"))
            }
        }
    }
}

/// Why the primary may not change.
fn primary(old: &GroupConfig, new: &GroupConfig) -> Option<String> {
    let of = |group: &GroupConfig| {
        group.endpoints.iter().find(|one| one.endpoint.primary).map(|one| one.endpoint.name.clone()).unwrap_or_default()
    };
    let (before, after) = (of(old), of(new));
    (before != after).then(|| {
        format!(
            "group {:?}: the primary is {after:?}; expected {before:?} (who is primary changes by a restart)",
            old.name
        )
    })
}

/// Gateways have the old file mapped.
fn feed(old: &GroupConfig, new: &GroupConfig) -> Option<String> {
    let of = |group: &GroupConfig| group.feed.as_ref().map(|feed| feed.path.clone());
    let (before, after) = (of(old).in_words(), of(new).in_words());
    let expected = "no change (it needs a restart)";
    (before != after).then(|| format!("group {:?}: feed {before} -> {after}; expected {expected}", old.name))
}

/// What a reload does to a group of the same name and primary; `None` if nothing differs.
#[must_use]
pub fn of_group(old: &GroupConfig, new: &GroupConfig) -> Option<GroupChange> {
    let GroupConfig {
        name: _,
        rto,
        exclusivity,
        required_depth,
        feed,
        policy,
        shadow,
        probing,
        endpoints: _,
        failback,
        hooks,
        max_hold,
        no_evidence_alarm,
        follow_within,
    } = old;
    let names = |group: &GroupConfig| group.endpoints.iter().map(|one| one.endpoint.name.clone()).collect::<Vec<_>>();
    let (mut words, mut others) = (Vec::new(), BTreeSet::new());
    for gone in names(old).iter().filter(|name| endpoint(new, name).is_none()) {
        words.push(format!("endpoint {gone} is gone"));
    }
    for after in &new.endpoints {
        let name = &after.endpoint.name;
        match endpoint(old, name) {
            None => {
                words.push(format!("endpoint {name} is new, at {}", redacted(&after.endpoint.url)));
                others.insert(name.clone());
            }
            Some(before) => {
                let what = of_endpoint(before, after);
                if !what.is_empty() {
                    words.push(format!("endpoint {name}: {}", what.join(", ")));
                }
                if is_another(before, after) {
                    others.insert(name.clone());
                }
            }
        }
    }
    let both = |group: &GroupConfig, other: &GroupConfig| {
        names(group).into_iter().filter(|name| endpoint(other, name).is_some()).collect::<Vec<_>>()
    };
    if both(old, new) != both(new, old) {
        words.push(format!("the endpoints are in another order: {}", names(new).join(", ")));
    }
    let policy = named("policy", of_policy(policy.settings(), new.policy.settings()));
    let probing = of_probing(probing, &new.probing);
    let (is_policy, is_pace) = (!policy.is_empty(), !probing.is_empty());
    words.extend(policy.into_iter().chain(probing));
    words.extend(of_shadow(shadow.as_ref(), new.shadow.as_ref()));
    differs(&mut words, "rto", rto, &new.rto);
    differs(&mut words, "exclusivity", exclusivity, &new.exclusivity);
    differs(&mut words, "required_depth", required_depth, &new.required_depth);
    if let (Some(before), Some(after)) = (feed, &new.feed) {
        differs(&mut words, "feed_valid_for", &before.terms.valid_for, &after.terms.valid_for);
        differs(&mut words, "feed_when_stale", &before.terms.when_stale, &after.terms.when_stale);
    }
    differs(&mut words, "failback mode", failback, &new.failback);
    words.extend(of_hooks(hooks, &new.hooks));
    differs(&mut words, "max_hold", max_hold, &new.max_hold);
    differs(&mut words, "no_evidence_alarm", no_evidence_alarm, &new.no_evidence_alarm);
    differs(&mut words, "follow_within", follow_within, &new.follow_within);
    if words.is_empty() {
        return None;
    }
    let all = || names(new).into_iter().collect();
    let unknown = if is_policy { all() } else { others.clone() };
    let rewatched = if is_pace { all() } else { unknown.clone() };
    Some(GroupChange { config: new.clone(), words, policy: is_policy, others, unknown, rewatched })
}

fn endpoint<'a>(group: &'a GroupConfig, name: &str) -> Option<&'a EndpointConfig> {
    group.endpoints.iter().find(|one| one.endpoint.name == name)
}

/// Whether what was seen of `old` says nothing of `new`, or nothing to its trigger. Priority, shared fate and what the broker does to resting
/// orders make no other path of it.
fn is_another(old: &EndpointConfig, new: &EndpointConfig) -> bool {
    !old.endpoint.same_address(&new.endpoint)
        || old.endpoint.trigger != new.endpoint.trigger
        || old.probes != new.probes
        || old.require != new.require
        || old.watch != new.watch
}

fn of_endpoint(old: &EndpointConfig, new: &EndpointConfig) -> Vec<String> {
    // Whether the priority stands in the file or is the default is no difference.
    let EndpointConfig {
        endpoint: before,
        explicit_priority: _,
        probes,
        require,
        watch,
        shared_fate,
        cancel_on_disconnect,
    } = old;
    let Endpoint { name: _, region, url, account, primary, priority, trigger } = before;
    let after = &new.endpoint;
    let mut words = Vec::new();
    let (from, to) = (redacted(url), redacted(&after.url));
    if from != to {
        words.push(format!("url {from} -> {to}"));
    } else if *url != after.url {
        words.push("the user or password in its url".to_owned());
    }
    differs(&mut words, "region", region, &after.region);
    differs(&mut words, "account", account, &after.account);
    differs(&mut words, "primary", primary, &after.primary);
    differs(&mut words, "priority", priority, &after.priority);
    differs(&mut words, "trigger", trigger, &after.trigger);
    if *probes != new.probes {
        words.push("its probes".to_owned());
    }
    differs(&mut words, "require", require, &new.require);
    if *watch != new.watch {
        words.push("its watch".to_owned());
    }
    differs(&mut words, "shared_fate", shared_fate, &new.shared_fate);
    differs(&mut words, "cancel_on_disconnect", cancel_on_disconnect, &new.cancel_on_disconnect);
    words
}

fn of_policy(old: &PolicySettings, new: &PolicySettings) -> Vec<String> {
    let PolicySettings {
        failure_threshold,
        trigger,
        minimum_history,
        silence,
        cooldown,
        cooldown_max,
        max_health_age,
        failback_success_threshold,
        require_fence,
        max_failbacks_per_window,
        failback_window,
        require_reconciliation,
        resume_after_halt,
        history_limit,
    } = old;
    let mut words = Vec::new();
    differs(&mut words, "failure_threshold", failure_threshold, &new.failure_threshold);
    differs(&mut words, "trigger", trigger, &new.trigger);
    differs(&mut words, "minimum_history", minimum_history, &new.minimum_history);
    differs(&mut words, "silence", silence, &new.silence);
    differs(&mut words, "cooldown", cooldown, &new.cooldown);
    differs(&mut words, "cooldown_max", cooldown_max, &new.cooldown_max);
    differs(&mut words, "max_health_age", max_health_age, &new.max_health_age);
    differs(&mut words, "failback_success_threshold", failback_success_threshold, &new.failback_success_threshold);
    differs(&mut words, "require_fence", require_fence, &new.require_fence);
    differs(&mut words, "max_failbacks_per_window", max_failbacks_per_window, &new.max_failbacks_per_window);
    differs(&mut words, "failback_window", failback_window, &new.failback_window);
    differs(&mut words, "require_reconciliation", require_reconciliation, &new.require_reconciliation);
    differs(&mut words, "resume_after_halt", resume_after_halt, &new.resume_after_halt);
    differs(&mut words, "history_limit", history_limit, &new.history_limit);
    words
}

fn named(table: &str, words: Vec<String>) -> Vec<String> {
    words.into_iter().map(|what| format!("{table} {what}")).collect()
}

/// A shadow that follows the policy in a key that it does not state itself differs in it, too.
fn of_shadow(old: Option<&Policy>, new: Option<&Policy>) -> Vec<String> {
    match (old, new) {
        (Some(old), Some(new)) => named("shadow", of_policy(old.settings(), new.settings())),
        (None, Some(_)) => vec!["a shadow policy is new".to_owned()],
        (Some(_), None) => vec!["the shadow policy is gone".to_owned()],
        (None, None) => Vec::new(),
    }
}

fn of_probing(old: &Probing, new: &Probing) -> Vec<String> {
    let Probing { interval, interval_when_failing, timeout, jitter } = old;
    let mut words = Vec::new();
    differs(&mut words, "interval", interval, &new.interval);
    differs(&mut words, "interval_when_failing", interval_when_failing, &new.interval_when_failing);
    differs(&mut words, "timeout", timeout, &new.timeout);
    differs(&mut words, "jitter", jitter, &new.jitter);
    words.into_iter().map(|what| format!("probing {what}")).collect()
}

/// A hook's command and address may hold secrets: that they differ is all that is said.
fn of_hooks(old: &Hooks, new: &Hooks) -> Vec<String> {
    let Hooks { fence, switch, reconcile, halt, flow } = old;
    let pairs = [
        ("fence", fence, &new.fence),
        ("switch", switch, &new.switch),
        ("reconcile", reconcile, &new.reconcile),
        ("halt", halt, &new.halt),
        ("flow", flow, &new.flow),
    ];
    let changed = pairs.into_iter().filter(|(_, before, after)| before != after);
    changed.map(|(stage, before, after)| format!("{stage} hooks ({} -> {})", before.len(), after.len())).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::parse;
    use super::*;

    const FILE: &str = r#"
[supervisor]
listen = "127.0.0.1:9464"
socket = "control.sock"
journal = "journal"
[[group]]
name = "main"
[[group.endpoint]]
name = "east"
region = "e"
url = "tcp://user:pa55word@127.0.0.1:1"
primary = true
probe = { tcp = {} }
[[group.endpoint]]
name = "west"
region = "w"
url = "tcp://127.0.0.1:2"
priority = 10
probe = { tcp = {} }
[[group.endpoint]]
name = "north"
region = "n"
url = "tcp://127.0.0.1:3"
priority = 20
probe = { tcp = {} }
[group.hooks]
fence = { command = ["true", "--key", "s3cret"], timeout = "2s" }
"#;

    fn config(text: &str) -> Config {
        let checked = parse(text, Path::new("/"));
        checked.config.unwrap_or_else(|| panic!("{:?}", checked.findings))
    }

    fn changed(edits: &[(&str, &str)]) -> Result<Vec<GroupChange>, Vec<String>> {
        let mut text = FILE.to_owned();
        for (from, to) in edits {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        compare(&config(FILE), &config(&text))
    }

    /// The one group's change.
    fn change(edits: &[(&str, &str)]) -> GroupChange {
        let mut changes = changed(edits).unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        changes.remove(0)
    }

    fn refused(edits: &[(&str, &str)]) -> String {
        changed(edits).unwrap_err().join("; ")
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_same_values_in_other_words_are_no_change() {
        assert_eq!(changed(&[]), Ok(Vec::new()));
        // The defaults, written down, and a comment.
        assert_eq!(changed(&[("primary = true", "primary = true\npriority = 0 # preferred")]), Ok(Vec::new()));
        let probing = "[group.probing]\ninterval = \"1s\"\ntimeout = \"800ms\"\n[group.hooks]";
        assert_eq!(changed(&[("[group.hooks]", probing)]), Ok(Vec::new()));
    }

    #[test]
    fn another_address_or_other_probes_make_another_path_and_nothing_else_does() {
        let west = |from: &str, to: &str| change(&[(from, to)]);
        for (from, to, words) in [
            ("127.0.0.1:2", "127.0.0.1:22", "endpoint west: url tcp://127.0.0.1:2 -> tcp://127.0.0.1:22"),
            ("region = \"w\"", "region = \"x\"", "endpoint west: region \"w\" -> \"x\""),
            ("127.0.0.1:2\"", "127.0.0.1:2\"\nrequire = \"any\"", "endpoint west: require all -> any"),
            (
                "priority = 10\nprobe = { tcp = {} }",
                "priority = 10\nprobe = { exec = { command = [\"true\"] } }",
                "endpoint west: its probes",
            ),
        ] {
            let change = west(from, to);
            assert_eq!((&change.unknown, &change.rewatched), (&set(&["west"]), &set(&["west"])), "{to}");
            assert_eq!((&*change.words[0], change.words.len(), change.policy), (words, 1, false));
        }
        for (from, to, words) in [
            ("priority = 10", "priority = 30", "endpoint west: priority 10 -> 30"),
            ("priority = 10", "priority = 10\nshared_fate = [\"isp\"]", "endpoint west: shared_fate [] -> [\"isp\"]"),
            (
                "priority = 10",
                "priority = 10\ncancel_on_disconnect = \"session\"",
                "endpoint west: cancel_on_disconnect unknown -> session",
            ),
        ] {
            let change = west(from, to);
            assert!(change.unknown.is_empty() && change.rewatched.is_empty(), "{to}");
            assert_eq!((&*change.words[0], change.words.len()), (words, 1));
        }
    }

    #[test]
    fn an_endpoint_that_comes_is_unknown_and_one_that_goes_is_named() {
        let north = "[[group.endpoint]]\nname = \"north\"";
        let renamed = change(&[(north, "[[group.endpoint]]\nname = \"south\"")]);
        assert_eq!(renamed.words, ["endpoint north is gone", "endpoint south is new, at tcp://127.0.0.1:3"]);
        assert_eq!((renamed.unknown, renamed.rewatched), (set(&["south"]), set(&["south"])));
    }

    #[test]
    fn another_order_is_a_change_that_makes_nothing_unknown() {
        let west = "name = \"west\"\nregion = \"w\"\nurl = \"tcp://127.0.0.1:2\"\npriority = 10";
        let north = "name = \"north\"\nregion = \"n\"\nurl = \"tcp://127.0.0.1:3\"\npriority = 20";
        let change = change(&[(north, "HERE"), (west, north), ("HERE", west)]);
        assert_eq!(change.words, ["the endpoints are in another order: east, north, west"]);
        assert!(change.unknown.is_empty() && change.rewatched.is_empty());
    }

    #[test]
    fn another_pace_begins_all_slots_anew_and_another_policy_makes_all_unknown() {
        let all = set(&["east", "north", "west"]);
        let pace = change(&[("[group.hooks]", "[group.probing]\ninterval = \"2s\"\n[group.hooks]")]);
        assert_eq!((&pace.unknown, &pace.rewatched), (&set(&[]), &all));
        assert_eq!(pace.words, ["probing interval 1s -> 2s", "probing interval_when_failing 250ms -> 500ms"]);
        let policy = change(&[("[group.hooks]", "[group.policy]\nfailure_threshold = 5\n[group.hooks]")]);
        assert_eq!((&policy.unknown, &policy.rewatched, policy.policy), (&all, &all, true));
        assert_eq!(policy.words, ["policy failure_threshold 3 -> 5"]);
    }

    #[test]
    fn hooks_alarms_and_the_failback_mode_touch_no_endpoint() {
        let hooks = change(&[("timeout = \"2s\"", "timeout = \"3s\"")]);
        assert_eq!(hooks.words, ["fence hooks (1 -> 1)"]);
        let others =
            change(&[("[group.hooks]", "[group.failback]\nmode = \"manual\"\n[group.hooks]\nmax_hold = \"60s\"")]);
        assert_eq!(others.words, ["failback mode automatic -> manual", "max_hold 300s -> 60s"]);
        for change in [hooks, others] {
            assert!(change.unknown.is_empty() && change.rewatched.is_empty() && !change.policy);
        }
    }

    #[test]
    fn what_comes_and_goes_is_told_as_the_file_has_it() {
        let change = change(&[(
            "[[group.endpoint]]\nname = \"east\"",
            "[group.policy]\ncooldown_max = \"10m\"\ntrigger = { failures = 3, of = 5 }\nfailure_threshold = 2\n\
             resume_after_halt = \"operator\"\n[[group.endpoint]]\nname = \"east\"",
        )]);
        assert_eq!(
            change.words,
            [
                "policy failure_threshold 3 -> 2",
                "policy trigger not set -> 3 failures of 5 results",
                "policy cooldown_max not set -> 600s",
                "policy resume_after_halt reconcile -> operator",
            ]
        );
    }

    #[test]
    fn what_needs_a_restart_is_refused_all_at_once_and_says_what_was_expected() {
        let text = refused(&[
            ("127.0.0.1:9464", "127.0.0.1:9465"),
            ("socket = \"control.sock\"", "socket = \"other.sock\"\nkeep_for = \"1d\""),
            ("name = \"main\"", "name = \"desk\""),
        ]);
        for part in [
            "[supervisor] listen 127.0.0.1:9464 -> 127.0.0.1:9465; expected no change (it needs a restart)",
            "[supervisor] socket \"/control.sock\" -> \"/other.sock\"",
            "[supervisor] keep_for",
            "group \"main\" is not in the file any more; expected every group that runs",
            "group \"desk\" does not run; expected only groups that do",
            "--first-start",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }

    #[test]
    fn who_is_primary_is_not_changed_by_a_reload() {
        let text = refused(&[("primary = true", "priority = 5"), ("priority = 10", "primary = true")]);
        assert_eq!(
            text,
            "group \"main\": the primary is \"west\"; expected \"east\" (who is primary changes by a restart)"
        );
    }

    #[test]
    fn no_secret_is_told() {
        let change = change(&[("pa55word", "0ther"), ("s3cret", "hidden")]);
        assert_eq!(change.words, ["endpoint east: the user or password in its url", "fence hooks (1 -> 1)"]);
        assert_eq!(change.unknown, set(&["east"]));
    }
}
