//! The list of invariants: each names tests that exist, and every check is on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::document::{Document, root};

#[test]
fn every_invariant_names_tests_that_exist_and_every_check_is_an_invariant() {
    let table = Document::read().table("Invariants");
    assert_eq!(table.columns, ["Invariant", "Random", "Exhaustive", "Elsewhere"]);
    let ids: Vec<_> = (1..=table.rows.len()).map(|number| format!("INV-{number:02}")).collect();
    assert_eq!(table.rows.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);

    let (random, exhaustive) = (source("properties.rs"), source("exhaustive"));
    let elsewhere = ["boundaries.rs", "state_machine", "scenarios.rs", "cli", "patience.rs"].map(source).concat();
    let mut named: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (id, cells) in &table.rows {
        let mut shown = 0;
        for (column, place) in [("Random", &random), ("Exhaustive", &exhaustive), ("Elsewhere", &elsewhere)] {
            let cell = table.cell(id, column).unwrap_or_default();
            for name in cell.split('`').skip(1).step_by(2) {
                assert!(place.contains(&format!("fn {name}(")), "{id}: there is no {name} ({column})");
                named.entry(column).or_default().insert(name.to_owned());
                shown += 1;
            }
        }
        assert!(shown > 0, "{id} is shown by nothing: {cells:?}");
    }

    // And the other way round: what is checked there is listed here.
    let list =
        random.split_once("\nproperties! {").and_then(|(_, rest)| rest.split_once('}')).expect("there is a list").0;
    let properties: BTreeSet<_> =
        list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    assert_eq!(named["Random"], properties);
    let checks = exhaustive.lines().filter_map(|line| line.trim().strip_prefix("(\"INV-")?.split_once("\", "));
    let checks: BTreeSet<_> = checks.filter_map(|(_, name)| Some(name.strip_suffix("),")?.to_owned())).collect();
    assert!(checks.len() > 30, "{checks:?}");
    assert_eq!(named["Exhaustive"], checks);
}

/// A test program's source: a file, or all files of a folder.
fn source(name: &str) -> String {
    let path = root().join("tests").join(name);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.is_file() {
        return read(&path);
    }
    let files = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    files.map(|file| read(&file.expect("a file").path())).collect()
}
