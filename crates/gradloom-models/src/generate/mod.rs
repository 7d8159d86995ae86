//! Text from a model, token by token.
//!
//! In: a function from a window of tokens to the logits of what follows, and [`Sampling`]. Out: tokens
//! through a callback, as they come. Always holds: the tokens depend on the prompt, the model, the settings
//! and the seed alone.

mod beam;
mod device;
mod logprobs;
mod past;
mod sampling;
mod settings;
mod speculate;
mod stop;
mod stream;
mod text;
mod utf8;

pub use beam::{BeamError, BeamOptions, Beams, EarlyStopping, Extension, Hypothesis};
pub use device::{Choices, Chosen, Logprobs, Rows};
pub use logprobs::logprobs;
pub use past::Past;
pub use sampling::{Draw, draw};
pub use settings::{Sampling, SamplingError};
pub use speculate::{Accepted, SpeculationError, speculate};
pub use stop::StopStream;
pub use stream::{Window, generate};
pub use text::TextStream;
pub use utf8::Utf8Stream;
