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

/// Returns the parts of a reject.
pub(super) fn parts(
    sink: &str,
    log: LogId,
    sequence: Sequence,
    stream: &str,
    refused: &Refused<'_>,
) -> Vec<QueueRecord> {
    let pieces: Vec<_> = refused.item.chunks(PIECE_BYTES).collect();
    let key = refused.key.map(|key| (BASE64.encode(key.bytes), storable(millis(key.window))));
    let (key, window_ms) = key.unzip();
    let first = json!({
        "stream": stream,
        "reason": refused.reason,
        "refused_by": refused.by.name(),
        "pieces": pieces.len(),
        "key": key,
        "window_ms": window_ms,
    });
    let first = Some(first.to_string().into_bytes());
    let values = std::iter::once(first).chain(pieces.into_iter().map(|piece| Some(piece.to_vec())));
    values.enumerate().map(|(part, value)| record(sink, log, sequence, part, value)).collect()
}

/// Returns the records that remove a reject.
pub(super) fn removal(sink: &str, log: LogId, sequence: Sequence, item_bytes: usize) -> Vec<QueueRecord> {
    let parts = 1 + item_bytes.div_ceil(PIECE_BYTES);
    (0..parts).map(|part| record(sink, log, sequence, part, None)).collect()
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
            let removed: Vec<_> =
                removal("bus", log, Sequence(7), bytes).into_iter().map(|part| part.key).collect();
            let written: Vec<_> = parts.into_iter().map(|part| part.key).collect();
            assert_eq!(removed, written);
        }
    }
}
