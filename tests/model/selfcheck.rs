//! The model against answers worked out by hand: the small cases on which all else rests.

use super::*;

const POLICY: &str = r#""failure_threshold":2,"cooldown":"10s","max_health_age":"30s","failback_success_threshold":2,
    "max_failbacks_per_window":1,"failback_window":"1m 40s""#;

/// East is the primary, west the backup. Each pair is an input and the end of the line that answers it.
fn told(more_policy: &str, conversation: &[(&str, &str)]) {
    let config = format!(
        r#"{{"config":{{"policy":{{{POLICY}{more_policy}}},"endpoints":[
            {{"name":"east","region":"e","url":"https://e","primary":true}},
            {{"name":"west","region":"w","url":"https://w"}}]}}}}"#
    );
    let mut model = Model::new(&Json::parse(&config));
    for (i, (input, expected)) in conversation.iter().enumerate() {
        let line = model.apply(i as u64 + 2, &Json::parse(input)).to_string();
        assert!(line.ends_with(expected), "{input}\n gave {line}\n not ..{expected}");
    }
}

#[test]
fn one_success_is_healthy_and_the_threshold_is_down() {
    told(
        "",
        &[
            (
                r#"{"at":0,"probe":"east","ok":true}"#,
                r#"{"line":2,"at":0.0,"probe":"east","state":"HEALTHY","consecutive_failures":0,"consecutive_successes":1}"#,
            ),
            (
                r#"{"at":0.5,"probe":"east","ok":false}"#,
                r#""state":"DEGRADED","consecutive_failures":1,"consecutive_successes":0,"last_probe_error":"failed"}"#,
            ),
            (
                r#"{"at":1.25,"probe":"east","panic":"boom"}"#,
                r#""at":1.25,"probe":"east","state":"DOWN","consecutive_failures":2,"consecutive_successes":0,"last_probe_error":"panic: boom"}"#,
            ),
            (
                r#"{"at":2,"probe":"east","ok":true}"#,
                r#""state":"HEALTHY","consecutive_failures":0,"consecutive_successes":1}"#,
            ),
        ],
    );
}

#[test]
fn order_flow_opens_with_the_first_success_and_a_failover_goes_by_the_fence() {
    told(
        "",
        &[
            (
                r#"{"at":0,"evaluate":"failover"}"#,
                r#""outcome":"NO_ACTION","active":"east","epoch":1,"requires_trading_halt":false,"notes":["NEVER_PROBED_ACTIVE"],"order_flow":{"state":"HOLD","reason":"STARTING"}}"#,
            ),
            (r#"{"at":0,"probe":"east","ok":true}"#, r#""consecutive_successes":1}"#),
            (
                r#"{"at":0,"assess":"failover","fence_confirmed":true}"#,
                r#""notes":["FENCE_UNUSED"],"order_flow":{"state":"OPEN","endpoint":"east","epoch":1}}"#,
            ),
            (r#"{"at":1,"probe":"west","ok":true}"#, r#""consecutive_successes":1}"#),
            (r#"{"at":1,"probe":"east","ok":false}"#, r#""last_probe_error":"failed"}"#),
            (
                r#"{"at":1,"probe":"east","ok":false}"#,
                r#""state":"DOWN","consecutive_failures":2,"consecutive_successes":0,"last_probe_error":"failed"}"#,
            ),
            (
                r#"{"at":1,"evaluate":"failover"}"#,
                r#""outcome":"FENCE_REQUIRED","active":"east","epoch":1,"requires_trading_halt":false,"notes":[],"order_flow":{"state":"HOLD","reason":"SWITCHING"},"fence":{"endpoint":"east","epoch":1,"target":"west"}}"#,
            ),
            (r#"{"at":1,"evaluate":"failover","fence_epoch":2}"#, r#""error":{"code":"STALE_FENCE"}}"#),
            (
                r#"{"at":1,"evaluate":"failover","fence_epoch":1}"#,
                r#""outcome":"SWITCHED","active":"west","epoch":2,"requires_trading_halt":false,"notes":[],"order_flow":{"state":"HOLD","reason":"RECONCILING"},"event":{"kind":"FAILOVER","from":"east","to":"west","from_state":"DOWN","epoch":2}}"#,
            ),
            (r#"{"at":1,"reconciled":1}"#, r#""error":{"code":"STALE_RECONCILE"}}"#),
            (r#"{"at":1,"reconciled":2}"#, r#""order_flow":{"state":"OPEN","endpoint":"west","epoch":2}}"#),
            (r#"{"at":1,"reconciled":2}"#, r#""error":{"code":"NOT_RECONCILING"}}"#),
        ],
    );
}

/// The switch was at 1: its cooldown of 10 s ends at 11. The failback at 11 is in the window of 100 s up to and with
/// 111.
#[test]
fn cooldown_and_flap_budget_end_where_they_say() {
    let failback = |at: &str| format!(r#"{{"at":{at},"evaluate":"failback","fence_confirmed":true}}"#);
    let leave = |at: &str| format!(r#"{{"at":{at},"switchover":"west","fence_confirmed":true}}"#);
    let well = |at: &str, name: &str| format!(r#"{{"at":{at},"probe":"{name}","ok":true}}"#);
    let break_at = |at: &str| format!(r#"{{"at":{at},"probe":"east","ok":false}}"#);
    let failover = |at: &str| format!(r#"{{"at":{at},"evaluate":"failover","fence_confirmed":true}}"#);
    told(
        "",
        &[
            (&well("1", "west"), "}"),
            (&break_at("1"), "}"),
            (&break_at("1"), "}"),
            (&failover("1"), r#""epoch":2}}"#),
            (&well("2", "east"), "}"),
            (
                &failback("10.999999999"),
                r#""outcome":"COOLDOWN_ACTIVE","active":"west","epoch":2,"requires_trading_halt":false,"notes":["FENCE_UNUSED"],"earliest_at":11.0,"order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#,
            ),
            (
                &failback("11"),
                r#""outcome":"NOT_STABLE_YET","active":"west","epoch":2,"requires_trading_halt":false,"notes":["FENCE_UNUSED"],"order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#,
            ),
            (&well("11", "east"), r#""consecutive_successes":2}"#),
            (
                &failback("11"),
                r#""event":{"kind":"FAILBACK","from":"west","to":"east","from_state":"HEALTHY","epoch":3}}"#,
            ),
            (&well("100", "west"), "}"),
            (&break_at("100"), "}"),
            (&break_at("100"), "}"),
            (&failover("100"), r#""kind":"FAILOVER","from":"east","to":"west","from_state":"DOWN","epoch":4}}"#),
            (&well("101", "east"), "}"),
            (&well("101", "east"), "}"),
            (
                &failback("111"),
                r#""outcome":"FLAP_SUPPRESSED","active":"west","epoch":4,"requires_trading_halt":false,"notes":["FENCE_UNUSED"],"earliest_at":111.000000001,"order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#,
            ),
            (
                &failback("111.000000001"),
                r#""kind":"FAILBACK","from":"west","to":"east","from_state":"HEALTHY","epoch":5}}"#,
            ),
            // An operator's placement isn't undone by the engine.
            (&leave("112"), r#""kind":"SWITCHOVER","from":"east","to":"west","from_state":"HEALTHY","epoch":6}}"#),
            (
                &failback("122"),
                r#""outcome":"NO_ACTION","active":"west","epoch":6,"requires_trading_halt":false,"notes":["FENCE_UNUSED"],"order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#,
            ),
        ],
    );
}

#[test]
fn a_spent_epoch_ends_in_a_halt_or_in_the_same_path_once_it_proved_itself() {
    told(
        "",
        &[
            (r#"{"at":0,"probe":"east","ok":true}"#, "}"),
            (r#"{"at":0,"fence_started":1}"#, r#""order_flow":{"state":"HOLD","reason":"SWITCHING"}}"#),
            (r#"{"at":0,"resume":true}"#, r#""error":{"code":"NOT_HALTED"}}"#),
            (
                r#"{"at":0,"evaluate":"failover","fence_confirmed":true}"#,
                r#""outcome":"NO_TARGET_AVAILABLE","active":"east","epoch":1,"requires_trading_halt":true,"notes":["FENCE_UNUSED"],"order_flow":{"state":"HALT","code":"NO_TARGET_AVAILABLE"}}"#,
            ),
            (r#"{"at":0,"resume":true}"#, r#""error":{"code":"NOT_HALTED"}}"#),
            (r#"{"at":0,"probe":"east","ok":true}"#, r#""consecutive_successes":2}"#),
            (
                r#"{"at":0,"evaluate":"failover"}"#,
                r#""outcome":"SWITCHED","active":"east","epoch":2,"requires_trading_halt":false,"notes":[],"order_flow":{"state":"HOLD","reason":"RECONCILING"},"event":{"kind":"REARM","from":"east","to":"east","from_state":"HEALTHY","epoch":2}}"#,
            ),
            (r#"{"at":0,"rearm":true}"#, r#""error":{"code":"NOT_REARMABLE"}}"#),
            (r#"{"at":0,"switch_failed":2}"#, r#""order_flow":{"state":"HOLD","reason":"SWITCHING"}}"#),
            (r#"{"at":0,"halt":"desk"}"#, r#""halt":"desk","order_flow":{"state":"HALT","code":"OPERATOR"}}"#),
            (r#"{"at":0,"resume":true}"#, r#""order_flow":{"state":"HOLD","reason":"SWITCHING"}}"#),
            (
                r#"{"at":2.5,"status":true}"#,
                r#"{"line":13,"at":2.5,"status":true,"active":"east","epoch":2,"spent":true,"order_flow":{"state":"HOLD","reason":"SWITCHING"},"eligible_targets":[],"history":[{"kind":"REARM","from":"east","to":"east","from_state":"HEALTHY","epoch":2,"applied":false}],"history_dropped":0,"operator_placed":false,"last_switch_age":2.5,"failback_ages":[],"endpoints":[{"name":"east","region":"e","url":"https://e","primary":true,"priority":0,"maintenance":false,"state":"HEALTHY","consecutive_failures":0,"consecutive_successes":2,"health_age":2.5,"fresh":true},{"name":"west","region":"w","url":"https://w","primary":false,"priority":100,"maintenance":false,"state":"UNKNOWN","consecutive_failures":0,"consecutive_successes":0,"health_age":null,"fresh":false}]}"#,
            ),
            (r#"{"at":3,"rearm":true}"#, r#""epoch":3}}"#),
        ],
    );
}

#[test]
fn the_policy_says_who_ends_the_engines_halt_and_what_opens_order_flow() {
    told(
        r#","resume_after_halt":"operator","require_reconciliation":false,"require_fence":false"#,
        &[
            (r#"{"at":0,"probe":"east","ok":false}"#, "}"),
            (r#"{"at":0,"probe":"east","ok":false}"#, "}"),
            (r#"{"at":0,"evaluate":"failover"}"#, r#""order_flow":{"state":"HALT","code":"NO_TARGET_AVAILABLE"}}"#),
            (r#"{"at":0,"probe":"east","ok":true}"#, "}"),
            (r#"{"at":0,"evaluate":"failover"}"#, r#""order_flow":{"state":"HALT","code":"NO_TARGET_AVAILABLE"}}"#),
            (r#"{"at":0,"resume":true}"#, r#""order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#),
            (r#"{"at":0,"probe":"west","ok":true}"#, "}"),
            (
                r#"{"at":0,"switchover":"west","fence_epoch":1}"#,
                r#""notes":["FENCE_UNUSED"],"order_flow":{"state":"OPEN","endpoint":"west","epoch":2},"event":{"kind":"SWITCHOVER","from":"east","to":"west","from_state":"HEALTHY","epoch":2}}"#,
            ),
            (
                r#"{"at":0,"restart":"monitor"}"#,
                r#""restart":"monitor","order_flow":{"state":"OPEN","endpoint":"west","epoch":2}}"#,
            ),
            (r#"{"at":0,"restart":true}"#, r#""restart":true,"order_flow":{"state":"HOLD","reason":"RECONCILING"}}"#),
            (r#"{"at":0,"reconciled":2}"#, r#""order_flow":{"state":"HOLD","reason":"STARTING"}}"#),
        ],
    );
}

#[test]
fn refusals_come_in_their_order() {
    told(
        "",
        &[
            (r#"{"at":0,"switchover":"north","fence_epoch":2}"#, r#""error":{"code":"STALE_FENCE"}}"#),
            (r#"{"at":0,"switchover":"north"}"#, r#""error":{"code":"UNKNOWN_ENDPOINT"}}"#),
            (r#"{"at":0,"switchover":"east"}"#, r#""error":{"code":"ALREADY_ACTIVE"}}"#),
            (r#"{"at":0,"switchover":"west"}"#, r#""error":{"code":"TARGET_NOT_ELIGIBLE"}}"#),
            (
                r#"{"at":0,"register":{"name":" east ","region":"","url":"u","primary":true}}"#,
                r#""register":"east","error":{"code":"BLANK_FIELD"}}"#,
            ),
            (
                r#"{"at":0,"register":{"name":" east ","region":"r","url":"u","primary":true}}"#,
                r#""error":{"code":"DUPLICATE_ENDPOINT"}}"#,
            ),
            (
                r#"{"at":0,"register":{"name":"north","region":"r","url":"u","primary":true}}"#,
                r#""error":{"code":"SECOND_PRIMARY"}}"#,
            ),
            (r#"{"at":0,"update":{"name":"north","url":" "}}"#, r#""error":{"code":"UNKNOWN_ENDPOINT"}}"#),
            (r#"{"at":0,"update":{"name":"east","url":" ","primary":false}}"#, r#""error":{"code":"BLANK_FIELD"}}"#),
            (
                r#"{"at":0,"update":{"name":"east","url":"other","primary":false}}"#,
                r#""error":{"code":"ROLE_CHANGE"}}"#,
            ),
            (r#"{"at":0,"update":{"name":"east","url":"other"}}"#, r#""error":{"code":"ENDPOINT_IS_ACTIVE"}}"#),
            (r#"{"at":0,"update":{"name":" east","url":"https://e","priority":7}}"#, r#""update":"east"}"#),
            (r#"{"at":0,"validate":true}"#, r#""validate":true}"#),
        ],
    );
}

/// A cooldown of which the end can't be named still holds; what can be named is, to the last nanosecond.
#[test]
fn time_ends_where_64_bits_end() {
    let at = |rest: &str| format!(r#"{{"at":18446744073.709551615,{rest}}}"#);
    for (cooldown, named) in [("0s 1ns", false), ("0s", true)] {
        let mut model = Model::new(&Json::parse(&format!(
            r#"{{"config":{{"policy":{{"failure_threshold":1,"require_fence":false,"cooldown":"{cooldown}"}},"endpoints":[
                {{"name":"east","region":"e","url":"e","primary":true}},{{"name":"west","region":"w","url":"w"}}]}}}}"#
        )));
        for input in [r#""probe":"west","ok":true"#, r#""switchover":"west""#, r#""probe":"east","ok":true"#] {
            model.apply(0, &Json::parse(&at(input)));
        }
        model.operator_placed = false;
        let output = model.apply(0, &Json::parse(&at(r#""evaluate":"failback""#)));
        let outcome = if named { "NOT_STABLE_YET" } else { "COOLDOWN_ACTIVE" };
        assert_eq!(output.str("outcome"), Some(outcome));
        assert_eq!(output.get("earliest_at"), None);
        assert_eq!(output.str("at"), Some("18446744073.709551615"));
    }
}
