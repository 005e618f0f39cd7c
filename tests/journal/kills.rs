//! A process that is killed while it writes.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::supervisor::hooks::Stage;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

/// The child of the next test: appends until it is killed, and says what is durable.
#[test]
fn child_of_the_kills() {
    let Some(folder) = std::env::var_os("JOURNAL_CHILD") else { return };
    let keep = Keep { age: Duration::MAX, size: 300_000 };
    let options = Options { segment_size: 30_000, keep, ..Options::new(PathBuf::from(folder), "hash") };
    let (journal, recovered) = Journal::open(options, at(0)).unwrap();
    let mut desk = Desk::new_or_recovered("main", &journal.handle(), &recovered);
    let mut out = io::stdout();
    loop {
        let said = |seq: Seq, epoch: u64, out: &mut io::Stdout| {
            writeln!(out, "durable {seq} {epoch}").and_then(|()| out.flush()).unwrap();
        };
        for endpoint in ["east", "west", "south"].iter().cycle().take(20) {
            desk.probe(endpoint, true);
        }
        desk.fail_over();
        let epoch = desk.epoch();
        said(desk.durably(desk.hook_start(Stage::Switch, 1)), epoch, &mut out);
        said(desk.decide(Input::Reconciled(epoch)).unwrap(), epoch, &mut out);
    }
}

#[test]
fn two_hundred_kills_lose_no_durable_record() {
    let folder = Folder::new("kills");
    // A fixed sequence of moments; each falls somewhere else, since nothing else is in step with it.
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let (mut acknowledged, mut torn, mut rotated, mut epoch) = (0, 0, 0, 0);
    for run in 0..200 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::child_of_the_kills", "--nocapture"])
            .env("JOURNAL_CHILD", &folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (say, hear) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let Some((seq, epoch)) = line.strip_prefix("durable ").and_then(|rest| rest.split_once(' ')) else {
                    continue;
                };
                say.send((seq.parse::<Seq>().unwrap(), epoch.parse::<u64>().unwrap())).unwrap();
            }
        });
        // One in four is killed wherever it is, most likely while it starts; the others while they decide.
        let first = if run % 4 == 0 { None } else { hear.recv().ok() };
        std::thread::sleep(Duration::from_micros(random % 30_000));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
        let (mut last, mut told) = (0, epoch);
        for durable in first.into_iter().chain(hear) {
            (last, told) = durable;
            acknowledged += 1;
        }
        if !folder.0.exists() {
            continue;
        }
        let recovered = folder.recover().unwrap();
        assert!(recovered.next > last, "record {last} was durable; the journal ends before {}", recovered.next);
        torn += usize::from(recovered.torn.is_some());
        rotated = folder.segments().len();
        if let Some(group) = recovered.groups.get("main") {
            let now = group.snapshot.active.as_ref().unwrap().epoch.get();
            assert!(now >= told, "epoch {told} was durable; the journal says {now}");
            epoch = now;
        }
    }
    let counts = folder.verify().unwrap();
    println!(
        "{acknowledged} durable records acknowledged, {} records in {rotated} segments, {torn} torn lines, epoch {epoch}",
        counts.records()
    );
    assert!(acknowledged > 200, "too few decisions were made to mean anything: {acknowledged}");
    // Every decision of all those lives, replayed as one.
    // How many there are depends on how fast this machine is; that there are many shows that something was tested.
    assert!(replay_alike(&folder.exported("main")) > 200);
}
