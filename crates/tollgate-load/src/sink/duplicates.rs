//! Rows with the key of an earlier row, in sinks that cannot remember keys.

/// What a sink that cannot remember keys does with rows that have the key of an earlier row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The configuration is refused if a stream has a key.
    #[default]
    Refuse,
    /// The sink gets all of them.
    Keep,
}

impl Duplicates {
    /// All values, with their names in configuration.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Keep];

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Keep => "keep",
        }
    }
}
