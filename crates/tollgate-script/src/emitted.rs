//! Records that calls emit in addition to the record of their reply, and the streams of these records.

use mlua::Lua;

use crate::error::shown;
use crate::interned::Interned;
use crate::nearest::hint;
use crate::record::{RecordFields, RecordValues};

/// A stream that scripts may emit records to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmitStream {
    /// The name of the stream.
    pub name: String,
    /// The fields of a record that the stream keeps.
    pub fields: RecordFields,
    /// Whether fields that the stream does not keep are ignored. If false, such a field is an error.
    pub ignores_unknown: bool,
    /// Index of the database that replies wait for. `None` if they wait for none.
    pub awaits: Option<usize>,
}

/// A record that a call emitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Emitted {
    /// Index of the stream among the streams of the `Host`.
    pub stream: usize,
    /// The values of the record.
    pub record: RecordValues,
}

/// The streams of a `Host`, with the names of their columns in one VM.
pub(crate) struct Streams(Vec<(EmitStream, Interned)>);

/// Records that a call emitted so far.
#[derive(Default)]
pub(crate) struct Emissions {
    pub(crate) records: Vec<Emitted>,
    bytes: usize,
}

impl Streams {
    pub(crate) fn new(lua: &Lua, streams: &[EmitStream]) -> mlua::Result<Self> {
        let interned = |stream: &EmitStream| {
            let columns = Interned::new(lua, stream.fields.names.iter().map(String::as_str))?;
            Ok((stream.clone(), columns))
        };
        streams.iter().map(interned).collect::<mlua::Result<_>>().map(Self)
    }

    pub(crate) fn all(&self) -> &[(EmitStream, Interned)] {
        &self.0
    }

    pub(crate) fn find(&self, name: &[u8]) -> mlua::Result<usize> {
        let found = self.all().iter().position(|(stream, _)| stream.name.as_bytes() == name);
        found.ok_or_else(|| {
            let name = shown(name);
            let hint = hint(&name, self.all().iter().map(|(stream, _)| stream.name.as_str()));
            mlua::Error::runtime(format!("tollgate.emit: unknown stream \"{name}\"{hint}"))
        })
    }
}

impl Emissions {
    /// Adds a record.
    ///
    /// # Errors
    /// The records of the call exceed their limit of number or bytes.
    pub(crate) fn add(&mut self, emitted: Emitted, records_max: usize) -> mlua::Result<()> {
        let bytes = self.bytes + emitted.record.memory_bytes();
        if self.records.len() >= records_max || bytes > BYTES_MAX {
            return Err(mlua::Error::runtime(format!(
                "records of the call exceed limit: {records_max} records, {BYTES_MAX} bytes"
            )));
        }
        self.bytes = bytes;
        self.records.push(emitted);
        Ok(())
    }
}

const BYTES_MAX: usize = 4 << 20;
