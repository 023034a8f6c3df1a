//! The secrets of one attempt to log in: proof key (RFC 7636) and state.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// What ties the answer of a browser to the attempt that asked for it.
pub struct Attempt {
    /// Sent with the code; 64 characters.
    pub verifier: String,
    /// Comes back with the code.
    pub state: String,
}

impl Attempt {
    /// From the system's random numbers.
    #[must_use]
    pub fn new() -> Self {
        let random: Vec<u8> = (0..3).flat_map(|_| Uuid::new_v4().into_bytes()).collect();
        Self {
            verifier: URL_SAFE_NO_PAD.encode(random),
            state: URL_SAFE_NO_PAD.encode([Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat()),
        }
    }

    /// What is shown in the address, by method S256.
    #[must_use]
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

impl Default for Attempt {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_the_one_of_the_standard() {
        let attempt = Attempt {
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into(),
            state: String::new(),
        };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (Attempt::new(), Attempt::new());
        assert!(one.verifier != other.verifier && one.state != other.state);
        assert_eq!(one.verifier.len(), 64);
    }
}
