//! `report_socket`: for gateways of other users, which may report there and do nothing else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::info;

use super::{Desk, MOST_GATEWAYS, of_line};
use crate::supervisor::control::{self, Answer, Connection};
use crate::supervisor::group::task::GroupHandle;

/// Connections of users who may not report, at the same time, that are told so; a further one is closed without a word.
const MOST_STRANGERS: usize = 8;
/// Connections to `report_socket` at the same time, of whomever.
pub(in super::super) const MOST_CONNECTIONS: usize = MOST_GATEWAYS + MOST_STRANGERS;
/// How long one of them may take to say something before it is told so.
const STRANGERS_TIME: Duration = Duration::from_secs(1);

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
    let strangers = Arc::new(Semaphore::new(MOST_STRANGERS));
    loop {
        let Some(stream) = control::accept(&listener, "report").await else { continue };
        let Ok(connection) = Connection::new(stream) else { continue };
        let caller = connection.caller;
        if !(control::is_own(caller) || users.contains(&caller.uid)) {
            // Every user may connect here. Who may not report takes no place of one who may.
            if let Ok(place) = Arc::clone(&strangers).try_acquire_owned() {
                tokio::spawn(async move {
                    // That it went meanwhile is all that can go wrong.
                    let _ = refuse(connection).await;
                    drop(place);
                });
            }
            continue;
        }
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (groups, desk) = (Arc::clone(&groups), desk.clone());
        tokio::spawn(async move {
            if let Err(error) = talk(connection, &groups, &desk).await {
                info!(%error, "report connection ended");
            }
            drop(place);
        });
    }
}

/// After its first line: a connection that is closed with its request unread tells the other side nothing.
async fn refuse(mut connection: Connection) -> io::Result<()> {
    let _ = timeout(STRANGERS_TIME, connection.next()).await;
    let why = format!("user {} may not report here: it is not among report_users", connection.caller.uid);
    connection.reply(&Answer::Error(why)).await
}

async fn talk(mut connection: Connection, groups: &[GroupHandle], desk: &Desk) -> io::Result<()> {
    let mut gateway = desk.gateway(connection.caller);
    while let Some(line) = connection.next().await? {
        let not_a_report =
            || Err("not a report: expected {\"report\":{..}}, and nothing else is taken here".to_owned());
        let answer = gateway.take(groups, of_line(&line).unwrap_or_else(not_a_report)).await;
        connection.reply(&answer).await?;
    }
    Ok(())
}
