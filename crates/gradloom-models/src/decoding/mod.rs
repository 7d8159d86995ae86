//! The choice of the next token, and the text that tokens make.
//!
//! In: logits of what follows a text, and [`Sampling`]. Out: tokens, on the host ([`Sampling::choose`]) or on
//! the device for many texts at once ([`Choices`]), one by one, with a draft model ([`speculate`]) or in
//! beams ([`Beams`]); and their text, up to a stop string ([`StopStream`]). Always holds: the tokens depend
//! on the prompt, the model, the settings and the seed alone, up to rounding. Who computes the logits, and
//! when, is the [generator](crate::generator)'s.

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

pub use beam::{BeamError, BeamOptions, Beams, EarlyStopping, Extension, Hypothesis};
pub use device::{Choices, Chosen, LastTokens, Logprobs, Rows};
pub use logprobs::logprobs;
pub use past::Past;
pub use sampling::{Draw, draw};
pub use settings::{Sampling, SamplingError};
pub use speculate::{Accepted, SpeculationError, speculate};
pub use stop::StopStream;
pub use text::TextStream;
pub use utf8::Utf8Stream;
