//! What a client is told of the records of its request.

use std::fmt::Write;

use bytes::Bytes;

/// Rejects that are listed; the others are counted.
const LISTED_MAX: usize = 1000;

/// How many of the records are kept as rows, and why which are not:
/// `{"recorded":1,"rejected_count":1,"rejected":[...]}`.
///
/// Each reject is there by its place among the records.
pub(crate) fn item_summary<'a>(
    records: usize,
    rejected: impl ExactSizeIterator<Item = (usize, &'a str)>,
) -> Bytes {
    let count = rejected.len();
    let mut json = format!("{{\"recorded\":{}", records - count);
    if count > 0 {
        let listed: Vec<_> = rejected.take(LISTED_MAX).map(rejected_item).collect();
        // A string takes everything.
        let _ = write!(json, ",\"rejected_count\":{count},\"rejected\":[{}]", listed.join(","));
    }
    json.push_str("}\n");
    json.into()
}

fn rejected_item((index, reason): (usize, &str)) -> String {
    format!("{{\"index\":{index},\"reason\":{}}}", serde_json::Value::from(reason))
}
