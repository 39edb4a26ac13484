//! The rejects of Kafka sinks, in a compacted topic of their own.
//!
//! A reject is stored in parts that every topic accepts, because its size may be the reason of the reject.
//! The first part has the reason and the number of the other parts, which are the pieces of the item. The key
//! of a part is `SINK/LOG/NUMBER/PART`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value as Json, json};
use tollgate_log::{LogId, Sequence};
use tollgate_queue::QueueRecord;

use super::entry::{REJECTS, partition_of};
use crate::sink::key::{KeptKey, millis, storable};
use crate::sink::reject::{Refused, StoredReject};

/// Bytes of a piece. The topic of rejects accepts records of 1 MiB.
const PIECE_BYTES: usize = 512 << 10;

/// A reject without its item: its first part.
pub(super) struct RejectHead {
    pub(super) log: LogId,
    pub(super) sequence: Sequence,
    pub(super) stream: String,
    pub(super) reason: String,
    refused_by: String,
    item_bytes: usize,
    /// The key with its window in milliseconds.
    key: Option<(Vec<u8>, i64)>,
}

impl RejectHead {
    /// Returns the head of a reject that was read.
    pub(super) fn of(reject: &StoredReject<LogId>) -> Self {
        let key = reject.key.as_ref().map(|key| (key.bytes.to_vec(), key.window_ms.cast_signed()));
        Self {
            log: reject.log,
            sequence: Sequence(reject.sequence.cast_unsigned()),
            stream: reject.stream.clone(),
            reason: reject.reason.clone(),
            refused_by: reject.refused_by.clone().unwrap_or_default(),
            item_bytes: reject.item.len(),
            key,
        }
    }

    /// Returns the first part.
    pub(super) fn part(&self, sink: &str) -> QueueRecord {
        let (key, window_ms) =
            self.key.as_ref().map(|(bytes, window_ms)| (BASE64.encode(bytes), window_ms)).unzip();
        let value = json!({
            "stream": self.stream,
            "reason": self.reason,
            "refused_by": self.refused_by,
            "pieces": self.item_bytes.div_ceil(PIECE_BYTES),
            "key": key,
            "window_ms": window_ms,
        });
        record(sink, self.log, self.sequence, 0, Some(value.to_string().into_bytes()))
    }

    /// Returns the records that remove the reject.
    pub(super) fn removal(&self, sink: &str) -> Vec<QueueRecord> {
        let parts = 1 + self.item_bytes.div_ceil(PIECE_BYTES);
        (0..parts).map(|part| record(sink, self.log, self.sequence, part, None)).collect()
    }
}

/// Returns the parts of a reject.
pub(super) fn parts(
    sink: &str,
    log: LogId,
    sequence: Sequence,
    stream: &str,
    refused: &Refused<'_>,
) -> Vec<QueueRecord> {
    let head = RejectHead {
        log,
        sequence,
        stream: stream.to_owned(),
        reason: refused.reason.clone().into_owned(),
        refused_by: refused.by.name().to_owned(),
        item_bytes: refused.item.len(),
        key: refused.key.map(|key| (key.bytes.to_vec(), storable(millis(key.window)))),
    };
    let pieces = refused.item.chunks(PIECE_BYTES).zip(1..);
    let pieces = pieces.map(|(piece, part)| record(sink, log, sequence, part, Some(piece.to_vec())));
    std::iter::once(head.part(sink)).chain(pieces).collect()
}

fn record(sink: &str, log: LogId, sequence: Sequence, part: usize, value: Option<Vec<u8>>) -> QueueRecord {
    QueueRecord {
        topic: REJECTS.into(),
        partition: Some(partition_of(sink, Some(log))),
        key: Some(format!("{sink}/{log}/{:020}/{part:06}", sequence.0).into()),
        value: value.map(Into::into),
        headers: Vec::new(),
    }
}

/// Returns the number of the record whose reject has this key, if it is the key of a first part of this log.
pub(super) fn head_sequence(sink: &str, log: LogId, key: &[u8]) -> Option<Sequence> {
    let rest = key.strip_prefix(format!("{sink}/{log}/").as_bytes())?;
    let number = rest.strip_suffix(b"/000000")?;
    std::str::from_utf8(number).ok()?.parse().ok().map(Sequence)
}

/// Reads the rejects of a sink from the table of the topic, in the order of the log.
pub(super) fn read(sink: &str, table: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<StoredReject<LogId>> {
    let from = format!("{sink}/").into_bytes();
    let mut rejects: Vec<StoredReject<LogId>> = Vec::new();
    for (key, value) in table.range(from.clone()..).take_while(|(key, _)| key.starts_with(&from)) {
        let key = String::from_utf8_lossy(&key[from.len()..]);
        let mut parts = key.split('/');
        let log = parts.next().and_then(|log| log.parse().ok());
        let sequence = parts.next().and_then(|number| number.parse::<u64>().ok());
        let (Some(log), Some(sequence)) = (log, sequence) else { continue };
        if parts.next() == Some("000000") {
            rejects.push(first_part(log, sequence.cast_signed(), value));
        } else if let Some(reject) = rejects.last_mut() {
            reject.item.extend_from_slice(value);
        }
    }
    rejects
}

fn first_part(log: LogId, sequence: i64, value: &[u8]) -> StoredReject<LogId> {
    let value: Json = serde_json::from_slice(value).unwrap_or_default();
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let key = text("key").and_then(|key| BASE64.decode(key).ok());
    StoredReject {
        log,
        sequence,
        stream: text("stream").unwrap_or_default(),
        reason: text("reason").unwrap_or_default(),
        item: Vec::new(),
        key: KeptKey::read(key, value["window_ms"].as_i64()),
        refused_by: text("refused_by"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_of_any_size_is_read_as_it_was_written() {
        let log = LogId::random();
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let item: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let refused = Refused::at_ingest("too large", &item);
            let parts = parts("bus", log, Sequence(7), "visits", &refused);
            assert!(parts.iter().all(|part| part.bytes() < 1 << 20));
            let entry = |part: &QueueRecord| {
                (part.key.as_ref().unwrap().to_vec(), part.value.as_ref().unwrap().to_vec())
            };
            let table: BTreeMap<_, _> = parts.iter().map(entry).collect();
            let read = read("bus", &table);
            assert_eq!(read.len(), 1);
            assert_eq!((read[0].sequence, read[0].item.len()), (7, bytes));
            assert!(read[0].item == item && read[0].reason == "too large" && read[0].stream == "visits");
            let heads = parts
                .iter()
                .filter_map(|part| head_sequence("bus", log, part.key.as_deref().unwrap_or_default()));
            assert_eq!(heads.collect::<Vec<_>>(), [Sequence(7)], "only the first part");
            let head = RejectHead::of(&read[0]);
            assert_eq!(head.part("bus").value, parts[0].value);
            let removed: Vec<_> = head.removal("bus").into_iter().map(|part| part.key).collect();
            let written: Vec<_> = parts.into_iter().map(|part| part.key).collect();
            assert_eq!(removed, written);
        }
    }
}
