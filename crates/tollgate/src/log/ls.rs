//! `tollgate log ls`: lists logs and their segments.

use std::path::Path;
use std::process::ExitCode;

use tollgate_log::{
    DiskStorage, LogError, SegmentName, SegmentState, Sequence, join_chain, read_footer, scan_segment,
    segments,
};

use super::folder::{LogFolder, logs_in, settled};
use crate::print::{note, table, to_stdout, write_table};

/// Lists the segments of every log.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    let dir = LogFolder::find(path)?.dir;
    let mut table = table(&["log", "segment", "state", "sequence", "records", "bytes", "digest"]);
    let mut failed = Vec::new();
    for log in logs_in(&dir)? {
        let listed = segments(&DiskStorage, &dir, log).unwrap_or_else(|error| {
            failed.push(error);
            Vec::new()
        });
        for (name, path) in listed {
            let (name, path) = settled(name, path);
            let content = match Content::of(name, &path) {
                // The segment was deleted after it was listed.
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    failed.push(error);
                    continue;
                }
                Ok(content) => content,
            };
            table.add_row([
                log.to_string(),
                format!("{:020}", name.first.0),
                name.state.to_string(),
                content.sequence(),
                content.records.to_string(),
                content.bytes.to_string(),
                content.digest,
            ]);
        }
    }
    to_stdout(|out| {
        write_table(out, &mut table)?;
        out.flush()?;
        failed.iter().for_each(|error| note(&join_chain(error)));
        Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The contents of a segment that a listing shows.
pub(super) struct Content {
    first: Sequence,
    last: Sequence,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) digest: String,
}

impl Content {
    /// Reads the footer of a sealed segment, or all batches of any other segment.
    pub(super) fn of(name: SegmentName, path: &Path) -> Result<Self, LogError> {
        let sealed = match name.state {
            SegmentState::Sealed => read_footer(&DiskStorage, path)?,
            SegmentState::Open | SegmentState::Damaged => None,
        };
        if let Some(footer) = sealed {
            let bytes = path.metadata().map_err(LogError::io("read the size of", path))?.len();
            let digest = footer.digest.to_string();
            return Ok(Self { first: name.first, last: footer.last, records: footer.records, bytes, digest });
        }
        let scan = scan_segment(&DiskStorage, path)?;
        let digest = scan.footer.as_ref().map_or_else(|| "-".to_owned(), |footer| footer.digest.to_string());
        let (last, records) = (scan.last, scan.records());
        Ok(Self { first: name.first, last, records, bytes: scan.used_bytes, digest })
    }

    pub(super) fn sequence(&self) -> String {
        if self.records == 0 { "-".to_owned() } else { format!("{}..{}", self.first, self.last) }
    }
}
