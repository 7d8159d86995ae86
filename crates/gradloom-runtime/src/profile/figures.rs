//! Sums of the times and costs of launches.

use super::collect::LaunchProfile;
use gradloom_core::plan::Cost;

/// Sums over launches: times, and minimum operations and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of launches.
    pub launches: usize,
    /// Minimum number of operations and bytes.
    pub cost: Cost,
    /// Sum of the median times in seconds.
    pub seconds: f64,
    /// Minimum time in seconds according to the roofline; `None` if the roofline is unknown.
    pub bound: Option<f64>,
}

impl Figures {
    pub(super) fn of<'a>(launches: impl IntoIterator<Item = &'a LaunchProfile>) -> Self {
        let none = Self { bound: Some(0.0), ..Self::default() };
        launches.into_iter().fold(none, |mut sum, launch| {
            sum.launches += 1;
            sum.cost += launch.cost;
            sum.seconds += launch.seconds;
            sum.bound = sum.bound.zip(launch.bound).map(|(a, b)| a + b);
            sum
        })
    }

    /// Returns the rate of operations in units of 10^9 per second.
    pub fn gflops_per_second(&self) -> f64 {
        ratio(self.cost.flops as f64 / 1e9, self.seconds)
    }

    /// Returns the rate of memory traffic in units of 10^9 bytes per second.
    pub fn gigabytes_per_second(&self) -> f64 {
        ratio(self.cost.bytes() as f64 / 1e9, self.seconds)
    }

    /// Returns the fraction of the roofline that was reached: the minimum time divided by the measured time.
    /// Returns `None` if the roofline is unknown.
    pub fn share(&self) -> Option<f64> {
        self.bound.map(|bound| ratio(bound, self.seconds))
    }
}

/// Returns `a / b`, or 0 if `b` is not positive because nothing was measured.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
