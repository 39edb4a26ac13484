//! Tries rejects again. Each has a transaction of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_log::{LogId, Sequence};
use tollgate_queue::ReadTo;

use super::entry::{REJECTS, partition_of};
use super::failure::failed;
use super::format::ValueWriter;
use super::message::RowHeaders;
use super::rejects::{self, RejectHead};
use super::schemas::{TopicSchemas, hash, stored};
use super::sending::Sending;
use super::state::LogState;
use super::writer::{KafkaSink, Sent, too_large};
use crate::error::SinkError;
use crate::sink::Sink;
use crate::sink::reject::{Fate, ReadItem, Reject, Retried, StoredReject};

/// Maximum tries in a row without a reject that was tried.
const VAIN_TRIES_MAX: u32 = 20;

/// The rejects that were tried.
#[derive(Default)]
struct Tries {
    retried: Retried,
    tried: BTreeSet<(LogId, Sequence)>,
    /// Number of tries in a row in which none was.
    vain: u32,
}

impl Tries {
    fn note(&mut self, tried: (LogId, Sequence), fate: Fate) {
        self.retried.count(fate);
        self.tried.insert(tried);
        self.vain = 0;
    }

    /// Returns the error, unless another process took the producer and the next try may succeed.
    fn may_go_on(&mut self, error: SinkError) -> Result<(), SinkError> {
        self.vain += 1;
        let is_taken = matches!(error, SinkError::Lost { .. }) || error.is_queue_repeated();
        if is_taken && self.vain <= VAIN_TRIES_MAX { Ok(()) } else { Err(error) }
    }
}

impl KafkaSink {
    /// Reads the records of a log that are rejects, with their reasons. Their items stay in the topic. An
    /// open transaction of another log usually is in another partition, so this read does not wait for it.
    pub(super) fn read_rejects_of(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        let sink = self.name.clone();
        let is_asked = |key: &[u8]| {
            rejects::head_sequence(&sink, log, key).is_some_and(|sequence| (first..=last).contains(&sequence))
        };
        let read = self.read_kept(log, &is_asked)?.into_iter();
        Ok(read.map(|reject| (Sequence(reject.sequence.cast_unsigned()), reject.reason)).collect())
    }

    /// Reads the parts of rejects of a log whose keys `is_kept` accepts.
    fn read_kept(
        &mut self,
        log: LogId,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<StoredReject<LogId>>, SinkError> {
        let partition = partition_of(&self.name, Some(log));
        let table = self.topics.table_of(REJECTS, partition, is_kept);
        Ok(rejects::read(&self.name, &table.map_err(failed("read the rejects", Some(log)))?))
    }

    /// Tries all rejects again.
    pub(super) fn retry(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        let mut tries = Tries::default();
        let table = self.topics.table(REJECTS, ReadTo::End).map_err(failed("read the rejects", None))?;
        let rejects = rejects::read(&self.name, &table);
        for log in rejects.iter().map(|stored| stored.log).collect::<BTreeSet<_>>() {
            while let Err(error) = self.retry_log(log, read, &mut tries) {
                tries.may_go_on(error)?;
                // A server or another retry has the producer of the log now. The next try takes it back.
                self.rollback();
            }
        }
        Ok(tries.retried)
    }

    /// Tries the rejects of a log that were not tried yet.
    ///
    /// Another retry may have made rows of some. So the rejects are read after the producer of the log is
    /// open: from then on, only this process changes them.
    fn retry_log(&mut self, log: LogId, read: &ReadItem<'_>, tries: &mut Tries) -> Result<(), SinkError> {
        self.own(log)?;
        let prefix = format!("{}/{log}/", self.name).into_bytes();
        for stored in self.read_kept(log, &|key| key.starts_with(&prefix))? {
            let head = RejectHead::of(&stored);
            if tries.tried.contains(&(log, head.sequence)) {
                continue;
            }
            let tried = (log, head.sequence);
            let fate = match self.retry_one(stored.read(read), &head)? {
                Ok(()) => Fate::Loaded,
                Err(reason) => self.keep(head, reason)?,
            };
            tries.note(tried, fate);
        }
        Ok(())
    }

    /// Keeps a reject, with the reason of this time.
    fn keep(&mut self, mut head: RejectHead, reason: String) -> Result<Fate, SinkError> {
        if head.reason != reason {
            head.reason = reason;
            self.write_entries(head.log, &[head.part(&self.name)])?;
        }
        Ok(Fate::Kept)
    }

    /// Makes a row of a reject. The inner error is the reason why it is kept.
    fn retry_one(
        &mut self,
        reject: Reject<LogId>,
        head: &RejectHead,
    ) -> Result<Result<(), String>, SinkError> {
        let Reject { log, stream, key, .. } = reject;
        // A row gets the columns of the configuration, which may have more than the rows in the topic.
        let declared = self.declared.iter().find(|declared| declared.stream() == stream).and_then(stored);
        let Some(schema) = declared.map(Arc::new).or_else(|| self.state.schemas.newest(&stream).cloned())
        else {
            return Ok(Err(format!("stream {stream:?} is not configured")));
        };
        let writer = ValueWriter::new(self.options.format, schema.clone());
        let value = match reject.item.and_then(|item| writer.value_of_object(item)) {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        };
        self.own(log)?;
        if !self.options.exactly_once {
            // A server may have moved the position, because nothing fences it.
            self.refresh_of(log)?;
        }
        let (hash, topic) = (hash(&schema), self.topic(&stream)?);
        let (mut schemas, mut schema_entries) = (TopicSchemas::default(), Vec::new());
        if !self.state.schemas.has(&hash, &topic.name) {
            let number = self.state.schemas.next_number();
            schema_entries.push(schemas.add(number, (&self.name, &topic.name), &hash, &schema));
        }
        let headers = RowHeaders::new(log, &stream, &hash, self.options.format, true);
        let row = topic.record((key.map(|key| key.bytes.into_vec()), value), head.sequence, &headers);
        let mut state = self.state.logs.get(&log).cloned().unwrap_or_else(|| LogState::new(log));
        let count = state.counts.streams.entry(stream).or_default();
        count.rejected = count.rejected.saturating_sub(1);
        count.loaded += 1;
        let load = Sending {
            schemas: &schema_entries,
            rows: vec![&row],
            entries: &head.removal(&self.name),
            last: &state.position_entry(&self.name),
        };
        Ok(match self.transact(log, &load)? {
            Sent::Committed => {
                self.state.logs.insert(log, state);
                self.state.schemas.extend(schemas);
                Ok(())
            }
            Sent::TooLarge(_) => Err(too_large(row.bytes())),
        })
    }
}
