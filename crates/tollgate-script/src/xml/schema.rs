//! Validates a text by a schema that was compiled when the script was loaded.

use mlua::{AnyUserData, Lua, Table, Value};
use tollgate_validate::{Document, DocumentFault, Schema};

use crate::budget::Budget;

/// A schema as a value of a script.
pub(crate) struct SchemaValue(pub(crate) Schema);

/// Bytes between two looks at the budget.
const PIECE_BYTES: usize = 4 << 10;

/// Returns the schema in a value.
///
/// # Errors
/// The value is not a schema. `what` names it.
pub(crate) fn schema_of(value: &Value, what: &str) -> mlua::Result<Schema> {
    let given = value.as_userdata().map(AnyUserData::borrow::<SchemaValue>);
    match given {
        Some(Ok(schema)) => Ok(schema.0.clone()),
        _ => Err(mlua::Error::runtime(format!(
            "{what} is a {}: allowed is a value of tollgate.xml.schema",
            value.type_name()
        ))),
    }
}

/// Returns the first fault of a text, if it has one.
///
/// # Errors
/// The budget of the call is used up.
pub(crate) fn fault(schema: &Schema, text: &[u8], budget: &Budget) -> mlua::Result<Option<DocumentFault>> {
    let mut document = Document::new(schema);
    for piece in text.chunks(PIECE_BYTES) {
        if budget.is_exhausted() {
            return Err(mlua::Error::runtime("cpu budget of the call is used up"));
        }
        if let Err(fault) = document.feed(piece) {
            return Ok(Some(*fault));
        }
    }
    Ok(document.finish().err().map(|fault| *fault))
}

/// Returns a fault as a table.
pub(crate) fn fault_table(lua: &Lua, fault: &DocumentFault) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 5)?;
    table.raw_set("message", fault.message.as_str())?;
    table.raw_set("path", fault.path.as_str())?;
    for (name, number) in [("line", fault.line), ("column", fault.column), ("byte", fault.byte)] {
        table.raw_set(name, number)?;
    }
    Ok(table)
}
