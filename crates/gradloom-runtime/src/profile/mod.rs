//! Where the time of a program goes.
//!
//! In: a program whose launches are timed while it runs ([`LaunchSpan`](gradloom_device::spans::LaunchSpan)). Out: a [`Profile`], launch by
//! launch and kind by kind, beside what the machine can do.

mod collect;
mod figures;
mod gpu_roof;
mod options;
mod report;
mod roof;
mod trace;

pub(crate) use collect::Profiled;
pub use collect::{LaunchProfile, Profile, TracedStep};
pub use figures::Figures;
pub use options::ProfileOptions;
