//! Object container files of Avro 1.11: the form of manifests and manifest lists.
//!
//! The writer encodes values by hand, for schemas of this program. The reader takes the schema of the file,
//! because another engine may have written it, and finds fields by the ids of Iceberg.

use std::io::Read;

use flate2::read::DeflateDecoder;
use serde_json::Value as Json;

const MAGIC: &[u8] = b"Obj\x01";
const MARKER_BYTES: usize = 16;
/// Nesting of a schema and of its values. Schemas of Iceberg have six levels.
const DEPTH_MAX: usize = 32;
/// Maximum parts of values for each byte of a block. A field of a file of Iceberg has two parts.
const PARTS_PER_BYTE: usize = 8;
/// Maximum bytes of a block after it is decompressed.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Encodes values.
#[derive(Debug, Default)]
pub(super) struct AvroEncoder(Vec<u8>);

impl AvroEncoder {
    pub(super) fn long(&mut self, value: i64) -> &mut Self {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.0.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(u8::from(value));
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.long(bytes.len().cast_signed() as i64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// Encodes a value of the union of null and one type.
    pub(super) fn option<T>(&mut self, value: Option<T>, encode: impl FnOnce(&mut Self, T)) -> &mut Self {
        match value {
            None => {
                self.long(0);
            }
            Some(value) => encode(self.long(1), value),
        }
        self
    }

    /// Encodes an array.
    pub(super) fn array<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut encode: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        if items.len() > 0 {
            self.long(items.len().cast_signed() as i64);
            items.for_each(|item| encode(self, item));
        }
        self.long(0)
    }
}

/// Returns a file with these values. `pairs` go into its header.
pub(super) fn write_file(
    schema: &Json,
    pairs: &[(&str, String)],
    count: usize,
    values: &AvroEncoder,
) -> Vec<u8> {
    let schema = schema.to_string();
    let own = [("avro.schema", schema.as_str()), ("avro.codec", "null")];
    let all = pairs.iter().map(|(key, value)| (*key, value.as_str())).chain(own);
    let mut file = AvroEncoder(MAGIC.to_vec());
    let all: Vec<_> = all.collect();
    file.array(all.into_iter(), |file, (key, value)| {
        file.text(key).text(value);
    });
    // The marker only finds the next block after damage.
    let marker = uuid::Uuid::from_u64_pair(getrandom::u64().unwrap_or_default(), 0x7467);
    file.0.extend_from_slice(marker.as_bytes());
    if count > 0 {
        file.long(count.cast_signed() as i64).bytes(&values.0);
        file.0.extend_from_slice(marker.as_bytes());
    }
    file.0
}

/// A value of a file. Texts are bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
    Array(Vec<Self>),
    /// The fields, each with its id of Iceberg.
    Record(Vec<(Option<i64>, Self)>),
}

impl Datum {
    /// Returns a field of a record by its id. A missing field is null.
    pub(super) fn field(&self, id: i64) -> &Self {
        let Self::Record(fields) = self else { return &Self::Null };
        fields.iter().find(|(found, _)| *found == Some(id)).map_or(&Self::Null, |(_, value)| value)
    }

    pub(super) const fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) const fn bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Why a file cannot be read.
enum Unread {
    /// It is no file of Avro, or it is damaged.
    Damage(String),
    Codec(String),
}

impl<T: Into<String>> From<T> for Unread {
    fn from(reason: T) -> Self {
        Self::Damage(reason.into())
    }
}

/// Reads all values of a file.
///
/// # Errors
/// The reason why it is no file of Avro, or no file that this reader knows, with the remedy.
pub(super) fn read_file(file: &[u8]) -> Result<Vec<Datum>, String> {
    read(file).map_err(|unread| match unread {
        Unread::Damage(reason) => format!("{reason}: restore the file from a copy"),
        Unread::Codec(codec) => format!(
            "its codec is {codec}, allowed are null and deflate: set the table property \
             write.avro.compression-codec to gzip, and rewrite the manifests"
        ),
    })
}

fn read(file: &[u8]) -> Result<Vec<Datum>, Unread> {
    let mut input = Input::new(file);
    if input.take(MAGIC.len())? != MAGIC {
        return Err("it is no file of Avro".into());
    }
    let (mut schema, mut codec) = (None, b"null".as_slice());
    input.blocks(&mut |input| {
        let (key, value) = (input.bytes()?, input.bytes()?);
        match key {
            b"avro.schema" => schema = Some(value),
            b"avro.codec" => codec = value,
            _ => {}
        }
        Ok(())
    })?;
    let schema = serde_json::from_slice(schema.unwrap_or_default()).map_err(|_| "it has no schema")?;
    let reader = ValueReader { schema: &schema };
    input.take(MARKER_BYTES)?;
    let mut values = Vec::new();
    while !input.rest.is_empty() {
        let count = u64::try_from(input.long()?).map_err(|_| "a count is negative")?;
        let block = input.bytes()?;
        input.take(MARKER_BYTES)?;
        let block = decompressed(codec, block)?;
        let mut block = Input::new(&block);
        for _ in 0..count {
            values.push(reader.value(&schema, &mut block, 0)?);
        }
    }
    Ok(values)
}

fn decompressed(codec: &[u8], block: &[u8]) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    match codec {
        b"null" => bytes.extend_from_slice(block),
        b"deflate" => {
            let mut decoder = DeflateDecoder::new(block).take(BLOCK_BYTES_MAX);
            decoder.read_to_end(&mut bytes).map_err(|error| format!("its block is damaged: {error}"))?;
        }
        other => return Err(Unread::Codec(String::from_utf8_lossy(other).into_owned())),
    }
    Ok(bytes)
}

/// The rest of the bytes.
struct Input<'b> {
    rest: &'b [u8],
    /// How many parts of values may still be read. Some have no bytes, so a count does not bound them.
    parts: usize,
}

impl<'b> Input<'b> {
    const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, parts: DEPTH_MAX + bytes.len().saturating_mul(PARTS_PER_BYTE) }
    }

    fn part(&mut self) -> Result<(), String> {
        let reason = || format!("its values have more parts than {PARTS_PER_BYTE} for each byte");
        self.parts = self.parts.checked_sub(1).ok_or_else(reason)?;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err("a number has too many bytes".to_owned())
    }

    fn bytes(&mut self) -> Result<&'b [u8], String> {
        let count = usize::try_from(self.long()?).map_err(|_| "a length is negative")?;
        self.take(count)
    }

    /// Reads the blocks of an array or a map, with `item` for each item.
    fn blocks(&mut self, item: &mut dyn FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // A negative count is followed by the bytes of the block.
                self.long()?;
                count = count.saturating_neg();
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }
}

/// Reads values of a schema.
struct ValueReader<'s> {
    schema: &'s Json,
}

impl ValueReader<'_> {
    fn value(&self, kind: &Json, input: &mut Input<'_>, depth: usize) -> Result<Datum, String> {
        if depth > DEPTH_MAX {
            return Err(format!("its values have more than {DEPTH_MAX} levels"));
        }
        input.part()?;
        let depth = depth + 1;
        if let Json::Array(kinds) = kind {
            let kind = usize::try_from(input.long()?).ok().and_then(|place| kinds.get(place));
            return self.value(kind.ok_or("a union has no such type")?, input, depth);
        }
        let name = kind.as_str().or_else(|| kind["type"].as_str());
        let Some(name) = name else { return self.value(&kind["type"], input, depth) };
        Ok(match name {
            "null" => Datum::Null,
            "boolean" => Datum::Bool(input.take(1)? != [0]),
            "int" | "long" | "enum" => Datum::Int(input.long()?),
            "float" => Datum::Double(f64::from(f32::from_le_bytes(array(input.take(4)?)))),
            "double" => Datum::Double(f64::from_le_bytes(array(input.take(8)?))),
            "bytes" | "string" => Datum::Bytes(input.bytes()?.to_vec()),
            "fixed" => {
                let count = kind["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                Datum::Bytes(input.take(count.ok_or("a fixed type has no size")?)?.to_vec())
            }
            "array" => {
                let mut items = Vec::new();
                input.blocks(&mut |input| {
                    items.push(self.value(&kind["items"], input, depth)?);
                    Ok(())
                })?;
                Datum::Array(items)
            }
            "map" => {
                input.blocks(&mut |input| {
                    input.bytes()?;
                    self.value(&kind["values"], input, depth).map(drop)
                })?;
                Datum::Null
            }
            "record" => {
                let fields = kind["fields"].as_array().ok_or("a record has no fields")?.iter();
                let fields = fields
                    .map(|field| Ok((field["field-id"].as_i64(), self.value(&field["type"], input, depth)?)));
                Datum::Record(fields.collect::<Result<_, String>>()?)
            }
            name => {
                let named = named(self.schema, name, 0);
                return self.value(named.ok_or_else(|| format!("it has no type {name:?}"))?, input, depth);
            }
        })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

/// Finds the definition of a named type.
fn named<'s>(schema: &'s Json, name: &str, depth: usize) -> Option<&'s Json> {
    if depth > DEPTH_MAX {
        return None;
    }
    match schema {
        Json::Object(object)
            if object.get("name").and_then(Json::as_str) == Some(name) && schema["type"] != *name =>
        {
            let is_definition = matches!(schema["type"].as_str(), Some("record" | "fixed" | "enum"));
            if is_definition {
                Some(schema)
            } else {
                object.values().find_map(|part| named(part, name, depth + 1))
            }
        }
        Json::Object(object) => object.values().find_map(|part| named(part, name, depth + 1)),
        Json::Array(parts) => parts.iter().find_map(|part| named(part, name, depth + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::LakeError;

    fn schema() -> Json {
        json!({"type": "record", "name": "r", "fields": [
            {"name": "a", "type": "long", "field-id": 1},
            {"name": "b", "type": ["null", "string"], "field-id": 2},
            {"name": "c", "type": {"type": "array", "items": {"type": "record", "name": "i", "fields": [
                {"name": "key", "type": "int", "field-id": 4}]}}, "field-id": 3},
            {"name": "d", "type": ["null", "i"], "field-id": 5},
        ]})
    }

    fn file(rows: &[(i64, Option<&str>, &[i64])]) -> Vec<u8> {
        let mut values = AvroEncoder::default();
        for (a, b, c) in rows {
            values.long(*a).option(*b, |values, text| {
                values.text(text);
            });
            values.array(c.iter(), |values, key| {
                values.long(*key);
            });
            values.option(c.first(), |values, key| {
                values.long(*key);
            });
        }
        write_file(&schema(), &[("content", "data".to_owned())], rows.len(), &values)
    }

    #[test]
    fn a_file_reads_back_by_the_ids_of_its_fields() {
        let rows: [(i64, Option<&str>, &[i64]); 3] =
            [(i64::MIN, None, &[]), (0, Some("ä"), &[1, -1]), (i64::MAX, Some(""), &[64])];
        let read = read_file(&file(&rows)).unwrap();
        assert_eq!(read.len(), rows.len());
        for (found, (a, b, c)) in read.iter().zip(rows) {
            assert_eq!((found.field(1).int(), found.field(2).text().as_deref()), (Some(a), b));
            let Datum::Array(items) = found.field(3) else { panic!("{found:?}") };
            let keys: Vec<_> = items.iter().filter_map(|item| item.field(4).int()).collect();
            assert_eq!(keys, c);
            assert_eq!(found.field(5).field(4).int(), c.first().copied());
        }
        assert_eq!(read_file(&file(&[])).unwrap(), []);
    }

    #[test]
    fn a_file_that_cannot_be_read_gives_the_reason_and_the_remedy() {
        let file = |codec: &str| {
            let mut file =
                write_file(&schema(), &[("avro.other", codec.to_owned())], 1, &AvroEncoder::default());
            let place = file.windows(9).position(|part| part == b"avro.code").unwrap();
            file[place..place + 9].copy_from_slice(b"avro.wait");
            let place = file.windows(10).position(|part| part == b"avro.other").unwrap();
            file[place..place + 10].copy_from_slice(b"avro.codec");
            file
        };
        let error = |file: &[u8]| {
            let reason = read_file(file).unwrap_err();
            LakeError::Text { name: "m.avro".to_owned(), reason }.to_string()
        };
        let before = "m.avro of the lake cannot be read:";
        let codec = "its codec is zstandard, allowed are null and deflate: set the table property \
                     write.avro.compression-codec to gzip, and rewrite the manifests";
        assert_eq!(error(&file("zstandard")), format!("{before} {codec}"));
        assert_eq!(error(b"{}{}"), format!("{before} it is no file of Avro: restore the file from a copy"));
        assert_eq!(error(MAGIC), format!("{before} it ends too early: restore the file from a copy"));
    }

    #[test]
    fn values_without_bytes_are_not_read_without_end() {
        let nulls = json!({"type": "array", "items": "null"});
        // Each of the records has two of the one before it.
        let twins = (1..9).fold(json!({"type": "record", "name": "r0", "fields": []}), |kind, level| {
            let second = format!("r{}", level - 1);
            let fields = json!([{"name": "a", "type": kind}, {"name": "b", "type": second}]);
            json!({"type": "record", "name": format!("r{level}"), "fields": fields})
        });
        let mut items = AvroEncoder::default();
        items.long(1 << 40);
        let mut none = AvroEncoder::default();
        none.bytes(&[]);
        let cases: [(Json, i64, &AvroEncoder); 4] = [
            (json!({"type": "null"}), 1 << 40, &AvroEncoder::default()),
            (json!({"type": "record", "name": "r", "fields": []}), i64::MAX, &AvroEncoder::default()),
            (nulls, 1, &items),
            (twins, 1, &AvroEncoder::default()),
        ];
        for (kind, count, values) in cases {
            let file = write_file(&kind, &[], usize::try_from(count).unwrap(), values);
            let reason = read_file(&file).unwrap_err();
            assert!(reason.starts_with("its values have more parts than"), "{reason}");
        }
        let reason = read_file(&write_file(&json!("null"), &[], usize::MAX, &none)).unwrap_err();
        assert!(reason.starts_with("a count is negative"), "{reason}");
    }

    #[test]
    fn a_file_that_is_cut_or_changed_gives_an_error_or_values() {
        let whole = file(&[(1, Some("text"), &[1, 2, 3])]);
        for end in 0..whole.len() {
            assert!(read_file(&whole[..end]).is_err() || end >= whole.len() - 40, "{end}");
        }
        for place in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                // Neither a panic nor an endless loop.
                drop(read_file(&changed));
            }
        }
    }
}
