//! Text from a model, token by token.
//!
//! In: a function from a window of tokens to the logits of what follows, and [`Sampling`]. Out: tokens
//! through a callback, as they come. Always holds: the tokens depend on the prompt, the model, the settings
//! and the seed alone.

mod sampling;
mod stream;
mod text;
mod utf8;

pub use sampling::{Sampling, SamplingError};
pub use stream::{Window, generate};
pub use text::TextStream;
pub use utf8::Utf8Stream;
