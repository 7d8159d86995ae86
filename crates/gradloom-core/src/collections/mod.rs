//! Lists that the compiler sorts and searches, written so that few types of element cost little machine code:
//! the compiler also travels as WebAssembly.

mod hash;
mod ids;
mod sort;
mod sorted;

pub use hash::bucket;
pub use ids::{IdMap, IdSet};
pub use sort::{sort, sort_by, sort_by_key};
pub use sorted::{SortedMap, SortedSet};
