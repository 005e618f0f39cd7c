//! Values -> a configuration whose parts fit together.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use sha2::{Digest, Sha256};

use crate::engine::{
    DEFAULT_BACKUP_PRIORITY, DEFAULT_PRIMARY_PRIORITY, Endpoint, Engine, Policy, PolicyError, PolicySettings,
    ResumeAfterHalt, Silence, Trigger, TriggerRule,
};

use super::super::clock::BootClock;
use super::super::probes::{ProberError, Resolver, holder, prober};
use super::super::visible::{hides, steers};
use super::effective::{self, Effective};
use super::findings::{Finding, Findings, Places};
use super::read::{self, Table};
use super::{
    CancelOnDisconnect, Config, Depth, EndpointConfig, Exclusivity, ExecConfig, FailbackMode, GroupConfig, Hook,
    HookAction, Hooks, HttpConfig, ProbeConfig, ProbeKind, Probing, Require, SupervisorConfig, TlsConfig,
    WebSocketConfig, descriptors, fix, keys, lint,
};

/// What checking a file came to.
#[derive(Debug)]
pub struct Checked {
    /// The configuration, if nothing in the file is refused.
    pub config: Option<Config>,
    /// Every error and warning, in the order of the file.
    pub findings: Vec<Finding>,
    /// The control socket, as long as `[supervisor]` is sound: a supervisor can be reached although the rest of its file
    /// is not, while it is being edited.
    pub socket: Option<PathBuf>,
}

/// The longest file, in bytes: 65,535 endpoints take a third of it.
const LONGEST: u64 = 64 << 20;

/// The text of a configuration or plan file, of at most 64 MiB.
///
/// # Errors
/// It cannot be read, is longer, or is not UTF-8.
pub fn text_of(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let what = "found more than 64 MiB; expected a file of TOML";
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid =
            String::from_utf8_lossy(error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default());
        let (line, column) = Places::new(&valid).line_and_column(valid.len());
        let what = format!("line {line}, column {column}: found bytes that are not UTF-8; expected UTF-8");
        std::io::Error::new(std::io::ErrorKind::InvalidData, what)
    })
}

/// Reads and checks a file.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn load(file: &Path) -> std::io::Result<Checked> {
    let text = text_of(file)?;
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    Ok(parse(&text, &folder))
}

/// The control socket that a file names, whatever else is wrong with the file: whoever must halt a supervisor cannot
/// wait until its configuration is in order, or its names are looked up.
///
/// # Errors
/// It cannot be read, or names no socket.
pub fn socket(file: &Path) -> std::io::Result<PathBuf> {
    let text = text_of(file)?;
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let table = read::file(&text, &keys::FILE, &mut Findings::new(&text));
    let socket = table.table("supervisor").and_then(|supervisor| supervisor.text("socket"));
    socket.map(|socket| folder.join(socket)).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, "supervisor.socket is not to be found in it; see check")
    })
}

/// Checks a configuration; its relative paths are relative to `folder`.
#[must_use]
pub fn parse(text: &str, folder: &Path) -> Checked {
    read_all(text, folder).0
}

/// Every value that is in force, with its origin. Where the file is refused, those that are readable.
#[must_use]
pub fn effective(text: &str, folder: &Path) -> Vec<Effective> {
    let (checked, file) = read_all(text, folder);
    let mut list = effective::of(&file, text);
    if let Some(config) = &checked.config {
        effective::add_derived(&mut list, &config.groups);
    }
    list
}

fn read_all(text: &str, folder: &Path) -> (Checked, Table) {
    let mut findings = Findings::new(text);
    let file = read::file(text, &keys::FILE, &mut findings);
    let mut builder = Builder { folder, findings, lookups: BootClock::default() };
    let supervisor = builder.supervisor(&file);
    let groups = builder.groups(&file);
    let budgets = builder.budgets(&file);
    // A group that is not whole is not in the list, and places in it are not those of the file.
    if builder.findings.errors() == 0 {
        builder.within_budgets(&file, &budgets, &groups);
    }
    let hash = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let sound = builder.findings.errors() == 0;
    let socket = supervisor.as_ref().map(|supervisor| supervisor.socket.clone());
    let config = supervisor.filter(|_| sound).map(|supervisor| Config { supervisor, groups, budgets, hash });
    if let Some(config) = &config {
        descriptors::lint(&mut builder, &file, config);
    }
    (Checked { config, findings: builder.findings.sorted(), socket }, file)
}

/// Schemes of what a connection, or a handshake, says something about.
pub(super) const OVER_TCP: &[&str] = &["tcp", "tls", "http", "https", "fix", "fixs", "ws", "wss"];
pub(super) const OVER_TLS: &[&str] = &["tls", "https", "tcp", "fix", "fixs", "wss"];

/// How long names may be looked up in all: a start must not wait for a resolver that is down.
pub(super) const LOOKUPS: Duration = Duration::from_secs(2);

pub(super) struct Builder<'a> {
    folder: &'a Path,
    pub(super) findings: Findings<'a>,
    /// Since when names may be looked up.
    pub(super) lookups: BootClock,
}

impl Builder<'_> {
    fn supervisor(&mut self, file: &Table) -> Option<SupervisorConfig> {
        let table = file.table("supervisor")?;
        let listen = match table.text("listen").map(str::parse) {
            Some(Err(_)) => {
                self.error(table, "listen", "not an address", "an IP address and a port, such as \"127.0.0.1:9464\"");
                None
            }
            Some(Ok(address)) => Some(address),
            None => None,
        };
        let report_socket = table.text("report_socket").map(|path| self.path(path));
        let report_users = self.report_users(table);
        if !table.sound {
            return None;
        }
        Some(SupervisorConfig {
            listen,
            socket: self.path(table.text("socket")?),
            report_socket,
            report_users,
            journal: self.path(table.text("journal")?),
            segment_size: table.integer("segment_size")?,
            keep_for: table.duration("keep_for")?,
            keep_size: table.integer("keep_size")?,
        })
    }

    fn groups(&mut self, file: &Table) -> Vec<GroupConfig> {
        let mut names = BTreeSet::new();
        let tables = file.tables("group");
        if tables.is_empty() && file.entry("group").is_some() {
            self.error(file, "group", "no group", "at least one [[group]]");
        }
        let mut groups = Vec::new();
        for table in tables {
            let name = table.text("name").unwrap_or_default().trim().to_owned();
            if name.is_empty() || !names.insert(name.clone()) {
                self.error(table, "name", format!("{name:?} is blank or taken"), "a unique name");
            }
            self.one_line(table, "name");
            match table.sound {
                true => groups.extend(self.group(table, name)),
                false => self.parts(table),
            }
        }
        fix::apart(self, tables, &groups);
        super::feed::each_has_its_own(self, file, &groups);
        groups
    }

    /// What can be said of a group with a faulty key somewhere: whatever else is wrong with its parts, each by itself.
    /// What they mean together is judged once each is right.
    fn parts(&mut self, table: &Table) {
        let policy = table.table("policy").and_then(|part| self.policy(part, None));
        table.table("shadow").zip(policy).map(|(part, policy)| self.policy(part, Some(&policy)));
        table.table("probing").map(|part| self.probing(part));
        if let Some(part) = table.table("hooks") {
            self.hooks(part);
            self.positive(part, "max_hold");
        }
        self.positive(table, "rto");
        drop(super::feed::read(self, table));
        table.tables("endpoint").iter().for_each(|one| drop(self.endpoint(one)));
    }

    fn group(&mut self, table: &Table, name: String) -> Option<GroupConfig> {
        let errors = self.findings.errors();
        let feed = super::feed::read(self, table);
        let policy = self.policy(table.table("policy")?, None);
        let shadow = table.table("shadow").zip(policy.as_ref());
        let shadow = shadow.map(|(shadow, policy)| self.policy(shadow, Some(policy)));
        let probing_table = table.table("probing")?;
        let probing = self.probing(probing_table);
        let endpoints: Vec<_> = table.tables("endpoint").iter().filter_map(|one| self.endpoint(one)).collect();
        let hooks_table = table.table("hooks")?;
        let hooks = self.hooks(hooks_table);
        let (policy, probing) = (policy?, probing?);
        let shadow = match shadow {
            Some(shadow) => Some(shadow?),
            None => None,
        };
        let mut endpoints = self.spaced(table, &probing, endpoints);
        self.settle_reports(table, &policy, &probing, &mut endpoints);
        self.register(table, &policy, &endpoints);
        let alarm = probing_table.duration("no_evidence_alarm").unwrap_or(policy.settings().max_health_age);
        let failback = match table.table("failback")?.text("mode")? {
            "manual" => FailbackMode::Manual,
            _ => FailbackMode::Automatic,
        };
        let mut group = GroupConfig {
            name,
            exclusivity: Exclusivity::of(table.text("exclusivity")?),
            required_depth: Depth::of(table.text("required_depth")?)?,
            feed: None,
            probing,
            endpoints,
            failback,
            hooks,
            rto: match table.duration("rto") {
                Some(_) => Some(self.positive(table, "rto")?),
                None => None,
            },
            max_hold: self.positive(hooks_table, "max_hold")?,
            no_evidence_alarm: alarm,
            follow_within: table.duration("follow_within")?,
            policy,
            shadow,
        };
        group.feed = feed.map(|stated| stated.of(&group));
        // Of a group that lacks what is faulty, there is nothing sensible to say.
        if self.findings.errors() == errors {
            lint::group(self, table, &group);
        }
        Some(group)
    }

    /// What `table` says, and where it says nothing what `other` does.
    fn policy(&mut self, table: &Table, other: Option<&Policy>) -> Option<Policy> {
        let other = other.map(|policy| policy.settings().clone()).unwrap_or_default();
        let number = |key| table.integer(key).map(|_| table.u32(key));
        let flag = |key, otherwise| table.entry(key).map_or(otherwise, |_| table.flag(key));
        let trigger = self.trigger(table)?;
        let threshold = number("failure_threshold");
        let is_stated = table.entry("failure_threshold").is_some_and(|entry| entry.span.is_some());
        let (trigger, failure_threshold) = match (trigger, trigger.map(Trigger::rule)) {
            // Stated there, it need not be stated twice.
            (_, Some(TriggerRule::Consecutive(failures))) if !is_stated => (trigger, failures),
            // The other's trigger is none of this one's if this one counts failures.
            (None, _) if !is_stated => (other.trigger, threshold.unwrap_or(other.failure_threshold)),
            _ => (trigger, threshold.unwrap_or(other.failure_threshold)),
        };
        let settings = PolicySettings {
            failure_threshold,
            trigger,
            silence: match table.text("silence") {
                Some("failure") => Silence::Failure,
                Some(_) => Silence::Note,
                None => other.silence,
            },
            minimum_history: number("minimum_history").or(other.minimum_history),
            cooldown: table.duration("cooldown").unwrap_or(other.cooldown),
            cooldown_max: table.duration("cooldown_max").or(other.cooldown_max),
            max_health_age: table.duration("max_health_age").unwrap_or(other.max_health_age),
            failback_success_threshold: number("failback_success_threshold")
                .unwrap_or(other.failback_success_threshold),
            require_fence: flag("require_fence", other.require_fence),
            max_failbacks_per_window: number("max_failbacks_per_window").unwrap_or(other.max_failbacks_per_window),
            failback_window: table.duration("failback_window").unwrap_or(other.failback_window),
            require_reconciliation: flag("require_reconciliation", other.require_reconciliation),
            resume_after_halt: match table.text("resume_after_halt") {
                Some("operator") => ResumeAfterHalt::Operator,
                Some(_) => ResumeAfterHalt::Reconcile,
                None => other.resume_after_halt,
            },
            history_limit: number("history_limit").unwrap_or(other.history_limit),
        };
        match Policy::new(settings) {
            Ok(policy) => Some(policy).filter(|_| table.sound),
            // The value that it contradicts may be one that was refused, and is not in force.
            Err(PolicyError::Mismatch { .. }) if !table.sound => None,
            Err(error) => {
                self.findings.told(&table.span, &table.path, &error.to_string(), "values within bounds");
                None
            }
        }
    }

    /// The trigger of a policy or of an endpoint, if it states one; `None` outside if that is refused.
    fn trigger(&mut self, table: &Table) -> Option<Option<Trigger>> {
        let Some(keys) = table.table("trigger") else { return Some(None) };
        if !keys.sound {
            return None;
        }
        let number = |key| keys.integer(key).map(|_| keys.u32(key));
        let rule =
            TriggerRule::from_keys(number("consecutive"), keys.duration("window"), number("failures"), number("of"));
        let Some(rule) = rule else {
            let found: Vec<_> = keys.entries().map(|(key, _)| key).collect();
            let found = if found.is_empty() { "no key".to_owned() } else { found.join(" with ") };
            self.error(table, "trigger", found, TriggerRule::KEYS);
            return None;
        };
        match Trigger::new(rule) {
            Ok(trigger) => Some(Some(trigger)),
            Err(error) => {
                self.findings.told(
                    &keys.span_of(error.key()),
                    &keys.path_of(error.key()),
                    &error.to_string(),
                    "values within bounds",
                );
                None
            }
        }
    }

    fn probing(&mut self, table: &Table) -> Option<Probing> {
        let (interval, timeout) = (self.positive(table, "interval"), self.positive(table, "timeout"));
        let when_failing = self.positive(table, "interval_when_failing");
        let (interval, timeout) = (interval?, timeout?);
        let when_failing = match when_failing {
            None if table.entry("interval_when_failing").is_some() => return None,
            stated => stated.unwrap_or_else(|| (interval / 4).max(Duration::from_nanos(1))),
        };
        if when_failing > interval {
            let found = format!("{when_failing:?}, longer than interval ({interval:?})");
            self.error(table, "interval_when_failing", found, "at most interval");
        }
        Some(Probing { interval, interval_when_failing: when_failing, timeout, jitter: table.share("jitter") })
    }

    pub(super) fn positive(&mut self, table: &Table, key: &str) -> Option<Duration> {
        let duration = table.duration(key)?;
        if duration.is_zero() {
            self.error(table, key, "zero", "a duration above zero");
            return None;
        }
        Some(duration)
    }

    fn endpoint(&mut self, table: &Table) -> Option<EndpointConfig> {
        let primary = table.flag("primary");
        let explicit = table.integer("priority").is_some();
        let default = if primary { DEFAULT_PRIMARY_PRIORITY } else { DEFAULT_BACKUP_PRIORITY };
        let url = table.text("url").unwrap_or_default().trim().to_owned();
        let errors = self.findings.errors();
        let probes: Vec<_> = table.tables("probe").iter().filter_map(|probe| self.probe(table, probe, &url)).collect();
        if table.tables("probe").is_empty() {
            self.error(table, "probe", "no probe", "at least one");
        }
        let trigger = self.trigger(table).flatten();
        for key in ["name", "region", "account", "url", "shared_fate"] {
            self.one_line(table, key);
        }
        let watch = self.watch(table, &url);
        let endpoint = EndpointConfig {
            endpoint: Endpoint {
                name: table.text("name")?.trim().to_owned(),
                region: table.text("region")?.trim().to_owned(),
                account: table.text("account").map(|account| account.trim().to_owned()),
                primary,
                priority: if explicit { table.u32("priority") } else { default },
                trigger,
                url: url.clone(),
            },
            explicit_priority: explicit,
            probes,
            watch,
            require: if table.text("require")? == "any" { Require::Any } else { Require::All },
            shared_fate: table.texts("shared_fate"),
            cancel_on_disconnect: match table.text("cancel_on_disconnect")? {
                "none" => CancelOnDisconnect::None,
                "session" => CancelOnDisconnect::Session,
                "account" => CancelOnDisconnect::Account,
                _ => CancelOnDisconnect::Unknown,
            },
        };
        if table.sound && self.findings.errors() == errors {
            self.probers(table, &endpoint);
        }
        Some(endpoint)
    }

    /// Whatever a start would refuse is refused here: each probe is made once, and asks nobody.
    fn probers(&mut self, table: &Table, endpoint: &EndpointConfig) {
        let resolver = Resolver::default();
        for (probe, config) in table.tables("probe").iter().zip(&endpoint.probes) {
            match prober(endpoint, config, &resolver) {
                Ok(_) => {}
                Err(ProberError::Url(error)) => {
                    self.error(table, "url", error.to_string(), "a url to connect to");
                }
                Err(error) => {
                    self.findings.error(&probe.span, &probe.path, error.to_string(), "a probe that can be made");
                }
            }
        }
        if let Err(error) = holder(endpoint, &resolver) {
            self.error(table, "watch", error.to_string(), "a session that can be opened");
        }
    }

    /// What hooks, the log, metrics and people are told, and compare, holds nothing that nobody sees: NUL cannot even be
    /// told.
    pub(super) fn one_line(&mut self, table: &Table, key: &str) {
        self.without(table, key, hides);
    }

    fn without(&mut self, table: &Table, key: &str, barred: fn(char) -> bool) {
        let texts = table.text(key).map(|text| vec![redacted(text)]).unwrap_or_else(|| table.texts(key));
        if let Some(text) = texts.iter().find(|text| text.chars().any(barred)) {
            let found = format!("{text:?} holds control characters, or others that nobody sees");
            self.error(table, key, found, "a text of one line, of what can be seen");
        }
    }

    fn probe(&mut self, endpoint: &Table, table: &Table, url: &str) -> Option<ProbeConfig> {
        let kinds: Vec<_> = table.entries().map(|(key, _)| key).collect();
        let [kind] = kinds[..] else {
            if kinds.is_empty() && !table.sound {
                // The key that it has is not known, which was told.
                return None;
            }
            let found = if kinds.is_empty() { "no kind".to_owned() } else { format!("{} kinds", kinds.len()) };
            let expected = "exactly one of tcp, tls, http, websocket, exec, fix, report";
            self.findings.error(&table.span, &table.path, found, expected);
            return None;
        };
        let inner = table.table(kind)?;
        let schemes: &[&str] = match kind {
            "http" => &["http", "https"],
            "websocket" => &["ws", "wss"],
            "tls" => OVER_TLS,
            "tcp" => OVER_TCP,
            "fix" => &["fix", "fixs"],
            _ => &[],
        };
        self.check_url(endpoint, url, schemes);
        let exit = |key| inner.integer(key).and_then(|status| u8::try_from(status).ok());
        let tls = self.tls(inner);
        self.told_apart(inner, "expect_body");
        self.compared(endpoint, inner, "account_tag");
        let account_pointer = self.pointer(endpoint, inner);
        let slow_after = self.positive(inner, "slow_after");
        let kind = match kind {
            "tcp" => ProbeKind::Tcp,
            "tls" => ProbeKind::Tls(tls),
            "http" => ProbeKind::Http(HttpConfig {
                path: inner.text("path")?.to_owned(),
                method: inner.text("method")?.to_owned(),
                headers: inner.text_map("headers"),
                expect_status: inner.statuses("expect_status"),
                expect_body: inner.text("expect_body").map(str::to_owned),
                account_pointer,
                competing_session_status: inner.statuses("competing_session_status"),
                tls,
            }),
            "fix" => ProbeKind::Fix(Box::new(self.fix(inner, tls)?)),
            "report" => ProbeKind::Report(self.report(inner)?),
            "websocket" => ProbeKind::WebSocket(self.websocket(inner, tls)?),
            _ => ProbeKind::Exec(ExecConfig {
                command: self.command(inner)?,
                competing_session_exit: exit("competing_session_exit"),
                logon_refused_exit: exit("logon_refused_exit"),
            }),
        };
        let terms = self.terms(endpoint, inner, &kind, url);
        Some(ProbeConfig { kind, slow_after, terms })
    }

    pub(super) fn tls(&mut self, table: &Table) -> TlsConfig {
        TlsConfig {
            ca_file: self.existing_file(table, "ca_file"),
            server_name: table.text("server_name").map(str::to_owned),
        }
    }

    fn websocket(&mut self, table: &Table, tls: TlsConfig) -> Option<WebSocketConfig> {
        let text = |key| table.text(key).map(str::to_owned);
        self.told_apart(table, "expect_message");
        if text("subscribe").is_some() && table.entry("expect_message").is_none() {
            let found = "no expect_message: a pong does not show what became of the subscription";
            self.error(table, "subscribe", found, "expect_message beside subscribe");
        }
        Some(WebSocketConfig {
            path: text("path")?,
            headers: table.text_map("headers"),
            subprotocol: text("subprotocol"),
            subscribe: text("subscribe"),
            expect_message: text("expect_message"),
            competing_session_status: table.statuses("competing_session_status"),
            tls,
        })
    }

    /// A text that an answer must contain: every answer contains a blank one.
    fn told_apart(&mut self, table: &Table, key: &str) {
        if table.text(key).is_some_and(|text| text.trim().is_empty()) {
            self.error(table, key, "a blank text", "a text that the right answer contains, and others do not");
        }
    }

    /// A pointer to the account must be one, and there must be an account to compare with.
    fn pointer(&mut self, endpoint: &Table, table: &Table) -> Option<String> {
        let pointer = table.text("account_pointer")?.to_owned();
        let escapes = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !(pointer.is_empty() || pointer.starts_with('/')) || !escapes {
            self.error(table, "account_pointer", format!("{pointer:?}"), "a JSON pointer such as \"/account/id\"");
        }
        self.compared(endpoint, table, "account_pointer");
        Some(pointer)
    }

    /// An account that is read must be compared with one.
    fn compared(&mut self, endpoint: &Table, table: &Table, key: &str) {
        if table.entry(key).is_some() && endpoint.entry("account").is_none() {
            self.error(table, key, "an account to read and none to compare it with", "account at the endpoint");
        }
    }

    /// The url must say where to connect, in a scheme that the probe speaks.
    pub(super) fn check_url(&mut self, endpoint: &Table, url: &str, schemes: &[&str]) {
        if schemes.is_empty() {
            return;
        }
        let expected = format!("{}:// and a host, with a port where the scheme has none", schemes.join(":// or "));
        let parsed = url.parse::<Uri>().ok().filter(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            let ported = uri.port_u16().is_some() || matches!(scheme, "http" | "https" | "ws" | "wss");
            schemes.contains(&scheme) && uri.host().is_some_and(|host| !host.is_empty()) && ported
        });
        if parsed.is_none() {
            self.error(endpoint, "url", format!("{:?}", redacted(url)), expected);
        }
    }

    /// The endpoints must be what the engine accepts, and pass its start-up gate.
    fn register(&mut self, table: &Table, policy: &Policy, endpoints: &[EndpointConfig]) {
        let mut engine = Engine::new(policy.clone());
        let spans: Vec<(Range<usize>, String)> =
            table.tables("endpoint").iter().map(|one| (one.span.clone(), one.path.clone())).collect();
        let mut registered = true;
        for (endpoint, (span, path)) in endpoints.iter().zip(&spans) {
            if let Err(error) = engine.register(endpoint.endpoint.clone()) {
                registered = false;
                self.findings.told(span, path, &error.to_string(), "an endpoint that can be registered");
            }
        }
        if let (true, Err(error)) = (registered, engine.validate_configuration()) {
            self.findings.told(&table.span, &table.path, &error.to_string(), "one primary, two endpoints, one account");
        }
    }

    fn hooks(&mut self, table: &Table) -> Hooks {
        let mut list = |key: &str| table.tables(key).iter().filter_map(|hook| self.hook(hook)).collect();
        Hooks {
            fence: list("fence"),
            switch: list("switch"),
            reconcile: list("reconcile"),
            halt: list("halt"),
            flow: list("flow"),
        }
    }

    fn hook(&mut self, table: &Table) -> Option<Hook> {
        // People's own words, which may need what a name does not.
        self.without(table, "proves", steers);
        let timeout = self.positive(table, "timeout");
        let action = match (table.entry("command"), table.entry("webhook")) {
            (Some(_), None) => HookAction::Command(self.command(table)?),
            (None, Some(_)) => {
                let url = table.text("webhook")?;
                let parsed = url.parse::<Uri>().ok();
                if !parsed.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()) {
                    self.error(
                        table,
                        "webhook",
                        format!("{:?}", redacted(url)),
                        "an http:// address (loopback; TLS is not spoken here)",
                    );
                    return None;
                }
                HookAction::Webhook(url.to_owned())
            }
            _ => {
                self.findings.error(
                    &table.span,
                    &table.path,
                    "both or none of command and webhook",
                    "exactly one of them",
                );
                return None;
            }
        };
        Some(Hook {
            action,
            timeout: timeout?,
            idempotent: table.flag("idempotent"),
            proves: table.text("proves").map(str::to_owned),
            holds: table.duration("holds"),
        })
    }

    /// A program that is there: one with a slash relative to the file's folder, another one by PATH.
    fn command(&mut self, table: &Table) -> Option<Vec<String>> {
        let mut command = table.texts("command");
        if command.iter().any(|text| text.contains('\0')) {
            self.error(table, "command", "a NUL character", "a program and its arguments, which can hold none");
            return None;
        }
        let Some(program) = command.first_mut().filter(|program| !program.trim().is_empty()) else {
            self.error(table, "command", "an empty command", "a program and its arguments");
            return None;
        };
        if program.contains('/') {
            let path = self.path(program);
            let (found, expected) = (format!("{program:?}"), "a program that exists and may be run");
            *program = path.to_string_lossy().into_owned();
            if !path.is_file() {
                self.error(table, "command", format!("{found} is not a file"), expected);
            } else if !is_executable(&path) {
                self.error(table, "command", format!("{found} is not executable"), expected);
            }
        } else if !in_path(program) {
            let found = format!("{program:?} is in no folder of PATH, as it is here and now");
            self.warning(table, "command", found, "a program that is there when it is needed, or its path");
        }
        Some(command)
    }

    pub(super) fn existing_file(&mut self, table: &Table, key: &str) -> Option<PathBuf> {
        let path = self.path(table.text(key)?);
        if !path.is_file() {
            self.error(table, key, format!("{} is not a file", path.display()), "a file that exists");
        }
        Some(path)
    }

    pub(super) fn path(&self, text: &str) -> PathBuf {
        self.folder.join(text)
    }

    /// Says what is wrong with a key, unless that it has no value to speak of was told already.
    pub(super) fn error(&mut self, table: &Table, key: &str, found: impl Into<String>, expected: impl Into<String>) {
        if table.is_refused(key) {
            return;
        }
        self.findings.error(&table.span_of(key), &table.path_of(key), found, expected);
    }

    pub(super) fn warning(&mut self, table: &Table, key: &str, found: impl Into<String>, expected: impl Into<String>) {
        self.findings.warning(&table.span_of(key), &table.path_of(key), found, expected);
    }
}

/// A url without the user and password that it may carry.
pub(crate) fn redacted(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
            match (authority.rsplit_once('@'), rest.rsplit_once('@')) {
                (Some((_, host)), _) => format!("{scheme}://...@{host}{path}"),
                // No port: the beginning of a password with such a character in it.
                (None, Some((_, host))) if !port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']') => {
                    format!("{scheme}://...@{host}")
                }
                (None, _) => url.to_owned(),
            }
        }
        None => url.to_owned(),
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(program)))
}
