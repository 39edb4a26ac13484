//! Tests of refusals while the disk is slow: a record is refused if its reply would wait longer than
//! `queue_age_max`.
//!
//! [`Appender::check`] takes the time as an argument. So most tests pass a time that is an hour later, and
//! need not wait.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_log::{
    AppendError, AppendedRecords, Appender, Level, Log, LogEvent, LogOptions, QueueState, SchemaId, Value,
};

use crate::sim::Sim;
use crate::workload::{append, dir, read, schema};

const AGE_MAX: Duration = Duration::from_secs(60);
/// A `queue_age_max` that is short enough for a test to wait for it.
const SHORT: Duration = Duration::from_millis(10);

struct Site {
    sim: Sim,
    log: Log,
    appender: Appender,
    told: Arc<Mutex<Vec<QueueState>>>,
    /// Count of the appended records, which is also the number of the last one.
    taken: u64,
}

impl Site {
    fn new(age_max: Duration) -> Self {
        let sim = Sim::new();
        let options = LogOptions {
            queue_age_max: age_max,
            sync_age_max: Duration::from_millis(1),
            ..LogOptions::new(&dir())
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let teller = told.clone();
        let on_event = move |event: &LogEvent| {
            let LogEvent::Queue { state, .. } = event else { panic!("{event:?}") };
            teller.lock().unwrap().push(*state);
        };
        let (log, _) = Log::open(sim.storage(), options, vec![schema()], on_event).unwrap();
        let appender = log.appender(|| {});
        Self { sim, log, appender, told, taken: 0 }
    }

    /// Appends the next number and hands it over, if it is not refused.
    fn append(&mut self, level: Level) -> Result<AppendedRecords, AppendError> {
        let n = self.taken + 1;
        let appended = append(&mut self.appender, level, n..=n)?;
        self.taken = n;
        assert!(self.appender.hand_over());
        Ok(appended)
    }

    /// Returns the levels that would be refused in an hour, if the disk did nothing until then.
    fn late(&self) -> Vec<Level> {
        let then = Instant::now() + Duration::from_hours(1);
        let is_late = |level: &Level| match self.appender.check(*level, then) {
            Ok(()) => false,
            Err(AppendError::Slow { age, limit }) => {
                assert!(limit == AGE_MAX && age > limit, "{age:?}, {limit:?}");
                true
            }
            Err(error) => panic!("{level:?}: {error}"),
        };
        Level::ALL.into_iter().filter(is_late).collect()
    }

    /// Waits about [`SHORT`] until a record of this level is refused.
    fn wait_until_refused(&self, level: Level) {
        self.sim.wait_until("it is refused", || self.appender.check(level, Instant::now()).is_err());
    }

    fn wait_until_late(&self, levels: &[Level]) {
        self.sim.wait_until("just these levels are late", || self.late() == levels);
    }

    /// Closes the log, and checks that it has exactly the appended records.
    fn check_log(self) {
        let Self { sim, log, appender, taken, .. } = self;
        drop(appender);
        let id = log.id();
        log.close().unwrap();
        assert_eq!(read(&sim, id).numbers, (1..=taken).collect::<Vec<_>>());
    }
}

#[test]
fn an_idle_log_has_no_age() {
    let mut site = Site::new(AGE_MAX);
    assert!(site.late().is_empty());
    for level in Level::ALL {
        let appended = site.append(level).unwrap();
        site.sim.wait_until("it is on disk", || site.appender.reached(appended, Level::Synced).is_some());
        site.wait_until_late(&[]);
        assert_eq!(site.log.watch().status().queue_age, Duration::ZERO);
    }
    site.check_log();
}

#[test]
fn only_records_that_wait_for_a_sync_are_late_while_only_the_sync_hangs() {
    let mut site = Site::new(AGE_MAX);
    site.sim.pause_syncs();
    site.append(Level::Synced).unwrap();
    site.sim.wait_for_paused_sync();
    site.wait_until_late(&[Level::Synced]);
    let second = site.append(Level::Synced).unwrap();
    let written = site.append(Level::Written).unwrap();
    site.sim.wait_until("both are written", || site.appender.reached(written, Level::Written).is_some());
    site.wait_until_late(&[Level::Synced]);
    // After the sync, the age is the wait of the oldest record that the sync did not cover.
    site.sim.release_one_sync();
    site.sim.wait_for_paused_sync();
    assert!(site.appender.reached(second, Level::Synced).is_none());
    site.wait_until_late(&[Level::Synced]);
    site.sim.release_syncs();
    site.wait_until_late(&[]);
    site.check_log();
}

#[test]
fn a_batch_that_no_reply_waits_for_makes_no_queue_old_while_its_sync_hangs() {
    for level in [Level::Received, Level::Written] {
        let mut site = Site::new(AGE_MAX);
        site.sim.pause_syncs();
        site.append(level).unwrap();
        site.sim.wait_for_paused_sync();
        site.wait_until_late(&[]);
        site.sim.release_syncs();
        site.check_log();
    }
}

#[test]
fn a_record_that_a_reply_waits_for_until_a_sink_has_it_has_to_be_synced_first() {
    let mut site = Site::new(AGE_MAX);
    let sink = site.log.add_sink().place().unwrap();
    site.sim.pause_syncs();
    let appended = site.appender.append_awaited(sink, |transaction| {
        transaction.row(SchemaId(0), |row| {
            row.push(Value::Int(1))?;
            row.push(Value::Text("text"))
        })
    });
    appended.unwrap().1.unwrap();
    assert!(site.appender.hand_over());
    site.sim.wait_for_paused_sync();
    site.wait_until_late(&[Level::Synced]);
    site.sim.release_syncs();
    site.wait_until_late(&[]);
}

#[test]
fn all_records_that_would_wait_are_late_while_the_write_hangs() {
    let mut site = Site::new(AGE_MAX);
    site.sim.pause_writes();
    site.append(Level::Received).unwrap();
    site.sim.wait_for_paused_write();
    assert_eq!(site.late(), [Level::Written, Level::Synced]);
    site.append(Level::Received).unwrap();
    site.append(Level::Synced).unwrap();
    assert_eq!(site.late(), [Level::Written, Level::Synced]);
    site.sim.release_writes();
    site.wait_until_late(&[]);
    site.check_log();
}

#[test]
fn a_batch_that_found_no_place_in_the_queue_is_as_old_as_its_first_try() {
    let mut site = Site::new(AGE_MAX);
    site.sim.pause_writes();
    while {
        site.taken += 1;
        append(&mut site.appender, Level::Received, site.taken..=site.taken).unwrap();
        site.appender.hand_over()
    } {}
    site.sim.release_writes();
    let watch = site.log.watch();
    site.sim.wait_until("those before it are written", || watch.status().queue_age == Duration::ZERO);
    assert_eq!(site.late(), [Level::Written, Level::Synced]);
    site.sim.wait_until("there is a place", || site.appender.hand_over());
    site.wait_until_late(&[]);
    site.check_log();
}

#[test]
fn records_that_would_wait_too_long_are_refused_and_begin_and_end_are_logged_once() {
    let mut site = Site::new(SHORT);
    site.sim.pause_syncs();
    site.append(Level::Synced).unwrap();
    let sim = site.sim.clone();
    site.wait_until_refused(Level::Synced);
    let refusal = site.append(Level::Synced).err();
    assert!(matches!(refusal, Some(AppendError::Slow { age, limit: SHORT }) if age > SHORT), "{refusal:?}");
    site.append(Level::Received).unwrap();
    assert!(site.append(Level::Synced).is_err());
    assert_eq!(site.log.watch().status().queue, QueueState::Behind);
    // While no record is accepted, the state does not change, however much time passes.
    site.appender.look(Instant::now() + Duration::from_hours(1));
    assert_eq!(*site.told.lock().unwrap(), [QueueState::Behind]);
    site.sim.release_syncs();
    sim.wait_until("one is taken", || site.append(Level::Synced).is_ok());
    sim.wait_until("that is told", || {
        site.appender.look(Instant::now());
        site.told.lock().unwrap().len() > 1
    });
    site.appender.look(Instant::now());
    assert_eq!(*site.told.lock().unwrap(), [QueueState::Behind, QueueState::KeepsUp]);
    assert_eq!(site.log.watch().status().queue, QueueState::KeepsUp);
    site.check_log();
}

#[test]
fn written_is_refused_and_received_is_taken_while_the_write_hangs() {
    let mut site = Site::new(SHORT);
    site.sim.pause_writes();
    site.append(Level::Received).unwrap();
    let sim = site.sim.clone();
    for level in [Level::Written, Level::Synced] {
        site.wait_until_refused(level);
        site.append(level).unwrap_err();
        site.append(Level::Received).unwrap();
    }
    site.sim.release_writes();
    for level in [Level::Written, Level::Synced] {
        sim.wait_until("one is taken", || site.append(level).is_ok());
    }
    site.check_log();
}
