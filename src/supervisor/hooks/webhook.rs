//! A hook as a POST of a JSON body, on a fresh connection.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Ended, HookRequest, HookResult, LONGEST_OUTPUT};

pub(super) async fn run(url: &str, request: &HookRequest) -> Ended {
    match answer(url, request).await {
        Ok((status, output)) if (200..300).contains(&status) => Ended { output, ..Ended::of(HookResult::Ok) },
        Ok((status, output)) => Ended { output, ..Ended::of(HookResult::Status(status)) },
        Err(why) => Ended::of(HookResult::Unreachable(why)),
    }
}

async fn answer(url: &str, request: &HookRequest) -> Result<(u16, Vec<u8>), String> {
    let uri: Uri = url.parse().map_err(|error| format!("the webhook's url: {error}"))?;
    let host = uri.host().ok_or("the webhook's url has no host")?;
    let port = uri.port_u16().unwrap_or(80);
    // An IPv6 address stands in brackets in a url, and nowhere else.
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let stream = TcpStream::connect((address, port)).await.map_err(|error| format!("connect: {error}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(request).map_err(|error| error.to_string())?;
    let post = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(header::HOST, uri.authority().map_or(host, |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(post).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = end_of(response.into_body()).await;
        Ok((status, body.map_err(|error| format!("the answer's body: {error}"))?))
    };
    // The connection makes progress only while it is polled. Once it has ended, the exchange knows how it went.
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        _ = connection => exchange.await,
    }
}

/// The end of the body, as of a program's output: the answer stands on its last line. All of it is read, since what does
/// not come to its end is no answer.
async fn end_of(mut body: Incoming) -> hyper::Result<Vec<u8>> {
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(piece) = frame?.data_ref() {
            kept.extend_from_slice(piece);
            kept.drain(..kept.len().saturating_sub(LONGEST_OUTPUT));
        }
    }
    Ok(kept)
}
