//! Evaluation of language models: perplexity of a text, and multiple-choice questions.
//!
//! In: a session with a [`LanguageModel`](crate::language_model::LanguageModel), and tokens. Out:
//! log-probabilities in nats, and metrics computed from them. Invariant: every token except the first of a
//! text is scored once, given only tokens before it; sums over tokens are in f64.

mod choices;
mod items;
mod perplexity;
mod question;
mod scorer;
mod spans;

pub use choices::{Accuracy, score_choices};
pub use items::{Item, ItemError, LineProblem, items};
pub use perplexity::{Perplexity, PerplexityError, perplexity};
pub use question::{Choice, Question};
pub use scorer::Scorer;
pub use spans::{Span, spans};
