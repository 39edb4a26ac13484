//! Tests of the reported lag of a loader.

use super::*;
use crate::clock::now_us;

/// Starts a loader of a live log. Returns the log, its appender and the loader.
fn live_loader(site: &Site) -> (Log, Appender, Loader) {
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut options = site.options();
    options.tuning.poll = Duration::from_millis(10);
    let loader = Loader::start(options, site.storage.clone(), Some(log.follower())).unwrap();
    let appender = log.appender(|| {});
    (log, appender, loader)
}

fn is_caught_up(loader: &Loader) -> bool {
    let status = loader.status();
    status.state == LoadState::CaughtUp && status.backoff.is_zero()
}

#[test]
fn the_lag_is_the_age_of_the_oldest_unloaded_record_while_the_sink_is_away() {
    let site = Site::new();
    let (log, mut appender, loader) = live_loader(&site);
    visit(&mut appender, 0);
    eventually("the first is loaded", || {
        let status = loader.status();
        status.rows == 1 && status.backlog == LoadBacklog::default()
    });
    let blocker = site.connect();
    blocker.busy_timeout(PATIENCE).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The loaded records were written before this time, and must not count for the lag.
    let began_us = now_us();
    visit(&mut appender, 1);
    eventually("it is behind", || {
        let status = loader.status();
        assert!(status.backlog.oldest_us.is_none_or(|oldest_us| oldest_us >= began_us), "{status:?}");
        status.state == LoadState::Retrying
            && status.lag > Duration::from_millis(300)
            && status.backlog.segments == 1
            && status.backlog.bytes > 0
    });
    let status = loader.status();
    assert!(!status.backoff.is_zero());
    assert!(status.last_error.is_some_and(|error| error.contains("is locked by another program")));
    visit(&mut appender, 2);
    eventually("it counts from the oldest", || loader.status().lag > Duration::from_millis(600));
    blocker.execute_batch("COMMIT").unwrap();
    eventually("it caught up", || loader.status().rows == 3 && is_caught_up(&loader));
    assert_eq!(loader.status().lag, Duration::ZERO);
    assert_eq!(loader.status().backlog, LoadBacklog::default());
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn the_lag_is_known_of_a_sink_that_was_never_there() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    let files = segments(&*site.storage, &site.dir(), log).unwrap().len() as u64;
    assert!(files > 1);
    let blocker = site.connect();
    blocker.execute_batch("CREATE TABLE mine (x); BEGIN EXCLUSIVE").unwrap();
    let loader = site.start();
    eventually("it is behind", || {
        let status = loader.status();
        status.backlog.segments == files && status.lag > Duration::from_millis(100)
    });
    blocker.execute_batch("COMMIT").unwrap();
    eventually("it caught up", || loader.status().rows == 500 && is_caught_up(&loader));
    assert_eq!(loader.status().lag, Duration::ZERO);
}

#[test]
fn the_log_at_hand_counts_while_it_is_loaded() {
    let site = Site::new();
    let log = site.write_visits(0..500);
    let files = segments(&*site.storage, &site.dir(), log).unwrap().len() as u64;
    let mut options = site.options();
    (options.tuning.chunk_rows_max, options.tuning.poll) = (1, Duration::ZERO);
    let loader = Loader::start(options, site.storage.clone(), None).unwrap();
    eventually("some are loaded and some are not", || {
        let status = loader.status();
        status.rows > 0 && (1..files).contains(&status.backlog.segments) && !status.lag.is_zero()
    });
    loader.finish(PATIENCE).unwrap();
}
