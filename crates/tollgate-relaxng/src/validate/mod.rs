//! Judges a document event by event.
//!
//! A [`Validator`] has the path of one document. The [`Automaton`] has its state, next to those of all other
//! documents of the thread, so that one bound holds for all of them.

mod automaton;
mod derivative;
mod documents;
mod expected;
mod path;
mod tables;
mod text;
mod validator;

pub(crate) use automaton::Automaton;
pub use validator::{Attribute, Start, Validator};

pub use crate::datatype::Namespaces;
