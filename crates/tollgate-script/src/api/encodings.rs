//! `tollgate.base64` and `tollgate.hex`: encode bytes as text, and decode such text (RFC 4648).
//!
//! A malformed text is a result: nil and the reason. The memory of the call bounds each result before it is
//! created.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use mlua::{Lua, Table, Value};

use crate::arguments::{bytes_of, close};
use crate::memory::{check_memory, watched};

/// A value and nil, or nil and the reason why there is no value.
pub(super) type ValueOrReason = (Value, Value);

/// Creates the table `tollgate.base64`.
pub(super) fn install_base64(lua: &Lua) -> mlua::Result<Table> {
    let base64 = lua.create_table()?;
    encoder(lua, &base64, "encode", "tollgate.base64.encode", &STANDARD)?;
    decoder(lua, &base64, "decode", "tollgate.base64.decode", &STANDARD)?;
    encoder(lua, &base64, "encode_url", "tollgate.base64.encode_url", &URL)?;
    decoder(lua, &base64, "decode_url", "tollgate.base64.decode_url", &URL)?;
    close(lua, "tollgate.base64", &base64)?;
    Ok(base64)
}

fn encoder(
    lua: &Lua,
    table: &Table,
    name: &str,
    path: &'static str,
    engine: &'static GeneralPurpose,
) -> mlua::Result<()> {
    let encode = move |lua: &Lua, data: Value| {
        watched(lua, |memory_max| {
            bytes_of(path, &data, |data| {
                check_memory(lua, data.len().div_ceil(3).saturating_mul(4), memory_max)?;
                lua.create_string(engine.encode(data))
            })
        })
    };
    table.raw_set(name, lua.create_function(encode)?)
}

fn decoder(
    lua: &Lua,
    table: &Table,
    name: &str,
    path: &'static str,
    engine: &'static GeneralPurpose,
) -> mlua::Result<()> {
    let decode = move |lua: &Lua, text: Value| {
        watched(lua, |memory_max| {
            bytes_of(path, &text, |text| {
                check_memory(lua, text.len(), memory_max)?;
                let decoded = engine.decode(text);
                answer(lua, decoded.map_err(|error| format!("text is not base64: {}", in_words(&error))))
            })
        })
    };
    table.raw_set(name, lua.create_function(decode)?)
}

fn in_words(error: &base64::DecodeError) -> String {
    let text = error.to_string();
    text.trim_end_matches('.').to_lowercase()
}

/// Creates the table `tollgate.hex`.
pub(super) fn install_hex(lua: &Lua) -> mlua::Result<Table> {
    let hex = lua.create_table()?;
    let encode = |lua: &Lua, data: Value| {
        watched(lua, |memory_max| {
            bytes_of("tollgate.hex.encode", &data, |data| {
                check_memory(lua, data.len().saturating_mul(2), memory_max)?;
                lua.create_string(to_hex(data))
            })
        })
    };
    hex.raw_set("encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, text: Value| {
        watched(lua, |memory_max| {
            bytes_of("tollgate.hex.decode", &text, |text| {
                check_memory(lua, text.len() / 2, memory_max)?;
                answer(lua, from_hex(text))
            })
        })
    };
    hex.raw_set("decode", lua.create_function(decode)?)?;
    close(lua, "tollgate.hex", &hex)?;
    Ok(hex)
}

fn to_hex(data: &[u8]) -> Vec<u8> {
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    data.iter().flat_map(digits).collect()
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("text is not hex: {} digits, which is odd", text.len()));
    }
    let digit = |at: usize| {
        let digit = char::from(text[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        digit.ok_or_else(|| format!("text is not hex at byte {}", at + 1))
    };
    (0..text.len()).step_by(2).map(|at| Ok(digit(at)? << 4 | digit(at + 1)?)).collect()
}

/// Returns the decoded bytes to a script, or nil and the reason.
pub(super) fn answer(lua: &Lua, decoded: Result<impl AsRef<[u8]>, String>) -> mlua::Result<ValueOrReason> {
    match decoded {
        Ok(bytes) => Ok((Value::String(lua.create_string(bytes)?), Value::Nil)),
        Err(reason) => Ok((Value::Nil, Value::String(lua.create_string(reason)?))),
    }
}

/// Padding is optional when decoding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
static STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
static URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT.with_encode_padding(false));
const DIGITS: &[u8; 16] = b"0123456789abcdef";
