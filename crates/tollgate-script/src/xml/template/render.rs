//! Writes a template with the values of a table.

use super::piece::{Piece, Template, ValuePath};
use crate::budget::Budget;
use crate::conversion::EncodeError;
use crate::sys::raw::{RawTable, RawValue};
use crate::xml::encode::{check_size, text};

type Result<T> = std::result::Result<T, EncodeError>;

/// Writes a template with the values of `value`.
///
/// # Errors
/// A value is missing or has no form in XML, or a limit is exceeded.
pub(crate) fn render(
    template: &Template,
    value: RawValue<'_>,
    bytes_max: usize,
    budget: &Budget,
) -> Result<Vec<u8>> {
    let RawValue::Table(_) = value else {
        return Err(EncodeError::new(format!("a {}: allowed is a table of values", value.kind())));
    };
    let mut renderer = Renderer { out: Vec::with_capacity(OUTPUT_BYTES), root: value, bytes_max, budget };
    renderer.pieces(&template.pieces, value)?;
    Ok(renderer.out)
}

struct Renderer<'a> {
    out: Vec<u8>,
    root: RawValue<'a>,
    bytes_max: usize,
    budget: &'a Budget,
}

impl Renderer<'_> {
    fn pieces(&mut self, pieces: &[Piece], item: RawValue<'_>) -> Result<()> {
        pieces.iter().try_for_each(|piece| match piece {
            Piece::Markup(markup) => {
                self.out.extend_from_slice(markup);
                check_size(self.out.len(), self.bytes_max)
            }
            Piece::Value { path, place } => self.at(path, item, |renderer, value| {
                text(&mut renderer.out, &value, *place, renderer.bytes_max)
            }),
            Piece::Each { path, body } => self.at(path, item, |renderer, value| match value {
                RawValue::Table(list) => renderer.each(list, body),
                other => Err(EncodeError::new(format!("a {}: allowed is a list", other.kind()))),
            }),
        })
    }

    fn each(&mut self, list: RawTable<'_>, body: &[Piece]) -> Result<()> {
        for index in 1..=list.len() {
            if index.is_multiple_of(ITEMS_PER_CHECK) && self.budget.is_exhausted() {
                return Err(EncodeError::new("cpu budget of the call is used up"));
            }
            let written = list.with_index(index, |item| self.pieces(body, item));
            written.map_err(|fault| fault.below(&format!("[{index}]")))?;
        }
        Ok(())
    }

    /// Passes the value at a path to `write`. Nil writes nothing where the path allows it.
    fn at(
        &mut self,
        path: &ValuePath,
        item: RawValue<'_>,
        write: impl FnOnce(&mut Self, RawValue<'_>) -> Result<()>,
    ) -> Result<()> {
        let from = if path.is_from_root { self.root } else { item };
        let written = follow(from, &path.fields, |value| match value {
            RawValue::Nil if path.is_optional => Ok(()),
            RawValue::Nil => Err(EncodeError::new("nil: `?` after the path allows it")),
            value => write(self, value),
        });
        written.map_err(|fault| fault.below(&format!("{{{}}}", path.text)))
    }
}

/// Passes the value of a field of a field to `f`. Anything that is no table has no fields.
fn follow<R>(
    value: RawValue<'_>,
    fields: &[crate::sys::raw::FieldName],
    f: impl FnOnce(RawValue<'_>) -> R,
) -> R {
    match (fields, value) {
        ([], value) => f(value),
        ([name], RawValue::Table(table)) => table.with_field(name, f),
        ([name, rest @ ..], RawValue::Table(table)) => {
            let f: Box<dyn FnOnce(RawValue<'_>) -> R + '_> = Box::new(f);
            table.with_field(name, |value| follow(value, rest, f))
        }
        _ => f(RawValue::Nil),
    }
}

const ITEMS_PER_CHECK: usize = 64;
/// The room of a usual document.
const OUTPUT_BYTES: usize = 4096;
