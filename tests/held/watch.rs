//! Held sessions end to end: the ordinary pace is an hour, so that every probe but the first is one that a session's end
//! asked for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use broker_failover::supervisor::config::parse;
use broker_failover::supervisor::group::{Command, EndpointStatus, GroupStatus};
use broker_failover::supervisor::running::{StartOptions, Supervisor};
use serde_json::Value;
use tokio::time::Instant;

use crate::certificates::Authority;
use crate::server::{End, HELD, Mode, Server};

/// However busy the machine is: what takes this long will not come.
const LIMIT: Duration = Duration::from_secs(60);
/// In which nothing may happen.
const QUIET: Duration = Duration::from_millis(300);

/// One group: the path that is watched, and another.
struct Scene {
    supervisor: Supervisor,
    folder: PathBuf,
}

/// `east` is `url` with this probe and watch; `west` is at `backup`.
fn group(name: &str, url: &str, probe: &str, watch: &str, backup: &Server) -> String {
    format!(
        "[[group]]\nname = \"{name}\"\nexclusivity = \"last-login-wins\"\n[group.policy]\nfailure_threshold = 3\nrequire_fence = false\n\
         require_reconciliation = false\nmax_health_age = \"3h\"\n\
         [group.probing]\ninterval = \"1h\"\ninterval_when_failing = \"30m\"\ntimeout = \"2s\"\njitter = 0.0\n\
         [group.failback]\nmode = \"manual\"\n\
         [[group.endpoint]]\nname = \"east\"\nregion = \"e\"\nurl = \"{url}\"\nprimary = true\nprobe = {{ {probe} }}\n\
         watch = {{ {watch} }}\n\
         [[group.endpoint]]\nname = \"west\"\nregion = \"w\"\nurl = \"{}\"\npriority = 10\nprobe = {{ http = {{}} }}\n",
        backup.url("http")
    )
}

impl Scene {
    /// A supervisor that has opened flow on `east` of every group, and holds its session.
    async fn open(groups: &[String]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("broker-failover-held-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = file(groups);
        std::fs::write(folder.join("config.toml"), &text).expect("a file");
        let checked = parse(&text, &folder);
        let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings));
        let first_start = config.groups.iter().map(|group| format!("{}=east", group.name)).collect();
        let options = StartOptions { first_start, file: Some(folder.join("config.toml")), ..StartOptions::default() };
        let supervisor = Supervisor::start(&config, &options).await.expect("a supervisor");
        for group in supervisor.groups.iter() {
            group.ask(Command::ConfirmReconciled { epoch: 1 }, None).await.expect("reconciled");
        }
        let scene = Self { supervisor, folder };
        for place in 0..groups.len() {
            let ready = |group: &GroupStatus| {
                group.order_flow == "OPEN east #1"
                    && group.endpoints.iter().all(|one| one.state == "HEALTHY")
                    && group.endpoints[0].session == Some("open")
            };
            scene.until(place, "flow is open and the session is held", ready).await;
        }
        scene
    }

    async fn status(&self, place: usize) -> GroupStatus {
        self.supervisor.groups[place].status().await.expect("the group lives")
    }

    async fn east(&self) -> EndpointStatus {
        self.status(0).await.endpoints.swap_remove(0)
    }

    async fn until(&self, place: usize, what: &str, reached: impl Fn(&GroupStatus) -> bool) -> GroupStatus {
        let begun = Instant::now();
        loop {
            let status = self.status(place).await;
            if reached(&status) {
                return status;
            }
            assert!(begun.elapsed() < LIMIT, "{what}: {status:#?}\n{:#?}", self.notes());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// `CODE text` of every note in the journal, in order.
    fn notes(&self) -> Vec<String> {
        records(&self.folder.join("journal"))
            .iter()
            .filter(|record| record["kind"] == "note")
            .map(|record| format!("{} {}", text(&record["body"]["code"]), text(&record["body"]["text"])))
            .collect()
    }

    fn noted(&self, start: &str) -> Vec<String> {
        self.notes().into_iter().filter(|note| note.starts_with(start)).collect()
    }

    /// Those notes, once there is one: the journal is written a little later than its records are made.
    async fn until_noted(&self, start: &str) -> Vec<String> {
        self.until(0, start, |_| !self.noted(start).is_empty()).await;
        self.noted(start)
    }

    async fn stop(self) {
        self.supervisor.stop("done").await.expect("the journal is well");
        let _ = std::fs::remove_dir_all(self.folder);
    }
}

fn file(groups: &[String]) -> String {
    format!("[supervisor]\nsocket = \"control\"\njournal = \"journal\"\n{}", groups.join(""))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn records(journal: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(journal).map(Iterator::collect).unwrap_or_default();
    files.retain(|file| file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|end| end == "jsonl")));
    let mut files: Vec<_> = files.into_iter().filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    let lines = files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    lines.flat_map(|text| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>()).collect()
}

/// A path that is probed, and watched by nobody.
async fn backup() -> Server {
    Server::start_for_requests(Mode::Healthy, None).await
}

/// Results of probes of `east`, as the server counts them.
fn probed(server: &Server) -> u64 {
    let counts = server.counts();
    counts.requests + counts.pings
}

const TCP: &str = "tcp = {}, ping_interval = \"1h\"";

fn websocket(ping_interval: &str) -> String {
    format!("{HELD}, ping_interval = \"{ping_interval}\"")
}

/// With confirming probes so far apart that a success comes before the second, however busy the machine is.
fn far_apart(group: &str) -> String {
    group.replace("\"1h\" }\n", "\"1h\", confirm_spacing = \"30s\" }\n")
}

/// What `east` is, and what counts its probes.
fn by_tcp(server: &Server, backup: &Server) -> String {
    group("main", &server.url("http"), "http = {}", TCP, backup)
}

fn by_websocket(server: &Server, backup: &Server) -> String {
    group("main", &server.url("ws"), "websocket = {}", &websocket("1h"), backup)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_left_after_as_many_confirming_probes_as_the_trigger_needs() {
    for kind in [by_tcp, by_websocket] {
        let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
        let scene = Scene::open(&[kind(&east, &west)]).await;
        east.die().await;
        scene.until(0, "flow has moved", |group| group.order_flow == "OPEN west #2").await;
        tokio::time::sleep(QUIET).await;
        let status = scene.east().await;
        assert_eq!((status.state, status.consecutive_failures), ("DOWN", 3), "three, and no fourth");
        assert_eq!(status.sessions_lost, Some(1));
        let lost = scene.until_noted("SESSION_LOST").await;
        assert!(lost.len() == 1 && lost[0].ends_with("it is probed at once"), "{:#?}", scene.notes());
        scene.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dropped_session_of_a_healthy_server_moves_nobody_in_45_repetitions_and_costs_one_probe_each() {
    let west = backup().await;
    let mut servers = Vec::new();
    let mut groups = Vec::new();
    for number in 0..45 {
        let server = Server::start(Mode::Healthy, None).await;
        let name = format!("g{number}");
        groups.push(match number % 2 {
            0 => far_apart(&group(&name, &server.url("http"), "http = {}", TCP, &west)),
            _ => far_apart(&group(&name, &server.url("ws"), "websocket = {}", &websocket("1h"), &west)),
        });
        servers.push(server);
    }
    let scene = Scene::open(&groups).await;
    assert!(servers.iter().all(|server| probed(server) == 1));
    servers.iter().for_each(Server::reset_all);
    for place in 0..servers.len() {
        let again = |group: &GroupStatus| {
            group.endpoints[0].sessions_lost == Some(1) && group.endpoints[0].session == Some("open")
        };
        scene.until(place, "the session stands again", again).await;
    }
    for (place, server) in servers.iter().enumerate() {
        let status = scene.until(place, "the extra probe is in", |_| probed(server) >= 2).await;
        assert_eq!((&*status.order_flow, status.history.len()), ("OPEN east #1", 0));
        assert_eq!(status.endpoints[0].consecutive_failures, 0);
    }
    tokio::time::sleep(QUIET).await;
    let counts: Vec<_> = servers.iter().map(probed).collect();
    assert_eq!(counts, vec![2; 45], "the first, and one for the session that ended");
    scene.stop().await;
}

/// What is not a reset: a FIN, over TLS too, and a Close frame that nothing follows until the session hangs up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_end_is_confirmed_like_a_reset_three_probes_where_nobody_answers_and_one_where_somebody_does() {
    let authority = Authority::new();
    let ca_file = authority.file("orderly");
    let (ca, west) = (format!("ca_file = \"{}\"", ca_file.display()), backup().await);
    let (tls, wss) =
        (format!("tls = {{ {ca} }}, ping_interval = \"1h\""), websocket("1h").replacen('{', &format!("{{ {ca},"), 1));
    let (https, secure) = (format!("http = {{ {ca} }}"), format!("websocket = {{ {ca} }}"));
    let (closed, code) = ("closed by the far side", "code 1001: \"going away\"");
    for (scheme, probe, watch, end, says) in [
        ("http", "http = {}", TCP, End::Fin, closed),
        ("https", &https, &tls, End::Fin, closed),
        ("ws", "websocket = {}", &websocket("1h"), End::Close, code),
        ("wss", &secure, &wss, End::Close, code),
    ] {
        let certificate = || ["https", "wss"].contains(&scheme).then(|| authority.server("127.0.0.1", -10..90));
        let server = || Server::start(Mode::Healthy, certificate());
        let (gone, healthy) = (server().await, server().await);
        let group = |name: &str, server: &Server| group(name, &server.url(scheme), probe, watch, &west);
        let scene = Scene::open(&[group("gone", &gone), far_apart(&group("healthy", &healthy))]).await;
        let before = probed(&healthy);

        gone.set(Mode::Refuse).await;
        gone.end_all(end);
        scene.until(0, "flow has moved", |group| group.order_flow == "OPEN west #2").await;
        let lost = scene.until_noted("SESSION_LOST").await;
        assert!(lost.len() == 1 && lost[0].contains(says), "{scheme}: {lost:?}");
        assert!(lost[0].ends_with("it is probed at once"), "{scheme}: {lost:?}");

        healthy.end_all(end);
        let again = |group: &GroupStatus| {
            group.endpoints[0].sessions_lost == Some(1) && group.endpoints[0].session == Some("open")
        };
        scene.until(1, "the session stands again", again).await;
        scene.until(1, "the extra probe is in", |_| probed(&healthy) > before).await;
        tokio::time::sleep(QUIET).await;
        let east = scene.east().await;
        assert_eq!((east.state, east.consecutive_failures, east.sessions_lost), ("DOWN", 3, Some(1)), "{scheme}");
        let status = scene.status(1).await;
        assert_eq!((&*status.order_flow, status.endpoints[0].consecutive_failures), ("OPEN east #1", 0), "{scheme}");
        assert_eq!(probed(&healthy), before + 1, "{scheme}: one for the session that ended");
        scene.stop().await;
    }
    std::fs::remove_file(ca_file).expect("ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_drops_every_session_is_probed_once_for_each_and_asked_ever_more_rarely() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let scene = Scene::open(&[far_apart(&by_websocket(&east, &west))]).await;
    east.set(Mode::Drops(Duration::from_millis(20))).await;
    east.reset_all();
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let lost = scene.east().await.sessions_lost.expect("it is watched");
    // Half of 0.5 s, of 1 s, 2 s, 4 s at least lie between its attempts; the first end was ours.
    let most =
        2 + u64::try_from((1_u32..).take_while(|n| 250 * (2_u128.pow(*n) - 1) < begun.elapsed().as_millis()).count())
            .unwrap();
    assert!((2..=most).contains(&lost), "{lost} sessions ended, at most {most}");
    assert_eq!(scene.status(0).await.order_flow, "OPEN east #1");
    assert!(probed(&east) <= 1 + lost, "{} probes for {lost} sessions", probed(&east));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_accepts_and_hangs_is_left_a_timeout_later() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let scene = Scene::open(&[by_tcp(&east, &west)]).await;
    east.set(Mode::Hang).await;
    east.reset_all();
    let status = scene.until(0, "flow has moved", |group| group.order_flow == "OPEN west #2").await;
    let error = status.endpoints[0].last_probe_error.clone().unwrap_or_default();
    assert!(error.starts_with("Timeout"), "{error}");
    tokio::time::sleep(QUIET).await;
    assert_eq!(scene.east().await.consecutive_failures, 3);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_that_gives_no_sign_of_life_is_lost_and_nobody_moves_for_it() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    // Its probe is a connection: the session alone is silent.
    let watch = websocket("1s");
    let scene = Scene::open(&[group("main", &east.url("ws"), "tcp = {}", &watch, &west)]).await;
    scene.until(0, "it was pinged again", |_| east.counts().pings >= 2).await;
    assert_eq!(scene.east().await.sessions_lost, Some(0), "its first ping was answered");
    east.set(Mode::NoPong).await;
    scene.until(0, "the session is lost", |group| group.endpoints[0].sessions_lost >= Some(1)).await;
    let lost = scene.until_noted("SESSION_LOST").await;
    assert!(lost[0].contains("no sign of life for 1s"), "{lost:?}");
    tokio::time::sleep(QUIET).await;
    let status = scene.status(0).await;
    assert_eq!((&*status.order_flow, status.endpoints[0].consecutive_failures), ("OPEN east #1", 0));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_over_tls_is_held_and_its_end_noticed() {
    let authority = Authority::new();
    let ca_file = authority.file("held");
    let tls = || Some(authority.server("127.0.0.1", -10..90));
    let west = backup().await;
    let (one, other) = (Server::start(Mode::Healthy, tls()).await, Server::start(Mode::Healthy, tls()).await);
    let ca = format!("ca_file = \"{}\"", ca_file.display());
    let groups = [
        group(
            "tls",
            &one.url("https"),
            &format!("http = {{ {ca} }}"),
            &format!("tls = {{ {ca} }}, ping_interval = \"1h\""),
            &west,
        ),
        group(
            "wss",
            &other.url("wss"),
            &format!("websocket = {{ {ca} }}"),
            &websocket("1h").replacen("{", &format!("{{ {ca},"), 1),
            &west,
        ),
    ];
    let scene = Scene::open(&groups).await;
    for (place, server) in [one, other].iter().enumerate() {
        server.die().await;
        scene.until(place, "flow has moved", |group| group.order_flow == "OPEN west #2").await;
    }
    scene.stop().await;
    std::fs::remove_file(ca_file).expect("ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_opened_is_said_once_and_is_no_failure() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let scene = Scene::open(&[group("main", &east.url("ws"), "tcp = {}", &websocket("1h"), &west)]).await;
    east.set(Mode::Status(503, "")).await;
    east.reset_all();
    let refused = |group: &GroupStatus| group.endpoints[0].session == Some("refused");
    scene.until(0, "the session is refused", refused).await;
    let asked = east.heads().len();
    let begun = Instant::now();
    while east.heads().len() < asked + 2 {
        assert!(begun.elapsed() < LIMIT, "it asks again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(scene.until_noted("SESSION_REFUSED").await, ["SESSION_REFUSED east: status 503, expected [101]"]);
    let status = scene.status(0).await;
    assert_eq!((&*status.order_flow, status.endpoints[0].state), ("OPEN east #1", "HEALTHY"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_no_session_is_opened_anew_while_a_path_that_shares_its_fate_was_told_to_be_patient() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let text = by_tcp(&east, &west).replace("\nprobe = ", "\nshared_fate = [\"quota\"]\nprobe = ");
    let text = text.replace("\"1h\"\ninterval_when_failing = \"30m\"", "\"200ms\"");
    let scene = Scene::open(&[text]).await;
    let begun = Instant::now();
    west.set(Mode::Status(429, "Retry-After: 4\r\n")).await;
    scene.until_noted("NO_EVIDENCE west: Throttled: status 429").await;
    west.set(Mode::Healthy).await;
    east.reset_all();
    scene.until(0, "the session has ended", |group| group.endpoints[0].session == Some("lost")).await;
    let again = |group: &GroupStatus| group.endpoints[0].session == Some("open");
    scene.until(0, "the session stands again", again).await;
    // Without that it would have been half a second at most.
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}: {:#?}", begun.elapsed(), scene.notes());
    let lost = scene.noted("SESSION_LOST");
    assert!(lost.len() == 1 && lost[0].contains("it wants patience"), "{lost:?}");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_two_refused_logons_of_a_held_session_stop_it_until_a_person_clears_them() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let scene = Scene::open(&[group("main", &east.url("ws"), "tcp = {}", &websocket("1h"), &west)]).await;
    let opened = east.heads().len();
    east.set(Mode::Status(401, "")).await;
    east.reset_all();
    let stopped = scene.until_noted("LOGONS_STOPPED").await;
    assert!(stopped[0].contains("no more logons with credential own until clear-logons"), "{stopped:?}");
    scene.until(0, "a person is waited for", |group| group.waits_for.as_deref() == Some("clear-logons")).await;
    // The next attempt would have come within two seconds.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(east.heads().len(), opened + 2, "{:#?}", scene.notes());
    assert_eq!(scene.status(0).await.order_flow, "OPEN east #1", "that moves nobody");
    east.set(Mode::Healthy).await;
    scene.supervisor.groups[0].ask(Command::ClearLogons, None).await.expect("cleared");
    scene.until(0, "the session stands again", |group| group.endpoints[0].session == Some("open")).await;
    assert_eq!(east.heads().len(), opened + 3);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b14_a_killed_path_is_left_within_the_least_budget_that_is_accepted_for_its_watch() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let text = by_tcp(&east, &west).replacen("\nprobe = ", "\nbudget = \"key\"\nprobe = ", 1);
    // In a minute one slot, 6 bursts of 3, and as many openings as the waits let in.
    let budget = |most: u64| format!("{text}[[budget]]\nname = \"key\"\nrequests = {most}\nper = \"1m\"\n");
    let least = 1 + 18 + 36;
    let checked = parse(&file(&[budget(least - 1)]), Path::new("."));
    assert!(checked.config.is_none(), "over budget: {:#?}", checked.findings);
    let scene = Scene::open(&[budget(least)]).await;
    // Sessions that end spend of it, too.
    for lost in 1..=2 {
        east.reset_all();
        let again = |group: &GroupStatus| {
            group.endpoints[0].sessions_lost == Some(lost) && group.endpoints[0].session == Some("open")
        };
        scene.until(0, "the session stands again", again).await;
    }
    east.die().await;
    scene.until(0, "flow has moved", |group| group.order_flow == "OPEN west #2").await;
    let spent: Vec<_> = scene.notes().into_iter().filter(|note| note.contains("OverBudget")).collect();
    assert!(spent.is_empty(), "{spent:#?}");
    assert_eq!(scene.east().await.consecutive_failures, 3);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reloads_leave_one_session_and_another_pace_leaves_it_alone() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, backup().await);
    let text = by_tcp(&east, &west);
    let scene = Scene::open(std::slice::from_ref(&text)).await;
    let config = scene.folder.join("config.toml");
    let settled = || async {
        let begun = Instant::now();
        while east.counts().open != 1 {
            assert!(begun.elapsed() < LIMIT, "{:?}", east.counts());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    settled().await;
    // The pace: the same session stands, and the one connection more is the first probe of the new run.
    let before = east.counts();
    std::fs::write(&config, file(&[text.replace("jitter = 0.0", "jitter = 0")])).expect("a file");
    scene.supervisor.reloads.reload(None).await.expect("nothing differs");
    std::fs::write(&config, file(&[text.replace("\"30m\"", "\"29m\"")])).expect("a file");
    scene.supervisor.reloads.reload(None).await.expect("taken over");
    scene.until(0, "it was probed again", |_| east.counts().requests == before.requests + 1).await;
    assert_eq!(east.counts().accepted, before.accepted + 1);
    for number in 0..100 {
        let other = text.replace("ping_interval = \"1h\"", &format!("ping_interval = \"{}s\"", 100 + number));
        std::fs::write(&config, file(&[other])).expect("a file");
        scene.supervisor.reloads.reload(None).await.expect("taken over");
        assert!(east.counts().open <= 8, "{:?}", east.counts());
    }
    settled().await;
    assert_eq!(scene.status(0).await.epoch, Some(1));
    // Without a watch there is none.
    let (head, tail) = text.split_once("watch = ").expect("a watch");
    let without = format!("{head}{}", tail.split_once('\n').expect("a line").1);
    std::fs::write(&config, file(&[without])).expect("a file");
    scene.supervisor.reloads.reload(None).await.expect("taken over");
    scene.until(0, "no session is open", |_| east.counts().open == 0).await;
    assert_eq!(scene.east().await.session, None);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_hangs_up_and_the_backups_session_moves_nobody() {
    let (east, west) = (Server::start(Mode::Healthy, None).await, Server::start(Mode::Healthy, None).await);
    let text = format!("{}watch = {{ {TCP} }}\n", by_tcp(&east, &west));
    let scene = Scene::open(&[text]).await;
    scene.until(0, "both are held", |group| group.endpoints[1].session == Some("open")).await;
    west.die().await;
    let down = |group: &GroupStatus| group.endpoints[1].state == "DOWN";
    let status = scene.until(0, "the backup is known to be dead", down).await;
    assert_eq!((&*status.order_flow, status.eligible_targets.len()), ("OPEN east #1", 0));
    scene.stop().await;
    let begun = Instant::now();
    while east.counts().open > 0 {
        assert!(begun.elapsed() < LIMIT, "{:?}", east.counts());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
