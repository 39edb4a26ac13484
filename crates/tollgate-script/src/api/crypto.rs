//! `tollgate.crypto`: digests (FIPS 180-4, RFC 1321), their HMACs (RFC 2104), random bytes of the kernel, a
//! comparison, and the verification of signatures.
//!
//! The time of the comparison does not reveal where two texts differ. Digests are raw bytes, and
//! `tollgate.hex` turns them into text. MD5 and SHA-1 are only for partners that have nothing newer.

mod verify;

use std::rc::Rc;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use mlua::{Lua, LuaString, Table, Value};
use sha1::Sha1;
use sha2::digest::Update;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

use crate::arguments::{bytes_of, close, whole_number};
use crate::budget::Budget;
use crate::memory::{check_memory, unlimited, watched};

/// Creates the table `tollgate.crypto`.
pub(super) fn install(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let crypto = lua.create_table()?;
    digest::<Md5>(lua, &crypto, "md5", budget)?;
    digest::<Sha1>(lua, &crypto, "sha1", budget)?;
    digest::<Sha224>(lua, &crypto, "sha224", budget)?;
    digest::<Sha256>(lua, &crypto, "sha256", budget)?;
    digest::<Sha384>(lua, &crypto, "sha384", budget)?;
    digest::<Sha512>(lua, &crypto, "sha512", budget)?;
    hmac::<Hmac<Md5>>(lua, &crypto, "hmac_md5", budget)?;
    hmac::<Hmac<Sha1>>(lua, &crypto, "hmac_sha1", budget)?;
    hmac::<Hmac<Sha224>>(lua, &crypto, "hmac_sha224", budget)?;
    hmac::<Hmac<Sha256>>(lua, &crypto, "hmac_sha256", budget)?;
    hmac::<Hmac<Sha384>>(lua, &crypto, "hmac_sha384", budget)?;
    hmac::<Hmac<Sha512>>(lua, &crypto, "hmac_sha512", budget)?;
    crypto.raw_set("verify", verify::function(lua, budget)?)?;
    crypto.raw_set("random", lua.create_function(|lua, count: Value| random(lua, &count))?)?;
    crypto.raw_set("equal", lua.create_function(equal)?)?;
    close(lua, "tollgate.crypto", &crypto)?;
    Ok(crypto)
}

fn digest<D: Digest + Update + 'static>(
    lua: &Lua,
    crypto: &Table,
    name: &'static str,
    budget: &Rc<Budget>,
) -> mlua::Result<()> {
    let budget = Rc::clone(budget);
    let function = move |lua: &Lua, data: Value| {
        unlimited(lua, || {
            let mut digest = D::new();
            let what = format_args!("data of tollgate.crypto.{name}").to_string();
            bytes_of(&what, &data, |data| feed(&mut digest, data, &budget))?;
            lua.create_string(digest.finalize())
        })
    };
    crypto.raw_set(name, lua.create_function(function)?)
}

fn hmac<M: Mac + KeyInit + Update + 'static>(
    lua: &Lua,
    crypto: &Table,
    name: &'static str,
    budget: &Rc<Budget>,
) -> mlua::Result<()> {
    let budget = Rc::clone(budget);
    let function = move |lua: &Lua, (key, data): (Value, Value)| {
        unlimited(lua, || {
            // HMAC accepts a key of any length, so no error is expected.
            let mac = bytes_of(&format!("key of tollgate.crypto.{name}"), &key, |key| {
                <M as KeyInit>::new_from_slice(key).map_err(|error| mlua::Error::runtime(error.to_string()))
            });
            let mut mac = mac?;
            let what = format!("data of tollgate.crypto.{name}");
            bytes_of(&what, &data, |data| feed(&mut mac, data, &budget))?;
            lua.create_string(mac.finalize().into_bytes())
        })
    };
    crypto.raw_set(name, lua.create_function(function)?)
}

/// Hashes in pieces, so that the budget of the call ends the hashing of long data.
fn feed(state: &mut impl Update, data: &[u8], budget: &Budget) -> mlua::Result<()> {
    for piece in data.chunks(PIECE_BYTES) {
        if budget.is_exhausted() {
            return Err(mlua::Error::runtime("cpu budget of the call is used up"));
        }
        state.update(piece);
    }
    Ok(())
}

fn random(lua: &Lua, count: &Value) -> mlua::Result<LuaString> {
    let count = whole_number("count of tollgate.crypto.random", count, 0..=RANDOM_BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(count).unwrap_or_default()];
    watched(lua, |memory_max| {
        check_memory(lua, bytes.len(), memory_max)?;
        getrandom::fill(&mut bytes)
            .map_err(|error| mlua::Error::runtime(format!("no random bytes: {error}")))?;
        lua.create_string(&bytes)
    })
}

/// Compares two texts. Texts of different lengths return at once, because lengths are not secret.
fn equal(_: &Lua, (one, other): (Value, Value)) -> mlua::Result<bool> {
    let what = "argument of tollgate.crypto.equal";
    bytes_of(what, &one, |one| bytes_of(what, &other, |other| Ok(one.ct_eq(other).into())))
}

const PIECE_BYTES: usize = 64 << 10;
const RANDOM_BYTES_MAX: i64 = 64 << 10;
