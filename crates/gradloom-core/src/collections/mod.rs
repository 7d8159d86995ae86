//! Lists that the compiler sorts and searches, written so that few types of element cost little machine code: the compiler also travels
//! as WebAssembly.

mod sort;

pub use sort::{sort, sort_by, sort_by_key};
