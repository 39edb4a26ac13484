//! The numbers of a sink, from the status, from the metrics and from the audit.

use std::collections::BTreeMap;
use std::ops::Sub;

use serde_json::Value;

use crate::admin::{get, sample};
use crate::program::App;

/// The numbers of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Figures {
    pub(super) pending: u64,
    pub(super) rows: u64,
    pub(super) rejects: u64,
    pub(super) duplicates: u64,
}

impl Figures {
    /// Returns the records with a result in the database.
    pub(super) fn settled(&self) -> u64 {
        self.rows + self.rejects + self.duplicates
    }

    /// Returns the numbers without the pending records.
    pub(super) fn results(self) -> Self {
        Self { pending: 0, ..self }
    }
}

impl Sub for Figures {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let less = |one: u64, other| one.checked_sub(other).expect("results do not become fewer");
        Self {
            pending: self.pending,
            rows: less(self.rows, other.rows),
            rejects: less(self.rejects, other.rejects),
            duplicates: less(self.duplicates, other.duplicates),
        }
    }
}

/// The status of the sink.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) figures: Figures,
    /// Whether the status is that nothing is pending.
    pub(super) is_caught_up: bool,
    /// Whether the number of pending records is an upper bound.
    pub(super) is_bound: bool,
}

/// Reads the status by the command. The results begin with the server.
pub(super) fn by_status(app: &App) -> Status {
    let status: Value = serde_json::from_str(&app.succeed(&["status", "--json"])).unwrap();
    let sink = &status["sinks"][0];
    let number = |name: &str| sink[name].as_u64().unwrap_or_else(|| panic!("no {name}: {sink}"));
    let figures = Figures {
        pending: number("lag_records"),
        rows: number("rows"),
        rejects: number("rejects"),
        duplicates: number("duplicates"),
    };
    let is_caught_up = sink["state"] == "caught up";
    Status { figures, is_caught_up, is_bound: sink["lag_is_bound"].as_bool().unwrap() }
}

/// Reads the metrics. The results begin with the server.
pub(super) fn by_metrics(app: &App) -> Figures {
    let metrics = get(app, "/metrics").content;
    let number = |name: &str| sample(&metrics, &format!("tollgate_load_{name}{{sink=\"main\"}}"));
    Figures {
        pending: number("lag_records"),
        rows: number("rows_total"),
        rejects: number("rejects_total"),
        duplicates: number("duplicates_total"),
    }
}

/// The account of the audit by stream: the ingested records, and the numbers.
#[derive(Debug, Default)]
pub(super) struct Account(pub(super) BTreeMap<String, (u64, Figures)>);

impl Account {
    /// Runs the audit, which must be exact.
    pub(super) fn read(app: &App) -> Self {
        let mut account = Self::default();
        for line in app.succeed(&["audit", "--json"]).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let number = |name: &str| line[name].as_u64().unwrap();
            assert_eq!((number("missing"), number("given_up")), (0, 0), "{line}");
            let (ingested, figures) =
                account.0.entry(line["stream"].as_str().unwrap().to_owned()).or_default();
            *ingested += number("ingested");
            figures.pending += number("pending");
            figures.rows += number("loaded");
            figures.rejects += number("rejected");
            figures.duplicates += number("duplicate");
        }
        for (stream, (ingested, figures)) in &account.0 {
            assert_eq!(*ingested, figures.pending + figures.settled(), "{stream}: {figures:?}");
        }
        account
    }

    /// Returns the sum of all streams.
    pub(super) fn sum(&self) -> Figures {
        self.0.values().fold(Figures::default(), |sum, (_, more)| Figures {
            pending: sum.pending + more.pending,
            rows: sum.rows + more.rows,
            rejects: sum.rejects + more.rejects,
            duplicates: sum.duplicates + more.duplicates,
        })
    }
}
