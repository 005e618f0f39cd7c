//! The read-only HTTP server: `/status` as JSON, `/metrics` as OpenMetrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

use super::control::status;
use super::group::task::GroupHandle;
use super::group::{EndpointStatus, GroupStatus, ShadowCounts};

/// Connections at the same time; a further one waits.
pub(super) const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, groups: Arc<[GroupHandle]>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "status server: cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let groups = Arc::clone(&groups);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&groups)));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that goes away early is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    groups: Arc<[GroupHandle]>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/status") => match serde_json::to_vec(&status(&groups).await) {
            Ok(body) => (StatusCode::OK, "application/json", body),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string().into_bytes()),
        },
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let body = metrics(&status(&groups).await).into_bytes();
            (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", body)
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "text/plain", b"there is /status and /metrics\n".to_vec())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", b"read-only\n".to_vec()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    Ok(response)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Group {
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Endpoint {
    group: String,
    endpoint: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct First {
    group: String,
    first: &'static str,
}

/// Of the groups that have a shadow policy.
fn shadow_differences(groups: &[GroupStatus]) -> Family<First, Counter> {
    let family = Family::<First, Counter>::default();
    for (status, shadow) in groups.iter().filter_map(|status| Some((status, status.shadow.as_ref()?))) {
        let ShadowCounts { shadow_first, group_first, otherwise } = shadow.counts;
        for (first, count) in [("shadow", shadow_first), ("group", group_first), ("neither", otherwise)] {
            family.get_or_create(&First { group: label(&status.name), first }).inc_by(count);
        }
    }
    family
}

/// A label's value, escaped, which the library leaves to whoever names it.
fn label(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The state of every group as OpenMetrics text.
#[must_use]
pub fn metrics(groups: &[GroupStatus]) -> String {
    let mut registry = Registry::with_prefix("broker_failover");
    let mut group_gauge = |name: &str, help: &str, value: &dyn Fn(&GroupStatus) -> i64| {
        let family = Family::<Group, Gauge>::default();
        for status in groups {
            family.get_or_create(&Group { group: label(&status.name) }).set(value(status));
        }
        registry.register(name, help, family);
    };
    let flag = i64::from;
    group_gauge("epoch", "The present epoch", &|group| to_i64(group.epoch.unwrap_or(0)));
    group_gauge("flow_open", "1 while new orders may be sent", &|group| flag(group.may_submit));
    group_gauge("halted", "1 while trading is halted", &|group| flag(group.order_flow.starts_with("HALT")));
    group_gauge("halt_unconfirmed", "1 while a halt waits for its hook", &|group| {
        flag(group.halt_confirmed == Some(false))
    });
    group_gauge("two_live_paths", "1 while trading is halted because a gateway sends on another path", &|group| {
        flag(group.two_live_paths)
    });
    group_gauge("paused", "1 while a person paused the group", &|group| flag(group.paused));
    group_gauge("waits_for_person", "1 while only a person can go on", &|group| flag(group.waits_for.is_some()));
    group_gauge("active_silent", "1 while there has been no evidence on the active path for too long", &|group| {
        flag(group.active_silent)
    });
    group_gauge("feed_failing", "1 while the gateways' feed cannot be written", &|group| {
        flag(group.feed_trouble.is_some())
    });
    group_gauge("eligible_targets", "Endpoints that flow could move to now", &|group| {
        to_i64(u64::try_from(group.eligible_targets.len()).unwrap_or(u64::MAX))
    });
    group_gauge("shadow_differs", "1 while the shadow policy would do otherwise", &|group| {
        flag(group.shadow.as_ref().is_some_and(|shadow| shadow.differs.is_some()))
    });
    registry.register(
        "shadow_differences",
        "How often the shadow policy would have done otherwise, by who would have acted and the other not",
        shadow_differences(groups),
    );
    let mut endpoint_gauge = |name: &str, help: &str, value: &dyn Fn(&GroupStatus, &EndpointStatus) -> Option<i64>| {
        let family = Family::<Endpoint, Gauge>::default();
        for status in groups {
            for endpoint in &status.endpoints {
                let Some(value) = value(status, endpoint) else { continue };
                let label = Endpoint { group: label(&status.name), endpoint: label(&endpoint.name) };
                family.get_or_create(&label).set(value);
            }
        }
        registry.register(name, help, family);
    };
    endpoint_gauge("endpoint_active", "1 for the active endpoint", &|group, one| {
        Some(flag(group.active.as_ref() == Some(&one.name)))
    });
    endpoint_gauge("endpoint_healthy", "1 while HEALTHY and fresh", &|_, one| {
        Some(flag(one.state == "HEALTHY" && one.fresh))
    });
    endpoint_gauge("endpoint_barred", "Causes for which it is no target, however green", &|_, one| {
        Some(to_i64(u64::try_from(one.bars.len()).unwrap_or(u64::MAX)))
    });
    endpoint_gauge("endpoint_account_mismatch", "1 while it is barred for fronting another account", &|_, one| {
        Some(flag(one.bars.contains(&"ACCOUNT_MISMATCH")))
    });
    endpoint_gauge("endpoint_consecutive_failures", "Failures since the last success", &|_, one| {
        Some(i64::from(one.consecutive_failures))
    });
    endpoint_gauge("endpoint_certificate_expires_in_seconds", "Until the certificate last seen expires", &|_, one| {
        one.certificate_expires_in.map(|left| left as i64)
    });
    endpoint_gauge("endpoint_session_open", "1 while the session that is held to it stands", &|_, one| {
        one.session.map(|session| flag(session == "open"))
    });
    endpoint_gauge("endpoint_sessions_lost", "Sessions held to it that ended, since the start", &|_, one| {
        one.sessions_lost.map(to_i64)
    });
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_name_holds_a_label_holds_no_quote_of_its_own() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
