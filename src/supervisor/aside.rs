//! Work that may block for as long as it likes, on a thread of its own.
//!
//! The runtime's own threads for that will not do: where the system gives no thread, the runtime lets the work wait
//! without a word, or panics. Here the caller is told, since what we ran out of says nothing of whom we wanted to ask.

use std::io;
use std::thread::Builder;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Begins `work` now, as part of the present runtime. It goes on if nobody waits for it any more.
///
/// # Errors
/// The system gives no thread (EAGAIN); `work` was dropped.
pub(super) fn begin(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = Handle::current();
    Builder::new().name("bf-aside".to_owned()).spawn(move || {
        let _inside = runtime.enter();
        work();
    })?;
    Ok(())
}

/// Does `work`, and waits for it. If the caller gives up, what `work` came to is dropped.
///
/// # Errors
/// The system gives no thread (EAGAIN), or `work` panicked.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    begin(move || drop(done.send(work())))?;
    result.await.map_err(|_| io::Error::other("it panicked"))
}
