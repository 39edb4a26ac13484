//! Tests of the script queue: the first place, the places that wait, and the requests that are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

const SLICE: Duration = Duration::from_millis(2);

/// Counts the wake-ups of a task.
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

/// Creates a script queue, and a waiting script of a route with long scripts.
fn script_queue(age_max_ms: u64) -> (Rc<ScriptQueue>, WaitingScript) {
    let script_queue = Rc::new(ScriptQueue::new(SLICE, Duration::from_millis(age_max_ms)));
    let route_cost = script_queue.route_cost();
    route_cost.learn(2 * SLICE);
    script_queue.begin_turn();
    (script_queue, route_cost.begin_waiting())
}

/// Creates a script queue whose scripts have needed two slices each so far.
fn known_script_queue(age_max_ms: u64) -> (Rc<ScriptQueue>, WaitingScript) {
    let (script_queue, waiting_script) = script_queue(age_max_ms);
    (0..100).for_each(|_| waiting_script.learn(2 * SLICE));
    (script_queue, waiting_script)
}

fn watched(waiting_script: &WaitingScript) -> (QueuePlace, Arc<Bell>) {
    let (place, bell) = (waiting_script.enter(), Arc::new(Bell::default()));
    place.watch(&bell.clone().into());
    (place, bell)
}

#[test]
fn the_next_place_and_no_other_is_woken_when_the_first_leaves() {
    let (script_queue, waiting_script) = known_script_queue(1000);
    let (first, (second, second_bell), (third, third_bell)) =
        (waiting_script.enter(), watched(&waiting_script), watched(&waiting_script));
    assert!(first.is_first() && !second.is_first());
    drop(first);
    assert!(second.is_first() && !third.is_first());
    assert_eq!((second_bell.rings(), third_bell.rings()), (1, 0));
    drop(second);
    assert!(third.is_first());
    assert_eq!(third_bell.rings(), 1);
    drop(third);
    assert_eq!(script_queue.len(), 0);
}

#[test]
fn scripts_for_which_a_slice_may_be_enough_are_woken_together() {
    let woken = |script: Duration| {
        let (_, waiting_script) = known_script_queue(1000);
        (0..100).for_each(|_| waiting_script.learn(script));
        let first = waiting_script.enter();
        let waiting: Vec<_> = (0..40).map(|_| watched(&waiting_script)).collect();
        drop(first);
        let rings: Vec<_> = waiting.iter().map(|(_, bell)| bell.rings()).collect();
        assert!(
            rings.is_sorted_by(|one, next| one >= next) && rings[0] == 1,
            "the next ones, once: {rings:?}"
        );
        let woken = rings.iter().sum::<usize>();
        // If the next script was already woken, no other script is woken.
        let mut waiting = waiting.into_iter();
        drop(waiting.next());
        let rest: Vec<_> = waiting.collect();
        assert!(rest[0].0.is_first());
        assert_eq!(rest.iter().map(|(_, bell)| bell.rings()).sum::<usize>(), (woken - 1).max(1));
        woken
    };
    let all: Vec<_> = (1..=30).map(|part| woken(SLICE / part)).collect();
    assert!(all.is_sorted() && all[0] == 1 && all[29] > 1, "the shorter the more: {all:?}");
    assert!((1..).zip(all).all(|(part, woken)| woken <= part), "no more than a slice is enough for");
}

#[test]
fn a_place_that_leaves_from_the_middle_wakes_no_other() {
    let (_, waiting_script) = script_queue(1000);
    let (first, second, (third, bell)) =
        (waiting_script.enter(), waiting_script.enter(), watched(&waiting_script));
    drop(second);
    assert!(first.is_first());
    assert_eq!(bell.rings(), 0);
    drop(first);
    assert!(third.is_first());
    assert_eq!(bell.rings(), 1);
}

#[test]
fn the_first_is_the_last_after_a_round_of_slices() {
    let (_, waiting_script) = script_queue(1000);
    let (mut first, (second, bell)) = (waiting_script.enter(), watched(&waiting_script));
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
    let (_, waiting_script) = script_queue(1000);
    let mut place = waiting_script.enter();
    (0..3 * ROUND_SLICES).for_each(|_| place.spend());
    assert!(place.is_first());
}

/// Adds `time` to the run time of scripts.
fn run(script_queue: &ScriptQueue, time: Duration) {
    script_queue.ran.set(script_queue.ran.get() + time);
}

#[test]
fn the_first_gives_others_their_turn_when_scripts_had_theirs() {
    let (script_queue, waiting_script) = script_queue(1000);
    let (mut first, mut second) = (waiting_script.enter(), waiting_script.enter());
    assert!(first.may_run() && !second.may_run());
    run(&script_queue, SLICE / 2);
    assert!(first.may_run());
    run(&script_queue, SLICE / 2);
    assert!(!first.may_run());
    drop(first);
    assert!(second.is_first() && !second.may_run());
    second.give_turn();
    assert!(second.may_run());
    run(&script_queue, SLICE);
    assert!(!second.may_run());
    second.spend();
    assert!(second.may_run(), "who ran a slice gave others their turn");
}

#[test]
fn a_queue_of_many_short_scripts_is_short() {
    let (script_queue, waiting_script) = script_queue(1000);
    (0..100).for_each(|_| waiting_script.learn(SLICE / 20));
    let now = Instant::now();
    script_queue.state.set(State::Short { since: now, refused_at: now });
    let (mut places, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..20 * 2 * SHORT_SLICES {
        places.push(waiting_script.enter());
        refused.push(waiting_script.route_cost.refuses(now));
    }
    // The first refused request would wait for longer than a slice. After the first refused request, all
    // requests are refused.
    assert!(refused.is_sorted() && refused.last() == Some(&true));
    assert!(refused[..=20].iter().all(|refused| !refused));
}

#[test]
fn the_script_queue_may_be_longer_the_longer_requests_may_wait() {
    let (script_queue, waiting_script) = known_script_queue(80_000);
    let now = Instant::now();
    let mut places: Vec<_> = (0..3).map(|_| waiting_script.enter()).collect();
    let wait = script_queue.wait(now);
    let refuses = |age_max: Duration| {
        script_queue.state.set(State::Open);
        script_queue.set_age_max(age_max);
        waiting_script.route_cost.refuses(now)
    };
    let all: Vec<_> = (1..=100).map(|times| refuses(wait * times / 10)).collect();
    assert!(all.is_sorted_by(|one, next| one >= next), "{all:?}");
    assert!(refuses(wait) && !refuses(10 * wait), "it is a part of what they may wait");
    assert!(refuses(wait));
    places.truncate(SHORT_LEN - 1);
    assert!(!waiting_script.route_cost.refuses(now), "a short queue refuses nobody");
}

#[test]
fn a_queue_that_was_too_long_is_kept_short_until_no_client_is_refused() {
    let (script_queue, waiting_script) = known_script_queue(1000);
    let now = Instant::now();
    let mut places: Vec<_> = (0..63).map(|_| waiting_script.enter()).collect();
    assert!(waiting_script.route_cost.refuses(now), "63 scripts of two slices");
    places.truncate(SHORT_LEN);
    let nearly = script_queue.patience() - Duration::from_millis(1);
    script_queue.relax(now + nearly);
    assert!(waiting_script.route_cost.refuses(now + nearly));
    script_queue.relax(now + 2 * nearly);
    assert!(script_queue.is_kept_short(), "one was refused meanwhile");
    assert!(waiting_script.route_cost.refuses(now + 2 * nearly));
    script_queue.relax(now + 2 * nearly + script_queue.patience());
    assert!(!script_queue.is_kept_short());
    places.pop();
    assert!(!waiting_script.route_cost.refuses(now + 2 * nearly));
    places.push(waiting_script.enter());
    assert!(!waiting_script.route_cost.refuses(now));
}

#[test]
fn the_log_hears_how_many_were_refused_though_none_is_any_more() {
    let (script_queue, waiting_script) = known_script_queue(1000);
    let now = Instant::now();
    let mut places: Vec<_> = (0..63).map(|_| waiting_script.enter()).collect();
    assert!((0..5).all(|_| waiting_script.route_cost.refuses(now)));
    places.clear();
    script_queue.relax(now + script_queue.patience());
    assert_eq!(script_queue.refusals.news(now), Some(EpisodeNews::Happened(5)));
    assert_eq!(script_queue.refusals.news(now + LINE_PAUSE), Some(EpisodeNews::Over));
}

#[test]
fn a_crowd_of_which_nothing_is_known_yet_is_refused_by_its_age_alone() {
    let (script_queue, waiting_script) = script_queue(1000);
    let now = Instant::now();
    let mut places: Vec<_> = (0..200).map(|_| waiting_script.enter()).collect();
    assert!(!waiting_script.route_cost.refuses(now));
    // The first script runs longer, as if it loaded data that all later scripts find.
    waiting_script.learn(SLICE / 4);
    places.remove(0);
    assert!(!waiting_script.route_cost.refuses(now));
    assert!(waiting_script.route_cost.refuses(Instant::now() + script_queue.patience()));
}

#[test]
fn the_time_of_scripts_is_learnt_and_forgotten() {
    let (script_queue, waiting_script) = script_queue(1000);
    let known = || script_queue.script.get();
    let learn = |slices: u32| {
        let learn = |_| {
            waiting_script.learn(slices * SLICE);
            known()
        };
        (0..100).map(learn).collect::<Vec<_>>()
    };
    let is_about = |known: Duration, slices: u32| known.abs_diff(slices * SLICE) < SLICE / 10;
    let more = learn(8);
    assert!(more.is_sorted() && more[0] < 4 * SLICE && is_about(more[99], 8), "{more:?}");
    let less = learn(3);
    assert!(less.is_sorted_by(|one, next| one >= next) && is_about(less[99], 3), "{less:?}");
}

#[test]
fn a_short_queue_is_tried_anew_though_clients_are_refused_all_the_time() {
    let (script_queue, waiting_script) = known_script_queue(1000);
    let now = Instant::now();
    let mut places: Vec<_> = (0..63).map(|_| waiting_script.enter()).collect();
    assert!(waiting_script.route_cost.refuses(now));
    places.truncate(7);
    let end = script_queue.patience() * SHORT_PATIENCES;
    for part in 0..600 {
        let at = now + end * part / 600;
        script_queue.relax(at);
        assert!(waiting_script.route_cost.refuses(at));
    }
    script_queue.relax(now + end);
    // The seven places have to be new, because the age of old places would count.
    places = (0..7).map(|_| waiting_script.enter()).collect();
    assert!(!waiting_script.route_cost.refuses(Instant::now()));
    drop(places);
}

#[test]
fn one_long_script_is_no_longer_for_the_others_than_its_round() {
    let (_, waiting_script) = script_queue(1000);
    waiting_script.learn(100_000 * SLICE);
    let _places: Vec<_> = (0..SHORT_LEN).map(|_| waiting_script.enter()).collect();
    assert!(!waiting_script.route_cost.refuses(Instant::now()));
}

#[test]
fn the_age_of_the_script_queue_counts_as_well() {
    let (script_queue, waiting_script) = script_queue(1000);
    let _places: Vec<_> = (0..SHORT_LEN).map(|_| waiting_script.enter()).collect();
    let now = Instant::now();
    assert!(!waiting_script.route_cost.refuses(now));
    assert!(waiting_script.route_cost.refuses(now + script_queue.patience()));
}

#[test]
fn a_route_without_a_script_in_the_queue_refuses_no_request() {
    let (script_queue, waiting_script) = script_queue(1000);
    let (long, other) = (waiting_script.route_cost.clone(), script_queue.route_cost());
    other.learn(SLICE);
    let now = Instant::now() + Duration::from_secs(1);
    let _places: Vec<_> = (0..SHORT_LEN).map(|_| waiting_script.enter()).collect();
    assert!(long.refuses(now) && !other.refuses(now));
    let own = other.begin_waiting();
    assert!(other.refuses(now));
    drop(own);
    assert!(!other.refuses(now));
    drop(waiting_script);
    assert!(!long.refuses(now));
}

#[test]
fn requests_whose_scripts_would_not_wait_are_not_refused() {
    let (script_queue, waiting_script) = script_queue(1000);
    let now = Instant::now() + Duration::from_secs(1);
    let _places: Vec<_> = (0..SHORT_LEN).map(|_| waiting_script.enter()).collect();
    let short = script_queue.route_cost();
    short.learn(SLICE / 100);
    let _stopped_in_its_slice = short.begin_waiting();
    assert!(waiting_script.route_cost.refuses(now) && !short.refuses(now));
}
