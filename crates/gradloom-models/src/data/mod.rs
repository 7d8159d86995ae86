//! Training data: from text to batches.
//!
//! In: paths. Out: [`Text`], [`Tokens`] from a [`Tokenizer`], a training part and a held-out part, batches,
//! and [`labels`]. Invariant: a batch depends only on the seed, the step and the tokens, so a resumed run
//! needs only its step number to continue with the same data.

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
