//! Luau's type checker for scripts. It checks the calls of `tollgate.*`, and the calls from one script to
//! another, against the declared types.
//!
//! The checker is the library `luau-analysis`, Luau's own checker in Rust. The checker runs on a thread with
//! its own stack. A failure inside the checker is reported as [`CheckError::Checker`]. The caller passes the
//! files and the declarations. No script runs.
//!
//! The mode comment of a file states how much of its code is checked. With `--!strict`, all code is checked.
//! With `--!nonstrict` or without a mode, only code that is certain to fail is reported. With `--!nocheck`,
//! no code is checked.

mod modules;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use luau_analysis::diagnostics::{TypeError, TypeErrorData};
use luau_analysis::{
    AnalysisError, DefinitionEnvironment, FileResolver, Frontend, FrontendOptions, ModuleName,
    NullConfigResolver, SemanticModel,
};
use luau_common::flags::{LuauIntegerLibrary, LuauIntegerType2};

use modules::Modules;

/// A type fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeFault {
    /// Path of the file, below the root as the caller gave it.
    pub file: PathBuf,
    /// Number of the line, from 1.
    pub line: u32,
    /// Number of the byte in the line, from 1.
    pub column: u32,
    /// Message in one line, with the value found and the allowed values.
    pub text: String,
}

/// Reason why no file could be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The operating system cannot start a thread.
    #[error("cannot start the thread of the type checker")]
    Thread(#[source] io::Error),
    /// The declarations have faults.
    #[error("the type declarations have errors: {0}")]
    Declarations(String),
    /// The checker failed, and its findings are lost.
    #[error("the type checker failed: {0}")]
    Checker(String),
}

/// Checks files below `root` and the modules that they require. Returns the faults in the order of files and
/// lines.
///
/// `require` begins at `root`. `declarations` is the text of a definition file.
///
/// # Errors
/// No file was checked, for the reason in the error.
pub fn check(declarations: &str, root: &Path, files: &[PathBuf]) -> Result<Vec<TypeFault>, CheckError> {
    thread::scope(|scope| {
        let checker = thread::Builder::new().name("types".to_owned()).stack_size(STACK_BYTES);
        let checker = checker.spawn_scoped(scope, || Checker::new(declarations, root)?.check_all(files));
        checker.map_err(CheckError::Thread)?.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(CheckError::Checker(text.unwrap_or("its thread panicked").to_owned()))
        })
    })
}

struct Checker {
    frontend: Frontend<Modules, NullConfigResolver>,
}

impl Checker {
    fn new(declarations: &str, root: &Path) -> Result<Self, CheckError> {
        // Enables the type of 64-bit integers and its library, because scripts have both.
        LuauIntegerType2.set(true);
        LuauIntegerLibrary.set(true);
        let options =
            FrontendOptions { module_time_limit_sec: Some(MODULE_SECONDS_MAX), ..FrontendOptions::default() };
        let mut frontend = Frontend::new(Modules::below(root), NullConfigResolver::default(), options);
        frontend.register_builtin_globals(DefinitionEnvironment::Globals).map_err(failed)?;
        let scope = frontend.global_scope(DefinitionEnvironment::Globals);
        let loaded =
            frontend.load_definition_file(scope, declarations, "@tollgate", false).map_err(failed)?;
        if !loaded.success {
            let parsed = loaded.source_module.parse_errors.iter().map(|error| format!("{error:?}"));
            let model = loaded.semantic_model(&frontend);
            let told = |model: &SemanticModel<'_>| -> Vec<String> {
                let line = |error: &TypeError| error.location.begin.line + 1;
                let text = |error| format!("line {}: {}", line(error), model.error_message(error));
                model.module().errors().iter().map(text).collect()
            };
            let typed = model.as_ref().map(told).unwrap_or_default();
            return Err(CheckError::Declarations(parsed.chain(typed).collect::<Vec<_>>().join("; ")));
        }
        Ok(Self { frontend })
    }

    fn check_all(mut self, files: &[PathBuf]) -> Result<Vec<TypeFault>, CheckError> {
        let mut faults = BTreeSet::new();
        for file in files {
            self.check(file, &mut faults)?;
        }
        Ok(faults.into_iter().collect())
    }

    fn check(&mut self, file: &Path, faults: &mut BTreeSet<TypeFault>) -> Result<(), CheckError> {
        let name = self.frontend.file_resolver().name(file);
        let whole = |text: String| TypeFault { file: file.to_path_buf(), line: 1, column: 1, text };
        if self.frontend.file_resolver_mut().read_source(&name).is_none() {
            faults.insert(whole("the file cannot be read".to_owned()));
            return Ok(());
        }
        let result = self.frontend.check(&name, None).map_err(failed)?;
        let modules = self.frontend.file_resolver();
        let shown = |module: &ModuleName| modules.shown(module);
        let model = self.frontend.semantic_model(&name);
        let model = model.ok_or_else(|| {
            CheckError::Checker(format!("the checker has no result for {}", file.display()))
        })?;
        faults.extend(result.errors.iter().filter(|error| !is_same_type(error)).map(|error| TypeFault {
            file: shown(&error.module_name),
            line: error.location.begin.line + 1,
            column: error.location.begin.column + 1,
            text: in_one_line(&modules.without_root(&model.error_message(error).to_string())),
        }));
        faults.extend(result.timeout_hits.iter().map(|module: &ModuleName| {
            let file = shown(module).display().to_string();
            whole(format!("{file} takes longer to check than {MODULE_SECONDS_MAX} s"))
        }));
        Ok(())
    }
}

/// Returns whether the checker reports an argument that has the expected type.
///
/// In files that are not strict, the checker reports an argument of type `integer` although `integer` is
/// expected.
fn is_same_type(error: &TypeError) -> bool {
    matches!(&error.data, TypeErrorData::CheckedFunctionCallError(call) if call.expected == call.passed)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: AnalysisError) -> CheckError {
    CheckError::Checker(error.to_string())
}

/// Joins the lines of a message, because the checker puts line breaks and tabs between types.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Bytes of the stack of the checker's thread. The stack is large, because the checker walks types by
/// recursion.
const STACK_BYTES: usize = 64 << 20;
const MODULE_SECONDS_MAX: f64 = 10.0;
