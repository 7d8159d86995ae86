//! Measures the time of a step.
//!
//! In: the durations of the steps that were made, and of the work beside them. Out: what a step takes now,
//! what it took on average, and the time that is left. Always holds: the first step never counts, as it meets
//! cold caches, pages that the system has yet to hand out, and kernels that a driver has yet to compile; what
//! a step takes now is that of the last [`RECENT`] steps.

use std::collections::VecDeque;
use std::time::Duration;

/// Steps that count.
const RECENT: usize = 50;

/// The rate of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// The last steps without the first one.
    recent: VecDeque<Duration>,
    /// All steps without the first one.
    total: Duration,
    /// Steps that were made, and the work beside them.
    made: u64,
    aside: Duration,
}

impl Rate {
    /// A step took so long.
    pub(super) fn step(&mut self, took: Duration) {
        self.made += 1;
        if self.made == 1 {
            return;
        }
        self.total = self.total.saturating_add(took);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// Work beside the steps, such as measuring and saving, took so long. It comes at intervals, so all of it
    /// is spread over all steps.
    pub(super) fn aside(&mut self, took: Duration) {
        self.aside = self.aside.saturating_add(took);
    }

    /// Seconds that a step takes now; `None` while at most the first one is known, which tells nothing about
    /// others.
    pub(super) fn now(&self) -> Option<f64> {
        let sum: f64 = self.recent.iter().map(Duration::as_secs_f64).sum();
        (!self.recent.is_empty()).then(|| sum / self.recent.len() as f64)
    }

    /// Seconds that a step took on average, as [`now`](Self::now).
    pub(super) fn average(&self) -> Option<f64> {
        (self.made > 1).then(|| self.total.as_secs_f64() / (self.made - 1) as f64)
    }

    /// What so many more steps will take, as [`now`](Self::now).
    pub(super) fn left(&self, steps: u64) -> Option<Duration> {
        let seconds = self.now()?;
        let aside = self.aside.as_secs_f64() / self.made as f64;
        Some(Duration::try_from_secs_f64(steps as f64 * (seconds + aside)).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn after(steps: impl IntoIterator<Item = Duration>) -> Rate {
        let mut rate = Rate::default();
        steps.into_iter().for_each(|took| rate.step(took));
        rate
    }

    #[test]
    fn a_slow_first_step_never_counts() {
        for rate in [after([]), after([ms(60_000)])] {
            assert_eq!((rate.now(), rate.average(), rate.left(9)), (None, None, None));
        }
        let second = after([ms(60_000), ms(100)]);
        assert_eq!((second.now(), second.average(), second.left(10)), (Some(0.1), Some(0.1), Some(ms(1000))));
    }

    #[test]
    fn the_average_is_that_of_all_steps_but_the_first() {
        let rate = after([ms(60_000)].into_iter().chain([ms(300); RECENT]).chain([ms(100); RECENT]));
        assert!((rate.average().unwrap() - 0.2).abs() < 1e-12);
        assert!((rate.now().unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn old_steps_are_forgotten() {
        let slow_then_fast = [ms(9000); 3].into_iter().chain([ms(20); RECENT]);
        assert!((after(slow_then_fast).now().unwrap() - 0.02).abs() < 1e-12);
        let fast_then_slow = [ms(20); 500].into_iter().chain([ms(100); RECENT]);
        assert!((after(fast_then_slow).now().unwrap() - 0.1).abs() < 1e-12);
        let mixed = after([ms(0), ms(100), ms(300)]);
        assert!((mixed.now().unwrap() - 0.2).abs() < 1e-12, "every step of the window counts alike");
    }

    #[test]
    fn work_beside_the_steps_is_spread_over_them() {
        let mut rate = after([ms(5000), ms(100), ms(100), ms(100)]);
        rate.aside(ms(400));
        assert_eq!(rate.left(10), Some(ms(2000)));
        rate.aside(Duration::MAX);
        assert_eq!(rate.left(u64::MAX), Some(Duration::MAX));
    }
}
