//! The schema as the caller holds it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::automaton::Automaton;
use crate::compile;
use crate::pattern::Grammar;
use crate::source::{Loader, Source};
use crate::{SchemaError, SchemaLimits, ValidationLimits};

/// A compiled schema without the state of a thread. Threads share it.
#[derive(Clone, Debug)]
pub struct CompiledSchema {
    grammar: Arc<Grammar>,
}

/// A schema and its automaton, for one thread. Clones share the automaton.
///
/// The automaton of a schema has one bound for all documents of its thread: [`ValidationLimits`].
#[derive(Clone, Debug)]
pub struct Schema {
    compiled: CompiledSchema,
    pub(crate) automaton: Rc<RefCell<Automaton>>,
    pub(crate) limits: ValidationLimits,
}

impl CompiledSchema {
    /// Compiles a schema of either syntax.
    ///
    /// # Errors
    /// The first fault of the schema, with its place. A repeated call fails in the same way.
    pub fn compile(
        source: Source<'_>,
        loader: &dyn Loader,
        limits: &SchemaLimits,
    ) -> Result<Self, SchemaError> {
        let grammar = compile::compile(&source, loader, limits)?;
        Ok(Self { grammar: Arc::new(grammar) })
    }

    /// Returns the size of the schema: its patterns, and their members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.grammar.arena.size()
    }

    /// Makes the schema for this thread, with an automaton that has no transitions yet.
    #[must_use]
    pub fn for_thread(&self, limits: ValidationLimits) -> Schema {
        let automaton = Automaton::new(Arc::clone(&self.grammar), &limits);
        Schema { compiled: self.clone(), automaton: Rc::new(RefCell::new(automaton)), limits }
    }
}

impl Schema {
    /// Compiles a schema of either syntax, with the default limits.
    ///
    /// # Errors
    /// As [`CompiledSchema::compile`].
    pub fn compile(source: Source<'_>, loader: &dyn Loader) -> Result<Self, SchemaError> {
        let compiled = CompiledSchema::compile(source, loader, &SchemaLimits::default())?;
        Ok(compiled.for_thread(ValidationLimits::default()))
    }

    /// Returns the part that other threads can use.
    #[must_use]
    pub const fn compiled(&self) -> &CompiledSchema {
        &self.compiled
    }
}
