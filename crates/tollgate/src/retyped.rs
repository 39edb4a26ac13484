//! Columns of the configuration whose type differs from the type in a log.

use std::sync::Arc;

use tollgate_log::Schema;
use tollgate_server::StreamSpec;

use crate::config::{Config, Fault};

/// Returns the columns whose type differs from the type in this log's newest schema of the stream. The table
/// of the sink has the type of the log, so it would refuse each row with another type.
pub(crate) fn retyped(config: &Config, known: &[Arc<Schema>]) -> Vec<String> {
    let streams = config.server.streams.iter();
    let faults = streams.flat_map(|stream| retyped_columns(stream, known));
    faults.map(|fault| Fault::of_file(&config.source, fault).to_string()).collect()
}

fn retyped_columns(stream: &StreamSpec, known: &[Arc<Schema>]) -> Vec<String> {
    let of_stream = |schema: &&Arc<Schema>| schema.stream().eq_ignore_ascii_case(&stream.name);
    let schemas: Vec<_> = known.iter().rev().filter(of_stream).collect();
    let mut faults = Vec::new();
    for column in &stream.columns {
        let mut columns = schemas.iter().flat_map(|schema| schema.table_columns());
        let newest = columns.find(|known| known.name.eq_ignore_ascii_case(&column.name));
        if let Some(known) = newest.filter(|known| known.kind.without_size() != column.kind.without_size()) {
            let (name, found, present) = (&column.name, column.kind.name(), known.kind.name());
            faults.push(format!(
                "column {name:?} of [stream.{}] is {found}, but {present} in the log: no reload changes a \
                 type. Give the column or the stream another name, or change the type by a restart",
                stream.name
            ));
        }
    }
    faults
}
