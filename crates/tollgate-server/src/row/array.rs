//! Converts lists to arrays. Each element has the rules of a column of its type.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_log::{ARRAY_ELEMENTS_MAX, ArrayBuffer, ElementError, ElementType, Value, ValueError};

use super::unfit::unfit;
use super::{ColumnWriter, Target};

/// Writes a list of JSON. `push` writes one element into a column of the elements' type.
pub(super) fn push(
    json: &str,
    element: ElementType,
    column: &Target,
    row: &mut impl ColumnWriter,
    push: impl Fn(&RawValue, &Target, &mut ElementWriter<'_>) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    let target = column.of_elements(element);
    let (mut buffer, mut place, mut refusal) = (ArrayBuffer::new(element), 0, None);
    let each = |raw: &RawValue| {
        let mut writer = ElementWriter { buffer: &mut buffer, column: &column.name };
        let pushed = push(raw, &target, &mut writer);
        refusal = pushed.err().map(|error| of_element(error, place, column, &target));
        place += 1;
        refusal.is_none()
    };
    let read = serde_json::Deserializer::from_str(json).deserialize_seq(EachElement(each));
    match (read, refusal) {
        (_, Some(error)) => Err(error),
        (Err(_), None) => Err(unfit(column, json)),
        (Ok(()), None) => row.push(buffer.finish().value()),
    }
}

/// Names the place of an element that does not fit.
fn of_element(error: ValueError, place: usize, column: &Target, target: &Target) -> ValueError {
    match error {
        ValueError::Unfit { column: name, found, allowed } => {
            let is_type = allowed == target.kind.name();
            let allowed = if is_type { column.kind.name() } else { format!("an array of {allowed}").into() };
            ValueError::Unfit { column: name, found: format!("{found} at index {place}"), allowed }
        }
        other => other,
    }
}

/// Adds the elements of an array.
pub(super) struct ElementWriter<'a> {
    buffer: &'a mut ArrayBuffer,
    column: &'a str,
}

impl ColumnWriter for ElementWriter<'_> {
    fn push(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        let column = || self.column.to_owned();
        self.buffer.push(value).map_err(|error| match error {
            ElementError::Nul(at) => ValueError::Nul { column: column(), at },
            ElementError::TooMany => ValueError::TooMany { column: column(), limit: ARRAY_ELEMENTS_MAX },
            ElementError::Type => ValueError::Unfit {
                column: column(),
                found: format!("{value:?}"),
                allowed: "elements of one type".into(),
            },
        })
    }
}

/// Passes each element of a list to a function, until the function returns false. So a list that is too long
/// is not held in memory.
struct EachElement<F>(F);

impl<'de, F: FnMut(&RawValue) -> bool> Visitor<'de> for EachElement<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&'de RawValue>()? {
            if !self.0(element) {
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
