//! The configuration's JSON Schema, from the table of keys.

use serde_json::{Map, Value, json};

use super::keys::{FILE, Key, Kind, Presence, Shape};

/// The JSON Schema (draft 2020-12) of the configuration file, as `assets/config.schema.json` holds it.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = table(&FILE);
    if let Some(map) = schema.as_object_mut() {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!(FILE.about));
    }
    schema
}

fn table(shape: &Shape) -> Value {
    let required: Vec<_> =
        shape.keys.iter().filter(|key| matches!(key.presence, Presence::Required)).map(|key| key.name).collect();
    let properties: Map<String, Value> = shape.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({
        "type": "object",
        "description": shape.about,
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn property(key: &Key) -> Value {
    let mut schema = kind(key.kind);
    if let Some(map) = schema.as_object_mut() {
        map.insert("description".to_owned(), json!(key.about));
        // The defaults of tables are told by their own keys.
        if let Presence::Default(text) = key.presence {
            if let Ok(value) = serde_json::from_str::<Value>(text).map_err(|_| ()) {
                map.insert("default".to_owned(), value);
            }
        }
    }
    schema
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Secret => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Duration => {
            json!({ "type": "string", "pattern": "^ *[0-9]+ *(ns|us|ms|s|m|h|d)( *[0-9]+ *(ns|us|ms|s|m|h|d))* *$" })
        }
        Kind::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Integers => json!({ "type": "array", "items": { "type": "integer", "minimum": 0 } }),
        Kind::Statuses => json!({ "type": "array", "items": { "type": "integer", "minimum": 100, "maximum": 599 } }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Table(shape) => table(shape),
        Kind::Tables(shape) => json!({ "type": "array", "items": table(shape) }),
        Kind::OneOrMore(shape) => json!({ "oneOf": [table(shape), { "type": "array", "items": table(shape) }] }),
        Kind::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
    }
}
