//! Answers for Luau values as JSON text.

use std::io::Write as _;

use mlua::{Table, Value};

use super::DEPTH_MAX;
use crate::api::Marks;
use crate::budget::Budget;
use crate::error::shown;

/// Writes values into one buffer. After a fault the buffer holds a part and is of no use.
pub(crate) struct Encoder<'a> {
    out: Vec<u8>,
    bytes_max: usize,
    marks: &'a Marks,
    budget: &'a Budget,
    depth: usize,
    /// The members of all objects that are open, the innermost last.
    members: Vec<Member>,
    scratch: Vec<u8>,
}

/// Where `"key":value,` stands in the output.
struct Member {
    start: usize,
    key_end: usize,
    end: usize,
}

/// Why a value cannot be had as JSON, and where in it.
#[derive(Debug)]
pub(crate) struct Fault {
    path: String,
    reason: String,
}

impl Fault {
    #[cold]
    fn new(reason: impl Into<String>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    #[cold]
    fn below(mut self, step: &str) -> Self {
        if self.path.len() < PATH_BYTES_MAX {
            self.path.insert_str(0, step);
        }
        self
    }

    /// Names `what`, the path in it and the reason.
    pub(crate) fn in_words(&self, what: &str) -> String {
        format!("{what}{}: {}", self.path, self.reason)
    }
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(out: Vec<u8>, bytes_max: usize, marks: &'a Marks, budget: &'a Budget) -> Self {
        Self { out, bytes_max, marks, budget, depth: 0, members: Vec::new(), scratch: Vec::new() }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Appends `value`.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Table(table) => self.table(table)?,
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(number) => self.integer(*number),
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            other if *other == Value::NULL => self.out.extend_from_slice(b"null"),
            other => return Err(Fault::new(format!("a {} has no form in JSON", other.type_name()))),
        }
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Fault> {
        if self.out.len() > self.bytes_max {
            return Err(Fault::new(format!("JSON exceeds limit: {} bytes", self.bytes_max)));
        }
        Ok(())
    }

    fn integer(&mut self, number: i64) {
        // A Vec takes every write.
        let _ = write!(self.out, "{number}");
    }

    fn number(&mut self, number: f64) -> Result<(), Fault> {
        if !number.is_finite() {
            return Err(Fault::new(format!("{number} has no form in JSON")));
        }
        if number == 0.0 {
            self.out.push(b'0');
        } else {
            serde_json::to_writer(&mut self.out, &number).map_err(|error| Fault::new(error.to_string()))?;
        }
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| Fault::new(format!("text is not UTF-8 at byte {}", error.valid_up_to() + 1)))?;
        if bytes.len() > self.bytes_max {
            return Err(Fault::new(format!("JSON exceeds limit: {} bytes", self.bytes_max)));
        }
        self.out.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
            self.out.extend_from_slice(&rest[..at]);
            self.escaped(rest[at]);
            rest = &rest[at + 1..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
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
                let _ = write!(self.out, "\\u{byte:04x}");
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', letter]);
    }

    fn table(&mut self, table: &Table) -> Result<(), Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(format!(
                "tables are nested deeper than {DEPTH_MAX}, or contain themselves"
            )));
        }
        if self.budget.is_exhausted() {
            return Err(Fault::new("cpu budget of the call is used up"));
        }
        self.depth += 1;
        if table.raw_len() > 0 {
            self.array(table)?;
        } else {
            self.object(table)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, table: &Table) -> Result<(), Fault> {
        let start = self.out.len();
        let mut expected: i64 = 1;
        let in_order = each(table, |key, value| {
            if !matches!(key, Value::Integer(index) if *index == expected) {
                return Ok(false);
            }
            self.out.push(if expected == 1 { b'[' } else { b',' });
            self.value(value).map_err(|fault| fault.below(&format!("[{expected}]")))?;
            expected += 1;
            Ok(true)
        })?;
        if !in_order {
            // Some elements live in the hash part, where no order is.
            self.out.truncate(start);
            self.array_by_index(table)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn array_by_index(&mut self, table: &Table) -> Result<(), Fault> {
        let len = table.raw_len();
        let mut count = 0;
        each(table, |key, _| {
            count += 1;
            match key {
                Value::Integer(index)
                    if usize::try_from(*index).is_ok_and(|index| (1..=len).contains(&index)) =>
                {
                    Ok(true)
                }
                Value::Integer(index) => {
                    Err(Fault::new(format!("a list of {len} with a hole before key {index}")))
                }
                other => Err(Fault::new(format!("mixed keys: 1 and {}", key_in_words(other)))),
            }
        })?;
        if count != len {
            return Err(Fault::new(format!("a list of {len} with {} holes", len.saturating_sub(count))));
        }
        for index in 1..=len {
            self.out.push(if index == 1 { b'[' } else { b',' });
            let value: Value = table.raw_get(index).map_err(|error| Fault::new(error.to_string()))?;
            self.value(&value).map_err(|fault| fault.below(&format!("[{index}]")))?;
        }
        Ok(())
    }

    fn object(&mut self, table: &Table) -> Result<(), Fault> {
        let first = self.members.len();
        self.out.push(b'{');
        each(table, |key, value| {
            let Value::String(name) = key else {
                return Err(Fault::new(format!(
                    "key {} is neither text nor part of 1..n",
                    key_in_words(key)
                )));
            };
            let start = self.out.len();
            self.string(&name.as_bytes())?;
            let key_end = self.out.len();
            self.out.push(b':');
            self.value(value).map_err(|fault| fault.below(&step(&name.as_bytes())))?;
            self.out.push(b',');
            self.members.push(Member { start, key_end, end: self.out.len() });
            Ok(true)
        })?;
        match self.members.len() - first {
            0 if table.metatable().is_some_and(|mark| mark == self.marks.array) => {
                self.out.pop();
                self.out.extend_from_slice(b"[]");
            }
            0 => self.out.push(b'}'),
            _ => self.close_object(first),
        }
        self.members.truncate(first);
        Ok(())
    }

    /// Puts the members from `first` on in the order of their keys; the last comma becomes the brace.
    fn close_object(&mut self, first: usize) {
        let Self { out, members, scratch, .. } = self;
        let members = &mut members[first..];
        let key = |member: &Member| &out[member.start..member.key_end];
        if !members.is_sorted_by(|a, b| key(a) <= key(b)) {
            let begin = members[0].start;
            members.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            scratch.clear();
            for member in members.iter() {
                scratch.extend_from_slice(&out[member.start..member.end]);
            }
            out.truncate(begin);
            out.extend_from_slice(scratch);
        }
        if let Some(comma) = out.last_mut() {
            *comma = b'}';
        }
    }
}

/// Visits the pairs until `visit` says no, and returns whether it never did.
fn each(table: &Table, mut visit: impl FnMut(&Value, &Value) -> Result<bool, Fault>) -> Result<bool, Fault> {
    let mut end = Ok(true);
    let walked = table.for_each::<Value, Value>(|key, value| {
        end = visit(&key, &value);
        // The error only ends the walk; what happened is in `end`.
        if matches!(end, Ok(true)) { Ok(()) } else { Err(mlua::Error::StackError) }
    });
    match (end, walked) {
        (Ok(true), Err(error)) => Err(Fault::new(error.to_string())),
        (end, _) => end,
    }
}

fn step(name: &[u8]) -> String {
    format!(".{}", shown(name))
}

fn key_in_words(key: &Value) -> String {
    match key {
        Value::String(name) => format!("\"{}\"", shown(&name.as_bytes())),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        other => format!("of type {}", other.type_name()),
    }
}

const PATH_BYTES_MAX: usize = 200;
