//! The thread `lease` of a [`LeaseKeeper`].

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::{LogId, join_chain};

use super::plan::{KnownLogs, LeasePlan, LogOffer, Standing, plan};
use super::watch::{Held, LeaseWatch};
use crate::error::SinkError;
use crate::sink::{LEASE_TIME, LeaseName, LeaseScope, LeaseTable, SinkOptions};

/// Interval between two turns. A lease lasts several turns, so that one failed turn ends no lease.
const TURN: Duration = Duration::from_secs(5);
/// Interval between two turns while a log has no lease, or is about to lose it.
const TURN_FREE: Duration = Duration::from_secs(1);
/// Added to the end of the first lease of another loader, so that the lease has ended at the next turn.
const AFTER_END: Duration = Duration::from_millis(20);
/// Pauses after failed turns: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longest wait of an owner for the end of the leases.
const END_WAIT: Duration = Duration::from_secs(3);

/// Options of the leases of a loader.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// The store that the loader fetches from. Loaders share the logs if they name it by the same text.
    pub store: String,
    /// Id of the loader. No two running loaders have the same id. A loader that is started again with the
    /// same id has its leases at once.
    pub holder: String,
    /// Whether the loader may delete segments from the store. One loader at a time has this lease.
    pub may_delete: bool,
}

/// Keeps the leases of a loader, on its own thread. A drop ends the leases.
pub struct LeaseKeeper {
    watch: LeaseWatch,
}

/// Why the thread of leases could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread of leases")]
pub struct LeaseStartError(#[source] std::io::Error);

impl LeaseKeeper {
    /// Starts the thread. It takes leases after the first [`LeaseWatch::offer`].
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(sinks: &[SinkOptions], options: LeaseOptions) -> Result<Self, LeaseStartError> {
        let mut sinks = sinks.to_vec();
        sinks.sort_by(|one, other| one.name.cmp(&other.name));
        let watch = LeaseWatch::default();
        let mut keeping = Keeping {
            sinks,
            options,
            tables: BTreeMap::new(),
            free_since: BTreeMap::new(),
            leaving: BTreeMap::new(),
            pause: None,
            watch: watch.clone(),
        };
        let thread = thread::Builder::new().name("lease".to_owned()).spawn(move || keeping.run());
        thread.map_err(LeaseStartError)?;
        Ok(Self { watch })
    }

    /// Returns a handle to the leases.
    pub fn watch(&self) -> LeaseWatch {
        self.watch.clone()
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.watch.0.state().is_ended = true;
        self.watch.0.wake.notify_all();
        // If the database does not answer, the leases end by themselves.
        self.watch.0.wait_until(END_WAIT, |state| state.is_over);
    }
}

/// What the thread has to do now.
enum Task {
    Turn {
        asked: u64,
        offer: Offer,
        lost: BTreeSet<(String, LogId)>,
    },
    /// The loader cannot fetch.
    Release {
        asked: u64,
    },
    End,
}

/// The logs that the fetcher offered last.
struct Offer {
    logs: BTreeMap<LogId, LogOffer>,
    /// The number of the offer.
    number: u64,
}

struct Keeping {
    /// The sinks, in the order of their names.
    sinks: Vec<SinkOptions>,
    options: LeaseOptions,
    tables: BTreeMap<String, Box<dyn LeaseTable>>,
    /// Time since which each log without a lease is known to be free.
    free_since: BTreeMap<LogId, Instant>,
    /// Logs that the fetcher may not fetch any more, each with the number of the last offer before that.
    leaving: BTreeMap<LogId, u64>,
    /// Pause after the last turn failed. `None`: it worked.
    pause: Option<Duration>,
    watch: LeaseWatch,
}

impl Keeping {
    fn run(&mut self) {
        loop {
            let (asked, lost, result) = match self.task() {
                Task::End => break,
                Task::Release { asked } => {
                    (asked, BTreeSet::new(), self.release_all().map(|()| (Held::default(), TURN)))
                }
                Task::Turn { asked, offer, lost } => {
                    let result = self.turn(&offer, &lost);
                    (asked, lost, result)
                }
            };
            match result {
                Ok((held, next)) => {
                    self.answer(asked, held, &lost);
                    self.watch.0.wait_until(next, |state| state.is_ended || state.asked > asked);
                }
                Err(error) => self.failed(&error),
            }
        }
        if let Err(error) = self.release_all() {
            tracing::debug!(reason = join_chain(&error), "leases end by themselves");
        }
        self.watch.0.state().is_over = true;
        self.watch.0.wake.notify_all();
    }

    fn task(&self) -> Task {
        let state = self.watch.0.state();
        let asked = state.asked;
        match (state.is_ended, state.is_fetching) {
            (true, _) => Task::End,
            (false, false) => Task::Release { asked },
            (false, true) => {
                let offer = Offer { logs: state.offered.clone(), number: state.offers };
                Task::Turn { asked, offer, lost: state.lost.clone() }
            }
        }
    }

    /// Publishes the leases of a turn.
    fn answer(&mut self, asked: u64, held: Held, lost: &BTreeSet<(String, LogId)>) {
        if self.pause.take().is_some() {
            tracing::info!("leases are renewed again");
        }
        let gained = {
            let mut state = self.watch.0.state();
            (state.answered, state.last_error, state.failing_since) = (asked, None, None);
            state.lost.retain(|log| !lost.contains(log));
            if !state.is_fetching {
                // The loader paused during the turn. The next turn ends the leases.
                return;
            }
            let is_gain = held.logs.difference(&state.held.logs).next().is_some();
            for log in &held.leaving {
                // The fetcher may visit the log once more in its present pass, which began with this offer.
                self.leaving.entry(*log).or_insert(state.offers);
            }
            state.held = held;
            state.on_gain.clone().filter(|_| is_gain)
        };
        self.watch.0.wake.notify_all();
        if let Some(gained) = gained {
            gained();
        }
    }

    fn failed(&mut self, error: &SinkError) {
        let reason = join_chain(error);
        self.tables.clear();
        let pause = self.pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        // The loader of a new sink creates the table only after this thread started.
        if self.pause.is_some_and(|pause| pause < PAUSE_MAX) && pause == PAUSE_MAX {
            tracing::warn!(reason, "leases cannot be renewed: the loader tries again");
        }
        self.pause = Some(pause);
        {
            let mut state = self.watch.0.state();
            state.last_error = Some(reason);
            state.failing_since.get_or_insert_with(Instant::now);
        }
        self.watch.0.wait_until(pause, |state| state.is_ended);
    }

    /// Takes, renews and ends leases in all sinks. Returns the leases, and the time until the next turn.
    fn turn(
        &mut self,
        offer: &Offer,
        lost: &BTreeSet<(String, LogId)>,
    ) -> Result<(Held, Duration), SinkError> {
        let mut held = Held { until: Some(Instant::now() + LEASE_TIME), ..Held::default() };
        let mut next = TURN;
        // The logs that the first sink decided on.
        let mut decided: Option<BTreeSet<LogId>> = None;
        for sink in self.sinks.clone() {
            let standing = Standing::of(self.table(&sink)?.live()?, &self.options.holder);
            let lost: BTreeSet<_> =
                lost.iter().filter(|(name, _)| *name == sink.name).map(|(_, log)| *log).collect();
            let plan = match &decided {
                None => self.plan_first(offer, &standing, lost),
                Some(decided) => plan_next(decided, &standing, &lost),
            };
            let mut names: BTreeSet<_> =
                plan.keep.union(&plan.take).map(|log| LeaseName::Log(*log)).collect();
            names.insert(LeaseName::Loader(self.options.holder.clone()));
            if decided.is_none() && self.options.may_delete {
                names.insert(LeaseName::Retain);
            }
            let table = self.table(&sink)?;
            if !plan.release.is_empty() {
                table.release(&plan.release.iter().map(|log| LeaseName::Log(*log)).collect())?;
            }
            let taken = table.take(&names)?;
            let logs = taken.iter().filter_map(log_of).collect::<BTreeSet<_>>();
            if decided.is_none() {
                let is_taken = |log: &LogId| logs.contains(log) || standing.taken.contains_key(log);
                if !plan.leaving.is_empty() || !offer.logs.keys().all(is_taken) {
                    next = TURN_FREE;
                }
                held.loaders = standing.loaders();
                held.deletes = taken.contains(&LeaseName::Retain);
                held.taken = standing.taken;
                held.leaving = plan.leaving;
                decided = Some(logs.clone());
            }
            if let Some(end) = standing.first_end {
                next = next.min(end + AFTER_END);
            }
            held.logs.extend(logs);
        }
        Ok((held, next))
    }

    fn plan_first(&mut self, offer: &Offer, standing: &Standing, lost: BTreeSet<LogId>) -> LeasePlan {
        let now = Instant::now();
        let is_free = |log: &LogId| !standing.mine.contains(log) && !standing.taken.contains_key(log);
        self.free_since.retain(|log, _| is_free(log) && offer.logs.contains_key(log));
        for log in offer.logs.keys().filter(|log| is_free(log)) {
            self.free_since.entry(*log).or_insert(now);
        }
        let is_long = |since: &Instant| now.duration_since(*since) >= LEASE_TIME;
        let long_free = self.free_since.iter().filter(|(_, since)| is_long(since)).map(|(log, _)| *log);
        let left = self.leaving.iter().filter(|(_, number)| offer.number > **number).map(|(log, _)| *log);
        let known = KnownLogs { lost, long_free: long_free.collect(), left: left.collect() };
        let plan = plan(&offer.logs, standing, &known, &self.options.holder);
        self.leaving.retain(|log, _| plan.leaving.contains(log));
        plan
    }

    /// Ends all leases of the loader.
    fn release_all(&mut self) -> Result<(), SinkError> {
        self.free_since.clear();
        self.leaving.clear();
        let opened: Vec<_> = self.sinks.iter().filter(|sink| self.tables.contains_key(&sink.name)).collect();
        let opened: Vec<_> = opened.into_iter().cloned().collect();
        for sink in opened {
            let holder = self.options.holder.clone();
            let table = self.table(&sink)?;
            let mine: BTreeSet<_> = table
                .live()?
                .into_iter()
                .filter(|lease| lease.holder == holder)
                .map(|lease| lease.name)
                .collect();
            if !mine.is_empty() {
                table.release(&mine)?;
            }
        }
        Ok(())
    }

    fn table(&mut self, sink: &SinkOptions) -> Result<&mut dyn LeaseTable, SinkError> {
        if !self.tables.contains_key(&sink.name) {
            let LeaseOptions { store, holder, .. } = self.options.clone();
            let table = sink.open_leases(LeaseScope { store, holder })?;
            self.tables.insert(sink.name.clone(), table);
        }
        match self.tables.get_mut(&sink.name) {
            Some(table) => Ok(&mut **table),
            None => unreachable!("it was just opened"),
        }
    }
}

/// Makes the plan for a sink after the first one: the same logs as in the first sink.
fn plan_next(decided: &BTreeSet<LogId>, standing: &Standing, lost: &BTreeSet<LogId>) -> LeasePlan {
    let wanted: BTreeSet<_> = decided.difference(lost).copied().collect();
    LeasePlan {
        keep: standing.mine.intersection(&wanted).copied().collect(),
        release: standing.mine.difference(&wanted).copied().collect(),
        take: wanted.into_iter().filter(|log| !standing.mine.contains(log)).collect(),
        leaving: BTreeSet::new(),
    }
}

fn log_of(name: &LeaseName) -> Option<LogId> {
    match name {
        LeaseName::Log(log) => Some(*log),
        LeaseName::Loader(_) | LeaseName::Retain => None,
    }
}
