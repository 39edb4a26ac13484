//! `tollgate log dump`: prints one segment file, field by field, and says which fields are valid.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use tollgate_log::{
    BatchHeader, BatchKind, BatchPart, DiskStorage, FooterPart, FormatError, Inspector, RecordContent,
    RecordPart, Schema, SegmentFooter, SegmentHeader, SegmentPart,
};
use tollgate_value::trimmed_timestamp_text;

use crate::print::{printable, to_stdout};

/// Prints all parts of a segment file. Fails if any part is not valid.
pub(super) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let mut inspector = Inspector::open(&DiskStorage, file)?;
    to_stdout(|out| {
        let count = write_parts(&mut inspector, out)?;
        let summary = if count == 0 { "no problems".to_owned() } else { format!("{count} PROBLEMS") };
        writeln!(out, "{}  {} bytes: {summary}", file.display(), inspector.file_bytes())?;
        Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Writes the parts of the segment, and returns the number of problems in them.
pub(super) fn write_parts(inspector: &mut Inspector, out: &mut dyn Write) -> anyhow::Result<usize> {
    let mut problems = 0;
    while let Some(part) = inspector.next_part()? {
        problems += match &part {
            SegmentPart::Header { version, header, checksum, problem } => {
                writeln!(out, "{:<10}segment header, 128 bytes", 0)?;
                write_header(out, *version, header.as_ref(), *checksum)?;
                write_problems(out, problem)?
            }
            SegmentPart::Batch(batch) => write_batch(out, batch)?,
            SegmentPart::Damage { offset, bytes, problem } => {
                writeln!(out, "{offset:<10}PROBLEM: {bytes} bytes that are not a batch: {problem}")?;
                1
            }
            SegmentPart::Runway { offset, bytes } => {
                writeln!(out, "{offset:<10}runway, {bytes} bytes")?;
                0
            }
            SegmentPart::Footer(footer) => write_footer(out, footer)?,
        };
    }
    Ok(problems)
}

/// Writes one field with its offset in the file.
fn field(out: &mut dyn Write, offset: u64, name: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "  {offset:<8}{name:<24}{value}")
}

fn write_problems<'a>(
    out: &mut dyn Write,
    problems: impl IntoIterator<Item = &'a FormatError>,
) -> io::Result<usize> {
    let mut count = 0;
    for problem in problems {
        count += 1;
        writeln!(out, "  PROBLEM: {problem}")?;
    }
    Ok(count)
}

fn write_header(
    out: &mut dyn Write,
    version: Option<u16>,
    header: Option<&SegmentHeader>,
    checksum: Option<u32>,
) -> io::Result<()> {
    if let Some(version) = version {
        field(out, 8, "format version", version)?;
    }
    let Some(header) = header else { return Ok(()) };
    let before = header.log_before.map_or_else(|| "none".to_owned(), |log| log.to_string());
    field(out, 16, "log", header.log)?;
    field(out, 32, "log before", before)?;
    field(out, 48, "nonce", "(8 bytes, never shown)")?;
    field(out, 56, "first sequence number", header.first)?;
    field(out, 64, "chain", format_args!("{:08x}", header.chain))?;
    field(out, 72, "node", printable(&header.node))?;
    checksum.map_or(Ok(()), |checksum| field(out, 124, "checksum", format_args!("{checksum:08x}")))
}

fn write_batch(out: &mut dyn Write, batch: &BatchPart) -> io::Result<usize> {
    let (offset, header) = (batch.offset, &batch.header);
    let kind = match header.kind {
        BatchKind::Records => "records",
        BatchKind::Schemas => "schemas",
    };
    writeln!(out, "{offset:<10}batch of {kind}, {} bytes", header.batch_bytes())?;
    write_batch_header(out, offset, header, batch.checksum)?;
    let mut problems = write_problems(out, &batch.problems)?;
    for record in &batch.records {
        problems += write_record(out, record)?;
    }
    Ok(problems)
}

fn write_batch_header(
    out: &mut dyn Write,
    offset: u64,
    header: &BatchHeader,
    checksum: u32,
) -> io::Result<()> {
    let stamp = trimmed_timestamp_text(header.stamp_us).unwrap_or_else(|| header.stamp_us.to_string());
    field(out, offset + 8, "payload bytes", header.payload_bytes)?;
    field(out, offset + 12, "count", header.count)?;
    field(out, offset + 16, "first sequence number", header.first)?;
    field(out, offset + 24, "durable", header.durable)?;
    field(out, offset + 32, "schema mask", format_args!("{:016x}", header.schema_mask))?;
    field(out, offset + 40, "stamp", stamp)?;
    field(out, offset + 48, "payload checksum", format_args!("{:08x}", header.payload_checksum))?;
    field(out, offset + 52, "previous", format_args!("{:08x}", header.previous))?;
    field(out, offset + 60, "header checksum", format_args!("{checksum:08x}"))
}

fn write_record(out: &mut dyn Write, record: &RecordPart) -> io::Result<usize> {
    let RecordPart { offset, bytes, schema, .. } = record;
    let who = match record.sequence {
        Some(sequence) => format!("record {sequence}"),
        None => format!("schema {}", schema.0),
    };
    write!(out, "  {offset:<8}{who:<24}{bytes} bytes  ")?;
    match &record.content {
        RecordContent::Row(stream) => writeln!(out, "row of {}", printable(stream))?,
        RecordContent::Reject(stream) => writeln!(out, "reject of {}", printable(stream))?,
        RecordContent::Schema(schema) => writeln!(out, "{}", columns(schema))?,
        RecordContent::Unreadable(problem) => writeln!(out, "PROBLEM: {problem}")?,
    }
    Ok(usize::from(matches!(record.content, RecordContent::Unreadable(_))))
}

fn columns(schema: &Schema) -> String {
    let columns = schema.columns().iter();
    let columns: Vec<_> =
        columns.map(|column| format!("{} {}", printable(&column.name), column.kind.name())).collect();
    format!("{} ({})", printable(schema.stream()), columns.join(", "))
}

fn write_footer(out: &mut dyn Write, part: &FooterPart) -> io::Result<usize> {
    writeln!(out, "{:<10}footer, {} bytes", part.offset, part.bytes)?;
    match &part.footer {
        Ok(footer) => write_footer_fields(out, part.offset, footer)?,
        Err(problem) => return write_problems(out, [problem]),
    }
    let problems = write_problems(out, &part.problems)?;
    if let Some(digest) = part.digest.filter(|_| part.problems.contains(&FormatError::Digest)) {
        writeln!(out, "  the bytes before the footer have {digest}")?;
    }
    Ok(problems)
}

fn write_footer_fields(out: &mut dyn Write, offset: u64, footer: &SegmentFooter) -> io::Result<()> {
    field(out, offset + 16, "batches", footer.batches)?;
    field(out, offset + 24, "records", footer.records)?;
    field(out, offset + 32, "last sequence number", footer.last)?;
    field(out, offset + 40, "content bytes", footer.content_bytes)?;
    field(out, offset + 48, "chain", format_args!("{:08x}", footer.chain))?;
    field(out, offset + 52, "digest", footer.digest)?;
    field(out, offset + 120, "digest before", hex(&footer.digest_before))?;
    field(out, offset + 184, "schemas counted", footer.counts.len())?;
    for (index, count) in footer.counts.iter().enumerate() {
        let (offset, name) = (offset + 192 + 24 * index as u64, format!("schema {}", count.schema.0));
        field(out, offset, &name, format_args!("{} rows, {} rejects", count.rows, count.rejects))?;
    }
    Ok(())
}

/// Returns a digest in hex, without the zeros that pad it.
fn hex(digest: &[u8]) -> String {
    let end = digest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if end == 0 {
        return "none".to_owned();
    }
    digest[..end].iter().map(|byte| format!("{byte:02x}")).collect()
}
