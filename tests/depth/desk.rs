//! Helpers of the tests that run the binary.

use std::fs;

use serde_json::Value;

use crate::rig::Rig;

/// Changes the file.
pub(crate) fn edit(rig: &Rig, from: &str, to: &str) {
    let file = rig.file("config.toml");
    let text = fs::read_to_string(&file).expect("a configuration");
    assert!(text.contains(from), "{from} is not in\n{text}");
    fs::write(file, text.replace(from, to)).expect("a configuration");
}

/// Starts the supervisor, and waits until flow is open on east and every endpoint is known.
pub(crate) fn open(rig: &mut Rig) {
    rig.start(&["--first-start", "east"]);
    rig.until("flow is open on east, and every endpoint is known", |group| {
        let known = |one: &Value| one["state"] != "UNKNOWN";
        group["order_flow"] == "OPEN east #1" && group["endpoints"].as_array().is_some_and(|all| all.iter().all(known))
    });
}

/// What the status says of an endpoint.
pub(crate) fn endpoint<'a>(group: &'a Value, name: &str) -> &'a Value {
    let all = group["endpoints"].as_array().into_iter().flatten();
    all.into_iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}
