//! The formats of printed records: one line each, as JSON, as text, or as an access log.

mod combined;
mod json;
mod text;
mod value;

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::bail;
use tollgate_log::{LogId, RecordBatch, Sequence};

use crate::cli::{RecordFormat, WrongUsage};
use crate::config::{Config, did_you_mean};
use crate::print::note;
use combined::Combined;
use text::Text;

/// Prints records in one format.
pub(super) struct Printer {
    format: Format,
    /// Only records of this stream are printed.
    stream: Option<String>,
    /// Streams of the configuration, and of the logs so far.
    known: BTreeSet<String>,
    line: String,
}

/// A stream that neither the configuration nor any log has.
#[derive(Debug, thiserror::Error)]
#[error("unknown stream {name:?}{hint}")]
pub(crate) struct UnknownStream {
    name: String,
    hint: String,
}

enum Format {
    Json,
    Text(Text),
    Combined(Combined),
}

impl Printer {
    /// Makes a printer.
    ///
    /// # Errors
    /// The combined format needs a configuration, because only it knows the sources of columns.
    pub(super) fn new(
        format: RecordFormat,
        stream: Option<&str>,
        config: Option<&Config>,
    ) -> anyhow::Result<Self> {
        let format = match (format, config) {
            (RecordFormat::Json, _) => Format::Json,
            (RecordFormat::Text, _) => Format::Text(Text::default()),
            (RecordFormat::Combined, Some(config)) => Format::Combined(Combined::new(&config.server.streams)),
            (RecordFormat::Combined, None) => bail!(WrongUsage(
                "the format combined needs a configuration, which names the sources of columns: pass the \
                 configuration or the folder of the app"
            )),
        };
        let streams = config.into_iter().flat_map(|config| &config.server.streams);
        let known = streams.map(|stream| stream.name.clone()).collect();
        Ok(Self { format, stream: stream.map(str::to_owned), known, line: String::new() })
    }

    /// Notes the streams of a log.
    pub(super) fn know<'s>(&mut self, streams: impl Iterator<Item = &'s str>) {
        self.known.extend(streams.map(str::to_owned));
    }

    /// Checks that the requested stream exists, so that a misspelt name does not look like a stream without
    /// records.
    pub(super) fn expect_stream(&self) -> Result<(), UnknownStream> {
        match &self.stream {
            Some(name) if !self.known.contains(name) => {
                let hint = did_you_mean(name, self.known.iter().map(String::as_str));
                Err(UnknownStream { name: name.clone(), hint })
            }
            _ => Ok(()),
        }
    }

    /// Prints the records of a batch from a number on. Returns whether all could be read.
    pub(super) fn print(
        &mut self,
        log: LogId,
        batch: &RecordBatch<'_>,
        from: Sequence,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let mut is_whole = true;
        for record in batch.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    is_whole = false;
                    let first = batch.first();
                    note(&format!("log {log}: a record at or after {first} cannot be read: {error}"));
                    continue;
                }
            };
            let is_wanted = self.stream.as_deref().is_none_or(|stream| record.schema.stream() == stream);
            if !is_wanted || record.sequence < from {
                continue;
            }
            self.line.clear();
            match &mut self.format {
                Format::Json => json::push_record(&mut self.line, log, &record),
                Format::Text(text) => text.push_record(&mut self.line, log, batch.stamp_us(), &record),
                Format::Combined(combined) => combined.push_record(&mut self.line, &record),
            }
            writeln!(out, "{}", self.line)?;
        }
        Ok(is_whole)
    }
}

#[cfg(test)]
mod tests;
