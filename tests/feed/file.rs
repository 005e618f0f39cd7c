//! The file itself: what is refused, what is taken over, and what a reader of an earlier run sees.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use broker_failover::engine::{EndpointId, Epoch, OrderAction, OrderFlow};
use broker_failover::feed::{self, FeedError, FeedReader, FeedWriter, Published, SIZE, Terms, WhenStale};

use crate::languages;

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// In memory, on a usual machine.
    pub(crate) fn in_memory(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::below(memory, name) } else { Self::new(name) }
    }

    fn below(place: &Path, name: &str) -> Self {
        let folder = place.join(format!("broker-failover-feed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn feed(&self) -> PathBuf {
        self.0.join("main.feed")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TERMS: Terms = Terms { valid_for: Duration::from_secs(60), when_stale: WhenStale::Hold };

fn open(epoch: u64) -> Published {
    let (endpoint, epoch) = (EndpointId::from_index(0), Epoch::new(epoch).unwrap());
    Published::new(Some((endpoint, epoch)), "east", OrderFlow::Open { endpoint, epoch }, true)
}

/// The reader and the writer alike refuse what is at `path`, with these words, and leave it as it is.
fn both_refuse(path: &Path, found: &str, expected: &str) {
    let before = fs::read(path).ok();
    let refusals = [
        FeedReader::open(path).map(drop).unwrap_err(),
        FeedWriter::open(path).map(drop).unwrap_err(),
        FeedWriter::look(path).unwrap_err(),
    ];
    for refusal in refusals {
        let text = refusal.to_string();
        assert!(matches!(refusal, FeedError::Refused { .. }), "{text}");
        assert!(text.contains(found) && text.contains(expected) && text.contains("main.feed"), "{text}");
    }
    assert_eq!(fs::read(path).ok(), before);
}

#[test]
fn what_is_no_feed_is_refused_with_what_was_found_and_expected() {
    let folder = Folder::new("refused");
    let path = folder.feed();
    fs::write(&path, [7; 63]).unwrap();
    both_refuse(&path, "63 bytes", "64 bytes");
    fs::write(&path, [7; SIZE]).unwrap();
    both_refuse(&path, "begins with [07, 07", "a feed");
    fs::write(&path, b"BFFEED\x02\0".iter().copied().chain([0; 56]).collect::<Vec<_>>()).unwrap();
    both_refuse(&path, "layout version 2", "version 1");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    both_refuse(&path, "mode 666", "only its owner may write");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(FeedReader::open(&path).unwrap_err().to_string().contains("a folder"));
    assert!(FeedWriter::open(&path).is_err());
    fs::remove_dir(&path).unwrap();
    let missing = FeedReader::open(&path).unwrap_err();
    assert!(matches!(&missing, FeedError::File { error, .. } if error.kind() == std::io::ErrorKind::NotFound));
    assert!(FeedWriter::look(&path).is_ok() && !path.exists());
}

#[test]
fn a_link_a_pipe_and_another_users_file_are_refused() {
    let folder = Folder::new("foreign");
    let path = folder.feed();
    drop(FeedWriter::open(folder.0.join("real")).unwrap());
    symlink(folder.0.join("real"), &path).unwrap();
    assert!(FeedWriter::open(&path).unwrap_err().to_string().contains("a symbolic link"));
    assert!(FeedWriter::look(&path).unwrap_err().to_string().contains("a symbolic link"));
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for refusal in [FeedReader::open(&path).map(drop), FeedWriter::open(&path).map(drop), FeedWriter::look(&path)] {
        assert!(refusal.unwrap_err().to_string().contains("found a pipe; expected a file of 64 bytes"));
    }
    fs::remove_file(&path).unwrap();
    drop(FeedWriter::open(&path).unwrap());
    let own = fs::metadata(&path).unwrap().uid();
    assert!(FeedReader::open_of(&path, own).is_ok());
    let other = FeedReader::open_of(&path, own + 1).unwrap_err().to_string();
    assert!(
        other.contains(&format!("a file of user {own}")) && other.contains(&format!("user {}", own + 1)),
        "{other}"
    );
}

#[test]
fn one_writer_at_a_time() {
    let folder = Folder::new("one");
    let first = FeedWriter::open(folder.feed()).unwrap();
    let second = FeedWriter::open(folder.feed()).unwrap_err().to_string();
    assert!(second.contains("another process writes"), "{second}");
    drop(first);
    assert!(FeedWriter::open(folder.feed()).is_ok());
}

#[test]
fn a_reader_of_an_earlier_run_sees_the_next_one_in_the_same_file() {
    let folder = Folder::new("again");
    let mut first = FeedWriter::open(folder.feed()).unwrap();
    let reader = FeedReader::open(folder.feed()).unwrap();
    let nothing = reader.read().unwrap();
    assert!(nothing.active().is_none() && nothing.is_stale(feed::now()) && !reader.may_submit(0));
    first.publish(open(1), TERMS).unwrap();
    let said = reader.read().unwrap();
    assert!(reader.may_submit(feed::now()) && said.is_on("east") && !said.is_on("west"));
    assert!(!said.is_stale(said.valid_until() - 1) && said.is_stale(said.valid_until()));
    assert_eq!(said.valid_until() - said.heartbeat(), 60_000_000_000);
    drop(first);
    let mut second = FeedWriter::open(folder.feed()).unwrap();
    assert_eq!(reader.read(), Some(said), "nothing is published by opening it");
    second.publish(open(2), TERMS).unwrap();
    let next = reader.read().unwrap();
    assert!(next.sequence() > said.sequence() && next.epoch() == Epoch::new(2));
    second.stop(open(2), WhenStale::Keep).unwrap();
    let stopped = reader.read().unwrap();
    assert!(stopped.is_stopped() && stopped.is_stale(feed::now()) && stopped.may(OrderAction::Submit, feed::now()));
    assert!(second.check().is_ok());
}

#[test]
fn a_writer_that_died_in_the_middle_leaves_nothing_to_read_and_the_next_goes_on_beyond_it() {
    let folder = Folder::new("middle");
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    writer.publish(open(1), TERMS).unwrap();
    let reader = FeedReader::open(folder.feed()).unwrap();
    let sequence = reader.read().unwrap().sequence();
    drop(writer);
    let file = fs::OpenOptions::new().write(true).open(folder.feed()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &(sequence + 1).to_le_bytes(), 8).unwrap();
    assert!(reader.read().is_none() && !reader.may_submit(0));
    assert!(FeedReader::open(folder.feed()).is_ok(), "it may be readable in a moment");
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    assert!(reader.read().is_none());
    writer.publish(open(1), TERMS).unwrap();
    assert_eq!(reader.read().unwrap().sequence(), sequence + 4);
}

#[test]
fn a_file_of_another_boot_is_no_answer_however_long_it_was_to_hold() {
    let folder = Folder::new("boot");
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    writer.publish(open(1), Terms { valid_for: Duration::MAX, when_stale: WhenStale::Keep }).unwrap();
    let reader = FeedReader::open(folder.feed()).unwrap();
    assert!(reader.may_submit(u64::MAX));
    let file = fs::OpenOptions::new().write(true).open(folder.feed()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 8], 48).unwrap();
    assert!(reader.read().is_none() && !reader.may_submit(0));
    let refused = FeedReader::open(folder.feed()).unwrap_err().to_string();
    assert!(refused.contains("before this boot"), "{refused}");
    if let Some(c) = languages::reader() {
        assert!(languages::say(c, &folder.feed()).contains("written before this boot"));
    }
    writer.publish(open(1), TERMS).unwrap();
    assert!(reader.may_submit(feed::now()) && FeedReader::open(folder.feed()).is_ok());
}

#[test]
fn the_c_reader_refuses_the_same() {
    let Some(reader) = languages::reader() else { return };
    let folder = Folder::new("c");
    let path = folder.feed();
    let refused = |with: &str| {
        let said = languages::say(reader, &path);
        assert!(said.starts_with("refused: the feed ") && said.contains(with), "{said}");
    };
    refused("No such file");
    fs::write(&path, [7; 63]).unwrap();
    refused("not a file of 64 bytes");
    fs::write(&path, [7; SIZE]).unwrap();
    refused("not a feed");
    fs::write(&path, b"BFFEED\x02\0".iter().copied().chain([0; 56]).collect::<Vec<_>>()).unwrap();
    refused("another layout version");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
    refused("others than its owner");
}

#[test]
fn a_feed_that_is_removed_replaced_or_cut_is_noticed_by_its_writer() {
    let folder = Folder::new("lost");
    let mut writer = FeedWriter::open(folder.feed()).unwrap();
    writer.publish(open(1), TERMS).unwrap();
    assert!(writer.check().is_ok());
    fs::OpenOptions::new().write(true).open(folder.feed()).unwrap().set_len(70).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("70 bytes"));
    fs::OpenOptions::new().write(true).open(folder.feed()).unwrap().set_len(64).unwrap();
    assert!(writer.check().is_ok());
    // Moved away, whatever is in its place, and put back.
    let aside = folder.feed().with_extension("aside");
    fs::rename(folder.feed(), &aside).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("removed or replaced"));
    std::os::unix::fs::symlink(&aside, folder.feed()).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("removed or replaced"));
    fs::remove_file(folder.feed()).unwrap();
    fs::create_dir(folder.feed()).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("removed or replaced"));
    fs::remove_dir(folder.feed()).unwrap();
    fs::rename(&aside, folder.feed()).unwrap();
    assert!(writer.check().is_ok());
    // Cut to nothing: the next publication makes it as long as it was, but no feed.
    fs::OpenOptions::new().write(true).open(folder.feed()).unwrap().set_len(0).unwrap();
    writer.publish(open(1), TERMS).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("begins with [00"));
    fs::remove_file(folder.feed()).unwrap();
    assert!(writer.check().unwrap_err().to_string().contains("removed or replaced"));
}
