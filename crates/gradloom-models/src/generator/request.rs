//! Requests to a generator, and its answers.

use crate::decoding::Sampling;
use std::fmt;

/// A text to go on with.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The tokens that the model reads first, at least one.
    pub prompt: Vec<i32>,
    /// Settings that choose the tokens.
    pub sampling: Sampling,
    /// Most new tokens; at least 1.
    pub most: usize,
    /// Tokens that end the text.
    pub ends: Vec<i32>,
    /// Number of the likeliest tokens whose log-probabilities are returned besides those of the chosen
    /// tokens; `None` for no log-probabilities.
    pub logprobs: Option<usize>,
    /// True if blocks of keys and values are shared with other texts that begin alike. If false, the bits
    /// of the logits do not depend on what was computed before, and nothing is found or left in the memory.
    pub shares: bool,
    /// True if the text goes on beyond the model's context. It is then read anew from the last half of its
    /// context, at positions from 0, and what comes before that is not seen any more. If false, it ends
    /// there: see [`Finish::Context`].
    pub rolls: bool,
}

impl Request {
    /// Makes a request that draws up to `most` tokens from the model's own distribution.
    pub fn new(prompt: impl Into<Vec<i32>>, most: usize) -> Self {
        Self {
            prompt: prompt.into(),
            sampling: Sampling::default(),
            most,
            ends: Vec::new(),
            logprobs: None,
            shares: true,
            rolls: false,
        }
    }
}

/// Names a request of one generator. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// Result of a step for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The next token.
    Token {
        /// Request that the token belongs to.
        request: RequestId,
        /// The token.
        token: i32,
        /// Log-probabilities, if [`Request::logprobs`] asked for them.
        logprobs: Option<TokenLogprobs>,
    },
    /// There are no more tokens, and the request is forgotten.
    Finished {
        /// The request.
        request: RequestId,
        /// The reason.
        finish: Finish,
    },
}

impl Event {
    /// Returns the request that the event belongs to.
    pub fn request(&self) -> RequestId {
        match *self {
            Self::Token { request, .. } | Self::Finished { request, .. } => request,
        }
    }
}

/// Natural logarithms of probabilities that the model itself gives, of the tokens that can follow: without
/// penalties, biases, temperature and truncation.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Log-probability of the token.
    pub own: f32,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<(i32, f32)>,
}

/// Reason why a text has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model chose one of [`Request::ends`], which is not part of the text.
    End(i32),
    /// The text has as many new tokens as were asked for.
    Length,
    /// The text is longer than the model's context, and does not [roll](Request::rolls).
    Context,
    /// One of the stop strings was found: its index. Only for texts of a
    /// [`TextGenerator`](super::TextGenerator).
    Stop(usize),
    /// The logits are not numbers, or every token is excluded.
    NoToken,
}
