//! Faults of a scenario file, each named with its place.

use crate::tools::{CONFIG, FAULTY, REFUSED, Ran, TAKEN, assert_fault, file, run, scenario};

/// Faults of the first line. The place that the message must name is marked with `‸`.
const FAULTS_OF_THE_CONFIGURATION: &[(&str, &str, &str)] = &[
    ("‸", "the end of the file", r#"a {"config":...} line"#),
    ("# only comments\n\n‸", "the end of the file", r#"a {"config":...} line"#),
    (r#"‸{"at":1.0,"status":true}"#, r#"no key "config" in this object"#, r#"{"config":{...}} as the first line"#),
    ("‸[]", "[]", "a JSON object"),
    ("‸hello", "hello", "a JSON object"),
    (r#"{"config":‸[]}"#, r#""config":[]"#, "a JSON object"),
    (r#"{"config":‸null}"#, r#""config":null"#, "a JSON object"),
    (r#"{"config":‸{}}"#, r#"no key "endpoints" in this object"#, "one"),
    (r#"{"config":{"endpoints":‸{}}}"#, r#""endpoints":{}"#, "a JSON array"),
    (r#"{"config":{"endpoints":[]},‸"x":1}"#, r#"the unknown key "x""#, r#"only "config""#),
    (r#"{"config":{"endpoints":[],‸"polcy":{}}}"#, r#"the unknown key "polcy""#, r#"only "policy", "endpoints""#),
    (r#"{"config":{"policy":‸null,"endpoints":[]}}"#, r#""policy":null"#, "a JSON object"),
    // The policy: every bound.
    (r#"{"config":{"policy":{"failure_threshold":‸0},"endpoints":[]}}"#, r#""failure_threshold":0"#, "1 to 4294967295"),
    (
        r#"{"config":{"policy":{"failback_success_threshold":‸0},"endpoints":[]}}"#,
        r#""failback_success_threshold":0"#,
        "1 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"max_failbacks_per_window":‸0},"endpoints":[]}}"#,
        r#""max_failbacks_per_window":0"#,
        "1 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"max_health_age":‸"0s"},"endpoints":[]}}"#,
        r#""max_health_age":"0s""#,
        "1ns to 18446744073709551615ns",
    ),
    (
        r#"{"config":{"policy":{"failback_window":‸"0 d"},"endpoints":[]}}"#,
        r#""failback_window":"0 d""#,
        "1ns to 18446744073709551615ns",
    ),
    (
        r#"{"config":{"policy":{"history_limit":‸4294967296},"endpoints":[]}}"#,
        r#""history_limit":4294967296"#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸-1},"endpoints":[]}}"#,
        r#""failure_threshold":-1"#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸"3"},"endpoints":[]}}"#,
        r#""failure_threshold":"3""#,
        "an integer from 0 to 4294967295",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":‸2.5},"endpoints":[]}}"#,
        r#""failure_threshold":2.5"#,
        "an integer from 0 to 4294967295",
    ),
    (r#"{"config":{"policy":{"cooldown":‸60},"endpoints":[]}}"#, r#""cooldown":60"#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"-60s"},"endpoints":[]}}"#, r#""cooldown":"-60s""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"60"},"endpoints":[]}}"#, r#""cooldown":"60""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"1.5s"},"endpoints":[]}}"#, r#""cooldown":"1.5s""#, DURATION),
    (r#"{"config":{"policy":{"cooldown":‸"20000000000s"},"endpoints":[]}}"#, r#""cooldown":"20000000000s""#, DURATION),
    (r#"{"config":{"policy":{"require_fence":‸"yes"},"endpoints":[]}}"#, r#""require_fence":"yes""#, "true or false"),
    (
        r#"{"config":{"policy":{"resume_after_halt":‸"never"},"endpoints":[]}}"#,
        r#""resume_after_halt":"never""#,
        r#""reconcile" or "operator""#,
    ),
    (
        r#"{"config":{"policy":{"cooldown":"60s",‸"cooldown":"61s"},"endpoints":[]}}"#,
        r#"the key "cooldown" a second time"#,
        "each key once",
    ),
    (
        r#"{"config":{"policy":{‸"cooldwn":"60s"},"endpoints":[]}}"#,
        r#"the unknown key "cooldwn""#,
        concat!(
            r#"only "failure_threshold", "trigger", "minimum_history", "silence", "cooldown", "cooldown_max", "#,
            r#""max_health_age", "failback_success_threshold", "require_fence", "#,
            r#""max_failbacks_per_window", "failback_window", "require_reconciliation", "resume_after_halt", "history_limit""#
        ),
    ),
    // Patience.
    (
        r#"{"config":{"policy":{"trigger":‸{"window":"1s","of":3}},"endpoints":[]}}"#,
        r#""trigger":{"window":"1s","of":3}"#,
        r#""consecutive" alone, "window" alone, or "failures" with "of""#,
    ),
    (
        r#"{"config":{"policy":{"trigger":{‸"windw":"1s"}},"endpoints":[]}}"#,
        r#"the unknown key "windw""#,
        r#"only "consecutive", "failures", "of", "window""#,
    ),
    (r#"{"config":{"policy":{"trigger":{"failures":1,"of":‸65}},"endpoints":[]}}"#, r#""of":65"#, "1 to 64"),
    (
        r#"{"config":{"policy":{"trigger":{"failures":‸4,"of":3}},"endpoints":[]}}"#,
        r#""failures":4"#,
        "at most of, which is 3",
    ),
    (
        r#"{"config":{"policy":{"failure_threshold":3,"trigger":{"consecutive":‸4}},"endpoints":[]}}"#,
        r#""consecutive":4"#,
        "failure_threshold, which is 3",
    ),
    (
        r#"{"config":{"policy":{"minimum_history":‸2},"endpoints":[]}}"#,
        r#""minimum_history":2"#,
        "at least 3, which the trigger needs to fire at all",
    ),
    (r#"{"config":{"policy":{"silence":‸"loud"},"endpoints":[]}}"#, r#""silence":"loud""#, r#""note" or "failure""#),
    (
        r#"{"config":{"policy":{"cooldown":"60s","cooldown_max":‸"59s"},"endpoints":[]}}"#,
        r#""cooldown_max":"59s""#,
        "at least cooldown, which is 60s",
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","trigger":{"window":‸"0s"}}]}}"#,
        r#""window":"0s""#,
        "1ns to 18446744073709551615ns",
    ),
    // The endpoints.
    (r#"{"config":{"endpoints":[‸"P"]}}"#, r#""P""#, "a JSON object"),
    (r#"{"config":{"endpoints":[‸{"name":"P","region":"r"}]}}"#, r#"no key "url" in this object"#, "one"),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u",‸"primry":true}]}}"#,
        r#"the unknown key "primry""#,
        r#"only "name", "region", "url", "account", "primary", "priority", "trigger""#,
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","priority":‸-1}]}}"#,
        r#""priority":-1"#,
        "an integer from 0 to 4294967295",
    ),
    (r#"{"config":{"endpoints":[{"name":"P","region":‸" ","url":"u"}]}}"#, r#""region":" ""#, "text that is not blank"),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u"},{"name":‸" P ","region":"r","url":"u"}]}}"#,
        r#"a second endpoint called "P""#,
        "each name once",
    ),
    (
        r#"{"config":{"endpoints":[{"name":"P","region":"r","url":"u","primary":true},{"name":"B","region":"r","url":"u","primary":‸true}]}}"#,
        r#""B" as a second primary beside "P""#,
        "one primary",
    ),
    // Broken JSON.
    (r#"{"config":{"endpoints":[]}‸"#, "the end of the line", r#""}""#),
    (r#"{"config":{"endpoints":[‸"#, "the end of the line", r#""]""#),
    (r#"{"config":‸"#, "the end of the line", "a value"),
    (r#"{"config":{"endpoints":[]}}‸}"#, "'}'", "the end of the line"),
    (r#"{"config":{"endpoints":[]}} ‸# no comment here"#, "'#'", "the end of the line"),
    (r#"{‸config:{}}"#, "'c'", "a key in quotation marks"),
    (r#"{"config" ‸{}}"#, "'{'", r#"":""#),
    (r#"{"config":{"endpoints":[‸}}"#, "'}'", "a JSON value"),
];

/// Faults of the snapshot in a second line.
const FAULTS_OF_A_SNAPSHOT: &[(&str, &str, &str, &str)] = &[
    (r#""version":1"#, r#""version":‸2"#, r#""version":2"#, "1"),
    (r#""version":1,"#, "", r#"no key "version" in this object"#, "one"),
    (r#""version":1"#, r#""version":1,‸"extra":0"#, r#"the unknown key "extra""#, SNAPSHOT_KEYS),
    (r#""version":1"#, r#""version":1,‸"version":1"#, r#"the key "version" a second time"#, "each key once"),
    (r#""active":{"#, r#""active":{‸"spend":true,"#, r#"the unknown key "spend""#, SNAPSHOT_ACTIVE_KEYS),
    (r#""epoch":3,"spent""#, r#""epoch":‸0,"spent""#, "epoch 0", "1 to 17592186044415"),
    (r#""epoch":3,"spent""#, r#""epoch":‸-3,"spent""#, "integer -3", "an integer from 0 to 18446744073709551615"),
    (r#""spent":false"#, r#""spent":‸"no""#, r#"string "no""#, "a boolean"),
    (r#""active":{"endpoint":"B""#, r#""active":‸{"endpoint":"X""#, r#""active": "X""#, "the name of one of endpoints"),
    (
        r#""order_flow":"OPEN""#,
        r#""order_flow":‸"CLOSED""#,
        r#"unknown variant "CLOSED""#,
        r#"one of "OPEN", "STARTING", "SWITCHING", "RECONCILING", "NO_TARGET_AVAILABLE", "HALTED""#,
    ),
    (
        r#""order_flow":"OPEN""#,
        r#""order_flow":‸{"HALTED":{"code":" ","text":""}}"#,
        r#""order_flow": HALTED with a blank or reserved code"#,
        "a code of the caller's",
    ),
    (r#""kind":"FAILOVER""#, r#""kind":‸"FALLOVER""#, r#"unknown variant "FALLOVER""#, SWITCH_KINDS),
    (
        r#""history":[{"kind":"FAILOVER","from":"P""#,
        r#""history":‸[{"kind":"FAILOVER","from":"Q""#,
        r#""history": "Q""#,
        "the names of endpoints",
    ),
    (r#""failback_ages":[2,1]"#, r#""failback_ages":‸[1,2]"#, r#""failback_ages": [1, 2]"#, "the oldest first"),
    (r#""history_dropped":0"#, r#""history_dropped":‸null"#, "null", "an integer from 0 to 18446744073709551615"),
    (r#"{"restore":"#, r#"{"restore":1,‸"restore":"#, r#"the key "restore" a second time"#, "each key once"),
];

const SNAPSHOT: &str = concat!(
    r#"{"restore":{"version":1,"endpoints":[{"endpoint":{"name":"P","region":"r","url":"u","primary":true,"priority":0},"#,
    r#""maintenance":false},{"endpoint":{"name":"B","region":"r","url":"u","primary":false,"priority":10},"maintenance":false}],"#,
    r#""active":{"endpoint":"B","epoch":3,"spent":false,"operator_placed":false},"order_flow":"OPEN","#,
    r#""history":[{"kind":"FAILOVER","from":"P","to":"B","from_state":"DOWN","epoch":3,"applied":true}],"#,
    r#""history_dropped":0,"last_switch_age":5,"failback_ages":[2,1]}}"#
);
const SNAPSHOT_KEYS: &str = concat!(
    r#"one of "version", "endpoints", "active", "order_flow", "history", "history_dropped", "last_switch_age", "#,
    r#""failback_ages""#
);
const SNAPSHOT_ACTIVE_KEYS: &str = r#"one of "endpoint", "epoch", "spent", "operator_placed""#;
const SWITCH_KINDS: &str = r#"one of "FAILOVER", "FAILBACK", "SWITCHOVER", "REARM""#;
const DURATION: &str =
    r#"a duration such as "250ms", "60s" or "1h 30m" (integers with ns, us, ms, s, m, h, d; 584 years at most)"#;
const SECONDS: &str = "seconds as a plain decimal, at most 9 fraction digits, from 0 to 18446744073.709551615";
const SIGNED_SECONDS: &str = "seconds as a plain decimal, at most 9 fraction digits, with an optional minus";
const INPUTS: &str = "one of probe, due, tick, evaluate, assess, fence_started, switch_failed, rearm, reconciled, status, \
                      wall_step, restart, register, update, validate, switchover, maintenance, bar, halt, resume";
const EPOCH: &str = "an integer from 0 to 18446744073709551615";
const HALT_CODE: &str = "a code that is not blank and not NO_TARGET_AVAILABLE";

/// Faults of an input line.
const FAULTS_OF_AN_INPUT: &[(&str, &str, &str)] = &[
    // Time.
    (r#"‸{"probe":"P","ok":true}"#, r#"no key "at" in this object"#, "one"),
    (r#"{"at":‸-1,"status":true}"#, r#""at":-1"#, SECONDS),
    (r#"{"at":‸1e3,"status":true}"#, r#""at":1e3"#, SECONDS),
    (r#"{"at":‸"1","status":true}"#, r#""at":"1""#, SECONDS),
    (r#"{"at":‸null,"status":true}"#, r#""at":null"#, SECONDS),
    (r#"{"at":‸0.0000000001,"status":true}"#, r#""at":0.0000000001"#, SECONDS),
    (r#"{"at":‸18446744073.709551616,"status":true}"#, r#""at":18446744073.709551616"#, SECONDS),
    (
        "{\"at\":5,\"status\":true}\n{\"halt\":\"at\",\"at\":‸4.999999999}",
        r#""at":4.999999999"#,
        "5.0 or later, the time of the line before",
    ),
    (
        "{\"at\":5,\"restart\":true}\n{\"at\":‸0,\"status\":true}",
        r#""at":0"#,
        "5.0 or later, the time of the line before",
    ),
    // Which input.
    (r#"‸{"at":1.0}"#, "no input in this object", INPUTS),
    (r#"{"at":1.0,‸"prob":"P","ok":true}"#, r#"the unknown key "prob""#, INPUTS),
    (r#"{"at":1,"probe":"P","ok":true,‸"evaluate":"failover"}"#, r#""evaluate" beside "probe""#, "one input a line"),
    (r#"{"at":1,"evaluate":"failover",‸"assess":"failover"}"#, r#""assess" beside "evaluate""#, "one input a line"),
    (r#"{"at":1,"status":true,‸"resume":true}"#, r#""resume" beside "status""#, "one input a line"),
    // due, tick
    (r#"‸{"at":1,"due":"P"}"#, r#"no key "within" in this object"#, "one"),
    (r#"{"at":1,"due":"P","within":‸"0s"}"#, r#""within":"0s""#, "a duration above zero"),
    (r#"{"at":1,"due":"P","within":‸2}"#, r#""within":2"#, DURATION),
    (r#"{"at":1,"tick":‸1}"#, r#""tick":1"#, "true"),
    // Keys.
    (r#"{"at":1.0,‸"at":2.0,"status":true}"#, r#"the key "at" a second time"#, "each key once"),
    (r#"{"at":1.0,"status":true,‸"\u0061t":2.0}"#, r#"the key "at" a second time"#, "each key once"),
    (
        r#"{"at":1,"probe":"P","ok":false,‸"eror":"x"}"#,
        r#"the unknown key "eror""#,
        r#"only "at", "probe", "error", "panic", "ok""#,
    ),
    (r#"{"at":1,"status":true,‸"ok":true}"#, r#"the unknown key "ok""#, r#"only "at", "status""#),
    (r#"{"at":1,‸"ha\ud800lt":"x"}"#, r#""ha\ud800lt""#, "a key of Unicode characters"),
    (r#"{‸"config":{"endpoints":[]}}"#, r#"the key "config""#, "the configuration as the first line only"),
    ("{\"at\":1,\"status\":true}\n{‸\"restore\":{}}", r#"the key "restore""#, "it right after the configuration only"),
    (r#"{‸"restore":{}}"#, r#""restore" after configured endpoints"#, r#""endpoints":[] in the configuration"#),
    // probe
    (r#"‸{"at":1,"probe":"P"}"#, r#"no key "ok" in this object"#, "one"),
    (r#"{"at":1,"probe":‸null,"ok":true}"#, r#""probe":null"#, "a string"),
    (r#"{"at":1,"probe":"P","ok":‸null}"#, r#""ok":null"#, "true or false"),
    (r#"{"at":1,"probe":"P","ok":‸1}"#, r#""ok":1"#, "true or false"),
    (
        r#"{"at":1,"probe":"P","ok":true,‸"error":"x"}"#,
        r#""error" beside "ok":true"#,
        r#""error" only beside "ok":false"#,
    ),
    (r#"{"at":1,"probe":"P","ok":false,"error":‸null}"#, r#""error":null"#, "a string"),
    (
        r#"{"at":1,"probe":"P",‸"ok":false,"panic":"x"}"#,
        r#""panic" beside "ok" or "error""#,
        r#""panic" in their place"#,
    ),
    (
        r#"{"at":1,"probe":"P","panic":"x",‸"error":"y"}"#,
        r#""panic" beside "ok" or "error""#,
        r#""panic" in their place"#,
    ),
    (r#"{"at":1,"probe":"P","panic":‸true}"#, r#""panic":true"#, "a string"),
    // evaluate, assess, switchover
    (r#"{"at":1,"evaluate":‸"switchover"}"#, r#""evaluate":"switchover""#, r#""failover" or "failback""#),
    (r#"{"at":1,"evaluate":‸null}"#, r#""evaluate":null"#, r#""failover" or "failback""#),
    (r#"{"at":1,"assess":‸"nothing"}"#, r#""assess":"nothing""#, r#""failover", "failback" or "switchover""#),
    (r#"‸{"at":1,"assess":"switchover"}"#, r#"no key "target" in this object"#, "one"),
    (
        r#"{"at":1,"assess":"failover",‸"target":"B"}"#,
        r#"the unknown key "target""#,
        r#"only "at", "assess", "fence_confirmed", "fence_epoch""#,
    ),
    (r#"{"at":1,"switchover":‸1}"#, r#""switchover":1"#, "a string"),
    (
        r#"{"at":1,"evaluate":"failover",‸"fence_epoch":1,"fence_confirmed":true}"#,
        r#""fence_epoch" beside "fence_confirmed""#,
        "at most one of the two",
    ),
    (r#"{"at":1,"evaluate":"failback","fence_confirmed":‸1}"#, r#""fence_confirmed":1"#, "true or false"),
    (r#"{"at":1,"switchover":"B","fence_epoch":‸-1}"#, r#""fence_epoch":-1"#, EPOCH),
    (
        r#"{"at":1,"evaluate":"failover","fence_epoch":‸18446744073709551616}"#,
        r#""fence_epoch":18446744073709551616"#,
        EPOCH,
    ),
    (r#"{"at":1,"rearm":true,‸"fence_epoch":1}"#, r#"the unknown key "fence_epoch""#, r#"only "at", "rearm""#),
    // Reports, flags, restart, wall_step
    (r#"{"at":1,"fence_started":‸1.0}"#, r#""fence_started":1.0"#, EPOCH),
    (r#"{"at":1,"switch_failed":‸"1"}"#, r#""switch_failed":"1""#, EPOCH),
    (r#"{"at":1,"reconciled":‸true}"#, r#""reconciled":true"#, EPOCH),
    (r#"{"at":1,"rearm":‸false}"#, r#""rearm":false"#, "true"),
    (r#"{"at":1,"status":‸1}"#, r#""status":1"#, "true"),
    (r#"{"at":1,"resume":‸"true"}"#, r#""resume":"true""#, "true"),
    (r#"{"at":1,"validate":‸null}"#, r#""validate":null"#, "true"),
    (r#"{"at":1,"restart":‸false}"#, r#""restart":false"#, r#"true or "monitor""#),
    (r#"{"at":1,"restart":‸"gateway"}"#, r#""restart":"gateway""#, r#"true or "monitor""#),
    (r#"{"at":1,"wall_step":‸"1"}"#, r#""wall_step":"1""#, SIGNED_SECONDS),
    (r#"{"at":1,"wall_step":‸1e3}"#, r#""wall_step":1e3"#, SIGNED_SECONDS),
    // register, update, maintenance
    (r#"{"at":1,"register":‸"D"}"#, r#""register":"D""#, "a JSON object"),
    (r#"{"at":1,"register":‸{"name":"D","region":"r"}}"#, r#"no key "url" in this object"#, "one"),
    (
        r#"{"at":1,"register":{"name":"D","region":"r","url":"u",‸"maintenance":true}}"#,
        r#"the unknown key "maintenance""#,
        r#"only "name", "region", "url", "account", "primary", "priority", "trigger""#,
    ),
    (r#"{"at":1,"update":‸{"priority":1}}"#, r#"no key "name" in this object"#, "one"),
    (r#"{"at":1,"update":{"name":"B","priority":‸null}}"#, r#""priority":null"#, "an integer from 0 to 4294967295"),
    (r#"{"at":1,"update":{"name":"B","url":"u",‸"url":"v"}}"#, r#"the key "url" a second time"#, "each key once"),
    (r#"‸{"at":1,"maintenance":"B"}"#, r#"no key "on" in this object"#, "one"),
    (r#"{"at":1,"maintenance":"B","on":‸"yes"}"#, r#""on":"yes""#, "true or false"),
    // halt
    (r#"{"at":1,"halt":‸true}"#, r#""halt":true"#, r#"a reason in words, or {"code":...,"text":...}"#),
    (r#"{"at":1,"halt":‸{"code":"X"}}"#, r#"no key "text" in this object"#, "one"),
    (r#"{"at":1,"halt":{"code":"X","text":"x",‸"who":"me"}}"#, r#"the unknown key "who""#, r#"only "code", "text""#),
    (r#"{"at":1,"halt":{"code":‸"NO_TARGET_AVAILABLE","text":"x"}}"#, r#""code":"NO_TARGET_AVAILABLE""#, HALT_CODE),
    (r#"{"at":1,"halt":{"text":"x","code":‸" "}}"#, r#""code":" ""#, HALT_CODE),
    // Broken JSON.
    ("‸nonsense", "nonsense", "a JSON object"),
    ("‸ # a comment starts in the first column", " # a comment starts in the first column", "a JSON object"),
    (r#"‸[1]"#, "[1]", "a JSON object"),
    (r#"{"at":1,"status":true‸"#, "the end of the line", r#""}""#),
    (r#"{"at":1,"status":true}‸}"#, "'}'", "the end of the line"),
    (r#"{"at":1,"status":true}‸{"at":1,"status":true}"#, "'{'", "the end of the line"),
    (r#"{"at":1 ‸"status":true}"#, r#"'"'"#, r#""," or "}""#),
    (r#"{"at":1,‸,"status":true}"#, "','", "a key in quotation marks"),
    (r#"{"at":1,"status":true,‸}"#, "'}'", "another entry after the comma"),
    (r#"{"at":1,"status":‸}"#, "'}'", "a JSON value"),
    (r#"{"at":1,"status":tru‸}"#, "'}'", "a JSON value"),
    (r#"{"at":0‸1,"status":true}"#, "'1'", "a JSON number"),
    ("{\"at\":1,\"halt\":\"a tab: ‸\t\"}", r"'\t'", r"control characters as escapes, such as \t"),
    (r#"{"at":1,"halt":"\‸x"}"#, "'x'", r"an escape of JSON, such as \n or \u00e9"),
    (r#"{"at":1,"halt":‸"\ud800"}"#, r#""halt":"\ud800""#, "a string of Unicode characters"),
    (r#"{"at":1,"halt":"unclosed}‸"#, "the end of the line", "the closing quotation mark"),
    // Columns count characters, not bytes.
    (r#"{"at":1,"probe":"Zürich 日本","ok":‸1}"#, r#""ok":1"#, "true or false"),
];

#[test]
fn a_fault_of_the_configuration_is_named_with_its_place() {
    for (marked, found, expected) in FAULTS_OF_THE_CONFIGURATION {
        let ran = faulty(marked, found, expected);
        assert_eq!(ran.stdout, "", "{marked}");
    }
}

#[test]
fn a_fault_of_a_snapshot_is_named_with_its_place() {
    let whole = format!("{{\"config\":{{\"endpoints\":[]}}}}\n{SNAPSHOT}\n");
    assert_eq!(run(&["replay", "-"], &whole).status, 0);
    for (part, replacement, found, expected) in FAULTS_OF_A_SNAPSHOT {
        assert!(SNAPSHOT.contains(part), "{part}");
        let mut marked = whole.replacen(part, replacement, 1);
        if !marked.contains('‸') {
            // A missing key is missed at the end of its object.
            marked = marked.replace("}}\n", "‸}}\n").replacen("‸}}", "}}", 1);
        }
        faulty(&marked, found, expected);
    }
}

#[test]
fn a_fault_of_an_input_is_named_with_its_place_and_nothing_is_evaluated_from_there_on() {
    for (marked, found, expected) in FAULTS_OF_AN_INPUT {
        let rest = r#"{"at":9,"halt":"never reached"}"#;
        let ran = faulty(&format!("{CONFIG}\n{marked}\n{rest}\n"), found, expected);
        // Every line of the table but its last is taken.
        assert_eq!(ran.stdout.lines().count(), marked.lines().count() - 1, "{marked}");
        assert!(!ran.stdout.contains("never reached"), "{marked}");
    }
}

#[test]
fn a_misplaced_snapshot_and_the_key_beside_one_are_faults() {
    let empty = r#"{"config":{"endpoints":[]}}"#;
    faulty(&format!("{empty}\n{{\"restore\":{{}},‸\"at\":1}}"), r#"the unknown key "at""#, r#"only "restore""#);
    faulty(&format!("{empty}\n{{\"restore\":‸1}}"), r#""restore":1"#, "a JSON object");
    faulty(
        &format!("{empty}\n{SNAPSHOT}\n{}", SNAPSHOT.replacen('{', "{‸", 1)),
        r#"the key "restore""#,
        "it right after the configuration only",
    );
}

#[test]
fn the_lines_before_a_fault_are_printed() {
    for format in ["json", "text"] {
        let ran = run(&["replay", "--format", format, "-"], &scenario(&[TAKEN, REFUSED, FAULTY, TAKEN]));
        assert_eq!(ran.status, 2);
        assert!(ran.stdout.contains("HEALTHY") && ran.stdout.contains("NOT_HALTED"), "{}", ran.stdout);
        let head = usize::from(format == "text");
        assert_eq!(ran.stdout.lines().count(), 2 + head, "and no end: {}", ran.stdout);
    }
}

/// Replays the text without its mark, and wants a fault with exactly this message at the mark.
fn faulty(marked: &str, found: &str, expected: &str) -> Ran {
    let (before, after) = marked.split_once('‸').unwrap_or_else(|| panic!("no mark in {marked}"));
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let ran = run(&["replay", "-"], &format!("{before}{after}"));
    assert_fault(&ran, "standard input", &format!("line {line}, column {column}: found {found}; expected {expected}"));
    ran
}

#[test]
fn a_fault_names_the_file() {
    let path = file("faulty.jsonl", &scenario(&[TAKEN, FAULTY]));
    let ran = run(&["replay", &path], "");
    assert_fault(&ran, &path, "line 3, column 18: found \"resume\":false; expected true");
}
