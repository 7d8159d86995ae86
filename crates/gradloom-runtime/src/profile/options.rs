//! Options for profiling a program.

use super::roof::Roof;
use gradloom_device::host::Roofline;

/// Number of steps to profile, and the roofline to compare kernels with. A `u64` converts to options that
/// time that number of steps.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// use gradloom::ProfileOptions;
///
/// let options = ProfileOptions::new(100).warm_up(10).named("my classifier");
/// assert_eq!(ProfileOptions::from(20), ProfileOptions::new(20));
/// # assert_ne!(options, ProfileOptions::new(100));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ProfileOptions {
    pub(super) steps: u64,
    pub(super) warm_up: u64,
    pub(super) name: Option<String>,
    pub(super) roof: Roof,
}

impl ProfileOptions {
    /// Creates options that time `steps` steps, after `steps / 10` untimed warm-up steps, but at least one.
    pub fn new(steps: u64) -> Self {
        Self { steps, warm_up: (steps / 10).max(1), name: None, roof: Roof::Kept }
    }

    /// Sets the number of untimed warm-up steps.
    pub fn warm_up(self, steps: u64) -> Self {
        Self { warm_up: steps, ..self }
    }

    /// Sets the name of the program in the report.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Measures the roofline of the device again. By default, it is measured once per device, which takes a
    /// second, and cached in `gradloom/roofline.json` in the user's cache folder.
    pub fn measure_roof(self) -> Self {
        Self { roof: Roof::Measured, ..self }
    }

    /// Compares kernels with the given roofline.
    pub fn roof(self, roof: Roofline) -> Self {
        Self { roof: Roof::Given(roof), ..self }
    }

    /// Omits the comparison with a roofline: the report has no fractions of it.
    pub fn without_roof(self) -> Self {
        Self { roof: Roof::Unknown, ..self }
    }

    /// Sets the name if none is set.
    pub(crate) fn or_named(self, name: &str) -> Self {
        Self { name: self.name.or_else(|| Some(name.to_string())), ..self }
    }
}

impl From<u64> for ProfileOptions {
    fn from(steps: u64) -> Self {
        Self::new(steps)
    }
}
