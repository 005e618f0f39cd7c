//! What `check` refuses, and what it warns of.

use std::path::Path;

use broker_failover::supervisor::config::{Depth, Exclusivity, Identity, Severity, parse};

const EAST: &str = "probe = { http = { headers = { key = \"s3cret\" } } }";

/// A sound file of two https paths; `group` and `east` are further keys, `more` further tables.
fn file(group: &str, policy: &str, east: &str, more: &str) -> String {
    format!(
        "[supervisor]\nsocket = \"s\"\njournal = \"j\"\n[[group]]\nname = \"main\"\n{group}\n[group.policy]\n{policy}\n\
         [[group.endpoint]]\nname = \"east\"\nregion = \"r\"\nurl = \"https://127.0.0.1:1\"\nprimary = true\n{east}\n\
         [[group.endpoint]]\nname = \"west\"\nregion = \"r\"\nurl = \"https://127.0.0.1:2\"\npriority = 10\n{EAST}\n{more}"
    )
}

/// Keys and texts of the findings of a severity.
fn findings(text: &str, severity: Severity) -> Vec<String> {
    let checked = parse(text, Path::new("."));
    let of = checked.findings.iter().filter(|finding| finding.severity == severity);
    of.map(|finding| format!("{}: {}", finding.key, finding.found)).collect()
}

fn refused(text: &str, key: &str, found: &str) {
    let errors = findings(text, Severity::Error);
    let [error] = &errors[..] else { panic!("one error, not {errors:#?}\n{text}") };
    assert!(error.starts_with(key) && error.contains(found), "{error}\n{text}");
}

fn accepted(text: &str) -> broker_failover::supervisor::config::GroupConfig {
    let checked = parse(text, Path::new("."));
    let errors: Vec<_> = checked.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    checked.config.expect("a configuration").groups.remove(0)
}

#[test]
fn what_is_not_stated_is_the_strictest_and_warned_of() {
    let group = accepted(&file("", "", EAST, ""));
    assert_eq!((group.exclusivity, group.required_depth), (Exclusivity::Unknown, Depth::Reachable));
    let warnings = findings(&file("", "", EAST, ""), Severity::Warning).join("\n");
    assert!(warnings.contains("group[0].exclusivity: not stated") && warnings.contains("required_depth: not stated"));
    let stated = file("exclusivity = \"unknown\"\nrequired_depth = \"reachable\"", "", EAST, "");
    let warnings = findings(&stated, Severity::Warning).join("\n");
    assert!(!warnings.contains("not stated"), "{warnings}");
}

#[test]
fn a_path_whose_probes_cannot_prove_the_required_depth_is_refused() {
    let deep = "required_depth = \"authenticated\"";
    let shallow = file(deep, "", EAST, "");
    assert_eq!(
        findings(&shallow, Severity::Error).len(),
        2,
        "both endpoints: a credential alone proves nothing unsaid"
    );
    let proves = EAST.replace("headers", "proves = \"authenticated\", headers");
    let both = shallow.replace(EAST, &proves);
    let group = accepted(&both);
    assert!(group.endpoints.iter().all(|one| one.provable() == Depth::Authenticated));
}

/// The same file, with this probe and the scheme that it speaks.
fn over(probe: &str) -> String {
    let scheme = ["websocket", "fix"].into_iter().find(|kind| probe.contains(&format!("{kind} =")));
    let scheme = match scheme {
        Some("websocket") => "wss",
        Some(kind) => kind,
        None => "https",
    };
    file("", "", probe, "").replace("https://127.0.0.1:1", &format!("{scheme}://127.0.0.1:1"))
}

/// A fix probe with one key more.
fn fix(more: &str) -> String {
    format!(
        "probe = {{ fix = {{ version = \"FIX.4.4\", sender_comp_id = \"A\", target_comp_id = \"B\", \
         reset_on_logon = \"always\", sequence_file = \"numbers\", {more} }} }}"
    )
}

#[test]
fn no_probe_may_state_more_than_it_can_prove() {
    for (probe, found) in [
        ("probe = { tcp = { proves = \"authenticated\" } }", "it asks nobody who we are"),
        ("probe = { tls = { proves = \"order-path\" } }", "it asks nobody who we are"),
        ("probe = { http = { proves = \"authenticated\" } }", "it carries no credential"),
        ("probe = { http = { proves = \"order-path\", headers = { key = \"k\" } } }", "it only reads"),
        ("probe = { websocket = { proves = \"authenticated\" } }", "it carries no credential"),
        ("probe = { websocket = { proves = \"order-path\" } }", "it carries no credential"),
        ("probe = { websocket = { proves = \"order-path\", headers = { key = \"k\" } } }", "it only reads"),
        (
            "probe = { websocket = { proves = \"order-path\", subscribe = \"s\", expect_message = \"m\" } }",
            "it only reads",
        ),
        // It proves what it proves, and states nothing.
        (&fix("proves = \"authenticated\""), "an unknown key"),
        (&fix("proves = \"order-path\""), "an unknown key"),
    ] {
        refused(&over(probe), "group[0].endpoint[0].probe.", found);
    }
    let provable = |probe: &str| accepted(&over(probe)).endpoints[0].provable();
    for probe in ["headers = { key = \"k\" }", "subscribe = \"s\", expect_message = \"m\""] {
        let probe = format!("probe = {{ websocket = {{ proves = \"authenticated\", {probe} }} }}");
        assert_eq!(provable(&probe), Depth::Authenticated, "{probe}");
    }
    assert_eq!(provable(&fix("relogon_wait = \"5s\"")), Depth::Authenticated, "an accepted Logon, and no order");
    // Only an ack shows more, report by report.
    assert_eq!(provable("probe = { report = {} }"), Depth::OrderPath);
    let several = "probe = [{ tcp = {} }, { http = { proves = \"authenticated\", headers = { key = \"k\" } } }]";
    assert_eq!(provable(several), Depth::Authenticated, "the deepest of several");
    let posts = "probe = { http = { proves = \"order-path\", method = \"POST\", headers = { key = \"k\" } } }";
    assert_eq!(accepted(&file("", "", posts, "")).endpoints[0].provable(), Depth::OrderPath);
    let runs = "probe = { exec = { command = [\"true\"], proves = \"order-path\" } }";
    assert_eq!(accepted(&file("", "", runs, "")).endpoints[0].provable(), Depth::OrderPath);
    let user =
        file("", "", "probe = { http = { proves = \"authenticated\" } }", "").replace("127.0.0.1:1", "u:p@127.0.0.1:1");
    assert_eq!(accepted(&user).endpoints[0].provable(), Depth::Authenticated);
    let user = over("probe = { websocket = { proves = \"authenticated\" } }").replace("127.0.0.1:1", "u:p@127.0.0.1:1");
    let east = &accepted(&user).endpoints[0];
    assert_eq!((east.provable(), east.credentials().collect::<Vec<_>>()), (Depth::Authenticated, vec!["own"]));
}

#[test]
fn b12_no_probe_logs_on_with_the_identity_that_trades_on_an_exclusive_broker() {
    let trading = EAST.replace("headers", "identity = \"trading\", headers");
    for exclusivity in ["unknown", "last-login-wins", "oldest-evicted", "refused-until-aged", "venue-arbitrated"] {
        let text = file(&format!("exclusivity = \"{exclusivity}\""), "", &trading, "");
        refused(&text, "group[0].endpoint[0].probe", "logs on with the identity that trades");
    }
    refused(&file("", "", &trading, ""), "group[0].endpoint[0].probe", "exclusivity is unknown");
    let dual = accepted(&file("exclusivity = \"dual-live\"", "", &trading, ""));
    assert_eq!(dual.endpoints[0].probes[0].terms.identity, Identity::Trading);
    let own = EAST.replace("headers", "identity = \"own\", headers");
    assert_eq!(accepted(&file("", "", &own, "")).endpoints[0].credentials().collect::<Vec<_>>(), ["own"]);
}

#[test]
fn a_fence_may_be_left_out_only_where_the_broker_fences_by_itself() {
    for (exclusivity, legal) in [
        ("last-login-wins", true),
        ("refused-until-aged", true),
        ("venue-arbitrated", true),
        ("oldest-evicted", false),
        ("dual-live", false),
        ("unknown", false),
    ] {
        let text = file(&format!("exclusivity = \"{exclusivity}\""), "require_fence = false", EAST, "");
        if legal {
            accepted(&text);
        } else {
            refused(&text, "group[0].policy.require_fence", &format!("where exclusivity is {exclusivity}"));
        }
    }
}

#[test]
fn b01_a_bare_tcp_probe_is_refused_as_the_proof_of_a_fix_path() {
    let fix = |probe: &str| file("", "", probe, "").replace("https://127.0.0.1:1", "fix://127.0.0.1:1");
    refused(&fix("probe = { tcp = {} }"), "group[0].endpoint[0].probe", "a bare TCP probe as the proof of a FIX path");
    let exec = "{ exec = { command = [\"true\"] } }";
    let any = fix(&format!("probe = [{{ tcp = {{}} }}, {exec}]\nrequire = \"any\""));
    refused(&any, "group[0].endpoint[0].probe", "a bare TCP probe");
    accepted(&fix(&format!("probe = [{{ tcp = {{}} }}, {exec}]")));
    accepted(&fix(&format!("probe = {exec}")));
}

#[test]
fn a_pointer_to_the_account_is_one_and_has_something_to_be_compared_with() {
    let reads = |account: &str, pointer: &str| {
        file("", "", &format!("{account}\nprobe = {{ http = {{ account_pointer = \"{pointer}\" }} }}"), "")
    };
    let key = "group[0].endpoint[0].probe.http.account_pointer";
    accepted(&reads("account = \"U1\"", "/account/id"));
    accepted(&reads("account = \"U1\"", "/a~1b~0c/0"));
    refused(&reads("account = \"U1\"", "account"), key, "\"account\"");
    refused(&reads("account = \"U1\"", "/a~2"), key, "a~2");
    refused(&reads("", "/account/id"), key, "none to compare it with");
}

#[test]
fn an_account_that_no_probe_reads_is_warned_of() {
    let warnings = |east: &str, url: &str| {
        let text = file("", "", east, "").replace("https://127.0.0.1:1", url);
        accepted(&text);
        let all = findings(&text, Severity::Warning);
        all.into_iter().filter(|one| one.contains("nothing will ever compare it")).collect::<Vec<_>>()
    };
    let (https, fix) = ("https://127.0.0.1:1", "fix://127.0.0.1:1");
    let reads = "{ http = { account_pointer = \"/id\" } }";
    let logs_on = |tag: &str| {
        format!(
            "{{ fix = {{ version = \"FIX.4.4\", sender_comp_id = \"A\", target_comp_id = \"B\", \
             reset_on_logon = \"always\", sequence_file = \"numbers\"{tag} }} }}"
        )
    };
    let exec = "{ exec = { command = [\"true\"] } }";
    for probe in ["{ tcp = {} }", "{ tls = {} }", "{ http = {} }", exec] {
        let east = format!("account = \"U1\"\nprobe = {probe}");
        let [warning] = &warnings(&east, https)[..] else { panic!("{probe}") };
        assert!(warning.starts_with("group[0].endpoint[0].account: stated"), "{warning}");
        assert_eq!(warnings(&format!("probe = {probe}"), https), [""; 0], "no account is stated");
    }
    assert_eq!(warnings(&format!("account = \"U1\"\nprobe = {}", logs_on("")), fix).len(), 1);
    assert_eq!(warnings(&format!("account = \"U1\"\nprobe = {}", logs_on(", account_tag = 1")), fix), [""; 0]);
    // One that reads it is enough.
    assert_eq!(warnings(&format!("account = \"U1\"\nprobe = [{exec}, {reads}]"), https), [""; 0]);
}

#[test]
fn b14_a_configuration_over_its_budget_is_refused_the_failing_pace_included() {
    let charged = EAST.replace("headers", "budget = \"address\", headers");
    let budget = |most: u64| format!("[[budget]]\nname = \"address\"\nrequests = {most}\nper = \"10s\"\n");
    // 250 ms while failing, which is a quarter of the interval: 40 in 10 s.
    accepted(&file("", "", &charged, &budget(40)));
    refused(&file("", "", &charged, &budget(39)), "budget[0].requests", "may ask 40 times");
    let both = file("", "", &charged, &budget(79)).replace(EAST, &charged);
    refused(&both, "budget[0].requests", "may ask 80 times");
    accepted(&both.replace("79", "80"));
    refused(&file("", "", &charged, ""), "group[0].endpoint[0].budget", "\"address\" is no budget");
    // By endpoint, and logons apart.
    let logs_on = format!("budget = \"address\"\n{}", EAST.replace("headers", "identity = \"own\", headers"));
    let logons = "[[budget]]\nname = \"address\"\nlogons = 39\nper = \"10s\"\n";
    refused(&file("", "", &logs_on, logons), "budget[0].logons", "may ask 40 times");
    accepted(&file("", "", &format!("budget = \"address\"\n{EAST}"), logons));
    let empty = "[[budget]]\nname = \"address\"\nper = \"10s\"\n";
    refused(&file("", "", EAST, empty), "budget[0]", "neither requests nor logons");
    refused(&file("", "", EAST, &budget(1).replace("10s", "0s")), "budget[0].per", "zero");
    refused(&file("", "", EAST, &format!("{}{}", budget(1), budget(1))), "budget[1].name", "taken");
}

#[test]
fn b14_a_watch_may_cost_its_confirming_probes_and_its_openings_and_they_are_counted() {
    let budget =
        |key: &str, most: u64, per: &str| format!("[[budget]]\nname = \"key\"\n{key} = {most}\nper = \"{per}\"\n");
    let bound = |east: &str, key: &str, per: &str, most: u64| {
        let text = |most| over(east) + &budget(key, most, per);
        accepted(&text(most));
        refused(&text(most - 1), &format!("budget[0].{key}"), &format!("may ask {most} times"));
    };
    let probe = "probe = { http = { budget = \"key\", identity = \"own\", headers = { key = \"k\" } } }";
    // 40 failing slots in 10 s, and 6 bursts of 3 in any minute. What is not charged to it costs nothing.
    bound(&format!("{probe}\nwatch = {{ tcp = {{}} }}"), "requests", "10s", 40 + 18);
    bound(&format!("{probe}\nwatch = {{ tcp = {{}} }}"), "logons", "10s", 40 + 18);
    bound(&format!("{probe}\nwatch = {{ tcp = {{}} }}"), "requests", "61s", 244 + 36);
    let one = "\ntrigger = { window = \"2s\" }";
    bound(&format!("{probe}\nwatch = {{ tcp = {{}} }}{one}"), "requests", "10s", 40 + 6);
    // Refused at once it is opened after 0, 0.25, 0.75, 1.75, 3.75 and 7.75 s.
    bound(&format!("{probe}\nwatch = {{ tcp = {{ budget = \"key\" }} }}"), "requests", "10s", 40 + 18 + 6);
    bound(&format!("budget = \"key\"\n{probe}\nwatch = {{ tls = {{}} }}"), "requests", "10s", 40 + 18 + 6);
    bound(&format!("budget = \"key\"\n{probe}\nwatch = {{ tls = {{}} }}"), "logons", "10s", 40 + 18);
    // Charged by itself.
    let only = "probe = { tcp = {} }\nwatch = { tcp = { budget = \"key\" } }";
    bound(only, "requests", "30s", 18);
    refused(&over(only), "group[0].endpoint[0].budget", "\"key\" is no budget");
    let logs_on =
        |keys: &str| format!("probe = {{ websocket = {{}} }}\nwatch = {{ websocket = {{ {keys}budget = \"key\" }} }}");
    bound(&logs_on("headers = { key = \"k\" }, "), "logons", "10s", 6);
    accepted(&(over(&logs_on("")) + &budget("logons", 1, "10s")));
}
