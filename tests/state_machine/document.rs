//! The document, read as tables.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fmt, fs};

pub(crate) struct Document(String);

/// A table: the first cell of each row is its name.
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<String>)>,
}

impl Document {
    pub(crate) fn read() -> Self {
        let path = root().join("references/state-machine.md");
        Self(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// The first table under a heading.
    pub(crate) fn table(&self, heading: &str) -> Table {
        let lines =
            self.0.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
        let mut rows =
            lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).map(|line| {
                let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
                cells.collect::<Vec<_>>()
            });
        let columns = rows.next().unwrap_or_else(|| panic!("no table under {heading:?}")).split_off(1);
        let rows = rows.skip(1).map(|mut cells| {
            let rest = cells.split_off(1);
            assert_eq!(rest.len(), columns.len(), "{heading}: {cells:?}");
            (cells.remove(0), rest)
        });
        Table { rows: rows.collect(), columns: columns.clone() }
    }
}

impl Table {
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        let names: BTreeSet<_> = self.rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), self.rows.len(), "a row stands twice");
        names
    }

    pub(crate) fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let column = self.columns.iter().position(|name| name == column)?;
        let (_, cells) = self.rows.iter().find(|(name, _)| name == row)?;
        cells.get(column).map(String::as_str)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rows).finish()
    }
}

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
