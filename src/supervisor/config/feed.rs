//! The feed's keys, and what is legal but dangerous about them.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::feed::{self, Terms, WhenStale};

use super::build::Builder;
use super::read::Table;
use super::{FeedConfig, GroupConfig};

/// The default is between these, whatever the detection time is.
const DEFAULT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Below this a quarter of it, the time between two heartbeats, is no more than what a busy machine is late by.
const SOUND: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);

/// What a group's keys say of its feed.
pub(super) struct Stated {
    path: PathBuf,
    valid_for: Option<Duration>,
    when_stale: WhenStale,
}

impl Stated {
    /// The feed of that group.
    pub(super) fn of(self, group: &GroupConfig) -> FeedConfig {
        let Self { path, valid_for, when_stale } = self;
        // As long as the supervisor itself may take to see that a path is gone.
        let valid_for = valid_for.unwrap_or_else(|| group.detection().hung.1.clamp(DEFAULT.0, DEFAULT.1));
        FeedConfig { path, terms: Terms { valid_for, when_stale } }
    }
}

/// The keys of the feed in a group's table.
pub(super) fn read(builder: &mut Builder<'_>, table: &Table) -> Option<Stated> {
    let Some(file) = table.text("feed") else {
        for key in ["feed_valid_for", "feed_when_stale"] {
            // One that was refused is there all the same.
            let stated = table.entry("feed").is_none() && table.entry(key).is_some_and(|entry| entry.span.is_some());
            if stated {
                builder.error(table, key, "there is no feed", "a feed, or not this key");
            }
        }
        return None;
    };
    let path = builder.path(file);
    if file.trim().is_empty() || path.file_name().is_none() {
        builder.error(table, "feed", format!("{file:?} names no file"), "the path of a file");
        return None;
    }
    let valid_for = table.duration("feed_valid_for");
    if let Some(stated) = valid_for.filter(|stated| *stated < SHORTEST) {
        builder.error(table, "feed_valid_for", format!("{stated:?}"), format!("at least {SHORTEST:?}"));
        return None;
    }
    let when_stale = if table.text("feed_when_stale")? == "keep" { WhenStale::Keep } else { WhenStale::Hold };
    Some(Stated { path, valid_for, when_stale })
}

/// Two groups that write one file would each say what holds for the other.
pub(super) fn each_has_its_own(builder: &mut Builder<'_>, file: &Table, groups: &[GroupConfig]) {
    let mut taken = BTreeSet::new();
    for group in groups {
        let Some(feed) = &group.feed else { continue };
        if !taken.insert(&feed.path) {
            let tables = file.tables("group").iter();
            let own = tables.clone().find(|table| table.text("name").is_some_and(|name| name.trim() == group.name));
            let found = format!("{} is the feed of another group", feed.path.display());
            own.into_iter().for_each(|table| builder.error(table, "feed", &*found, "a file of its own"));
        }
    }
}

pub(super) fn lint(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    let Some(FeedConfig { path, terms: Terms { valid_for, .. } }) = &group.feed else { return };
    if *valid_for < SOUND {
        let found =
            format!("{valid_for:?}: the loop beats every {:?}, and a busy machine is late by more", *valid_for / 4);
        builder.warning(table, "feed_valid_for", found, format!("at least {SOUND:?}"));
    }
    let detection = group.detection().hung.1.max(DEFAULT.1);
    if *valid_for > detection {
        let found = format!("{valid_for:?}: for so long gateways go on after the supervisor died");
        builder.warning(table, "feed_valid_for", found, format!("at most {detection:?}"));
    }
    // What a start of this user will refuse. Another writer is no error: that is the supervisor that runs beside this.
    if let Err(error) = feed::FeedWriter::look(path) {
        builder.error(table, "feed", error.to_string(), "nothing there yet, or the feed of this user");
    }
    let Some(folder) = path.ancestors().skip(1).map(or_here).find(|folder| folder.is_dir()) else { return };
    if let Ok(found) = folder.metadata() {
        let own = rustix::process::geteuid().as_raw();
        // In a folder with the sticky bit nobody can remove what is another's.
        let is_open = found.permissions().mode() & 0o022 != 0 && found.permissions().mode() & 0o1000 == 0;
        if found.uid() != own && found.uid() != 0 && own != 0 {
            let found = format!("{} belongs to user {}, who can put another file there", folder.display(), found.uid());
            builder.warning(table, "feed", found, "a folder of the supervisor's own user, or of root");
        } else if is_open {
            let found = format!("others may write in {}, and put another file there", folder.display());
            builder.warning(table, "feed", found, "a folder that only its owner may write in");
        }
    }
    if !feed::is_in_memory(folder) {
        let found = format!("{} is on a disk: a publication can wait for it", folder.display());
        builder.warning(table, "feed", found, "a folder in memory, such as one below /run or /dev/shm");
    }
}

fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}
