//! Tests of live logs, and of loaders that have to finish.

use super::*;

#[test]
fn a_finish_that_has_no_time_says_so_and_the_next_run_goes_on() {
    let site = Site::new();
    site.write_visits(0..5);
    let blocker = site.connect();
    blocker.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE mine (x); BEGIN IMMEDIATE").unwrap();
    let error = site.start().finish(Duration::from_millis(20)).err().unwrap();
    assert!(matches!(error, FinishError::Timeout { .. }), "{error}");
    blocker.execute_batch("COMMIT").unwrap();
    // The loader that was not joined may still load. Each row is loaded once, by either loader.
    site.load();
    assert_eq!(site.numbers(), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_row_of_a_live_log_is_visible_within_a_second() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(log.follower())).unwrap();
    let mut appender = log.appender(|| {});
    for n in 0..5 {
        let began = Instant::now();
        visit(&mut appender, n);
        eventually("the row is there", || loader.status().rows > n.cast_unsigned());
        assert!(site.numbers().contains(&n));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    eventually("nothing is left", || loader.status().state == LoadState::CaughtUp);
    assert_eq!(only_row(&site.audit()).pending, 0);
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
}

#[test]
fn records_of_a_live_log_that_closed_are_loaded_at_finish_in_few_commits() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 16 << 10);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(log.follower())).unwrap();
    let mut appender = log.appender(|| {});
    for n in 0..3000 {
        visit(&mut appender, n);
    }
    drop(appender);
    log.close().unwrap();
    let status = loader.finish(PATIENCE).unwrap();
    assert_eq!(site.numbers(), (0..3000).collect::<Vec<_>>());
    assert!(status.commits < 300, "{} commits", status.commits);
}

#[test]
fn an_open_segment_of_another_process_is_left_alone() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 64 << 20);
    let mut appender = log.appender(|| {});
    visit(&mut appender, 1);
    eventually("it is synced", || log.follower().watermark().synced.0 == 1);
    assert_eq!(site.load().rows, 0);
    drop(appender);
    log.close().unwrap();
    assert_eq!(site.load().rows, 1);
}
