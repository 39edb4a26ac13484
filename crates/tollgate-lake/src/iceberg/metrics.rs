//! Counts and bounds of the columns of a data file, from its footer. Engines skip files by them.

use std::collections::BTreeMap;

use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use tollgate_log::ColumnType;

/// Letters of a text, or bytes of another value, that a bound has.
const BOUND_LENGTH_MAX: usize = 16;

/// Counts and bounds of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ColumnMetrics {
    /// Compressed bytes.
    pub(crate) bytes: i64,
    pub(crate) values: i64,
    /// `None` for the elements of a list.
    pub(crate) nulls: Option<i64>,
    /// The bounds in the single-value form of Iceberg.
    pub(crate) lower: Option<Vec<u8>>,
    pub(crate) upper: Option<Vec<u8>>,
}

/// Counts and bounds of the columns of a file, by the ids of their fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMetrics {
    pub(crate) columns: BTreeMap<i32, ColumnMetrics>,
    /// Where each row group begins.
    pub(crate) groups: Vec<i64>,
}

/// A bound that can be compared with the bound of another row group.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Bound {
    Bool(bool),
    Int(i64),
    Wide(i128),
    Double(f64),
    Bytes(Vec<u8>),
}

/// Bounds of all row groups so far.
#[derive(Debug, Default)]
struct Bounds {
    /// `None` after a row group without bounds that has values.
    is_unknown: bool,
    both: Option<(Bound, Bound)>,
}

impl FileMetrics {
    /// Reads the metrics from a footer. `ids` has the id of the field and the type of each leaf column.
    pub(crate) fn read(footer: &ParquetMetaData, ids: &[(i32, ColumnType)]) -> Self {
        let mut metrics = Self::default();
        let groups = footer.row_groups();
        metrics.groups = groups.iter().filter_map(|group| group.columns().first().map(start_of)).collect();
        for (place, (id, kind)) in ids.iter().enumerate() {
            let chunks: Vec<_> = groups.iter().filter_map(|group| group.columns().get(place)).collect();
            metrics.columns.insert(*id, column(&chunks, *kind));
        }
        metrics
    }
}

fn start_of(chunk: &ColumnChunkMetaData) -> i64 {
    chunk.dictionary_page_offset().map_or(chunk.data_page_offset(), |page| page.min(chunk.data_page_offset()))
}

fn column(chunks: &[&ColumnChunkMetaData], kind: ColumnType) -> ColumnMetrics {
    let mut metrics = ColumnMetrics {
        bytes: chunks.iter().map(|chunk| chunk.compressed_size()).sum(),
        values: chunks.iter().map(|chunk| chunk.num_values()).sum(),
        ..ColumnMetrics::default()
    };
    if matches!(kind, ColumnType::Array(_)) {
        return metrics;
    }
    let nulls = |chunk: &&&ColumnChunkMetaData| chunk.statistics().and_then(Statistics::null_count_opt);
    let known: Option<u64> = chunks.iter().map(|chunk| nulls(&chunk)).sum();
    metrics.nulls = known.and_then(|nulls| i64::try_from(nulls).ok());
    let mut bounds = Bounds::default();
    for chunk in chunks {
        let is_empty = nulls(&chunk) == u64::try_from(chunk.num_values()).ok();
        match chunk.statistics().and_then(|statistics| pair(statistics, kind)) {
            Some((lower, upper)) => bounds.widen(lower, upper),
            None => bounds.is_unknown |= !is_empty,
        }
    }
    if let (false, Some((lower, upper))) = (bounds.is_unknown, bounds.both) {
        metrics.lower = Some(written(lower, kind, false)).flatten();
        metrics.upper = written(upper, kind, true);
    }
    metrics
}

impl Bounds {
    fn widen(&mut self, lower: Bound, upper: Bound) {
        self.both = Some(match self.both.take() {
            None => (lower, upper),
            Some((least, most)) => {
                (if lower < least { lower } else { least }, if upper > most { upper } else { most })
            }
        });
    }
}

fn pair(statistics: &Statistics, kind: ColumnType) -> Option<(Bound, Bound)> {
    let bound = |bytes: &[u8]| match statistics {
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => match kind {
            ColumnType::Decimal(Some(_)) => {
                bytes.try_into().ok().map(|wide| Bound::Wide(i128::from_be_bytes(wide)))
            }
            _ => Some(Bound::Bytes(bytes.to_vec())),
        },
        _ => None,
    };
    match statistics {
        Statistics::Boolean(found) => Some((Bound::Bool(*found.min_opt()?), Bound::Bool(*found.max_opt()?))),
        Statistics::Int32(found) => {
            Some((Bound::Int((*found.min_opt()?).into()), Bound::Int((*found.max_opt()?).into())))
        }
        Statistics::Int64(found) => Some((Bound::Int(*found.min_opt()?), Bound::Int(*found.max_opt()?))),
        Statistics::Double(found) => {
            Some((Bound::Double(*found.min_opt()?), Bound::Double(*found.max_opt()?)))
        }
        _ => Some((bound(statistics.min_bytes_opt()?)?, bound(statistics.max_bytes_opt()?)?)),
    }
}

/// Returns a bound in the single-value form. `None`: it is too long for an upper bound.
fn written(bound: Bound, kind: ColumnType, is_upper: bool) -> Option<Vec<u8>> {
    Some(match bound {
        Bound::Bool(value) => vec![u8::from(value)],
        Bound::Int(value) => match kind {
            ColumnType::Date => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
            ColumnType::Decimal(_) => shortest(value.into()),
            _ => value.to_le_bytes().to_vec(),
        },
        Bound::Wide(value) => shortest(value),
        Bound::Double(value) => value.to_le_bytes().to_vec(),
        Bound::Bytes(bytes) if bytes.len() <= BOUND_LENGTH_MAX => bytes,
        Bound::Bytes(_) if is_upper => return None,
        Bound::Bytes(bytes) => prefix(&bytes, kind).to_vec(),
    })
}

/// Returns the first part of a long value. A text is not cut inside a letter.
fn prefix(bytes: &[u8], kind: ColumnType) -> &[u8] {
    let mut end = BOUND_LENGTH_MAX.min(bytes.len());
    let is_inside = |end: usize| bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    while kind != ColumnType::Bytes && end > 0 && is_inside(end) {
        end -= 1;
    }
    bytes.get(..end).unwrap_or_default()
}

/// Returns the fewest bytes of a number in two's complement, the highest byte first.
fn shortest(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let is_needless = |place: usize| match (bytes.get(place), bytes.get(place + 1)) {
        (Some(0), Some(next)) => *next < 0x80,
        (Some(0xff), Some(next)) => *next >= 0x80,
        _ => false,
    };
    let first = (0..bytes.len()).find(|place| !is_needless(*place)).unwrap_or_default();
    bytes.get(first..).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_has_the_fewest_bytes() {
        let cases: [(i128, &[u8]); 6] =
            [(0, &[0]), (127, &[127]), (128, &[0, 128]), (-1, &[255]), (-128, &[128]), (-129, &[255, 127])];
        for (value, bytes) in cases {
            assert_eq!(shortest(value), bytes, "{value}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_letters_and_has_no_upper_bound() {
        let text = "123456789012345ä7";
        let bound = Bound::Bytes(text.as_bytes().to_vec());
        assert_eq!(written(bound.clone(), ColumnType::Text, false).unwrap(), b"123456789012345");
        assert_eq!(written(bound.clone(), ColumnType::Text, true), None);
        assert_eq!(written(bound, ColumnType::Bytes, false).unwrap().len(), BOUND_LENGTH_MAX);
    }

    #[test]
    fn bounds_cover_all_row_groups_and_stop_at_an_unknown_one() {
        let mut bounds = Bounds::default();
        for (lower, upper) in [(3, 5), (-1, 2), (4, 9)] {
            bounds.widen(Bound::Int(lower), Bound::Int(upper));
        }
        assert_eq!(bounds.both, Some((Bound::Int(-1), Bound::Int(9))));
        assert_eq!(written(Bound::Int(-1), ColumnType::Date, false).unwrap(), [255; 4]);
        assert_eq!(written(Bound::Wide(-129), ColumnType::Text, true).unwrap(), [255, 127]);
    }
}
