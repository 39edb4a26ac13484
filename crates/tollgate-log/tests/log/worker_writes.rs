//! Tests of batches that workers write themselves: when a worker may write, and that the log still keeps
//! every promise.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::{
    AppendError, AppendedRecords, Appender, Cursor, CursorStep, Level, Log, LogId, LogOptions, RecordBody,
    RowEncoder, Schema, SchemaId, Transaction, Value, WorkerWrites,
};

use crate::sim::{Call, EIO, PATIENCE, Sim};
use crate::workload::{Law, append, dir, mend, read, schema};

/// Options with which a worker does every write that it may do.
const ALWAYS: WorkerWrites =
    WorkerWrites { after: 0, took_max: Duration::MAX, unsynced_bytes_max: u64::MAX / 2 };

fn open(sim: &Sim, worker_writes: WorkerWrites, segment_bytes_max: u64) -> Option<Log> {
    let options = LogOptions { worker_writes, segment_bytes_max, ..LogOptions::new(&dir()) };
    Log::open(sim.storage(), options, vec![schema()], |_| {}).ok().map(|(log, _)| log)
}

/// One worker, on the thread of the test.
struct TestWorker {
    appender: Appender,
    /// The batch of the last append, with the number of its last record.
    last: Option<(AppendedRecords, u64)>,
}

impl TestWorker {
    fn new(log: &Log) -> Self {
        let this = thread::current();
        Self { appender: log.appender(move || this.unpark()), last: None }
    }

    fn hand_over(&mut self, level: Level, n: u64) -> Result<AppendedRecords, AppendError> {
        let appended = append(&mut self.appender, level, n..=n)?;
        self.last = Some((appended, n));
        assert!(self.appender.hand_over());
        Ok(appended)
    }

    /// Waits until the records reach a level. Returns false if the log stopped.
    fn wait(&self, appended: AppendedRecords, level: Level) -> bool {
        let begun = Instant::now();
        loop {
            match self.appender.reached(appended, level) {
                Some(result) => return result.is_ok(),
                None => thread::park_timeout(PATIENCE),
            }
            assert!(begun.elapsed() < PATIENCE, "never woken for {level:?}");
        }
    }

    /// Returns the last record whose batch reached a level.
    fn reached(&self, level: Level) -> u64 {
        let is_there = |appended| matches!(self.appender.reached(appended, level), Some(Ok(())));
        self.last.filter(|(appended, _)| is_there(*appended)).map_or(0, |(_, n)| n)
    }
}

#[test]
fn a_worker_writes_its_batch_before_the_hand_over_returns() {
    let sim = Sim::new();
    let log = open(&sim, ALWAYS, 1 << 20).unwrap();
    let mut worker = TestWorker::new(&log);
    let first = worker.hand_over(Level::Written, 1).unwrap();
    assert!(worker.wait(first, Level::Written));
    let this = thread::current().id();
    assert_eq!(sim.writes_of(this), 0, "the writer thread opens the segment");
    // The writer thread may hold the writer shortly after the first batch. After its first write, the worker
    // does all writes.
    let mut n = 1;
    while sim.writes_of(this) < 20 {
        n += 1;
        let before = sim.writes_of(this);
        let appended = worker.hand_over(Level::Written, n).unwrap();
        if before > 0 || sim.writes_of(this) > before {
            assert!(worker.appender.reached(appended, Level::Written).is_some(), "{n}");
        }
        assert!(worker.wait(appended, Level::Written));
        assert!(n < 1000, "no worker writes");
    }
    let id = log.id();
    drop(worker);
    log.close().unwrap();
    assert_eq!(read(&sim, id).numbers, (1..=n).collect::<Vec<_>>());
}

#[test]
fn the_writer_thread_writes_until_enough_writes_in_a_row_were_quick() {
    let sim = Sim::new();
    let rule = WorkerWrites { after: 10, ..ALWAYS };
    let log = open(&sim, rule, 1 << 20).unwrap();
    let mut worker = TestWorker::new(&log);
    let this = thread::current().id();
    let mut n = 0;
    while sim.writes_of(this) == 0 {
        n += 1;
        assert!(n < 1000, "no worker writes");
        let appended = worker.hand_over(Level::Written, n).unwrap();
        assert!(worker.wait(appended, Level::Written));
    }
    // The writer thread does the first ten writes. The thread did more writes only if it held the writer too
    // long.
    assert!(n > 10, "{n}");
    drop(worker);
    log.close().unwrap();
}

#[test]
fn the_writer_thread_writes_at_a_full_segment_a_new_schema_or_many_unsynced_bytes() {
    let writes = |rule: WorkerWrites, segment_bytes_max: u64, between: fn(&Log, usize)| {
        let sim = Sim::new();
        let log = open(&sim, rule, segment_bytes_max).unwrap();
        let mut worker = TestWorker::new(&log);
        for n in 1..=20_u64 {
            between(&log, n as usize);
            let appended = worker.hand_over(Level::Written, n).unwrap();
            assert!(worker.wait(appended, Level::Written));
        }
        let id = log.id();
        drop(worker);
        log.close().unwrap();
        assert_eq!(read(&sim, id).numbers, (1..=20).collect::<Vec<_>>());
        sim.writes_of(thread::current().id())
    };
    let nothing: fn(&Log, usize) = |_, _| {};
    // On a busy machine, the writer thread may be faster than the worker, so the test tries up to 50 times.
    assert!((0..50).any(|_| writes(ALWAYS, 1 << 20, nothing) > 0), "no worker writes");
    assert_eq!(writes(ALWAYS, 1, nothing), 0, "each record fills its segment");
    assert_eq!(writes(WorkerWrites { unsynced_bytes_max: 0, ..ALWAYS }, 1 << 20, nothing), 0);
    let declare: fn(&Log, usize) = |log, n| {
        log.declare(vec![Schema::new(&format!("stream{n}"), schema().columns().to_vec()).unwrap()]).unwrap();
    };
    assert_eq!(writes(ALWAYS, 1 << 20, declare), 0);
}

#[test]
fn no_worker_waits_longer_than_one_write_of_a_disk_that_stalls() {
    const QUICK: Duration = Duration::from_millis(50);
    const OTHERS: u64 = 20;
    let sim = Sim::new();
    let log = open(&sim, WorkerWrites { after: 5, took_max: QUICK, ..ALWAYS }, 1 << 20).unwrap();
    let mut worker = TestWorker::new(&log);
    let this = thread::current().id();
    let mut stalled = 1;
    while sim.writes_of(this) == 0 {
        let appended = worker.hand_over(Level::Written, stalled).unwrap();
        assert!(worker.wait(appended, Level::Written));
        stalled += 1;
    }
    let before = sim.writes_of(this);
    sim.pause_writes();
    thread::scope(|scope| {
        let (sim, log) = (&sim, &log);
        let other = scope.spawn(move || {
            let mut other = TestWorker::new(log);
            sim.wait_for_paused_write();
            let begun = Instant::now();
            // This worker hands over batch after batch while the write hangs, and waits for no batch.
            for n in stalled + 1..=stalled + OTHERS {
                other.hand_over(Level::Written, n).unwrap();
            }
            let (last, _) = other.last.unwrap();
            assert!(other.appender.reached(last, Level::Written).is_none());
            sim.wait_until("the write is slow", || begun.elapsed() > QUICK);
            sim.release_writes();
            assert!(other.wait(last, Level::Written));
            assert_eq!(sim.writes_of(thread::current().id()), 0);
        });
        let appended = worker.hand_over(Level::Written, stalled).unwrap();
        assert!(worker.wait(appended, Level::Written));
        other.join().unwrap();
    });
    // After the write that hung, the worker left all batches to the thread.
    assert_eq!(sim.writes_of(this), before + 1);
    sim.pause_writes();
    let last = worker.hand_over(Level::Written, stalled + OTHERS + 1).unwrap();
    sim.release_writes();
    assert!(worker.wait(last, Level::Written));
    assert_eq!(sim.writes_of(this), before + 1);
    let id = log.id();
    drop(worker);
    log.close().unwrap();
    assert_eq!(read(&sim, id).numbers, (1..=stalled + OTHERS + 1).collect::<Vec<_>>());
}

#[test]
fn a_worker_whose_write_fails_stops_the_log_as_the_thread_does() {
    let sim = Sim::new();
    let log = open(&sim, ALWAYS, 1 << 20).unwrap();
    let mut worker = TestWorker::new(&log);
    let mut n = 0;
    while sim.writes_of(thread::current().id()) == 0 {
        n += 1;
        let appended = worker.hand_over(Level::Synced, n).unwrap();
        assert!(worker.wait(appended, Level::Synced));
    }
    sim.fail(Call::Write, 0, EIO);
    let failed = worker.hand_over(Level::Synced, n + 1).unwrap();
    assert!(!worker.wait(failed, Level::Synced) && !worker.wait(failed, Level::Written));
    let refused = append(&mut worker.appender, Level::Received, n + 2..=n + 2);
    assert!(matches!(refused, Err(AppendError::Stopped(_))), "{refused:?}");
    let id = log.id();
    drop(worker);
    assert!(log.close().unwrap_err().starts_with("cannot write"));
    let mut law = Law::new(id);
    (0..=n).for_each(|_| law.attempt(1));
    law.acknowledged = n;
    for disk in sim.every_power_cut().into_iter().chain([sim.restart()]) {
        law.check(&disk, &mend(&disk), "a failed write of a worker");
    }
}

#[test]
fn no_write_follows_one_that_failed_whoever_hands_over_meanwhile() {
    for round in 0..400 {
        let nth = 3 + round % 20;
        let sim = Sim::new();
        let log = open(&sim, ALWAYS, 64 << 20).unwrap();
        sim.fail(Call::Write, nth, EIO);
        let work = || {
            let mut worker = TestWorker::new(&log);
            // The batches are long, so that a worker is often between its check for a failure and the queue.
            while let Ok(appended) = append(&mut worker.appender, Level::Written, 1..=500) {
                worker.appender.hand_over();
                if !worker.wait(appended, Level::Written) {
                    break;
                }
            }
        };
        thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work))));
        log.close().unwrap_err();
        assert_eq!(sim.count(Call::Write), nth + 1, "writes until the failed one, round {round}");
    }
}

/// A step of one of two workers.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Appends a record, hands it over, and does not wait.
    HandOver(usize, Level),
    /// Appends a record, hands it over, and waits until it reached the level.
    Wait(usize, Level),
}

const STEPS: [Step; 6] = [
    Step::HandOver(0, Level::Written),
    Step::HandOver(1, Level::Synced),
    Step::Wait(0, Level::Written),
    Step::Wait(0, Level::Synced),
    Step::Wait(1, Level::Written),
    Step::Wait(1, Level::Synced),
];

/// Returns all sequences of `length` steps.
fn sequences(length: usize) -> Vec<Vec<Step>> {
    (0..length).fold(vec![Vec::new()], |begun, _| {
        begun.iter().flat_map(|begun| STEPS.map(|step| [begun.as_slice(), &[step]].concat())).collect()
    })
}

/// The acknowledgements of the workers before the system ended.
struct Told {
    sim: Sim,
    law: Law,
    written: u64,
    calls: usize,
}

/// Runs the steps until `count` operations of the disk are done.
fn run(steps: &[Step], segment_bytes_max: u64, count: usize) -> Option<Told> {
    let sim = Sim::new();
    sim.crash_after(count);
    let log = open(&sim, ALWAYS, segment_bytes_max)?;
    let mut law = Law::new(log.id());
    let mut workers = [TestWorker::new(&log), TestWorker::new(&log)];
    // The first record opens the segment. A worker can write the second.
    let prelude = [Step::Wait(0, Level::Written), Step::Wait(1, Level::Written)];
    for step in prelude.iter().chain(steps) {
        let (Step::HandOver(place, level) | Step::Wait(place, level)) = *step;
        let Ok(appended) = workers[place].hand_over(level, law.attempted + 1) else { break };
        law.attempt(1);
        if matches!(step, Step::Wait(..)) && !workers[place].wait(appended, level) {
            break;
        }
    }
    let reached = |level| workers.iter().map(|worker| worker.reached(level)).max().unwrap_or(0);
    let written = reached(Level::Written);
    law.acknowledged = reached(Level::Synced);
    drop(workers);
    if log.close().is_ok() {
        law.acknowledged = law.attempted;
    }
    let calls = sim.calls().len();
    Some(Told { sim, law, written, calls })
}

#[test]
fn the_log_holds_a_prefix_with_all_acknowledged_records_after_a_crash_at_any_call() {
    let mut disks = 0;
    for segment_bytes_max in [1 << 20, 1] {
        for steps in sequences(2) {
            for count in 0.. {
                let context = format!("{steps:?}, segments of {segment_bytes_max}, {count} calls");
                let Some(Told { sim, law, written, calls }) = run(&steps, segment_bytes_max, count) else {
                    continue;
                };
                let restarted = sim.restart();
                let found = law.check(&restarted, &mend(&restarted), &context);
                assert!(found >= written, "{context}: {written} were written, {found} found");
                for seed in 0..4 {
                    let disk = sim.power_cut(seed);
                    law.check(&disk, &mend(&disk), &format!("{context}, seed {seed}"));
                    disks += 1;
                }
                if calls < count {
                    break;
                }
                assert!(count < 400, "the workload never ends");
            }
        }
    }
    assert!(disks > 5_000, "{disks} disks");
}

#[test]
fn workers_on_threads_of_their_own_lose_nothing_and_keep_their_order() {
    const WORKERS: u64 = 3;
    const EACH: u64 = 600;
    let sim = Sim::new();
    let log = open(&sim, ALWAYS, 16 << 10).unwrap();
    let begin = Barrier::new(WORKERS as usize);
    let work = |place: u64| {
        let mut worker = TestWorker::new(&log);
        begin.wait();
        for content in place * EACH..(place + 1) * EACH {
            let row = |row: &mut RowEncoder<'_>| row.push(Value::Int(content as i64));
            let fill = |transaction: &mut Transaction<'_>| transaction.row(SchemaId(0), row).unwrap();
            let (appended, ()) = worker.appender.append(Level::Written, fill).unwrap();
            assert!(worker.appender.hand_over());
            // The worker waits for every third batch, so that the queue is sometimes empty and sometimes
            // full.
            if content % 3 == 0 {
                assert!(worker.wait(appended.unwrap(), Level::Written));
            }
        }
        sim.writes_of(thread::current().id())
    };
    let work = &work;
    let writes: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS).map(|place| scope.spawn(move || work(place))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(writes.iter().sum::<usize>() > 0, "no worker wrote");
    let id = log.id();
    log.close().unwrap();
    let mut found = vec![Vec::new(); WORKERS as usize];
    for content in contents(&sim, id) {
        found[(content / EACH) as usize].push(content);
    }
    for (place, contents) in (0..WORKERS).zip(found) {
        assert_eq!(contents, (place * EACH..(place + 1) * EACH).collect::<Vec<_>>());
    }
}

/// Returns the first column of all records, in the order of the log.
fn contents(sim: &Sim, log: LogId) -> Vec<u64> {
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    let mut contents = Vec::new();
    loop {
        let batch = match cursor.step(None).unwrap() {
            CursorStep::Batch(batch) => batch,
            CursorStep::CaughtUp => return contents,
            CursorStep::Gap(gap) => panic!("{gap:?}"),
        };
        for record in batch.records() {
            match record.unwrap().body {
                RecordBody::Row(values) => match values[0] {
                    Value::Int(content) => contents.push(content as u64),
                    ref other => panic!("{other:?}"),
                },
                RecordBody::Reject { reason, .. } => panic!("{reason}"),
            }
        }
    }
}
