//! Division of a text longer than the context into spans.

/// A part of a text that the model reads in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the first token read.
    pub start: usize,
    /// Number of tokens read.
    pub length: usize,
    /// Number of tokens scored: the token after the last one read, and those before it.
    pub scored: usize,
}

/// Returns the spans of a text of `tokens` tokens, as in the perplexity guide of transformers: each begins
/// `stride` tokens after the previous one, reads up to `context` tokens, and scores those that no earlier
/// span has scored. Thus every token except the first is scored once, given at least `context - stride + 1`
/// tokens before it, or all of them if there are fewer. A stride equal to the context is fastest; a stride of
/// 1 gives each token the longest context.
///
/// # Panics
/// Panics if the stride is 0 or greater than the context.
pub fn spans(tokens: usize, context: usize, stride: usize) -> impl Iterator<Item = Span> {
    assert!((1..=context).contains(&stride), "a stride from 1 to the context");
    // Exclude the last token, which is scored but never read.
    let readable = tokens.saturating_sub(1);
    let mut scored_before = 0;
    (0..readable).step_by(stride).map_while(move |start| {
        let end = readable.min(start + context);
        let scored = end - scored_before;
        scored_before = end;
        (scored > 0).then_some(Span { start, length: end - start, scored })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the index of the first scored token.
    fn first_scored(span: Span) -> usize {
        span.start + span.length + 1 - span.scored
    }

    #[test]
    fn every_token_but_the_first_is_scored_once() {
        for tokens in 0..40 {
            for context in 1..12 {
                for stride in 1..=context {
                    let mut scored = Vec::new();
                    for span in spans(tokens, context, stride) {
                        assert!(span.length <= context && span.scored <= span.length, "{span:?}");
                        let last = span.start + span.length;
                        scored.extend(first_scored(span)..=last);
                        // Check that the context is as long as the stride allows.
                        let before = first_scored(span) - span.start;
                        assert!(span.start == 0 || before > context - stride, "{span:?}");
                    }
                    assert_eq!(scored, (1..tokens).collect::<Vec<_>>(), "{tokens} by {context}, {stride}");
                }
            }
        }
    }

    #[test]
    fn no_span_comes_after_the_one_that_reaches_the_end() {
        assert_eq!(spans(9, 8, 2).collect::<Vec<_>>(), [Span { start: 0, length: 8, scored: 8 }]);
        let last = Span { start: 4, length: 5, scored: 1 };
        assert_eq!(spans(10, 8, 4).collect::<Vec<_>>(), [Span { start: 0, length: 8, scored: 8 }, last]);
    }
}
