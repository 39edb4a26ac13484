//! Decides which leases of logs a loader takes and ends. The share of a loader is the number of logs divided
//! by the number of loaders, rounded up.
//!
//! A loader takes free logs up to its share. It ends leases if it has two logs more than its share.
//!
//! If another loader has fewer logs than the share, rounded down, this loader keeps and takes only as many
//! logs as that. It takes one further log if this log stays free, because the other loader may be unable to
//! take it. No loader has more logs than its share and one.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use tollgate_log::LogId;

use crate::sink::{LeaseName, LiveLease};

/// State of a log that a loader may fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOffer {
    /// No segment of the log is fetched and not loaded.
    Idle,
    /// Fetched segments of the log are not loaded yet. The loader keeps the lease until they are loaded.
    Busy,
}

/// The live leases of a sink, as one loader sees them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The logs of this loader.
    pub(super) mine: BTreeSet<LogId>,
    /// The logs of other loaders, each with the id of the loader.
    pub(super) taken: BTreeMap<LogId, String>,
    /// Number of logs of each other loader.
    others: BTreeMap<String, usize>,
    /// Time until the first lease of another loader ends.
    pub(super) first_end: Option<Duration>,
}

impl Standing {
    pub(super) fn of(live: Vec<LiveLease>, holder: &str) -> Self {
        let mut standing = Self::default();
        for lease in live {
            let is_mine = lease.holder == holder;
            if !is_mine {
                let end = standing.first_end.map_or(lease.left, |end| end.min(lease.left));
                standing.first_end = Some(end);
            }
            match lease.name {
                LeaseName::Log(log) if is_mine => drop(standing.mine.insert(log)),
                LeaseName::Log(log) => {
                    *standing.others.entry(lease.holder.clone()).or_default() += 1;
                    standing.taken.insert(log, lease.holder);
                }
                LeaseName::Loader(loader) if !is_mine => drop(standing.others.entry(loader).or_default()),
                LeaseName::Loader(_) | LeaseName::Retain => {}
            }
        }
        standing
    }

    /// Returns the number of live loaders, with this one.
    pub(super) fn loaders(&self) -> usize {
        self.others.len() + 1
    }
}

/// The leases of logs that a loader keeps, ends and takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeasePlan {
    pub(super) keep: BTreeSet<LogId>,
    /// Logs in `keep` that the loader fetches no more. It ends their leases once the fetcher knows of that,
    /// and the fetched segments are loaded.
    pub(super) leaving: BTreeSet<LogId>,
    pub(super) release: BTreeSet<LogId>,
    pub(super) take: BTreeSet<LogId>,
}

/// What the loader knows about logs in addition to their offers and leases.
#[derive(Debug, Default)]
pub(super) struct KnownLogs {
    /// Logs that another loader loads.
    pub(super) lost: BTreeSet<LogId>,
    /// Logs that have been free for the time of a lease.
    pub(super) long_free: BTreeSet<LogId>,
    /// Logs that the fetcher has offered again since it may not fetch them any more.
    pub(super) left: BTreeSet<LogId>,
}

/// Makes the plan of the loader `holder`.
pub(super) fn plan(
    offered: &BTreeMap<LogId, LogOffer>,
    standing: &Standing,
    known: &KnownLogs,
    holder: &str,
) -> LeasePlan {
    let KnownLogs { lost, long_free, left } = known;
    let is_kept = |log: &&LogId| offered.contains_key(log) && !lost.contains(log);
    let mut plan = LeasePlan {
        keep: standing.mine.iter().filter(is_kept).copied().collect(),
        release: standing.mine.iter().filter(|log| !is_kept(log)).copied().collect(),
        ..LeasePlan::default()
    };
    let loaders = standing.loaders();
    let (share, share_min) = (offered.len().div_ceil(loaders), offered.len() / loaders);
    let is_another_short = standing.others.values().any(|logs| *logs < share_min);
    give_up(&mut plan, offered, left, if is_another_short { share_min } else { share + 1 });
    let mut free: Vec<_> = offered.keys().filter(|log| !standing.mine.contains(log)).collect();
    free.retain(|log| !standing.taken.contains_key(log) && !lost.contains(log));
    // Each loader has its own order, so that two loaders rarely try to take the same log.
    free.sort_by_key(|log| rank(holder, **log));
    let take_max = if is_another_short { share_min } else { share };
    let room = take_max.saturating_sub(plan.keep.len());
    plan.take = free.iter().take(room).copied().copied().collect();
    if plan.keep.len() + plan.take.len() <= share {
        plan.take.extend(free.into_iter().skip(room).find(|log| long_free.contains(log)));
    }
    plan
}

/// Gives up logs above `keep_max`: first logs that are left, then idle logs.
fn give_up(
    plan: &mut LeasePlan,
    offered: &BTreeMap<LogId, LogOffer>,
    left: &BTreeSet<LogId>,
    keep_max: usize,
) {
    let excess = plan.keep.len().saturating_sub(keep_max);
    let is_busy = |log: &LogId| offered.get(log) == Some(&LogOffer::Busy);
    let mut given: Vec<_> = plan.keep.iter().copied().collect();
    given.sort_by_key(|log| (!left.contains(log), is_busy(log)));
    for log in given.into_iter().take(excess) {
        if left.contains(&log) && !is_busy(&log) {
            plan.keep.remove(&log);
            plan.release.insert(log);
        } else {
            plan.leaving.insert(log);
        }
    }
}

fn rank(holder: &str, log: LogId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (holder, log).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(count: usize) -> Vec<LogId> {
        (0..count).map(|_| LogId::random()).collect()
    }

    fn idle(logs: &[LogId]) -> BTreeMap<LogId, LogOffer> {
        logs.iter().map(|log| (*log, LogOffer::Idle)).collect()
    }

    /// Makes the leases of loaders, each with the logs that it has.
    fn leases(loaders: &[(&str, &[LogId])]) -> Vec<LiveLease> {
        let left = Duration::from_secs(20);
        let of = |(loader, logs): &(&str, &[LogId])| {
            let names = logs.iter().map(|log| LeaseName::Log(*log));
            let names = names.chain([LeaseName::Loader((*loader).to_owned())]);
            let holder = (*loader).to_owned();
            names.map(move |name| LiveLease { name, holder: holder.clone(), left }).collect::<Vec<_>>()
        };
        loaders.iter().flat_map(of).collect()
    }

    /// Plans for the loader `a`, whose fetcher offered every log again. Checks how many logs it keeps, gives
    /// up, ends and takes.
    fn check(
        offered: &BTreeMap<LogId, LogOffer>,
        loaders: &[(&str, &[LogId])],
        expected: [usize; 4],
    ) -> LeasePlan {
        let known = KnownLogs { left: offered.keys().copied().collect(), ..KnownLogs::default() };
        check_known(offered, loaders, &known, expected)
    }

    fn check_known(
        offered: &BTreeMap<LogId, LogOffer>,
        loaders: &[(&str, &[LogId])],
        known: &KnownLogs,
        expected: [usize; 4],
    ) -> LeasePlan {
        let plan = plan(offered, &Standing::of(leases(loaders), "a"), known, "a");
        let found = [plan.keep.len(), plan.leaving.len(), plan.release.len(), plan.take.len()];
        assert_eq!(found, expected, "{loaders:?}");
        plan
    }

    #[test]
    fn a_loader_takes_free_logs_up_to_its_share() {
        let all = logs(10);
        check(&idle(&all), &[], [0, 0, 0, 10]);
        check(&idle(&all), &[("b", &[])], [0, 0, 0, 5]);
        check(&idle(&all), &[("b", &[]), ("c", &[])], [0, 0, 0, 3]);
        check(&idle(&all), &[("a", &all[..3]), ("b", &all[3..6]), ("c", &all[6..9])], [3, 0, 0, 1]);
        check(&idle(&all), &[("a", &all[..4]), ("b", &all[4..9])], [4, 0, 0, 1]);
        check(&idle(&all), &[("b", &all)], [0, 0, 0, 0]);
    }

    #[test]
    fn a_loader_gives_logs_to_one_that_came_later() {
        let all = logs(10);
        check(&idle(&all), &[("a", &all), ("b", &[])], [5, 0, 5, 0]);
        check(&idle(&all[..2]), &[("a", &all[..2]), ("b", &[])], [1, 0, 1, 0]);
        check(&idle(&all[..3]), &[("a", &all[..2]), ("b", &all[2..3])], [2, 0, 0, 0]);
        check(&idle(&all[..1]), &[("a", &all[..1]), ("b", &[])], [1, 0, 0, 0]);
        // A loader may have one log more than its share while no other loader has too few.
        check(&idle(&all[..4]), &[("a", &all[..3]), ("b", &all[3..4])], [2, 0, 1, 0]);
        check(&idle(&all[..5]), &[("a", &all[..4]), ("b", &all[4..5])], [2, 0, 2, 0]);
        check(&idle(&all[..5]), &[("a", &all[..3]), ("b", &all[3..5])], [3, 0, 0, 0]);
    }

    #[test]
    fn a_lease_ends_only_when_the_fetcher_has_stopped_and_its_segments_are_loaded() {
        let all = logs(4);
        let (mut offered, loaders) = (idle(&all), [("a", &all[..]), ("b", &[][..])]);
        let first = check_known(&offered, &loaders, &KnownLogs::default(), [4, 2, 0, 0]);
        let known = KnownLogs { left: first.leaving.clone(), ..KnownLogs::default() };
        let second = check_known(&offered, &loaders, &known, [2, 0, 2, 0]);
        assert_eq!(second.release, first.leaving);
        let busy = *first.leaving.first().unwrap();
        offered.insert(busy, LogOffer::Busy);
        let plan = check_known(&offered, &loaders, &known, [3, 1, 1, 0]);
        assert_eq!(plan.leaving, [busy].into());
        offered.values_mut().for_each(|state| *state = LogOffer::Busy);
        check(&offered, &loaders, [4, 2, 0, 0]);
    }

    #[test]
    fn a_log_that_is_over_or_that_another_loader_loads_loses_its_lease() {
        let all = logs(3);
        let known = KnownLogs { lost: [all[1]].into(), ..KnownLogs::default() };
        let plan = check_known(&idle(&all[1..]), &[("a", &all)], &known, [1, 0, 2, 0]);
        assert_eq!((plan.keep, plan.release), ([all[2]].into(), [all[0], all[1]].into()));
    }

    #[test]
    fn a_log_that_stays_free_is_taken_above_the_share_once() {
        let all = logs(6);
        let known = KnownLogs { long_free: all[3..].iter().copied().collect(), ..KnownLogs::default() };
        check_known(&idle(&all), &[("a", &all[..3]), ("b", &[])], &known, [3, 0, 0, 1]);
        check_known(&idle(&all), &[("a", &all[..4]), ("b", &all[4..5])], &known, [4, 1, 0, 0]);
    }

    /// Lets loaders plan in turn until no plan changes anything. Returns the number of logs of each.
    fn settle(all: &[LogId], loaders: usize) -> Vec<usize> {
        let names: Vec<_> = (0..loaders).map(|at| format!("loader {at}")).collect();
        let mut held: Vec<Vec<LogId>> = vec![Vec::new(); loaders];
        held[0] = all.to_vec();
        let known = KnownLogs { left: all.iter().copied().collect(), ..KnownLogs::default() };
        for _ in 0..10 {
            for at in 0..loaders {
                let held_by: Vec<_> =
                    names.iter().zip(&held).map(|(name, logs)| (&**name, &**logs)).collect();
                let standing = Standing::of(leases(&held_by), &names[at]);
                let plan = plan(&idle(all), &standing, &known, &names[at]);
                held[at] = plan.keep.into_iter().chain(plan.take).collect();
            }
        }
        held.iter().map(Vec::len).collect()
    }

    #[test]
    fn loaders_reach_shares_that_differ_by_one_and_leave_no_log_free() {
        for (count, loaders) in [(0, 1), (1, 3), (2, 2), (7, 2), (10, 3), (30, 4)] {
            let shares = settle(&logs(count), loaders);
            assert_eq!(shares.iter().sum::<usize>(), count, "{count} {loaders} {shares:?}");
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1, "{count} {loaders} {shares:?}");
        }
    }
}
