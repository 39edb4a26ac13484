//! The records of a transaction, in the order in which they are sent.

use tollgate_queue::{Producer, QueueError, QueueRecord};

/// The records of a transaction. Without transactions, they are sent in the order of the fields.
pub(super) struct Sending<'a> {
    /// Entries of schemas. A reader finds them when it finds the first row.
    pub(super) schemas: &'a [QueueRecord],
    pub(super) rows: Vec<&'a QueueRecord>,
    /// Parts of rejects, and entries of gaps.
    pub(super) entries: &'a [QueueRecord],
    /// The entry that says that the others are there, usually the position.
    pub(super) last: &'a QueueRecord,
}

impl Sending<'_> {
    /// Returns all records. The rows come first, because the places of refused records count from them.
    pub(super) fn all(&self) -> Vec<&QueueRecord> {
        let entries = self.schemas.iter().chain(self.entries).chain([self.last]);
        self.rows.iter().copied().chain(entries).collect()
    }

    /// Sends the records without a transaction, so that a crash or a failure never loses one. Each part has
    /// arrived before the next one is sent.
    pub(super) fn send_in_order(&self, producer: &mut dyn Producer) -> Result<(), QueueError> {
        // The places count from the first row.
        let after_rows = |error: QueueError| error.after(self.rows.len());
        let mut send = |records: &[&QueueRecord]| match records {
            [] => Ok(()),
            records => producer.send(records),
        };
        send(&self.schemas.iter().collect::<Vec<_>>()).map_err(after_rows)?;
        send(&self.rows)?;
        send(&self.entries.iter().collect::<Vec<_>>()).map_err(after_rows)?;
        send(&[self.last]).map_err(after_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::POSITIONS;
    use super::*;

    /// A producer that notes the keys of each call, and fails at one call.
    #[derive(Default)]
    struct Noted {
        calls: Vec<Vec<String>>,
        fails_at: usize,
    }

    impl Producer for Noted {
        fn has_lost_connection(&mut self) -> bool {
            false
        }

        fn begin(&mut self) -> Result<(), QueueError> {
            Ok(())
        }

        fn send(&mut self, records: &[&QueueRecord]) -> Result<(), QueueError> {
            if self.calls.len() == self.fails_at {
                return Err(QueueError::TooLarge { places: vec![0] });
            }
            let key = |record: &&QueueRecord| {
                String::from_utf8_lossy(record.key.as_deref().unwrap_or_default()).into_owned()
            };
            self.calls.push(records.iter().map(key).collect());
            Ok(())
        }

        fn commit(&mut self) -> Result<(), QueueError> {
            Ok(())
        }

        fn abort(&mut self) -> Result<(), QueueError> {
            Ok(())
        }
    }

    #[test]
    fn without_transactions_each_part_of_a_load_arrives_before_the_next() {
        let record = |key: &str| QueueRecord {
            topic: POSITIONS.into(),
            partition: None,
            key: Some(key.to_owned().into()),
            value: None,
            headers: Vec::new(),
        };
        let (schemas, rows, entries) = ([record("schema")], [record("a"), record("b")], [record("reject")]);
        let (rows, last) = (rows.iter().collect::<Vec<_>>(), record("position"));
        let load = Sending { schemas: &schemas, rows, entries: &entries, last: &last };
        let calls = [vec!["schema"], vec!["a", "b"], vec!["reject"], vec!["position"]];
        // Places of other records are behind the places of the rows.
        for (fails_at, place) in [(0, Some(2)), (1, Some(0)), (2, Some(2)), (3, Some(2)), (4, None)] {
            let mut producer = Noted { fails_at, ..Noted::default() };
            let failed = load.send_in_order(&mut producer).err();
            assert_eq!(producer.calls, calls[..fails_at]);
            let found = failed.map(|error| match error {
                QueueError::TooLarge { places } => places[0],
                error => panic!("{error}"),
            });
            assert_eq!(found, place, "{fails_at}");
        }
        assert_eq!(load.all().iter().map(|record| record.key.as_deref()).collect::<Vec<_>>().len(), 5);
    }
}
