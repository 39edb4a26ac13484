//! How new tables of Iceberg are partitioned.

/// How new tables are partitioned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Partition {
    /// By the day on which a record was written to its log.
    #[default]
    Day,
    /// By the month.
    Month,
    /// Not at all.
    None,
}

impl Partition {
    /// All values, with their names in configuration.
    pub const ALL: [Self; 3] = [Self::Day, Self::Month, Self::None];

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::None => "none",
        }
    }
}
