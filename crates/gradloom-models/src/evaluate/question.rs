//! Encoding of multiple-choice questions.

use super::items::{Item, LineProblem};
use crate::data::{Tokenizer, TokenizerError};

/// A multiple-choice question as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The choices, each preceded by the context.
    pub choices: Vec<Choice>,
    /// Index of the right choice.
    pub answer: usize,
}

/// A choice preceded by its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Tokens of the context and the choice.
    pub tokens: Vec<i32>,
    /// Number of tokens at the end that belong to the choice; fewer than all.
    pub scored: usize,
    /// Length of the choice's text in bytes.
    pub bytes: usize,
}

impl Question {
    /// Encodes a question: the token `beginning`, if any, then the context, a space unless there is
    /// whitespace on either side, and the choice.
    ///
    /// As in lm-evaluation-harness, context and choice are encoded as one text; whitespace at the end of the
    /// context and tokens that span the boundary belong to the choice.
    ///
    /// If the context is empty and there is no `beginning`, the end-of-text token is used in its place.
    ///
    /// # Errors
    /// Returns an error if the tokenizer cannot encode a text, if nothing precedes a choice, or if a text has
    /// more than `context + 1` tokens, of which the last is not read.
    pub fn new(
        item: &Item,
        tokenizer: &dyn Tokenizer,
        beginning: Option<i32>,
        context: usize,
    ) -> Result<Self, LineProblem> {
        let encode = |text: &str| {
            let refused = |error: TokenizerError| LineProblem::Tokens { reason: error.to_string() };
            tokenizer.encode(text.as_bytes()).map_err(refused)
        };
        let text = item.context.trim_end();
        let alone = encode(text)?;
        let begin = beginning.or_else(|| tokenizer.end_of_text().filter(|_| alone.is_empty()));
        let choice = |(place, choice): (usize, &String)| {
            let blanks = &item.context[text.len()..];
            let is_apart = !blanks.is_empty() || choice.starts_with(char::is_whitespace) || text.is_empty();
            let space = if is_apart { "" } else { " " };
            let whole = encode(&format!("{text}{blanks}{space}{choice}"))?;
            let shared = alone.iter().zip(&whole).take_while(|(a, b)| a == b).count();
            // Score at least one token of every choice, even if normalization removes its whole text.
            let shared = shared.min(whole.len().saturating_sub(1));
            let scored = whole.len() - shared;
            let tokens: Vec<i32> = begin.into_iter().chain(whole).collect();
            if scored == 0 || scored == tokens.len() {
                return Err(LineProblem::NoContext);
            }
            if tokens.len() > context + 1 {
                return Err(LineProblem::TooLong { choice: place, tokens: tokens.len(), context });
            }
            Ok(Choice { tokens, scored, bytes: choice.len() })
        };
        let choices = item.choices.iter().enumerate().map(choice).collect::<Result<_, _>>()?;
        Ok(Self { choices, answer: item.answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Bpe, Bytes};

    fn item(context: &str, choices: [&str; 2]) -> Item {
        let choices = choices.map(str::to_string).to_vec();
        Item { line: 1, context: context.to_string(), choices, answer: 0 }
    }

    fn texts(item: &Item, tokenizer: &dyn Tokenizer) -> Vec<(String, String)> {
        let question = Question::new(item, tokenizer, None, 64).unwrap();
        let text = |ids: &[i32]| String::from_utf8(tokenizer.decode_all(ids)).unwrap();
        let parts = |choice: &Choice| {
            let (before, scored) = choice.tokens.split_at(choice.tokens.len() - choice.scored);
            (text(before), text(scored))
        };
        question.choices.iter().map(parts).collect()
    }

    #[test]
    fn blanks_between_context_and_choice_are_the_choices() {
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        for (context, choices, want) in [
            ("Two is", ["even", " odd"], [pair("Two is", " even"), pair("Two is", " odd")]),
            ("Two is  ", ["even", "odd"], [pair("Two is", "  even"), pair("Two is", "  odd")]),
            ("Two is\n", ["even", " odd"], [pair("Two is", "\neven"), pair("Two is", "\n odd")]),
        ] {
            assert_eq!(texts(&item(context, choices), &Bytes), want, "{context:?}");
        }
    }

    #[test]
    fn tokens_are_those_of_the_whole_text() {
        let text = "abab abab abab abab\n".repeat(40);
        let tokenizer = Bpe::train(text.as_bytes(), 260, "trained").unwrap();
        let joined = item("x", ["ab", "cd"]);
        assert!(texts(&joined, &tokenizer).iter().all(|(before, _)| before == "x"));
        let question = Question::new(&joined, &tokenizer, Some(7), 64).unwrap();
        assert_eq!(question.choices[0].tokens[0], 7);
        assert_eq!(question.choices[0].tokens[1..], tokenizer.encode(b"x ab").unwrap());
        assert_eq!(question.choices[0].bytes, 2);
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        let problem = |item: &Item| Question::new(item, &Bytes, None, 6).unwrap_err();
        assert_eq!(problem(&item("", ["a", "b"])), LineProblem::NoContext);
        // The last of the seven tokens is predicted but not read.
        assert!(Question::new(&item("abc", ["def", "g"]), &Bytes, None, 6).is_ok());
        let long = LineProblem::TooLong { choice: 1, tokens: 8, context: 6 };
        assert_eq!(problem(&item("abc", ["d", "efgh"])), long);
        let begun = Question::new(&item("", ["a", "b"]), &Bytes, Some(9), 6).unwrap();
        assert_eq!((&begun.choices[0].tokens[..], begun.choices[0].scored), (&[9, 97][..], 1));
    }
}
