//! The keys that verify tokens: from PEM, from a JWK Set (RFC 7517), or one shared secret.

use std::fmt;

use serde_json::{Map, Value};
use tollgate_signature::{Algorithm, Curve, Form, Hash, Hmac, Jwk, KeyKind, PublicKey, Sha2};

use super::fault::JwtFault;
use super::header::{Header, JwsAlgorithm};

/// Maximum number of keys in a set.
const KEYS_MAX: usize = 100;
/// Maximum number of keys that are tried for a token without `kid`, because each try costs processor time.
const TRIES_MAX: usize = 4;
/// RFC 7518 section 3.2: a key for HS256 has at least 256 bits.
const SECRET_BYTES_MIN: usize = 32;

/// The keys that verify tokens. `Debug` shows no key.
#[derive(Clone)]
pub struct KeySet(Vec<Key>);

#[derive(Clone)]
struct Key {
    kid: Option<String>,
    /// The only algorithm of the key, if its JWK names one.
    algorithm: Option<JwsAlgorithm>,
    material: Material,
}

#[derive(Clone)]
enum Material {
    Public(PublicKey),
    Secret(Vec<u8>),
}

/// Reason why a text is not a usable set of keys. No text contains a part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeySetFault(String);

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({})", self.0.len())
    }
}

impl KeySet {
    /// Makes a set of one shared secret, for HS256.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn from_secret(secret: &[u8]) -> Result<Self, KeySetFault> {
        if secret.len() < SECRET_BYTES_MIN {
            let text =
                format!("the secret has {} bytes, allowed are at least {SECRET_BYTES_MIN}", secret.len());
            return Err(KeySetFault(text));
        }
        let material = Material::Secret(secret.to_vec());
        Ok(Self(vec![Key { kid: None, algorithm: None, material }]))
    }

    /// Reads a file: PEM with public keys or certificates, or a JWK Set.
    ///
    /// # Errors
    /// The file has no usable key, or a key that no algorithm here uses, or a private key.
    pub fn from_file(text: &str) -> Result<Self, KeySetFault> {
        if text.trim_start().starts_with('{') {
            return Self::from_jwks(text, Unusable::Refused);
        }
        let keys =
            PublicKey::all_from_pem(text.as_bytes()).map_err(|error| KeySetFault(error.to_string()))?;
        let keys = keys.into_iter().map(|key| Ok(Key { kid: None, algorithm: None, material: usable(key)? }));
        Self::bounded(keys.collect::<Result<_, _>>()?)
    }

    /// Reads a JWK Set that an issuer publishes. Keys of unknown kinds or for other uses are left out (RFC
    /// 7517 section 5).
    ///
    /// # Errors
    /// The text is no JWK Set, or no key in it is usable.
    pub fn from_issuer(text: &str) -> Result<Self, KeySetFault> {
        Self::from_jwks(text, Unusable::LeftOut)
    }

    fn from_jwks(text: &str, unusable: Unusable) -> Result<Self, KeySetFault> {
        let no_set = || KeySetFault("it is not a JWK Set: expected {\"keys\": [...]}".to_owned());
        let set: Map<String, Value> = serde_json::from_str(text).map_err(|_| no_set())?;
        let jwks = set.get("keys").and_then(Value::as_array).ok_or_else(no_set)?;
        let mut keys = Vec::new();
        for (index, jwk) in jwks.iter().enumerate() {
            match key_of(jwk) {
                Ok(key) => keys.push(key),
                Err(fault) if unusable == Unusable::Refused => {
                    return Err(KeySetFault(format!("key {}: {fault}", index + 1)));
                }
                Err(_) => {}
            }
        }
        Self::bounded(keys)
    }

    fn bounded(keys: Vec<Key>) -> Result<Self, KeySetFault> {
        let unnamed = keys.iter().filter(|key| key.kid.is_none()).count();
        if unnamed > TRIES_MAX {
            // A key after the bound would never be tried.
            let text = format!(
                "it has {unnamed} keys without kid, limit {TRIES_MAX}: use a JWK Set with kid members"
            );
            return Err(KeySetFault(text));
        }
        match keys.len() {
            0 => Err(KeySetFault(format!("it has no usable key: {USABLE}"))),
            1..=KEYS_MAX => Ok(Self(keys)),
            count => Err(KeySetFault(format!("it has {count} keys, limit {KEYS_MAX}"))),
        }
    }

    /// Verifies a signature by the keys that the header may mean.
    pub(super) fn verify(&self, header: &Header, signed: &[u8], signature: &[u8]) -> Result<(), JwtFault> {
        let meant: Vec<_> = self.meant(header.kid.as_deref());
        if meant.is_empty() {
            return Err(JwtFault::UnknownKey);
        }
        let mut fitting =
            meant.into_iter().filter(|key| key.takes(header.algorithm)).take(TRIES_MAX).peekable();
        fitting.peek().ok_or(JwtFault::Algorithm)?;
        let holds = fitting.any(|key| key.material.verify(header.algorithm, signed, signature));
        if holds { Ok(()) } else { Err(JwtFault::Signature) }
    }

    /// Returns the keys that `kid` may mean. Keys from PEM have no `kid`, so any `kid` may mean them.
    fn meant(&self, kid: Option<&str>) -> Vec<&Key> {
        let Some(kid) = kid else { return self.0.iter().collect() };
        let named: Vec<_> = self.0.iter().filter(|key| key.kid.as_deref() == Some(kid)).collect();
        if named.is_empty() { self.0.iter().filter(|key| key.kid.is_none()).collect() } else { named }
    }
}

/// What a key means that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unusable {
    Refused,
    LeftOut,
}

const USABLE: &str = "allowed are RSA, P-256 and Ed25519";

impl Key {
    /// Returns whether the key verifies this algorithm. The kind of the key decides, so a token cannot make
    /// an RSA key a secret of HS256.
    fn takes(&self, algorithm: JwsAlgorithm) -> bool {
        let is_own = self.algorithm.is_none_or(|own| own == algorithm);
        is_own
            && match (&self.material, algorithm) {
                (Material::Secret(_), JwsAlgorithm::Hs256) => true,
                (Material::Public(key), _) => {
                    signature_algorithm(algorithm).is_some_and(|needed| needed.key_kind() == key.kind())
                }
                (Material::Secret(_), _) => false,
            }
    }
}

impl Material {
    fn verify(&self, algorithm: JwsAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        match (self, signature_algorithm(algorithm)) {
            (Self::Public(key), Some(algorithm)) => key.verify(algorithm, signed, signature).is_ok(),
            (Self::Secret(secret), None) => {
                let mut hmac = Hmac::new(Hash::Sha256, secret);
                hmac.update(signed);
                hmac.matches(signature)
            }
            _ => false,
        }
    }
}

/// Returns the algorithm of a public key. Returns `None` for HS256.
fn signature_algorithm(algorithm: JwsAlgorithm) -> Option<Algorithm> {
    match algorithm {
        JwsAlgorithm::Rs256 => Some(Algorithm::RsaPkcs1(Sha2::Sha256)),
        JwsAlgorithm::Ps256 => Some(Algorithm::RsaPss(Sha2::Sha256)),
        JwsAlgorithm::Es256 => Some(Algorithm::Ecdsa(Curve::P256, Form::Fixed)),
        JwsAlgorithm::EdDsa => Some(Algorithm::Ed25519),
        JwsAlgorithm::Hs256 => None,
    }
}

fn usable(key: PublicKey) -> Result<Material, KeySetFault> {
    match key.kind() {
        KeyKind::Rsa | KeyKind::Ec(Curve::P256) | KeyKind::Ed25519 => Ok(Material::Public(key)),
        KeyKind::Ec(Curve::P384) => Err(KeySetFault(format!("the key is {}: {USABLE}", key.kind()))),
    }
}

/// Reads one JWK.
fn key_of(jwk: &Value) -> Result<Key, KeySetFault> {
    let fault = |text: &str| KeySetFault(text.to_owned());
    let member = |name: &str| jwk.get(name).and_then(Value::as_str);
    if jwk.get("d").is_some() || member("kty") == Some("oct") {
        return Err(fault("it is a private or secret key: only public keys belong here"));
    }
    if member("use").is_some_and(|purpose| purpose != "sig") {
        return Err(fault("its use is not sig"));
    }
    let may_verify = |all: &Vec<Value>| all.iter().any(|operation| operation == "verify");
    if jwk.get("key_ops").and_then(Value::as_array).is_some_and(|all| !may_verify(all)) {
        return Err(fault("its key_ops has no verify"));
    }
    let algorithm = match member("alg") {
        None => None,
        Some(name) => {
            let known = JwsAlgorithm::from_name(name).filter(|known| *known != JwsAlgorithm::Hs256);
            Some(known.ok_or_else(|| fault("its alg is none of RS256, PS256, ES256, EdDSA"))?)
        }
    };
    let kty = member("kty").ok_or_else(|| fault("it has no kty"))?;
    let parts =
        Jwk { kty, crv: member("crv"), n: member("n"), e: member("e"), x: member("x"), y: member("y") };
    let key = PublicKey::from_jwk(&parts).map_err(|error| KeySetFault(error.to_string()))?;
    let key = Key { kid: member("kid").map(str::to_owned), algorithm, material: usable(key)? };
    match algorithm {
        Some(algorithm) if !key.takes(algorithm) => Err(fault("its alg belongs to another kty")),
        _ => Ok(key),
    }
}
