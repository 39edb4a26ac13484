//! The state of the last 24 hours, for `/history`: a cell for each second of ten minutes, and a cell for each
//! ten seconds of a day.
//!
//! A cell has a number for each [series](series::SERIES). The cells need about 0.9 MiB at most. They are in
//! memory only, so they begin with the process.

mod json;
mod series;
mod trend;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use series::{Gauges, Numbers};

use super::counts::Counts;

const FINE_STEP: Duration = Duration::from_secs(1);
const FINE_CELLS_MAX: usize = 600;
const COARSE_STEP: Duration = Duration::from_secs(10);
const COARSE_CELLS_MAX: usize = 8_640;

pub(super) use series::Sample;

/// The cells of this process.
pub(super) struct History {
    begun: Instant,
    fine: Track,
    coarse: Track,
}

impl History {
    /// Makes a history that begins now.
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        let fine = Track::new(FINE_STEP, FINE_CELLS_MAX);
        Self { begun, fine, coarse: Track::new(COARSE_STEP, COARSE_CELLS_MAX) }
    }

    /// Takes a sample.
    pub(super) fn note(&mut self, at: Instant, sample: &Sample) {
        let elapsed = at.saturating_duration_since(self.begun);
        self.fine.note(elapsed, sample);
        self.coarse.note(elapsed, sample);
    }
}

/// Cells of equal length, oldest first.
struct Track {
    step: Duration,
    cells_max: usize,
    cells: VecDeque<Numbers>,
    /// Number of steps between the start of the history and the end of the last cell.
    steps: u64,
    /// The counts of the last cell's end, and their time since the start of the history.
    before: (Duration, Counts),
    /// The gauges since the last cell.
    gauges: Gauges,
}

impl Track {
    fn new(step: Duration, cells_max: usize) -> Self {
        let cells = VecDeque::with_capacity(cells_max);
        Self { step, cells_max, cells, steps: 0, before: Default::default(), gauges: Gauges::default() }
    }

    /// Adds a cell if a step has ended. After a pause of the process, each step of the pause gets the mean of
    /// the pause.
    fn note(&mut self, elapsed: Duration, sample: &Sample) {
        self.gauges.merge(&sample.gauges);
        let steps = u64::try_from(elapsed.as_nanos() / self.step.as_nanos()).unwrap_or(u64::MAX);
        if steps == self.steps {
            return;
        }
        let (at, before) = &self.before;
        let cell = series::cell(before, &sample.counts, elapsed.saturating_sub(*at), &self.gauges);
        let ended = usize::try_from(steps - self.steps).unwrap_or(usize::MAX).min(self.cells_max);
        for _ in 0..ended {
            if self.cells.len() == self.cells_max {
                self.cells.pop_front();
            }
            self.cells.push_back(cell);
        }
        (self.steps, self.before) = (steps, (elapsed, sample.counts));
        self.gauges = Gauges::default();
    }

    /// Returns the time from the start of the history to the end of the last cell.
    fn end(&self) -> Duration {
        self.step.saturating_mul(u32::try_from(self.steps).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests;
