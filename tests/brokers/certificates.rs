//! Certificates made at run time: one authority, and what it issues.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const DAY: Duration = Duration::from_secs(86_400);

/// An authority that a client may trust.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    files: RefCell<Vec<PathBuf>>,
}

/// The days, counted from today, in which a certificate is valid.
pub type Days = std::ops::Range<i64>;

impl Authority {
    /// A new authority, valid from 1990.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(1990, 1, 1);
        params.distinguished_name.push(rcgen::DnType::CommonName, "broker-failover tests");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem, files: RefCell::default() }
    }

    /// Its certificate as a file of its own, for `ca_file`. It is gone with the authority.
    pub fn file(&self, name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("broker-failover-{}-{name}.pem", std::process::id()));
        std::fs::write(&path, &self.pem).expect("a temporary file");
        self.files.borrow_mut().push(path.clone());
        path
    }

    /// A server with a certificate for `name`, valid in these days.
    pub fn server(&self, name: &str, days: Days) -> Arc<ServerConfig> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let today = broker_failover::supervisor::clock::wall() / 1_000_000_000;
        let day = |offset: i64| {
            let shift = DAY * u32::try_from(offset.unsigned_abs()).expect("a few years");
            let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(today);
            if offset < 0 { now - shift } else { now + shift }
        };
        params.not_before = day(days.start);
        params.not_after = day(days.end);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a server");
        Arc::new(config)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for file in self.files.get_mut().iter() {
            let _ = std::fs::remove_file(file);
        }
    }
}
