//! `tollgate log accept`: accepts the damage of segments that an operator has seen.

use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use tollgate_log::{AcceptedDamage, DiskStorage, LogId, SegmentName, SegmentState, verify_segment};

use crate::config::denial;
use crate::print::to_stdout;

/// Accepts each segment, and prints it.
pub(super) fn run(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    to_stdout(|out| {
        for file in files {
            accept(file).with_context(|| format!("cannot accept {}", file.display()))?;
            writeln!(out, "accepted  {}", file.display())?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn accept(file: &Path) -> anyhow::Result<()> {
    if let Some(refusal) = denial(file) {
        bail!(refusal);
    }
    let file = absolute(file)?;
    let (dir, log, name) = place_of(&file)
        .context("it is not a segment in a log folder: name a file such as LOG-DIR/LOG-ID/NUMBER.damaged")?;
    ensure!(
        name.state != SegmentState::Open,
        "the segment is open: a start or `tollgate log repair` checks it"
    );
    let verdict = verify_segment(&DiskStorage, name, &file, None)?;
    let is_damaged = name.state == SegmentState::Damaged || verdict.problem.is_some();
    ensure!(is_damaged, "the segment is not damaged");
    AcceptedDamage::read(&DiskStorage, dir)?.accept(&DiskStorage, dir, log, name)?;
    Ok(())
}

/// Returns the log folder, the log and the name of a segment file.
fn place_of(file: &Path) -> Option<(&Path, LogId, SegmentName)> {
    let folder = file.parent()?;
    let log = folder.file_name()?.to_str()?.parse().ok()?;
    Some((folder.parent()?, log, SegmentName::parse(file.file_name()?.to_str()?)?))
}
