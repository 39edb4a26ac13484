//! The keys of a PostgreSQL sink.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_load::{PostgresOptions, PostgresUrl, TableName};
use tollgate_server::StreamSpec;

use super::fault::unknown_stream;
use super::key::{keys, write};
use super::quoted::quoted;
use super::section::{Section, Written};
use super::units::{MINUTE_MS, SECOND_MS, TIMEOUT_MS};

/// The addresses that are allowed.
pub(super) const ADDRESS_ALLOWED: &str =
    "`postgres://user:password@host:port/database?sslmode=...` or `host=... user=...`";

keys! {
    pub(super) KEYS of PostgresOptions;
    /// The schema of Tollgate's own tables. It is created if it is missing.
    schema [SCHEMA] = text("tollgate", "1 to 63 bytes");
    /// The schema of the tables of streams.
    table_schema [TABLE_SCHEMA] = text("public", "1 to 63 bytes");
    /// Tables with another name than their stream.
    tables [TABLES] = other("`{}`", r#"`{ STREAM = "table" }`, `{ STREAM = "schema.table" }`"#);
    /// How long the opening of a connection may take.
    connect_timeout = duration(10 * SECOND_MS, TIMEOUT_MS) => connect_timeout;
    /// How long one statement may take, including COPY.
    statement_timeout = duration(5 * MINUTE_MS, TIMEOUT_MS) => statement_timeout;
    /// How long a load waits for a lock, before it is tried again.
    lock_timeout = duration(10 * SECOND_MS, TIMEOUT_MS) => lock_timeout;
}

/// Reads a PostgreSQL sink. `None`: the sink is not PostgreSQL, or its address is refused.
pub(super) fn read(
    section: &mut Section<'_>,
    url: Option<Written<String>>,
    streams: &[StreamSpec],
) -> Option<PostgresOptions> {
    let url = url?;
    match PostgresUrl::parse(&url.value) {
        Ok(server) => Some(read_keys(section, server, streams)),
        Err(reason) => {
            section.fault_at(&url.span, format!("postgres in {}: {reason}", section.name()));
            // The other keys are read too, so that all faults are reported.
            read_without_address(section, streams);
            None
        }
    }
}

/// Reads the keys of PostgreSQL for a sink without a valid address, so that their faults are reported.
pub(super) fn read_without_address(section: &mut Section<'_>, streams: &[StreamSpec]) {
    if let Ok(url) = PostgresUrl::parse("host=nowhere user=nobody") {
        read_keys(section, url, streams);
    }
}

fn read_keys(section: &mut Section<'_>, server: PostgresUrl, streams: &[StreamSpec]) -> PostgresOptions {
    let mut options = PostgresOptions::new(server);
    section.read(KEYS, &mut options);
    for (key, schema) in [(&SCHEMA, &mut options.schema), (&TABLE_SCHEMA, &mut options.table_schema)] {
        let Some(found) = section.text(key.name) else {
            *schema = key.default_text().to_owned();
            continue;
        };
        if found.value.is_empty() || found.value.len() > 63 || found.value.contains('\0') {
            let text = format!("{} is {:?}, allowed are 1 to 63 bytes without U+0000", key.name, found.value);
            section.fault_at(&found.span, text);
        }
        *schema = found.value;
    }
    options.tables = tables(section, &options.table_schema, streams);
    options
}

fn tables(section: &mut Section<'_>, schema: &str, streams: &[StreamSpec]) -> BTreeMap<String, TableName> {
    let place = format!("tables of {}", section.name());
    let Some(tables) = section.take_table(TABLES.name, place.clone()) else { return BTreeMap::new() };
    let mut named = BTreeMap::new();
    for (stream, table) in tables.named_texts() {
        if let Some(text) = unknown_stream(&stream, &place, streams) {
            section.fault_at(&table.span, text);
        }
        match TableName::parse(&table.value, schema) {
            Ok(name) => drop(named.insert(stream, name)),
            Err(reason) => {
                let text = format!("table of stream {stream:?} is {:?}: {reason}", table.value);
                section.fault_at(&table.span, text);
            }
        }
    }
    named
}

/// Writes the keys.
pub(super) fn write_postgres(options: &PostgresOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let tables = options.tables.iter();
    let tables: Vec<_> =
        tables.map(|(stream, table)| format!("{stream} = {}", quoted(&table.quoted()))).collect();
    let own = [
        (SCHEMA.name, Some(quoted(&options.schema))),
        (TABLE_SCHEMA.name, Some(quoted(&options.table_schema))),
        (TABLES.name, (!tables.is_empty()).then(|| format!("{{ {} }}", tables.join(", ")))),
    ];
    write(KEYS, options, &own, f)
}
