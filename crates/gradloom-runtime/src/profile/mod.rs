//! Measures and breaks down the time of a program.
//!
//! In: a program whose launches are timed while it runs ([`LaunchSpan`]). Out: a [`Profile`] by launch and by
//! kind of kernel, compared with the limits of the machine.

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
