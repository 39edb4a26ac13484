//! The client: sends random records, and counts the records of each stream by the replies.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Client;
use crate::crash::Random;

/// Maximum number of records in a request.
const ITEMS_MAX: u64 = 40;
/// One record in this number does not fit its column.
const REJECT_ONE_IN: u64 = 8;
/// Number of different keys. Most keys repeat.
const KEYS: u64 = 200;
/// The streams, which are also the paths and the tables. Records of the second one have keys.
pub(super) const STREAMS: [&str; 2] = ["plain", "keyed"];

/// A number of records, of which some may not have been recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    acknowledged: u64,
    /// Records of requests without a reply.
    unknown: u64,
}

impl Counted {
    /// Checks a number that the server or the database reports. The number is exact from now on.
    pub(super) fn check(&mut self, what: &str, reported: u64) {
        let most = self.acknowledged + self.unknown;
        assert!((self.acknowledged..=most).contains(&reported), "{what}: {reported} reported, {self:?}");
        *self = Self { acknowledged: reported, unknown: 0 };
    }

    pub(super) fn least(self) -> u64 {
        self.acknowledged
    }

    pub(super) fn most(self) -> u64 {
        self.acknowledged + self.unknown
    }
}

/// The records of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Records {
    pub(super) all: Counted,
    /// Records that do not fit their column.
    pub(super) rejects: Counted,
    /// Keys of acknowledged records that fit.
    pub(super) keys: BTreeSet<u64>,
}

/// One request.
struct Request {
    stream: &'static str,
    body: String,
    records: u64,
    rejects: u64,
    keys: BTreeSet<u64>,
}

impl Request {
    fn draw(random: &mut Random) -> Self {
        let stream = STREAMS[random.below(2) as usize];
        let (records, mut rejects, mut keys) = (1 + random.below(ITEMS_MAX), 0, BTreeSet::new());
        let mut items = Vec::new();
        for _ in 0..records {
            let key = random.below(KEYS);
            if random.below(REJECT_ONE_IN) == 0 {
                rejects += 1;
                items.push(format!("{{\"id\":{key},\"n\":\"no number\"}}"));
            } else {
                keys.insert(key);
                items.push(format!("{{\"id\":{key},\"n\":{key}}}"));
            }
        }
        Self { stream, body: format!("[{}]", items.join(",")), records, rejects, keys }
    }
}

/// All records that the client sent, by stream.
#[derive(Debug, Default)]
pub(super) struct Journal(pub(super) BTreeMap<&'static str, Records>);

impl Journal {
    /// Sends requests until `count` replies arrived, or until the server is gone. Returns whether all replies
    /// arrived.
    pub(super) fn send(&mut self, client: &mut Client, random: &mut Random, count: u64) -> bool {
        (0..count).all(|_| self.send_one(client, &Request::draw(random)))
    }

    fn send_one(&mut self, client: &mut Client, request: &Request) -> bool {
        let Request { stream, body, records, rejects, keys } = request;
        let reply = client.post(&format!("/{stream}"), body);
        let of_stream = self.0.entry(stream).or_default();
        match &reply {
            Some(reply) => {
                assert!(reply.is_success(), "{reply:?}");
                of_stream.all.acknowledged += records;
                of_stream.rejects.acknowledged += rejects;
                of_stream.keys.extend(keys);
            }
            None => {
                of_stream.all.unknown += records;
                of_stream.rejects.unknown += rejects;
            }
        }
        reply.is_some()
    }
}
