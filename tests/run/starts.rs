//! How it starts, stops and refuses to.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::brokers::Mode;
use crate::rig::{Rig, Setting, all_hooks, is_root, lives, signal};

#[test]
fn a_first_start_needs_to_be_told_the_active_path_and_begins_held() {
    let mut rig = Rig::new(&Setting { failback: "manual", ..Setting::default() });
    let (status, err) = rig.refused(&[]);
    assert_eq!(status, 2);
    assert!(err.contains("--first-start main=ENDPOINT"), "{err}");
    let (status, err) = rig.refused(&["--first-start", "nowhere"]);
    assert_eq!(status, 2, "{err}");
    assert!(
        err.contains("--first-start nowhere: group main has no such endpoint; expected one of east, west"),
        "{err}"
    );
    let (status, err) = rig.refused(&["--first-start", "desk=east"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("--first-start desk=east: no such group; expected one of main"), "{err}");
    assert!(rig.hooks().is_empty());

    rig.behave("reconcile", "fail");
    rig.start(&["--first-start", "main=west"]);
    let group = rig.until("west is probed", |group| group["endpoints"][1]["state"] == "HEALTHY");
    assert_eq!(group["order_flow"], "HOLD RECONCILING", "{group:#}");
    assert_eq!(group["epoch"], 1);
    rig.behave("reconcile", "ok");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #1");
    assert!(rig.started().iter().all(|hook| hook == "reconcile west 1"), "{:?}", rig.started());

    // From now on it knows, and is not told again.
    rig.kill();
    rig.start(&["--first-start", "east"]);
    assert_eq!(rig.group()["active"], "west");
}

#[test]
fn a_second_supervisor_is_refused() {
    let rig = Rig::open(&Setting::default());
    let (status, err) = rig.refused(&["--first-start", "west"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("another supervisor"), "{err}");
    // With another socket it meets the journal's lock.
    let config = fs::read_to_string(rig.file("config.toml")).unwrap();
    let listen = format!("listen = \"{}\"\n", rig.listen);
    fs::write(rig.file("config.toml"), config.replace("control.sock", "other.sock").replace(&listen, "")).unwrap();
    let (status, err) = rig.refused(&["--first-start", "west"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("journal"), "{err}");
    assert!(!rig.file("other.sock").exists(), "who does not start leaves no socket");
    fs::write(rig.file("config.toml"), config).unwrap();
    assert_eq!(rig.flow(), "OPEN east #1");
}

/// A supervisor whose fence hook hangs, and a process that the hook started.
fn fence_that_hangs() -> (Rig, u32) {
    let mut rig = Rig::open(&Setting::default());
    rig.behave("fence", "hang");
    rig.set("east", Mode::Refuse);
    rig.wait("the fence hangs", |rig| rig.count("child ") == 1);
    let line = rig.hooks().into_iter().find(|line| line.starts_with("child ")).unwrap();
    let child: u32 = line["child ".len()..].parse().unwrap();
    (rig, child)
}

#[test]
fn sigterm_abandons_the_running_hook_and_writes_down_the_stop() {
    let (mut rig, child) = fence_that_hangs();
    assert!(lives(child));
    assert!(rig.terminate().success());
    rig.wait("the hook's child is gone", |_| !lives(child));
    let last = rig.journal().last().cloned().unwrap();
    assert_eq!((&last["kind"], &last["body"]["reason"]), (&"stop".into(), &"SIGTERM".into()), "{last}");
    let ends = rig.records("hook_end");
    assert_eq!(ends.last().unwrap()["report"]["result"], "ABANDONED", "{ends:?}");
    assert!(!rig.file("control.sock").exists());
    rig.verify();

    // It goes on where it was: the fence, which is retried in any case.
    rig.behave("fence", "ok");
    rig.start(&[]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn sigint_stops_as_gracefully_as_sigterm() {
    let (mut rig, child) = fence_that_hangs();
    signal(rig.pid(), "INT");
    rig.wait("it ends", |rig| rig.ended().is_some());
    assert!(rig.ended().unwrap().success(), "{}", rig.tell());
    rig.kill_remains();
    rig.wait("the hook's child is gone", |_| !lives(child));
    let last = rig.journal().last().cloned().unwrap();
    assert_eq!((&last["kind"], &last["body"]["reason"]), (&"stop".into(), &"SIGINT".into()), "{last}");
    assert_eq!(rig.records("hook_end").last().unwrap()["report"]["result"], "ABANDONED");
    assert!(!rig.file("control.sock").exists());
    rig.verify();
}

#[test]
fn a_dry_run_runs_no_hook_and_leaves_nothing_behind() {
    let mut rig = Rig::open(&Setting::default());
    assert!(rig.terminate().success());
    let hooks = rig.hooks();
    rig.start(&["--dry-run"]);
    rig.set("east", Mode::Refuse);
    rig.wait("it says what it would do", |rig| {
        let notes = rig.records("note");
        notes.iter().any(|note| note["code"] == "PAUSED_ANSWER" && note["text"].to_string().contains("FENCE_REQUIRED"))
    });
    assert_eq!(rig.flow(), "OPEN east #1");
    for command in [&["halt", "now"][..], &["unpause"], &["switchover", "west"], &["confirm-fence", "--epoch", "1"]] {
        assert!(rig.refuse(command).contains("dry run"), "{command:?}");
    }
    assert_eq!(rig.hooks(), hooks);
    assert!(rig.terminate().success());
    rig.start(&[]);
    rig.until("the real run acts", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn the_socket_is_for_its_user_alone() {
    let rig = Rig::open(&Setting::default());
    let mode = fs::metadata(rig.file("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    if !is_root() {
        println!("SKIPPED: a foreign user needs root to become one");
        return;
    }
    let foreign = |rig: &Rig| {
        let socket = rig.file("control.sock");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_broker-failover"), "halt", "--socket"]);
        command.arg(socket).arg("mine now").output().expect("setpriv")
    };
    // The folders above may not be open to everybody; the binary's own may not either.
    let reachable = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_broker-failover"), "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !reachable {
        println!("SKIPPED: another user cannot run the binary here");
        return;
    }
    fs::set_permissions(&rig.folder, fs::Permissions::from_mode(0o755)).unwrap();
    let output = foreign(&rig);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // Even if somebody opens the socket to everybody, the kernel tells who asks.
    fs::set_permissions(rig.file("control.sock"), fs::Permissions::from_mode(0o666)).unwrap();
    let output = foreign(&rig);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("user 65534 may not control"), "{output:?}");
    assert_eq!(rig.flow(), "OPEN east #1");
}

#[test]
fn no_secret_is_told_anywhere() {
    let probe = "probe = { http = { path = \"/health\", expect_body = \"ok\", headers = { Authorization = \"Bearer t0ken\" } } }";
    let mut rig = Rig::open(&Setting {
        scheme: "http://desk:pa55word@".to_owned(),
        endpoint: probe.to_owned(),
        ..Setting::default()
    });
    rig.behave("fence", "fail");
    rig.set("east", Mode::Refuse);
    rig.wait("the fence fails", |rig| rig.count("failed fence") > 0);
    rig.behave("fence", "ok");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    let shown = [rig.obey(&["status"]), rig.obey(&["status", "--json"]), rig.get("/status").2, rig.get("/metrics").2];
    assert!(rig.terminate().success());
    let mut texts = shown.to_vec();
    texts.extend(["out.log", "err.log"].map(|name| fs::read_to_string(rig.file(name)).unwrap_or_default()));
    for file in fs::read_dir(rig.file("journal")).unwrap() {
        texts.push(fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    }
    for text in texts {
        for secret in ["pa55word", "t0ken", "desk:"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    // The hook itself was told the whole url, which it needs, and printed it.
    let ends = rig.records("hook_end");
    assert!(
        ends.iter().any(|end| end["report"]["output"].to_string().contains("cannot reach http://***@")),
        "{ends:?}"
    );
}

#[test]
fn status_and_metrics_can_be_read_by_their_readers() {
    let rig = Rig::open(&Setting::default());
    let (status, head, body) = rig.get("/status");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let groups: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(groups[0]["order_flow"], "OPEN east #1");
    assert_eq!(groups[0]["endpoints"].as_array().unwrap().len(), 2);

    let (status, head, body) = rig.get("/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let mut family = String::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "info", "stateset", "histogram", "unknown"].contains(&kind), "{line}");
            family = name.to_owned();
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(&family), "{line} under {family}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    assert!(body.contains("broker_failover_flow_open{group=\"main\"} 1\n"), "{body}");
    assert!(body.contains("broker_failover_endpoint_active{group=\"main\",endpoint=\"east\"} 1\n"), "{body}");

    assert_eq!(rig.get("/nothing").0, 404);
    for (name, forbidden) in [("POST", "/status"), ("DELETE", "/metrics")] {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("printf '{name} {forbidden} HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n'"))
            .output()
            .unwrap();
        let mut stream = std::net::TcpStream::connect(rig.listen).unwrap();
        std::io::Write::write_all(&mut stream, &output.stdout).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

/// The TCP ports on which a process listens.
fn listening(pid: u32) -> Vec<u16> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links: Vec<_> = files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).collect();
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let port = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, local, _, "0A", _, _, _, _, _, inode, ..] = words[..] else { return None };
        let own = links.contains(&format!("socket:[{inode}]").into());
        own.then(|| u16::from_str_radix(local.rsplit(':').next()?, 16).ok()).flatten()
    };
    tables.iter().flat_map(|table| table.lines()).filter_map(port).collect()
}

#[test]
fn a_torn_tail_is_in_the_log_of_the_start_that_cut_it() {
    let mut rig = Rig::open(&Setting::default());
    rig.kill();
    let folder = fs::read_dir(rig.file("journal")).unwrap();
    let segments =
        folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let newest = segments.max().unwrap();
    OpenOptions::new().append(true).open(newest).unwrap().write_all(b"{\"seq\":").unwrap();
    rig.start(&[]);
    assert!(rig.noted("TORN_TAIL"));
    let log = fs::read_to_string(rig.file("err.log")).unwrap();
    assert!(log.contains("WARN") && log.contains("TORN_TAIL") && log.contains("cut and kept in"), "{log}");
}

#[test]
fn without_listen_nothing_listens() {
    let mut rig = Rig::open(&Setting::default());
    assert_eq!(listening(rig.pid()), [rig.listen.port()]);
    assert!(rig.terminate().success());
    let config = fs::read_to_string(rig.file("config.toml")).unwrap();
    let listen = format!("listen = \"{}\"\n", rig.listen);
    assert!(config.contains(&listen));
    fs::write(rig.file("config.toml"), config.replace(&listen, "")).unwrap();
    rig.start(&[]);
    rig.some_slots();
    assert_eq!(listening(rig.pid()), [0; 0]);
    assert!(std::net::TcpStream::connect(rig.listen).is_err());
    assert_eq!(rig.flow(), "OPEN east #1", "it is asked over its own socket");
}

#[test]
fn a_full_disk_halts_and_switches_nothing() {
    if !is_root() {
        println!("SKIPPED: a small file system needs root to be mounted");
        return;
    }
    let mut rig = Rig::new(&Setting { supervisor: "segment_size = 65536".to_owned(), ..Setting::default() });
    let journal = rig.file("journal");
    fs::create_dir(&journal).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&journal).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no file system can be mounted here");
        return;
    }
    let mount = Mount(journal.clone());
    rig.start(&["--first-start", "east"]);
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #1");
    // Nothing is decided meanwhile: the records of the probes are what does not fit any more.
    while fs::write(journal.join("ballast"), vec![0_u8; 16 * 1024]).is_ok()
        && fs::rename(journal.join("ballast"), journal.join(format!("ballast{}", rig.folder_entries(&journal)))).is_ok()
    {
    }
    let group = rig.until("trading halts", |group| group["order_flow"] == "HALT JOURNAL_FAILED");
    assert_eq!(group["epoch"], 1);
    rig.until("its hook confirms it", |group| group["halt_confirmed"] == true);
    rig.set("east", Mode::Refuse);
    rig.some_slots();
    let group = rig.group();
    assert_eq!((&group["active"], &group["epoch"]), (&"east".into(), &1.into()));
    for command in [&["resume"][..], &["switchover", "west"], &["confirm-fence", "--epoch", "1"]] {
        assert!(rig.refuse(command).contains("journal failed"), "{command:?}");
    }
    // What cannot be recorded does not happen.
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    fs::write(rig.file("config.toml"), good.replace("cooldown = \"1h\"", "cooldown = \"2h\"")).unwrap();
    assert!(rig.refuse(&["reload"]).contains("journal failed"));
    fs::write(rig.file("config.toml"), good).unwrap();
    let started = rig.started();
    assert_eq!(started.last().map(String::as_str), Some("halt east 1"), "{started:?}");
    assert!(!started.iter().any(|hook| hook.starts_with("fence") || hook.starts_with("switch")), "{started:?}");
    assert!(
        rig.records("hook_start").iter().all(|start| start["request"]["stage"] != "halt"),
        "it could not be recorded"
    );
    signal(rig.pid(), "TERM");
    rig.wait("it ends", |rig| rig.ended().is_some());
    assert_eq!(rig.ended().unwrap().code(), Some(3), "{}", rig.tell());
    rig.kill_remains();

    // With room again it starts from what is on disk.
    for entry in fs::read_dir(&journal).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("ballast") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    rig.start(&[]);
    rig.until("the failover goes on", |group| group["order_flow"] == "OPEN west #2");
    assert!(rig.terminate().success());
    drop(mount);
}

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(&self.0).status();
    }
}

#[test]
fn b16_a_backup_that_cannot_be_used_is_said_at_the_start() {
    let setting = Setting { endpoints: 3, ..Setting::default() };
    let mut rig = Rig::new(&setting);
    rig.set("west", Mode::Refuse);
    rig.start(&["--first-start", "east"]);
    let said = "0 usable targets now; not west: not probed yet; not north: not probed yet";
    // The log is written aside.
    rig.wait("it says so", |rig| fs::read_to_string(rig.file("err.log")).unwrap().contains(said));
    rig.wait("it says so again once it knows", |rig| rig.noted("TARGETS"));
    let notes = rig.records("note");
    let text = notes.iter().find(|note| note["code"] == "TARGETS").unwrap()["text"].to_string();
    assert!(text.contains("1 usable target now: north; not west: its probes fail"), "{text}");
    let status = rig.obey(&["status"]);
    assert!(status.contains("its probes fail") || status.contains("Refused"), "{status}");

    // A file that only lacks hooks is legal, and `check` says what that means.
    rig.configure(&Setting { hooks: String::new(), ..setting });
    let output = Rig::binary(&["check"]).arg(rig.file("config.toml")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    for word in ["no fence hook", "no switch hook", "no halt hook"] {
        assert!(text.contains(word), "{word} not in {text}");
    }
}

#[test]
fn check_prints_every_value_and_its_origin() {
    let rig = Rig::new(&Setting { hooks: all_hooks(), ..Setting::default() });
    let output = Rig::binary(&["check", "--print-effective"]).arg(rig.file("config.toml")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for key in ["failure_threshold", "failback_window", "max_hold", "cooldown"] {
        assert!(text.contains(key), "{key} not in {text}");
    }
}

#[test]
fn b05_zero_and_endless_settings_are_refused_before_anything_starts() {
    let rig = Rig::new(&Setting::default());
    let good = fs::read_to_string(rig.file("config.toml")).unwrap();
    let settings = [
        ("failure_threshold = 2", "failure_threshold = 0"),
        ("interval = \"100ms\"", "interval = \"0s\""),
        ("timeout = \"1500ms\"", "timeout = \"0ms\""),
        ("timeout = \"20s\"", "timeout = \"0s\""),
        ("cooldown = \"1h\"", "cooldown = 3600"),
        ("cooldown = \"1h\"", "cooldown = \"99999999999999999999h\""),
        ("cooldown = \"1h\"", "max_failbacks_per_window = 0"),
        ("cooldown = \"1h\"", "failback_success_threshold = 0"),
        ("cooldown = \"1h\"", "cooldown = \"1h\"\nno_such_key = 1"),
    ];
    for (from, to) in settings {
        assert!(good.contains(from), "{from}");
        fs::write(rig.file("config.toml"), good.replacen(from, to, 1)).unwrap();
        let (status, err) = rig.refused(&["--first-start", "east"]);
        assert_eq!(status, 2, "{to}: {err}");
        assert!(err.contains("refused; nothing was started"), "{to}: {err}");
    }
    assert!(!rig.file("journal").exists());
}

#[test]
fn a_standard_error_that_is_full_gone_or_stuck_stops_no_failover() {
    let gone = std::io::pipe().map(|(_, writer)| Stdio::from(writer));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").map(Stdio::from);
    // Nobody reads it while the reader lives.
    let (reader, writer) = std::io::pipe().unwrap();
    for log in [full.unwrap(), gone.unwrap(), writer.into()] {
        let mut rig = Rig::new(&Setting::default());
        rig.spawn_with(&["--first-start", "east"], log);
        rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #1");
        for _ in 0..150 {
            // More lines than a pipe holds.
            let long = "x".repeat(1_000);
            let _ = rig.command(&["switchover", &long]);
        }
        rig.set("east", Mode::Refuse);
        rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
        assert!(rig.terminate().success());
        rig.verify();
    }
    drop(reader);
}

#[test]
fn a_start_that_is_refused_for_one_group_has_run_no_hook_of_another() {
    let rig = Rig::new(&Setting::default());
    let config = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (_, group) = config.split_once("[[group]]").unwrap();
    let other = group.replace("name = \"main\"", "name = \"other\"");
    fs::write(rig.file("config.toml"), format!("{config}\n[[group]]{other}")).unwrap();
    let (status, err) = rig.refused(&["--first-start", "main=east"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("group \"other\" has no state"), "{err}");
    assert!(rig.hooks().is_empty(), "{:?}", rig.hooks());
    assert!(rig.records("snapshot").is_empty(), "{:?}", rig.journal());
}

#[test]
fn what_stands_in_the_place_of_the_control_socket_and_is_none_is_left_alone() {
    let rig = Rig::new(&Setting::default());
    fs::write(rig.file("control.sock"), "the only copy").unwrap();
    let (status, err) = rig.refused(&["--first-start", "east"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("control.sock: something that is not a socket"), "{err}");
    assert_eq!(fs::read_to_string(rig.file("control.sock")).unwrap(), "the only copy");
}

#[test]
fn a_state_folder_that_is_removed_while_it_is_written_halts_and_switches_nothing() {
    let mut rig = Rig::open(&Setting::default());
    fs::remove_dir_all(rig.file("journal")).unwrap();
    rig.set("east", Mode::Refuse);
    rig.until("trading is halted", |group| group["order_flow"] == "HALT JOURNAL_FAILED");
    assert_eq!(rig.group()["epoch"], 1);
    assert_eq!(rig.group()["waits_for"], "repair the journal and restart");
    assert_eq!((rig.count("start fence"), rig.count("start switch")), (0, 0), "{:?}", rig.started());
    assert_eq!(rig.terminate().code(), Some(3));
}

#[test]
fn a_check_with_probe_asks_every_endpoint_once_and_starts_nothing() {
    let rig = Rig::new(&Setting::default());
    let check = || {
        let config = rig.file("config.toml");
        let ran = Command::new(env!("CARGO_BIN_EXE_broker-failover")).arg("check").arg("--probe").arg(config).output();
        let ran = ran.unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
    };
    let (status, out) = check();
    assert_eq!(status, Some(0), "{out}");
    assert!(out.contains("main: east: answers as it should in ") && out.contains("main: west: answers"), "{out}");
    rig.set("west", Mode::Refuse);
    let (status, out) = check();
    assert_eq!(status, Some(1), "{out}");
    assert!(out.contains("main: east: answers") && out.contains("main: west: Refused: "), "{out}");
    assert!(rig.hooks().is_empty() && !rig.file("state").exists());
}
