//! The content of a reply that states which items of a request were recorded.

use std::fmt::Write;

use bytes::Bytes;

/// Maximum number of rejects in the list. Further rejects are only counted.
const LISTED_MAX: usize = 1000;

/// Returns the number of records that are rows, and the reasons why all other records are rejects:
/// `{"recorded":1,"rejected_count":1,"rejected":[...]}`.
///
/// Each reject is listed with its index in the records.
pub(crate) fn item_summary<'a>(
    records: usize,
    rejected: impl ExactSizeIterator<Item = (usize, &'a str)>,
) -> Bytes {
    let count = rejected.len();
    let mut json = format!("{{\"recorded\":{}", records - count);
    if count > 0 {
        let listed: Vec<_> = rejected.take(LISTED_MAX).map(rejected_item).collect();
        // Writing to a string cannot fail.
        let _ = write!(json, ",\"rejected_count\":{count},\"rejected\":[{}]", listed.join(","));
    }
    json.push_str("}\n");
    json.into()
}

fn rejected_item((index, reason): (usize, &str)) -> String {
    format!("{{\"index\":{index},\"reason\":{}}}", serde_json::Value::from(reason))
}
