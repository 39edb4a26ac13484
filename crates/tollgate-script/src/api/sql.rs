//! `tollgate.sql`: a query to a database that the route may read. The server runs the query, and the call
//! waits.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Table, Value, Variadic};
use tokio::sync::oneshot;

use crate::active::ActiveCell;
use crate::arguments::{kind, text};
use crate::budget::Budget;
use crate::database::{Database, SqlResult, SqlRow, SqlValue};
use crate::error::shown;
use crate::json;
use crate::marks::Marks;
use crate::memory::{check_memory, string_within, watched};
use crate::nearest::hint;
use crate::sys::operation;
use crate::waits::{ReturnValues, Waits};

/// Creates the function.
pub(super) fn install(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    waits: &Rc<Waits>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
) -> mlua::Result<Function> {
    let (active, own, rows) = (
        Rc::clone(active),
        Rc::clone(waits),
        Rc::new(Rows { marks: Rc::clone(marks), budget: Rc::clone(budget) }),
    );
    let begin = lua.create_function(move |_, (name, sql, given): (Value, Value, Variadic<Value>)| {
        let database = database(&active, &text("the database of tollgate.sql", &name)?)?;
        let sql = text("the query of tollgate.sql", &sql)?;
        let sql = std::str::from_utf8(&sql)
            .map_err(|_| mlua::Error::runtime("the query of tollgate.sql is not UTF-8"))?;
        let parameters = given.iter().enumerate().map(|(at, value)| parameter(at + 1, value));
        let parameters = parameters.collect::<mlua::Result<Vec<_>>>()?;
        let (reply, told) = oneshot::channel();
        database.ask(sql.to_owned(), parameters, reply);
        let rows = Rc::clone(&rows);
        own.begin(async move {
            let told = told.await.unwrap_or_else(|_| Err("the database gave no answer".to_owned()));
            let answer: ReturnValues = Box::new(move |lua| rows.answer(lua, database.name(), told));
            answer
        });
        Ok(())
    })?;
    operation::function(lua, waits, c"tollgate.sql", &begin)
}

fn database(active: &ActiveCell, name: &[u8]) -> mlua::Result<Arc<dyn Database>> {
    let active = active.borrow();
    let known = active.as_ref().map_or(&[][..], |active| &active.reach.databases[..]);
    let found = known.iter().find(|database| database.name().as_bytes() == name);
    found.cloned().ok_or_else(|| {
        let name = shown(name);
        let hint = hint(&name, known.iter().map(|database| database.name()));
        mlua::Error::runtime(format!("tollgate.sql: the route may not read a database \"{name}\"{hint}"))
    })
}

fn parameter(at: usize, value: &Value) -> mlua::Result<SqlValue> {
    Ok(match value {
        Value::Nil => SqlValue::Null,
        value if value.is_null() => SqlValue::Null,
        Value::Boolean(value) => SqlValue::Bool(*value),
        Value::Integer(value) => SqlValue::Int(*value),
        Value::Number(value) => SqlValue::Float(*value),
        Value::String(value) => match std::str::from_utf8(&value.as_bytes()) {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => SqlValue::Bytes(value.as_bytes().to_vec()),
        },
        Value::Buffer(value) => SqlValue::Bytes(value.to_vec()),
        other => {
            return Err(mlua::Error::runtime(format!(
                "parameter {at} of tollgate.sql is a {}: allowed are nil, a boolean, a number, a string, a buffer",
                kind(other)
            )));
        }
    })
}

/// Creates tables of rows.
struct Rows {
    marks: Rc<Marks>,
    budget: Rc<Budget>,
}

impl Rows {
    fn answer(&self, lua: &Lua, name: &str, told: SqlResult) -> mlua::Result<MultiValue> {
        let answer =
            told.map_err(|reason| mlua::Error::runtime(format!("tollgate.sql: {name}: {reason}")))?;
        watched(lua, |memory_max| {
            let rows = lua.create_table()?;
            for row in &answer.rows {
                check_memory(lua, ROW_BYTES, memory_max)?;
                rows.raw_push(match row {
                    SqlRow::Values(values) => self.of_values(lua, &answer.columns, values, memory_max)?,
                    SqlRow::Json(text) => self.of_json(lua, text, memory_max)?,
                })?;
            }
            Ok(MultiValue::from_iter([Value::Table(rows)]))
        })
    }

    fn of_values(
        &self,
        lua: &Lua,
        columns: &[String],
        values: &[SqlValue],
        memory_max: usize,
    ) -> mlua::Result<Table> {
        let row = lua.create_table()?;
        for (column, value) in columns.iter().zip(values) {
            let column = column.as_str();
            match value {
                SqlValue::Null => {}
                SqlValue::Bool(value) => row.raw_set(column, *value)?,
                SqlValue::Int(value) if value.unsigned_abs() > EXACT_MAX => {
                    self.marks.store_integer.call::<()>((&row, column, value.to_string()))?;
                }
                SqlValue::Int(value) => row.raw_set(column, *value as f64)?,
                SqlValue::Float(value) => row.raw_set(column, *value)?,
                SqlValue::Text(text) => {
                    row.raw_set(column, string_within(lua, text.as_bytes(), memory_max)?)?;
                }
                SqlValue::Bytes(bytes) => {
                    row.raw_set(column, string_within(lua, bytes, memory_max)?)?;
                }
            }
        }
        Ok(row)
    }

    /// Decodes a row of JSON. JSON null becomes nil, as in the rows of other databases.
    fn of_json(&self, lua: &Lua, text: &str, memory_max: usize) -> mlua::Result<Table> {
        let (value, reason) = json::answer(lua, text.as_bytes(), &self.marks, &self.budget, memory_max)?;
        let Value::Table(row) = value else {
            return Err(mlua::Error::runtime(format!("tollgate.sql: a row cannot be read: {reason:?}")));
        };
        let mut nulls = Vec::new();
        row.for_each(|key: Value, value: Value| {
            if value.is_null() {
                nulls.push(key);
            }
            Ok(())
        })?;
        nulls.into_iter().try_for_each(|key| row.raw_set(key, Value::Nil))?;
        Ok(row)
    }
}

/// Upper bound of the memory of the table for a row, without its texts, in bytes.
const ROW_BYTES: usize = 512;
/// Luau numbers represent integers up to this value exactly.
const EXACT_MAX: u64 = 1 << 53;
