//! Token files of llm.c and nanoGPT.
//!
//! In: paths. Out: [`TokenShards`], or files. Invariant: a file's size matches its header, and every token
//! read is in the vocabulary.
//!
//! | written by | header | tokens |
//! |---|---|---|
//! | llm.c for GPT-2 | 256 i32: 20240520, 1, number of tokens, zeros | u16 |
//! | llm.c for Llama 3 | 256 i32: 20240801, 7, number of tokens, zeros | u32 |
//! | nanoGPT | none | u16 |
//!
//! All numbers are little-endian. A file that begins with neither magic number has no header. The two cases
//! cannot be confused: read as a 16-bit token, the low half of either magic number is outside GPT-2's
//! vocabulary.

mod find;
mod format;
mod read;
mod write;

pub use find::ShardPaths;
pub use format::ShardFormat;
pub use read::TokenShards;
pub use write::ShardWriter;
