//! Where the time of a program goes.
//!
//! In: a program whose launches are timed while it runs ([`LaunchSpan`]). Out: a [`Profile`], launch by
//! launch and kind by kind, beside what the machine can do.

#[cfg(feature = "files")]
mod collect;
#[cfg(feature = "files")]
mod figures;
#[cfg(feature = "files")]
mod gpu_roof;
#[cfg(feature = "files")]
mod options;
#[cfg(feature = "files")]
mod report;
#[cfg(feature = "files")]
mod roof;
mod spans;
#[cfg(feature = "files")]
mod trace;

#[cfg(feature = "files")]
pub(crate) use collect::Profiled;
#[cfg(feature = "files")]
pub use collect::{LaunchProfile, Profile, TracedStep};
#[cfg(feature = "files")]
pub use figures::Figures;
#[cfg(feature = "files")]
pub use options::ProfileOptions;
pub use spans::LaunchSpan;
pub(crate) use spans::Spans;
