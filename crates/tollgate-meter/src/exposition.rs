//! The text format of Prometheus, version 0.0.4.
//!
//! In the text, all samples of a family follow its lines HELP and TYPE. The caller therefore begins a family,
//! adds all its samples, and then begins the next. A family without samples is also written, so that a reader
//! sees that the metric exists.

use std::fmt::Write as _;

use crate::histogram::{BOUNDS_NS, Observed};

/// Media type of the text that [`Exposition::finish`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only rises. The name of the family ends in `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Durations in buckets. The name of the family ends in `_seconds`.
    Histogram,
}

impl Kind {
    /// Returns the name of the type in the line TYPE.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The text of all families, in the order of their calls.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family. `help` must be one line.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        push(&mut self.0, format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
        Family { out: &mut self.0, name }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A family that is being written.
#[derive(Debug)]
pub struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.line("", labels, None, value)
    }

    /// Adds a sample of a count. The sample is exact up to 2^53, because readers of this format use doubles
    /// too.
    pub fn count(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.sample(labels, value as f64)
    }

    /// Adds the samples of a histogram, in seconds.
    pub fn histogram(&mut self, labels: &[(&str, &str)], observed: &Observed) -> &mut Self {
        let mut below = 0;
        for (bound, bucket) in BOUNDS_NS.iter().zip(observed.buckets) {
            below += bucket;
            let bound = seconds(*bound).to_string();
            self.line("_bucket", labels, Some(&bound), below as f64);
        }
        let count = observed.count() as f64;
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, seconds(observed.sum_ns));
        self.line("_count", labels, None, count)
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>, value: f64) -> &mut Self {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in all {
            self.out.push(separator);
            push(self.out, format_args!("{name}=\""));
            push_label_value(self.out, value);
            self.out.push('"');
            separator = ',';
        }
        self.out.push_str(if separator == '{' { " " } else { "} " });
        push(self.out, format_args!("{value}\n"));
        self
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn push_label_value(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            _ => out.push(character),
        }
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Histogram;

    #[test]
    fn a_family_is_its_help_its_type_and_its_samples() {
        let mut exposition = Exposition::default();
        exposition
            .family("a_total", Kind::Counter, "What is counted.")
            .count(&[], 3)
            .count(&[("path", "/a\"b\\c\nd"), ("to", "x")], 0);
        exposition.family("b_bytes", Kind::Gauge, "Bytes.").sample(&[], 0.5);
        exposition.family("c", Kind::Gauge, "Nothing.");
        assert_eq!(
            exposition.finish(),
            "# HELP a_total What is counted.\n# TYPE a_total counter\na_total 3\n\
             a_total{path=\"/a\\\"b\\\\c\\nd\",to=\"x\"} 0\n\
             # HELP b_bytes Bytes.\n# TYPE b_bytes gauge\nb_bytes 0.5\n# HELP c Nothing.\n# TYPE c gauge\n"
        );
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up_to_its_count() {
        let histogram = Histogram::default();
        for us in [5, 20, 20, 2_000_000, 30_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let mut exposition = Exposition::default();
        exposition.family("a_seconds", Kind::Histogram, "Time.").histogram(&[("x", "y")], &histogram.read());
        let text = exposition.finish();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), BOUNDS_NS.len() + 3);
        assert_eq!(lines[0], "a_seconds_bucket{x=\"y\",le=\"0.00001\"} 1");
        assert_eq!(lines[1], "a_seconds_bucket{x=\"y\",le=\"0.000025\"} 3");
        assert_eq!(lines[16], "a_seconds_bucket{x=\"y\",le=\"2.5\"} 4");
        assert_eq!(lines[18], "a_seconds_bucket{x=\"y\",le=\"10\"} 4");
        assert_eq!(lines[19], "a_seconds_bucket{x=\"y\",le=\"+Inf\"} 5");
        assert_eq!(lines[20], "a_seconds_sum{x=\"y\"} 32.000045");
        assert_eq!(lines[21], "a_seconds_count{x=\"y\"} 5");
    }
}
