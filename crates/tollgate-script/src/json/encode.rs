//! Encodes Luau values as JSON text.

use crate::budget::Budget;
use crate::conversion::{DEPTH_MAX, EncodeError};
use crate::error::shown;
use crate::marks::Marks;
use crate::sys::raw::{RawTable, RawValue};
use crate::text::utf8;

/// Buffers of an encoder, reused for the next values.
#[derive(Default)]
pub(crate) struct Scratch {
    out: Vec<u8>,
    /// The members of all open objects, the innermost last.
    members: Vec<Member>,
    sorted: Vec<u8>,
}

/// Encodes one value as text.
pub(crate) struct Encoder<'a> {
    scratch: &'a mut Scratch,
    bytes_max: usize,
    marks: &'a Marks,
    budget: &'a Budget,
    depth: usize,
}

/// Position of `"key":value,` in the output.
struct Member {
    start: usize,
    key_end: usize,
    end: usize,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(
        scratch: &'a mut Scratch,
        bytes_max: usize,
        marks: &'a Marks,
        budget: &'a Budget,
    ) -> Self {
        scratch.clear();
        Self { scratch, bytes_max, marks, budget, depth: 0 }
    }

    /// Returns `value` as JSON.
    pub(crate) fn encode(mut self, value: RawValue<'_>) -> Result<&'a [u8], EncodeError> {
        self.value(value)?;
        Ok(&self.scratch.out)
    }

    fn value(&mut self, value: RawValue<'_>) -> Result<(), EncodeError> {
        let out = &mut self.scratch.out;
        match value {
            RawValue::Table(table) => self.table(table)?,
            RawValue::Text(text) => self.string(text)?,
            RawValue::Integer(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            RawValue::Number(number) => self.number(number)?,
            RawValue::Boolean(true) => out.extend_from_slice(b"true"),
            RawValue::Boolean(false) => out.extend_from_slice(b"false"),
            RawValue::Nil | RawValue::Null => out.extend_from_slice(b"null"),
            other => return Err(EncodeError::new(format!("a {} cannot be encoded as JSON", other.kind()))),
        }
        self.check_size()
    }

    fn check_size(&self) -> Result<(), EncodeError> {
        if self.scratch.out.len() > self.bytes_max {
            return Err(EncodeError::new(format!("JSON exceeds limit: {} bytes", self.bytes_max)));
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), EncodeError> {
        if !number.is_finite() {
            return Err(EncodeError::new(format!("{number} cannot be encoded as JSON")));
        }
        if number == 0.0 {
            self.scratch.out.push(b'0');
        } else {
            serde_json::to_writer(&mut self.scratch.out, &number)
                .map_err(|error| EncodeError::new(error.to_string()))?;
        }
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        if bytes.len() <= PLAIN_BYTES_MAX && bytes.iter().all(|&byte| is_plain(byte)) {
            // A short text without escapes, as nearly all field names are. The caller checks the size of the
            // output.
            let out = &mut self.scratch.out;
            out.push(b'"');
            out.extend_from_slice(bytes);
            out.push(b'"');
            return Ok(());
        }
        if bytes.len() > self.bytes_max {
            return Err(EncodeError::new(format!("JSON exceeds limit: {} bytes", self.bytes_max)));
        }
        let text = utf8(bytes);
        self.scratch.out.push(b'"');
        let mut rest = &*text;
        while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
            self.scratch.out.extend_from_slice(&rest[..at]);
            self.escaped(rest[at]);
            self.check_size()?;
            rest = &rest[at + 1..];
        }
        self.scratch.out.extend_from_slice(rest);
        self.scratch.out.push(b'"');
        Ok(())
    }

    fn escaped(&mut self, byte: u8) {
        let letter = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
                self.scratch.out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                return;
            }
        };
        self.scratch.out.extend_from_slice(&[b'\\', letter]);
    }

    fn table(&mut self, table: RawTable<'_>) -> Result<(), EncodeError> {
        if self.depth == DEPTH_MAX {
            return Err(EncodeError::new(format!(
                "tables are nested deeper than {DEPTH_MAX}, or contain themselves"
            )));
        }
        if self.budget.is_exhausted() {
            return Err(EncodeError::new("cpu budget of the call is used up"));
        }
        self.depth += 1;
        if table.len() > 0 {
            self.array(table)?;
        } else {
            self.object(table)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, table: RawTable<'_>) -> Result<(), EncodeError> {
        let start = self.scratch.out.len();
        let mut expected: i64 = 1;
        let walked = table.each(|key, value| {
            if !matches!(key, RawValue::Integer(index) if index == expected) {
                return Err(Stop::OutOfOrder);
            }
            self.scratch.out.push(if expected == 1 { b'[' } else { b',' });
            self.value(value).map_err(|fault| Stop::Failed(fault.below(&format!("[{expected}]"))))?;
            expected += 1;
            Ok(())
        });
        match walked {
            Ok(()) => {}
            Err(Stop::Failed(fault)) => return Err(fault),
            Err(Stop::OutOfOrder) => {
                // A part of the elements is in the hash part of the table, which has no order.
                self.scratch.out.truncate(start);
                self.array_by_index(table)?;
            }
        }
        self.scratch.out.push(b']');
        Ok(())
    }

    fn array_by_index(&mut self, table: RawTable<'_>) -> Result<(), EncodeError> {
        let len = table.len();
        let mut count = 0;
        table.each(|key, _| {
            count += 1;
            match key {
                RawValue::Integer(index)
                    if usize::try_from(index).is_ok_and(|index| (1..=len).contains(&index)) =>
                {
                    Ok(())
                }
                RawValue::Integer(index) => {
                    Err(EncodeError::new(format!("a list of {len} with a hole before key {index}")))
                }
                other => Err(EncodeError::new(format!(
                    "a table with both list keys and the key {}",
                    key_in_words(&other)
                ))),
            }
        })?;
        if count != len {
            return Err(EncodeError::new(format!(
                "a list of {len} with {} holes",
                len.saturating_sub(count)
            )));
        }
        for index in 1..=len {
            self.scratch.out.push(if index == 1 { b'[' } else { b',' });
            let written = table.with_index(index, |value| self.value(value));
            written.map_err(|fault| fault.below(&format!("[{index}]")))?;
        }
        Ok(())
    }

    fn object(&mut self, table: RawTable<'_>) -> Result<(), EncodeError> {
        let first = self.scratch.members.len();
        self.scratch.out.push(b'{');
        table.each(|key, value| {
            let RawValue::Text(name) = key else {
                return Err(EncodeError::new(format!(
                    "key {} is neither text nor an index of a list",
                    key_in_words(&key)
                )));
            };
            let start = self.scratch.out.len();
            self.string(name)?;
            let key_end = self.scratch.out.len();
            self.scratch.out.push(b':');
            self.value(value).map_err(|fault| fault.below(&step(name)))?;
            self.scratch.out.push(b',');
            self.scratch.members.push(Member { start, key_end, end: self.scratch.out.len() });
            Ok(())
        })?;
        match self.scratch.members.len() - first {
            0 if table.has_metatable(self.marks.array_address) => {
                self.scratch.out.pop();
                self.scratch.out.extend_from_slice(b"[]");
            }
            0 => self.scratch.out.push(b'}'),
            _ => self.close_object(first),
        }
        self.scratch.members.truncate(first);
        Ok(())
    }

    /// Sorts the members from `first` on by their keys, and replaces the last comma with the brace.
    fn close_object(&mut self, first: usize) {
        let Scratch { out, members, sorted } = &mut *self.scratch;
        let members = &mut members[first..];
        let key = |member: &Member| &out[member.start..member.key_end];
        if !members.is_sorted_by(|a, b| key(a) <= key(b)) {
            let begin = members[0].start;
            members.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            sorted.clear();
            for member in members.iter() {
                sorted.extend_from_slice(&out[member.start..member.end]);
            }
            out.truncate(begin);
            out.extend_from_slice(sorted);
        }
        if let Some(comma) = out.last_mut() {
            *comma = b'}';
        }
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.out.clear();
        self.members.clear();
        self.out.shrink_to(KEPT_BYTES_MAX);
        self.sorted.shrink_to(KEPT_BYTES_MAX);
        self.members.shrink_to(KEPT_MEMBERS_MAX);
    }
}

/// Reason why a walk over an array ended early.
enum Stop {
    OutOfOrder,
    Failed(EncodeError),
}

fn step(name: &[u8]) -> String {
    format!(".{}", shown(name))
}

fn key_in_words(key: &RawValue<'_>) -> String {
    match key {
        RawValue::Text(name) => format!("\"{}\"", shown(name)),
        RawValue::Integer(number) => number.to_string(),
        RawValue::Number(number) => number.to_string(),
        other => format!("of type {}", other.kind()),
    }
}

/// Returns whether JSON text has this byte unchanged, independent of the bytes around it.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x80) && byte != b'"' && byte != b'\\'
}

/// Maximum length of a text that is checked byte by byte, in bytes. For longer texts the UTF-8 check by words
/// is faster.
const PLAIN_BYTES_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 64 << 10;
const KEPT_MEMBERS_MAX: usize = 1 << 10;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
