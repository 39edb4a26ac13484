//! `tollgate new`: makes a small app to start with.

mod kind;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::AppKind;
use crate::print::{note, to_stdout};
pub(crate) use kind::TYPES;
use kind::{files, first_request};

/// The file with the secret of a webhook, which no other app has.
const SECRET_FILE: &str = "secret.key";
const SECRET_BYTES: usize = 32;

/// Writes the app into a folder that does not exist or is empty. Prints the next steps.
pub(crate) fn run(folder: &Path, kind: AppKind) -> anyhow::Result<ExitCode> {
    let shown = folder.display();
    if !is_free(folder).with_context(|| format!("cannot read the folder {shown}"))? {
        note(&format!("{shown} is not empty: choose a new folder, or an empty one"));
        return Ok(ExitCode::from(2));
    }
    for (name, text) in files(kind).iter().chain([&("tollgate.d.luau", TYPES)]) {
        let file = folder.join(name);
        write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if kind == AppKind::Webhook {
        write_secret(&folder.join(SECRET_FILE)).with_context(|| format!("cannot write {SECRET_FILE}"))?;
    }
    to_stdout(|out| {
        let word = shell_word(&shown.to_string());
        writeln!(out, "created an app in {shown}")?;
        writeln!(out, "  test    tollgate test {word}")?;
        writeln!(out, "  serve   tollgate serve {word}")?;
        writeln!(out, "  try     {}", first_request(kind, &word))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes a random secret that only this user can read.
fn write_secret(file: &Path) -> io::Result<()> {
    let mut bytes = [0; SECRET_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(format!("{text}\n").as_bytes())
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
