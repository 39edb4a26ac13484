//! When the disk will have no more free bytes than its reserve, if its free bytes go on as in the last ten
//! minutes.

use std::time::Duration;

use super::History;

/// Shortest time of which a trend is computed.
const TREND_MIN: f64 = 60.0;
/// A longer time is not told, because the deletion of loaded segments makes the trend uncertain.
const TOLD_MAX: Duration = Duration::from_hours(7 * 24);

impl History {
    /// Returns the time until the free bytes reach `reserve`. Returns `None` if the free bytes do not become
    /// less, or if the trend is not known.
    pub(in crate::observe) fn reserve_reached(&self, free: u64, reserve: u64) -> Option<Duration> {
        let points: Vec<_> = self.fine.free_bytes().collect();
        let seconds = points.last()?.0 - points.first()?.0;
        if seconds < TREND_MIN {
            return None;
        }
        let fall = -slope(&points)?;
        let room = free.saturating_sub(reserve) as f64;
        // A fall of zero or less has no end.
        let until = Duration::try_from_secs_f64(room / fall).ok()?;
        (fall > 0.0 && until <= TOLD_MAX).then_some(until)
    }
}

/// Returns the change per second by the method of least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (times, values) =
        points.iter().fold((0.0, 0.0), |(times, values), (time, value)| (times + time, values + value));
    let (time_mean, value_mean) = (times / count, values / count);
    let (products, squares) = points.iter().fold((0.0, 0.0), |(products, squares), (time, value)| {
        let away = time - time_mean;
        (products + away * (value - value_mean), squares + away * away)
    });
    (squares > 0.0).then(|| products / squares)
}
