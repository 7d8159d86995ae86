//! Files of tokens: those of llm.c and nanoGPT.
//!
//! In: paths. Out: [`TokenShards`], or files. Always holds: a file has the size that its header says, and a
//! token that is read is one of the vocabulary.
//!
//! | written by | header | tokens |
//! |---|---|---|
//! | llm.c for GPT-2 | 256 i32: 20240520, 1, number of tokens, zeros | u16 |
//! | llm.c for Llama 3 | 256 i32: 20240801, 7, number of tokens, zeros | u32 |
//! | nanoGPT | none | u16 |
//!
//! All numbers are little-endian. A file without a header is told by the lack of both first numbers, which
//! would be tokens beyond GPT-2's vocabulary.

mod find;
mod format;
mod read;
mod write;

pub use find::ShardPaths;
pub use format::ShardFormat;
pub use read::TokenShards;
pub use write::ShardWriter;
