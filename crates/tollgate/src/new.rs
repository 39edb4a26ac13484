//! `tollgate new`: makes a small app to start with.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::print::{note, to_stdout};

/// The types of a script's globals, as a definition file.
pub(crate) const TYPES: &str = include_str!("new/tollgate.d.luau");

/// The files, by their names in the folder.
const FILES: [(&str, &str); 6] = [
    ("app.toml", include_str!("new/app.toml")),
    ("score.luau", include_str!("new/score.luau")),
    ("tests/score.luau", include_str!("new/score_test.luau")),
    ("public/index.html", include_str!("new/index.html")),
    ("README.md", include_str!("new/README.md")),
    ("tollgate.d.luau", TYPES),
];

/// Writes the app into a folder that does not exist or is empty. Prints the next steps.
pub(crate) fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    let shown = folder.display();
    if !is_free(folder).with_context(|| format!("cannot read the folder {shown}"))? {
        note(&format!("{shown} is not empty: choose a new folder, or an empty one"));
        return Ok(ExitCode::from(2));
    }
    for (name, text) in FILES {
        let file = folder.join(name);
        write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    to_stdout(|out| {
        let word = shell_word(&shown.to_string());
        writeln!(out, "created an app in {shown}")?;
        writeln!(out, "  test    tollgate test {word}")?;
        writeln!(out, "  serve   tollgate serve {word}")?;
        writeln!(out, "  try     curl 'http://127.0.0.1:8080/api/score?x=20'")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Quotes a text as one word of a POSIX shell (its standard, section 2.2.2).
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@%,:".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn is_free(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes a new file. If the file exists by now, because another process wrote it, it is not changed.
fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_word_of_a_command() {
        assert_eq!(shell_word("apps/shop"), "apps/shop");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("$(x)"), "'$(x)'");
    }
}
