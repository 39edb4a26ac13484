//! A folder of logs, with topics of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_faults::kafka::{Kafka, KafkaOptions as BrokerSettings, Read};
use tollgate_load::{AuditRow, KafkaOptions, LoadOptions, LoadStatus, Loader, SinkKind, SinkOptions, audit};
use tollgate_log::{Appender, DiskStorage, LogId, Schema};
use tollgate_queue::{Client, Guarantee, Producer, QueueRecord};

use crate::logs;
pub(crate) use crate::logs::{PATIENCE, column, eventually, row, unread, visit, visits};

/// A broker that the tests of this program share. A test that disturbs the broker locks it for itself.
pub(crate) struct Broker {
    // The broker ends before its folder.
    pub(crate) kafka: Kafka,
    _folder: TempDir,
}

impl Broker {
    pub(crate) fn start(settings: &BrokerSettings) -> Self {
        let folder = TempDir::new().unwrap();
        let kafka = Kafka::start(&folder.path().join("kafka"), settings);
        Self { kafka, _folder: folder }
    }

    /// Changes settings of a topic or of clients.
    pub(crate) fn configure(&self, change: &[&str]) {
        let address = self.kafka.address();
        let command = ["org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", &address, "--alter"];
        let done = self.kafka.java(&command).args(change).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

pub(crate) fn broker() -> MutexGuard<'static, Broker> {
    static SHARED: Mutex<Option<&'static Mutex<Broker>>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let broker = shared
        .get_or_insert_with(|| Box::leak(Box::new(Mutex::new(Broker::start(&BrokerSettings::default())))));
    let broker: &'static Mutex<Broker> = broker;
    drop(shared);
    broker.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Site {
    folder: TempDir,
    pub(crate) options: SinkOptions,
    /// Beginning of the names of its sink and topics.
    pub(crate) name: String,
}

impl Site {
    pub(crate) fn new(broker: &Broker) -> Self {
        Self::at(&broker.kafka)
    }

    pub(crate) fn at(kafka: &Kafka) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("s{}", NEXT.fetch_add(1, Ordering::SeqCst));
        let mut options = KafkaOptions::new(kafka.address());
        options.topic = format!("{name}.{{stream}}");
        options.partitions = 3;
        options.broker.connect_timeout = Duration::from_secs(2);
        options.broker.request_timeout = Duration::from_secs(3);
        options.broker.delivery_timeout = Duration::from_secs(8);
        options.broker.transaction_timeout = Duration::from_secs(20);
        let options = SinkOptions::new(name.clone(), SinkKind::Kafka(Box::new(options)));
        Self { folder: TempDir::new().unwrap(), options, name }
    }

    pub(crate) fn kafka(&mut self) -> &mut KafkaOptions {
        let SinkKind::Kafka(options) = &mut self.options.kind else { unreachable!() };
        options
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn topic(&self) -> String {
        format!("{}.visits", self.name)
    }

    /// Opens a transaction of another writer in all partitions of a topic. It stays open for longer than any
    /// test waits.
    pub(crate) fn open_transaction(&self, topic: &str, partitions: i32) -> Box<dyn Producer> {
        let SinkKind::Kafka(options) = &self.options.kind else { unreachable!() };
        let mut broker = options.broker.clone();
        broker.transaction_timeout = Duration::from_secs(600);
        let guarantee = Guarantee::Transactions { id: format!("{}/other/{topic}", self.name) };
        let mut producer = Client::of_sinks().unwrap().open(&broker, &guarantee).unwrap();
        producer.begin().unwrap();
        let record = |partition| QueueRecord {
            topic: topic.into(),
            partition: Some(partition),
            key: Some(format!("other/{}", self.name).into()),
            value: Some(b"value"[..].into()),
            headers: Vec::new(),
        };
        let records: Vec<_> = (0..partitions).map(record).collect();
        producer.send(&records.iter().collect::<Vec<_>>()).unwrap();
        producer
    }

    /// Writes a whole log, and seals it.
    pub(crate) fn write<R>(&self, schemas: &[Schema], fill: impl FnOnce(&mut Appender) -> R) -> LogId {
        self.write_in(logs::SEGMENT_BYTES, schemas, fill)
    }

    /// Writes a whole log with segments of this size, and seals it.
    pub(crate) fn write_in<R>(
        &self,
        segment_bytes_max: u64,
        schemas: &[Schema],
        fill: impl FnOnce(&mut Appender) -> R,
    ) -> LogId {
        logs::write(&self.dir(), segment_bytes_max, schemas, fill)
    }

    pub(crate) fn write_visits(&self, numbers: std::ops::Range<i64>) -> LogId {
        logs::write_visits(&self.dir(), logs::SEGMENT_BYTES, numbers)
    }

    pub(crate) fn load_options(&self) -> LoadOptions {
        let mut options = LoadOptions::new(self.dir(), self.options.clone());
        options.tuning.backoff_min = Duration::from_millis(5);
        options.tuning.backoff_max = Duration::from_millis(100);
        options.tuning.chunk_rows_max = 40;
        // A busy machine may need long to connect.
        options.tuning.away_wait_max = PATIENCE;
        options.tuning.commit_wait_max = PATIENCE;
        options
    }

    pub(crate) fn start(&self) -> Loader {
        Loader::start(self.load_options(), Arc::new(DiskStorage), None).unwrap()
    }

    pub(crate) fn load(&self) -> LoadStatus {
        self.start().finish(PATIENCE).unwrap()
    }

    /// Loads until the sink stops. Returns the reason.
    pub(crate) fn load_until_stopped(&self) -> String {
        self.start().finish(PATIENCE).unwrap_err().to_string()
    }

    pub(crate) fn audit(&self) -> Vec<AuditRow> {
        let rows = audit(&DiskStorage, &self.dir(), &self.options).unwrap().rows;
        for row in &rows {
            let told = row.pending + row.loaded + row.rejected + row.duplicates;
            assert_eq!(row.ingested, told + row.given_up + row.missing, "{row:?}");
            assert_eq!(row.missing, 0, "{row:?}");
        }
        rows
    }

    /// Checks that each number is in the topic exactly once, and each log and number of a record too.
    pub(crate) fn assert_visits(&self, broker: &Broker, numbers: std::ops::Range<i64>) {
        let read = broker.kafka.read(&self.topic());
        let mut found: Vec<_> = read.iter().map(number).collect();
        found.sort_unstable();
        assert_eq!(found, numbers.collect::<Vec<_>>());
        let mut ids: Vec<_> = read
            .iter()
            .map(|record| (&record.headers["tollgate-log"], &record.headers["tollgate-seq"]))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), read.len());
    }
}

pub(crate) fn number(record: &Read) -> i64 {
    let row: serde_json::Value = serde_json::from_str(&record.value).unwrap();
    row["n"].as_i64().unwrap()
}
