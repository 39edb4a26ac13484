//! Paths that find elements and attributes while a document is read: a subset of XPath 1.0.
//!
//! A path is absolute. Its steps are children by name, `p:name`, `p:*` or `*`. One `//` is allowed. A step
//! may have the predicates `[@name]`, `[@name = 'x']`, `[@name != 'x']` and `[1]`. The path may end with
//! `/@name`. It may end with a comparison by `=` or `!=`, as in `/a/b = 'x'`, which is true if one of the
//! nodes fulfils it. A name without a prefix is in no namespace. Nothing looks back, and nothing needs the
//! whole document.

mod matcher;
mod model;
mod parse;
mod set;
mod values;

pub use matcher::{Found, PathMatcher};
pub use model::PrefixBinding;
pub use set::{PathError, PathSet};
pub use values::{PathValues, ValuesError};
