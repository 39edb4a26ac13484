//! `[sink.NAME]`: the database that rows are loaded into.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tollgate_load::{PostgresOptions, PostgresUrl, SinkKind, SinkOptions, TableName, hide_password};

use super::resolved::{quoted, quoted_path};
use super::route::is_name;
use super::section::Section;
use super::units::{HOUR_MS, show_duration};

const KINDS: [&str; 2] = ["sqlite", "postgres"];
const SQLITE: &str = "data/tollgate.sqlite";
const TIMEOUT_MS: RangeInclusive<u64> = 1..=24 * HOUR_MS;
const REJECTS: RangeInclusive<u64> = 0..=1_000_000_000;

/// The database that rows are loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sink {
    /// What it is and where.
    pub(crate) options: SinkOptions,
    /// A connection as it is written, before variables, for it holds a password.
    written: String,
}

impl Sink {
    /// The sink of a configuration that names none.
    pub(super) fn default_in(folder: &Path) -> Self {
        Self::new("main".to_owned(), SinkKind::Sqlite { path: folder.join(SQLITE) })
    }

    fn new(name: String, kind: SinkKind) -> Self {
        Self { options: SinkOptions::new(name, kind), written: String::new() }
    }

    /// The SQLite file. None: it is another database.
    pub(crate) fn sqlite(&self) -> Option<&Path> {
        match &self.options.kind {
            SinkKind::Sqlite { path } => Some(path),
            SinkKind::Postgres(_) => None,
        }
    }
}

/// Where it is, for people.
impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.options.kind {
            SinkKind::Sqlite { path } => path.display().fmt(f),
            SinkKind::Postgres(options) => options.server.fmt(f),
        }
    }
}

/// Reads `[sink.*]`.
pub(super) fn sink(root: &mut Section<'_>, folder: &Path) -> Sink {
    let mut sinks: Vec<Sink> = Vec::new();
    for (name, mut section) in root.named_tables("sink") {
        if let Some(first) = sinks.first() {
            let first = &first.options.name;
            section.fault_at(
                &name.span,
                format!("second sink {:?} beside {first:?}, allowed is one", name.value),
            );
        }
        if !is_name(&name.value) {
            let allowed = "a letter or _, then letters, digits and _";
            section.fault_at(&name.span, format!("sink is named {:?}, allowed is {allowed}", name.value));
        }
        let sink = read(&mut section, name.value, folder);
        section.finish();
        sinks.push(sink);
    }
    sinks.into_iter().next().unwrap_or_else(|| Sink::default_in(folder))
}

fn read(section: &mut Section<'_>, name: String, folder: &Path) -> Sink {
    let given: Vec<_> = KINDS.into_iter().filter(|kind| section.has(kind)).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        let text = format!(
            "[sink.{name}] needs one database, found {found}, allowed is one of {}",
            KINDS.join(", ")
        );
        section.fault(text);
    }
    let path = section.text("sqlite").map(|path| folder.join(path.value));
    let written = section.as_written("postgres").map(hide_password).unwrap_or_default();
    let url = section.text("postgres");
    let mut sink = match url {
        Some(url) => match PostgresUrl::parse(&url.value) {
            Ok(url) => Sink::new(name, SinkKind::Postgres(Box::new(postgres(section, url)))),
            Err(reason) => {
                section.fault_at(&url.span, format!("postgres in [sink.{name}]: {reason}"));
                // What else is wrong is told with it.
                postgres_keys(section);
                Sink::default_in(folder)
            }
        },
        None => match path {
            Some(path) => Sink::new(name, SinkKind::Sqlite { path }),
            None => {
                postgres_keys(section);
                Sink::default_in(folder)
            }
        },
    };
    sink.written = written;
    sink.options.after_load = after_load(section, folder);
    sink.options.rejects_max = section.integer("rejects_max", REJECTS, sink.options.rejects_max);
    sink
}

fn after_load(section: &mut Section<'_>, folder: &Path) -> Option<PathBuf> {
    let file = section.text("after_load")?;
    let path = folder.join(&file.value);
    if !path.is_file() {
        let text = format!("after_load is {}, which is no file that can be read", path.display());
        section.fault_at(&file.span, text);
    }
    Some(path)
}

/// Takes the keys where there is no database that they belong to.
fn postgres_keys(section: &mut Section<'_>) {
    if let Ok(url) = PostgresUrl::parse("host=nowhere user=nobody") {
        postgres(section, url);
    }
}

fn postgres(section: &mut Section<'_>, server: PostgresUrl) -> PostgresOptions {
    let mut options = PostgresOptions::new(server);
    for (key, schema) in [("schema", &mut options.schema), ("table_schema", &mut options.table_schema)] {
        let Some(found) = section.text(key) else { continue };
        if found.value.is_empty() || found.value.len() > 63 || found.value.contains('\0') {
            let text = format!("{key} is {:?}, allowed are 1 to 63 bytes without U+0000", found.value);
            section.fault_at(&found.span, text);
        }
        *schema = found.value;
    }
    options.tables = tables(section, &options.table_schema);
    options.connect_timeout = section.duration("connect_timeout", TIMEOUT_MS, options.connect_timeout);
    options.statement_timeout = section.duration("statement_timeout", TIMEOUT_MS, options.statement_timeout);
    options.lock_timeout = section.duration("lock_timeout", TIMEOUT_MS, options.lock_timeout);
    options
}

fn tables(section: &mut Section<'_>, schema: &str) -> BTreeMap<String, TableName> {
    let Some(tables) = section.take_table("tables", "tables of a sink".to_owned()) else {
        return BTreeMap::new();
    };
    let mut named = BTreeMap::new();
    for (stream, table) in tables.named_texts() {
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

/// Writes the section, its password hidden.
pub(super) fn write_sink(sink: &Sink, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let options = &sink.options;
    writeln!(f, "\n[sink.{}]", options.name)?;
    match &options.kind {
        SinkKind::Sqlite { path } => writeln!(f, "sqlite = {}", quoted_path(path))?,
        SinkKind::Postgres(postgres) => {
            // Not escaped: a variable stays one.
            writeln!(f, "postgres = {}", toml::Value::String(sink.written.clone()))?;
            write_postgres(postgres, f)?;
        }
    }
    if let Some(file) = &options.after_load {
        writeln!(f, "after_load = {}", quoted_path(file))?;
    }
    writeln!(f, "rejects_max = {}", options.rejects_max)
}

fn write_postgres(options: &PostgresOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "schema = {}", quoted(&options.schema))?;
    writeln!(f, "table_schema = {}", quoted(&options.table_schema))?;
    if !options.tables.is_empty() {
        let tables = options.tables.iter();
        let tables: Vec<_> =
            tables.map(|(stream, table)| format!("{stream} = {}", quoted(&table.quoted()))).collect();
        writeln!(f, "tables = {{ {} }}", tables.join(", "))?;
    }
    writeln!(f, "connect_timeout = \"{}\"", show_duration(options.connect_timeout))?;
    writeln!(f, "statement_timeout = \"{}\"", show_duration(options.statement_timeout))?;
    writeln!(f, "lock_timeout = \"{}\"", show_duration(options.lock_timeout))
}
