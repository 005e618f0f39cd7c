//! Against QuickFIX, an independent acceptor that `.ci/quickfix` installs: what our own acceptors misunderstand as we
//! do, this one does not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use broker_failover::supervisor::config::{FixConfig, FixVersion};
use broker_failover::supervisor::probes::{Password, Secret};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::sessions::Register;
use crate::{folder, identity, part, prober, slot, until};

/// Python with QuickFIX, if it is installed.
pub(crate) fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/quickfix/bin/python");
    if python.exists() {
        return Some(python);
    }
    println!("SKIPPED: QuickFIX is not installed; .ci/quickfix does it");
    None
}

/// QuickFIX, running. Dropped, it is killed.
pub(crate) struct QuickFix {
    child: Child,
    pub(crate) port: u16,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    /// Checked after the reader has ended.
    _register: Register,
}

impl QuickFix {
    async fn start(python: &Path, folder: &Path, config: &FixConfig, password: &str, tls: &[&Path]) -> Self {
        Self::start_with(python, folder, config, password, None, tls).await
    }

    /// One that names an account in its Logon.
    pub(crate) async fn start_with(
        python: &Path,
        folder: &Path,
        config: &FixConfig,
        password: &str,
        account: Option<&str>,
        tls: &[&Path],
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fix/acceptor.py");
        let store = folder.join("quickfix");
        fs::create_dir_all(&store).expect("a folder");
        let mut child = Command::new(python)
            .arg(script)
            .arg(port.to_string())
            .arg(store)
            .args([config.version.begin_string(), &config.sender_comp_id, password])
            .args(tls)
            .env("ACCOUNT", account.unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python runs");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (output, told) = (child.stdout.take().expect("a pipe"), Arc::clone(&lines));
        let register = Register::new();
        let (book, identity) = (register.book(), config.sender_comp_id.clone());
        let reader = std::thread::spawn(move || {
            let mut session = None;
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match &*line {
                    "logon" => session = Some(book.open(&identity, None)),
                    "logout" => session = None,
                    _ => {}
                }
                told.lock().unwrap().push(line);
            }
            drop(session);
        });
        let quickfix = Self { child, port, lines, reader: Some(reader), _register: register };
        until("QuickFIX listens", || {
            quickfix.has("listening") && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })
        .await;
        quickfix
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn has(&self, start: &str) -> bool {
        self.count(start) > 0
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(start)).count()
    }

    /// Waits until there is a line that starts so, for each.
    async fn tells(&self, starts: &[&str]) {
        for start in starts {
            until(&format!("{start} of QuickFIX"), || self.has(start)).await;
        }
    }

    fn url(&self) -> String {
        format!("fix://127.0.0.1:{}", self.port)
    }
}

impl Drop for QuickFix {
    fn drop(&mut self) {
        // Gone already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What it panicked of, it said.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

fn kept(config: &FixConfig) -> (u64, u64) {
    let kept: Value =
        serde_json::from_str(&fs::read_to_string(&config.sequence_file).expect("the file")).expect("JSON");
    (kept["next_out"].as_u64().expect("a number"), kept["next_in"].as_u64().expect("a number"))
}

fn keep(config: &FixConfig, next_out: u64, next_in: u64) {
    let session = config.session();
    let kept = serde_json::json!({ "version": 1, "session": session, "next_out": next_out, "next_in": next_in });
    fs::write(&config.sequence_file, kept.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quickfix_takes_our_logon_heartbeats_test_requests_and_logout_in_each_version() {
    let Some(python) = python() else { return };
    for (version, test) in [(FixVersion::Fix42, "qf-42"), (FixVersion::Fix44, "qf-44"), (FixVersion::Fixt11, "qf-t11")]
    {
        let folder = folder(test);
        let mut config = identity(&folder);
        config.version = version;
        config.default_appl_ver_id = (version == FixVersion::Fixt11).then(|| "9".to_owned());
        config.heart_beat_interval = Duration::from_secs(1);
        let quickfix = QuickFix::start(&python, &folder, &config, "-", &[]).await;
        let first = prober(&quickfix.url(), &config);
        for _ in 0..3 {
            let (kind, text) = slot(&first).await;
            assert_eq!(kind, "+", "{text} {:#?}", quickfix.lines());
        }
        quickfix.tells(&["out A1 108=1"]).await;
        // Between the slots both sides send heartbeats, and the session lives on them.
        let before = quickfix.count("in 0");
        until("our heartbeats", || quickfix.count("in 0") >= before + 4).await;
        assert!(quickfix.count("out 0") > 2, "{:#?}", quickfix.lines());
        assert_eq!((quickfix.count("logon"), quickfix.count("logout")), (1, 0));
        // One for each later slot, and on a busy machine one for a silence of 1.2 s.
        assert!(quickfix.count("in 1") >= 2, "{:#?}", quickfix.lines());
        part(first).await;
        until("the logout", || quickfix.count("logout") == 1).await;
        let (out, into) = kept(&config);
        quickfix.tells(&[&format!("in 5{}", out - 1), &format!("out 5{}", into - 1)]).await;

        // The next session goes on where this one ended, and neither side asks for anything again.
        let second = prober(&quickfix.url(), &config);
        assert_eq!(slot(&second).await.0, "+");
        quickfix.tells(&[&format!("in A{out} "), &format!("out A{into} ")]).await;
        part(second).await;
        assert_eq!((quickfix.count("in 2"), quickfix.count("out 2")), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_quickfix_was_killed_and_our_numbers_jumped_both_sides_fill_their_gaps() {
    let Some(python) = python() else { return };
    let folder = folder("qf-gap");
    let config = identity(&folder);
    let quickfix = QuickFix::start(&python, &folder, &config, "-", &[]).await;
    let first = prober(&quickfix.url(), &config);
    assert_eq!(slot(&first).await.0, "+");
    assert_eq!(slot(&first).await.0, "+");
    drop(quickfix);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|kind| kind == "+") {
        seen.push(slot(&first).await.0);
    }
    assert_eq!(seen.last().map(String::as_str), Some("Reset"));
    part(first).await;

    // As after a crash of ours: ahead of what was sent, behind what came in.
    let (out, _) = kept(&config);
    keep(&config, out + 60, 1);
    let quickfix = QuickFix::start(&python, &folder, &config, "-", &[]).await;
    let second = prober(&quickfix.url(), &config);
    for _ in 0..3 {
        let (kind, text) = slot(&second).await;
        assert_eq!(kind, "+", "{text} {:#?}", quickfix.lines());
    }
    quickfix.tells(&["out 2"]).await;
    // What it asks for begins at the last number that it had before it was killed.
    let is_fill = |line: &String| line.starts_with("in 4") && line.contains(" 43=Y 36=");
    until("our gap fill", || quickfix.lines().iter().any(is_fill)).await;
    quickfix.tells(&[&format!("in 2{} 7=1", out + 61), "out 41 43=Y 36="]).await;
    part(second).await;
    until("the logout", || quickfix.count("logout") == 1).await;

    // It holds with no gap left.
    let third = prober(&quickfix.url(), &config);
    assert_eq!(slot(&third).await.0, "+");
    assert_eq!(slot(&third).await.0, "+");
    part(third).await;
    until("the logout", || quickfix.count("logout") == 2).await;
    assert_eq!((quickfix.count("out 2"), quickfix.count("in 2")), (1, 1), "{:#?}", quickfix.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quickfix_says_that_our_number_is_too_low_and_is_not_asked_again() {
    let Some(python) = python() else { return };
    let folder = folder("qf-low");
    let config = identity(&folder);
    let quickfix = QuickFix::start(&python, &folder, &config, "-", &[]).await;
    let first = prober(&quickfix.url(), &config);
    assert_eq!(slot(&first).await.0, "+");
    assert_eq!(slot(&first).await.0, "+");
    part(first).await;
    let (out, _) = kept(&config);
    fs::remove_file(&config.sequence_file).expect("the file is lost");
    let second = prober(&quickfix.url(), &config);
    let (kind, text) = slot(&second).await;
    assert_eq!(kind, "SequenceBroken", "{text}");
    assert!(text.contains(&format!("expects our MsgSeqNum {out}, received 1:")), "{text}");
    for _ in 0..3 {
        assert_eq!(slot(&second).await.0, "?LogonWait");
    }
    part(second).await;
    // QuickFIX tells the application of a Logon that it takes, and of the Logout that it refuses another with.
    until("the refusal", || quickfix.count("out 5") == 2).await;
    assert_eq!(quickfix.count("in A"), 1, "{:#?}", quickfix.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quickfix_refuses_a_password_and_the_text_comes_without_it() {
    let Some(python) = python() else { return };
    let folder = folder("qf-password");
    let mut config = identity(&folder);
    config.username = Some("joe".to_owned());
    config.password = Some(Password::Stated(Secret::new("hunter2")));
    let quickfix = QuickFix::start(&python, &folder, &config, "correct", &[]).await;
    let wrong = prober(&quickfix.url(), &config);
    let (kind, text) = slot(&wrong).await;
    assert_eq!(
        (kind.as_str(), text.as_str()),
        ("LogonRefused", "the Logon was refused: \"Rejected Logon Attempt: the password *** is wrong\"")
    );
    part(wrong).await;
    config.password = Some(Password::Stated(Secret::new("correct")));
    let right = prober(&quickfix.url(), &config);
    let (kind, text) = slot(&right).await;
    assert_eq!(kind, "+", "{text} {:#?}", quickfix.lines());
    part(right).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quickfix_resets_with_us_and_speaks_tls() {
    let Some(python) = python() else { return };
    let folder = folder("qf-tls");
    let mut config = identity(&folder);
    config.reset_on_logon = true;
    let (ca, certificate, key) = certificates(&folder);
    config.tls.ca_file = Some(ca);
    let quickfix = QuickFix::start(&python, &folder, &config, "-", &[&certificate, &key]).await;
    let url = format!("fixs://localhost:{}", quickfix.port);
    for _ in 0..2 {
        let prober = prober(&url, &config);
        for _ in 0..3 {
            let (kind, text) = slot(&prober).await;
            assert_eq!(kind, "+", "{text} {:#?}", quickfix.lines());
        }
        part(prober).await;
    }
    until("two Logons that reset", || quickfix.count("in A1 108=30 141=Y") == 2).await;
    let plain = prober(&quickfix.url(), &config);
    let (kind, text) = slot(&plain).await;
    assert!(kind == "Reset" || kind == "UnexpectedAnswer", "{kind} {text}");
    part(plain).await;
}

/// An authority, and a certificate of its for `localhost` with its key, as files.
fn certificates(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let authority = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "broker-failover tests");
    let pem = params.self_signed(&authority).expect("a certificate").pem();
    let issuer = Issuer::new(params, authority);
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate").pem();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        path
    };
    (write("ca.pem", &pem), write("certificate.pem", &leaf), write("key.pem", &key.serialize_pem()))
}
