//! Certificate authorities for `https` providers: the machine's own bundle, and the compiled-in
//! Mozilla set where there is none. Never touched for `http`.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::PathBuf;

/// Where distributions keep their bundle.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Loads the roots. `SSL_CERT_FILE` names another bundle, as for OpenSSL.
#[must_use]
pub fn load() -> RootCertStore {
    let mut store = RootCertStore::empty();
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    for path in named.into_iter().chain(BUNDLES.iter().map(PathBuf::from)) {
        let Ok(certificates) = CertificateDer::pem_file_iter(&path) else {
            continue;
        };
        let (added, _) = store.add_parsable_certificates(certificates.flatten());
        if added > 0 {
            return store;
        }
    }
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    store
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_are_always_roots() {
        assert!(super::load().len() > 50);
    }
}
