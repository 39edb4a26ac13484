//! Signed requests of ACME (RFC 7515, RFC 8555 section 6.2), for the registration of an account.
//!
//! `instant-acme` signs all other requests. It makes the key of a registration with an external account
//! itself, so a kill between the registration and the write of the key would lose the account.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::error::Unspecified;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::options::ExternalAccount;

/// The key of an account: ECDSA with P-256.
pub(crate) struct AccountKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl AccountKey {
    /// Makes a key, and returns its PKCS #8 bytes.
    pub(crate) fn generate() -> Result<Vec<u8>, Unspecified> {
        let bytes = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())?;
        Ok(bytes.as_ref().to_vec())
    }

    /// Reads a key. `None`: the bytes are no key.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random).ok()?;
        Some(Self { pair, random })
    }

    /// Returns the public key as a JWK (RFC 7517).
    fn public(&self) -> Value {
        // An uncompressed point: a byte 4, and two coordinates of 32 bytes.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y) })
    }

    /// Signs a request that names the account by its public key.
    pub(crate) fn sign(&self, nonce: &str, url: &str, payload: &Value) -> Result<Value, Unspecified> {
        let head = json!({ "alg": "ES256", "jwk": self.public(), "nonce": nonce, "url": url });
        let parts = [&head, payload].map(|part| encoded(part.to_string().as_bytes()));
        let signature = self.pair.sign(&self.random, parts.join(".").as_bytes())?;
        Ok(joined(&parts, signature.as_ref()))
    }

    /// Binds the key to an external account (RFC 8555 section 7.3.4).
    pub(crate) fn bind(&self, account: &ExternalAccount, url: &str) -> Value {
        let head = json!({ "alg": "HS256", "kid": account.key_id, "url": url });
        let parts = [&head, &self.public()].map(|part| encoded(part.to_string().as_bytes()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, &account.hmac_key);
        joined(&parts, hmac::sign(&key, parts.join(".").as_bytes()).as_ref())
    }
}

fn joined([head, payload]: &[String; 2], signature: &[u8]) -> Value {
    json!({ "protected": head, "payload": payload, "signature": encoded(signature) })
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
