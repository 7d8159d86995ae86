//! Timing of steps.

use super::configs::Workload;
use crate::failure::Result;
use std::time::{Duration, Instant};

/// Measurements of a workload's steps.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) steps: u64,
    pub(super) first: Duration,
    /// Time from the start of the process to the end of the first step.
    pub(super) process_to_first: Duration,
    /// Times of the steps after the warm-up, in the order in which they ran.
    timed: Vec<Duration>,
    /// Times on a device with a queue.
    pub(super) queued: Option<Queued>,
    /// Loss of the first step, before any update.
    pub(super) first_loss: f32,
    /// Loss of the last step.
    pub(super) final_loss: f32,
}

/// Times of steps that are queued without reading their losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    /// Mean time of a step.
    pub(super) step: Duration,
    /// Total number of times that results were copied to the host when these steps had ended.
    pub(super) readbacks: usize,
    /// Median host time to queue a step while the device has room for it.
    pub(super) host: Duration,
    /// Median device time of a step, by the device's own clock; `None` if it cannot be measured.
    pub(super) device: Option<Duration>,
}

/// Minimum number of rounds for a median.
const LEAST: usize = 10;
/// Maximum number of rounds for a median.
const MOST: usize = 1000;
/// Time that all rounds should take.
const ROUNDS: Duration = Duration::from_millis(500);

/// Runs `step` the given number of times, and times all but the first `warm` runs. Each time includes reading
/// the loss.
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

/// Measures the mean time of `steps` steps in a row, of which only the last is read, and then the median host
/// and device times of a step.
pub(super) fn measure_queued(steps: u64, workload: &mut dyn Workload) -> Result<Queued> {
    workload.step()?.loss()?;
    let began = Instant::now();
    (1..steps).try_for_each(|_| workload.step().map(drop))?;
    workload.step()?.loss()?;
    let step = began.elapsed() / u32::try_from(steps).unwrap_or(u32::MAX).max(1);
    let readbacks = workload.program().work().map_or(0, |work| work.readbacks);
    let rounds = (ROUNDS.as_nanos() / step.as_nanos().max(1)) as usize;
    let rounds = rounds.clamp(LEAST, MOST);
    let (mut host, mut device) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // The device is idle now, and has room for two steps.
        workload.step()?.loss()?;
        for _ in 0..2 {
            let began = Instant::now();
            workload.step()?;
            host.push(began.elapsed());
        }
    }
    workload.set_step_timing(true);
    for _ in 0..rounds {
        workload.step()?;
        workload.step()?.loss()?;
        device.extend(workload.program().step_time()?);
    }
    workload.set_step_timing(false);
    let device = (!device.is_empty()).then(|| spread(device)[1]);
    Ok(Queued { step, readbacks, host: spread(host)[1], device })
}

/// Returns the minimum, median and maximum of `times`, or zeros if it is empty.
fn spread(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    let n = times.len();
    if n == 0 {
        return [Duration::ZERO; 3];
    }
    [times[0], (times[(n - 1) / 2] + times[n / 2]) / 2, times[n - 1]]
}

impl Timing {
    /// Returns the minimum, median and maximum time of a step.
    pub(super) fn spread(&self) -> [Duration; 3] {
        spread(self.timed.clone())
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
