//! The rules of the house that the compiler doesn't know: the engine is pure, rooms import only downward, lib.rs only
//! re-exports, and tracked files are tidy. The scanner is tested first: a check that can't fail proves nothing.

mod lexer;
mod rules;

use std::path::{Path, PathBuf};
use std::process::Command;

use rules::{Rule, Violation, check_source, check_text, foreign_paths, has_unsafe_code, packages_in};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn packages() -> Vec<String> {
    packages_in(&read(&Path::new(ROOT).join("Cargo.toml")))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every .rs file below `src`, by its path from there.
fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let src = Path::new(ROOT).join("src");
    let mut found = Vec::new();
    walk(&src, &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
    found.iter().map(|path| (name(path), read(path))).collect()
}

#[track_caller]
fn assert_none(violations: &[Violation]) {
    let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

fn engine_rules(code: &str) -> Vec<Rule> {
    check_source("engine/flow.rs", code, &packages()).iter().map(|violation| violation.rule).collect()
}

#[test]
fn the_engine_is_pure_and_rooms_import_only_downward() {
    let (sources, packages) = (sources(), packages());
    assert!(sources.iter().any(|(file, _)| file == "engine/mod.rs"), "the engine wasn't found: nothing was checked");
    let violations: Vec<_> = sources.iter().flat_map(|(file, source)| check_source(file, source, &packages)).collect();
    assert_none(&violations);
}

#[test]
fn one_file_has_unsafe_code_and_says_why() {
    let with: Vec<_> = sources().into_iter().filter(|(_, source)| has_unsafe_code(source)).collect();
    let names: Vec<_> = with.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["feed/map.rs"]);
    let source = &with[0].1;
    assert_eq!(
        source.matches("unsafe {").count(),
        source.matches("// SAFETY: ").count(),
        "each use says why it is sound"
    );
    let manifest = read(&Path::new(ROOT).join("Cargo.toml"));
    assert!(manifest.contains("\nunsafe_code = \"deny\"\n"), "the compiler holds the other files to it");
    // The check itself.
    assert!(has_unsafe_code("fn f() { unsafe { g() } }") && has_unsafe_code("#![allow(unsafe_code)]"));
    assert!(!has_unsafe_code("// unsafe\nfn f() { let x = \"unsafe\"; }"));
}

#[test]
fn tracked_files_are_tidy_and_name_no_path_of_the_machine_they_were_written_on() {
    let listed = Command::new("git").args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(ROOT).output();
    let listed = listed.expect("git lists the tracked files");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = names.split_terminator('\0').collect();
    assert!(names.contains(&"Cargo.toml"), "Cargo.toml isn't tracked: nothing was checked");
    // A tracked file that is deleted, but not yet committed so, has nothing to check.
    let present = names.iter().filter(|name| Path::new(ROOT).join(name).is_file());
    let violations: Vec<_> =
        present.flat_map(|name| check_text(name, &std::fs::read(Path::new(ROOT).join(name)).unwrap())).collect();
    assert_none(&violations);
}

/// What is banned in the engine, each with the rule that must find it.
const IMPURE: &[(&str, Rule)] = &[
    ("use std::time::Instant;", Rule::Std),
    ("use std::time::SystemTime;", Rule::Std),
    ("use std::time;", Rule::Std),
    ("use std::time::*;", Rule::Std),
    ("use std::*;", Rule::Std),
    ("use std as s;", Rule::Std),
    ("use ::std::thread;", Rule::Std),
    ("use std::{fmt, thread};", Rule::Std),
    ("use std::{collections::{BTreeMap, hash_map::Entry}, mem};", Rule::Std),
    ("use std::sync::Mutex;", Rule::Std),
    ("use std::sync::{Arc, atomic::AtomicU64};", Rule::Std),
    ("fn f() { std::thread::yield_now(); }", Rule::Std),
    ("fn f() { let _ = std::fs::read(\"x\"); }", Rule::Std),
    ("fn f(s: std::net::TcpStream) {}", Rule::Std),
    ("fn f(w: &mut dyn std::io::Write) {}", Rule::Std),
    ("fn f() { let _ = std::env::args(); }", Rule::Std),
    ("fn f() { std::process::abort(); }", Rule::Std),
    ("fn f() { core::sync::atomic::fence(todo); }", Rule::Std),
    ("fn f(now: Instant) {}", Rule::Clock),
    ("fn f(now: SystemTime) {}", Rule::Clock),
    ("fn f() { tracing::info!(\"x\"); }", Rule::Package),
    ("use tracing::info;", Rule::Package),
    ("use log;", Rule::Package),
    ("fn f() { log::warn!(\"x\"); }", Rule::Package),
    ("fn f() -> u64 { rand::random() }", Rule::Package),
    ("use parking_lot::Mutex;", Rule::Package),
    ("use serde_json::Value;", Rule::Package),
    ("use proptest::prelude::*;", Rule::Package),
    ("struct S { m: HashMap<u8, u8> }", Rule::HashOrder),
    ("struct S { m: HashSet<u8> }", Rule::HashOrder),
    ("fn f(x: f32) {}", Rule::Float),
    ("fn f() { let x = y as f64; }", Rule::Float),
    ("const X: u8 = g(1.5);", Rule::Float),
    ("const X: u8 = g(1e3);", Rule::Float),
    ("const X: u8 = g(2f64);", Rule::Float),
    ("fn f() { unsafe { g() } }", Rule::Unsafe),
    ("async fn f() {}", Rule::Async),
    ("fn f() { g().await; }", Rule::Async),
    ("fn f() { print!(\"x\"); }", Rule::Print),
    ("fn f() { println!(\"x\"); }", Rule::Print),
    ("fn f() { eprint!(\"x\"); }", Rule::Print),
    ("fn f() { eprintln! (\"x\"); }", Rule::Print),
    ("fn f() { dbg!(1); }", Rule::Print),
    ("fn f() { x.unwrap(); }", Rule::Panic),
    ("fn f() { x\n    .unwrap\n    (); }", Rule::Panic),
    ("fn f() { x.unwrap_err(); }", Rule::Panic),
    ("fn f() { x.map(Option::unwrap); }", Rule::Panic),
    ("fn f() { x.expect(\"why\"); }", Rule::Panic),
    ("fn f() { x.expect_err(\"why\"); }", Rule::Panic),
    ("fn f() { panic!(\"x\"); }", Rule::Panic),
    ("fn f() { unreachable!(); }", Rule::Panic),
    ("fn f() { todo!(); }", Rule::Panic),
    ("fn f() { unimplemented!(); }", Rule::Panic),
    ("fn f() { assert!(true); }", Rule::Panic),
    ("fn f() { assert_eq!(1, 1); }", Rule::Panic),
    ("fn f() { assert_ne!(1, 2); }", Rule::Panic),
    ("const X: Option<&str> = option_env!(\"X\");", Rule::Environment),
    ("thread_local! { static X: u8 = 0; }", Rule::Environment),
    ("use crate::manager::Manager;", Rule::Direction),
    ("use crate::scenario;", Rule::Direction),
    ("use crate::{engine::time, planning::Stage};", Rule::Direction),
    ("use crate::lease::Lease;", Rule::Direction),
    ("use crate::sim::World;", Rule::Direction),
    ("use crate::supervisor::Hook;", Rule::Direction),
    ("use crate::Manager;", Rule::Direction),
    ("use crate::*;", Rule::Direction),
    ("use super::super::manager;", Rule::Direction),
    ("mod inner { use super::super::super::manager; }", Rule::Direction),
    ("fn f(x: crate::manager::Manager) {}", Rule::Direction),
    ("fn f(x: broker_failover::scenario::Line) {}", Rule::Direction),
    ("macro_rules! m { () => { $crate::manager::new() } }", Rule::Direction),
];

/// What looks like one of those and isn't.
const PURE: &[&str] = &[
    "// use std::time::Instant; x.unwrap(); panic!()",
    "/// Never calls [`std::time::Instant::now`], `println!` or crate::manager.\nfn f() {}",
    "//! crate::manager drives this\n",
    "/* std::thread /* nested HashMap */ still f64 */ fn f() {}",
    "const S: &str = \"std::fs::read, x.unwrap(), \\\" panic!(), 1.5\";",
    "const S: &str = r#\"unsafe \" HashMap f64\"#;",
    "const S: &[u8] = b\"dbg!(x)\"; const T: &[u8] = br##\"todo!()\"# todo!()\"##;",
    "const C: char = '\"'; const D: char = '\\''; const E: u8 = b'\"'; fn f<'a>(x: &'a str) -> &'a str { x }",
    "#[expect(dead_code, reason = \"unwrap()\")] fn f() { x.unwrap_or_default(); x.unwrap_or_else(g); x.expected(); }",
    "fn f(r#unsafe_: u8) { let y = x.0.1 + 1u64 + 0xe5 + 0x1f64; for i in 1..2 {} let z = 1.max(2); let w = 1usize-1; }",
    "fn f() { if panic != assert {} write!(f, \"x\")?; debug_assert!(x); matches!(x, y) }",
    "const _: () = assert!(size_of::<u64>() == 8);",
    "use std::{fmt::{self, Write as _}, collections::{BTreeMap, VecDeque}, sync::Arc, time::Duration, num::NonZeroU32};",
    "use serde::{Deserialize, Serialize}; #[derive(thiserror::Error)] enum E {}",
    "use super::time::Timestamp; use crate::engine::{fence::Epoch, flow}; pub(crate) use self::x::Y; use time::Since;",
    "mod inner { use super::super::fence; mod more { use super::super::super::policy; } }",
    "pub(crate) fn f() {} pub(in crate::engine) fn g() {}",
    "#[cfg(test)]\nmod tests { use super::*; #[test] fn t() { assert_eq!(x.unwrap(), [1][0]); panic!(); y.expect(\"z\"); } }",
    "#[cfg(test)] use proptest::prelude::*; #[cfg(all(test, unix))] fn f() { unreachable!() }",
];

#[test]
fn each_kind_of_impurity_is_found_alone_and_planted_in_the_real_engine() {
    let real = read(&Path::new(ROOT).join("src/engine/flow.rs"));
    for (code, rule) in IMPURE {
        let found = engine_rules(code);
        assert!(found.contains(rule), "{code}\nfound: {found:?}");
        let planted = format!("{real}\n{code}");
        let violations = check_source("engine/flow.rs", &planted, &packages());
        let line = real.lines().count() + 1;
        assert!(
            violations.iter().any(|violation| violation.rule == *rule && violation.line >= line),
            "{code}\nplanted in the engine, found: {violations:?}"
        );
    }
}

#[test]
fn comments_strings_and_harmless_code_are_let_through() {
    for code in PURE {
        assert_none(&check_source("engine/flow.rs", code, &packages()));
    }
}

#[test]
fn a_test_module_of_the_engine_may_panic_but_nothing_else() {
    for (code, rule) in IMPURE {
        let inside = code.replace("super::super", "super::super::super");
        let found = engine_rules(&format!("fn before() {{}} #[cfg(test)] mod tests {{ {inside} }} fn after() {{}}"));
        let allowed = *rule == Rule::Panic || code.contains("proptest");
        assert_eq!(found.is_empty(), allowed, "{code}\nfound: {found:?}");
    }
    assert_eq!(engine_rules("#[cfg(test)] mod tests { f(); } fn after() { x.unwrap(); }"), [Rule::Panic]);
    assert_eq!(engine_rules("#[cfg(test)] use a::b; fn after() { x.unwrap(); }"), [Rule::Panic]);
    assert_eq!(engine_rules("#[cfg(not(test))] fn f() { x.unwrap(); }"), [Rule::Panic]);
    assert_eq!(engine_rules("#![cfg(test)] fn f() { x.unwrap(); }"), []);
}

#[test]
fn each_room_knows_only_what_is_below_it() {
    let rooms = [
        "engine",
        "path",
        "manager",
        "lease",
        "planning",
        "scenario",
        "sim",
        "supervisor",
        "calibration",
        "feed",
        "report",
    ];
    // One row for each room, in the order above: which of them it may import.
    let table = [
        ("engine", [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("path", [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("manager", [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("lease", [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("planning", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        ("scenario", [1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0]),
        ("sim", [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]),
        ("supervisor", [1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1]),
        ("calibration", [1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]),
        ("feed", [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
        ("report", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    for (from, row) in table {
        for (to, allowed) in rooms.iter().zip(row) {
            let code = format!("use crate::{to}::Thing;");
            for file in [format!("{from}/deep/er.rs"), format!("{from}/mod.rs"), format!("{from}.rs")] {
                let violations = check_source(&file, &code, &[]);
                assert_eq!(violations.is_empty(), allowed == 1, "{file} imports {to}: {violations:?}");
            }
        }
    }
    assert_eq!(check_source("util.rs", "fn f() {}", &[]).first().map(|one| one.rule), Some(Rule::UnknownRoom));
    assert_none(&check_source("readme.rs", "//! Docs.\n#![doc = include_str!(\"../README.md\")]\n", &[]));
    assert_none(&check_source("bin/broker-failover/main.rs", "use broker_failover::sim; use crate::args;", &[]));
}

#[test]
fn outside_the_engine_the_rules_of_purity_do_not_hold() {
    assert_none(&check_source("manager.rs", "use std::sync::Mutex; fn f() { tracing::info!(\"x\"); }", &packages()));
}

#[test]
fn lib_rs_holds_nothing_but_its_modules_and_re_exports() {
    let good = "//! Docs.\n#![forbid(unsafe_code)]\n/// A room.\npub mod engine;\nmod manager;\n#[cfg(feature = \"x\")]\n\
                pub mod scenario;\npub use engine::{Engine, time::{Timestamp}};\npub use manager::Manager;\n\
                #[cfg(doctest)]\n#[doc = \"README\"]\npub struct Readme;\n";
    assert_none(&check_source("lib.rs", good, &[]));
    for bad in [
        "fn f() {}",
        "pub fn f() {}",
        "pub struct S;",
        "use engine::Engine;",
        "mod inline { }",
        "pub mod inline { pub fn f() {} }",
        "const X: u8 = 1;",
        "impl X {}",
        "macro_rules! m { () => {} }",
        "#[cfg(test)] mod tests { }",
        "#[cfg(doctest)] struct Readme; pub struct S;",
    ] {
        let found = check_source("lib.rs", &format!("{good}{bad}"), &[]);
        assert_eq!(found.first().map(|one| one.rule), Some(Rule::LibContents), "{bad}");
    }
}

#[test]
fn untidy_text_and_foreign_paths_are_found() {
    for bad in ["\tfn f() {}\n", "fn f() {} \n", "fn f() {}\r\n", "fn f() {}"] {
        assert_eq!(check_text("src/x.rs", bad.as_bytes())[0].rule, Rule::Whitespace, "{bad:?}");
    }
    for foreign in foreign_paths() {
        for file in ["README.md", ".ci/run", "src/x.rs", "tests/scenarios/x.jsonl"] {
            let text = format!("one\nsee {foreign}x\n");
            let found = check_text(file, text.as_bytes());
            assert_eq!((found[0].rule, found[0].line), (Rule::ForeignPath, 2), "{foreign} in {file}");
        }
    }
    assert_none(&check_text("Makefile", b"\tdo it \n"));
    assert_none(&check_text("src/x.rs", b"fn f() {}\n"));
}

#[test]
fn the_manifest_tells_which_packages_there_are() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nserde = \"1\"\nfast-hash = { version = \"1\" }\n\n\
                    [features]\ndefault = []\n[target.'cfg(loom)'.dependencies]\nloom.version = \"0.7\"\n\
                    [dev-dependencies.big-one]\nversion = \"1\"\n";
    let packages = packages_in(manifest);
    for name in ["serde", "fast_hash", "loom", "big_one", "tracing", "rand"] {
        assert!(packages.iter().any(|one| one == name), "{name} isn't in {packages:?}");
    }
    assert!(!packages.iter().any(|one| one == "default" || one == "name"), "{packages:?}");
}
