//! `[load]`, the rules for loading.

use std::fmt;
use std::time::Duration;

use super::keep::Keep;
use super::key::{keys, set_defaults, write};
use super::quoted::quoted;
use super::section::Section;
use super::units::{HOUR_MS, MINUTE_MS};

keys! {
    pub(super) KEYS of LoadRules;
    /// Whether the server loads records. If not, it keeps segments until `tollgate load` has loaded them.
    in_server [IN_SERVER] = switch(true).restart();
    /// A loader that is behind for longer than this is logged once a minute.
    lag_max = duration(MINUTE_MS, 100..=24 * HOUR_MS).restart() => lag_max;
    /// How long the store of `tollgate load --from` keeps segments that every sink has loaded.
    store_retain [STORE_RETAIN] = text("7d", "a duration, also in days, or `\"forever\"`").restart();
}

/// The process that loads, and the rules for loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadRules {
    /// The process that loads.
    pub(crate) by: LoadedBy,
    /// A loader that has not caught up for this long logs a warning once a minute.
    pub(crate) lag_max: Duration,
    /// How long the store that a loader reads keeps segments that every sink has loaded.
    pub(crate) store_retain: Keep,
}

impl Default for LoadRules {
    fn default() -> Self {
        let store_retain = Keep::parse(STORE_RETAIN.default_text()).unwrap_or(Keep::Forever);
        let mut rules = Self { by: LoadedBy::Server, lag_max: Duration::ZERO, store_retain };
        set_defaults(KEYS, &mut rules);
        rules
    }
}

/// The process that loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadedBy {
    /// The server itself.
    Server,
    /// Other processes: `tollgate load`.
    Others,
    /// No process now: an option of the start turned loading off.
    Nobody,
}

impl LoadedBy {
    /// Returns the value of the key. An option of the start does not change this value.
    const fn is_in_server(self) -> bool {
        matches!(self, Self::Server | Self::Nobody)
    }
}

impl fmt::Display for LoadRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[load]")?;
        let own = [
            (IN_SERVER.name, Some(self.by.is_in_server().to_string())),
            (STORE_RETAIN.name, Some(quoted(&self.store_retain.to_string()))),
        ];
        write(KEYS, self, &own, f)
    }
}

/// Reads `[load]`.
pub(super) fn load_rules(mut section: Section<'_>) -> LoadRules {
    let mut rules = LoadRules::default();
    section.overlay(KEYS, &mut rules);
    if section.number_or_default(&IN_SERVER) == 0 {
        rules.by = LoadedBy::Others;
    }
    if let Some(written) = section.text(STORE_RETAIN.name) {
        match Keep::parse(&written.value) {
            Some(keep) => rules.store_retain = keep,
            None => section.fault_at(
                &written.span,
                format!(
                    "store_retain in [load] is {:?}, allowed is a duration like \"7d\", up to 3650d, or \
                     \"forever\"",
                    written.value
                ),
            ),
        }
    }
    section.finish();
    rules
}
