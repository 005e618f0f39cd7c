//! What a person may ask for, and why it is refused.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::brokers::Mode;
use crate::rig::{Rig, Setting, all_hooks, signal};

#[test]
fn a_pause_keeps_watching_and_moves_nothing() {
    let mut rig = Rig::open(&Setting::default());
    rig.obey(&["pause"]);
    rig.set("east", Mode::Refuse);
    rig.wait("it says what it would do", |rig| rig.noted("PAUSED_ANSWER"));
    rig.until("east is down", |group| group["endpoints"][0]["state"] == "DOWN");
    rig.some_slots();
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["paused"]), (&"OPEN east #1".into(), &true.into()));
    assert_eq!(rig.count("start fence"), 0);
    for command in [&["switchover", "west"][..], &["failback"], &["rearm"]] {
        assert!(rig.refuse(command).contains("paused"), "{command:?}");
    }
    // A pause outlives a restart.
    rig.kill();
    rig.start(&[]);
    rig.some_slots();
    assert_eq!((rig.group()["paused"].as_bool(), rig.count("start fence")), (Some(true), 0));
    rig.obey(&["unpause"]);
    rig.until("it acts", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn a_switchover_and_a_failback_by_hand_are_staged_like_any_other() {
    let mut rig = Rig::open(&Setting { endpoints: 3, failback: "manual", ..Setting::default() });
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == 2));
    assert!(rig.refuse(&["switchover", "nowhere"]).contains("UNKNOWN_ENDPOINT"));
    assert!(rig.refuse(&["switchover", "east"]).contains("ALREADY_ACTIVE"));
    assert!(rig.refuse(&["failback"]).contains("NO_ACTION"));
    rig.set("west", Mode::Refuse);
    rig.until("west is down", |group| group["endpoints"][1]["state"] == "DOWN");
    assert!(rig.refuse(&["switchover", "west"]).contains("TARGET_NOT_ELIGIBLE"));
    assert!(rig.obey(&["switchover", "north"]).starts_with("FENCE_REQUIRED: accepted; "));
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    assert_eq!(rig.group()["operator_placed"], true);
    rig.some_slots();
    assert_eq!(rig.flow(), "OPEN north #2", "nobody but an operator takes it away again");
    rig.obey(&["failback"]);
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #3");
    let kinds: Vec<_> = rig.group()["history"].as_array().unwrap().iter().map(|one| one["kind"].to_string()).collect();
    assert_eq!(kinds, ["\"SWITCHOVER\"", "\"SWITCHOVER\""]);
    let expected =
        ["fence east 1", "switch north 2", "reconcile north 2", "fence north 2", "switch east 3", "reconcile east 3"];
    assert_eq!(rig.started()[1..], expected);
}

#[test]
fn a_status_that_cannot_be_written_is_told() {
    let rig = Rig::open(&Setting::default());
    let config = rig.file("config.toml").display().to_string();
    for flags in [&["status", "--config", &config][..], &["status", "--json", "--config", &config]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Rig::binary(flags).stdout(full).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.starts_with("broker-failover: cannot write the state: No space left"), "{error}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Rig::binary(flags).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    }
}

#[test]
fn a_switchover_that_is_killed_under_way_still_goes_where_the_operator_wanted() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == 2));
    rig.behave("fence", "fail");
    rig.obey(&["switchover", "north"]);
    let failed = |rig: &mut Rig| rig.records("hook_end").iter().any(|end| end["stage"] == "fence");
    rig.wait("the fence fails", failed);
    rig.kill();
    rig.behave("fence", "ok");
    rig.start(&[]);
    let group = rig.until("flow opens", |group| group["may_submit"] == true);
    assert_eq!((&group["order_flow"], &group["operator_placed"]), (&"OPEN north #2".into(), &true.into()));
}

#[test]
fn a_halt_by_hand_is_latched_and_lifted_by_hand() {
    let mut rig = Rig::open(&Setting::default());
    assert!(rig.refuse(&["resume"]).contains("NOT_HALTED"));
    assert_eq!(rig.obey(&["halt", "desk asked"]), "HALT OPERATOR");
    let group = rig.until("its hook confirms it", |group| group["halt_confirmed"] == true);
    assert_eq!(group["halt_text"], "desk asked");
    // The path may move; the halt stays, over a restart too.
    rig.set("east", Mode::Refuse);
    rig.wait("the path moves", |rig| rig.succeeded("switch") == 1);
    rig.kill();
    rig.start(&[]);
    rig.some_slots();
    let group = rig.group();
    assert_eq!((&group["order_flow"], &group["epoch"]), (&"HALT OPERATOR".into(), &2.into()));
    assert_eq!(group["halt_confirmed"], true);
    assert_eq!(rig.obey(&["resume"]), "HOLD RECONCILING");
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    // The log and the journal say it in the words of the command line and of status.
    rig.wait("the log has it", |rig| {
        fs::read_to_string(rig.file("err.log")).unwrap().contains("command=\"halt: desk asked\"")
    });
    let shown = Rig::binary(&["journal", "show", "--all"]).arg(rig.file("journal")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for piece in [": halt: desk asked\n", ": resume, refused: ", "state: west #2, HALT OPERATOR, desk asked\n"] {
        assert!(shown.contains(piece), "{piece:?} in\n{shown}");
    }
    let commands = rig.records("command");
    let halted = commands.iter().find(|one| one["command"] == json!({"halt": {"text": "desk asked"}})).unwrap();
    assert!(halted["peer"]["pid"].as_u64().is_some_and(|pid| pid > 0), "{halted}");
    let refused = commands.iter().find(|one| one["command"] == "resume").unwrap();
    assert!(refused["refused"].to_string().contains("NOT_HALTED"), "refusals are written down too: {refused}");
}

#[test]
fn a_halt_takes_free_words_or_none() {
    let mut rig = Rig::open(&Setting::default());
    for (words, text) in [
        (&["desk", "asked", "-5", "lots"][..], "desk asked -5 lots"),
        (&[], "by hand"),
        (&[""], "by hand"),
        (&["desk asked"], "desk asked"),
        (&["-5%", "--and", "-c", "CONFIG", "falling", "--all", "-"], "-5% --and falling -"),
    ] {
        let config = rig.file("config.toml").display().to_string();
        let words: Vec<_> = words.iter().map(|word| if *word == "CONFIG" { &*config } else { word }).collect();
        let command: &[&str] = if words.contains(&&*config) { &["halt"] } else { &["halt", "--config", &config] };
        let output = Rig::binary(&[command, &words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?} {output:?}");
        rig.until("it is told", |group| group["halt_text"] == text);
        rig.obey(&["resume"]);
    }
}

#[test]
fn no_halt_fails_for_its_words() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut rig = Rig::open(&Setting::default());
    let config = rig.file("config.toml");
    let long = "é".repeat(40_000);
    for (words, begins, longest) in [
        (OsStr::from_bytes(b"w\xff"), "w\u{fffd}", 4),
        (OsStr::new(&*long), "éé", 4_096),
        (OsStr::new(&long[..4_096]), "éé", 4_096),
    ] {
        let output = Rig::binary(&["halt", "--config"]).arg(&config).arg(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let group =
            rig.until("it is told", |group| group["halt_text"].as_str().is_some_and(|text| text.starts_with(begins)));
        let told = group["halt_text"].as_str().unwrap();
        assert!((longest - 4..=longest).contains(&told.len()), "{}", told.len());
        assert_eq!(told.ends_with('…'), words.len() > 4_096);
        rig.obey(&["resume"]);
    }
}

#[test]
fn a_command_to_all_groups_is_answered_by_each() {
    let mut rig = Rig::new(&Setting::default());
    let config = fs::read_to_string(rig.file("config.toml")).unwrap();
    let (supervisor, group) = config.split_once("[[group]]").unwrap();
    let second = group.replace("name = \"main\"", "name = \"second\"");
    fs::write(rig.file("config.toml"), format!("{supervisor}[[group]]{group}[[group]]{second}")).unwrap();
    rig.start(&["--first-start", "main=east", "--first-start", "second=east"]);
    let groups = |rig: &Rig| -> Vec<serde_json::Value> {
        serde_json::from_str(&rig.obey(&["status", "--json"])).expect("it is JSON")
    };
    let both = |what: &str, rig: &mut Rig, reached: &dyn Fn(&serde_json::Value) -> bool| {
        rig.wait(what, |rig| groups(rig).iter().filter(|group| reached(group)).count() == 2);
    };
    both("flow is open in both", &mut rig, &|group| group["may_submit"] == true);

    assert!(rig.refuse(&["halt"]).contains("which group? there are: main, second (--group GROUP, or --all)"));
    assert!(rig.refuse(&["status", "--group", "nope"]).contains("no group \"nope\"; there is: main, second"));
    assert_eq!(rig.obey(&["pause", "--all"]).lines().count(), 2);
    both("both are paused", &mut rig, &|group| group["paused"] == true);
    assert_eq!(rig.obey(&["unpause", "--all"]).lines().count(), 2);
    both("neither is", &mut rig, &|group| group["paused"] == false);

    assert_eq!(rig.obey(&["halt", "--group", "second", "by", "itself"]), "HALT OPERATOR");
    assert_eq!(rig.obey(&["halt", "--all", "desk", "asked"]), "main: HALT OPERATOR\nsecond: HALT OPERATOR");
    both("both are halted", &mut rig, &|group| group["halt_text"] == "desk asked");
    assert_eq!(rig.obey(&["resume", "--group", "second"]), "HOLD RECONCILING");
    // One refuses, and the other is told all the same.
    let output = Rig::binary(&["resume", "--all", "--config"]).arg(rig.file("config.toml")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*out), (Some(1), "main: HOLD RECONCILING\n"), "{err}");
    assert!(err.contains("second: ") && err.contains("NOT_HALTED") && err.lines().count() == 1, "{err}");
    both("flow is open in both again", &mut rig, &|group| group["may_submit"] == true);
    for refused in [&["halt", "--all", "--group", "main"][..], &["status", "--all"]] {
        let (name, rest) = refused.split_first().unwrap();
        let output = Rig::binary(&[name, "--config"]).arg(rig.file("config.toml")).args(rest).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{refused:?}");
    }
}

#[test]
fn the_log_says_that_it_runs_that_it_stops_and_what_hooks_do_in_the_words_of_the_documents() {
    let mut rig = Rig::open(&Setting::default());
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
    assert!(rig.terminate().success());
    let log = fs::read_to_string(rig.file("err.log")).unwrap();
    let line = |part: &str| log.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} in {log}"));
    let running = line("running: 1 group, control socket ");
    assert!(running.contains(" INFO ") && running.ends_with(&format!("status on {}", rig.listen)), "{running}");
    assert!(line("stopping: SIGTERM").contains(" INFO "));
    let hook = line("hook started");
    assert!(hook.contains(" INFO ") && log.contains("stage=\"fence\"") && !log.contains("Fence"), "{log}");
}

#[test]
fn an_endpoint_in_maintenance_is_no_target() {
    let mut rig = Rig::open(&Setting { endpoints: 3, ..Setting::default() });
    rig.until("all are well", |group| group["eligible_targets"].as_array().is_some_and(|all| all.len() == 2));
    assert!(rig.refuse(&["maintenance", "nowhere", "on"]).contains("UNKNOWN_ENDPOINT"));
    rig.obey(&["maintenance", "west", "on"]);
    assert_eq!(rig.group()["endpoints"][1]["unusable"], "in maintenance");
    rig.kill();
    rig.start(&[]);
    rig.until("north is well", |group| group["eligible_targets"] == json!(["north"]));
    rig.set("east", Mode::Refuse);
    rig.until("flow opens on north", |group| group["order_flow"] == "OPEN north #2");
    rig.obey(&["maintenance", "west", "off"]);
    rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));
}

#[test]
fn a_path_that_works_and_could_not_be_fenced_is_rearmed() {
    let mut rig = Rig::open(&Setting::default());
    assert!(rig.refuse(&["rearm"]).contains("NOT_REARMABLE"));
    rig.behave("fence", "fail");
    rig.set("east", Mode::Refuse);
    rig.wait("the fence fails", |rig| rig.count("failed fence") >= 1);
    assert!(rig.command(&["rearm"]).is_err());
    rig.set("east", Mode::Healthy);
    rig.until("east is well", |group| group["endpoints"][0]["state"] == "HEALTHY");
    rig.wait("it is rearmed between two attempts", |rig| rig.command(&["rearm"]).is_ok());
    rig.until("flow opens on east", |group| group["order_flow"] == "OPEN east #2");
    assert_eq!(rig.group()["history"][0]["kind"], "REARM");
    assert!(rig.started().ends_with(&["switch east 2".to_owned(), "reconcile east 2".to_owned()]));
}

#[test]
fn b16_without_a_fence_hook_a_person_is_asked_and_nothing_moves_before() {
    let hooks: String = all_hooks().lines().skip(1).map(|line| format!("{line}\n")).collect();
    let mut rig = Rig::open(&Setting { hooks, ..Setting::default() });
    assert!(rig.refuse(&["confirm-fence", "--epoch", "1"]).contains("no fence is wanted"));
    rig.set("east", Mode::Refuse);
    let group = rig.until("a person is asked", |group| !group["waits_for"].is_null());
    assert_eq!(group["waits_for"], "confirm-fence --epoch 1");
    rig.some_slots();
    assert_eq!((&*rig.flow(), rig.count("start switch")), ("HOLD SWITCHING", 0));
    rig.obey(&["confirm-fence", "--epoch", "1"]);
    rig.until("flow opens on west", |group| group["order_flow"] == "OPEN west #2");
}

#[test]
fn a_group_and_a_supervisor_that_do_not_exist_are_said_so() {
    let mut rig = Rig::open(&Setting::default());
    assert!(rig.refuse(&["halt", "--group", "other", "text"]).contains("no group \"other\"; there is: main"));
    assert!(rig.terminate().success());
    let output = Rig::binary(&["status", "--config"]).arg(rig.file("config.toml")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no supervisor answers there"), "{output:?}");
}

#[test]
fn a_halt_needs_no_more_of_the_configuration_than_its_socket() {
    let mut rig = Rig::open(&Setting::default());
    let config = fs::read_to_string(rig.file("config.toml")).unwrap();
    let broken = config.replace("failure_threshold", "failure_treshold");
    fs::write(rig.file("config.toml"), format!("{broken}\nnonsense = ")).unwrap();
    rig.obey(&["halt", "desk\nasked"]);
    rig.until("trading is halted", |group| group["order_flow"] == "HALT OPERATOR");
    let status = rig.obey(&["status"]);
    assert!(status.lines().next().is_some_and(|line| line.contains("desk asked")), "{status}");
}

#[test]
fn a_client_that_says_too_much_or_nonsense_is_told_so_and_one_that_takes_no_answer_bars_nobody() {
    let rig = Rig::open(&Setting::default());
    let talk = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(rig.file("control.sock")).unwrap();
        // Once it has its answer, the supervisor reads no more.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        answer
    };
    let hidden = b"{\"command\":{\"halt\":{\"text\":\"hidden in a line\"}}}\n";
    let answer = talk(&[vec![b' '; 64 * 1024].as_slice(), hidden].concat());
    assert!(answer.contains("a request of more than 65536 bytes"), "{answer}");
    assert!(talk(b"{\"command\":\"hlt\"}\n").contains("unknown variant `hlt`, expected one of"));
    assert!(talk(b"{\"comand\":\"resume\"}\n").contains("expected {\\\"status\\\":true}"));
    assert!(talk(b"{\"status\":\"\xff\"}\n").contains("invalid unicode"));
    let deaf: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(rig.file("control.sock")).unwrap();
            stream.set_nonblocking(true).unwrap();
            while stream.write_all("{\"status\":true}\n".repeat(100).as_bytes()).is_ok() {}
            stream
        })
        .collect();
    assert_eq!(rig.flow(), "OPEN east #1");
    drop(deaf);
}

#[test]
fn a_supervisor_that_is_frozen_is_not_waited_for_without_end() {
    let rig = Rig::open(&Setting::default());
    signal(rig.pid(), "STOP");
    let output = Rig::binary(&["status", "--config"]).arg(rig.file("config.toml")).output().unwrap();
    signal(rig.pid(), "CONT");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no answer within 15s"), "{output:?}");
}
