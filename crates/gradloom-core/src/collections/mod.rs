//! Collections that generate little machine code per element type, because the compiler is also shipped as
//! WebAssembly.

mod hash;
mod ids;
mod sort;
mod sorted;

pub use hash::bucket;
pub use ids::{IdMap, IdSet};
pub use sort::{sort, sort_by, sort_by_key};
pub use sorted::{SortedMap, SortedSet};
