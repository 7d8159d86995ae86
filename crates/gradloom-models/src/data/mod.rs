//! Training data: from text to batches.
//!
//! In: paths. Out: [`Text`], tokens, a training and a held-out part, batches, and [`labels`]. Always holds: a batch is a
//! function of (seed, step) and the tokens alone, so a resumed run needs no more than its step number to go
//! on with the same data.

mod batches;
mod error;
mod files;
mod ignored;
pub mod labels;
mod split;
mod text;
mod tokenizer;

pub use batches::{Batches, held_out_windows};
pub use error::DataError;
pub use files::load;
pub use split::Split;
pub use text::{Skipped, Text};
pub use tokenizer::{Bytes, Tokenizer};
