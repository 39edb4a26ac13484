//! `[access_log]`: one line for each request.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_server::{AccessLogOptions, AccessOnly};

use super::access_format::AccessFormat;
use super::key::{keys, set_defaults, write};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_list, quoted_path};
use super::section::Section;
use super::value::{named, names};

named!(AccessOnly);

/// Allowed values of `sample`.
pub(super) const SAMPLE_ALLOWED: &str = "a number from 0 to 1";

keys! {
    pub(super) KEYS of AccessLogConfig;
    /// The file that lines are appended to, or `"stdout"`.
    file [FILE] = text(AccessDestination::STDOUT, r#"a path, `"stdout"`"#);
    /// The form of a line.
    format [FORMAT] = text(
        AccessFormat::COMBINED,
        r#"`"combined"`, `"json"`, `"short"`, a text with [fields](../how-to/access-log.md#fields)"#
    );
    /// Share of the requests that get a line.
    sample [SAMPLE] = other("`1.0`", SAMPLE_ALLOWED);
    /// The requests that get a line.
    only = one_of("all", names::<AccessOnly>) => options.only;
    /// Names of query items whose values become `***` in all lines.
    omit_query [OMIT_QUERY] = other("`[]`", "a list of names");
}

/// The destination of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessDestination {
    /// The standard output of the server.
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

impl AccessDestination {
    /// The name of stdout in a configuration.
    const STDOUT: &str = "stdout";

    /// Returns the name for log lines and errors.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdout => Self::STDOUT.to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// The access log of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AccessLogConfig {
    pub(crate) destination: AccessDestination,
    pub(crate) format: AccessFormat,
    pub(crate) options: AccessLogOptions,
}

impl AccessLogConfig {
    /// Returns the access log of a server in development: short lines on stdout.
    pub(crate) fn of_development() -> Self {
        let options = AccessLogOptions { sample: 1.0, only: AccessOnly::All, omit_query: Vec::new() };
        let mut log = Self { destination: AccessDestination::Stdout, format: AccessFormat::short(), options };
        set_defaults(KEYS, &mut log);
        log
    }

    /// Writes the section so that it reads back to the same.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = match &self.destination {
            AccessDestination::Stdout => quoted(AccessDestination::STDOUT),
            AccessDestination::File(path) => quoted_path(path),
        };
        writeln!(f, "\n[access_log]")?;
        let own = [
            (FILE.name, Some(file)),
            (FORMAT.name, Some(quoted(self.format.text()))),
            (SAMPLE.name, Some(format!("{:?}", self.options.sample))),
            (OMIT_QUERY.name, Some(quoted_list(&self.options.omit_query))),
        ];
        write(KEYS, self, &own, f)
    }
}

/// Reads `[access_log]`, if the file has it. Paths are relative to `folder`.
pub(super) fn access_log(root: &mut Section<'_>, folder: &Path) -> Option<AccessLogConfig> {
    let mut section = root.take_table("access_log", "[access_log]".to_owned())?;
    let mut log = AccessLogConfig::of_development();
    if let Some(file) = path(&mut section, FILE.name, PathTo::File)
        && file.value != AccessDestination::STDOUT
    {
        log.destination = AccessDestination::File(folder.join(file.value));
    }
    log.format = format(&mut section).unwrap_or(log.format);
    log.options.sample = sample(&mut section).unwrap_or(log.options.sample);
    let omitted = section.texts(OMIT_QUERY.name).unwrap_or_default();
    log.options.omit_query = omitted.into_iter().map(|name| name.value).collect();
    section.overlay(KEYS, &mut log);
    section.finish();
    Some(log)
}

fn format(section: &mut Section<'_>) -> Option<AccessFormat> {
    let written = section.text(FORMAT.name);
    let text = written.as_ref().map_or(FORMAT.default_text(), |written| written.value.as_str());
    let parsed = AccessFormat::parse(text);
    match (parsed, &written) {
        (Ok(format), _) => Some(format),
        (Err(fault), Some(written)) => {
            section.fault_at(&written.span, format!("format in [access_log] is {text:?}: {fault}"));
            None
        }
        (Err(_), None) => None,
    }
}

/// Takes the share of requests.
pub(super) fn sample(section: &mut Section<'_>) -> Option<f64> {
    let written = section.json(SAMPLE.name)?;
    let share = written.value.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    if share.is_none() {
        let (name, value) = (section.name(), &written.value);
        let text = format!("sample in {name} is {value}, allowed is {SAMPLE_ALLOWED}");
        section.fault_at(&written.span, text);
    }
    share
}
