//! Estimates the time of a step.
//!
//! In: the durations of the steps that were made, and of the work beside them. Out: what a step takes now,
//! and the time that is left. Always holds: the first step, which meets cold caches and pages that the system
//! has yet to hand out, does not count as soon as there is another one; neither does any step that is more
//! than [`RECENT`] steps ago.

use std::collections::VecDeque;
use std::time::Duration;

/// Steps that count.
const RECENT: usize = 50;

/// The rate of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    first: Option<Duration>,
    /// The last steps without the first one.
    recent: VecDeque<Duration>,
    /// Steps that were made, and the work beside them.
    made: u64,
    aside: Duration,
}

impl Rate {
    /// A step took so long.
    pub(super) fn step(&mut self, took: Duration) {
        self.made += 1;
        if self.first.is_none() {
            self.first = Some(took);
            return;
        }
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

    /// Seconds that a step takes.
    pub(super) fn seconds(&self) -> Option<f64> {
        if self.recent.is_empty() {
            return self.first.map(|first| first.as_secs_f64());
        }
        let sum: f64 = self.recent.iter().map(Duration::as_secs_f64).sum();
        Some(sum / self.recent.len() as f64)
    }

    /// What so many more steps will take; `None` while at most the first one is known, which tells nothing
    /// about others.
    pub(super) fn left(&self, steps: u64) -> Option<Duration> {
        let seconds = self.seconds().filter(|_| !self.recent.is_empty())?;
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
    fn a_slow_first_step_counts_until_there_is_another() {
        assert_eq!((after([]).seconds(), after([]).left(9)), (None, None));
        let first = after([ms(60_000)]);
        assert_eq!((first.seconds(), first.left(9)), (Some(60.0), None));
        let second = after([ms(60_000), ms(100)]);
        assert_eq!((second.seconds(), second.left(10)), (Some(0.1), Some(ms(1000))));
    }

    #[test]
    fn old_steps_are_forgotten() {
        let slow_then_fast = [ms(9000); 3].into_iter().chain([ms(20); RECENT]);
        assert!((after(slow_then_fast).seconds().unwrap() - 0.02).abs() < 1e-12);
        let fast_then_slow = [ms(20); 500].into_iter().chain([ms(100); RECENT]);
        assert!((after(fast_then_slow).seconds().unwrap() - 0.1).abs() < 1e-12);
        let mixed = after([ms(0), ms(100), ms(300)]);
        assert!((mixed.seconds().unwrap() - 0.2).abs() < 1e-12, "every step of the window counts alike");
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
