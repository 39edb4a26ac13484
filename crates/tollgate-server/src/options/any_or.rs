//! An option that allows any value, or a list of values.

/// Any value, or a list of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyOr<T> {
    /// Any value.
    Any,
    /// Only these values.
    Listed(Vec<T>),
}
