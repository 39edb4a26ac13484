//! The crates of the workspace, as their `Cargo.toml` files describe them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::{graph::Graph, imports::imports, target::Target};

/// A member of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// Name of the crate in `[package]`.
    pub name: String,
    /// Path of the crate's folder, which begins with the root of the workspace.
    pub folder: PathBuf,
    /// The crates of the workspace in its `[dependencies]`.
    pub uses: BTreeSet<String>,
    /// The crates of the workspace in its `[dev-dependencies]`.
    pub tests_use: BTreeSet<String>,
}

/// The imports inside of one library or program.
#[derive(Debug)]
pub struct Imports {
    /// The crate's name. If a crate has a library and a program, the name of the program ends in `
    /// (program)`.
    pub name: String,
    /// Paths of the files below `src`. A node of `graph` is an index of this list.
    pub files: Vec<String>,
    /// The imports from file to file.
    pub graph: Graph,
}

impl Imports {
    /// Returns the cycles as lists of file names.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<&str>> {
        let names = |files: Vec<usize>| {
            let mut names = files.into_iter().map(|file| self.files[file].as_str()).collect::<Vec<_>>();
            names.sort_unstable();
            names
        };
        self.graph.cycles().into_iter().map(names).collect()
    }

    /// Returns the imports between the modules that the root declares. All files of a module count as one
    /// node.
    #[must_use]
    pub fn of_modules(&self) -> Self {
        let modules = self.files.iter().map(|file| module_of(file)).collect::<BTreeSet<_>>();
        let files = modules.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let node = |file: usize| files.iter().position(|module| module == module_of(&self.files[file]));
        let mut graph = Graph::new(files.len());
        for from in 0..self.files.len() {
            for (&to, names) in self.graph.from(from) {
                if let (Some(from), Some(to)) = (node(from), node(to)) {
                    names.keys().for_each(|name| graph.add(from, to, name, 0));
                }
            }
        }
        Self { name: self.name.clone(), files, graph }
    }
}

/// Returns the root of the workspace that this crate belongs to.
#[must_use]
pub fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root.pop();
    root
}

/// Returns the members of the workspace, in the order of its `Cargo.toml`.
///
/// # Errors
/// A `Cargo.toml` cannot be read, or a required key is missing.
pub fn crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let manifest = manifest(root)?;
    let members = manifest["workspace"]["members"].as_array().context("[workspace] has no members")?;
    let members = members.iter().filter_map(toml::Value::as_str);
    members.map(|member| Crate::read(&root.join(member))).collect()
}

impl Crate {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let manifest = manifest(folder)?;
        let name = manifest["package"]["name"].as_str().context("a package has no name")?;
        let ours = |section: &str| {
            let names =
                manifest.get(section).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
            names.filter(|name| name.starts_with("tollgate")).cloned().collect()
        };
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            uses: ours("dependencies"),
            tests_use: ours("dev-dependencies"),
        })
    }

    /// Returns the imports of the crate's library, and those of its program.
    ///
    /// # Errors
    /// A source file cannot be read.
    pub fn imports(&self) -> anyhow::Result<Vec<Imports>> {
        let source = self.folder.join("src");
        let roots =
            ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().filter(|root| root.is_file());
        let roots = roots.collect::<Vec<_>>();
        roots.iter().map(|root| self.imports_from(root, roots.len() > 1)).collect()
    }

    fn imports_from(&self, root: &Path, has_both: bool) -> anyhow::Result<Imports> {
        let target = Target::load(root, &|path| fs::read_to_string(path))?;
        let is_program = has_both && root.ends_with("main.rs");
        Ok(Imports {
            name: format!("{}{}", self.name, if is_program { " (program)" } else { "" }),
            graph: imports(&target),
            files: target.files.iter().map(|file| self.short(file)).collect(),
        })
    }

    fn short(&self, file: &Path) -> String {
        file.strip_prefix(self.folder.join("src")).unwrap_or(file).display().to_string()
    }
}

/// Returns the module of the crate's root to which a file below `src` belongs.
fn module_of(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn manifest(folder: &Path) -> anyhow::Result<toml::Table> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse::<toml::Table>().with_context(|| format!("{} is not valid TOML", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_cycle_may_be_modules_with_one() {
        let files = ["lib.rs", "conn/mod.rs", "conn/reply.rs", "route.rs"].map(str::to_owned).to_vec();
        let mut graph = Graph::new(files.len());
        graph.add(1, 3, "Route", 4);
        graph.add(3, 2, "Reply", 7);
        let imports = Imports { name: "some".to_owned(), files, graph };
        assert!(imports.cycles().is_empty());
        assert_eq!(imports.of_modules().cycles(), [["conn", "route"]]);
    }
}
