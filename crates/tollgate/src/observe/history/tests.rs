//! Tests of the history.

use super::*;
use series::SERIES;

const GAUGES: usize = 10;

fn sample(replies: u64, free_bytes: f32) -> Sample {
    let mut gauges = [1.0; GAUGES];
    gauges[GAUGES - 1] = free_bytes;
    Sample { counts: Counts { replies, ..Counts::default() }, gauges }
}

/// Makes a history from samples at these times in milliseconds.
fn history(samples: impl IntoIterator<Item = (u64, Sample)>) -> History {
    let mut history = History::new();
    for (ms, sample) in samples {
        history.note(history.begun + Duration::from_millis(ms), &sample);
    }
    history
}

fn values(history: &History, elapsed: u64, since: Option<f64>) -> serde_json::Value {
    let now = history.begun + Duration::from_secs(elapsed);
    // The history began at 1,000 s of the wall clock.
    serde_json::from_str(&history.json(now, 1_000.0 + elapsed as f64, since)).unwrap()
}

#[test]
fn each_second_has_the_requests_of_its_second() {
    let history =
        history([(0, 0), (1_002, 100), (2_004, 101), (3_001, 101)].map(|(ms, n)| (ms, sample(n, 5.0))));
    let told = values(&history, 4, None);
    assert_eq!(told["fine"]["values"]["requests"], serde_json::json!([99.8, 0.998, 0]));
    assert_eq!(told["fine"]["values"]["p50_seconds"], serde_json::json!([null, null, null]));
    assert_eq!((&told["fine"]["end"], &told["now"]), (&1_003.0.into(), &1_004.0.into()));
    assert_eq!(told["fine"]["step_seconds"], 1);
    assert_eq!(told["fine"]["values"].as_object().unwrap().len(), SERIES.len());
    assert_eq!(told["coarse"]["values"]["requests"], serde_json::json!([]));
}

#[test]
fn a_pause_of_the_process_is_filled_with_its_mean() {
    let samples = [(0, 0), (1_000, 10), (5_000, 50), (6_000, 50)];
    let history = history(samples.map(|(ms, n)| (ms, sample(n, 5.0))));
    let told = values(&history, 6, None);
    assert_eq!(told["fine"]["values"]["requests"], serde_json::json!([10, 10, 10, 10, 10, 0]));
}

#[test]
fn a_long_step_keeps_the_mean_of_rates_and_the_worst_of_gauges() {
    let free = |second: u64| if second == 4 { 1.0 } else { 9.0 };
    let history = history((0..=20).map(|second| (second * 1_000, sample(second * 3, free(second)))));
    let told = values(&history, 20, None);
    assert_eq!(told["coarse"]["values"]["requests"], serde_json::json!([3, 3]));
    assert_eq!(told["coarse"]["values"]["free_bytes"], serde_json::json!([1, 9]));
}

#[test]
fn old_cells_go_and_only_newer_cells_are_told() {
    let history = history((0..=700).map(|second| (second * 1_000, sample(second * second, 5.0))));
    let all = values(&history, 700, None);
    let requests = all["fine"]["values"]["requests"].as_array().unwrap();
    assert_eq!((requests.len(), &requests[0]), (FINE_CELLS_MAX, &201.into()));
    let newer = values(&history, 700, Some(1_697.5));
    assert_eq!(newer["fine"]["values"]["requests"], serde_json::json!([1395, 1397, 1399]));
    assert_eq!(newer["coarse"]["values"]["requests"], serde_json::json!([1390]));
    assert_eq!(values(&history, 700, Some(1_700.0))["fine"]["values"]["requests"], serde_json::json!([]));
    assert_eq!(values(&history, 700, Some(1e300))["fine"]["values"]["requests"], serde_json::json!([]));
}

#[test]
fn the_time_until_the_reserve_follows_the_trend() {
    let fall = |bytes: f32| {
        history((0..=120).map(|second| (second * 1_000, sample(0, 1e6 - bytes * second as f32))))
    };
    assert_eq!(fall(100.0).reserve_reached(500_000, 400_000), Some(Duration::from_secs(1_000)));
    assert_eq!(fall(100.0).reserve_reached(400_000, 400_000), Some(Duration::ZERO));
    for none in [fall(0.0), fall(-5.0), fall(0.001), history([(0, sample(0, 9.0)), (1_000, sample(0, 1.0))])]
    {
        assert_eq!(none.reserve_reached(500_000, 400_000), None);
    }
}

#[test]
fn numbers_have_four_digits_and_no_zeros_at_their_end() {
    let shown =
        [0.0, 1.0, 0.25, 999.96, 1_000.4, 123_456.0, 0.000_123_44, f32::NAN, f32::INFINITY].map(json::shown);
    assert_eq!(shown, ["0", "1", "0.25", "1000", "1000", "123456", "0.0001234", "null", "null"]);
}

#[test]
fn the_page_lists_each_series_in_order() {
    let page = include_str!("../../../../../docs/reference/history.md");
    let (_, table) = page.split_once("## Series").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    assert_eq!(rows.map(|(name, _)| name).collect::<Vec<_>>(), SERIES);
}
