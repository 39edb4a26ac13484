//! `validate` of a route: the schemas of RELAX NG that its messages must follow. The printed table reads back
//! to the same value.

use std::path::Path;
use std::sync::Arc;

use tollgate_server::{HandlerSpec, SchemaFolder, SchemaSpec, ValidateMode, ValidateSpec};

use super::fault::Fault;
use super::key::{Facts, inline, keys};
use super::quoted::quoted;
use super::section::Section;
use super::value::{named, names};

const FILE_ALLOWED: &str = "a file `.rnc` (compact syntax) or `.rng` (XML syntax)";

named!(ValidateMode);

/// The keys that are no files.
pub(super) struct ValidateKeys {
    mode: ValidateMode,
}

keys! {
    pub(super) KEYS of ValidateKeys;
    /// The schema of requests.
    request [REQUEST] = other("none", FILE_ALLOWED);
    /// The schema of replies. Not allowed with `collect` and `files`.
    reply [REPLY] = other("none", FILE_ALLOWED);
    /// When a message goes on: `whole` when all of it is valid, `stream` while it is valid, `report` always.
    mode = one_of("whole", names::<ValidateMode>) => mode;
}

/// Takes the schemas of a route, if `validate` is set. The files of schemas are below `folder`.
pub(super) fn validate(
    section: &mut Section<'_>,
    key: &'static Facts,
    folder: &Path,
    handler: Option<&HandlerSpec>,
) -> Option<Arc<ValidateSpec>> {
    let mut table = section.take_table(key.name, "validate of [[route]]".to_owned())?;
    let mut keys = ValidateKeys { mode: ValidateMode::default() };
    table.read(KEYS, &mut keys);
    let is_empty = ![&REQUEST, &REPLY].iter().any(|key| table.has(key.name));
    if is_empty {
        table.fault("validate has neither request nor reply: name the file of a schema");
    }
    let request = schema(&mut table, &REQUEST, folder);
    let reply = schema(&mut table, &REPLY, folder);
    check_handler(&table, handler);
    table.finish();
    (!is_empty).then(|| Arc::new(ValidateSpec { request, reply, mode: keys.mode }))
}

/// Reads a schema. A fault of the schema has its place in the file of the schema.
fn schema(table: &mut Section<'_>, key: &'static Facts, folder: &Path) -> Option<SchemaSpec> {
    let file = table.text(key.name)?;
    let root = SchemaFolder::new(folder);
    if let Err(reason) = root.resolved(&file.value) {
        table.fault_at(&file.span, format!("{} in validate is {:?}, which {reason}", key.name, file.value));
        return None;
    }
    match SchemaSpec::read(&file.value, &root) {
        Ok(schema) => Some(schema),
        Err(error) => {
            let (line, column) = (error.line as usize, error.column as usize);
            let file = folder.join(&error.file);
            table.add_faults(vec![Fault { file, line, column, text: error.fault }]);
            None
        }
    }
}

fn check_handler(table: &Section<'_>, handler: Option<&HandlerSpec>) {
    let text = match handler {
        Some(HandlerSpec::Collect(_)) if table.has(REPLY.name) => {
            "reply in validate is not allowed with collect: the server makes its replies"
        }
        Some(HandlerSpec::Files(_)) => "validate is not allowed with files: files are sent as they are",
        _ => return,
    };
    table.fault(text);
}

/// Shows the table as the file writes it.
pub(super) fn show(spec: &ValidateSpec) -> String {
    let file = |schema: &Option<SchemaSpec>| schema.as_ref().map(|schema| quoted(&schema.file));
    let keys = ValidateKeys { mode: spec.mode };
    inline(KEYS, &keys, &[(REQUEST.name, file(&spec.request)), (REPLY.name, file(&spec.reply))])
}
