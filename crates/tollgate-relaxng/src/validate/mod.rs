//! Judges a document event by event.
//!
//! A [`Validator`] has the path of one document. The automaton has the states of all documents of the
//! thread, so that one bound holds for all of them.

mod expected;
mod faults;
mod path;
mod validator;

pub use validator::{Attribute, Start, Validator};
