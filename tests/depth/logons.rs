//! Probes that log on, against a broker that counts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::desk::{edit, endpoint, open};
use crate::rig::{Rig, Setting};
use crate::sessions::{self, Book, Register, handle};

/// A broker that lets one identity in on any of its addresses, for as long as the connection is open.
struct Broker {
    desk: Arc<Desk>,
    _register: Register,
}

/// What all of its addresses share.
struct Desk {
    book: Arc<Book>,
    /// Who logs on as `probe`: this broker's, and no other's.
    identity: String,
    wrong: AtomicBool,
    refused: AtomicUsize,
}

impl Broker {
    fn new() -> Self {
        let register = Register::new();
        let (book, identity) = (register.book(), sessions::own("probe"));
        let desk = Desk { book, identity, wrong: AtomicBool::new(false), refused: AtomicUsize::new(0) };
        Self { desk: Arc::new(desk), _register: register }
    }

    fn opened(&self) -> usize {
        sessions::opened(&self.desk.identity)
    }

    fn refused(&self) -> usize {
        self.desk.refused.load(Ordering::SeqCst)
    }

    /// One more address. It listens until the test's end.
    fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let desk = Arc::clone(&self.desk);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let desk = Arc::clone(&desk);
                std::thread::spawn(move || desk.serve(stream));
            }
        });
        address
    }

    /// Three paths to it, each asked by a probe that logs on.
    fn rig(&self, more: &str) -> Rig {
        let probe = format!(
            "probe = {{ http = {{ identity = \"own\", credential = \"probe\", headers = {{ x-login = \"probe\" }}{more} }} }}"
        );
        let probing = "interval = \"300ms\"\ninterval_when_failing = \"100ms\"\ntimeout = \"1500ms\"".to_owned();
        let rig = Rig::new(&Setting { endpoints: 3, endpoint: probe, probing, ..Setting::default() });
        for front in &rig.fronts {
            edit(&rig, &front.address().to_string(), &self.listen().to_string());
        }
        rig
    }
}

impl Desk {
    fn serve(&self, mut stream: TcpStream) {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        assert!(head.lines().any(|line| line == "x-login: probe"), "{head}");
        let session = self.book.open(&self.identity, handle(&stream));
        let answer = if self.wrong.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            "HTTP/1.1 401 .\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        } else {
            "HTTP/1.1 200 .\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        };
        // Long enough for another to come in between, if another came.
        std::thread::sleep(Duration::from_millis(20));
        // Ended before the answer that lets the next one in.
        drop(session);
        let _ = stream.write_all(answer.as_bytes());
    }
}

#[test]
fn b12_probes_of_one_identity_never_open_two_sessions_at_once_whichever_path_they_ask() {
    let broker = Broker::new();
    let mut rig = broker.rig("");
    open(&mut rig);
    rig.wait("a good number of logons", |_| broker.opened() > 30);
    rig.kill();
}

#[test]
fn b14_two_refused_logons_stop_the_credential_on_every_path_until_a_person_clears_it() {
    let broker = Broker::new();
    let mut rig = broker.rig("");
    open(&mut rig);
    broker.desk.wrong.store(true, Ordering::SeqCst);
    rig.wait("logons are stopped", |rig| rig.noted("LOGONS_STOPPED"));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(broker.refused(), 2, "three paths, many slots, two refusals");
    rig.kill();
    rig.start(&[]);
    rig.wait("slots after the restart", |rig| {
        let stopped =
            |note: &serde_json::Value| note["text"].as_str().is_some_and(|text| text.contains("LogonsStopped"));
        rig.records("note").iter().filter(|note| stopped(note)).count() > 10
    });
    assert_eq!(broker.refused(), 2, "a restart clears nothing");
    rig.obey(&["reload"]);
    assert_eq!(rig.group()["waits_for"], "clear-logons");
    broker.desk.wrong.store(false, Ordering::SeqCst);
    rig.obey(&["clear-logons"]);
    rig.until("every path is known", |group| {
        ["east", "west", "north"].iter().all(|name| endpoint(group, name)["state"] == "HEALTHY")
    });
    assert!(rig.refuse(&["clear-logons"]).contains("no logon was refused"));
    rig.kill();
    rig.verify();
}

#[test]
fn b14_a_reload_that_would_be_over_its_budget_changes_nothing() {
    let broker = Broker::new();
    let mut rig = broker.rig(", budget = \"key\"");
    let budget = "[[budget]]\nname = \"key\"\nlogons = 400\nper = \"4s\"\n[supervisor]";
    edit(&rig, "[supervisor]", budget);
    open(&mut rig);
    edit(&rig, "logons = 400", "logons = 3");
    assert!(rig.refuse(&["reload"]).contains("budget[0].logons"), "over budget: nothing is taken over");
    rig.until("nothing has changed", |group| group["eligible_targets"] == json!(["west", "north"]));
    rig.kill();
}
