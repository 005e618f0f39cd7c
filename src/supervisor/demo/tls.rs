//! Certificates for the demo, made when it starts and gone when it ends.

use std::path::Path;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// One certificate for `localhost`, for servers and for clients that trust it.
pub(super) struct Tls {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

impl Tls {
    /// Makes it, and puts the certificate into `folder` as `ca.pem`.
    pub(super) fn new(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()])?;
        std::fs::write(folder.join("ca.pem"), cert.pem())?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        // The provider is stated: relying on the process's default fails where another crate brings a second one.
        let provider = Arc::new(default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(server)), connector: TlsConnector::from(Arc::new(client)) })
    }
}
