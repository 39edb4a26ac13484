//! The sealer: reads closed segments back, digests and renames them.

use std::time::Duration;

use super::Shared;
use crate::segment_writer::ClosedSegment;
use crate::shelf::SealedSegment;

/// How much nicer than the workers the sealer is.
const SEALER_NICENESS: i32 = 10;

pub(super) fn seal_loop(shared: &Shared) {
    // Being nice is a favour, not a need.
    let _ = rustix::process::nice(SEALER_NICENESS);
    let mut digest_before = [0; 64];
    while let Some(segment) = next_closed(shared) {
        match segment.seal(&*shared.storage, shared.options.digest, digest_before) {
            Ok(footer) => {
                digest_before = footer.digest_bytes();
                sealed(shared, SealedSegment::new(shared.log, segment.first(), &footer));
            }
            Err(error) => return shared.fail(&error),
        }
    }
    shared.progress().is_sealer_done = true;
    shared.retain_wake.notify_all();
}

fn sealed(shared: &Shared, segment: SealedSegment) {
    let mut progress = shared.progress();
    progress.closed.pop_front();
    progress.sealed.push(segment);
    drop(progress);
    shared.seal_wake.notify_all();
}

/// Waits for a closed segment whose records are synced; it stays in the queue while it is sealed.
fn next_closed(shared: &Shared) -> Option<ClosedSegment> {
    let mut progress = shared.progress();
    loop {
        if shared.failure().is_some() {
            return None;
        }
        match progress.closed.front() {
            Some(segment) if segment.last <= shared.synced() => return Some(segment.clone()),
            None if progress.is_writer_done && progress.is_syncer_done => return None,
            _ => progress = shared.wait(&shared.seal_wake, progress, Duration::from_secs(1)),
        }
    }
}
