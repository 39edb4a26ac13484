//! `tollgate log repair`: repairs logs as the start of a server does, without a server. The bytes that a
//! repair cuts off are kept.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tollgate_log::{
    DiskStorage, RepairMode, RepairReport, SegmentDigestAlgorithm, SegmentRepair, Storage, Treatment, repair,
};

use super::folder::{LogFolder, logs_in};
use crate::print::{counted, note, to_stdout};
use crate::progress::Progress;

/// Repairs every log of a folder that no server uses. A dry run only prints the repairs.
pub(super) fn run(path: &Path, is_dry_run: bool) -> anyhow::Result<ExitCode> {
    let LogFolder { dir, config } = LogFolder::find(path)?;
    let digest = config.map_or_else(SegmentDigestAlgorithm::default, |config| config.log.digest);
    let mode = if is_dry_run { RepairMode::DryRun } else { RepairMode::Mend };
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let report = {
        let _progress = Progress::of_logs("repair", &dir, &logs_in(&dir)?, 1);
        repair(&storage, &dir, digest, mode)?
    };
    to_stdout(|out| print_report(report, mode, out))
}

fn print_report(report: RepairReport, mode: RepairMode, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    for segment in &report.segments {
        writeln!(out, "{}", line(segment))?;
    }
    let changed = report.segments.iter().filter(|segment| !segment.treatment.is_nothing()).count();
    let verb = if mode == RepairMode::DryRun { "to repair" } else { "repaired" };
    let same = report.segments.len() - changed;
    writeln!(
        out,
        "{}: {same} unchanged, {changed} {verb}",
        counted(report.segments.len() as u64, "segment")
    )?;
    out.flush()?;
    let is_done = report.held.is_empty() && report.failed.is_empty();
    for log in report.held {
        note(&format!("log {log} is skipped, because another process writes to it"));
    }
    for (log, error) in report.failed {
        note(&format!("log {log} cannot be repaired: {:#}", anyhow::Error::new(error)));
    }
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a line with the finding and the repair of a segment. A dry run prints the same words.
fn line(SegmentRepair { path, treatment }: &SegmentRepair) -> String {
    let path = path.display();
    let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
    match treatment {
        Treatment::Whole => format!("ok    {path}  sealed and whole"),
        Treatment::AsideAlready => format!("ok    {path}  set aside earlier"),
        Treatment::Left => format!("left  {path}  has an unknown format version, and is not changed"),
        Treatment::Seal => format!("seal  {path}  whole, but without its footer or its sealed name"),
        Treatment::Cut { at, bytes, kept } => {
            let kept = name(kept);
            format!(
                "cut   {path} at byte {at}: the last {bytes} bytes were not acknowledged as synced, kept as \
                 {kept}; sealed"
            )
        }
        Treatment::Torn { kept } => {
            format!("torn  {path}  no record was acknowledged as synced, kept as {}", name(kept))
        }
        Treatment::SetAside { aside, reason } => {
            format!("aside {path}  {reason}; its intact records are read from {}", name(aside))
        }
    }
}
