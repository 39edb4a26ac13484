//! Dropped tables of streams, and the copies of topics.

use std::time::{Duration, Instant};

use tollgate_log::Schema;

use super::LoaderThread;
use crate::error::SinkError;
use crate::sink::{SinkOptions, StreamTallies};

/// Time between two looks at the copies of topics. An operator changes them rarely.
const DESCRIBE_PERIOD: Duration = Duration::from_secs(30);

impl LoaderThread {
    /// Looks for tables that are missing although rows were loaded into them.
    pub(super) fn look_for_tables(&mut self) -> Result<(), SinkError> {
        let mut lost = self.sink()?.lost_tables()?;
        lost.retain(|stream, _| self.options.sink.taken.takes(stream));
        self.control.update(|status| status.lost_tables = lost);
        Ok(())
    }

    /// Describes the topics of a Kafka sink, once in [`DESCRIBE_PERIOD`].
    pub(super) fn describe_topics(&mut self) -> Result<(), SinkError> {
        if self.described_at.is_some_and(|at| at.elapsed() < DESCRIBE_PERIOD) {
            return Ok(());
        }
        let SinkOptions { declared, taken, .. } = &self.options.sink;
        let streams = declared.iter().map(Schema::stream).filter(|stream| taken.takes(stream));
        let streams: Vec<_> = streams.map(str::to_owned).collect();
        let topics = self.sink()?.topic_copies(&streams)?;
        self.described_at = Some(Instant::now());
        self.control.update(|status| status.topics = topics);
        Ok(())
    }

    /// Notes the lost tables that a commit created again.
    pub(super) fn note_remade(&self, tallies: &StreamTallies) {
        let sink = &self.options.sink.name;
        for (stream, lost) in &tallies.remade {
            let (table, rows) = (&lost.table, lost.rows);
            tracing::error!(
                sink,
                stream,
                table,
                rows,
                "a table was missing: it is created again without its rows"
            );
            self.control.update(|status| {
                status.lost_tables.remove(stream);
                status.remade_tables.insert(stream.clone(), lost.clone());
            });
        }
    }
}
