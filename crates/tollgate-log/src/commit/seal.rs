//! The sealer: reads closed segments back, digests them, and renames them.

use std::time::Duration;

use super::pipeline::CommitPipeline;
use super::state::LogState;
use crate::segment_list::SealedSegment;
use crate::segment_writer::ClosedSegment;

/// Increase of the niceness of the sealer thread, so that workers get the processor first.
const SEALER_NICENESS: i32 = 10;

pub(crate) fn seal_loop(pipeline: &CommitPipeline) {
    let log = &pipeline.state;
    // A failure is ignored, because sealing works at any priority.
    let _ = rustix::process::nice(SEALER_NICENESS);
    let mut digest_before = [0; 64];
    while let Some(segment) = next_closed(log) {
        match segment.seal(&*log.storage, log.options.digest, digest_before) {
            Ok(footer) => {
                digest_before = footer.digest_bytes();
                sealed(log, SealedSegment::new(log.id, segment.first(), &footer));
            }
            Err(error) => return pipeline.fail(&error),
        }
    }
    log.progress().is_sealer_done = true;
    log.retain_wake.notify_all();
}

fn sealed(log: &LogState, segment: SealedSegment) {
    let mut progress = log.progress();
    progress.closed.pop_front();
    progress.sealed.push(segment);
    drop(progress);
    log.seal_wake.notify_all();
}

/// Waits for a closed segment whose records are synced. The segment stays in the queue while it is sealed.
fn next_closed(log: &LogState) -> Option<ClosedSegment> {
    let mut progress = log.progress();
    loop {
        if log.failure().is_some() {
            return None;
        }
        match progress.closed.front() {
            Some(segment) if segment.last <= log.synced() => return Some(segment.clone()),
            None if progress.is_writer_done && progress.is_syncer_done => return None,
            _ => progress = log.wait(&log.seal_wake, progress, Duration::from_secs(1)),
        }
    }
}
