//! The path of the configuration: an argument, a variable, or the first of the usual places.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use crate::config::{APP_FILE, FILE_NAME, LOG_DIR, may_exist};

/// The variable that names the configuration of a command without an argument.
const VARIABLE: &str = "TOLLGATE_CONFIG";
/// The configuration of the system, for a command in a folder without one.
const SYSTEM_FILE: &str = "/etc/tollgate/tollgate.toml";
/// Names that make the present folder a configuration, an app, or a log folder.
const NAMES_HERE: [&str; 6] = [FILE_NAME, APP_FILE, "routes", "public", LOG_DIR, "lock"];
const POSITIONAL: &str = "config_path";
const OPTION: &str = "config";
const VALUE_NAME: &str = "CONFIG|DIR";
const HELP: &str = "A configuration file, or the folder of an app. Commands that ask a server, and \
                    `log`, also take a log folder [default: $TOLLGATE_CONFIG, ./tollgate.toml, \
                    /etc/tollgate/tollgate.toml]";

/// The path of a configuration, as an argument or as the option `--config`.
#[derive(Debug, Clone)]
pub(crate) struct ConfigPath(PathBuf);

/// The path of a configuration, as the option `--config` only. The arguments of the command are other values.
#[derive(Debug, Clone)]
pub(crate) struct ConfigOption(PathBuf);

impl Deref for ConfigPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Deref for ConfigOption {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Args for ConfigPath {
    fn augment_args(command: Command) -> Command {
        let option = option().help("The same as the argument").conflicts_with(POSITIONAL);
        command.arg(path(Arg::new(POSITIONAL)).help(HELP)).arg(option)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigPath {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = [POSITIONAL, OPTION].into_iter().find_map(|id| matches.get_one::<PathBuf>(id));
        Ok(Self(given.cloned().unwrap_or_else(usual)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ConfigOption {
    fn augment_args(command: Command) -> Command {
        command.arg(option().help(HELP))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigOption {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(matches.get_one(OPTION).cloned().unwrap_or_else(usual)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn option() -> Arg {
    path(Arg::new(OPTION).long(OPTION))
}

fn path(arg: Arg) -> Arg {
    arg.value_name(VALUE_NAME).value_parser(ValueParser::path_buf())
}

/// Returns the configuration of a command that names none.
fn usual() -> PathBuf {
    choose(std::env::var_os(VARIABLE), Path::new("."), Path::new(SYSTEM_FILE))
}

/// Returns the path in the variable, else the present folder if it has a configuration, else the file of the
/// system. A file that the system refuses to look up may exist, so its path is returned and the command names
/// the refusal.
fn choose(variable: Option<OsString>, here: &Path, system: &Path) -> PathBuf {
    if let Some(named) = variable.filter(|named| !named.is_empty()) {
        return named.into();
    }
    let is_here = NAMES_HERE.iter().any(|name| here.join(name).exists());
    if !is_here && may_exist(system) { system.to_owned() } else { here.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_variable_precedes_the_present_folder_which_precedes_the_file_of_the_system() {
        let (here, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let system = other.path().join(FILE_NAME);
        let check = |variable: Option<&str>, expected: &Path| {
            assert_eq!(choose(variable.map(OsString::from), here.path(), &system), expected, "{variable:?}");
        };
        check(None, here.path());
        fs::write(&system, "").unwrap();
        check(None, &system);
        check(Some(""), &system);
        check(Some("/named"), Path::new("/named"));
        for name in NAMES_HERE {
            let path = here.path().join(name);
            fs::create_dir_all(&path).unwrap();
            check(None, here.path());
            check(Some("/named"), Path::new("/named"));
            fs::remove_dir(&path).unwrap();
            check(None, &system);
            if name == LOG_DIR {
                fs::remove_dir(here.path().join("data")).unwrap();
            }
        }
    }
}
