//! The loop that feeds a model its own words.

use super::{Sampling, SamplingError};
use std::ops::ControlFlow;

/// What the model reads to give the next token.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// As many tokens as the model's context; after the last real one it is filled with zeros, which a causal model does not look at.
    pub tokens: Vec<i32>,
    /// Index of the last real token: the logits of this position are those of the next token.
    pub last: usize,
}

impl Window {
    /// The last `context` tokens of a text.
    ///
    /// # Panics
    /// When there is no token or no context.
    pub fn of(text: &[i32], context: usize) -> Self {
        assert!(!text.is_empty() && context > 0, "a window needs a token to stand on");
        let mut tokens = text[text.len().saturating_sub(context)..].to_vec();
        let last = tokens.len() - 1;
        tokens.resize(context, 0);
        Self { tokens, last }
    }
}

/// Generates up to `count` tokens after `prompt` and hands each to `on_token`, which may stop it.
///
/// `next_logits` gives one logit for each token that may follow a window. The window slides: when the text is longer than the
/// context, the model sees its end.
///
/// # Errors
/// What `next_logits` returns, or [`SamplingError`] when no token can be drawn.
///
/// # Panics
/// When the prompt or the context is empty.
pub fn generate<E: From<SamplingError>>(
    prompt: &[i32],
    context: usize,
    count: u64,
    sampling: &Sampling,
    mut next_logits: impl FnMut(&Window) -> Result<Vec<f32>, E>,
    mut on_token: impl FnMut(i32) -> ControlFlow<()>,
) -> Result<(), E> {
    let mut text = prompt.to_vec();
    for position in 0..count {
        let logits = next_logits(&Window::of(&text, context))?;
        let token = sampling.choose(&logits, position)? as i32;
        text.push(token);
        if on_token(token).is_break() {
            break;
        }
        if text.len() > 2 * context {
            text.drain(..text.len() - context);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_pad_and_slide() {
        assert_eq!(Window::of(&[7, 8], 4), Window { tokens: vec![7, 8, 0, 0], last: 1 });
        assert_eq!(Window::of(&[5, 6, 7, 8], 3), Window { tokens: vec![6, 7, 8], last: 2 });
    }

    /// A model that counts: after token n comes n + 1.
    fn count_up(window: &Window) -> Result<Vec<f32>, SamplingError> {
        let mut logits = vec![0.0; 100];
        logits[window.tokens[window.last] as usize + 1] = 1.0;
        Ok(logits)
    }

    #[test]
    fn tokens_are_fed_back_through_a_sliding_window() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let mut tokens = Vec::new();
        generate(&[3], 2, 20, &greedy, count_up, |token| {
            tokens.push(token);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(tokens, (4..24).collect::<Vec<i32>>());
    }

    #[test]
    fn the_callback_stops_it_and_errors_pass_through() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let mut seen = 0;
        generate(&[0], 2, 20, &greedy, count_up, |token| {
            seen += 1;
            if token == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
        assert_eq!(seen, 3);
        let broken = |_: &Window| Ok::<_, SamplingError>(vec![f32::NAN]);
        let error = generate(&[0], 2, 1, &greedy, broken, |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, SamplingError::NotFinite { token: 0, .. }));
    }
}
