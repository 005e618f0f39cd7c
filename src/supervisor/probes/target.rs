//! An endpoint's url as something to connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// The protocol that a url names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http://`, port 80 unless stated.
    Http,
    /// `https://`, port 443 unless stated.
    Https,
    /// `tcp://`, the port must be stated.
    Tcp,
    /// `tls://`, port 443 unless stated.
    Tls,
    /// `fix://`, the port must be stated.
    Fix,
    /// `fixs://`, FIX over TLS; the port must be stated.
    Fixs,
    /// `ws://`, port 80 unless stated.
    Ws,
    /// `wss://`, port 443 unless stated.
    Wss,
}

impl Scheme {
    const ALL: [Self; 8] = [Self::Http, Self::Https, Self::Tcp, Self::Tls, Self::Fix, Self::Fixs, Self::Ws, Self::Wss];

    /// As it stands in a url.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Fix => "fix",
            Self::Fixs => "fixs",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The port of a url that states none. Neither raw TCP nor FIX has one.
    #[must_use]
    pub const fn default_port(self) -> Option<u16> {
        match self {
            Self::Http | Self::Ws => Some(80),
            Self::Https | Self::Tls | Self::Wss => Some(443),
            Self::Tcp | Self::Fix | Self::Fixs => None,
        }
    }
}

/// A host: an address, or a name that is looked up for each probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Never looked up.
    Ip(IpAddr),
    /// Looked up.
    Name(String),
}

impl fmt::Display for Host {
    /// As it stands in a url: an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Where a url points to. Prints as `scheme://host:port`: never with the credentials that the url may hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port, stated or the scheme's.
    pub port: u16,
    /// User name and password, percent-decoded; secret.
    credentials: Option<(Vec<u8>, Vec<u8>)>,
}

impl Target {
    /// Takes `scheme://[user[:password]@]host[:port][/...]` apart. Path, query and fragment do not say where to connect;
    /// they are ignored.
    ///
    /// # Errors
    ///
    /// The text holds no part of the url that could be a secret.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::NoScheme)?;
        let scheme =
            Scheme::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(scheme)).ok_or(UrlError::Scheme)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, address) = match authority.rsplit_once('@') {
            Some((userinfo, address)) => (Some(decode_credentials(userinfo)?), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address)?;
        let port = match port {
            Some(text) => text.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)?,
            None => scheme.default_port().ok_or(UrlError::NoPort { scheme: scheme.name() })?,
        };
        Ok(Self { scheme, host: parse_host(host)?, port, credentials })
    }

    /// `host:port`, with the port left out where the scheme implies it: what a client writes into `Host`.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.scheme.default_port() == Some(self.port) {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The value of an `Authorization` header for the url's credentials, as a client would send it. Secret.
    pub(super) fn authorization(&self) -> Option<String> {
        let (user, password) = self.credentials.as_ref()?;
        let pair = [user.as_slice(), b":", password].concat();
        Some(format!("Basic {}", base64(&pair)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.name(), self.host, self.port)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `url` with its credentials replaced by `***`, for texts that people read. What is not a url stays as it is.
#[must_use]
pub fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, address)) => format!("{scheme}://***@{address}{tail}"),
        None => url.to_owned(),
    }
}

/// Why a url is not one to connect to. The texts quote nothing that could be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// No `://`.
    #[error("not a url: expected scheme://host[:port]")]
    NoScheme,
    /// An unknown scheme.
    #[error("unknown scheme: expected http, https, tcp, tls, fix, fixs, ws or wss")]
    Scheme,
    /// No host, or one with characters that no host has.
    #[error("the host is neither a name nor an address (an IPv6 address stands in brackets)")]
    Host,
    /// Not a port.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// No port, and the scheme implies none.
    #[error("{scheme}:// has no default port: state one")]
    NoPort {
        /// The scheme.
        scheme: &'static str,
    },
    /// Credentials that cannot be percent-decoded.
    #[error("the credentials before the @ are not percent-encoded properly")]
    Credentials,
}

fn split_port(address: &str) -> Result<(&str, Option<&str>), UrlError> {
    if address.starts_with('[') {
        let end = address.find(']').ok_or(UrlError::Host)?;
        let (host, rest) = address.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError::Host),
        };
    }
    Ok(address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))))
}

fn parse_host(host: &str) -> Result<Host, UrlError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().map(|ip| Host::Ip(ip.into())).map_err(|_| UrlError::Host);
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(ip.into()));
    }
    let name = host.len() <= 253
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        && host.bytes().any(|b| b.is_ascii_alphanumeric());
    if name { Ok(Host::Name(host.to_ascii_lowercase())) } else { Err(UrlError::Host) }
}

fn decode_credentials(userinfo: &str) -> Result<(Vec<u8>, Vec<u8>), UrlError> {
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    Ok((percent_decode(user)?, percent_decode(password)?))
}

fn percent_decode(text: &str) -> Result<Vec<u8>, UrlError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            match (digit(bytes.next()), digit(bytes.next())) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).map_err(|_| UrlError::Credentials)?,
                _ => return Err(UrlError::Credentials),
            }
        } else {
            byte
        });
    }
    Ok(decoded)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_usize, |word, byte| word << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = word >> (18 - 6 * place) & 63;
            text.push(if place <= chunk.len() { char::from(DIGITS[digit]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> String {
        Target::parse(url).map_or_else(|error| error.to_string(), |target| target.to_string())
    }

    #[test]
    fn a_url_states_scheme_host_and_port_and_the_scheme_may_imply_the_port() {
        assert_eq!(parsed("https://api.example"), "https://api.example:443");
        assert_eq!(parsed("HTTP://API.example/health?x#y"), "http://api.example:80");
        assert_eq!(parsed("tcp://10.0.0.1:9000"), "tcp://10.0.0.1:9000");
        assert_eq!(parsed("tls://[::1]:9000/"), "tls://[::1]:9000");
        assert_eq!(parsed("https://[2001:db8::1]"), "https://[2001:db8::1]:443");
        assert_eq!(parsed("fix://gw.example:9876"), "fix://gw.example:9876");
        assert_eq!(parsed("fixs://gw.example:9876"), "fixs://gw.example:9876");
    }

    #[test]
    fn what_cannot_be_connected_to_is_refused_with_a_reason() {
        for (url, reason) in [
            ("", UrlError::NoScheme),
            ("api.example:443", UrlError::NoScheme),
            ("ftp://api.example", UrlError::Scheme),
            ("tcp://api.example", UrlError::NoPort { scheme: "tcp" }),
            ("fix://api.example", UrlError::NoPort { scheme: "fix" }),
            ("fixs://api.example", UrlError::NoPort { scheme: "fixs" }),
            ("https://", UrlError::Host),
            ("https://:443", UrlError::Host),
            ("https://a b", UrlError::Host),
            ("https://a\r\nb", UrlError::Host),
            ("https://..", UrlError::Host),
            ("https://::1", UrlError::Port),
            ("https://[::1", UrlError::Host),
            ("https://[::1]x", UrlError::Host),
            ("https://api.example:0", UrlError::Port),
            ("https://api.example:65536", UrlError::Port),
            ("https://api.example:", UrlError::Port),
            ("https://u:%zz@api.example", UrlError::Credentials),
        ] {
            assert_eq!(Target::parse(url), Err(reason), "{url}");
        }
    }

    #[test]
    fn credentials_are_sent_as_a_client_would_and_never_printed() {
        let url = "https://user:p%40ss%3A@api.example:8443/x";
        let target = Target::parse(url).unwrap();
        assert_eq!(target.authorization().as_deref(), Some("Basic dXNlcjpwQHNzOg=="));
        for text in [target.to_string(), format!("{target:?}"), target.authority(), redact(url)] {
            assert!(!text.contains("user") && !text.contains("ss"), "{text}");
        }
        assert_eq!(redact(url), "https://***@api.example:8443/x");
        assert_eq!(redact("https://api.example/a@b"), "https://api.example/a@b");
    }

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
