//! `[sink.NAME]`, the databases that rows are loaded into.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use tollgate_load::{
    CatalogPlace, DeclaredStreams, LakePlace, LoadFrom, PostgresUrl, SinkKind, SinkOptions, Taken,
    hide_password,
};
use tollgate_log::LogOptions;
use tollgate_server::StreamSpec;

use super::denied::denial;
use super::duplicates::key_faults;
use super::fault::{did_you_mean, unknown_stream};
use super::iceberg::{self, Iceberg};
use super::kafka;
use super::key::{keys, write};
use super::parquet::{self, Lake};
use super::path::{PathTo, path};
use super::postgres;
use super::quoted::{quoted, quoted_list, quoted_path};
use super::route::is_name;
use super::section::{Section, Written};
use super::value::{Named, names};

/// Maximum bytes of a sink's name. The name is part of a thread name and of lines on the control socket.
const NAME_BYTES_MAX: usize = 63;
/// The names that a sink may have.
pub(super) const NAME_ALLOWED: &str = "a letter or _, then letters, digits and _, at most 63 bytes";
/// Relative to the folder of the configuration.
const SQLITE_FILE: &str = "data/tollgate.sqlite";

keys! {
    /// The keys that name the database of a sink. Each sink has exactly one of them.
    pub(super) KINDS of ();
    /// The database file. Each sink needs its own.
    sqlite [SQLITE] = other("needed, or another of these", "a path");
    /// The address of a PostgreSQL server, version 15 or later.
    postgres [POSTGRES] = other("needed, or another of these", postgres::ADDRESS_ALLOWED);
    /// Addresses of the brokers of a Kafka cluster.
    kafka [KAFKA] = other("needed, or another of these", "`host:port`, or several with commas");
    /// The place of Parquet files: a folder, or a bucket with a prefix.
    parquet [PARQUET] = other("needed, or another of these", parquet::PLACE_ALLOWED);
    /// Tables of Apache Iceberg: a catalog and a warehouse.
    iceberg [ICEBERG] = other("needed, or another of these", iceberg::ALLOWED);
}

keys! {
    pub(super) KEYS of SinkOptions;
    /// The streams that are loaded into the sink.
    streams [STREAMS] = other("all", "a list of streams");
    /// The first record of a new sink: the oldest record that the log keeps, or the next one.
    from = one_of("oldest", names::<LoadFrom>) => from;
    /// SQL that runs in the transaction of each load, after its rows were written.
    after_load [AFTER_LOAD] = other("none", "a file");
    /// The loading stops if the database refuses more rows of one segment than this.
    rejects_max = integer(1000, 0..=1_000_000_000) => rejects_max;
}

impl Named for LoadFrom {
    fn all() -> Vec<(&'static str, Self)> {
        Self::ALL.into()
    }
}

/// A database that rows are loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkConfig {
    /// The kind and place of the database, and the options of the sink.
    pub(crate) options: SinkOptions,
    /// The connection to PostgreSQL, or the password for Kafka, as the file writes it. Variables are not
    /// replaced, because the value holds a password.
    written: String,
    /// The place and the store of files.
    lake: Option<Lake>,
    iceberg: Option<Iceberg>,
}

impl SinkConfig {
    /// Returns the sink of a configuration that names none.
    pub(super) fn default_in(folder: &Path) -> Self {
        Self::new("main".to_owned(), SinkKind::Sqlite { path: folder.join(SQLITE_FILE) })
    }

    fn new(name: String, kind: SinkKind) -> Self {
        Self { options: SinkOptions::new(name, kind), written: String::new(), lake: None, iceberg: None }
    }

    /// Returns the key of the connection to its database, and the connection with its password. `None`: the
    /// database is a file.
    pub(super) fn connection(&self) -> Option<(&'static str, &PostgresUrl)> {
        match &self.options.kind {
            SinkKind::Sqlite { .. } | SinkKind::Kafka(_) | SinkKind::Parquet(_) => None,
            SinkKind::Postgres(postgres) => Some((POSTGRES.name, &postgres.server)),
            SinkKind::Iceberg(options) => match &options.catalog {
                CatalogPlace::Postgres(server) => Some((iceberg::CATALOG_PATH, server)),
                CatalogPlace::Sqlite(_) | CatalogPlace::Rest(_) => None,
            },
        }
    }

    /// Returns the folder and the files of secrets of a sink of files, by their keys.
    pub(super) fn files_of_lake(&self) -> Vec<(&'static str, &Path)> {
        let mut files = self.lake.as_ref().map_or_else(Vec::new, Lake::files);
        files.extend(self.iceberg.as_ref().and_then(Iceberg::file));
        files
    }

    /// Returns the files with secrets of a Kafka sink, with their keys.
    pub(super) fn secrets_of_kafka(&self) -> Vec<(&'static str, &Path)> {
        match &self.options.kind {
            SinkKind::Kafka(options) => kafka::secret_files(options),
            _ => Vec::new(),
        }
    }

    /// Returns the name under which the database stores the positions of this sink.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// Returns the SQLite file. `None`: it is another kind of database.
    pub(crate) fn sqlite(&self) -> Option<&Path> {
        match &self.options.kind {
            SinkKind::Sqlite { path } => Some(path),
            SinkKind::Postgres(_) | SinkKind::Kafka(_) | SinkKind::Parquet(_) | SinkKind::Iceberg(_) => None,
        }
    }
}

/// Writes the place of the database, for people.
impl fmt::Display for SinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.options.kind {
            SinkKind::Sqlite { path } => path.display().fmt(f),
            SinkKind::Postgres(options) => options.server.fmt(f),
            SinkKind::Kafka(options) => write!(f, "kafka://{}", options.broker.brokers),
            SinkKind::Parquet(options) => options.place.fmt(f),
            SinkKind::Iceberg(options) => {
                write!(f, "{}, catalog {}", options.files.place, options.catalog)
            }
        }
    }
}

/// Returns the sink with this name, or all sinks.
///
/// # Errors
/// There is no sink with this name, or none at all.
pub(super) fn chosen<'sinks>(
    sinks: &'sinks [SinkConfig],
    name: Option<&str>,
) -> Result<&'sinks [SinkConfig], UnknownSink> {
    if sinks.is_empty() {
        return Err(UnknownSink::NoSinks);
    }
    let Some(name) = name else { return Ok(sinks) };
    let known = || sinks.iter().map(SinkConfig::name);
    match sinks.iter().position(|sink| sink.name() == name) {
        Some(at) => Ok(&sinks[at..=at]),
        None => Err(UnknownSink::Named { name: name.to_owned(), hint: did_you_mean(name, known()) }),
    }
}

/// A sink that the configuration does not have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnknownSink {
    /// There are other sinks.
    #[error("unknown sink {name:?}{hint}")]
    Named { name: String, hint: String },
    /// There is no sink, because records are shipped.
    #[error("the configuration has no [sink.NAME], only [ship.NAME]: name one that has a sink")]
    NoSinks,
}

/// Reads all sinks, in the order of the file.
pub(super) fn sinks(
    root: &mut Section<'_>,
    folder: &Path,
    log: &LogOptions,
    streams: &[StreamSpec],
) -> Vec<SinkConfig> {
    let mut sinks: Vec<SinkConfig> = Vec::new();
    for (name, mut section) in root.named_tables("sink") {
        check_name(&name, &section);
        check_kind(&name.value, &mut section, streams);
        let sqlite = path(&mut section, SQLITE.name, PathTo::File);
        let file = sqlite.as_ref().map(|written| folder.join(&written.value));
        if let (Some(written), Some(file)) = (&sqlite, &file)
            && let Some(other) = sinks.iter().find(|sink| sink.sqlite() == Some(file))
        {
            let (name, other) = (&name.value, other.name());
            let text = format!(
                "sqlite in [sink.{name}] is the file of [sink.{other}]: each sink needs its own file"
            );
            section.fault_at(&written.span, text);
        }
        if let (Some(written), Some(file)) = (&sqlite, &file)
            && (file.is_dir() || *file == log.dir)
        {
            let (name, found) = (&name.value, &written.value);
            let text =
                format!("sqlite in [sink.{name}] is {found:?}, a folder: allowed is the path of a file");
            section.fault_at(&written.span, text);
        }
        let mut sink = read(&mut section, name.value, file, (folder, &log.dir), streams);
        sink.options.taken = taken(&mut section, &sink.options.name, streams);
        sink.options.after_load = after_load(&mut section, folder);
        section.read(KEYS, &mut sink.options);
        check_without_database(&sink, &sinks, &section, streams);
        section.finish();
        sinks.push(sink);
    }
    sinks
}

/// Passes the streams of the configuration to the sinks. A sink then makes no table that would refuse rows of
/// these streams.
pub(super) fn declare(sinks: &mut [SinkConfig], streams: &[StreamSpec]) {
    // A schema that cannot be made is reported when the log is opened.
    let declared: DeclaredStreams = streams.iter().map(StreamSpec::schema).filter_map(Result::ok).collect();
    for sink in sinks {
        sink.options.declared = declared.clone();
    }
}

/// Checks what topics and files cannot do: run SQL, and find the rows of a key.
fn check_without_database(
    sink: &SinkConfig,
    others: &[SinkConfig],
    section: &Section<'_>,
    streams: &[StreamSpec],
) {
    match &sink.options.kind {
        SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => return,
        SinkKind::Kafka(kafka) => kafka::check_topics(kafka, &sink.options.taken, streams, section),
        SinkKind::Parquet(_) | SinkKind::Iceberg(_) => {
            check_place(sink, others, section);
            check_names(&sink.options, streams, section);
        }
    }
    if sink.options.after_load.is_some() {
        section.fault_of(AFTER_LOAD.name, format!("after_load in {} needs a database", section.name()));
    }
    for fault in key_faults(&sink.options, streams) {
        section.fault(fault);
    }
}

/// Checks that files and tables can have the names of streams and columns.
fn check_names(options: &SinkOptions, streams: &[StreamSpec], section: &Section<'_>) {
    let taken = streams.iter().filter(|stream| options.taken.takes(&stream.name));
    for schema in taken.filter_map(|stream| stream.schema().ok()) {
        if let Err(error) = options.kind.check_names(&schema) {
            let (sink, stream) = (section.name(), schema.stream());
            section.fault(format!("{sink} takes [stream.{stream}]: {error}"));
        }
    }
}

/// Checks that no other sink has the place of these files, a place inside of it or around it, or these
/// tables.
fn check_place(sink: &SinkConfig, others: &[SinkConfig], section: &Section<'_>) {
    let Some(lake) = &sink.lake else { return };
    let (kind, name, place) = (lake.kind, sink.name(), &lake.options.place);
    let lakes = others.iter().filter_map(|other| Some((other.name(), &other.lake.as_ref()?.options.place)));
    if let Some((other, found)) = lakes.into_iter().find(|(_, other)| overlap(other, place)) {
        let text = if found.is_same(place) {
            format!("{kind} in [sink.{name}] is the place of [sink.{other}]: each sink needs its own place")
        } else {
            format!(
                "{kind} in [sink.{name}] is {place}, and [sink.{other}] has {found}, one inside of the \
                 other: readers of the outer place would count rows twice, choose separate places"
            )
        };
        section.fault_of(kind, text);
    }
    let Some(tables) = &sink.iceberg else { return };
    let has_tables =
        |other: &&SinkConfig| other.iceberg.as_ref().is_some_and(|other| other.has_tables_of(tables));
    if let Some(other) = others.iter().find(has_tables) {
        let (name, other) = (sink.name(), other.name());
        let text = format!(
            "iceberg in [sink.{name}] has the catalog and the namespace of [sink.{other}]: each sink needs its \
             own namespace"
        );
        section.fault_of(ICEBERG.name, text);
    }
}

/// Whether one place is the other, or is inside of it. Links of folders are followed.
fn overlap(one: &LakePlace, other: &LakePlace) -> bool {
    match (one, other) {
        (LakePlace::Folder(one), LakePlace::Folder(other)) => {
            let (one, other) = (without_links(one), without_links(other));
            one.starts_with(&other) || other.starts_with(&one)
        }
        (LakePlace::Objects(one), LakePlace::Objects(other)) => {
            let (prefix, other_prefix) = (Path::new(&one.place.prefix), Path::new(&other.place.prefix));
            (one.place.service, &one.place.bucket, &one.endpoint)
                == (other.place.service, &other.place.bucket, &other.endpoint)
                && (prefix.starts_with(other_prefix) || other_prefix.starts_with(prefix))
        }
        _ => false,
    }
}

/// Returns a path without links and without `..`. Its folders need not exist yet.
fn without_links(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
        if let Ok(target) = std::fs::canonicalize(&found) {
            found = target;
        }
    }
    found
}

fn check_name(name: &Written<String>, section: &Section<'_>) {
    if !is_sink_name(&name.value) {
        section.fault_at(&name.span, format!("sink is named {:?}, allowed is {NAME_ALLOWED}", name.value));
    }
}

/// Whether a sink may have this name.
pub(super) fn is_sink_name(name: &str) -> bool {
    is_name(name) && name.len() <= NAME_BYTES_MAX
}

fn check_kind(sink: &str, section: &mut Section<'_>, streams: &[StreamSpec]) {
    let kinds = [SQLITE.name, POSTGRES.name, KAFKA.name, PARQUET.name, ICEBERG.name];
    let given: Vec<_> = kinds.into_iter().filter(|kind| section.has(kind)).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        let allowed = kinds.join(", ");
        section
            .fault(format!("[sink.{sink}] needs one database, found {found}, allowed is one of {allowed}"));
    }
    if given.is_empty() {
        postgres::read_without_address(section, streams);
    }
}

/// Reads a sink with the kind of its database. If no kind is set, a placeholder is returned, because the
/// fault refuses the file anyway.
fn read(
    section: &mut Section<'_>,
    name: String,
    sqlite: Option<PathBuf>,
    (folder, log_dir): (&Path, &Path),
    streams: &[StreamSpec],
) -> SinkConfig {
    let written = section.as_written(POSTGRES.name).map(hide_password);
    let written = written.or_else(|| section.as_written(kafka::SASL_PASSWORD.name).map(str::to_owned));
    let written = written.unwrap_or_default();
    let file = sqlite.unwrap_or_else(|| folder.join(SQLITE_FILE));
    let address = section.text(POSTGRES.name);
    let postgres = postgres::read(section, address, streams);
    let brokers = section.text(KAFKA.name);
    let (lake, iceberg) = match section.has(PARQUET.name) {
        true => (Some(parquet::read(section, (folder, log_dir))), None),
        false => {
            section.skip(PARQUET.name);
            iceberg::read(section, (folder, log_dir)).unzip()
        }
    };
    let kind = match (postgres, brokers, &lake) {
        (Some(options), _, _) => SinkKind::Postgres(Box::new(options)),
        (None, Some(brokers), _) => SinkKind::Kafka(Box::new(kafka::read(section, &brokers, folder))),
        (None, None, Some(lake)) => match &iceberg {
            Some(iceberg) => SinkKind::Iceberg(Box::new(iceberg.options.clone())),
            None => SinkKind::Parquet(Box::new(lake.options.clone())),
        },
        (None, None, None) => SinkKind::Sqlite { path: file },
    };
    SinkConfig { written, lake, iceberg, ..SinkConfig::new(name, kind) }
}

fn taken(section: &mut Section<'_>, sink: &str, streams: &[StreamSpec]) -> Taken {
    let Some(written) = section.texts(STREAMS.name) else { return Taken::All };
    if written.is_empty() {
        let text = format!(
            "streams in [sink.{sink}] is empty, allowed is a list of streams: remove the key for all streams"
        );
        section.fault_of(STREAMS.name, text);
    }
    let mut taken = BTreeSet::new();
    for name in written {
        if let Some(text) = unknown_stream(&name.value, &format!("[sink.{sink}]"), streams) {
            section.fault_at(&name.span, text);
        }
        taken.insert(name.value);
    }
    Taken::Only(taken)
}

fn after_load(section: &mut Section<'_>, folder: &Path) -> Option<PathBuf> {
    let file = section.text(AFTER_LOAD.name)?;
    let path = folder.join(&file.value);
    if !path.is_file() {
        let text =
            denial(&path).unwrap_or_else(|| format!("after_load is {}, which is not a file", path.display()));
        section.fault_at(&file.span, text);
    }
    Some(path)
}

/// Writes the section. The password is hidden.
pub(super) fn write_sink(sink: &SinkConfig, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let options = &sink.options;
    writeln!(f, "\n[sink.{}]", options.name)?;
    match &options.kind {
        SinkKind::Sqlite { path } => write(KINDS, &(), &[(SQLITE.name, Some(quoted_path(path)))], f)?,
        SinkKind::Postgres(options) => {
            // The text is not escaped, so its variables are printed as variables.
            let url = toml::Value::String(sink.written.clone()).to_string();
            write(KINDS, &(), &[(POSTGRES.name, Some(url))], f)?;
            postgres::write_postgres(options, f)?;
        }
        SinkKind::Kafka(kafka) => {
            write(KINDS, &(), &[(KAFKA.name, Some(quoted(&kafka.broker.brokers)))], f)?;
            kafka::write_kafka(kafka, &sink.written, f)?;
        }
        SinkKind::Parquet(_) | SinkKind::Iceberg(_) => {
            if let Some(lake) = &sink.lake {
                let place = lake.printed_place();
                let value =
                    sink.iceberg.as_ref().map_or_else(|| place.clone(), |tables| tables.printed(&place));
                write(KINDS, &(), &[(lake.kind, Some(value))], f)?;
                lake.write_keys(f)?;
            }
        }
    }
    let streams = match &options.taken {
        Taken::Only(streams) => Some(quoted_list(streams)),
        Taken::All => None,
    };
    let after_load = options.after_load.as_deref().map(quoted_path);
    write(KEYS, options, &[(STREAMS.name, streams), (AFTER_LOAD.name, after_load)], f)
}
