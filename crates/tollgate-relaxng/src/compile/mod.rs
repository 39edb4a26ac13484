//! From the files of a schema to a [`Grammar`]: simplification (section 4 of the specification), then the
//! restrictions (section 7).

mod attributes;
mod build;
mod content_type;
mod contents;
mod files;
mod grammars;
mod name_class;
mod restrict;

use crate::pattern::Grammar;
use crate::source::{Loader, Source};
use crate::syntax::SchemaFault;
use crate::{SchemaError, SchemaLimits};
use build::Builder;
use files::Files;

/// Compiles a schema.
pub(crate) fn compile(
    source: &Source<'_>,
    loader: &dyn Loader,
    limits: &SchemaLimits,
) -> Result<Grammar, SchemaError> {
    let mut files = Files::new(loader, limits);
    simplified(source, &mut files).map_err(|fault| SchemaError {
        file: files.name(fault.at),
        line: fault.at.line,
        column: fault.at.column,
        fault: fault.text,
    })
}

fn simplified(source: &Source<'_>, files: &mut Files<'_>) -> Result<Grammar, SchemaFault> {
    let root = files.first(source)?;
    let limits = *files.limits();
    let grammar = Builder::new(files).build(&root)?;
    restrict::check(&grammar, root.at, &limits)?;
    Ok(grammar)
}
