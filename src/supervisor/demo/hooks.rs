//! The gateway's side of the hooks, over HTTP like any gateway's.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::super::hooks::{HookRequest, ReconcileCounts, Stage};
use super::broker::Book;
use super::client::Client;

/// Serves the hooks on a free port of the loopback interface until the runtime ends.
pub(super) async fn serve(client: Arc<Client>, book: Arc<Book>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (client, book) = (Arc::clone(&client), Arc::clone(&book));
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, Arc::clone(&client), Arc::clone(&book)));
                // The supervisor notices a connection that fails by itself.
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(address)
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    client: Arc<Client>,
    book: Arc<Book>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        Limited::new(request.into_body(), 65_536).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Ok(request) = serde_json::from_slice::<HookRequest>(&body) else {
        let mut response = Response::new(Full::new(Bytes::from_static(b"not a hook request")));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let answer = match request.stage {
        Stage::Fence => {
            client.fence(request.epoch).await;
            "fenced".to_owned()
        }
        Stage::Reconcile => serde_json::to_string(&reconciled(&client, &book)).unwrap_or_default(),
        // The client follows the published path; there is no transport to move.
        Stage::Switch | Stage::Halt | Stage::Flow => "done".to_owned(),
    };
    Ok(Response::new(Full::new(Bytes::from(answer))))
}

/// Looks every order of unknown fate up in the broker's book: it was taken, or it never arrived and never will, since
/// the path that it left on is fenced.
fn reconciled(client: &Client, book: &Book) -> ReconcileCounts {
    let resting = client.look(|record| record.unknown().filter(|sent| book.has(sent.id)).count());
    ReconcileCounts { resting: u64::try_from(resting).unwrap_or(u64::MAX), filled: 0, unknown: 0 }
}
