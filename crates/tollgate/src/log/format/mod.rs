//! The formats of printed records: one line each, as JSON, as text, as CSV, or as an access log.

mod combined;
mod csv;
mod json;
mod text;
mod value;

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::bail;
use tollgate_log::{LogId, RecordBatch, RecordBody, Sequence};

use crate::cli::{RecordFormat, WrongUsage};
use crate::config::{Config, did_you_mean};
use crate::print::{counted, note};
use combined::Combined;
use csv::Csv;
use text::Text;
pub(crate) use value::push_value;

/// Returns the names of the columns of a stream, the key included, if the configuration has the stream.
fn configured_columns(config: Option<&Config>, stream: &str) -> Option<Vec<String>> {
    let spec = config?.server.streams.iter().find(|spec| spec.name == stream)?;
    let schema = spec.schema().ok()?;
    Some(schema.columns().iter().map(|column| column.name.clone()).collect())
}

/// Prints records in one format.
pub(super) struct Printer {
    format: Format,
    /// The stream whose records are printed. `None`: all streams.
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
    Envelope,
    Csv(Csv),
    Text(Text),
    Combined(Combined),
}

impl Printer {
    /// Makes a printer.
    ///
    /// # Errors
    /// The combined format needs a configuration, because only it knows the sources of columns. CSV needs a
    /// stream, because it has one header.
    pub(super) fn new(
        format: RecordFormat,
        stream: Option<&str>,
        config: Option<&Config>,
    ) -> anyhow::Result<Self> {
        let format = match (format, config) {
            (RecordFormat::Json, _) => Format::Json,
            (RecordFormat::Envelope, _) => Format::Envelope,
            (RecordFormat::Csv, config) => match stream {
                Some(stream) => Format::Csv(Csv::new(configured_columns(config, stream))),
                None => bail!(WrongUsage(
                    "the format csv has one header line, so it prints one stream: name it by --stream"
                )),
            },
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

    /// Omits the header line of CSV, for a file that already has it.
    ///
    /// # Errors
    /// The format has no header line.
    pub(super) fn leave_header_out(&mut self) -> Result<(), WrongUsage> {
        match &mut self.format {
            Format::Csv(csv) => {
                csv.is_header_due = false;
                Ok(())
            }
            _ => {
                Err(WrongUsage("--no-header leaves out the header line of the format csv: no other has one"))
            }
        }
    }

    /// Prints the header line of CSV before the first row, if the configuration has the stream.
    pub(super) fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.line.clear();
        if let Format::Csv(csv) = &mut self.format {
            csv.push_header(&mut self.line);
        }
        out.write_all(self.line.as_bytes())
    }

    /// Prints a note to stderr with the number of rejects that the CSV output omits.
    pub(super) fn finish(&self) {
        if let (Format::Csv(csv), Some(stream)) = (&self.format, &self.stream)
            && csv.rejects > 0
        {
            let rejects = counted(csv.rejects, "reject");
            note(&format!("{rejects} of stream {stream:?} are not in the CSV: --format json prints them"));
        }
    }

    /// Prints the records of a batch from a number on. Returns whether all records could be read.
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
                Format::Envelope => json::push_envelope(&mut self.line, log, &record),
                Format::Csv(csv) => {
                    let RecordBody::Row(values) = &record.body else {
                        csv.rejects += 1;
                        continue;
                    };
                    csv.know(record.schema);
                    csv.push_header(&mut self.line);
                    if let Some(column) = csv.push_row(&mut self.line, log, &record, values) {
                        is_whole = false;
                        note(&format!(
                            "log {log}: column {column:?} is not in the header line, so its values are not \
                             printed: --format json prints them"
                        ));
                    }
                }
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
