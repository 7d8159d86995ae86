//! Training data: from text to batches.
//!
//! In: paths. Out: [`Text`], [`Tokens`] by a [`Tokenizer`], a training and a held-out part, batches, and
//! [`labels`]. Always holds: a batch is a function of (seed, step) and the tokens alone, so a resumed run
//! needs no more than its step number to go on with the same data.

mod batches;
mod error;
mod files;
mod ignored;
pub mod labels;
mod shards;
mod split;
mod text;
mod tokenizer;
mod tokens;

pub use batches::{Batch, Batches, held_out_windows};
pub use error::DataError;
pub use files::{TextFile, load, text_files};
pub use shards::{ShardFormat, ShardPaths, ShardWriter, TokenShards};
pub use split::Split;
pub use text::{Skipped, Text};
pub use tokenizer::{
    Bpe, Bytes, LongText, Message, Roles, SpecialTokens, Start, Tokenizer, TokenizerError, Vocabulary,
};
pub use tokens::Tokens;
