//! Requests to a generator, and the events that it returns.

use crate::decoding::Sampling;
use std::fmt;

/// A request to continue a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<i32>,
    /// Settings for choosing the tokens.
    pub sampling: Sampling,
    /// Maximum number of new tokens; at least 1.
    pub most: usize,
    /// Tokens that end the text.
    pub ends: Vec<i32>,
    /// Number of most likely tokens whose log-probabilities are returned in addition to the chosen token's,
    /// or `None` for no log-probabilities at all.
    pub logprobs: Option<usize>,
    /// True if blocks of keys and values are shared with other texts that have the same prefix. If false, the
    /// bits of the logits do not depend on earlier computations, and the text neither uses nor fills the
    /// cache.
    pub shares: bool,
    /// True if the text may exceed the model's context. The last half of the context is then recomputed at
    /// positions from 0, and earlier tokens are discarded. If false, the text ends with the context; see
    /// [`Finish::Context`].
    pub rolls: bool,
}

impl Request {
    /// Creates a request that draws up to `most` tokens from the model's own distribution.
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

/// Identifier of a request within its generator. Ids increase with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// An event that a step produces for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The next token.
    Token {
        /// Id of the request that the token belongs to.
        request: RequestId,
        /// Id of the token.
        token: i32,
        /// Log-probabilities, if [`Request::logprobs`] requests them.
        logprobs: Option<TokenLogprobs>,
    },
    /// The request has ended and is removed.
    Finished {
        /// Id of the request.
        request: RequestId,
        /// Reason why the text ended.
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

/// Natural logarithms of the model's own probabilities of the tokens that can be generated, before penalties,
/// biases, temperature and truncation.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Log-probability of the chosen token.
    pub own: f32,
    /// Most likely tokens with their log-probabilities, in descending order.
    pub top: Vec<(i32, f32)>,
}

/// Reason why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model chose one of [`Request::ends`], which is not part of the text.
    End(i32),
    /// The text has the requested number of new tokens.
    Length,
    /// The text exceeds the model's context and does not [roll](Request::rolls).
    Context,
    /// The stop string with this index was found. Occurs only in texts of a
    /// [`TextGenerator`](super::TextGenerator).
    Stop(usize),
    /// A logit is NaN or positive infinity, or every token is excluded.
    NoToken,
}
