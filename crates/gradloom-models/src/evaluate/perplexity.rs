//! Perplexity of a text.

use super::scorer::Scorer;
use super::spans::{Span, spans};
use crate::data::{DataError, Tokens};
use crate::language_model::LanguageModel;
use gradloom_core::error::Error;
use gradloom_runtime::Session;
use std::time::Duration;

/// Result of scoring a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perplexity {
    /// Sum of the negative log-probabilities of all scored tokens, in nats.
    pub nats: f64,
    /// Number of scored tokens: all but the first.
    pub tokens: usize,
    /// Time from the first run to the last, excluding compilation.
    pub took: Duration,
}

impl Perplexity {
    /// Returns the mean loss, in nats per token.
    pub fn loss(&self) -> f64 {
        self.nats / self.tokens as f64
    }

    /// Returns the perplexity: the exponential of the mean loss.
    pub fn perplexity(&self) -> f64 {
        libm::exp(self.loss())
    }

    /// Returns the bits per byte of text, given the number of bytes that the scored tokens represent. Unlike
    /// the perplexity, it is comparable between models with different tokenizers.
    pub fn bits_per_byte(&self, bytes: usize) -> f64 {
        self.nats / std::f64::consts::LN_2 / bytes as f64
    }
}

/// An error that occurs when a text is scored.
#[derive(Debug, thiserror::Error)]
pub enum PerplexityError {
    /// The text has fewer than two tokens; the first one is not scored because nothing precedes it.
    #[error("the text has {tokens} tokens, of which the first is not scored")]
    TooShort {
        /// Number of tokens.
        tokens: usize,
    },
    /// A token in a file is not in the vocabulary.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The program cannot be compiled or run, or a token is not in the model's vocabulary.
    #[error(transparent)]
    Program(#[from] Error),
}

/// Scores all tokens of a text except the first, in [`spans`] of `context` tokens that begin `stride` tokens
/// apart, `batch` of them per run.
///
/// # Errors
/// Returns an error if the text has fewer than two tokens or a token is not in the vocabulary, and in the
/// same cases as [`Scorer::new`] and [`Scorer::score`].
///
/// # Panics
/// Panics if the stride is 0 or greater than the context.
pub fn perplexity<M: LanguageModel>(
    session: &Session<M>,
    tokens: &Tokens,
    [context, stride, batch]: [usize; 3],
) -> Result<Perplexity, PerplexityError> {
    if tokens.len() < 2 {
        return Err(PerplexityError::TooShort { tokens: tokens.len() });
    }
    // Do not exceed the text's length and number of spans, since padding takes time.
    let length = context.min(tokens.len() - 1);
    let batch = batch.clamp(1, spans(tokens.len(), context, stride).take(batch).count());
    let mut scorer = Scorer::new(session, batch, length)?;
    let began = std::time::Instant::now();
    let mut sum = Perplexity { nats: 0.0, tokens: 0, took: Duration::ZERO };
    let mut waiting: Vec<(Span, Vec<i32>)> = Vec::new();
    let mut spans = spans(tokens.len(), context, stride).peekable();
    while let Some(span) = spans.next() {
        let mut text = Vec::with_capacity(span.length + 1);
        tokens.read(span.start, span.length + 1, &mut text)?;
        waiting.push((span, text));
        if waiting.len() < batch && spans.peek().is_some() {
            continue;
        }
        let texts: Vec<&[i32]> = waiting.iter().map(|(_, text)| text.as_slice()).collect();
        for (scores, (span, _)) in scorer.score(&texts)?.iter().zip(&waiting) {
            let scored = &scores[span.length - span.scored..];
            sum.nats -= scored.iter().copied().map(f64::from).sum::<f64>();
            sum.tokens += scored.len();
        }
        waiting.clear();
    }
    Ok(Perplexity { took: began.elapsed(), ..sum })
}
