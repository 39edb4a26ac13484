//! One table per stream. The sink creates the table or adds columns to it. A table that an operator created
//! is used if its columns fit.
//!
//! Tables are checked in every load, under a lock that keeps them unchanged until the commit. Without the
//! lock, a binary COPY could read the bytes of one type as another type. Only one loader at a time changes
//! tables.

use std::collections::BTreeMap;

use tollgate_log::{Column, ColumnOrigin, ColumnType, Schema};

use super::column_wire::{ColumnWire, ServerColumnType};
use super::error::{Failure, at};
use super::lost::lost_table;
use super::names::table as bookkeeping;
use super::options::{PostgresOptions, TableName, quoted};
use super::session::Session;
use super::wire::ServerType;
use crate::error::SinkError;
use crate::sink::declared::{DeclaredStreams, NameCase};
use crate::sink::rename::rename_remedy;
use crate::sink::tally::LostTable;

/// Number of the advisory lock for creating and changing tables: "tollgate" in ASCII.
const DDL_LOCK: i64 = 0x746f_6c6c_6761_7465;

const COLUMNS: &str = "
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(b.typname, t.typname)::text,
           coalesce(b.typtype, t.typtype) = 'e', a.attnotnull, a.atthasdef OR a.attidentity <> '',
           a.attgenerated <> '', CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END,
           e.oid, coalesce(c.typname, e.typname)::text, coalesce(c.typtype, e.typtype) = 'e',
           CASE WHEN e.typtype = 'd' THEN e.typtypmod
                WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
    LEFT JOIN pg_catalog.pg_type e ON e.oid = coalesce(b.typelem, t.typelem)
         AND coalesce(b.typreceive, t.typreceive)::oid = 'pg_catalog.array_recv'::regproc::oid
    LEFT JOIN pg_catalog.pg_type c ON e.typtype = 'd' AND c.oid = e.typbasetype
    WHERE a.attrelid = to_regclass($1)::oid AND a.attnum > 0 AND NOT a.attisdropped";

/// How rows of a schema are copied into their table.
#[derive(Debug)]
pub(super) struct Plan {
    /// The COPY statement. The statement does not name columns of the table that the stream lacks, so that
    /// these columns get their defaults.
    pub(super) copy: String,
    /// Encodings of the columns of the schema, except its key.
    pub(super) wires: Vec<ColumnWire>,
    /// The table, if it was created again without its rows.
    pub(super) remade: Option<LostTable>,
}

/// A column of a table, as the catalog describes it.
struct ServerColumn {
    name: String,
    shown_type: String,
    base: BaseType,
    /// The number and the type of the elements, if the column is an array.
    element: Option<(u32, BaseType)>,
    is_needed: bool,
    is_generated: bool,
}

/// A type of the catalog, with domains resolved.
struct BaseType {
    name: String,
    is_enum: bool,
    modifier: i32,
}

impl BaseType {
    fn as_server_type(&self) -> ServerType<'_> {
        ServerType { name: &self.name, is_enum: self.is_enum, modifier: self.modifier }
    }
}

/// Creates the table of a stream or adds missing columns, and locks the table. Returns how rows are copied.
/// Call this in a transaction.
///
/// # Errors A column of the table does not fit the stream. The check is made first, so the table is not
/// changed.
pub(super) fn plan(
    session: &mut Session,
    options: &PostgresOptions,
    (sink, declared): (&str, &DeclaredStreams),
    schema: &Schema,
) -> Result<Plan, SinkError> {
    check_name(schema)?;
    let table = options.table_of(schema.stream());
    let failed = || at("read the columns of a table", options);
    let changed = || at("create or change a table", options);
    let mut remade = None;
    if !exists(session, &table.quoted()).map_err(failed())? {
        let all: Vec<_> = schema.table_columns().collect();
        declared.check_missing(schema, &all, NameCase::Kept)?;
        remade = lost_table(session, options, sink, schema.stream()).map_err(failed())?;
        create(session, &table, declared, schema).map_err(changed())?;
    }
    let before = columns(session, &table).map_err(failed())?;
    let missing = check_columns(&table, declared, schema, &before)?;
    if !missing.is_empty() {
        add(session, &table, (declared, schema), &missing).map_err(changed())?;
    }
    // The lock is not taken before the columns are added. If it were, two loaders that hold the lock and both
    // add a column would wait for each other.
    lock(session, &table).map_err(failed())?;
    let columns = columns(session, &table).map_err(failed())?;
    remember(session, options, sink, schema).map_err(changed())?;
    let wires = schema.table_columns().map(|column| wire(&table, column, &columns));
    Ok(Plan { copy: copy_statement(&table, schema), wires: wires.collect::<Result<_, _>>()?, remade })
}

/// Checks whether the rows of these streams fit the existing tables. Does not change the database.
pub(crate) fn check<'a>(
    options: &PostgresOptions,
    schemas: impl Iterator<Item = &'a Schema>,
) -> Result<(), SinkError> {
    let mut session = Session::open(options)?;
    for schema in schemas {
        look(&mut session, options, &DeclaredStreams::default(), schema)?;
    }
    Ok(())
}

/// Checks whether the rows of a stream fit its table, if the table exists. Does not change the database.
pub(super) fn look(
    session: &mut Session,
    options: &PostgresOptions,
    declared: &DeclaredStreams,
    schema: &Schema,
) -> Result<(), SinkError> {
    check_name(schema)?;
    let table = options.table_of(schema.stream());
    let columns = columns(session, &table).map_err(at("read the columns of a table", options))?;
    check_columns(&table, declared, schema, &columns).map(drop)
}

fn check_name(schema: &Schema) -> Result<(), SinkError> {
    let columns = schema.table_columns().map(|column| &*column.name);
    match columns.chain([schema.stream()]).find(|name| name.contains('\0')) {
        None => Ok(()),
        Some(name) => Err(SinkError::StreamName {
            stream: schema.stream().to_owned(),
            reason: format!("name {name:?} contains U+0000"),
        }),
    }
}

/// Returns whether the table exists. `table` is the quoted name with its schema.
pub(super) fn exists(session: &mut Session, table: &str) -> Result<bool, Failure> {
    let rows = session.query("SELECT to_regclass($1) IS NOT NULL", &[&table])?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Waits until no other loader creates or changes tables. The lock is held until the end of the transaction.
pub(super) fn lock_ddl(session: &mut Session) -> Result<(), Failure> {
    session.run(&format!("SELECT pg_advisory_xact_lock({DDL_LOCK})"))
}

fn create(
    session: &mut Session,
    table: &TableName,
    declared: &DeclaredStreams,
    schema: &Schema,
) -> Result<(), Failure> {
    lock_ddl(session)?;
    let columns: Vec<_> = schema.table_columns().map(|column| definition(declared, schema, column)).collect();
    session.run(&format!("CREATE TABLE IF NOT EXISTS {} ({})", table.quoted(), columns.join(", ")))
}

fn add(
    session: &mut Session,
    table: &TableName,
    (declared, schema): (&DeclaredStreams, &Schema),
    missing: &[&Column],
) -> Result<(), Failure> {
    lock_ddl(session)?;
    let columns: Vec<_> = missing
        .iter()
        .map(|column| format!("ADD COLUMN IF NOT EXISTS {}", definition(declared, schema, column)))
        .collect();
    session.run(&format!("ALTER TABLE {} {}", table.quoted(), columns.join(", ")))
}

/// Returns the definition of a column that is created.
fn definition(declared: &DeclaredStreams, schema: &Schema, column: &Column) -> String {
    let kind = declared.type_of(schema.stream(), column);
    format!("{} {}", quoted(&column.name), ColumnWire::made(kind))
}

/// Locks the columns of a table. Other sessions may still write rows. Foreign tables cannot be locked.
fn lock(session: &mut Session, table: &TableName) -> Result<(), Failure> {
    let kind = session.query(
        "SELECT relkind = 'f' FROM pg_catalog.pg_class WHERE oid = to_regclass($1)::oid",
        &[&table.quoted()],
    )?;
    match kind.first().is_some_and(|row| row.get(0)) {
        true => Ok(()),
        false => session.run(&format!("LOCK TABLE {} IN ROW EXCLUSIVE MODE", table.quoted())),
    }
}

fn columns(session: &mut Session, table: &TableName) -> Result<Vec<ServerColumn>, Failure> {
    let rows = session.query(COLUMNS, &[&table.quoted()])?;
    let column = |row: &tokio_postgres::Row| ServerColumn {
        name: row.get(0),
        shown_type: row.get(1),
        base: BaseType { name: row.get(2), is_enum: row.get(3), modifier: row.get(7) },
        element: row
            .get::<_, Option<u32>>(8)
            .map(|oid| (oid, BaseType { name: row.get(9), is_enum: row.get(10), modifier: row.get(11) })),
        is_needed: row.get::<_, bool>(4) && !row.get::<_, bool>(5),
        is_generated: row.get(6),
    };
    Ok(rows.iter().map(column).collect())
}

/// Stores the types of the stream's columns that are new or changed.
fn remember(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    schema: &Schema,
) -> Result<(), Failure> {
    let known = kinds(session, options, sink, schema.stream())?;
    let noted = |column: &&Column| known.get(&column.name) != Some(&column.kind);
    let upsert = format!(
        "INSERT INTO {} (sink, stream, name, type) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (sink, stream, name) DO UPDATE SET type = excluded.type",
        bookkeeping(options, "columns")
    );
    for column in schema.table_columns().filter(noted) {
        let kind = column.kind.name();
        session.execute(&upsert, &[&sink, &schema.stream(), &column.name, &&*kind])?;
    }
    Ok(())
}

/// Returns the stored types of a stream's columns.
fn kinds(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    stream: &str,
) -> Result<BTreeMap<String, ColumnType>, Failure> {
    let columns = bookkeeping(options, "columns");
    let question = format!("SELECT name, type FROM {columns} WHERE sink = $1 AND stream = $2");
    let rows = session.query(&question, &[&sink, &stream])?;
    let kind = |row: &tokio_postgres::Row| Some((row.get(0), ColumnType::from_name(row.get(1))?));
    Ok(rows.iter().filter_map(kind).collect())
}

/// A table into which retried rejects may be copied.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) table: TableName,
    /// For each column, the type of the stream and the encoding of its values.
    pub(super) columns: BTreeMap<String, (ColumnType, ColumnWire)>,
}

/// Locks the table of a stream, and returns the columns that can be copied into it. Call this in a
/// transaction.
///
/// # Errors
/// The database fails, or a column was changed to a type that the stream's values do not fit.
pub(super) fn known(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    stream: &str,
) -> Result<Known, SinkError> {
    let table = options.table_of(stream);
    let failed = || at("read the columns of a table", options);
    let kinds = kinds(session, options, sink, stream).map_err(failed())?;
    if !kinds.is_empty() {
        lock(session, &table).map_err(failed())?;
    }
    let found = columns(session, &table).map_err(failed())?;
    let mut columns = BTreeMap::new();
    for (name, kind) in kinds.into_iter().filter(|(name, _)| found.iter().any(|column| column.name == *name))
    {
        let column = Column { name, kind, origin: ColumnOrigin::Stored };
        let wire = wire(&table, &column, &found)?;
        columns.insert(column.name, (kind, wire));
    }
    Ok(Known { table, columns })
}

/// Checks that all columns fit, and returns the missing ones.
fn check_columns<'a>(
    table: &TableName,
    declared: &DeclaredStreams,
    schema: &'a Schema,
    columns: &[ServerColumn],
) -> Result<Vec<&'a Column>, SinkError> {
    let is_of_stream = |name: &str| schema.table_columns().any(|column| column.name == name);
    if let Some(needed) = columns.iter().find(|column| column.is_needed && !is_of_stream(&column.name)) {
        let reason = "is NOT NULL without a default, and the stream has no such column";
        return Err(unfit(table, &needed.name, reason));
    }
    let mut missing = Vec::new();
    for column in schema.table_columns() {
        match columns.iter().any(|known| known.name == column.name) {
            true => drop(wire(table, column, columns)?),
            false => missing.push(column),
        }
    }
    declared.check_missing(schema, &missing, NameCase::Kept)?;
    Ok(missing)
}

fn wire(table: &TableName, column: &Column, columns: &[ServerColumn]) -> Result<ColumnWire, SinkError> {
    let Some(found) = columns.iter().find(|known| known.name == column.name) else {
        return Err(unfit(table, &column.name, "disappeared again: another program changes the table"));
    };
    if found.is_generated {
        return Err(unfit(table, &column.name, "is generated, and the stream has a column of that name"));
    }
    let element = found.element.as_ref().map(|(oid, element)| (*oid, element.as_server_type()));
    let server = ServerColumnType { own: found.base.as_server_type(), element };
    ColumnWire::between(column.kind, &server).ok_or_else(|| SinkError::TypeChanged {
        table: table.to_string(),
        column: column.name.clone(),
        found: found.shown_type.clone(),
        wanted: column.kind.name(),
        rename: rename_remedy(&table.quoted(), &column.name),
    })
}

fn unfit(table: &TableName, column: &str, reason: &'static str) -> SinkError {
    SinkError::ColumnUnfit { table: table.to_string(), column: column.to_owned(), reason }
}

fn copy_statement(table: &TableName, schema: &Schema) -> String {
    copy_columns(table, schema.table_columns().map(|column| &*column.name))
}

/// Returns the statement that copies rows of these columns.
pub(super) fn copy_columns<'a>(table: &TableName, columns: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = columns.map(quoted).collect();
    format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.quoted(), names.join(", "))
}
