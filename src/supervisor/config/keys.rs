//! Every key of the configuration file, once: what it takes, its default, what it means. Reading, the JSON Schema and
//! `check --print-effective` all follow this table.

/// A table of the file.
pub(super) struct Shape {
    pub(super) about: &'static str,
    pub(super) keys: &'static [Key],
}

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) presence: Presence,
    pub(super) about: &'static str,
}

/// Whether a key must be there.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    Required,
    Optional,
    /// TOML text of the value that it has when absent.
    Default(&'static str),
}

/// What a key takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A text that is never shown.
    Secret,
    Flag,
    Integer {
        least: u64,
        most: u64,
    },
    /// A string such as "250ms"; a bare number is never a duration.
    Duration,
    /// A number from 0 to 1.
    Share,
    Texts,
    /// Integers, none negative.
    Integers,
    /// HTTP status codes.
    Statuses,
    Choice(&'static [&'static str]),
    Table(&'static Shape),
    /// An array of tables.
    Tables(&'static Shape),
    /// A table, or an array of them.
    OneOrMore(&'static Shape),
    /// A table of texts with free keys.
    TextMap,
}

const U32: u64 = u32::MAX as u64;

pub(super) const fn key(name: &'static str, kind: Kind, presence: Presence, about: &'static str) -> Key {
    Key { name, kind, presence, about }
}

use Kind::{
    Choice, Duration, Flag, Integer, Integers, OneOrMore, Secret, Share, Statuses, Table, Tables, Text, TextMap, Texts,
};
use Presence::{Default, Optional, Required};

pub(super) static FILE: Shape = Shape {
    about: "Configuration of the broker-failover supervisor",
    keys: &[
        key("supervisor", Table(&SUPERVISOR), Required, "The supervisor itself"),
        key("group", Tables(&GROUP), Required, "One broker account each"),
        key(
            "budget",
            Tables(&BUDGET),
            Default("[]"),
            "What probes and held sessions may ask of one credential or address, in all",
        ),
    ],
};

static SUPERVISOR: Shape = Shape {
    about: "The supervisor itself",
    keys: &[
        key("listen", Text, Optional, "Address of the read-only HTTP server (status, metrics); off if absent"),
        key("socket", Text, Required, "Path of the local control socket"),
        key(
            "report_socket",
            Text,
            Optional,
            "Path of a local socket on which gateways may report and do nothing else; off if absent. They may report to \
             socket, too, as its users",
        ),
        key(
            "report_users",
            Texts,
            Default("[]"),
            "Users, by name or number, that may report to report_socket besides the supervisor's own and root",
        ),
        key("journal", Text, Required, "Folder of the journal"),
        key(
            "segment_size",
            Integer { least: 65_536, most: 1 << 40 },
            Default("16777216"),
            "Bytes at which a journal segment is closed",
        ),
        key("keep_for", Duration, Default("\"90d\""), "Age at which closed segments may go"),
        key(
            "keep_size",
            Integer { least: 1 << 20, most: 1 << 50 },
            Default("1073741824"),
            "Bytes above which the oldest closed segments may go",
        ),
    ],
};

static BUDGET: Shape = Shape {
    about: "What the probes and held sessions that name it may ask in all, whatever the number of paths that share it",
    keys: &[
        key("name", Text, Required, "Unique name"),
        key("requests", Integer { least: 1, most: 100_000 }, Optional, "The most requests in any span of per"),
        key("logons", Integer { least: 1, most: 100_000 }, Optional, "The most logons in any span of per"),
        key("per", Duration, Required, "The span"),
    ],
};

static GROUP: Shape = Shape {
    about: "One broker account",
    keys: &[
        key("name", Text, Required, "Unique name"),
        key(
            "rto",
            Duration,
            Optional,
            "From a fault until orders flow again, at worst; settings that cannot meet it are refused",
        ),
        key(
            "exclusivity",
            Choice(&[
                "last-login-wins",
                "oldest-evicted",
                "refused-until-aged",
                "venue-arbitrated",
                "dual-live",
                "unknown",
            ]),
            Default("\"unknown\""),
            "What the broker does with a second session of one identity; unknown is read as the strictest of each",
        ),
        key(
            "required_depth",
            Choice(&["reachable", "authenticated", "order-path"]),
            Default("\"reachable\""),
            "What must have been proved of a path within max_health_age for it to be a target",
        ),
        key(
            "follow_within",
            Duration,
            Default("\"2s\""),
            "A gateway that still reports so long after a switch was carried out that it sends on the path that was left \
             halts the group, TWO_LIVE_PATHS",
        ),
        key(
            "feed",
            Text,
            Optional,
            "File of 64 bytes that tells gateways what they may do, best in memory (/run, /dev/shm); none if absent",
        ),
        key(
            "feed_valid_for",
            Duration,
            Optional,
            "How long the feed holds unless the decision loop beats again; default: the worst detection time of the \
             group's paths, at least 2s, at most 30s",
        ),
        key(
            "feed_when_stale",
            Choice(&["hold", "keep"]),
            Default("\"hold\""),
            "What gateways do once the feed holds no more: nothing new, or go on with what it said last",
        ),
        key("policy", Table(&POLICY), Default("{}"), "When to move"),
        key(
            "shadow",
            Table(&SHADOW),
            Optional,
            "A policy that is only tried out: it sees what policy sees, moves nothing, and where it would have done \
             otherwise is reported",
        ),
        key("probing", Table(&PROBING), Default("{}"), "How often to probe"),
        key("endpoint", Tables(&ENDPOINT), Required, "The paths to the account"),
        key("failback", Table(&FAILBACK), Default("{}"), "How to return to the primary"),
        key("hooks", Table(&HOOKS), Default("{}"), "What carries decisions out"),
    ],
};

static POLICY: Shape = Shape { about: "When to move", keys: &POLICY_KEYS };

static SHADOW: Shape =
    Shape { about: "A policy that is only tried out; a key that is left out is as in policy", keys: &SHADOW_KEYS };

static SHADOW_KEYS: [Key; POLICY_KEYS.len()] = optional(POLICY_KEYS);

/// The same keys, none of which has a default of its own.
const fn optional<const KEYS: usize>(mut keys: [Key; KEYS]) -> [Key; KEYS] {
    let mut index = 0;
    while index < KEYS {
        keys[index].presence = Optional;
        index += 1;
    }
    keys
}

const POLICY_KEYS: [Key; 14] = [
    key(
        "failure_threshold",
        Integer { least: 1, most: U32 },
        Default("3"),
        "Consecutive failures that make an endpoint DOWN, unless trigger says otherwise",
    ),
    key(
        "trigger",
        Table(&TRIGGER),
        Optional,
        "What makes an endpoint DOWN; default: as many consecutive failures as failure_threshold",
    ),
    key(
        "minimum_history",
        Integer { least: 1, most: U32 },
        Optional,
        "Results before a trigger can fire, after a start, a restart or a changed address; default, and least: what \
         the trigger needs",
    ),
    key(
        "silence",
        Choice(&["note", "failure"]),
        Default("\"note\""),
        "What a result that was due and did not come counts for, if the monitor was alive. In the supervisor: what a \
         report probe makes of a gateway that stopped reporting; every other slot has a result",
    ),
    key(
        "cooldown",
        Duration,
        Default("\"60s\""),
        "Least time between the last switch and a failback; never delays a failover",
    ),
    key(
        "cooldown_max",
        Duration,
        Optional,
        "The most that the cooldown grows to: each failback inside failback_window doubles it; default: it does not \
         grow",
    ),
    key("max_health_age", Duration, Default("\"30s\""), "Age up to which a result is evidence of health"),
    key(
        "failback_success_threshold",
        Integer { least: 1, most: U32 },
        Default("3"),
        "Consecutive successes of the primary before a failback",
    ),
    key("require_fence", Flag, Default("true"), "Whether the path that is left must be fenced first"),
    key(
        "max_failbacks_per_window",
        Integer { least: 1, most: U32 },
        Default("3"),
        "Failbacks allowed inside failback_window",
    ),
    key("failback_window", Duration, Default("\"1h\""), "Span in which failbacks are counted"),
    key(
        "require_reconciliation",
        Flag,
        Default("true"),
        "Whether flow stays held after a switch until orders in flight are settled",
    ),
    key(
        "resume_after_halt",
        Choice(&["reconcile", "operator"]),
        Default("\"reconcile\""),
        "What ends a halt for want of a target",
    ),
    key("history_limit", Integer { least: 0, most: U32 }, Default("256"), "Switches kept in memory"),
];

static TRIGGER: Shape = Shape {
    about: "What makes an endpoint DOWN: consecutive alone, window alone, or failures with of",
    keys: &[
        key("consecutive", Integer { least: 1, most: U32 }, Optional, "So many failures in a row"),
        key("window", Duration, Optional, "Nothing but failures for so long"),
        key("failures", Integer { least: 1, most: 64 }, Optional, "So many failures among the last of results"),
        key("of", Integer { least: 1, most: 64 }, Optional, "How many results failures looks at"),
    ],
};

static PROBING: Shape = Shape {
    about: "How often to probe",
    keys: &[
        key("interval", Duration, Default("\"1s\""), "Time between slots of every endpoint, active or not"),
        key(
            "interval_when_failing",
            Duration,
            Optional,
            "The same after a failure, or while an answer is overdue; default: a quarter of interval",
        ),
        key("timeout", Duration, Default("\"800ms\""), "Hard limit: resolve, connect, TLS, logon and answer together"),
        key("jitter", Share, Default("0.1"), "Share of the interval by which groups are spread"),
        key(
            "no_evidence_alarm",
            Duration,
            Optional,
            "Silence on the active path that is loud; default: max_health_age",
        ),
    ],
};

static ENDPOINT: Shape = Shape {
    about: "One path to the account",
    keys: &[
        key("name", Text, Required, "Unique name within the group"),
        key("region", Text, Required, "Where it is"),
        key("url", Text, Required, "Its address: https, http, tls, tcp, fix, fixs (FIX over TLS), wss or ws"),
        key("account", Text, Optional, "The account that it fronts"),
        key("primary", Flag, Default("false"), "Whether it is the preferred path; exactly one is"),
        key(
            "priority",
            Integer { least: 0, most: U32 },
            Optional,
            "Lower is preferred; default: 0 for the primary, 100 for a backup",
        ),
        key("trigger", Table(&TRIGGER), Optional, "What makes this path DOWN; default: what the policy says"),
        key("probe", OneOrMore(&PROBE), Required, "What proves that it works"),
        key("require", Choice(&["all", "any"]), Default("\"all\""), "Whether all probes must succeed, or any one"),
        key("budget", Text, Optional, "The budget of its probes, and of its held session, that name none"),
        key("watch", Table(&WATCH), Optional, "A session held open beside the probes, whose end fires probes at once"),
        key("shared_fate", Texts, Default("[]"), "Keys of what it shares with other paths (quota, address, uplink)"),
        key(
            "cancel_on_disconnect",
            Choice(&["unknown", "none", "session", "account"]),
            Default("\"unknown\""),
            "What the broker does to resting orders when this path disconnects",
        ),
    ],
};

static PROBE: Shape = Shape {
    about: "One probe: exactly one of these",
    keys: &[
        key("tcp", Table(&TCP), Optional, "Connect; proves only that something accepts"),
        key("tls", Table(&TLS), Optional, "Connect and complete a TLS handshake, checking the certificate"),
        key("http", Table(&HTTP), Optional, "One HTTP request on a fresh connection; TLS if the url says https"),
        key(
            "websocket",
            Table(&WEBSOCKET),
            Optional,
            "One WebSocket handshake on a fresh connection, then a ping or a subscription; TLS if the url says wss",
        ),
        key("exec", Table(&EXEC), Optional, "Run a program; exit status 0 is a success"),
        key("fix", Table(&FIX), Optional, "Hold a FIX session of its own, and ask it for a sign of life"),
        key("report", Table(&REPORT), Optional, "What the gateway itself reports of its session and of its own orders"),
    ],
};

const SLOW_AFTER: Key = key("slow_after", Duration, Optional, "An answer that takes as long counts as a failure");
const PROVES: Key = key(
    "proves",
    Choice(&["reachable", "authenticated", "order-path"]),
    Optional,
    "The depth of a success, where the kind can prove more than the default; default: reachable",
);
const IDENTITY: Key = key(
    "identity",
    Choice(&["none", "own", "trading"]),
    Optional,
    "Whose session it opens: its own, or the one that trades; none: it does not log on",
);
const CREDENTIAL: Key = key(
    "credential",
    Text,
    Optional,
    "The login that it uses, by a name; after two refused logons nobody uses it until clear-logons; default: identity",
);
const BUDGET_NAME: Key = key("budget", Text, Optional, "The [[budget]] that its requests are charged to");
const HELD_BUDGET_NAME: Key = key("budget", Text, Optional, "The [[budget]] that each opening of it is charged to");
const CA_FILE: Key = key("ca_file", Text, Optional, "PEM file of the authorities to trust instead of the system's");
const SERVER_NAME: Key = key("server_name", Text, Optional, "Name to send and check, if not the url's host");

static TCP: Shape = Shape { about: "Connect", keys: &[PROVES, BUDGET_NAME, SLOW_AFTER] };

static TLS: Shape = Shape { about: "TLS handshake", keys: &[CA_FILE, SERVER_NAME, PROVES, BUDGET_NAME, SLOW_AFTER] };

const PATH: Key = key("path", Text, Default("\"/\""), "Path and query");
const HEADERS: Key = key("headers", TextMap, Default("{}"), "Extra headers; their values are never logged");
const SUBPROTOCOL: Key = key("subprotocol", Text, Optional, "Subprotocol to ask for, which the far side must choose");
const COMPETING_SESSION_STATUS: Key = key(
    "competing_session_status",
    Statuses,
    Default("[]"),
    "Statuses that say that another session holds our login: no evidence about the path",
);

static HTTP: Shape = Shape {
    about: "HTTP request",
    keys: &[
        PATH,
        key("method", Choice(&["GET", "HEAD", "POST", "OPTIONS"]), Default("\"GET\""), "Method"),
        HEADERS,
        key("expect_status", Statuses, Default("[200]"), "Statuses that are a success"),
        key("expect_body", Text, Optional, "Text that the body must contain"),
        key(
            "account_pointer",
            Text,
            Optional,
            "JSON pointer (RFC 6901) to the account in the body, such as \"/account/id\": another one than account is a fault",
        ),
        COMPETING_SESSION_STATUS,
        CA_FILE,
        SERVER_NAME,
        PROVES,
        IDENTITY,
        CREDENTIAL,
        BUDGET_NAME,
        SLOW_AFTER,
    ],
};

static WEBSOCKET: Shape = Shape {
    about: "WebSocket handshake and a message",
    keys: &[
        PATH,
        HEADERS,
        SUBPROTOCOL,
        key("subscribe", Secret, Optional, "Text message sent after the handshake; never logged"),
        key(
            "expect_message",
            Text,
            Optional,
            "Text that a message must contain; without it a ping is sent, and its pong must come",
        ),
        COMPETING_SESSION_STATUS,
        CA_FILE,
        SERVER_NAME,
        PROVES,
        IDENTITY,
        CREDENTIAL,
        BUDGET_NAME,
        SLOW_AFTER,
    ],
};

static WATCH: Shape = Shape {
    about: "A session held open, never with the identity that trades: exactly one of tcp, tls, websocket",
    keys: &[
        key("tcp", Table(&HELD_TCP), Optional, "Hold a connection"),
        key("tls", Table(&HELD_TLS), Optional, "Hold a connection with TLS"),
        key("websocket", Table(&HELD_WEBSOCKET), Optional, "Hold a WebSocket session; TLS if the url says wss"),
        key(
            "confirm_spacing",
            Duration,
            Optional,
            "Between two of the probes that its end fires, from 100us to interval_when_failing; default: 10ms, or \
             interval_when_failing if that is shorter",
        ),
        key(
            "ping_interval",
            Duration,
            Default("\"5s\""),
            "Without traffic for so long, the far side is asked for a sign of life; from 100ms to 1h, and for tcp and tls \
             in whole seconds, rounded up",
        ),
    ],
};

static HELD_TCP: Shape = Shape { about: "Held connection", keys: &[HELD_BUDGET_NAME] };

static HELD_TLS: Shape = Shape { about: "Held connection with TLS", keys: &[CA_FILE, SERVER_NAME, HELD_BUDGET_NAME] };

static HELD_WEBSOCKET: Shape = Shape {
    about: "Held WebSocket session",
    keys: &[
        PATH,
        HEADERS,
        SUBPROTOCOL,
        key("subscribe", Secret, Optional, "Text message sent after the handshake; never logged"),
        CA_FILE,
        SERVER_NAME,
        CREDENTIAL,
        HELD_BUDGET_NAME,
    ],
};

static EXEC: Shape = Shape {
    about: "Program",
    keys: &[
        key("command", Texts, Required, "Program and arguments; no shell"),
        key(
            "competing_session_exit",
            Integer { least: 1, most: 255 },
            Optional,
            "Exit status that says that another session holds our login: no evidence about the path",
        ),
        key(
            "logon_refused_exit",
            Integer { least: 1, most: 255 },
            Optional,
            "Exit status that says that our credential was not accepted",
        ),
        PROVES,
        IDENTITY,
        CREDENTIAL,
        BUDGET_NAME,
        SLOW_AFTER,
    ],
};

static FIX: Shape = Shape {
    about: "FIX session, on an identity that does not trade; TLS if the url says fixs",
    keys: &[
        key("version", Choice(&["FIX.4.2", "FIX.4.4", "FIXT.1.1"]), Required, "BeginString (8)"),
        key("sender_comp_id", Text, Required, "SenderCompID (49): never the one that trades"),
        key("sender_sub_id", Text, Optional, "SenderSubID (50)"),
        key("target_comp_id", Text, Required, "TargetCompID (56)"),
        key("target_sub_id", Text, Optional, "TargetSubID (57)"),
        key("username", Text, Optional, "Username (553)"),
        key("password", Secret, Optional, "Password (554); better in password_file or password_env"),
        key("password_file", Text, Optional, "File whose first line is the password, read for each Logon"),
        key("password_env", Text, Optional, "Variable of the environment that holds the password"),
        key("heart_beat_interval", Duration, Default("\"30s\""), "HeartBtInt (108): whole seconds, 1 s to 1 h"),
        key(
            "reset_on_logon",
            Choice(&["always", "never"]),
            Required,
            "always: each Logon begins at 1 (ResetSeqNumFlag = Y); never: the numbers of sequence_file go on",
        ),
        key(
            "default_appl_ver_id",
            Text,
            Optional,
            "DefaultApplVerID (1137), such as \"9\"; for FIXT.1.1 only, and needed there",
        ),
        key(
            "logon_fields",
            TextMap,
            Default("{}"),
            "Further fields of the Logon, by tag; their values are never logged",
        ),
        key("sequence_file", Text, Required, "File that keeps the session's numbers; one for each session"),
        key(
            "relogon_wait",
            Duration,
            Default("\"5s\""),
            "The first wait after a Logon that was refused, or the third in a row that failed otherwise; it doubles",
        ),
        key("relogon_wait_max", Duration, Default("\"1m\""), "The longest of these waits"),
        key(
            "account_tag",
            Integer { least: 1, most: U32 },
            Optional,
            "Tag of the field in the Logon's answer that names the account",
        ),
        key(
            "competing_session_text",
            Texts,
            Default("[]"),
            "Parts of a Logout's text that say that another session holds our identity: no evidence about the path",
        ),
        key("competing_session_status", Integers, Default("[]"), "SessionStatus (1409) values that say the same"),
        CA_FILE,
        SERVER_NAME,
        SLOW_AFTER,
    ],
};

static REPORT: Shape = Shape {
    about: "A gateway's reports",
    keys: &[
        key("max_silence", Duration, Optional, "No report for longer is silence; default, and least: 2 x interval"),
        key(
            "max_heartbeat_age",
            Duration,
            Default("\"60s\""),
            "A session on which nothing has come in for longer is a fault of the path",
        ),
        key(
            "min_answers",
            Integer { least: 0, most: U32 },
            Default("0"),
            "Answers to orders (acks and rejects) since the last slot without which there is no success",
        ),
        key(
            "unknown_share",
            Share,
            Default("0.5"),
            "Share of orders without an answer from which on the path is at fault",
        ),
        SLOW_AFTER,
    ],
};

static FAILBACK: Shape = Shape {
    about: "How to return to the primary",
    keys: &[key(
        "mode",
        Choice(&["automatic", "manual"]),
        Default("\"automatic\""),
        "manual: report that it is possible, let a person do it",
    )],
};

static HOOKS: Shape = Shape {
    about: "What carries decisions out; a list is tried in order",
    keys: &[
        key(
            "fence",
            OneOrMore(&HOOK),
            Default("[]"),
            "Makes a path unable to submit orders; without one only a person can confirm a fence",
        ),
        key(
            "switch",
            OneOrMore(&HOOK),
            Default("[]"),
            "Moves the transport to a path under its epoch, undoing an older fence of it",
        ),
        key(
            "reconcile",
            OneOrMore(&HOOK),
            Default("[]"),
            "Settles orders in flight; answers {\"resting\":N,\"filled\":N,\"unknown\":N}",
        ),
        key("halt", OneOrMore(&HOOK), Default("[]"), "Halts trading"),
        key(
            "flow",
            OneOrMore(&HOOK),
            Default("[]"),
            "Told every change of order flow; its answer to a freeze is awaited before the fence",
        ),
        key("max_hold", Duration, Default("\"5m\""), "A hold that lasts longer becomes a halt with code HOLD_EXPIRED"),
    ],
};

static HOOK: Shape = Shape {
    about: "A program or a webhook; exactly one of command and webhook",
    keys: &[
        key("command", Texts, Optional, "Program and arguments; no shell. Exit status 0 is success"),
        key("webhook", Text, Optional, "http:// address that is sent a POST; a 2xx answer is success"),
        key("timeout", Duration, Required, "Deadline; its process group is killed then"),
        key("idempotent", Flag, Default("false"), "Whether it may be repeated when it is not known whether it ran"),
        key("proves", Text, Optional, "For a fence: what it proves, such as \"session closed\""),
        key("holds", Duration, Optional, "For a fence: how long that holds; default: until undone"),
    ],
};
