//! Simplified patterns (section 5 of the specification), each of them once.

mod arena;
mod grammar;
mod name_set;
mod names;
mod symbol;

pub(crate) use arena::{Arena, Id, Pattern};
pub(crate) use grammar::{Declaration, Element, Grammar, Label};
pub(crate) use name_set::NameSet;
pub(crate) use names::Names;
pub(crate) use symbol::Symbol;
