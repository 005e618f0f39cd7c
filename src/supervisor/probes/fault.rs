//! What an error means: a fault of the path, or nothing about it.

use std::fmt::Display;
use std::io;

use rustix::io::Errno;
use tokio_rustls::rustls;

use super::tls::NotYetValid;
use super::{Fault, NoEvidence, Verdict};

/// Errors that say that *we* have run out of something. The path was not even asked.
const EXHAUSTED: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];

/// The verdict on an error of a socket; `doing` says what was being done.
pub(super) fn of_io(doing: impl Display, error: &io::Error) -> Verdict {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls(doing, error);
    }
    if is_local(error) {
        return Verdict::no_evidence(NoEvidence::LocalExhausted, format!("{doing}: {error}"));
    }
    let fault = match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Refused,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => Fault::Reset,
        io::ErrorKind::TimedOut => Fault::Timeout,
        _ if error.raw_os_error().is_some() => Fault::Network,
        _ => Fault::Error,
    };
    Verdict::fault(fault, format!("{doing}: {error}"))
}

/// The verdict on an error of a name look-up. (What getaddrinfo itself could not get from the system is ours.)
pub(super) fn of_lookup(name: &str, error: &io::Error) -> Verdict {
    if is_local(error) {
        return Verdict::no_evidence(NoEvidence::LocalExhausted, format!("look up {name}: {error}"));
    }
    Verdict::fault(Fault::Dns, format!("look up {name}: {error}"))
}

/// The verdict on an error of starting a program: no processes, descriptors or memory left is ours; a program that is
/// missing or may not be run is an error of the probe, which counts as a failure.
pub(super) fn of_spawn(program: &str, error: &io::Error) -> Verdict {
    // fork(2) says EAGAIN where a limit of processes is reached.
    if is_local(error) || error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) {
        return Verdict::no_evidence(NoEvidence::LocalExhausted, format!("start {program}: {error}"));
    }
    Verdict::fault(Fault::Error, format!("start {program}: {error}"))
}

fn of_tls(doing: impl Display, error: &rustls::Error) -> Verdict {
    if let rustls::Error::Other(other) = error {
        if let Some(early) = other.0.downcast_ref::<NotYetValid>() {
            return Verdict::no_evidence(NoEvidence::LocalClock, format!("{doing}: {early}"));
        }
    }
    Verdict::fault(Fault::Tls, format!("{doing}: {error}"))
}

fn is_local(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|raw| EXHAUSTED.iter().any(|errno| errno.raw_os_error() == raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: Errno) -> Verdict {
        of_io("connect", &io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    #[test]
    fn what_we_have_run_out_of_says_nothing_of_the_path() {
        for errno in EXHAUSTED {
            assert!(
                matches!(of(errno), Verdict::NoEvidence { cause: NoEvidence::LocalExhausted, .. }),
                "{errno}: {:?}",
                of(errno)
            );
        }
        let spawn = |errno: Errno| of_spawn("x", &io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(matches!(spawn(Errno::AGAIN), Verdict::NoEvidence { .. }));
        assert!(matches!(spawn(Errno::MFILE), Verdict::NoEvidence { .. }));
        assert!(matches!(spawn(Errno::NOENT), Verdict::PathFault { fault: Fault::Error, .. }));
        let lookup = |errno: Errno| of_lookup("x", &io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(matches!(lookup(Errno::MFILE), Verdict::NoEvidence { .. }));
    }

    #[test]
    fn every_other_error_is_a_fault_with_a_fixed_kind() {
        for (errno, fault) in [
            (Errno::CONNREFUSED, Fault::Refused),
            (Errno::CONNRESET, Fault::Reset),
            (Errno::CONNABORTED, Fault::Reset),
            (Errno::PIPE, Fault::Reset),
            (Errno::TIMEDOUT, Fault::Timeout),
            (Errno::HOSTUNREACH, Fault::Network),
            (Errno::NETUNREACH, Fault::Network),
            (Errno::NETDOWN, Fault::Network),
            (Errno::ACCESS, Fault::Network),
        ] {
            assert!(matches!(of(errno), Verdict::PathFault { fault: found, .. } if found == fault), "{errno}");
        }
        let early = of_io("read", &io::ErrorKind::UnexpectedEof.into());
        assert!(matches!(early, Verdict::PathFault { fault: Fault::Reset, .. }));
    }
}
