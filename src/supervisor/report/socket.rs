//! `report_socket`: for gateways of other users, which may report there and do nothing else.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tracing::info;

use super::{Desk, MOST_GATEWAYS, of_line};
use crate::supervisor::control::{self, Answer, Connection};
use crate::supervisor::group::task::GroupHandle;

/// Listens on `path`. Every user may connect; who may report is decided by what the kernel says of the other end.
///
/// # Errors
/// Somebody listens there already, or the socket cannot be made.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    control::listen_as(path, "report", 0o666)
}

/// Serves the socket until it is dropped, for the supervisor's own user, root and `users`.
pub async fn serve(listener: UnixListener, groups: Arc<[GroupHandle]>, desk: Desk, users: Arc<[u32]>) {
    let places = Arc::new(Semaphore::new(MOST_GATEWAYS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Some(stream) = control::accept(&listener, "report").await else { continue };
        let (groups, desk, users) = (Arc::clone(&groups), desk.clone(), Arc::clone(&users));
        tokio::spawn(async move {
            if let Err(error) = talk(stream, &groups, &desk, &users).await {
                info!(%error, "report connection ended");
            }
            drop(place);
        });
    }
}

async fn talk(stream: tokio::net::UnixStream, groups: &[GroupHandle], desk: &Desk, users: &[u32]) -> io::Result<()> {
    let mut connection = Connection::new(stream)?;
    let caller = connection.caller;
    let mut gateway = desk.gateway(caller);
    while let Some(line) = connection.next().await? {
        if !(control::is_own(caller) || users.contains(&caller.uid)) {
            let why = format!("user {} may not report here: it is not among report_users", caller.uid);
            return connection.reply(&Answer::Error(why)).await;
        }
        let not_a_report =
            || Err("not a report: expected {\"report\":{..}}, and nothing else is taken here".to_owned());
        let answer = gateway.take(groups, of_line(&line).unwrap_or_else(not_a_report)).await;
        connection.reply(&answer).await?;
    }
    Ok(())
}
