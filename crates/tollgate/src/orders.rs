//! `tollgate reload` and `tollgate upgrade`: give a running server an order, and print the outcome.

use std::path::{Path, absolute};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::WrongUsage;
use crate::control::{Reloaded, Silence, ask_reload, ask_upgrade};
use crate::log::log_folder;
use crate::print::{note, to_stdout};
use crate::status::unanswered;

/// `tollgate reload`: asks the server of a configuration to read it again.
pub(crate) fn reload(config: &Path) -> anyhow::Result<ExitCode> {
    give(config, ask_reload)
}

/// `tollgate upgrade`: asks the server of a configuration to start a new program, which takes over.
pub(crate) fn upgrade(program: Option<&Path>, config: &Path) -> anyhow::Result<ExitCode> {
    if program.is_some_and(Path::is_dir) {
        bail!(WrongUsage("the program is a folder: name a configuration by --config FOLDER"));
    }
    let program = program.map(|program| absolute(program).context("cannot name the program")).transpose()?;
    give(config, |dir| ask_upgrade(dir, program.as_deref()))
}

fn give(config: &Path, ask: impl FnOnce(&Path) -> Result<Reloaded, Silence>) -> anyhow::Result<ExitCode> {
    let dir = log_folder(config)?;
    let Reloaded { code, text } = ask(&dir).map_err(|silence| unanswered(config, &dir, &silence))?;
    if code == 0 {
        return to_stdout(|out| {
            out.write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        });
    }
    text.lines().for_each(note);
    Ok(ExitCode::from(code))
}
