//! The history as JSON.
//!
//! A day with a hundred thousand numbers is written straight into the text, because a tree of JSON values
//! would need 32 bytes for each.

use std::fmt::Write;
use std::time::Instant;

use super::series::{FREE_BYTES, SERIES};
use super::{History, Track};

impl History {
    /// Returns the cells that end after `since`, in seconds since 1970. `now` and `wall` are the same moment
    /// on both clocks.
    pub(in crate::observe) fn json(&self, now: Instant, wall: f64, since: Option<f64>) -> String {
        let elapsed = now.saturating_duration_since(self.begun);
        let mut text = format!("{{\"now\":{wall:.3}");
        for (name, track) in [("fine", &self.fine), ("coarse", &self.coarse)] {
            track.write(&mut text, name, wall - elapsed.saturating_sub(track.end()).as_secs_f64(), since);
        }
        text.push_str("}\n");
        text
    }
}

impl Track {
    /// Appends the cells as an item of an object. `end` is the end of the last cell, in seconds since 1970.
    fn write(&self, text: &mut String, name: &str, end: f64, since: Option<f64>) {
        let step = self.step.as_secs();
        let known = since.map_or(self.cells.len(), |since| self.newer(end - since));
        // Writing to a text cannot fail.
        let _ = write!(text, ",\"{name}\":{{\"step_seconds\":{step},\"end\":{end:.3},\"values\":{{");
        for (index, series) in SERIES.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\"{series}\":[");
            for (position, cell) in self.cells.range(self.cells.len() - known..).enumerate() {
                if position > 0 {
                    text.push(',');
                }
                push_number(text, cell[index]);
            }
            text.push(']');
        }
        text.push_str("}}");
    }

    /// Returns the number of cells that end in the last `seconds`.
    fn newer(&self, seconds: f64) -> usize {
        // A cell that ends at that moment is not newer.
        let steps = (seconds / self.step.as_secs_f64()).ceil();
        // The cast of a negative number gives zero, and a large number is limited.
        (steps as usize).min(self.cells.len())
    }

    /// Returns the free bytes at the end of each cell: the time of the cell in seconds, and the bytes.
    pub(super) fn free_bytes(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let step = self.step.as_secs_f64();
        let points = self.cells.iter().enumerate();
        let known = points.filter(|(_, cell)| !cell[FREE_BYTES].is_nan());
        known.map(move |(index, cell)| (index as f64 * step, f64::from(cell[FREE_BYTES])))
    }
}

/// Appends a number with four digits. Large numbers have no fraction.
fn push_number(text: &mut String, number: f32) {
    let _ = if !number.is_finite() {
        write!(text, "null")
    } else if number == 0.0 {
        write!(text, "0")
    } else if number.abs() >= 1000.0 {
        write!(text, "{number:.0}")
    } else {
        let digits = (3 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
        let shown = format!("{number:.digits$}");
        let short =
            if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
        text.write_str(short)
    };
}

#[cfg(test)]
pub(super) fn shown(number: f32) -> String {
    let mut text = String::new();
    push_number(&mut text, number);
    text
}
