//! Tables of streams that somebody dropped.

use super::LoaderThread;
use crate::error::SinkError;
use crate::sink::StreamTallies;

impl LoaderThread {
    /// Looks for tables that are missing although rows were loaded into them.
    pub(super) fn look_for_tables(&mut self) -> Result<(), SinkError> {
        let mut lost = self.sink()?.lost_tables()?;
        lost.retain(|stream, _| self.options.sink.taken.takes(stream));
        self.control.update(|status| status.lost_tables = lost);
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
