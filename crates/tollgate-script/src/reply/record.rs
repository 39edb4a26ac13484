//! `record` of a reply: the values of a row, in the order of their columns.

use std::iter;

use super::reader::{Reader, Result, key_text, reply};
use crate::record::{FieldValue, RecordValues};
use crate::sys::raw::RawValue;

impl Reader<'_> {
    pub(crate) fn record(&self, value: RawValue<'_>) -> Result<RecordValues> {
        // Each value is created separately. Copies of one value would cost more, because `clone` inspects the
        // value.
        let values = iter::repeat_with(|| FieldValue::Nil).take(self.columns.len()).collect();
        let mut record = RecordValues { values, whole: None, unknown: Vec::new() };
        let table = match value {
            RawValue::Table(table) => table,
            RawValue::Nil => return Ok(record),
            other => return Err(reply(format!("reply.record is a {}: allowed is a table", other.kind()))),
        };
        if self.whole {
            record.whole = Some(self.json("reply.record", value, text_of)?);
        }
        if self.columns.len() > 0 || !self.whole {
            let mut left = self.reply_bytes_max;
            table.each(|key, value| {
                self.record_item(&mut record, key, value, &mut left);
                Ok(())
            })?;
        }
        record.unknown.sort_unstable();
        if !record.unknown.is_empty() {
            // The reject keeps the whole record. If the record is not JSON, the reject has only the unknown
            // keys.
            record.whole = self.json("reply.record", value, text_of).ok();
        }
        Ok(record)
    }

    /// Adds one key to the record. `left` is the number of bytes that further texts of this record may have.
    fn record_item(
        &self,
        record: &mut RecordValues,
        key: RawValue<'_>,
        value: RawValue<'_>,
        left: &mut usize,
    ) {
        let index = match key {
            RawValue::Text(name) => self.columns.position(name),
            _ => None,
        };
        match index {
            Some(index) => record.values[index] = self.field_value(value, left),
            None if !self.whole && record.unknown.len() < UNKNOWN_MAX => {
                record.unknown.push(key_text(&key));
            }
            None => {}
        }
    }

    fn field_value(&self, value: RawValue<'_>, left: &mut usize) -> FieldValue {
        match value {
            RawValue::Nil | RawValue::Null => FieldValue::Nil,
            RawValue::Boolean(flag) => FieldValue::Bool(flag),
            RawValue::Integer(number) => FieldValue::Int(number),
            RawValue::Number(number) => FieldValue::Float(number),
            RawValue::Text(bytes) | RawValue::Buffer(bytes) => match self.take(bytes.len(), left) {
                Ok(()) => FieldValue::Text(bytes.to_vec()),
                Err(unfit) => unfit,
            },
            RawValue::Table(_) => {
                match self.encode(value, |json| self.take(json.len(), left).map(|()| text_of(json))) {
                    Ok(Ok(json)) => FieldValue::Json(json),
                    Ok(Err(unfit)) => unfit,
                    Err(fault) => FieldValue::Unfit(fault.in_words("value")),
                }
            }
            RawValue::Other(kind) => FieldValue::Unfit(format!("a {kind} cannot be recorded")),
        }
    }

    /// Subtracts the bytes of a text from `left`. The limit matters because a script may use one long text
    /// for many columns.
    fn take(&self, bytes: usize, left: &mut usize) -> std::result::Result<(), FieldValue> {
        *left = left.checked_sub(bytes).ok_or_else(|| {
            FieldValue::Unfit(format!(
                "texts of the record exceed limit: the next text has {bytes} bytes, limit {} bytes",
                self.reply_bytes_max
            ))
        })?;
        Ok(())
    }
}

fn text_of(json: &[u8]) -> String {
    std::str::from_utf8(json).unwrap_or_default().to_owned()
}

const UNKNOWN_MAX: usize = 32;
