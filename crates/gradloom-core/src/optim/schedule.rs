//! Learning-rate schedules.

use super::words::{Words, wrong};
use crate::error::Error;
use crate::float;
use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

/// A learning rate as a function of the attempted step, counted from 0. The rate does not depend on whether
/// steps took effect, which is known only on the device.
///
/// The text of a schedule, which checkpoints contain, is its kind followed by its numbers in order:
///
/// ```
/// # use gradloom_core::optim::Schedule;
/// let schedule = Schedule::warmup_cosine(0.5, 10, 100, 0.01);
/// assert_eq!(schedule.to_string(), "warmup 0.5 10 cosine 0.5 0.01 90");
/// assert_eq!("warmup 0.5 10 cosine 0.5 0.01 90".parse::<Schedule>()?, schedule);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The same rate at every step.
    Constant(f64),
    /// Linear from `from` (step 0) to `to` (step `steps` and later).
    Linear {
        /// Rate at step 0.
        from: f64,
        /// Rate at step `steps` and later.
        to: f64,
        /// Number of steps from `from` to `to`.
        steps: u64,
    },
    /// Half a period of a cosine from `from` (step 0) to `to` (step `steps` and later). Loshchilov and
    /// Hutter, 2017, without restarts.
    Cosine {
        /// Rate at step 0.
        from: f64,
        /// Rate at step `steps` and later.
        to: f64,
        /// Number of steps from `from` to `to`.
        steps: u64,
    },
    /// `peak · (step + 1) / steps` for `steps` steps, then another schedule from its own step 0.
    Warmup {
        /// Rate at step `steps - 1`.
        peak: f64,
        /// Length of the warm-up in steps.
        steps: u64,
        /// Schedule after the warm-up.
        then: Box<Schedule>,
    },
    /// `peak · gamma^n`, where `n` is `step / every`, rounded down (PyTorch's `StepLR`).
    Staircase {
        /// Rate at step 0.
        peak: f64,
        /// Number of steps with the same rate, at least 1.
        every: u64,
        /// Factor by which the rate is multiplied every `every` steps.
        gamma: f64,
    },
    /// `peak · gamma^n`, where `n` is the number of milestones up to the current step (PyTorch's
    /// `MultiStepLR`).
    Milestones {
        /// Rate at step 0.
        peak: f64,
        /// Steps at which the rate is multiplied by `gamma`.
        milestones: Vec<u64>,
        /// Factor by which the rate is multiplied at each milestone.
        gamma: f64,
    },
    /// `peak · gamma^step` (PyTorch's `ExponentialLR`).
    Exponential {
        /// Rate at step 0.
        peak: f64,
        /// Factor by which the rate is multiplied at each step.
        gamma: f64,
    },
    /// One schedule for `steps` steps, then another from its own step 0 (PyTorch's `SequentialLR`).
    Chained {
        /// Schedule of the first steps.
        first: Box<Schedule>,
        /// Number of steps with the first schedule.
        steps: u64,
        /// Schedule of the later steps.
        then: Box<Schedule>,
    },
    /// A schedule that restarts every `every` steps (with a cosine, PyTorch's `CosineAnnealingWarmRestarts`).
    Repeated {
        /// Number of steps between restarts, at least 1.
        every: u64,
        /// Schedule to repeat.
        then: Box<Schedule>,
    },
    /// The rate of another schedule's step 0 until step `start`, then that schedule from its own step 0.
    Delayed {
        /// Step at which the schedule starts.
        start: u64,
        /// Schedule to delay.
        then: Box<Schedule>,
    },
    /// Another schedule without its first `by` steps.
    Advanced {
        /// Number of steps to skip.
        by: u64,
        /// Schedule whose first steps are skipped.
        then: Box<Schedule>,
    },
}

impl Schedule {
    /// Creates a warm-up to `peak` over `warmup` steps, followed by half a period of a cosine down to
    /// `floor`, which is reached at step `total`.
    pub fn warmup_cosine(peak: f64, warmup: u64, total: u64, floor: f64) -> Self {
        let then = Schedule::Cosine { from: peak, to: floor, steps: total.saturating_sub(warmup) };
        Schedule::Warmup { peak, steps: warmup, then: Box::new(then) }
    }

    /// Creates one cycle: half a period of a cosine from `peak / 25` up to `peak` over 30% of `total` steps,
    /// then half a period down to `peak / 250,000`, which is reached at step `total - 1`. Corresponds to
    /// PyTorch's `OneCycleLR`. Smith and Topin, 2018.
    pub fn one_cycle(peak: f64, total: u64) -> Self {
        // Round PyTorch's turning point, which may lie between two steps, to the nearest step.
        let rise = (total as f64 * 0.3 - 1.0).round().max(0.0) as u64;
        let up = Schedule::Cosine { from: peak / 25.0, to: peak, steps: rise.max(1) };
        let down = Schedule::Cosine {
            from: peak,
            to: peak / 250_000.0,
            steps: total.saturating_sub(rise + 1).max(1),
        };
        Schedule::Chained { first: Box::new(up), steps: rise, then: Box::new(down) }
    }

    /// Returns the learning rate of a step.
    pub fn at(&self, step: u64) -> f64 {
        let progress = |steps: u64| if step >= steps { 1.0 } else { step as f64 / steps as f64 };
        match self {
            Schedule::Constant(lr) => *lr,
            Schedule::Linear { from, to, steps } => from + (to - from) * progress(*steps),
            Schedule::Cosine { from, to, steps } => {
                to + (from - to) * 0.5 * (1.0 + float::cos(PI * progress(*steps)))
            }
            Schedule::Warmup { peak, steps, then } => match step.checked_sub(*steps) {
                None => peak * (step as f64 + 1.0) / *steps as f64,
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

/// Maximum nesting depth of schedules in a text, which bounds the parser's recursion.
const MOST_NESTED: usize = 500;

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Constant(lr) => write!(f, "constant {lr}"),
            Schedule::Linear { from, to, steps } => write!(f, "linear {from} {to} {steps}"),
            Schedule::Cosine { from, to, steps } => write!(f, "cosine {from} {to} {steps}"),
            Schedule::Warmup { peak, steps, then } => write!(f, "warmup {peak} {steps} {then}"),
            Schedule::Staircase { peak, every, gamma } => write!(f, "staircase {peak} {every} {gamma}"),
            Schedule::Milestones { peak, milestones, gamma } => {
                write!(f, "milestones {peak} {}", milestones.len())?;
                milestones.iter().try_for_each(|step| write!(f, " {step}"))?;
                write!(f, " {gamma}")
            }
            Schedule::Exponential { peak, gamma } => write!(f, "exponential {peak} {gamma}"),
            Schedule::Chained { first, steps, then } => write!(f, "chained {first} {steps} {then}"),
            Schedule::Repeated { every, then } => write!(f, "repeated {every} {then}"),
            Schedule::Delayed { start, then } => write!(f, "delayed {start} {then}"),
            Schedule::Advanced { by, then } => write!(f, "advanced {by} {then}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = Error;

    /// Parses a text that [`Display`](fmt::Display) wrote.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut words = Words::of("schedule", text);
        let schedule = Self::read(&mut words, 0, text)?;
        if words.is_empty() { Ok(schedule) } else { Err(wrong("schedule", text)) }
    }
}

impl Schedule {
    fn read(words: &mut Words<'_>, depth: usize, text: &str) -> Result<Self, Error> {
        if depth > MOST_NESTED {
            return Err(wrong("schedule", text));
        }
        let inner = |words: &mut Words<'_>| Self::read(words, depth + 1, text).map(Box::new);
        Ok(match words.word()? {
            "constant" => Self::Constant(words.number()?),
            "linear" => Self::Linear { from: words.number()?, to: words.number()?, steps: words.number()? },
            "cosine" => Self::Cosine { from: words.number()?, to: words.number()?, steps: words.number()? },
            "warmup" => Self::Warmup { peak: words.number()?, steps: words.number()?, then: inner(words)? },
            "staircase" => {
                Self::Staircase { peak: words.number()?, every: words.number()?, gamma: words.number()? }
            }
            "milestones" => {
                let (peak, count) = (words.number()?, words.number::<usize>()?);
                // Do not reserve capacity for `count` numbers, as the text may contain any count.
                let milestones = (0..count).map(|_| words.number()).collect::<Result<_, _>>()?;
                Self::Milestones { peak, milestones, gamma: words.number()? }
            }
            "exponential" => Self::Exponential { peak: words.number()?, gamma: words.number()? },
            "chained" => Self::Chained { first: inner(words)?, steps: words.number()?, then: inner(words)? },
            "repeated" => Self::Repeated { every: words.number()?, then: inner(words)? },
            "delayed" => Self::Delayed { start: words.number()?, then: inner(words)? },
            "advanced" => Self::Advanced { by: words.number()?, then: inner(words)? },
            _ => return Err(wrong("schedule", text)),
        })
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

    #[test]
    fn texts_are_read_as_they_were_written() {
        let numbers = [0.0, -0.0, 0.1, 1e-3, 1e300, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
        let steps = [0, 1, 1000, u64::MAX];
        let mut all: Vec<Schedule> = numbers.map(Schedule::Constant).to_vec();
        for (&from, &steps) in numbers.iter().zip(steps.iter().cycle()) {
            let then = || Box::new(all[(steps % 7) as usize].clone());
            let more = [
                Schedule::Linear { from, to: -from, steps },
                Schedule::Cosine { from, to: 0.3, steps },
                Schedule::Warmup { peak: from, steps, then: then() },
                Schedule::Staircase { peak: from, every: steps, gamma: 0.3 },
                Schedule::Milestones { peak: from, milestones: vec![1, steps], gamma: 0.5 },
                Schedule::Milestones { peak: from, milestones: vec![], gamma: 0.5 },
                Schedule::Exponential { peak: from, gamma: 0.9 },
                Schedule::Chained { first: then(), steps, then: then() },
                Schedule::Repeated { every: steps, then: then() },
                Schedule::Delayed { start: steps, then: then() },
                Schedule::Advanced { by: steps, then: then() },
            ];
            all.extend(more);
        }
        for schedule in &all {
            let read: Schedule = schedule.to_string().parse().unwrap();
            assert_eq!(&read, schedule);
            for step in [0, 1, 7, u64::MAX] {
                assert_eq!(read.at(step).to_bits(), schedule.at(step).to_bits(), "{schedule} at {step}");
            }
            let text = schedule.to_string();
            assert!(text[1..].parse::<Schedule>().is_err(), "{text}");
            assert!(format!("{text} 1").parse::<Schedule>().is_err(), "{text}");
        }
        let deep = "advanced 1 ".repeat(1_000_000) + "constant 1";
        let error = deep.parse::<Schedule>().unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
        assert!("milestones 1 18446744073709551615 1".parse::<Schedule>().is_err());
    }
}
