//! Learning rates over time.

use crate::float;
use std::f64::consts::PI;

/// A learning rate as a function of the attempted step, counted from 0: whether a step took effect is known
/// only on the device, and the schedule does not wait for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The same rate at every step.
    Constant(f64),
    /// Straight from `from` (step 0) to `to` (step `steps` and after).
    Linear {
        /// Rate at step 0.
        from: f64,
        /// Rate from step `steps` on.
        to: f64,
        /// Number of steps.
        steps: u64,
    },
    /// Half a cosine from `from` (step 0) to `to` (step `steps` and after). Loshchilov and Hutter, 2017,
    /// without restarts.
    Cosine {
        /// Rate at step 0.
        from: f64,
        /// Rate from step `steps` on.
        to: f64,
        /// Number of steps.
        steps: u64,
    },
    /// `peak · (step + 1) / steps` for `steps` steps, then another schedule from its own step 0.
    Warmup {
        /// Reached at step `steps - 1`.
        peak: f64,
        /// Length of the warm-up.
        steps: u64,
        /// The schedule after the warm-up.
        then: Box<Schedule>,
    },
    /// `peak · gamma^n`, where `n` is the number of times that `every` steps have passed (PyTorch's
    /// `StepLR`).
    Staircase {
        /// Rate at step 0.
        peak: f64,
        /// Length of a stair, at least 1.
        every: u64,
        /// Factor from one stair to the next.
        gamma: f64,
    },
    /// `peak · gamma^n`, where `n` is the number of milestones that were reached (PyTorch's `MultiStepLR`).
    Milestones {
        /// Rate at step 0.
        peak: f64,
        /// Steps from which on there is a factor more.
        milestones: Vec<u64>,
        /// Factor from one milestone to the next.
        gamma: f64,
    },
    /// `peak · gamma^step` (PyTorch's `ExponentialLR`).
    Exponential {
        /// Rate at step 0.
        peak: f64,
        /// Factor from one step to the next.
        gamma: f64,
    },
    /// One schedule for `steps` steps, then another from its own step 0 (PyTorch's `SequentialLR`).
    Chained {
        /// The schedule of the first steps.
        first: Box<Schedule>,
        /// How many there are.
        steps: u64,
        /// The schedule after them.
        then: Box<Schedule>,
    },
    /// A schedule that starts again after every so many steps (with a cosine, `CosineAnnealingWarmRestarts`).
    Repeated {
        /// Length of a round, at least 1.
        every: u64,
        /// The schedule of a round.
        then: Box<Schedule>,
    },
    /// Another schedule's step 0 until step `start`, and from there on that schedule from its own step 0.
    Delayed {
        /// The first step of the schedule.
        start: u64,
        /// The schedule after the delay.
        then: Box<Schedule>,
    },
    /// Another schedule without its first `by` steps.
    Advanced {
        /// The step of that schedule that is step 0 here.
        by: u64,
        /// The schedule that is begun late.
        then: Box<Schedule>,
    },
}

impl Schedule {
    /// Warm-up to `peak` over `warmup` steps, then half a cosine down to `floor`, reached at step `total`.
    pub fn warmup_cosine(peak: f64, warmup: u64, total: u64, floor: f64) -> Self {
        let then = Schedule::Cosine { from: peak, to: floor, steps: total.saturating_sub(warmup) };
        Schedule::Warmup { peak, steps: warmup, then: Box::new(then) }
    }

    /// One cycle: half a cosine up from `peak / 25` to `peak` over 30% of `total` steps, then half a cosine
    /// down to `peak / 250,000`, reached at step `total - 1`: PyTorch's `OneCycleLR`. Smith and Topin, 2018.
    pub fn one_cycle(peak: f64, total: u64) -> Self {
        // PyTorch's turning point, which may lie between two steps, at the nearest step.
        let rise = (total as f64 * 0.3 - 1.0).round().max(0.0) as u64;
        let up = Schedule::Cosine { from: peak / 25.0, to: peak, steps: rise.max(1) };
        let down = Schedule::Cosine {
            from: peak,
            to: peak / 250_000.0,
            steps: total.saturating_sub(rise + 1).max(1),
        };
        Schedule::Chained { first: Box::new(up), steps: rise, then: Box::new(down) }
    }

    /// The learning rate of a step.
    pub fn at(&self, step: u64) -> f64 {
        let progress = |steps: u64| if step >= steps { 1.0 } else { step as f64 / steps as f64 };
        match self {
            Schedule::Constant(lr) => *lr,
            Schedule::Linear { from, to, steps } => from + (to - from) * progress(*steps),
            Schedule::Cosine { from, to, steps } => {
                to + (from - to) * 0.5 * (1.0 + float::cos(PI * progress(*steps)))
            }
            Schedule::Warmup { peak, steps, then } => match step.checked_sub(*steps) {
                None => peak * (step + 1) as f64 / *steps as f64,
                Some(later) => then.at(later),
            },
            Schedule::Staircase { peak, every, gamma } => {
                peak * float::pow(*gamma, (step / (*every).max(1)) as f64)
            }
            Schedule::Milestones { peak, milestones, gamma } => {
                let reached = milestones.iter().filter(|&&milestone| milestone <= step).count();
                peak * float::pow(*gamma, reached as f64)
            }
            Schedule::Exponential { peak, gamma } => peak * float::pow(*gamma, step as f64),
            Schedule::Chained { first, steps, then } => match step.checked_sub(*steps) {
                None => first.at(step),
                Some(later) => then.at(later),
            },
            Schedule::Repeated { every, then } => then.at(step % (*every).max(1)),
            Schedule::Delayed { start, then } => then.at(step.saturating_sub(*start)),
            Schedule::Advanced { by, then } => then.at(step.saturating_add(*by)),
        }
    }
}

impl From<f64> for Schedule {
    fn from(lr: f64) -> Self {
        Schedule::Constant(lr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_meet_their_corner_points() {
        let linear = Schedule::Linear { from: 1.0, to: 0.2, steps: 4 };
        assert_eq!([0, 2, 4, 9].map(|s| linear.at(s)), [1.0, 0.6, 0.19999999999999996, 0.19999999999999996]);
        let all = Schedule::warmup_cosine(0.5, 5, 15, 0.1);
        assert_eq!([0, 1, 4].map(|s| all.at(s)), [0.1, 0.2, 0.5]);
        assert_eq!(all.at(5), 0.5);
        assert!((all.at(10) - 0.3).abs() < 1e-15);
        assert!((all.at(15) - 0.1).abs() < 1e-15 && (all.at(1000) - 0.1).abs() < 1e-15);
        assert_eq!(Schedule::warmup_cosine(0.5, 0, 0, 0.1).at(0), 0.1);
        let stairs = Schedule::Staircase { peak: 0.8, every: 3, gamma: 0.5 };
        assert_eq!([0, 2, 3, 5, 6].map(|s| stairs.at(s)), [0.8, 0.8, 0.4, 0.4, 0.2]);
        let milestones = Schedule::Milestones { peak: 0.8, milestones: vec![2, 5], gamma: 0.5 };
        assert_eq!([0, 1, 2, 4, 5, 99].map(|s| milestones.at(s)), [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]);
        let falling = Schedule::Exponential { peak: 0.5, gamma: 0.9 };
        assert_eq!([0, 1].map(|s| falling.at(s)), [0.5, 0.45]);
        let chained =
            Schedule::Chained { first: Box::new(1.0.into()), steps: 2, then: Box::new(falling.clone()) };
        assert_eq!([0, 1, 2, 3].map(|s| chained.at(s)), [1.0, 1.0, 0.5, 0.45]);
        let again = Schedule::Repeated { every: 2, then: Box::new(falling) };
        assert_eq!([0, 1, 2, 3].map(|s| again.at(s)), [0.5, 0.45, 0.5, 0.45]);
        // torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=10)
        let cycle = Schedule::one_cycle(1.0, 10);
        let pytorch =
            [0.04, 0.52, 1.0, 0.950_484_6, 0.811_745_3, 0.611_262, 0.388_742, 0.188_258_3, 0.049_519_4, 4e-6];
        for (step, want) in pytorch.into_iter().enumerate() {
            assert!((cycle.at(step as u64) - want).abs() < 1e-6, "{step}: {}", cycle.at(step as u64));
        }
        let advanced = Schedule::Advanced { by: 1, then: Box::new(linear.clone()) };
        assert_eq!([0, 1, 9].map(|s| advanced.at(s)), [1, 2, 10].map(|s| linear.at(s)));
        let late = Schedule::Delayed { start: 10, then: Box::new(linear) };
        assert_eq!([0, 9, 10, 12].map(|s| late.at(s)), [1.0, 1.0, 1.0, 0.6]);
    }
}
