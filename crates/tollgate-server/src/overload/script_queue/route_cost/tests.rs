//! Tests of the scripts that count as long, and of the scripts that have to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::super::LONG_DIVISOR;
use super::*;

const SLICE: Duration = Duration::from_secs(2);

fn script_queue() -> Rc<ScriptQueue> {
    Rc::new(ScriptQueue::new(SLICE, Duration::from_secs(3600)))
}

/// Records a script of the route that ran for a whole slice.
fn slice(route_cost: &RouteCost) {
    route_cost.learn(SLICE);
}

/// Records a script that ended at once.
fn moment(route_cost: &RouteCost) {
    let begun = route_cost.begin();
    route_cost.end(begun, false);
}

#[test]
fn a_long_script_is_held_back_while_another_is_in_the_queue() {
    let script_queue = script_queue();
    let (long, short) = (script_queue.route_cost(), script_queue.route_cost());
    slice(&long);
    moment(&short);
    script_queue.begin_turn();
    assert!(!long.holds_back());
    let place = short.begin_waiting().enter();
    assert!(long.holds_back() && !short.holds_back());
    drop(place);
    assert!(!long.holds_back());
}

#[test]
fn a_turn_has_one_slice_of_scripts_whoever_ran_it() {
    let script_queue = script_queue();
    let (long, other) = (script_queue.route_cost(), script_queue.route_cost());
    slice(&long);
    script_queue.begin_turn();
    assert!(!long.holds_back());
    slice(&other);
    assert!(long.holds_back());
    script_queue.begin_turn();
    assert!(!long.holds_back());
}

#[test]
fn the_first_of_a_route_tells_by_itself_whether_they_are_long() {
    let script_queue = script_queue();
    let (long, short) = (script_queue.route_cost(), script_queue.route_cost());
    long.learn(SLICE / LONG_DIVISOR);
    short.learn(SLICE / (2 * LONG_DIVISOR));
    assert!(long.is_long() && !short.is_long());
}

#[test]
fn scripts_that_became_short_are_held_back_no_longer() {
    let script_queue = script_queue();
    let route_cost = script_queue.route_cost();
    (0..100).for_each(|_| slice(&route_cost));
    assert!(route_cost.is_long());
    (0..3 * KNOWN_MAX).for_each(|_| moment(&route_cost));
    assert!(!route_cost.is_long());
}

#[test]
fn scripts_that_became_long_are_found_out_though_the_most_are_not_timed() {
    let script_queue = script_queue();
    let route_cost = script_queue.route_cost();
    let mut timed = 0;
    for _ in 0..1000 {
        let begun = route_cost.begin();
        timed += usize::from(begun.is_some());
        route_cost.end(begun, false);
    }
    assert!((1..=100).contains(&timed), "{timed} of 1000: few are enough, and cheap");
    // While few scripts are known, each of them has the same weight in the mean.
    for _ in 0..=UNTIMED {
        match route_cost.begin() {
            Some(_) => route_cost.learn(SLICE),
            None => route_cost.end(None, false),
        }
    }
    assert!(route_cost.is_long());
}

#[test]
fn an_untimed_script_that_was_stopped_has_the_next_one_timed_and_teaches_nothing() {
    let script_queue = script_queue();
    let route_cost = script_queue.route_cost();
    moment(&route_cost);
    assert!(route_cost.begin().is_none());
    route_cost.end(None, true);
    assert!(!route_cost.is_long(), "another thread may have had the core");
    assert!(script_queue.is_turn_used_up(), "others waited for it");
    assert!(route_cost.begin().is_some());
}

#[test]
fn one_that_was_held_up_makes_a_route_of_short_scripts_no_long_one() {
    let script_queue = script_queue();
    let route_cost = script_queue.route_cost();
    (0..KNOWN_MAX).for_each(|_| route_cost.learn(Duration::ZERO));
    for _ in 0..10 {
        route_cost.learn(SLICE);
        assert!(!route_cost.is_long());
        (0..KNOWN_MAX).for_each(|_| route_cost.learn(Duration::ZERO));
    }
}

#[test]
fn scripts_of_which_a_part_is_long_are_long_by_their_mean() {
    let mean_is_long = |cycle: usize, long: Duration| {
        let script_queue = script_queue();
        let route_cost = script_queue.route_cost();
        for at in 0..5000 {
            match route_cost.begin() {
                Some(_) => route_cost.learn(if at % cycle == 0 { long } else { Duration::ZERO }),
                None => route_cost.end(None, false),
            }
        }
        route_cost.is_long()
    };
    let part = LONG_DIVISOR as usize;
    for cycle in 2..=part / 2 {
        assert!(mean_is_long(cycle, SLICE * 9 / 10), "each {cycle}th");
    }
    assert!(!mean_is_long(2 * part, SLICE * 9 / 10));
}

/// Counts the wake-ups of a task.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waiting_scripts_are_woken_when_they_are_not_long_after_all() {
    let script_queue = script_queue();
    let route_cost = script_queue.route_cost();
    slice(&route_cost);
    let waiting_script = route_cost.begin_waiting();
    let (first, second, bell) = (waiting_script.enter(), waiting_script.enter(), Arc::new(Bell::default()));
    second.watch(&bell.clone().into());
    assert!(!waiting_script.may_begin());
    while !waiting_script.may_begin() {
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        moment(&route_cost);
    }
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(first.is_first(), "whatever is before them");
}
