//! The generation loop, in which a model reads the tokens that it wrote.

use super::{Past, Sampling, SamplingError};
use std::ops::ControlFlow;

/// The part of a text that the model sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The tokens, at least one, at most as many as the model's context; the first stands at position 0.
    pub tokens: Vec<i32>,
    /// Number of leading tokens that the model has read already, at the same positions.
    pub known: usize,
}

impl Window {
    /// The end of a text.
    ///
    /// # Panics
    /// When there is no token or no context.
    pub fn of(text: &[i32], context: usize) -> Self {
        assert!(!text.is_empty() && context > 0, "a window needs a token to stand on");
        Self { tokens: text[text.len().saturating_sub(context)..].to_vec(), known: 0 }
    }

    /// The tokens that are new to the model.
    pub fn new_tokens(&self) -> &[i32] {
        &self.tokens[self.known..]
    }

    /// For a model that is given all tokens each time: the tokens, filled up with zeros to the context, which
    /// a causal model does not look at, and the index of the last real one, whose logits are those of the
    /// next token.
    pub fn padded(&self, context: usize) -> (Vec<i32>, usize) {
        let mut tokens = self.tokens.clone();
        tokens.resize(context, 0);
        (tokens, self.tokens.len() - 1)
    }

    /// Adds the token that follows the known ones. A window that would outgrow the context keeps its last
    /// half, and begins anew.
    fn push(&mut self, token: i32, context: usize) {
        self.known = self.tokens.len();
        self.tokens.push(token);
        if self.tokens.len() > context {
            let kept = (context / 2).max(1);
            self.tokens.drain(..self.tokens.len() - kept);
            self.known = 0;
        }
    }
}

/// Generates up to `count` tokens after `prompt` and hands each to `on_token`, which may stop it.
///
/// `next_logits` gives one logit for each token that may follow a window. When the text outgrows the context,
/// the window goes on from the last half of it, so that a model that keeps what it has computed (see
/// [`Decoder`](crate::kv::Decoder)) begins anew once in half a context and not at every token. A prompt
/// longer than the context is seen from its end.
///
/// # Errors
/// The error of `next_logits`, or [`SamplingError`] when no token can be drawn.
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
    let mut window = Window::of(prompt, context);
    let mut past = Past::new(prompt);
    for position in 0..count {
        let logits = next_logits(&window)?;
        let token = sampling.choose(&logits, &past, position)? as i32;
        if on_token(token).is_break() {
            break;
        }
        window.push(token, context);
        past.push(token);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_see_the_end_and_fill_up() {
        assert_eq!(Window::of(&[7, 8], 4), Window { tokens: vec![7, 8], known: 0 });
        assert_eq!(Window::of(&[7, 8], 4).padded(4), (vec![7, 8, 0, 0], 1));
        assert_eq!(Window::of(&[5, 6, 7, 8], 3), Window { tokens: vec![6, 7, 8], known: 0 });
    }

    #[test]
    fn a_full_window_goes_on_from_its_last_half() {
        for (context, kept) in [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3)] {
            let mut window = Window::of(&[0], context);
            for token in 1..50 {
                let before = window.clone();
                window.push(token, context);
                let all = [&before.tokens[..], &[token]].concat();
                if all.len() <= context {
                    assert_eq!(window, Window { known: before.tokens.len(), tokens: all });
                    assert_eq!(window.new_tokens(), [token]);
                } else {
                    assert_eq!(window, Window { known: 0, tokens: all[all.len() - kept..].to_vec() });
                }
            }
        }
    }

    /// A model that counts: after token n comes n + 1.
    fn count_up(window: &Window) -> Result<Vec<f32>, SamplingError> {
        let mut logits = vec![0.0; 100];
        logits[*window.tokens.last().unwrap() as usize + 1] = 1.0;
        Ok(logits)
    }

    #[test]
    fn tokens_are_fed_back_through_a_moving_window() {
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
