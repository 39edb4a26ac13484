//! Which scripts are long, and who is held back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::super::LONG_DIVISOR;
use super::*;

const SLICE: Duration = Duration::from_secs(2);

fn lane() -> Rc<Lane> {
    Rc::new(Lane::new(SLICE, Duration::from_secs(3600)))
}

/// A script of the route ran its slice.
fn slice(door: &Door) {
    door.learn(SLICE);
}

/// One was done at once, as far as a clock sees.
fn moment(door: &Door) {
    let begun = door.begin();
    door.end(begun, false);
}

#[test]
fn a_long_script_is_held_back_while_another_is_in_the_lane() {
    let lane = lane();
    let (long, short) = (lane.door(), lane.door());
    slice(&long);
    moment(&short);
    lane.begin_turn();
    assert!(!long.holds_back());
    let ticket = short.welcome().enter();
    assert!(long.holds_back() && !short.holds_back());
    drop(ticket);
    assert!(!long.holds_back());
}

#[test]
fn a_turn_has_one_slice_of_scripts_whoever_ran_it() {
    let lane = lane();
    let (long, other) = (lane.door(), lane.door());
    slice(&long);
    lane.begin_turn();
    assert!(!long.holds_back());
    slice(&other);
    assert!(long.holds_back());
    lane.begin_turn();
    assert!(!long.holds_back());
}

#[test]
fn the_first_of_a_route_tells_by_itself_whether_they_are_long() {
    let lane = lane();
    let (long, short) = (lane.door(), lane.door());
    long.learn(SLICE / LONG_DIVISOR);
    short.learn(SLICE / (2 * LONG_DIVISOR));
    assert!(long.is_long() && !short.is_long());
}

#[test]
fn scripts_that_became_short_are_held_back_no_longer() {
    let lane = lane();
    let door = lane.door();
    (0..100).for_each(|_| slice(&door));
    assert!(door.is_long());
    (0..3 * KNOWN_MAX).for_each(|_| moment(&door));
    assert!(!door.is_long());
}

#[test]
fn scripts_that_became_long_are_found_out_though_the_most_are_not_timed() {
    let lane = lane();
    let door = lane.door();
    let mut timed = 0;
    for _ in 0..170 {
        let begun = door.begin();
        timed += usize::from(begun.is_some());
        door.end(begun, false);
    }
    assert_eq!(timed, 10);
    // Of the few that are known each counts as one of them.
    for _ in 0..=UNTIMED {
        match door.begin() {
            Some(_) => door.learn(SLICE),
            None => door.end(None, false),
        }
    }
    assert!(door.is_long());
}

#[test]
fn one_that_nobody_timed_and_that_was_stopped_has_the_next_one_timed_and_tells_nothing() {
    let lane = lane();
    let door = lane.door();
    moment(&door);
    assert!(door.begin().is_none());
    door.end(None, true);
    assert!(!door.is_long(), "another thread may have had the core");
    assert!(lane.is_turn_used_up(), "others waited for it");
    assert!(door.begin().is_some());
}

#[test]
fn one_that_was_held_up_makes_a_route_of_short_scripts_no_long_one() {
    let lane = lane();
    let door = lane.door();
    (0..KNOWN_MAX).for_each(|_| door.learn(Duration::ZERO));
    for _ in 0..10 {
        door.learn(SLICE);
        assert!(!door.is_long());
        (0..KNOWN_MAX).for_each(|_| door.learn(Duration::ZERO));
    }
}

#[test]
fn scripts_of_which_a_part_is_long_are_long_by_their_mean() {
    let mean_is_long = |cycle: usize, long: Duration| {
        let lane = lane();
        let door = lane.door();
        for at in 0..5000 {
            match door.begin() {
                Some(_) => door.learn(if at % cycle == 0 { long } else { Duration::ZERO }),
                None => door.end(None, false),
            }
        }
        door.is_long()
    };
    for cycle in 2..=8 {
        assert!(mean_is_long(cycle, SLICE * 9 / 10), "each {cycle}th");
    }
    assert!(!mean_is_long(32, SLICE * 9 / 10));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn those_who_wait_are_woken_when_their_scripts_are_not_long_after_all() {
    let lane = lane();
    let door = lane.door();
    slice(&door);
    let guest = door.welcome();
    let (first, second, bell) = (guest.enter(), guest.enter(), Arc::new(Bell::default()));
    second.watch(&bell.clone().into());
    assert!(!guest.lets_in());
    while !guest.lets_in() {
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        moment(&door);
    }
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(first.is_first(), "whatever is before them");
}
