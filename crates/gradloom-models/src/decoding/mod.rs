//! Sampling of the next token, and conversion of tokens to text.
//!
//! In: logits of the next token of a text, and [`Sampling`]. Out: tokens, chosen on the host
//! ([`Sampling::choose`]) or on the device for a batch of texts ([`Choices`]), one by one, with a draft model
//! (`speculate`) or by beam search ([`Beams`]); and their text, up to a stop string ([`StopStream`]).
//! Invariant: up to rounding, the tokens depend only on the prompt, the model, the settings and the seed.
//! The [generator](crate::generator) computes the logits.

mod beam;
mod device;
mod logprobs;
mod past;
mod sampling;
mod settings;
mod speculate;
mod stop;
mod text;
mod utf8;

pub use beam::{BeamOptions, Beams, EarlyStopping, Extension, Hypothesis};
pub use device::{Choices, Chosen, LastTokens, Logprobs, Rows};
pub use logprobs::logprobs;
pub use past::Past;
pub use sampling::{Draw, draw};
pub use settings::{Sampling, SamplingError};
pub(crate) use speculate::speculate;
pub use stop::StopStream;
pub use text::TextStream;
pub use utf8::Utf8Stream;
