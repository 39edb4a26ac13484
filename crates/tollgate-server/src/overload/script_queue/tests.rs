//! Who is first, who waits, and who is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

const SLICE: Duration = Duration::from_millis(2);

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A lane, and a script of a route whose scripts are long.
fn lane(age_max_ms: u64) -> (Rc<Lane>, Guest) {
    let lane = Rc::new(Lane::new(SLICE, Duration::from_millis(age_max_ms)));
    let door = lane.door();
    door.learn(2 * SLICE);
    lane.begin_turn();
    (lane, door.welcome())
}

/// A lane of scripts that took two slices so far.
fn known_lane(age_max_ms: u64) -> (Rc<Lane>, Guest) {
    let (lane, guest) = lane(age_max_ms);
    (0..100).for_each(|_| guest.learn(2 * SLICE));
    (lane, guest)
}

fn watched(guest: &Guest) -> (Ticket, Arc<Bell>) {
    let (ticket, bell) = (guest.enter(), Arc::new(Bell::default()));
    ticket.watch(&bell.clone().into());
    (ticket, bell)
}

#[test]
fn who_is_first_leaves_and_the_next_is_woken_and_no_other() {
    let (lane, guest) = known_lane(1000);
    let (first, (second, second_bell), (third, third_bell)) =
        (guest.enter(), watched(&guest), watched(&guest));
    assert!(first.is_first() && !second.is_first());
    drop(first);
    assert!(second.is_first() && !third.is_first());
    assert_eq!((second_bell.rings(), third_bell.rings()), (1, 0));
    drop(second);
    assert!(third.is_first());
    assert_eq!(third_bell.rings(), 1);
    drop(third);
    assert_eq!(lane.len(), 0);
}

#[test]
fn those_for_whom_a_slice_may_be_enough_are_woken_together() {
    let (_, guest) = known_lane(1000);
    (0..100).for_each(|_| guest.learn(SLICE / 5));
    let first = guest.enter();
    let waiting: Vec<_> = (0..6).map(|_| watched(&guest)).collect();
    let rings = || waiting.iter().map(|(_, bell)| bell.rings()).collect::<Vec<_>>();
    drop(first);
    assert_eq!(rings(), [1, 1, 1, 1, 0, 0]);
    let mut waiting = waiting.into_iter();
    // Who is next is on its way.
    drop(waiting.next());
    let rest: Vec<_> = waiting.map(|(ticket, bell)| (bell.rings(), ticket)).collect();
    assert!(rest[0].1.is_first());
    assert_eq!(rest.iter().map(|(rings, _)| *rings).collect::<Vec<_>>(), [1, 1, 1, 0, 0]);
}

#[test]
fn who_leaves_from_the_middle_wakes_nobody() {
    let (_, guest) = lane(1000);
    let (first, second, (third, bell)) = (guest.enter(), guest.enter(), watched(&guest));
    drop(second);
    assert!(first.is_first());
    assert_eq!(bell.rings(), 0);
    drop(first);
    assert!(third.is_first());
    assert_eq!(bell.rings(), 1);
}

#[test]
fn after_a_round_of_slices_the_first_is_the_last() {
    let (_, guest) = lane(1000);
    let (mut first, (second, bell)) = (guest.enter(), watched(&guest));
    (1..ROUND_SLICES).for_each(|_| first.spend());
    assert!(first.is_first() && bell.rings() == 0);
    first.spend();
    assert!(second.is_first() && !first.is_first());
    assert_eq!(bell.rings(), 1);
    drop(second);
    assert!(first.is_first());
}

#[test]
fn one_that_is_alone_stays_first() {
    let (_, guest) = lane(1000);
    let mut ticket = guest.enter();
    (0..3 * ROUND_SLICES).for_each(|_| ticket.spend());
    assert!(ticket.is_first());
}

/// Scripts run for as long.
fn run(lane: &Lane, time: Duration) {
    lane.ran.set(lane.ran.get() + time);
}

#[test]
fn who_is_first_gives_others_their_turn_when_scripts_had_theirs() {
    let (lane, guest) = lane(1000);
    let (mut first, mut second) = (guest.enter(), guest.enter());
    assert!(first.may_run() && !second.may_run());
    run(&lane, SLICE / 2);
    assert!(first.may_run());
    run(&lane, SLICE / 2);
    assert!(!first.may_run());
    drop(first);
    assert!(second.is_first() && !second.may_run());
    second.give_turn();
    assert!(second.may_run());
    run(&lane, SLICE);
    assert!(!second.may_run());
    second.spend();
    assert!(second.may_run(), "who ran a slice gave others their turn");
}

#[test]
fn a_lane_of_many_that_take_next_to_nothing_is_short() {
    let (lane, guest) = lane(1000);
    (0..100).for_each(|_| guest.learn(SLICE / 20));
    let now = Instant::now();
    lane.state.set(State::Short { since: now, refused_at: now });
    let mut tickets: Vec<_> = (0..30).map(|_| guest.enter()).collect();
    assert!(!guest.door.refuses(now));
    tickets.extend((0..15).map(|_| guest.enter()));
    assert!(guest.door.refuses(now));
}

#[test]
fn those_are_refused_who_would_wait_for_a_quarter_of_what_they_may() {
    let (lane, guest) = known_lane(80_000);
    let now = Instant::now();
    let mut tickets: Vec<_> = (0..3).map(|_| guest.enter()).collect();
    guest.learn(8 * SLICE);
    // 8.25 slices of 2 ms each.
    assert!(!guest.door.refuses(now));
    lane.set_age_max(Duration::from_millis(4 * 17));
    assert!(!guest.door.refuses(now));
    lane.set_age_max(Duration::from_millis(4 * 16));
    assert!(guest.door.refuses(now));
    tickets.truncate(SHORT_LEN - 1);
    assert!(!guest.door.refuses(now), "a short lane refuses nobody");
}

#[test]
fn a_lane_that_was_too_long_is_kept_short_until_nobody_came_who_is_too_many() {
    let (lane, guest) = known_lane(1000);
    let now = Instant::now();
    let mut tickets: Vec<_> = (0..63).map(|_| guest.enter()).collect();
    assert!(guest.door.refuses(now), "63 scripts of two slices");
    tickets.truncate(SHORT_LEN);
    let at = |ms| now + Duration::from_millis(ms);
    lane.relax(at(249));
    assert!(guest.door.refuses(at(249)));
    lane.relax(at(498));
    assert!(guest.door.refuses(at(498)), "one was refused meanwhile");
    lane.relax(at(748));
    tickets.pop();
    assert!(!guest.door.refuses(at(499)));
    tickets.push(guest.enter());
    assert!(!guest.door.refuses(at(0)));
}

#[test]
fn the_log_hears_how_many_were_refused_though_none_is_any_more() {
    let (lane, guest) = known_lane(1000);
    let now = Instant::now();
    let mut tickets: Vec<_> = (0..63).map(|_| guest.enter()).collect();
    assert!((0..5).all(|_| guest.door.refuses(now)));
    tickets.clear();
    lane.relax(now + Duration::from_millis(250));
    assert_eq!(lane.refusals.news(now), Some(News::Happened(5)));
    assert_eq!(lane.refusals.news(now + LINE_PAUSE), Some(News::Over));
}

#[test]
fn a_crowd_of_which_nothing_is_known_yet_is_refused_by_its_age_alone() {
    let (lane, guest) = lane(1000);
    let now = Instant::now();
    let mut tickets: Vec<_> = (0..200).map(|_| guest.enter()).collect();
    assert!(!guest.door.refuses(now));
    // The first has all to load that the others find.
    guest.learn(SLICE / 4);
    tickets.remove(0);
    assert!(!guest.door.refuses(now));
    assert!(guest.door.refuses(Instant::now() + lane.patience()));
}

#[test]
fn what_scripts_take_is_learnt_and_forgotten() {
    let (lane, guest) = lane(1000);
    let known_ms = || (lane.script.get().as_secs_f64() * 1000.0).round();
    (0..100).for_each(|_| guest.learn(8 * SLICE));
    assert_eq!(known_ms(), 16.0);
    (0..100).for_each(|_| guest.learn(3 * SLICE));
    assert_eq!(known_ms(), 6.0);
}

#[test]
fn a_short_lane_is_tried_anew_though_somebody_is_refused_all_the_time() {
    let (lane, guest) = known_lane(1000);
    let now = Instant::now();
    let mut tickets: Vec<_> = (0..63).map(|_| guest.enter()).collect();
    assert!(guest.door.refuses(now));
    tickets.truncate(7);
    let at = |ms| now + Duration::from_millis(ms);
    for ms in (0..64_000).step_by(100) {
        lane.relax(at(ms));
        assert!(guest.door.refuses(at(ms)));
    }
    lane.relax(at(64_000));
    // The seven have to be new ones, or their age counts.
    tickets = (0..7).map(|_| guest.enter()).collect();
    assert!(!guest.door.refuses(Instant::now()));
    drop(tickets);
}

#[test]
fn one_long_script_is_no_longer_for_the_others_than_its_round() {
    let (_, guest) = lane(1000);
    guest.learn(100_000 * SLICE);
    let _tickets: Vec<_> = (0..SHORT_LEN).map(|_| guest.enter()).collect();
    assert!(!guest.door.refuses(Instant::now()));
}

#[test]
fn the_age_of_the_lane_counts_as_well() {
    let (_, guest) = lane(1000);
    let _tickets: Vec<_> = (0..SHORT_LEN).map(|_| guest.enter()).collect();
    let now = Instant::now();
    assert!(!guest.door.refuses(now));
    assert!(guest.door.refuses(now + Duration::from_millis(250)));
}

#[test]
fn a_route_without_a_script_in_the_lane_hears_nothing_of_it() {
    let (lane, guest) = lane(1000);
    let (long, other) = (guest.door.clone(), lane.door());
    other.learn(SLICE);
    let now = Instant::now() + Duration::from_secs(1);
    let _tickets: Vec<_> = (0..SHORT_LEN).map(|_| guest.enter()).collect();
    assert!(long.refuses(now) && !other.refuses(now));
    let own = other.welcome();
    assert!(other.refuses(now));
    drop(own);
    assert!(!other.refuses(now));
    drop(guest);
    assert!(!long.refuses(now));
}

#[test]
fn nobody_is_refused_whose_scripts_would_not_wait() {
    let (lane, guest) = lane(1000);
    let now = Instant::now() + Duration::from_secs(1);
    let _tickets: Vec<_> = (0..SHORT_LEN).map(|_| guest.enter()).collect();
    let short = lane.door();
    short.learn(SLICE / 100);
    let _stopped_in_its_slice = short.welcome();
    assert!(guest.door.refuses(now) && !short.refuses(now));
}
