//! Limits retries to a share of the requests, so that a failing backend does not get twice the load.

use std::sync::atomic::{AtomicU64, Ordering};

/// Cost of one retry, in hundredths of a retry.
const RETRY: u64 = 100;
/// Number of retries in the budget before the first request. The budget never saves more.
const SAVED_MAX: u64 = 10;

/// A budget of retries, counted in hundredths of a retry. Each request adds `percent` of
/// [`RetryOptions`](crate::RetryOptions), and each retry subtracts one hundred.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    saved: AtomicU64,
    percent: u64,
}

impl RetryBudget {
    pub(crate) fn new(percent: u32) -> Self {
        let saved = if percent == 0 { 0 } else { SAVED_MAX * RETRY };
        Self { saved: saved.into(), percent: percent.into() }
    }

    pub(crate) fn deposit(&self) {
        let most = SAVED_MAX * RETRY;
        if self.percent == 0 || self.saved.load(Ordering::Relaxed) >= most {
            return;
        }
        let more = |saved: u64| Some((saved + self.percent).min(most));
        // The closure never returns `None`, so the update succeeds.
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Subtracts one retry from the budget. Returns false if the budget has none.
    pub(crate) fn withdraw(&self) -> bool {
        let less = |saved: u64| saved.checked_sub(RETRY);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_the_requests_beyond_the_first_few() {
        let budget = RetryBudget::new(20);
        let mut retries = 0;
        for _ in 0..1000 {
            budget.deposit();
            retries += u32::from(budget.withdraw());
        }
        assert!((200..=210).contains(&retries), "{retries}");
        assert!(!budget.withdraw());
    }

    #[test]
    fn saved_retries_are_bounded_and_a_share_of_none_allows_none() {
        let budget = RetryBudget::new(100);
        (0..1000).for_each(|_| budget.deposit());
        assert_eq!((0..1000).filter(|_| budget.withdraw()).count(), 10);
        let none = RetryBudget::new(0);
        none.deposit();
        assert!(!none.withdraw());
    }
}
