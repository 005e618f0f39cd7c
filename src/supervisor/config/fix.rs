//! A `fix` probe's keys, and what is legal of them but dangerous.

use std::time::Duration;

use super::super::probes::{FREE_ATTEMPTS, Password, Secret};
use super::build::Builder;
use super::read::Table;
use super::{FixConfig, FixVersion, GroupConfig, ProbeKind, TlsConfig};

/// The longest HeartBtInt.
const LONGEST_HEART_BEAT: Duration = Duration::from_secs(3_600);
/// Fields of the Logon that this program writes itself, or that frame a message.
const OWN_FIELDS: [u32; 18] = [8, 9, 10, 34, 35, 43, 49, 50, 52, 56, 57, 97, 98, 108, 122, 141, 553, 554];
/// DefaultApplVerID, which has a key of its own.
const DEFAULT_APPL_VER_ID: u32 = 1137;

impl Builder<'_> {
    pub(super) fn fix(&mut self, table: &Table, tls: TlsConfig) -> Option<FixConfig> {
        // Each by itself first: a key without a value hides nothing that is wrong beside it.
        let (password, logon_fields) = (self.fix_password(table), self.logon_fields(table));
        let competing_session_text = self.competing_texts(table);
        let heart_beat_interval = self.heart_beat_interval(table);
        let waits = (self.positive(table, "relogon_wait"), self.positive(table, "relogon_wait_max"));
        let texts = [
            "sender_comp_id",
            "sender_sub_id",
            "target_comp_id",
            "target_sub_id",
            "username",
            "password",
            "default_appl_ver_id",
        ];
        for key in texts {
            self.fix_text(table, key);
        }
        let version = match table.text("version")? {
            "FIX.4.2" => FixVersion::Fix42,
            "FIX.4.4" => FixVersion::Fix44,
            _ => FixVersion::Fixt11,
        };
        let default_appl_ver_id = table.text("default_appl_ver_id").map(str::to_owned);
        match (version, &default_appl_ver_id) {
            (FixVersion::Fixt11, None) => {
                self.error(table, "default_appl_ver_id", "none", "such as \"9\" (FIX 5.0 SP2): FIXT.1.1 needs it");
            }
            (FixVersion::Fix42 | FixVersion::Fix44, Some(found)) => {
                let found = format!("{found:?} with {}", version.begin_string());
                self.error(table, "default_appl_ver_id", found, "none: only FIXT.1.1 has it");
            }
            _ => {}
        }
        let (relogon_wait, relogon_wait_max) = (waits.0?, waits.1?);
        if relogon_wait > relogon_wait_max {
            let found = format!("{relogon_wait:?}, longer than relogon_wait_max ({relogon_wait_max:?})");
            self.error(table, "relogon_wait", found, "at most relogon_wait_max");
        }
        Some(FixConfig {
            version,
            sender_comp_id: table.text("sender_comp_id")?.to_owned(),
            sender_sub_id: table.text("sender_sub_id").map(str::to_owned),
            target_comp_id: table.text("target_comp_id")?.to_owned(),
            target_sub_id: table.text("target_sub_id").map(str::to_owned),
            username: table.text("username").map(str::to_owned),
            password,
            heart_beat_interval: heart_beat_interval?,
            reset_on_logon: table.text("reset_on_logon")? == "always",
            default_appl_ver_id,
            logon_fields,
            sequence_file: self.path(table.text("sequence_file")?),
            relogon_wait,
            relogon_wait_max,
            account_tag: table.integer("account_tag").map(|_| table.u32("account_tag")),
            competing_session_text,
            competing_session_status: table.integers("competing_session_status"),
            tls,
        })
    }

    fn heart_beat_interval(&mut self, table: &Table) -> Option<Duration> {
        let interval = self.positive(table, "heart_beat_interval")?;
        if interval.subsec_nanos() != 0 || interval > LONGEST_HEART_BEAT {
            let found = format!("{interval:?}");
            self.error(table, "heart_beat_interval", found, "whole seconds, from 1 s to 1 h");
        }
        Some(interval)
    }

    /// What stands in a field can neither be empty nor hold what ends it.
    fn fix_text(&mut self, table: &Table, key: &str) {
        let Some(text) = table.text(key) else { return };
        if !is_value(text) {
            let found =
                if key == "password" { "a text that no field can hold".to_owned() } else { format!("{text:?}") };
            self.error(table, key, found, "printable ASCII, at least one character");
        }
    }

    fn fix_password(&mut self, table: &Table) -> Option<Password> {
        let stated: Vec<_> =
            ["password", "password_file", "password_env"].into_iter().filter(|key| table.text(key).is_some()).collect();
        match stated[..] {
            ["password"] => Some(Password::Stated(Secret::new(table.text("password")?))),
            ["password_file"] => Some(Password::File(self.existing_file(table, "password_file")?)),
            ["password_env"] => Some(Password::Environment(table.text("password_env")?.to_owned())),
            [] => None,
            [.., last] => {
                self.error(table, last, stated.join(" and "), "one of them at most");
                None
            }
        }
    }

    fn logon_fields(&mut self, table: &Table) -> Vec<(u32, Secret)> {
        let mut fields = Vec::new();
        for (key, value) in table.text_map("logon_fields") {
            let tag = key.parse::<u32>().ok().filter(|tag| *tag > 0 && key == tag.to_string());
            match tag {
                Some(tag) if OWN_FIELDS.contains(&tag) || tag == DEFAULT_APPL_VER_ID => {
                    self.error(
                        table,
                        "logon_fields",
                        format!("field {tag}"),
                        "a field that has no key of its own here",
                    );
                }
                Some(tag) if is_value(&value) => fields.push((tag, Secret::new(value))),
                Some(tag) => {
                    let found = format!("field {tag} with a value that no field can hold");
                    self.error(table, "logon_fields", found, "printable ASCII, at least one character");
                }
                None => self.error(table, "logon_fields", format!("{key:?}"), "a tag: a number above zero"),
            }
        }
        fields
    }

    fn competing_texts(&mut self, table: &Table) -> Vec<String> {
        let texts = table.texts("competing_session_text");
        if texts.iter().any(|text| text.trim().is_empty()) {
            self.error(
                table,
                "competing_session_text",
                "a blank text",
                "texts that some Logouts hold, and others do not",
            );
        }
        texts
    }
}

fn is_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// Where each fix probe stands, and what it is.
fn all<'a>(table: &'a Table, group: &'a GroupConfig) -> impl Iterator<Item = (&'a Table, &'a FixConfig)> {
    let endpoints = table.tables("endpoint").iter().zip(&group.endpoints);
    let probes = endpoints.flat_map(|(table, endpoint)| table.tables("probe").iter().zip(&endpoint.probes));
    probes.filter_map(|(table, probe)| match &probe.kind {
        ProbeKind::Fix(config) => Some((table.table("fix")?, &**config)),
        _ => None,
    })
}

pub(super) fn lint(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    let probing = &group.probing;
    for (one, endpoint) in table.tables("endpoint").iter().zip(&group.endpoints) {
        let needs = endpoint.endpoint.trigger.unwrap_or(group.policy.trigger()).needs();
        let is_fix = endpoint.probes.iter().any(|probe| matches!(probe.kind, ProbeKind::Fix(_)));
        if is_fix && needs > FREE_ATTEMPTS {
            let found = format!(
                "the trigger needs {needs} failures, and after {FREE_ATTEMPTS} in a row a fix probe waits before each Logon: \
                 the path is DOWN later than its slots say"
            );
            builder.warning(one, "probe", found, format!("a trigger of {FREE_ATTEMPTS} failures at most"));
        }
    }
    for (table, config) in all(table, group) {
        let silence = config.heart_beat_interval * 2;
        if silence < probing.interval + probing.timeout {
            let found = format!(
                "{:?}: a session that is silent for {silence:?} is given up, before a slot has asked it",
                config.heart_beat_interval
            );
            let expected = format!("more than half of interval + timeout ({:?})", probing.interval + probing.timeout);
            builder.warning(table, "heart_beat_interval", found, expected);
        }
        if config.password.is_some() && config.username.is_none() {
            builder.warning(table, "username", "a password without a user name", "both, where the far side wants them");
        }
    }
}

/// Every session of the file must be one of its own: two of one identity evict each other, and two with one file of
/// numbers use each other's.
pub(super) fn apart(builder: &mut Builder<'_>, tables: &[Table], groups: &[GroupConfig]) {
    let mut known: Vec<&FixConfig> = Vec::new();
    let named = |table: &Table| groups.iter().find(|group| table.text("name").map(str::trim) == Some(&*group.name));
    for (table, config) in tables.iter().filter_map(|table| Some((table, named(table)?))).flat_map(|(t, g)| all(t, g)) {
        if known.iter().any(|other| other.sequence_file == config.sequence_file) {
            let found = format!("{} is another session's too", config.sequence_file.display());
            builder.error(table, "sequence_file", found, "a file for each session");
        }
        if known.iter().any(|other| other.session() == config.session()) {
            let found = format!("session {} is another probe's too", config.session());
            builder.error(table, "sender_comp_id", found, "an identity for each probe: one may evict the other");
        }
        known.push(config);
    }
}
