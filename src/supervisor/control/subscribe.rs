//! A subscription: the present order flow of each group, then every change of it, as JSON Lines until somebody hangs up.
//!
//! ```text
//! -> {"subscribe":true}
//! <- {"number":1,"group":"main-account","endpoint":"east","epoch":1,"order_flow":"OPEN east #1","may_submit":true,..}
//! <- {"number":2,"group":"main-account","endpoint":"east","epoch":1,"order_flow":"HOLD SWITCHING","may_submit":false,..}
//! <- {"keepalive":true,"groups":[{"group":"main-account","beat_age":0.41}]}
//! <- {"group":"main-account","ended":true}
//! ```
//!
//! A subscriber delays nobody: the group's loop only replaces what is to be told. One who is too slow misses changes, which
//! the numbers tell, but never the newest; one who takes nothing for 15 s is dropped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::group::Recent;
use super::super::group::task::GroupHandle;
use super::{Answer, Connection, LONGEST_WAIT};

/// Subscriptions at the same time. They take no place of those who have something to say.
pub(in super::super) const MOST_SUBSCRIPTIONS: usize = 64;
/// How often a subscriber hears something, whether or not anything changes.
pub const KEEPALIVE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Keepalive {
    keepalive: bool,
    groups: Vec<Beat>,
}

#[derive(Serialize)]
struct Beat {
    group: String,
    /// Seconds since the group's loop said that it is alive: what a supervisor that hangs cannot say.
    beat_age: f64,
}

#[derive(Serialize)]
struct Ended {
    group: String,
    ended: bool,
}

/// Places of subscribers.
#[derive(Clone)]
pub(super) struct Subscriptions(Arc<Semaphore>);

impl Default for Subscriptions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_SUBSCRIPTIONS)))
    }
}

impl Subscriptions {
    /// Tells of `groups` until whoever is told goes away, or all of them have ended. `place` is that of its connection.
    pub(super) async fn serve<P>(
        &self,
        mut connection: Connection,
        groups: Vec<GroupHandle>,
        place: P,
    ) -> io::Result<()> {
        let Ok(_subscribed) = Arc::clone(&self.0).try_acquire_owned() else {
            let why = format!("there are {MOST_SUBSCRIPTIONS} subscriptions already");
            return connection.reply(&Answer::Error(why)).await;
        };
        drop(place);
        let Connection { reader, writer, .. } = &mut connection;
        tokio::select! {
            told = follow(writer, groups) => told,
            () = hung_up(reader) => Ok(()),
        }
    }
}

/// The far side has closed its connection. One that closed only its own direction asks nothing more, and is told all the
/// same (a pipe into `nc` is one); should it close the rest later, the next write shows it.
async fn hung_up(reader: &mut BufReader<OwnedReadHalf>) {
    let mut ignored = [0; 256];
    while let Ok(1..) = reader.read(&mut ignored).await {}
    let stream: &UnixStream = reader.get_ref().as_ref();
    let mut asked = [PollFd::new(stream, PollFlags::empty())];
    let is_gone = poll(&mut asked, Some(&Timespec::default())).is_err() || asked[0].revents().contains(PollFlags::HUP);
    if !is_gone {
        std::future::pending().await
    }
}

async fn follow(writer: &mut (impl AsyncWriteExt + Unpin), groups: Vec<GroupHandle>) -> io::Result<()> {
    let news = Arc::new(Notify::new());
    // One for each group, so that each wakes the one who writes; aborted when that is over.
    let mut watchers = JoinSet::new();
    for group in &groups {
        let (mut recent, news) = (group.changes.recent.clone(), Arc::clone(&news));
        watchers.spawn(async move {
            while recent.changed().await.is_ok() {
                news.notify_one();
            }
            news.notify_one();
        });
    }
    let mut following: Vec<_> = groups.into_iter().map(|group| (group, 0)).collect();
    let mut keepalive = tokio::time::interval(KEEPALIVE);
    keepalive.reset();
    while !following.is_empty() {
        let mut lines = Vec::new();
        following.retain_mut(|(group, told)| {
            // Before what was told last: a loop that ends after this is seen next time.
            let ended = group.changes.recent.has_changed().is_err();
            untold(&group.changes.recent.borrow(), told, &mut lines);
            if ended {
                line(&Ended { group: group.name.clone(), ended }, &mut lines);
            }
            !ended
        });
        write(writer, &lines).await?;
        if following.is_empty() {
            break;
        }
        tokio::select! {
            () = news.notified() => {}
            _ = keepalive.tick() => {
                let beat = |(group, _): &(GroupHandle, u64)| Beat {
                    group: group.name.clone(),
                    beat_age: group.changes.beat_age().as_secs_f64(),
                };
                let mut lines = Vec::new();
                line(&Keepalive { keepalive: true, groups: following.iter().map(beat).collect() }, &mut lines);
                write(writer, &lines).await?;
            }
        }
    }
    Ok(())
}

/// The changes since the one of number `told`; at first only the present one.
fn untold(recent: &Recent, told: &mut u64, lines: &mut Vec<u8>) {
    let first = *told == 0;
    let since = *told;
    for change in recent.iter().skip(if first { recent.len().saturating_sub(1) } else { 0 }) {
        if change.number > since {
            line(&**change, lines);
            *told = change.number;
        }
    }
}

fn line(value: &impl Serialize, lines: &mut Vec<u8>) {
    if serde_json::to_writer(&mut *lines, value).is_ok() {
        lines.push(b'\n');
    }
}

async fn write(writer: &mut (impl AsyncWriteExt + Unpin), lines: &[u8]) -> io::Result<()> {
    timeout(LONGEST_WAIT, writer.write_all(lines)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::sync::{mpsc, watch};

    use super::super::super::group::{Change, Changes};
    use super::*;
    use crate::engine::{Engine, Policy, Timestamp};
    use crate::path::{self, Path};

    fn recent(numbers: impl Iterator<Item = u64>) -> Recent {
        let one = |number| {
            Arc::new(Change {
                number,
                group: "main".to_owned(),
                endpoint: Some("east".to_owned()),
                epoch: Some(1),
                order_flow: "OPEN east #1".to_owned(),
                may_submit: true,
                may_cancel: true,
                may_query: true,
                reason: None,
                halt_text: None,
            })
        };
        numbers.map(one).collect::<VecDeque<_>>()
    }

    fn numbers(lines: &[u8]) -> Vec<u64> {
        let lines = String::from_utf8(lines.to_vec()).unwrap();
        let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["number"].as_u64().unwrap();
        lines.lines().map(number).collect()
    }

    #[test]
    fn first_the_present_state_then_each_change_once_and_the_newest_always() {
        let (mut told, mut lines) = (0, Vec::new());
        untold(&recent(1..=7), &mut told, &mut lines);
        assert_eq!((numbers(&lines), told), (vec![7], 7));
        lines.clear();
        untold(&recent(1..=7), &mut told, &mut lines);
        assert!(lines.is_empty());
        untold(&recent(2..=9), &mut told, &mut lines);
        assert_eq!((numbers(&lines), told), (vec![8, 9], 9));
        lines.clear();
        untold(&recent(90..=99), &mut told, &mut lines);
        assert_eq!((numbers(&lines), told), ((90..=99).collect(), 99));
    }

    #[tokio::test]
    async fn who_is_slow_delays_nobody_and_hears_the_newest_all_the_same() {
        const LAST: u64 = 10_000;
        let (sender, receiver) = watch::channel(recent(1..=1));
        let (inbox, messages) = mpsc::channel(1);
        let (_, reader) = path::publish(Path::of(&Engine::new(Policy::default())), Timestamp::ZERO);
        let group = GroupHandle { name: "main".to_owned(), inbox, reader, changes: Changes::of(receiver) };
        let (mut far, near) = tokio::io::duplex(256);
        let following = tokio::spawn(async move { follow(&mut far, vec![group]).await });
        // Nobody reads, and all of them are told nevertheless.
        for number in 2..=LAST {
            sender.send_replace(recent(number.saturating_sub(9)..=number));
            tokio::task::yield_now().await;
        }
        let mut lines = BufReader::new(near).lines();
        let mut heard = Vec::new();
        while heard.last() != Some(&LAST) {
            let line = lines.next_line().await.unwrap().expect("the newest");
            heard.extend(numbers(line.as_bytes()));
        }
        assert!(heard.is_sorted() && heard.len() < 100, "{heard:?}");
        drop((sender, messages));
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(r#"{"group":"main","ended":true}"#));
        assert!(lines.next_line().await.unwrap().is_none());
        following.await.unwrap().unwrap();
    }
}
