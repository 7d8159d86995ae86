//! Times and costs of launches put together.

use super::collect::LaunchProfile;
use gradloom_core::plan::Cost;

/// Total time of launches, and the operations and bytes that they had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of launches.
    pub launches: usize,
    /// Minimum operations and bytes.
    pub cost: Cost,
    /// Sum of the median times.
    pub seconds: f64,
    /// Least time that the machine allows; none if it is not known.
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

    /// Returns 10^9 operations a second.
    pub fn gflops_per_second(&self) -> f64 {
        ratio(self.cost.flops as f64 / 1e9, self.seconds)
    }

    /// Returns 10^9 bytes a second.
    pub fn gigabytes_per_second(&self) -> f64 {
        ratio(self.cost.bytes() as f64 / 1e9, self.seconds)
    }

    /// Returns the share of the roof that was reached: the least time over the time that was taken. None
    /// where the roof is not known.
    pub fn share(&self) -> Option<f64> {
        self.bound.map(|bound| ratio(bound, self.seconds))
    }
}

/// Returns `a / b`, or 0 if `b` is not positive: nothing was measured.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
