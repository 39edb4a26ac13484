//! The lazily built automaton of a schema, which all documents of a thread share.

mod derivative;
mod documents;
mod machine;
mod tables;
mod text;

pub(crate) use machine::{Automaton, Spent, Work};
