//! Tests of the breaker. The tests pass all times as arguments.

use super::*;

fn breaker() -> Breaker {
    Breaker::new(&BreakerOptions {
        window: Duration::from_secs(10),
        requests_min: 10,
        failure_percent: 50,
        open: Duration::from_secs(5),
        probes: 2,
    })
}

/// Admits `count` requests and ends each with `result`. Returns the last change of state.
fn run(breaker: &Breaker, count: usize, result: AttemptResult, now_ms: u64) -> Option<BreakerChange> {
    let mut change = None;
    for _ in 0..count {
        let pass = breaker.admit(now_ms).expect("it lets requests through");
        change = breaker.conclude(pass, result, now_ms);
    }
    change
}

#[test]
fn a_breaker_opens_when_enough_requests_failed_and_not_before() {
    let breaker = breaker();
    assert_eq!(run(&breaker, 9, AttemptResult::Failure, 100), None);
    assert_eq!(breaker.state(100), BreakerState::Closed);
    let change = run(&breaker, 1, AttemptResult::Failure, 100);
    assert_eq!(change, Some(BreakerChange::Opened { requests: 10, failures: 10 }));
    assert_eq!(breaker.state(100), BreakerState::Open);
    assert_eq!((breaker.admit(5099), breaker.refusal(100)), (None, Some(Duration::from_secs(5))));
}

#[test]
fn a_share_of_failures_below_the_limit_leaves_it_closed() {
    let breaker = breaker();
    run(&breaker, 51, AttemptResult::Success, 0);
    assert_eq!(run(&breaker, 50, AttemptResult::Failure, 0), None);
    assert!(matches!(
        run(&breaker, 1, AttemptResult::Failure, 0),
        Some(BreakerChange::Opened { requests: 102, .. })
    ));
}

#[test]
fn a_request_counts_once_also_if_it_fails_after_it_was_a_success() {
    let breaker = breaker();
    run(&breaker, 20, AttemptResult::Success, 0);
    let late = |now_ms| breaker.conclude(BreakerPermit::Counted, AttemptResult::Failure, now_ms);
    assert!((0..9).all(|_| late(100).is_none()));
    assert_eq!(breaker.conclude(BreakerPermit::Counted, AttemptResult::Success, 100), None);
    assert_eq!(late(100), Some(BreakerChange::Opened { requests: 20, failures: 10 }));
}

#[test]
fn requests_older_than_the_window_do_not_count() {
    let breaker = breaker();
    run(&breaker, 9, AttemptResult::Failure, 500);
    // The failures still count in the last tenth of the window, but not later.
    assert_eq!(run(&breaker, 1, AttemptResult::Success, 9_999), None);
    assert_eq!(run(&breaker, 1, AttemptResult::Failure, 10_500), None);
    assert_eq!(breaker.state(10_500), BreakerState::Closed);
    let other = Breaker::new(&BreakerOptions { requests_min: 10, ..BreakerOptions::default() });
    run(&other, 9, AttemptResult::Failure, 500);
    assert!(run(&other, 1, AttemptResult::Failure, 9_999).is_some());
}

#[test]
fn cancelled_requests_count_for_nothing() {
    let breaker = breaker();
    assert_eq!(run(&breaker, 100, AttemptResult::None, 0), None);
    assert_eq!(run(&breaker, 9, AttemptResult::Failure, 0), None);
}

#[test]
fn half_open_it_lets_as_many_try_as_have_to_succeed() {
    let breaker = breaker();
    run(&breaker, 10, AttemptResult::Failure, 0);
    assert_eq!(breaker.state(5000), BreakerState::HalfOpen);
    let (one, two) = (breaker.admit(5000).unwrap(), breaker.admit(5001).unwrap());
    assert_eq!(
        (one, two),
        (BreakerPermit::Probe { since_ms: 5000 }, BreakerPermit::Probe { since_ms: 5000 })
    );
    assert_eq!((breaker.admit(5002), breaker.refusal(5002)), (None, Some(Duration::ZERO)));
    assert_eq!(breaker.conclude(one, AttemptResult::Success, 5010), None);
    assert_eq!(breaker.admit(5010), None, "one succeeded, one tries: no third");
    assert_eq!(breaker.conclude(two, AttemptResult::Success, 5011), Some(BreakerChange::Closed));
    assert_eq!(
        (breaker.admit(5012), breaker.state(5012)),
        (Some(BreakerPermit::Usual), BreakerState::Closed)
    );
    assert_eq!(run(&breaker, 9, AttemptResult::Failure, 5013), None, "the old failures are forgotten");
}

#[test]
fn a_probe_that_fails_opens_it_again_and_one_that_is_cancelled_makes_room() {
    let breaker = breaker();
    run(&breaker, 10, AttemptResult::Failure, 0);
    let (one, two) = (breaker.admit(5000).unwrap(), breaker.admit(5000).unwrap());
    assert_eq!(breaker.conclude(one, AttemptResult::None, 5001), None);
    let three = breaker.admit(5002).unwrap();
    assert_eq!(breaker.conclude(two, AttemptResult::Failure, 5003), Some(BreakerChange::OpenedAgain));
    assert_eq!(breaker.admit(10_002), None);
    // The result of a probe from the earlier half-open state does not count in the present half-open state.
    let again = breaker.admit(10_003).unwrap();
    assert_eq!(breaker.conclude(three, AttemptResult::Failure, 10_004), None);
    assert_eq!(breaker.state(10_004), BreakerState::HalfOpen);
    assert_eq!(breaker.conclude(again, AttemptResult::Success, 10_005), None);
}

#[test]
fn a_long_probe_leaves_a_breaker_half_open_and_a_minute_without_one_untried() {
    let breaker = breaker();
    run(&breaker, 10, AttemptResult::Failure, 0);
    let states = |now_ms: [u64; 3]| now_ms.map(|now_ms| breaker.state(now_ms));
    let until_untried = [BreakerState::HalfOpen, BreakerState::HalfOpen, BreakerState::Untried];
    assert_eq!(states([5_000, 64_999, 65_000]), until_untried);
    let long = breaker.admit(70_000).unwrap();
    assert_eq!(states([70_000, 130_000, 1_000_000]), [BreakerState::HalfOpen; 3], "it waits for its answer");
    // A client that disconnects gives no result. From then on no request probes the address.
    assert_eq!(breaker.conclude(long, AttemptResult::None, 1_000_000), None);
    assert_eq!(states([1_000_000, 1_059_999, 1_060_000]), until_untried);
    let one = breaker.admit(1_060_000).unwrap();
    assert_eq!(breaker.conclude(one, AttemptResult::Success, 1_060_000), None);
    assert_eq!(states([1_060_000, 1_119_999, 1_120_000]), until_untried, "one more has to succeed");
    assert_eq!(run(&breaker, 1, AttemptResult::Success, 1_120_000), Some(BreakerChange::Closed));
}

#[test]
fn requests_begun_before_it_opened_do_not_keep_it_open() {
    let breaker = breaker();
    let late = breaker.admit(0).unwrap();
    run(&breaker, 10, AttemptResult::Failure, 0);
    let probes = [breaker.admit(5000).unwrap(), breaker.admit(5000).unwrap()];
    assert_eq!(breaker.conclude(late, AttemptResult::Failure, 5001), None);
    assert_eq!(breaker.conclude(probes[0], AttemptResult::Success, 5002), None);
    assert_eq!(breaker.conclude(probes[1], AttemptResult::Success, 5002), Some(BreakerChange::Closed));
}

#[test]
fn the_word_holds_every_state() {
    for state in [
        State::Closed,
        State::Open { until_ms: 0 },
        State::Open { until_ms: TIME_MAX },
        State::HalfOpen { since_ms: 12_345, trying: PROBES_MAX, succeeded: 0 },
        State::HalfOpen { since_ms: TIME_MAX, trying: 0, succeeded: PROBES_MAX },
    ] {
        assert_eq!(State::of(state.word()), state);
    }
}

#[test]
fn workers_that_try_at_once_are_as_many_as_may_be() {
    let breaker = std::sync::Arc::new(breaker());
    run(&breaker, 10, AttemptResult::Failure, 0);
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let breaker = breaker.clone();
            std::thread::spawn(move || (0..100).filter_map(|_| breaker.admit(6000)).count())
        })
        .collect();
    let let_through: usize = tries.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(let_through, 2);
}
