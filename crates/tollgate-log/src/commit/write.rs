//! The writer: takes batches from the workers, stamps and writes them, and waits for no sync of a file.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Shared;
use crate::append::{Message, WorkerBatch, WorkerMarks};
use crate::awaited::{Awaited, AwaitedBatch};
use crate::backlog::earlier;
use crate::error::LogError;
use crate::id::Sequence;
use crate::segment_writer::{Handover, SegmentWriter};

/// Batches that one write takes.
const WRITE_BATCHES_MAX: usize = 256;
/// Segments that may be closed and not sealed.
const UNSEALED_MAX: usize = 4;

pub(super) fn write_loop(shared: &Shared, mut writer: SegmentWriter, receiver: &Receiver<Message>) {
    let result = write_until_closed(shared, &mut writer, receiver);
    if let Err(error) = &result {
        shared.fail(error);
    }
    let closed = writer.close_segment();
    let mut progress = shared.progress();
    if result.is_ok() {
        progress.closed.extend(closed);
    }
    progress.is_writer_done = true;
    drop(progress);
    shared.sync_wake.notify_all();
}

fn write_until_closed(
    shared: &Shared,
    writer: &mut SegmentWriter,
    receiver: &Receiver<Message>,
) -> Result<(), LogError> {
    let mut opened_at = Instant::now();
    while shared.failure().is_none() {
        let age_left = match writer.active_bytes() {
            0 => Duration::MAX,
            _ => shared.options.segment_age_max.saturating_sub(opened_at.elapsed()),
        };
        let is_full = writer.active_bytes() >= shared.options.segment_bytes_max;
        // What is sealed can be loaded and deleted: that makes room.
        if age_left.is_zero() || is_full || shared.room.is_short() {
            close_segment(shared, writer);
        }
        let first = match next_message(shared, receiver, age_left.min(Duration::from_secs(1))) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if writer.active_bytes() == 0 {
            opened_at = Instant::now();
            wait_for_sealer(shared);
            shared.look_for_room();
        }
        match first {
            Message::Schemas(schemas) => writer.declare(schemas),
            Message::Batch(batch) => write_gathered(shared, writer, batch, receiver)?,
        }
    }
    Ok(())
}

/// Waits for a message, and publishes since when it waits: until the next one is taken, that stands.
fn next_message(
    shared: &Shared,
    receiver: &Receiver<Message>,
    timeout: Duration,
) -> Result<Message, RecvTimeoutError> {
    let unwritten_since = &shared.backlog.unwritten_since;
    let message = match receiver.try_recv() {
        Err(TryRecvError::Empty) => {
            unwritten_since.set(None);
            receiver.recv_timeout(timeout)?
        }
        Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
        Ok(message) => message,
    };
    unwritten_since.set(Some(match &message {
        Message::Batch(batch) => batch.since,
        Message::Schemas(_) => shared.backlog.now(),
    }));
    Ok(message)
}

/// Writes what waits, in one gathered write, and says so to the workers and the syncer.
fn write_gathered(
    shared: &Shared,
    writer: &mut SegmentWriter,
    first: WorkerBatch,
    receiver: &Receiver<Message>,
) -> Result<(), LogError> {
    let mut batches = Vec::new();
    let mut tickets = Vec::new();
    let mut bytes = 0;
    let mut awaited = Vec::new();
    let mut declared = Vec::new();
    let (mut oldest, mut wanted_since) = (None, None);
    for message in std::iter::once(Message::Batch(first)).chain(receiver.try_iter()).take(WRITE_BATCHES_MAX) {
        match message {
            Message::Batch(one) => {
                bytes += one.batch.payload.len() as u64;
                oldest = earlier(oldest, Some(one.since));
                if one.is_sync_wanted || !one.awaited.is_empty() {
                    wanted_since = earlier(wanted_since, Some(one.since));
                }
                if !one.awaited.is_empty() {
                    awaited.push((batches.len(), one.marks.clone(), one.ticket, one.awaited));
                }
                batches.push(one.batch);
                tickets.push((one.marks, one.ticket, one.is_written_wanted, one.is_sync_wanted));
            }
            Message::Schemas(schemas) => {
                declared = schemas;
                break;
            }
        }
    }
    shared.backlog.unwritten_since.set(oldest);
    let begun = shared.meter.write_begins();
    let last = writer.write(&batches, shared.synced(), wall_clock_us())?;
    let records = batches.iter().map(|batch| u64::from(batch.count)).sum();
    shared.meter.write_ends(begun, batches.len(), records, bytes);
    let mut is_sync_wanted = wanted_since.is_some();
    // Before they can be synced, and so before a loader can come past them.
    put_down(shared, awaited, &batches, last);
    let is_room_wanted = shared.room.take(bytes);
    shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    {
        // Under the lock, so that a sync that begins now either covers these batches or publishes none of them.
        let mut progress = shared.progress();
        for (marks, ticket, _, is_wanted) in &tickets {
            marks.set_written(*ticket, *is_wanted);
        }
        progress.wanted.add(wanted_since);
        shared.backlog.unsynced_since.set(progress.wanted.oldest());
        progress.work.merge(writer.take_sync_work());
        progress.is_sync_wanted |= is_sync_wanted;
        progress.is_room_wanted |= is_room_wanted;
        if progress.oldest_unsynced.is_none() {
            progress.oldest_unsynced = Some(Instant::now());
            is_sync_wanted = true;
        }
    }
    if is_sync_wanted {
        shared.sync_wake.notify_all();
    }
    if is_room_wanted {
        shared.retain_wake.notify_all();
    }
    for (marks, _, is_written_wanted, _) in tickets {
        if is_written_wanted {
            marks.wake();
        }
    }
    writer.declare(declared);
    Ok(())
}

type AwaitedParts = (usize, Arc<WorkerMarks>, u64, Vec<Awaited>);

/// Notes whose replies wait until sinks have records of these batches, the last of which is `last`.
fn put_down(shared: &Shared, awaited: Vec<AwaitedParts>, batches: &[Handover], last: Sequence) {
    for (index, marks, ticket, parts) in awaited {
        let behind: u64 = batches[index..].iter().map(|batch| u64::from(batch.count)).sum();
        let first = Sequence(last.after(1).0 - behind);
        for (place, desk) in shared.desks().iter().enumerate() {
            let of_sink = parts.iter().filter(|part| part.sink.0 == place);
            let places: Vec<_> = of_sink.map(|part| part.places.clone()).collect();
            if !places.is_empty() {
                desk.put(AwaitedBatch { marks: marks.clone(), ticket, first, places });
            }
        }
    }
}

fn close_segment(shared: &Shared, writer: &mut SegmentWriter) {
    if let Some(segment) = writer.close_segment() {
        shared.progress().closed.push_back(segment);
        shared.seal_wake.notify_all();
    }
}

/// Before another segment is opened: no more than four may be closed and unsealed.
fn wait_for_sealer(shared: &Shared) {
    let mut progress = shared.progress();
    while progress.closed.len() >= UNSEALED_MAX && shared.failure().is_none() {
        progress = shared.wait(&shared.seal_wake, progress, Duration::from_secs(1));
    }
}

#[expect(clippy::disallowed_methods, reason = "the one wall clock of the log: a stamp for people")]
fn wall_clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
