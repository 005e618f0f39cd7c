//! What each room of the crate may use, and the checks that hold it to that.

use std::fmt;

use crate::lexer::{self, Kind, Token};

/// The rooms, and which others each may import. Besides itself a room knows only what its row says; in particular
/// nothing is imported through the crate's root, whose re-exports would hide the direction.
///
/// The simulator draws on planning, the journal stores the scenario's inputs, and calibration reads journals and asks about
/// the simulator's triggers: the only imports between equals.
const ROOMS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("path", &["engine"]),
    ("feed", &["engine"]),
    ("manager", &["path", "engine"]),
    ("lease", &["engine"]),
    ("planning", &[]),
    ("report", &[]),
    ("scenario", &["manager", "lease", "engine"]),
    ("sim", &["scenario", "planning", "manager", "path", "lease", "engine"]),
    ("supervisor", &["report", "scenario", "planning", "manager", "feed", "path", "lease", "engine"]),
    ("calibration", &["supervisor", "sim", "scenario", "planning", "engine"]),
];

/// What the engine may take from std, core and alloc. Everything else is refused, so that no list of clocks, threads,
/// sockets and files has to be complete.
const ENGINE_STD: &[&str] = &[
    "any",
    "array",
    "ascii",
    "borrow",
    "boxed",
    "char",
    "cmp",
    "collections::BTreeMap",
    "collections::BTreeSet",
    "collections::BinaryHeap",
    "collections::VecDeque",
    "collections::btree_map",
    "collections::btree_set",
    "collections::vec_deque",
    "convert",
    "error",
    "fmt",
    "hash::Hash",
    "hash::Hasher",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "option",
    "result",
    "slice",
    "str",
    "string",
    "sync::Arc",
    "time::Duration",
    "u16",
    "u32",
    "u64",
    "usize",
    "vec",
];

/// The packages that the engine may use; its tests may use the second list too.
const ENGINE_CRATES: &[&str] = &["serde", "thiserror"];
const ENGINE_TEST_CRATES: &[&str] = &["proptest"];

/// Packages that are refused even before Cargo.toml names them.
const KNOWN_CRATES: &[&str] = &["chrono", "libc", "log", "parking_lot", "rand", "rustix", "tokio", "tracing"];

/// Names that have no place in the engine wherever they come from.
const ENGINE_WORDS: &[(&str, Rule)] = &[
    ("Instant", Rule::Clock),
    ("SystemTime", Rule::Clock),
    ("HashMap", Rule::HashOrder),
    ("HashSet", Rule::HashOrder),
    ("f32", Rule::Float),
    ("f64", Rule::Float),
    ("unsafe", Rule::Unsafe),
    ("async", Rule::Async),
    ("await", Rule::Async),
];

const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
const PANICKING: &[&str] =
    &["panic", "unreachable", "todo", "unimplemented", "assert", "assert_eq", "assert_ne", "assert_matches"];
const UNWRAPPING: &[&str] = &["unwrap", "unwrap_err", "unwrap_unchecked", "expect", "expect_err"];
const ENVIRONMENT: &[&str] = &["env", "option_env", "thread_local"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Std,
    Package,
    Clock,
    HashOrder,
    Float,
    Unsafe,
    Async,
    Print,
    Panic,
    Environment,
    Direction,
    UnknownRoom,
    LibContents,
    Whitespace,
    ForeignPath,
}

impl Rule {
    fn sentence(self) -> &'static str {
        match self {
            Self::Std => "the engine may not use this part of std: no I/O, clock, thread, lock or environment",
            Self::Package => "the engine may use no package but serde and thiserror",
            Self::Clock => "time comes into the engine as an argument",
            Self::HashOrder => "hash order differs between runs: use BTreeMap, BTreeSet or Vec",
            Self::Float => "no floating-point number in the engine",
            Self::Unsafe => "no unsafe code",
            Self::Async => "the engine is synchronous",
            Self::Print => "the engine prints nothing",
            Self::Panic => "the engine doesn't panic: return an error, or a value that needs none",
            Self::Environment => "the engine depends on no environment or thread",
            Self::Direction => "this room may not import that one (see ROOMS in tests/purity/rules.rs)",
            Self::UnknownRoom => "every top module is a room with a row in ROOMS in tests/purity/rules.rs",
            Self::LibContents => "lib.rs holds documentation, attributes, `mod` and `pub use` only",
            Self::Whitespace => "no tab, carriage return or trailing space, and a newline at the end",
            Self::ForeignPath => "a path of the machine it was written on has no place in the product",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    pub(crate) found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: found `{}`: {}", self.file, self.line, self.found, self.rule.sentence())
    }
}

/// The names by which code can reach the packages in Cargo.toml, whatever section they are in.
pub(crate) fn packages_in(manifest: &str) -> Vec<String> {
    let mut names: Vec<String> = KNOWN_CRATES.iter().map(|&name| name.to_owned()).collect();
    let mut inside = false;
    for line in manifest.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            inside = heading.trim_end_matches(']').ends_with("dependencies");
            if let Some((_, name)) = heading.split_once("dependencies.") {
                names.push(name.trim_end_matches(']').replace('-', "_"));
            }
        } else if inside && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            names.push(name.replace('-', "_"));
        }
    }
    names
}

/// Checks one file of `src`, named by its path from there (`engine/flow.rs`).
pub(crate) fn check_source(file: &str, source: &str, packages: &[String]) -> Vec<Violation> {
    let tokens = lexer::tokens(source);
    let found = |line, rule, found: String| Violation { file: format!("src/{file}"), line, rule, found };
    if file == "lib.rs" {
        return check_lib(&tokens).map(|token| found(token.line, Rule::LibContents, token.text)).into_iter().collect();
    }
    let module = module_of(file);
    let mut violations = Vec::new();
    let Some(room) = module.first().filter(|room| *room != "bin") else {
        return violations;
    };
    if holds_only_documentation(&tokens) {
        return violations;
    }
    if !ROOMS.iter().any(|(name, _)| name == room) {
        violations.push(found(1, Rule::UnknownRoom, room.clone()));
        return violations;
    }
    for path in paths(&tokens, &module) {
        if let Some(rule) = check_direction(room, &path) {
            violations.push(found(path.line, rule, path.text()));
        }
        if let Some(rule) = (room == "engine").then(|| check_engine_path(&path, packages)).flatten() {
            violations.push(found(path.line, rule, path.text()));
        }
    }
    if room == "engine" {
        violations.extend(check_engine_words(&tokens).map(|(token, rule)| found(token.line, rule, token.text.clone())));
    }
    violations
}

/// Whether a file has unsafe code, or allows itself to.
pub(crate) fn has_unsafe_code(source: &str) -> bool {
    lexer::tokens(source)
        .iter()
        .any(|token| token.kind == Kind::Ident && ["unsafe", "unsafe_code"].contains(&&*token.text))
}

/// A file of documentation and attributes is no room: there is nothing in it to import or to import with.
fn holds_only_documentation(tokens: &[Token]) -> bool {
    let mut at = 0;
    while let Some(end) = tokens.get(at).and_then(|_| lexer::past_attribute(tokens, at)) {
        at = end;
    }
    at == tokens.len()
}

/// `engine/flow.rs` is module `engine::flow`; `engine/mod.rs` is `engine`.
fn module_of(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// A path as written (`segments`), and as seen from the crate's root if it leads into the crate (`target`).
struct Path {
    segments: Vec<String>,
    target: Option<Vec<String>>,
    line: usize,
    test: bool,
    imported: bool,
}

impl Path {
    fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// Every path in the file: `use` trees branch by branch, all others as they stand.
fn paths(tokens: &[Token], module: &[String]) -> Vec<Path> {
    let mut found = Vec::new();
    // The module that encloses each position: (its name, where it ends).
    let mut inside: Vec<(String, usize)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        inside.retain(|(_, end)| at < *end);
        let token = &tokens[at];
        if token.is("mod") && tokens.get(at + 2).is_some_and(|next| next.is("{")) {
            inside.push((tokens[at + 1].text.clone(), lexer::past_closing(tokens, at + 2)));
            at += 3;
            continue;
        }
        let imported = token.is("use") && !tokens.get(at + 1).is_some_and(|next| next.is("<"));
        let mut written = Vec::new();
        let start = at;
        if imported {
            at = use_tree(tokens, at + 1, &[], &mut written);
        } else if token.kind == Kind::Ident {
            let mut segments = vec![token.text.clone()];
            at += 1;
            while at + 1 < tokens.len() && tokens[at].is("::") && tokens[at + 1].kind == Kind::Ident {
                segments.push(tokens[at + 1].text.clone());
                at += 2;
            }
            let method = start > 0 && tokens[start - 1].is(".");
            if segments.len() > 1 && !method {
                written.push((segments, token.line));
            }
        } else {
            at += 1;
        }
        let here: Vec<&str> =
            module.iter().map(String::as_str).chain(inside.iter().map(|(name, _)| name.as_str())).collect();
        for (segments, line) in written {
            let target = resolve(&segments, &here);
            found.push(Path { segments, target, line, test: tokens[start].test, imported });
        }
    }
    found
}

/// Reads a `use` tree from `at`, adds its branches, and returns the index past it.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], branches: &mut Vec<(Vec<String>, usize)>) -> usize {
    let mut segments = prefix.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            let end = lexer::past_closing(tokens, at);
            at += 1;
            while at + 1 < end {
                at = use_tree(tokens, at, &segments, branches);
                at += usize::from(tokens.get(at).is_some_and(|next| next.is(",")));
            }
            return end;
        } else if token.is("*") {
            segments.push("*".to_owned());
            at += 1;
            break;
        } else if token.is("as") {
            at += 2;
            break;
        } else if token.is("::") {
            at += 1;
        } else if token.kind == Kind::Ident {
            segments.push(token.text.clone());
            at += 1;
        } else {
            break;
        }
    }
    branches.push((segments, line));
    at
}

fn resolve(segments: &[String], here: &[&str]) -> Option<Vec<String>> {
    let mut target: Vec<String> = match segments.first()?.as_str() {
        "crate" | "broker_failover" => Vec::new(),
        "self" | "super" => here.iter().map(|&name| name.to_owned()).collect(),
        _ => return None,
    };
    for segment in segments {
        match segment.as_str() {
            "crate" | "self" | "broker_failover" => {}
            "super" => {
                target.pop();
            }
            name => target.push(name.to_owned()),
        }
    }
    Some(target)
}

fn check_direction(room: &str, path: &Path) -> Option<Rule> {
    let to = path.target.as_ref()?.first().map_or("*", String::as_str);
    let allowed = ROOMS.iter().find(|(name, _)| *name == room).map_or(&[] as &[&str], |(_, allowed)| allowed);
    (to != room && !allowed.contains(&to)).then_some(Rule::Direction)
}

fn check_engine_path(path: &Path, packages: &[String]) -> Option<Rule> {
    let first = path.segments.first()?.as_str();
    if matches!(first, "std" | "core" | "alloc") {
        let rest = path.segments[1..].join("::");
        let fits = |allowed: &&str| rest.strip_prefix(*allowed).is_some_and(|r| r.is_empty() || r.starts_with("::"));
        return (!ENGINE_STD.iter().any(fits)).then_some(Rule::Std);
    }
    let foreign = packages.iter().any(|name| name == first) && (path.imported || path.segments.len() > 1);
    let allowed = ENGINE_CRATES.contains(&first) || path.test && ENGINE_TEST_CRATES.contains(&first);
    (foreign && !allowed).then_some(Rule::Package)
}

fn check_engine_words(tokens: &[Token]) -> impl Iterator<Item = (&Token, Rule)> {
    tokens.iter().enumerate().filter_map(|(at, token)| {
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        let after = |ahead: usize, texts: &[&str]| {
            tokens.get(at + ahead).is_some_and(|next| texts.iter().any(|text| next.is(text)))
        };
        if token.kind == Kind::Number && lexer::is_float(&token.text) {
            return Some((token, Rule::Float));
        } else if token.kind != Kind::Ident {
            return None;
        }
        let word = token.text.as_str();
        if let Some((_, rule)) = ENGINE_WORDS.iter().find(|(banned, _)| *banned == word) {
            return Some((token, *rule));
        }
        if after(1, &["!"]) && after(2, &["(", "[", "{"]) {
            // Evaluated by the compiler: `const _: () = assert!(…)`.
            let constant = before(7).is_some_and(|token| token.is("const")) || before(6).is_some_and(|t| t.is("const"));
            if PRINTING.contains(&word) {
                return Some((token, Rule::Print));
            } else if ENVIRONMENT.contains(&word) {
                return Some((token, Rule::Environment));
            } else if PANICKING.contains(&word) && !token.test && !constant {
                return Some((token, Rule::Panic));
            }
        }
        let called = before(1).is_some_and(|previous| previous.is(".") || previous.is("::"));
        (UNWRAPPING.contains(&word) && called && !token.test).then_some((token, Rule::Panic))
    })
}

/// The first token of lib.rs that starts anything but documentation, an attribute, `mod x;`, `pub use …;`, or an item
/// that only doc tests see.
fn check_lib(tokens: &[Token]) -> Option<Token> {
    let mut at = 0;
    let mut doctest = false;
    while at < tokens.len() {
        if let Some(end) = lexer::past_attribute(tokens, at) {
            doctest |= lexer::is_cfg(&tokens[at..end], "doctest");
            at = end;
            continue;
        }
        let end = lexer::past_item(tokens, at);
        let public = usize::from(tokens[at].is("pub"));
        let module = tokens.get(at + public).is_some_and(|token| token.is("mod")) && end == at + public + 3;
        let reexport = public == 1 && tokens.get(at + 1).is_some_and(|token| token.is("use"));
        if !module && !reexport && !doctest {
            return Some(tokens[at].clone());
        }
        // A re-export's braces end before its semicolon.
        at = end + usize::from(tokens.get(end).is_some_and(|token| token.is(";")));
        doctest = false;
    }
    None
}

/// Checks a tracked file, of whatever kind, as text.
pub(crate) fn check_text(file: &str, bytes: &[u8]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut found = |line, rule, found: &str| {
        violations.push(Violation { file: file.to_owned(), line, rule, found: found.to_owned() });
    };
    let text = String::from_utf8_lossy(bytes);
    let tidy = file.ends_with(".rs") || file.ends_with(".toml");
    for (at, line) in text.split('\n').enumerate() {
        for foreign in foreign_paths().iter().filter(|foreign| line.contains(foreign.as_str())) {
            found(at + 1, Rule::ForeignPath, foreign);
        }
        if tidy && (line.contains(['\t', '\r']) || line.ends_with(' ')) {
            found(at + 1, Rule::Whitespace, line);
        }
    }
    if tidy && !text.ends_with('\n') {
        found(text.lines().count(), Rule::Whitespace, "no newline at the end");
    }
    violations
}

/// Put together from pieces, else this file would be the first to be found.
pub(crate) fn foreign_paths() -> [String; 4] {
    [["/wo", "rk/"], ["/ro", "ot/"], ["shared", "/specs"], ["shared", "/seeds"]].map(|pieces| pieces.concat())
}
