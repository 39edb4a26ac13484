//! Finds the file for a `require`: `NAME.luau` or `NAME/init.luau` below the root, as when scripts run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use luau_analysis::diagnostics::TypeCheckLimits;
use luau_analysis::frontend::resolver::ModuleInfo;
use luau_analysis::{FileResolver, ModuleName, SourceCode, SourceCodeType};
use luau_common::BString;
use luau_syntax::ast::{Expression, ExpressionKind};

/// The modules below a folder. The name of a module is the resolved path of its file.
pub(crate) struct Modules {
    /// The resolved root, if it exists.
    root: PathBuf,
    /// The root as the caller gave it.
    shown: PathBuf,
}

impl Modules {
    pub(crate) fn below(root: &Path) -> Self {
        let shown = root.to_path_buf();
        Self { root: fs::canonicalize(root).unwrap_or_else(|_| shown.clone()), shown }
    }

    /// Returns the module name of a file.
    pub(crate) fn name(&self, file: &Path) -> ModuleName {
        module_name(&fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf()))
    }

    /// Returns the path of a module below the root as the caller gave it.
    pub(crate) fn shown(&self, name: &ModuleName) -> PathBuf {
        let path = path_of(name);
        path.strip_prefix(&self.root).map(|below| self.shown.join(below)).unwrap_or(path)
    }

    /// Removes the root from a message, so that the message names modules as scripts name them.
    pub(crate) fn without_root(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.root.display()), "")
    }

    /// Returns the path of the file for a name. If there is no such file, the returned path does not exist.
    fn resolve(&self, name: &[u8]) -> PathBuf {
        let name = Path::new(OsStr::from_bytes(name.strip_prefix(b"./").unwrap_or(name)));
        let file = self.root.join(name.with_added_extension("luau"));
        let candidates = [file.clone(), self.root.join(name).join("init.luau")];
        let found = candidates.iter().find_map(|file| fs::canonicalize(file).ok());
        found.filter(|file| file.starts_with(&self.root)).unwrap_or(file)
    }
}

impl FileResolver for Modules {
    fn read_source(&mut self, name: &ModuleName) -> Option<SourceCode> {
        let path = path_of(name);
        let is_ours = fs::canonicalize(&path).is_ok_and(|path| path.starts_with(&self.root));
        let is_short = fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= SOURCE_BYTES_MAX);
        let source = fs::read(&path).ok().filter(|_| is_ours && is_short)?;
        Some(SourceCode { source: source.into(), kind: SourceCodeType::Module })
    }

    fn resolve_module(
        &mut self,
        _context: Option<&ModuleInfo>,
        expression: Expression<'_>,
        _limits: &TypeCheckLimits,
    ) -> Option<ModuleInfo> {
        let ExpressionKind::String { value, .. } = expression.kind() else { return None };
        Some(ModuleInfo { name: module_name(&self.resolve(value.as_bytes())), optional: false })
    }
}

fn module_name(file: &Path) -> BString {
    BString::from(file.as_os_str().as_bytes())
}

fn path_of(name: &ModuleName) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name))
}

/// Maximum size of a script in bytes. Scripts have the same maximum when they run.
const SOURCE_BYTES_MAX: u64 = 4 << 20;
