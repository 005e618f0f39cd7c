//! Certificates that expire soon, and several that expire together: one forgotten renewal takes every path.

use std::path::Path;
use std::time::Duration;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::clock;
use crate::planning::counted;

const DAY: u64 = 86_400;

/// A certificate that expires sooner is worth a warning. 14 days: time for a renewal that a person must approve, and well
/// below the 90 days that short-lived certificates last (Let's Encrypt: renewal is due 30 days before the end).
pub const SOON: Duration = Duration::from_secs(14 * DAY);

/// Certificates that expire within a day of each other are renewed together, or forgotten together.
pub const TOGETHER: Duration = Duration::from_secs(DAY);

/// `3 days`, `5 hours`, `0 hours`: how long a certificate is still valid.
#[must_use]
pub fn in_words(left: Duration) -> String {
    match left.as_secs() {
        seconds if seconds < 2 * DAY => counted(seconds / 3600, "hour"),
        seconds => format!("{} days", seconds / DAY),
    }
}

/// For how long a certificate in DER is still valid, by our clock. `None` if it is none.
pub(super) fn left(der: &[u8]) -> Option<Duration> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    Some(Duration::from_secs(not_after).saturating_sub(Duration::from_nanos(clock::wall())))
}

/// For how long the first of the certificates in a PEM file to expire is still valid. `None` if there is none.
pub(super) fn first_of_file(path: &Path) -> Option<Duration> {
    let certificates = CertificateDer::pem_file_iter(path).ok()?;
    certificates.filter_map(Result::ok).filter_map(|der| left(&der)).min()
}

/// What there is to say of the certificate of `name`, which is valid for `left`, among those of `all` paths of a group.
/// Nothing while it lasts.
#[must_use]
pub fn warning(name: &str, left: Duration, all: &[(&str, Duration)]) -> Option<String> {
    if left >= SOON {
        return None;
    }
    let others: Vec<_> = all
        .iter()
        .filter(|(other, until)| *other != name && until.abs_diff(left) < TOGETHER)
        .map(|(other, _)| *other)
        .collect();
    let text = format!("the certificate of {name} expires in {}", in_words(left));
    Some(match others.as_slice() {
        [] => text,
        others => format!("{text}, and so does that of {}: one expiry takes these paths together", others.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn days(days: u64) -> Duration {
        Duration::from_secs(days * DAY)
    }

    #[test]
    fn a_certificate_is_mentioned_from_fourteen_days_on() {
        assert_eq!(warning("east", SOON, &[]), None);
        let almost = SOON - Duration::from_nanos(1);
        assert_eq!(warning("east", almost, &[]).as_deref(), Some("the certificate of east expires in 13 days"));
        assert_eq!(warning("east", Duration::ZERO, &[]).as_deref(), Some("the certificate of east expires in 0 hours"));
    }

    #[test]
    fn paths_whose_certificates_expire_within_a_day_are_named_together() {
        let just_under = days(4) - Duration::from_nanos(1);
        let all = [("east", days(3)), ("west", just_under), ("north", days(4)), ("south", days(400))];
        let text = warning("east", days(3), &all).unwrap();
        let expected = "the certificate of east expires in 3 days, and so does that of west: one expiry takes these paths together";
        assert_eq!(text, expected);
    }
}
