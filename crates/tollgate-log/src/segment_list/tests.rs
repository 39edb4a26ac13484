//! Tests of which segments are deleted, when, and in which order.

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const RULES: RetainRules = RetainRules { retain: HOUR, bytes_max: 1000 };

fn log(n: u8) -> LogId {
    LogId::from_bytes([n; 16])
}

/// Makes a list of segments with ten records and 100 bytes each. Each item is a log and the number of the
/// first record.
fn list(segments: &[(u8, u64)]) -> SegmentList {
    let mut list = SegmentList::default();
    for (n, first) in segments {
        list.add((log(*n), Sequence(*first)), Kept { last: Sequence(first + 9), bytes: 100 });
    }
    list
}

fn loaded(sinks: &[&[(u8, u64)]]) -> Loaded {
    let mut loaded = Loaded::default();
    for (place, logs) in sinks.iter().enumerate() {
        let sink = SinkPlace(place);
        loaded.add_sink(sink);
        logs.iter().for_each(|(n, last)| loaded.confirm(sink, log(*n), Sequence(*last)));
    }
    loaded
}

/// Takes all segments that are due, in order.
fn all_due(
    segments: &mut SegmentList,
    rules: RetainRules,
    is_room_short: bool,
    now: Instant,
) -> Vec<(LogId, u64)> {
    let mut due = Vec::new();
    while let Some(((log, first), _)) = segments.due(rules, is_room_short, now) {
        due.push((log, first.0));
        segments.take_due();
    }
    due
}

#[test]
fn nothing_goes_that_no_sink_has_whatever_is_short() {
    let now = Instant::now();
    let rules = RetainRules { retain: Duration::ZERO, bytes_max: 0 };
    for sinks in [&[][..], &[&[][..]], &[&[(1, 9)][..]], &[&[(2, 99)][..]], &[&[(1, 99)][..], &[]]] {
        let mut segments = list(&[(1, 1), (1, 11)]);
        segments.note_loaded(&loaded(sinks), now);
        assert_eq!(segments.due(rules, true, now + HOUR), None, "{sinks:?}");
    }
}

#[test]
fn a_segment_goes_when_retain_is_over_since_the_last_sink_had_it() {
    let begun = Instant::now();
    let mut segments = list(&[(1, 1), (1, 11)]);
    segments.note_loaded(&loaded(&[&[(1, 20)], &[(1, 5)]]), begun);
    segments.note_loaded(&loaded(&[&[(1, 20)], &[(1, 10)]]), begun + HOUR);
    assert_eq!(segments.due(RULES, false, begun + 2 * HOUR - Duration::from_nanos(1)), None);
    let first = (log(1), Sequence(1));
    assert_eq!(segments.due(RULES, false, begun + 2 * HOUR), Some((first, DeleteReason::Age)));
    assert_eq!(all_due(&mut segments, RULES, false, begun + 9 * HOUR), [(log(1), 1)]);
    assert!(segments.holds(log(1)));
}

#[test]
fn a_log_in_which_a_segment_waits_is_held_by_it() {
    let now = Instant::now();
    let mut segments = list(&[(1, 1)]);
    segments.note_loaded(&loaded(&[&[(1, 10)]]), now);
    assert!(segments.holds(log(1)));
    assert_eq!(all_due(&mut segments, RULES, true, now), [(log(1), 1)]);
    assert!(!segments.holds(log(1)));
}

#[test]
fn the_oldest_segments_go_above_the_limit_until_the_kept_ones_fit() {
    let now = Instant::now();
    let mut segments = list(&[(1, 1), (1, 11), (1, 21), (2, 1)]);
    segments.note_loaded(&loaded(&[&[(1, 20)]]), now);
    segments.note_loaded(&loaded(&[&[(1, 30)]]), now + HOUR / 2);
    // The segment of the second log is not loaded, but counts towards the size.
    let rules = RetainRules { bytes_max: 250, ..RULES };
    assert_eq!(segments.due(rules, false, now), Some(((log(1), Sequence(1)), DeleteReason::Size)));
    assert_eq!(all_due(&mut segments, rules, false, now), [(log(1), 1), (log(1), 11)]);
}

#[test]
fn all_loaded_segments_may_go_in_order_while_room_is_short() {
    let now = Instant::now();
    let mut segments = list(&[(2, 1), (1, 1), (1, 11), (1, 21)]);
    segments.note_loaded(&loaded(&[&[(1, 29), (2, 10)]]), now);
    assert_eq!(all_due(&mut segments, RULES, false, now), []);
    assert_eq!(segments.due(RULES, true, now), Some(((log(1), Sequence(1)), DeleteReason::Room)));
    assert_eq!(all_due(&mut segments, RULES, true, now), [(log(1), 1), (log(1), 11), (log(2), 1)]);
}

#[test]
fn a_sink_that_has_less_than_before_is_waited_for_again() {
    let now = Instant::now();
    let mut segments = list(&[(1, 1), (1, 11)]);
    segments.note_loaded(&loaded(&[&[(1, 20)]]), now);
    segments.note_loaded(&loaded(&[&[(1, 10)]]), now);
    assert_eq!(all_due(&mut segments, RULES, true, now), [(log(1), 1)]);
}
