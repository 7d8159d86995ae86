//! Text from a model, token by token.
//!
//! In: a function from a window of tokens to the logits of what follows, and [`Sampling`]. Out: tokens
//! through a callback, as they come. Always holds: the tokens depend on the prompt, the model, the settings
//! and the seed alone.

mod past;
mod sampling;
mod settings;
mod stream;
mod utf8;

pub use past::Past;
pub use sampling::{Draw, draw};
pub use settings::{Sampling, SamplingError};
pub use stream::{Window, generate};
pub use utf8::Utf8Stream;
