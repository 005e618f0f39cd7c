//! `tls`: a handshake in which the certificate is checked as a client would check it.
//!
//! Everything that a client refuses is a fault of the path, with one exception. A certificate that is *not yet* valid,
//! and otherwise right at its own first moment (chain, name), says that the two clocks disagree; a clock that is behind
//! is far more frequent than a certificate that is served ahead of its time, and a switch would only meet the next
//! path with the same clock. So it is `LOCAL_CLOCK`: no evidence. An *expired* certificate is always a fault: nothing
//! in it tells a clock that is ahead from the operator who forgot to renew, and no client would accept it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};

use super::target::{Host, Target};
use super::tcp::Dialler;
use super::{Evidence, ProbeFuture, Prober, Verdict, fault};
use crate::supervisor::certificates;
use crate::supervisor::config::TlsConfig;

/// Why TLS cannot be spoken as configured.
#[derive(Debug, Error)]
pub enum TlsSetupError {
    /// The file of authorities cannot be read, or is not PEM.
    #[error("ca_file {path}: {text}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        text: String,
    },
    /// The system has no authorities.
    #[error("the system has no trusted certificate authorities ({text}); state ca_file")]
    NoRoots {
        /// What the system said.
        text: String,
    },
    /// Not a name that a certificate can hold.
    #[error("server_name {name:?} is neither a host name nor an address")]
    ServerName {
        /// As configured.
        name: String,
    },
    /// rustls refuses it.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Speaks TLS to one server.
#[derive(Clone)]
pub(super) struct Connector {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(config: &TlsConfig, target: &Target, http: bool) -> Result<Self, TlsSetupError> {
        let name = match (&config.server_name, &target.host) {
            (Some(name), _) => {
                ServerName::try_from(name.clone()).map_err(|_| TlsSetupError::ServerName { name: name.clone() })?
            }
            (None, Host::Ip(ip)) => ServerName::IpAddress((*ip).into()),
            (None, Host::Name(name)) => {
                ServerName::try_from(name.clone()).map_err(|_| TlsSetupError::ServerName { name: name.clone() })?
            }
        };
        let client = match &config.ca_file {
            Some(path) => Arc::new(client_config(roots_of_file(path)?, http)?),
            None => system_config(http)?,
        };
        Ok(Self { connector: TlsConnector::from(client), name })
    }

    pub(super) async fn handshake<S>(&self, stream: S) -> Result<TlsStream<S>, Box<Verdict>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.connector
            .connect(self.name.clone(), stream)
            .await
            .map_err(|error| Box::new(fault::of_io("TLS handshake", &error)))
    }
}

/// How long the server's certificate is still valid by our clock.
pub(super) fn expires_in(stream: &TlsStream<TcpStream>) -> Option<Duration> {
    let (_, session) = stream.get_ref();
    certificates::left(session.peer_certificates()?.first()?)
}

/// Connects, shakes hands, says goodbye.
#[derive(Debug)]
pub(super) struct TlsProbe {
    pub(super) dialler: Dialler,
    pub(super) connector: Connector,
}

impl TlsProbe {
    async fn ask(&self, deadline: Instant) -> Result<Evidence, Box<Verdict>> {
        let started = Instant::now();
        let stream = self.dialler.dial(deadline).await?;
        let mut stream = self.connector.handshake(stream).await?;
        let latency = started.elapsed();
        let certificate_expires_in = expires_in(&stream);
        // The answer is in; how the goodbye goes is of no interest.
        let _ = stream.shutdown().await;
        Ok(Evidence { latency, certificate_expires_in, ..Evidence::default() })
    }
}

impl Prober for TlsProbe {
    fn overlaps(&self) -> bool {
        true
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move { self.ask(deadline).await.map_or_else(|verdict| *verdict, Verdict::Success) })
    }
}

fn client_config(roots: RootCertStore, http: bool) -> Result<ClientConfig, TlsSetupError> {
    // Named, not the process's default: with two providers compiled in, that one panics.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { webpki }))
        .with_no_client_auth();
    // A probe shows what a client meets that comes anew.
    config.resumption = Resumption::disabled();
    if http {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    Ok(config)
}

/// The configuration that trusts the system's authorities, which are read once.
fn system_config(http: bool) -> Result<Arc<ClientConfig>, TlsSetupError> {
    static PLAIN: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    static HTTP: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let cell = if http { &HTTP } else { &PLAIN };
    if let Some(config) = cell.get() {
        return Ok(Arc::clone(config));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let text = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsSetupError::NoRoots { text });
    }
    let config = Arc::new(client_config(roots, http)?);
    Ok(Arc::clone(cell.get_or_init(|| config)))
}

fn roots_of_file(path: &Path) -> Result<RootCertStore, TlsSetupError> {
    let wrong = |text: String| TlsSetupError::CaFile { path: path.to_owned(), text };
    let pem = fs::read(path).map_err(|error: io::Error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(roots) }
}

/// rustls' own check; it only tells apart what is merely too early.
#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
}

/// The certificate is right, but for its first moment, which our clock says is still to come.
#[derive(Debug, Error)]
#[error("the certificate is valid only in {}: this machine's clock is behind, or the certificate is ahead", days(.ahead))]
pub(super) struct NotYetValid {
    ahead: Duration,
}

fn days(duration: &Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..172_800 => format!("{seconds} s"),
        seconds => format!("{} days", seconds / 86_400),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verify = |at| self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, at);
        let error = match verify(now) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        let Some(valid_from) = not_yet_valid_before(&error) else { return Err(error) };
        // The check of the dates comes first and may hide another fault, such as the wrong name.
        match verify(valid_from) {
            Ok(_) => {
                let ahead = Duration::from_secs(valid_from.as_secs().saturating_sub(now.as_secs()));
                Err(rustls::Error::Other(OtherError(Arc::new(NotYetValid { ahead }))))
            }
            Err(other) => Err(other),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn not_yet_valid_before(error: &rustls::Error) -> Option<UnixTime> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => Some(*not_before),
        _ => None,
    }
}
