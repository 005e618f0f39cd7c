//! The log on standard error, which can hold nothing up.
//!
//! Whoever reads standard error may stop reading, go away, or run out of disk. The loops that decide write their log
//! here, so a line is handed to a thread that alone waits for standard error. What finds no room is dropped and counted,
//! and what cannot be written is lost: the journal has it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use broker_failover::planning::counted;

/// Lines that wait for standard error; a further one is dropped.
const LONGEST_QUEUE: usize = 4096;
/// How long the end waits for what is queued.
const FAREWELL: Duration = Duration::from_millis(500);

enum Message {
    Line(Vec<u8>),
    /// Answered when everything before it was written.
    Flush(SyncSender<()>),
}

/// Takes one line with each write, and never waits nor fails.
#[derive(Clone)]
pub(crate) struct Log {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// A log whose lines a thread writes to `out`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = sync_channel(LONGEST_QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || write_all(out, &lines, &counted))?;
        Ok(Self { queue, lost })
    }

    /// Waits for what was logged until now to be written, but not for long.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        // Without room, nobody takes the lines: there is nothing to wait for.
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FAREWELL);
        }
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Message>, lost: &AtomicU64) {
    while let Ok(message) = lines.recv() {
        match message {
            Message::Line(line) => {
                let before = lost.swap(0, Ordering::Relaxed);
                let news = format!("broker-failover: {} of this log lost\n", counted(before, "line"));
                let told = before == 0 || out.write_all(news.as_bytes()).is_ok();
                let written = out.write_all(&line).is_ok();
                let again = u64::from(!written) + if told { 0 } else { before };
                lost.fetch_add(again, Ordering::Relaxed);
            }
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Gives each line to whoever receives, and waits until there is one.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_standard_error_that_nobody_reads_holds_nobody_up_and_what_was_lost_is_counted() {
        let (pipe, read) = sync_channel(0);
        let mut log = Log::start(Pipe(pipe)).unwrap();
        for line in 0..LONGEST_QUEUE + 100 {
            log.write_all(format!("line {line}\n").as_bytes()).unwrap();
        }
        log.flush();
        let first: Vec<_> = read.iter().take(2).collect();
        // In either order: the thread may have come to the first line late.
        assert!(first.iter().any(|line| line == "line 0\n"), "{first:?}");
        assert!(first.iter().any(|line| line.contains(" of this log lost")), "{first:?}");
    }

    #[test]
    fn a_standard_error_that_is_gone_fails_nobody() {
        let (pipe, read) = sync_channel(0);
        drop(read);
        let mut log = Log::start(Pipe(pipe)).unwrap();
        for _ in 0..100 {
            log.write_all(b"line\n").unwrap();
        }
        log.flush();
    }
}
