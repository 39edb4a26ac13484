//! Decodes JSON text as Luau values: a recursive descent over bytes, as strict as RFC 8259.
//!
//! Bytes that are not UTF-8 and half surrogates never spoil a text: U+FFFD replaces them. A byte order mark
//! at the front is skipped (RFC 8259 section 8.1).

use mlua::{Lua, LuaString, Table, Value};

use crate::budget::Budget;
use crate::conversion::{self, DEPTH_MAX, DecodeError};
use crate::marks::Marks;
use crate::memory::check_memory;
use crate::text::utf8;

type Result<T> = std::result::Result<T, DecodeError>;

/// Decodes a text for a script, and returns the value, or nil and the reason.
///
/// # Errors
/// A budget of the call is used up. A malformed text is a result, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    marks: &Marks,
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    conversion::answer(lua, decode(lua, text, marks, budget, memory_max))
}

/// Decodes the whole of `text`. Call this without a memory limit, because it checks growth against
/// `memory_max`.
///
/// # Errors
/// `Text` names the position of the faulty byte, counted from 1.
fn decode(lua: &Lua, text: &[u8], marks: &Marks, budget: &Budget, memory_max: usize) -> Result<Value> {
    let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let is_utf8 = std::str::from_utf8(text).is_ok();
    let (depth, values, buffer) = (0, 0, Vec::new());
    let mut decoder = Decoder { lua, text, is_utf8, at, depth, marks, budget, memory_max, values, buffer };
    let value = decoder.value()?;
    decoder.skip_space();
    if decoder.at < text.len() {
        return decoder.fail("text continues after the value");
    }
    match value {
        Decoded::Value(value) => Ok(value),
        Decoded::Wide(_) => Err(DecodeError::Text(
            "the text is an integer beyond 2^53, allowed is one inside a table".to_owned(),
        )),
    }
}

enum Decoded {
    Value(Value),
    /// The digits of an integer beyond 2^53. Luau code creates the integer, because mlua would turn an
    /// integer from Rust into a double.
    Wide(String),
}

impl From<Value> for Decoded {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    is_utf8: bool,
    at: usize,
    depth: usize,
    marks: &'a Marks,
    budget: &'a Budget,
    memory_max: usize,
    values: usize,
    buffer: Vec<u8>,
}

impl Decoder<'_> {
    fn fail<T>(&self, reason: &str) -> Result<T> {
        Err(DecodeError::Text(format!("{reason} at byte {}", self.at + 1)))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Decoded> {
        self.check_budgets()?;
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::String(self.lua_string()?).into()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Boolean(true)),
            Some(b'f') => self.word("false", Value::Boolean(false)),
            Some(b'n') => self.word("null", Value::NULL),
            Some(_) => self.fail("expected a value"),
            None => self.fail("text ends where a value is expected"),
        }
    }

    /// Checks the budget and the memory once every [`VALUES_PER_CHECK`] values, because a check for each
    /// value costs too much.
    fn check_budgets(&mut self) -> Result<()> {
        let is_turn = self.values.is_multiple_of(VALUES_PER_CHECK);
        self.values += 1;
        if !is_turn {
            return Ok(());
        }
        check_memory(self.lua, 0, self.memory_max)?;
        if self.budget.is_exhausted() {
            return Err(mlua::Error::runtime("cpu budget of the call is used up").into());
        }
        Ok(())
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Table>) -> Result<Decoded> {
        if self.depth == DEPTH_MAX {
            return self.fail(&format!("values are nested deeper than {DEPTH_MAX}"));
        }
        self.depth += 1;
        self.at += 1;
        let table = read(self)?;
        self.depth -= 1;
        Ok(Value::Table(table).into())
    }

    fn array(&mut self) -> Result<Table> {
        let table = self.lua.create_table()?;
        self.skip_space();
        if self.take(b']') {
            table.set_metatable(Some(self.marks.array.clone()))?;
            return Ok(table);
        }
        for index in 1.. {
            match self.value()? {
                Decoded::Value(value) => table.raw_seti(index, value)?,
                Decoded::Wide(digits) => self.marks.store_integer.call::<()>((&table, index, digits))?,
            }
            self.skip_space();
            if self.take(b']') {
                break;
            }
            if !self.take(b',') {
                return self.fail("expected ',' or ']'");
            }
        }
        Ok(table)
    }

    fn object(&mut self) -> Result<Table> {
        let table = self.lua.create_table()?;
        self.skip_space();
        if self.take(b'}') {
            return Ok(table);
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.fail("expected a key in double quotes");
            }
            let key = self.lua_string()?;
            self.skip_space();
            if !self.take(b':') {
                return self.fail("expected ':'");
            }
            match self.value()? {
                Decoded::Value(value) => table.raw_set(key, value)?,
                Decoded::Wide(digits) => self.marks.store_integer.call::<()>((&table, key, digits))?,
            }
            self.skip_space();
            if self.take(b'}') {
                return Ok(table);
            }
            if !self.take(b',') {
                return self.fail("expected ',' or '}'");
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Decoded> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        Ok(value.into())
    }

    /// Reads a string as a string of Luau, in UTF-8.
    fn lua_string(&mut self) -> Result<LuaString> {
        let (lua, is_utf8) = (self.lua, self.is_utf8);
        let bytes = self.string()?;
        let text = if is_utf8 { bytes.into() } else { utf8(bytes) };
        Ok(lua.create_string(text)?)
    }

    /// Reads a string. Returns a slice of the text if it has no escapes, and a slice of the buffer otherwise.
    fn string(&mut self) -> Result<&[u8]> {
        self.at += 1;
        let start = self.at;
        self.buffer.clear();
        loop {
            let Some(offset) =
                self.text[self.at..].iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
            else {
                self.at = self.text.len();
                return self.fail("string does not end");
            };
            let run = self.at..self.at + offset;
            self.at = run.end;
            match self.text[self.at] {
                b'"' => {
                    self.at += 1;
                    if self.buffer.is_empty() {
                        return Ok(&self.text[start..run.end]);
                    }
                    self.buffer.extend_from_slice(&self.text[run]);
                    return Ok(&self.buffer);
                }
                b'\\' => {
                    self.buffer.extend_from_slice(&self.text[run]);
                    self.at += 1;
                    self.escape()?;
                }
                _ => return self.fail("control character in a string"),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let letter = self.unicode_escape()?;
                self.buffer.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return self.fail("unknown escape in a string"),
        };
        self.at += 1;
        self.buffer.push(plain);
        Ok(())
    }

    /// Reads four digits after `\u`, and the second half of a surrogate pair. A half without the other half
    /// is U+FFFD.
    fn unicode_escape(&mut self) -> Result<char> {
        let code = self.four_digits()?;
        if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
            let after_high = self.at;
            self.at += 2;
            let low = self.four_digits()?;
            if (0xdc00..0xe000).contains(&low) {
                let pair = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // The second escape is a character of its own.
            self.at = after_high;
        }
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32> {
        let digits =
            self.text.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(code) = code else { return self.fail("expected four hexadecimal digits") };
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Decoded> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return self.fail("expected a digit");
        }
        let is_integer = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if self.take(b'.') && self.digits() == 0 {
            return self.fail("expected a digit");
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let _signed = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                return self.fail("expected a digit");
            }
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        if is_integer { self.integer(text) } else { self.float(text) }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn integer(&self, text: &str) -> Result<Decoded> {
        match text.parse::<i64>() {
            Ok(number) if number.unsigned_abs() <= EXACT_MAX => Ok(Value::Integer(number).into()),
            Ok(_) => Ok(Decoded::Wide(text.to_owned())),
            // Luau has no integer beyond 64 bits. The nearest double is kept instead.
            Err(_) => self.float(text),
        }
    }

    fn float(&self, text: &str) -> Result<Decoded> {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Number(number).into()),
            _ => self.fail("number exceeds a 64-bit float"),
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Luau numbers represent integers up to 2^53 exactly.
const EXACT_MAX: u64 = 1 << 53;
const VALUES_PER_CHECK: usize = 64;
