//! Work that may block for as long as it likes, on a thread of its own.
//!
//! The runtime's own threads for that will not do: where the system gives no thread, the runtime lets the work wait
//! without a word, or panics. Here the caller is told, since what we ran out of says nothing of whom we wanted to ask.

use std::io;
use std::sync::Arc;
use std::thread::Builder;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

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

/// Does `work`, and waits for it. If the caller gives up, what `work` came to is dropped. Work that hangs keeps its place
/// among `places`, so that no more threads than these can hang.
///
/// # Errors
/// No place is free, the system gives no thread (EAGAIN), or `work` panicked.
pub(super) async fn aside<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let place = Arc::clone(places).try_acquire_owned();
    let place = place.map_err(|_| io::Error::other("what was begun earlier still hangs"))?;
    let (done, result) = oneshot::channel();
    begin(move || {
        let came_to = work();
        drop(place);
        // Whoever gave up has no use for it.
        drop(done.send(came_to));
    })?;
    result.await.map_err(|_| io::Error::other("it panicked"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn what_hangs_keeps_its_place_and_what_panics_does_not() {
        let places = Arc::new(Semaphore::new(1));
        let (go_on, told) = channel::<()>();
        let hangs = tokio::spawn({
            let places = Arc::clone(&places);
            async move { aside(&places, move || told.recv()).await }
        });
        while places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        hangs.abort();
        assert!(aside(&places, || 1).await.unwrap_err().to_string().contains("still hangs"));
        drop(go_on);
        let free = places.acquire().await.unwrap();
        drop(free);
        assert!(aside(&places, || panic!("a fault of the test")).await.is_err() && places.available_permits() == 1);
        assert_eq!(aside(&places, || 1).await.unwrap(), 1);
    }
}
