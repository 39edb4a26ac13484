//! The key `duplicates` of sinks that cannot remember the keys of rows: Kafka, Parquet and Iceberg.

use std::fmt;

use tollgate_load::{Duplicates, SinkKind, SinkOptions};
use tollgate_server::StreamSpec;

use super::key::{keys, write};
use super::section::Section;
use super::value::{Value, named, names};

named!(Duplicates);

keys! {
    /// The key of sinks that cannot remember the keys of rows.
    pub(super) KEYS of ();
    /// What happens to rows with the key of an earlier row, which such a sink cannot find.
    duplicates [DUPLICATES] = one_of("refuse", names::<Duplicates>);
}

/// Reads the key.
pub(super) fn read(section: &mut Section<'_>) -> Duplicates {
    let mut duplicates = Duplicates::default();
    Value::set(&mut duplicates, section.number_or_default(&DUPLICATES));
    duplicates
}

/// Writes the key.
pub(super) fn write_key(duplicates: Duplicates, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write(KEYS, &(), &[(DUPLICATES.name, Some(DUPLICATES.show(duplicates.number())))], f)
}

/// Returns a fault for each stream with a key whose retries the sink would load as rows of their own.
pub(super) fn key_faults(options: &SinkOptions, streams: &[StreamSpec]) -> Vec<String> {
    let (duplicates, kind) = match &options.kind {
        SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => return Vec::new(),
        SinkKind::Kafka(kafka) => (kafka.duplicates, "a topic"),
        SinkKind::Parquet(parquet) => (parquet.duplicates, "Parquet files"),
        SinkKind::Iceberg(iceberg) => (iceberg.files.duplicates, "Parquet files"),
    };
    let keyed = streams.iter().filter(|stream| stream.key.is_some() && options.taken.takes(&stream.name));
    let refused = keyed.filter(|_| duplicates == Duplicates::Refuse);
    refused
        .map(|stream| {
            format!(
                "[sink.{}] takes [stream.{}], which has a key: {kind} cannot find the rows of a retry. Set \
                 duplicates = \"keep\" in the sink, or take the stream from its streams",
                options.name, stream.name
            )
        })
        .collect()
}
