//! Where the time of a program goes.
//!
//! In: a program whose launches are timed while it runs ([`LaunchSpan`]). Out: a [`Profile`], launch by
//! launch and kind by kind, beside what the machine can do.

#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod collect;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod figures;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod gpu_roof;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod options;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod report;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod roof;
mod spans;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
mod trace;

#[cfg(all(feature = "files", not(target_family = "wasm")))]
pub(crate) use collect::Profiled;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
pub use collect::{LaunchProfile, Profile, TracedStep};
#[cfg(all(feature = "files", not(target_family = "wasm")))]
pub use figures::Figures;
#[cfg(all(feature = "files", not(target_family = "wasm")))]
pub use options::ProfileOptions;
pub use spans::LaunchSpan;
pub(crate) use spans::Spans;
