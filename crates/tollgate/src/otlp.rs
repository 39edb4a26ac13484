//! The export of spans by OTLP: describes requests as spans of OpenTelemetry, and posts them.
//!
//! [`span`] makes JSON. [`exporter`] is the thread `spans`. No worker waits for this thread.

mod exporter;
mod span;

pub(crate) use exporter::SpanExporter;

#[cfg(test)]
mod tests;
