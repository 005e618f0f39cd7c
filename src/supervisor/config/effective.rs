//! Every value that is in force, with its origin.

use super::build::redacted;
use super::findings::Places;
use super::read::{Table, Value};

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Where in the file's tree.
    pub key: String,
    /// The value, without secrets.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This line of the file.
    Line(usize),
    /// The default.
    Default,
}

pub(super) fn of(file: &Table, text: &str) -> Vec<Effective> {
    let mut list = Vec::new();
    collect(file, &Places::new(text), &mut list);
    list
}

fn collect(table: &Table, places: &Places<'_>, list: &mut Vec<Effective>) {
    for (key, entry) in table.entries() {
        let value = match &entry.value {
            Value::Table(inner) => {
                collect(inner, places, list);
                continue;
            }
            Value::Tables(inner) if !inner.is_empty() => {
                inner.iter().for_each(|one| collect(one, places, list));
                continue;
            }
            Value::Tables(_) => "none".to_owned(),
            Value::Text(value) => format!("{:?}", redacted(value)),
            Value::Flag(flag) => flag.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Duration(duration) => format!("{duration:?}"),
            Value::Share(share) => share.to_string(),
            Value::Texts(texts) => format!("{texts:?}"),
            Value::Statuses(statuses) => format!("{statuses:?}"),
            Value::TextMap(map) => {
                let names: Vec<_> = map.iter().map(|(name, _)| format!("{name}: ...")).collect();
                format!("{{{}}}", names.join(", "))
            }
        };
        let origin = entry.span.as_ref().map_or(Origin::Default, |span| Origin::Line(places.line(span.start)));
        list.push(Effective { key: table.path_of(key), value, origin });
    }
}
