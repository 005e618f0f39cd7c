//! The fuzz target's checks on the stable toolchain: the same function (`fuzz/check.rs`), fed by proptest instead of
//! libFuzzer. BROKER_FAILOVER_CASES sets the number of cases; by default there are few, since each replays a file many
//! times, and the fuzzer runs far more.
#![cfg(feature = "scenario")]

#[path = "../fuzz/check.rs"]
mod check;

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};

fn cases() -> ProptestConfig {
    let cases = std::env::var("BROKER_FAILOVER_CASES").map_or(2_000, |text| text.parse().expect("a number of cases"));
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() }
}

/// The golden scenarios, and the fuzzer's own seeds.
static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = ["tests/scenarios", "fuzz/seeds"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}")))
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a seed is readable")).collect()
});

/// The fuzzer's dictionary, and every line of the seeds.
static PIECES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let dictionary = include_str!("../fuzz/scenario.dict").lines();
    let words = dictionary.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"')).map(unescaped);
    let lines = SEEDS.iter().flat_map(|seed| seed.split_inclusive(|&byte| byte == b'\n')).map(<[u8]>::to_vec);
    words.chain(lines).collect()
});

/// `\\`, `\"` and `\xAB`, as libFuzzer reads them.
fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        match (byte, byte == b'\\') {
            (_, false) => bytes.push(byte),
            (_, true) => match rest.next() {
                Some(b'x') => {
                    let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or_default()));
                    let value =
                        digits.iter().filter_map(|digit| digit.to_digit(16)).fold(0, |all, digit| all * 16 + digit);
                    bytes.push(u8::try_from(value).expect("two digits"));
                }
                escaped => bytes.extend(escaped),
            },
        }
    }
    bytes
}

/// One change to a file; positions are given as a share of what is there.
#[derive(Clone, Debug)]
enum Mutation {
    Overwrite(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// Another number instead of one that is there.
    Number(Index, &'static str),
    DropLine(Index),
    RepeatLine(Index, Index),
    InsertLine(Index, Vec<u8>),
    SwapLines(Index, Index),
    Truncate(Index),
}

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "0.0",
    "1.000000001",
    "0.0000000001",
    "1e9",
    "4294967295",
    "4294967296",
    "18446744073.709551615",
    "18446744073709551615",
    "18446744073709551616",
];

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let index = any::<Index>;
    let piece = || select(PIECES.as_slice());
    let one = prop_oneof![
        1 => (index(), any::<u8>()).prop_map(|(at, byte)| Mutation::Overwrite(at, byte)),
        1 => (index(), piece()).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        1 => (index(), 1..20_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        4 => (index(), select(&NUMBERS[..])).prop_map(|(at, number)| Mutation::Number(at, number)),
        2 => index().prop_map(Mutation::DropLine),
        2 => (index(), index()).prop_map(|(from, to)| Mutation::RepeatLine(from, to)),
        3 => (index(), piece()).prop_map(|(at, piece)| Mutation::InsertLine(at, piece)),
        2 => (index(), index()).prop_map(|(one, other)| Mutation::SwapLines(one, other)),
        1 => index().prop_map(Mutation::Truncate),
    ];
    proptest::collection::vec(one, 1..6)
}

fn mutated(seed: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut file = seed.to_vec();
    for mutation in mutations {
        let at = |index: &Index| index.index(file.len() + 1);
        match mutation {
            Mutation::Overwrite(index, byte) => {
                let at = at(index);
                file.splice(at..file.len().min(at + 1), [*byte]);
            }
            Mutation::Insert(index, piece) => {
                let at = at(index);
                file.splice(at..at, piece.iter().copied());
            }
            Mutation::Remove(index, length) => {
                let at = at(index);
                file.drain(at..file.len().min(at + length));
            }
            Mutation::Truncate(index) => file.truncate(at(index)),
            Mutation::Number(index, number) => {
                let starts: Vec<usize> = (1..file.len())
                    .filter(|&at| file[at].is_ascii_digit() && matches!(file[at - 1], b':' | b'"' | b'['))
                    .collect();
                if !starts.is_empty() {
                    let start = *index.get(&starts);
                    let length =
                        file[start..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                    file.splice(start..start + length, number.bytes());
                }
            }
            lines => file = with_lines(&file, lines),
        }
    }
    file
}

/// The mutations of whole lines.
fn with_lines(file: &[u8], mutation: &Mutation) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = file.split_inclusive(|&byte| byte == b'\n').collect();
    let count = lines.len();
    if count == 0 {
        return Vec::new();
    }
    match mutation {
        Mutation::DropLine(at) => {
            lines.remove(at.index(count));
        }
        Mutation::RepeatLine(from, to) => lines.insert(to.index(count + 1), lines[from.index(count)]),
        Mutation::InsertLine(at, piece) => lines.insert(at.index(count + 1), piece),
        Mutation::SwapLines(one, other) => lines.swap(one.index(count), other.index(count)),
        _ => {}
    }
    lines.concat()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_bytes_are_replayed_without_harm(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        check::replay_holds(&data);
    }

    #[test]
    fn any_pieces_after_a_configuration_are_replayed_without_harm(
        seed in select(SEEDS.as_slice()),
        pieces in proptest::collection::vec(select(PIECES.as_slice()), 0..30),
    ) {
        let configuration = seed.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        check::replay_holds(&[configuration, &pieces.concat()].concat());
    }

    #[test]
    fn any_scenario_that_was_tampered_with_is_replayed_without_harm(
        seed in select(SEEDS.as_slice()),
        mutations in mutations(),
    ) {
        check::replay_holds(&mutated(&seed, &mutations));
    }
}

#[test]
fn every_seed_is_replayed_without_harm_as_it_stands() {
    assert!(SEEDS.len() > 3, "only {} seeds", SEEDS.len());
    assert!(PIECES.len() > 100, "only {} pieces", PIECES.len());
    for seed in SEEDS.iter() {
        check::replay_holds(seed);
    }
}

#[test]
fn a_line_of_one_mebibyte_is_the_longest_that_is_replayed() {
    let configuration = SEEDS[0].split(|&byte| byte == b'\n').next().expect("a first line");
    for (length, ends) in [((1 << 20) - 1, 2), (1 << 20, 2), ((1 << 20) + 1, 1), (1 << 21, 1)] {
        let comment = format!("#{}", "x".repeat(length - 1));
        let file = [configuration, b"\n", comment.as_bytes(), b"\r\n", b"x"].concat();
        check::replay_holds(&file);
        let end =
            broker_failover::scenario::replay(&*file, |_| Ok(())).expect_err("its last line is no input").to_string();
        assert!(end.starts_with(&format!("line {}, ", ends + 1)), "{length}: {end}");
    }
}
