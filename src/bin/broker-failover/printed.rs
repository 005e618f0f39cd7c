//! What becomes of a command whose output cannot be written.

use std::io;
use std::process::ExitCode;

use crate::control::refuse;

/// `status` where the output was written, or where its reader has seen enough (`| head`); 2 and a message otherwise.
pub(crate) fn printed(written: io::Result<()>, what: &str, status: ExitCode) -> ExitCode {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => refuse(&format!("cannot write {what}: {error}"), 2),
        _ => status,
    }
}
