//! The pieces of a template.

use tollgate_xml::Place;

use crate::sys::raw::FieldName;

/// A compiled template.
pub(crate) struct Template {
    pub(super) pieces: Vec<Piece>,
}

pub(super) enum Piece {
    /// Text that is written as it is.
    Markup(Vec<u8>),
    Value {
        path: ValuePath,
        place: Place,
    },
    Each {
        path: ValuePath,
        body: Vec<Piece>,
    },
}

/// The way to a value.
pub(super) struct ValuePath {
    /// Whether the path begins at the value of the whole template, and not at the item.
    pub(super) is_from_root: bool,
    /// The names of fields. Empty for the item itself.
    pub(super) fields: Vec<FieldName>,
    /// Whether nil is allowed.
    pub(super) is_optional: bool,
    /// The path as written.
    pub(super) text: String,
}
