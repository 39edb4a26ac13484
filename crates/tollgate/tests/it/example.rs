//! The examples of the repository, each in a folder of its own and on a free port.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{App, patient};

/// Returns the folder of an example.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// Copies an example, and changes its configuration.
pub(crate) fn example(name: &str, config: impl FnOnce(&str) -> String) -> App {
    let app = App::bare(&[]);
    copy(&folder(name), app.path());
    let written = config(&app.config());
    let listens = written.replace("127.0.0.1:8080", "127.0.0.1:0");
    let server = if listens == written { "[server]\nlisten = [\"127.0.0.1:0\"]\n" } else { "" };
    app.write("tollgate.toml", &patient(&format!("{server}{listens}")));
    app
}

/// Copies all files except the files of a server.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if !entry.file_type().unwrap().is_dir() {
            fs::copy(entry.path(), target).unwrap();
        } else if entry.file_name() != "data" {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        }
    }
}
