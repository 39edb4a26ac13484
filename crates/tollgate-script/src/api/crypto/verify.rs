//! `tollgate.crypto.verify`: signatures by public keys.

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value};
use tollgate_signature::{Algorithm, Curve, Form, Jwk, PublicKey, Sha2, VerifyError};

use crate::arguments::{bytes_of, text, unfit};
use crate::budget::Budget;
use crate::error::shown;
use crate::memory::unlimited;
use crate::nearest::hint;

/// Creates the function. Its arguments are the algorithm, the key, the data and the signature.
pub(super) fn function(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Function> {
    let budget = Rc::clone(budget);
    lua.create_function(move |lua, (name, key, data, signature): (Value, Value, Value, Value)| {
        unlimited(lua, || {
            let algorithm = algorithm(&name)?;
            let key = public_key(&key)?;
            if budget.is_exhausted() {
                return Err(mlua::Error::runtime("cpu budget of the call is used up"));
            }
            let holds = bytes_of(&what("data"), &data, |data| {
                bytes_of(&what("signature"), &signature, |signature| {
                    check_length(data)?;
                    Ok(key.verify(algorithm, data, signature))
                })
            })?;
            match holds {
                Ok(()) => Ok(true),
                Err(VerifyError::Mismatch) => Ok(false),
                Err(error @ VerifyError::KeyKind { .. }) => Err(failed("key", &error)),
            }
        })
    })
}

fn what(argument: &str) -> String {
    format!("{argument} of tollgate.crypto.verify")
}

fn failed(argument: &str, error: &dyn std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(format!("{}: {error}", what(argument)))
}

/// The data is hashed in one piece, so its length is bounded in place of the time.
fn check_length(data: &[u8]) -> mlua::Result<()> {
    let bytes = data.len();
    match bytes > DATA_BYTES_MAX {
        true => Err(failed("data", &format_args!("it has {bytes} bytes, limit {DATA_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
}

fn algorithm(name: &Value) -> mlua::Result<Algorithm> {
    let name = text(&what("algorithm"), name)?;
    let found = ALGORITHMS.iter().find(|(known, _)| known.as_bytes() == &*name);
    found.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
        let name = shown(&name);
        let names: Vec<_> = ALGORITHMS.iter().map(|(known, _)| *known).collect();
        let hint = hint(&name, names.iter().copied());
        let allowed = names.join(", ");
        failed("algorithm", &format_args!("it is \"{name}\": allowed are {allowed}{hint}"))
    })
}

/// Reads a key: PEM, the 32 bytes of an Ed25519 key, or the table of a JWK.
fn public_key(key: &Value) -> mlua::Result<PublicKey> {
    let found = match key {
        Value::String(text) if text.as_bytes().len() == ED25519_BYTES => {
            PublicKey::from_ed25519(&text.as_bytes())
        }
        Value::String(text) => PublicKey::all_from_pem(&text.as_bytes()).map(|mut keys| keys.swap_remove(0)),
        Value::Table(jwk) => return from_jwk(jwk),
        other => return Err(unfit(&what("key"), other, "a string in PEM, a JWK as a table")),
    };
    found.map_err(|error| failed("key", &error))
}

fn from_jwk(table: &Table) -> mlua::Result<PublicKey> {
    let member = |name: &str| match table.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    };
    let [kty, crv, n, e, x, y] = ["kty", "crv", "n", "e", "x", "y"].map(member);
    let jwk = Jwk {
        kty: kty.as_deref().unwrap_or_default(),
        crv: crv.as_deref(),
        n: n.as_deref(),
        e: e.as_deref(),
        x: x.as_deref(),
        y: y.as_deref(),
    };
    PublicKey::from_jwk(&jwk).map_err(|error| failed("key", &error))
}

const ALGORITHMS: [(&str, Algorithm); 11] = [
    ("ed25519", Algorithm::Ed25519),
    ("ecdsa-p256", Algorithm::Ecdsa(Curve::P256, Form::Der)),
    ("ecdsa-p256-fixed", Algorithm::Ecdsa(Curve::P256, Form::Fixed)),
    ("ecdsa-p384", Algorithm::Ecdsa(Curve::P384, Form::Der)),
    ("ecdsa-p384-fixed", Algorithm::Ecdsa(Curve::P384, Form::Fixed)),
    ("rsa-sha256", Algorithm::RsaPkcs1(Sha2::Sha256)),
    ("rsa-sha384", Algorithm::RsaPkcs1(Sha2::Sha384)),
    ("rsa-sha512", Algorithm::RsaPkcs1(Sha2::Sha512)),
    ("rsa-pss-sha256", Algorithm::RsaPss(Sha2::Sha256)),
    ("rsa-pss-sha384", Algorithm::RsaPss(Sha2::Sha384)),
    ("rsa-pss-sha512", Algorithm::RsaPss(Sha2::Sha512)),
];

const DATA_BYTES_MAX: usize = 1 << 20;
const ED25519_BYTES: usize = 32;
