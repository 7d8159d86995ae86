//! Measurement of the time per step.
//!
//! In: the durations of the completed steps, and of the work between them. Out: the current time per step,
//! including that work, and the remaining time. Invariant: the first step never counts, because it includes
//! cache misses, page faults, and the compilation of kernels by a driver; the time of the steps themselves is
//! the mean of the last [`RECENT`]; work between them, such as evaluating and saving, is periodic, so it is
//! averaged over all steps.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of steps to average over.
const RECENT: usize = 50;

/// Speed of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// Times of the last steps, without the first one.
    recent: VecDeque<Duration>,
    /// Total time of the steps without the first one.
    own: Duration,
    /// Total time of the work between the steps.
    between: Duration,
    /// Number of completed steps.
    made: u64,
}

impl Rate {
    /// Records the time of a step and of the work since the previous one.
    pub(super) fn step(&mut self, took: Duration, between: Duration) {
        self.made += 1;
        if self.made == 1 {
            return;
        }
        self.own = self.own.saturating_add(took);
        self.between = self.between.saturating_add(between);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// Returns the current seconds per step, including the work between steps; `None` before the second step,
    /// since the first one does not count.
    pub(super) fn now(&self) -> Option<f64> {
        let recent: f64 = self.recent.iter().map(Duration::as_secs_f64).sum();
        let between = self.between.as_secs_f64() / self.counted() as f64;
        (self.counted() > 0).then(|| recent / self.recent.len() as f64 + between)
    }

    /// Returns the estimated time of `steps` more steps, based on [`now`](Self::now).
    pub(super) fn left(&self, steps: u64) -> Option<Duration> {
        let seconds = self.now()?;
        Some(Duration::try_from_secs_f64(steps as f64 * seconds).unwrap_or(Duration::MAX))
    }

    /// Returns the total time of the steps themselves, without the first one.
    pub(super) fn own(&self) -> Duration {
        self.own
    }

    /// Returns the number of completed steps, without the first one.
    pub(super) fn counted(&self) -> u64 {
        self.made.saturating_sub(1)
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
        steps.into_iter().for_each(|took| rate.step(took, Duration::ZERO));
        rate
    }

    #[test]
    fn a_slow_first_step_never_counts() {
        for rate in [after([]), after([ms(60_000)])] {
            assert_eq!((rate.now(), rate.own(), rate.left(9)), (None, ms(0), None));
        }
        let second = after([ms(60_000), ms(100)]);
        assert_eq!((second.now(), second.own(), second.left(10)), (Some(0.1), ms(100), Some(ms(1000))));
    }

    #[test]
    fn the_total_is_that_of_all_steps_but_the_first() {
        let rate = after([ms(60_000)].into_iter().chain([ms(300); RECENT]).chain([ms(100); RECENT]));
        assert_eq!((rate.own(), rate.counted()), (ms(400) * RECENT as u32, 2 * RECENT as u64));
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
    fn work_between_the_steps_is_spread_over_them() {
        let mut rate = Rate::default();
        // The work before the first step does not count.
        for (took, between) in [(5000, 7000), (100, 300), (100, 0), (100, 0)] {
            rate.step(ms(took), ms(between));
        }
        assert_eq!((rate.left(10), rate.own()), (Some(ms(2000)), ms(300)));
        rate.step(ms(100), Duration::MAX);
        assert_eq!(rate.left(u64::MAX), Some(Duration::MAX));
    }
}
