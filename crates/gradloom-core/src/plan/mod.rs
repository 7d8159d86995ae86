//! Where every byte lives and when: launches in order, buffers with lifetimes and offsets.
//!
//! In: a graph and its launches for one target. Out: a [`Plan`], a public, printable value that the runtime executes as it stands.
//! Always holds (checked by [`verify`]): buffers that live at the same time do not overlap, except where a launch may alias them;
//! compute launches write nothing that persists.

mod store;
mod types;

pub use store::{StoreEntry, StoreLayout};
pub use types::{ALIGNMENT, Buffer, Plan, Region, Role, Totals};
