//! Timing of steps.

use crate::failure::Result;
use std::time::{Duration, Instant};

/// The measurements.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) steps: u64,
    pub(super) first: Duration,
    /// Time from the start of the process to the end of the first step.
    pub(super) process_to_first: Duration,
    /// Steps after the warm-up, in the order in which they ran.
    timed: Vec<Duration>,
    /// Mean time of steps that are queued without a read.
    pub(super) queued: Option<Duration>,
    /// Loss of the first step, before it changed anything.
    pub(super) first_loss: f32,
    /// Loss of the last step.
    pub(super) final_loss: f32,
}

/// Runs `step` so many times; the first `warm` ones are not timed. Each time includes reading the loss.
pub(super) fn measure(steps: u64, warm: u64, mut step: impl FnMut() -> Result<f32>) -> Result<Timing> {
    let (mut timed, mut first, mut process_to_first) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    let (mut first_loss, mut final_loss) = (f32::NAN, f32::NAN);
    for number in 0..steps {
        let began = Instant::now();
        final_loss = step()?;
        let took = began.elapsed();
        if number == 0 {
            (first, first_loss) = (took, final_loss);
            process_to_first = super::process::age();
        }
        if number >= warm {
            timed.push(took);
        }
    }
    Ok(Timing { steps, first, process_to_first, timed, queued: None, first_loss, final_loss })
}

/// The mean time of `steps` steps that are not read, the last one aside.
pub(super) fn measure_queued(steps: u64, mut step: impl FnMut(bool) -> Result<()>) -> Result<Duration> {
    step(true)?;
    let began = Instant::now();
    for number in 1..=steps {
        step(number == steps)?;
    }
    Ok(began.elapsed() / u32::try_from(steps).unwrap_or(u32::MAX).max(1))
}

impl Timing {
    /// Least, median and greatest time of a step.
    pub(super) fn spread(&self) -> [Duration; 3] {
        let mut sorted = self.timed.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        if n == 0 {
            return [Duration::ZERO; 3];
        }
        [sorted[0], (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[n - 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_steps_are_not_timed() {
        let mut made = 0;
        let timing = measure(5, 3, || {
            made += 1;
            Ok(made as f32)
        })
        .unwrap();
        assert_eq!((made, timing.timed.len(), timing.first_loss, timing.final_loss), (5, 2, 1.0, 5.0));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_middle() {
        let timed = [4, 1, 3, 2].map(Duration::from_secs).to_vec();
        let zero = Duration::ZERO;
        let [first_loss, final_loss] = [0.0; 2];
        let timing = Timing {
            steps: 4,
            first: zero,
            process_to_first: zero,
            timed,
            queued: None,
            first_loss,
            final_loss,
        };
        assert_eq!(timing.spread(), [1.0, 2.5, 4.0].map(Duration::from_secs_f64));
    }
}
