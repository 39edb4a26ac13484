//! The beginning of the content of a request.

/// The beginning of the content of a request.
pub(crate) struct Prefix<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether the content ends with these bytes.
    pub(crate) is_whole: bool,
}
