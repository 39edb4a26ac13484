//! `tollgate completions` and `tollgate man`: files for shells and for `man`, from the definition of the
//! command line.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;

use crate::cli::{Shell, command, help};
use crate::print::{counted, to_stdout};

const NAME: &str = "tollgate";

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut command = command();
    // The generator panics if a write fails, and a closed pipe is no fault.
    let mut text = Vec::new();
    match shell {
        Shell::Bash => generate(Bash, &mut command, NAME, &mut text),
        Shell::Zsh => generate(Zsh, &mut command, NAME, &mut text),
        Shell::Fish => generate(Fish, &mut command, NAME, &mut text),
    }
    to_stdout(|out| {
        out.write_all(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes a page for each command: `tollgate.1`, `tollgate-serve.1`, `tollgate-log-cat.1`.
pub(crate) fn pages(folder: &Path) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut command = command().disable_help_subcommand(true);
    command.build();
    let count = write(&command, folder)?;
    to_stdout(|out| {
        writeln!(out, "wrote {} to {}", counted(count, "page"), folder.display())?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns lines of text for roff. It reads `\` as the start of an escape, and a line that begins with `.` or
/// `'` as a request (groff(7)).
fn escaped(text: &str) -> String {
    let line = |line: &str| format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
    text.lines().map(line).collect()
}

/// Writes the pages of a command and of the commands below it. Returns their number.
fn write(command: &Command, folder: &Path) -> anyhow::Result<u64> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let file = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    // The end of the help gets sections of its own, because `man` would reflow the examples.
    Man::new(command.clone().after_help(None::<&str>)).render(&mut text)?;
    if let Some((examples, codes)) = help::of_page(&name) {
        let (examples, codes) = (escaped(examples), escaped(codes));
        write!(text, ".SH EXAMPLES\n.nf\n{examples}.fi\n.SH \"EXIT STATUS\"\n{codes}")?;
    }
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    command.get_subcommands().try_fold(1, |count, sub| Ok(count + write(sub, folder)?))
}
