//! `require`: finds the file for a name, and runs each file once, in its own environment.
//!
//! - `require("NAME")` loads `NAME.luau` or `NAME/init.luau` below the root of the calling script. A leading
//!   `./` is ignored, because it also means the root. `..`, absolute names and links that lead out of the
//!   root are refused.
//! - A module runs once for each `Host` and root. Later calls return the same value. A module that requires
//!   itself causes an error that names the chain of files.
//! - Each file has its own table of globals, which falls back to the closed globals of the VM. This table is
//!   writable while the file is loaded, and read-only after that. A forgotten `local` in a handler is
//!   therefore an error, and not state between requests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Value};
use sha2::{Digest, Sha256};

use crate::disk::Disk;
use crate::error::{LoadError, flat, shown};
use crate::memory::unlimited;

/// The modules of a `Host`.
#[derive(Default)]
pub(crate) struct Modules {
    /// Values of the loaded modules, by root and file. The root is part of the key because the module's own
    /// `require` depends on it.
    loaded: RefCell<HashMap<(PathBuf, PathBuf), Value>>,
    /// The files that are being loaded, outermost first.
    chain: RefCell<Vec<PathBuf>>,
    /// The root of each file in `chain`.
    roots: RefCell<Vec<Rc<Path>>>,
    /// Every file that was read, in order.
    sources: RefCell<Vec<SourceFile>>,
    disk: Disk,
}

/// A file that was read, and the hash of its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// The resolved path of the file.
    pub file: PathBuf,
    /// The SHA-256 of the text.
    pub sha256: [u8; 32],
}

impl Modules {
    /// Creates the modules of a new VM. The modules use the files that another VM read, even if the files on
    /// disk have changed since.
    pub(crate) fn of_same(before: &Self) -> Self {
        Self { disk: before.disk.same(), ..Self::default() }
    }

    /// Returns the loader of the file that is being loaded, if one is.
    pub(crate) fn loading(self: &Rc<Self>) -> Option<Loader> {
        let root = self.roots.borrow().last().cloned()?;
        Some(Loader { root, modules: Rc::clone(self) })
    }

    pub(crate) fn sources(&self) -> Vec<SourceFile> {
        self.sources.borrow().clone()
    }
}

/// A resolved root folder whose files may require each other.
#[derive(Clone)]
pub(crate) struct Loader {
    root: Rc<Path>,
    modules: Rc<Modules>,
}

impl Loader {
    pub(crate) fn new(root: &Path, modules: &Rc<Modules>) -> Result<Self, LoadError> {
        let resolved = modules
            .disk
            .canonical(root)
            .map_err(|reason| LoadError::Read { file: root.to_path_buf(), reason })?;
        Ok(Self { root: Rc::from(resolved), modules: Rc::clone(modules) })
    }

    /// Resolves `file` and reads it.
    pub(crate) fn read(&self, file: &Path) -> Result<Source, LoadError> {
        let failed = |reason| LoadError::Read { file: file.to_path_buf(), reason };
        let disk = &self.modules.disk;
        let path = disk.canonical(file).map_err(failed)?;
        if !path.starts_with(&self.root) {
            return Err(LoadError::Outside { file: file.to_path_buf(), root: self.root.to_path_buf() });
        }
        let bytes = disk.bytes_len(&path).map_err(failed)?;
        if bytes > SOURCE_BYTES_MAX {
            return Err(LoadError::TooLarge { file: file.to_path_buf(), bytes, limit: SOURCE_BYTES_MAX });
        }
        let text = disk.text(&path).map_err(failed)?;
        let sha256 = Sha256::digest(&text).into();
        self.modules.sources.borrow_mut().push(SourceFile { file: path.clone(), sha256 });
        Ok(Source { path, text })
    }

    /// Compiles `source` into a function with its own globals.
    pub(crate) fn compile(&self, lua: &Lua, source: Source) -> mlua::Result<Function> {
        let name = format!("@{}", self.name_of(&source.path));
        let require = self.require_function(lua)?;
        // Luau binds a chunk to the globals of the coroutine that loads it.
        let load = move |lua: &Lua, ()| {
            unlimited(lua, || lua.globals().raw_set("require", &require))?;
            lua.load(&*source.text).set_name(&name).set_mode(ChunkMode::Text).into_function()
        };
        // This code runs without the memory limit of a call. At the limit, mlua would panic in `globals`, and
        // Luau would fail an assertion in `sandbox`.
        let thread = unlimited(lua, || {
            let thread = lua.create_thread(lua.create_function(load)?)?;
            thread.sandbox()?;
            mlua::Result::Ok(thread)
        })?;
        thread.resume(())
    }

    /// Runs a compiled file, and makes its globals read-only.
    pub(crate) fn run(&self, lua: &Lua, path: &Path, chunk: &Function) -> mlua::Result<Value> {
        let _loading = self.begin(path)?;
        let (value, second): (Value, Value) = chunk.call(())?;
        if !matches!(second, Value::Nil) {
            return Err(mlua::Error::runtime(format!("{} returned more than one value", self.name_of(path))));
        }
        if let Some(environment) = unlimited(lua, || chunk.environment()) {
            environment.set_readonly(true);
        }
        Ok(value)
    }

    fn begin(&self, path: &Path) -> mlua::Result<Loading<'_>> {
        let mut chain = self.modules.chain.borrow_mut();
        if let Some(first) = chain.iter().position(|file| file == path) {
            let files = chain[first..].iter().map(PathBuf::as_path).chain([path]);
            let names: Vec<String> = files.map(|file| self.name_of(file)).collect();
            return Err(mlua::Error::runtime(format!("require is circular: {}", names.join(" -> "))));
        }
        if chain.len() == CHAIN_MAX {
            return Err(mlua::Error::runtime(format!("require is nested deeper than {CHAIN_MAX}")));
        }
        chain.push(path.to_path_buf());
        self.modules.roots.borrow_mut().push(Rc::clone(&self.root));
        Ok(Loading(&self.modules))
    }

    fn require_function(&self, lua: &Lua) -> mlua::Result<Function> {
        let loader = self.clone();
        lua.create_function(move |lua, name: mlua::LuaString| {
            let name = name.as_bytes();
            loader.require(lua, &name).map_err(|error| match error {
                mlua::Error::RuntimeError(text) => {
                    mlua::Error::RuntimeError(format!("require \"{}\": {text}", shown(&name)))
                }
                other => flat(other),
            })
        })
    }

    fn require(&self, lua: &Lua, name: &[u8]) -> mlua::Result<Value> {
        let path = self.resolve(name).map_err(mlua::Error::RuntimeError)?;
        let key = (self.root.to_path_buf(), path);
        if let Some(value) = self.modules.loaded.borrow().get(&key) {
            return Ok(value.clone());
        }
        let path = &key.1;
        let source = self.read(path).map_err(|error| mlua::Error::runtime(in_full(&error)))?;
        let value = self.run(lua, path, &self.compile(lua, source)?)?;
        if matches!(value, Value::Nil) {
            return Err(mlua::Error::runtime("the module returned nothing"));
        }
        self.modules.loaded.borrow_mut().insert(key, value.clone());
        Ok(value)
    }

    /// Finds the file for `name`.
    fn resolve(&self, name: &[u8]) -> Result<PathBuf, String> {
        let name = std::str::from_utf8(name).map_err(|_| "the name is not UTF-8".to_owned())?;
        let name = name.strip_prefix("./").unwrap_or(name);
        if name.split('/').any(|part| part.is_empty() || part == "." || part == "..")
            || name.contains(['\\', '\0'])
        {
            return Err(
                "the name is outside the app: allowed are names below the root of the app, such as \"lib/x\""
                    .to_owned(),
            );
        }
        self.modules.disk.module(&self.root, name, || self.find(name))
    }

    fn find(&self, name: &str) -> Result<PathBuf, String> {
        let candidates = [self.root.join(format!("{name}.luau")), self.root.join(name).join("init.luau")];
        let Some(path) = candidates.iter().find_map(|file| fs::canonicalize(file).ok()) else {
            return Err(format!("neither {name}.luau nor {name}/init.luau is in {}", self.root.display()));
        };
        if !path.starts_with(&self.root) {
            return Err(format!("the file is outside the root {}", self.root.display()));
        }
        Ok(path)
    }

    fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Reads the files of a schema below the root. Another VM then reads the same text.
impl tollgate_validate::Loader for Loader {
    fn load(&self, path: &str) -> Result<String, String> {
        let source = self.read(&self.root.join(path)).map_err(|error| in_full(&error))?;
        String::from_utf8(source.text.to_vec()).map_err(|_| "is not UTF-8".to_owned())
    }
}

/// A file that was read.
pub(crate) struct Source {
    /// The resolved path.
    pub(crate) path: PathBuf,
    pub(crate) text: Rc<[u8]>,
}

/// Removes the file from the chain when its loading ends, also after an error.
struct Loading<'a>(&'a Modules);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.chain.borrow_mut().pop();
        self.0.roots.borrow_mut().pop();
    }
}

fn in_full(error: &LoadError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

const SOURCE_BYTES_MAX: u64 = 4 << 20;
/// Maximum depth of nested `require` calls. Each level uses native stack. Luau itself allows 200 nested calls
/// through Rust.
const CHAIN_MAX: usize = 32;
