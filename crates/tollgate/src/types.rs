//! `tollgate check --types`: runs Luau's type checker over the scripts of a configuration, their modules and
//! their tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_server::{RouteSpec, ServerOptions};

use crate::config::Config;
use crate::test;

/// Files that are checked, by the folder of their modules.
type Files = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Checks all files. Returns the faults in lines `file:line:column: text`.
#[cfg(feature = "types")]
pub(crate) fn faults(path: &Path, config: &Config) -> anyhow::Result<Vec<String>> {
    use crate::print::printable;

    let mut faults = Vec::new();
    for (root, files) in files(path, config) {
        let files: Vec<_> = files.into_iter().collect();
        let found = tollgate_types::check(crate::new::TYPES, &root, &files)?;
        faults.extend(found.into_iter().map(|fault| {
            let (file, text) = (fault.file.display().to_string(), printable(&fault.text));
            format!("{}:{}:{}: {text}", printable(&file), fault.line, fault.column)
        }));
    }
    Ok(faults)
}

/// Fails, because this build has no checker.
#[cfg(not(feature = "types"))]
pub(crate) fn faults(path: &Path, config: &Config) -> anyhow::Result<Vec<String>> {
    let count = files(path, config).values().map(BTreeSet::len).sum::<usize>();
    anyhow::bail!("{count} scripts were not checked: this tollgate is built without its feature \"types\"")
}

/// Returns the scripts of routes, the hook, and the tests of the folder and of its apps.
fn files(path: &Path, config: &Config) -> Files {
    let mut files = scripts(&config.server);
    let own = test::root_of(path);
    for root in config.mounts.iter().map(|mount| &mount.dir).chain([&own]) {
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let tests = test::files_in(&root.join(test::FOLDER)).unwrap_or_default();
        files.entry(root).or_default().extend(tests);
    }
    files
}

fn scripts(server: &ServerOptions) -> Files {
    let mut files = Files::new();
    let hook = server.dns_hook.iter().map(|hook| (&*hook.file, &*hook.root));
    for (file, root) in server.routes.iter().flat_map(RouteSpec::scripts).chain(hook) {
        files.entry(root.to_owned()).or_default().insert(file.to_owned());
    }
    files
}
