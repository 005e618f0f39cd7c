//! `check --probe`: every endpoint is asked once.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use broker_failover::supervisor::certificates::{in_words, warning};
use broker_failover::supervisor::config::{Config, EndpointConfig, ProbeConfig, ProbeKind};
use broker_failover::supervisor::probes::{Fault, Resolver, Verdict, farewell, of_endpoint, probe_once};
use broker_failover::supervisor::visible::one_line;
use tokio::task::JoinSet;

use super::{ERROR, WARNING};

/// How long a session may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(4);
const GOOD: Style = AnsiColor::Green.on_default();

/// Says what each endpoint's probes answer, and whether every one answered as it should. What gateways report, only a
/// running supervisor hears.
pub(super) fn tell(out: &mut impl Write, config: &Config) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut all_answer = true;
    for group in &config.groups {
        for one in group.endpoints.iter().filter(|one| one.probes.iter().any(is_report)) {
            writeln!(out, "{}: {}: what a gateway reports of it is not asked for here", group.name, one.endpoint.name)?;
        }
        let asked: Vec<_> = group.endpoints.iter().filter_map(without_reports).collect();
        let verdicts = runtime.block_on(ask(&asked, group.probing.timeout));
        for (name, verdict) in &verdicts {
            let (style, text) = in_short(verdict);
            writeln!(out, "{}: {name}: {style}{text}{style:#}", group.name)?;
            all_answer &= matches!(verdict, Verdict::Success(_));
        }
        let certificates: Vec<_> =
            verdicts.iter().filter_map(|(name, verdict)| Some((name.as_str(), left(verdict)?))).collect();
        for (name, left) in &certificates {
            if let Some(text) = warning(name, *left, &certificates) {
                writeln!(out, "{}: {WARNING}warning{WARNING:#}: {text}", group.name)?;
            }
        }
    }
    // A session that was held for the answer says goodbye before this process ends.
    farewell(FAREWELL);
    Ok(all_answer)
}

fn is_report(probe: &ProbeConfig) -> bool {
    matches!(probe.kind, ProbeKind::Report(_))
}

/// The endpoint with those of its probes that ask somebody; `None` without any.
fn without_reports(endpoint: &EndpointConfig) -> Option<EndpointConfig> {
    let mut endpoint = endpoint.clone();
    endpoint.probes.retain(|probe| !is_report(probe));
    (!endpoint.probes.is_empty()).then_some(endpoint)
}

/// Asks all of a group's endpoints at once; the answers in the order of the file.
async fn ask(endpoints: &[EndpointConfig], timeout: Duration) -> Vec<(String, Verdict)> {
    let resolver = Resolver::default();
    let mut asked = JoinSet::new();
    for (place, endpoint) in endpoints.iter().enumerate() {
        let (prober, name) = (of_endpoint(endpoint, &resolver), endpoint.endpoint.name.clone());
        asked.spawn(async move {
            let verdict = match prober {
                Ok(prober) => probe_once(&*prober, timeout).await,
                Err(error) => Verdict::fault(Fault::Error, error.to_string()),
            };
            (place, name, verdict)
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(place, ..)| *place);
    answers.into_iter().map(|(_, name, verdict)| (name, verdict)).collect()
}

fn left(verdict: &Verdict) -> Option<Duration> {
    match verdict {
        Verdict::Success(evidence) => evidence.certificate_expires_in,
        _ => None,
    }
}

fn in_short(verdict: &Verdict) -> (Style, String) {
    match verdict {
        Verdict::Success(evidence) => {
            let certificate = evidence.certificate_expires_in.map(in_words);
            let certificate = certificate.map_or_else(String::new, |left| format!(", certificate valid for {left}"));
            (GOOD, format!("answers as it should in {:.1?}{certificate}", evidence.latency))
        }
        Verdict::PathFault { fault, text } => (ERROR, format!("{fault:?}: {}", one_line(text))),
        Verdict::NoEvidence { cause, text, .. } => (WARNING, format!("no evidence: {cause:?}: {}", one_line(text))),
    }
}
