//! Multiple-choice questions, answered by the most likely choice.

use super::question::{Choice, Question};
use super::scorer::Scorer;
use crate::language_model::LanguageModel;
use gradloom_core::error::Result;
use gradloom_runtime::Session;
use std::collections::BTreeMap;

/// Numbers of multiple-choice questions answered correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// Number of questions.
    pub questions: usize,
    /// Number of questions whose right choice has the highest log-probability.
    pub right: usize,
    /// Number of questions whose right choice has the highest log-probability per byte of its text.
    pub right_by_byte: usize,
}

impl Accuracy {
    /// Counts right answers, given the scores from [`score_choices`]. Of equal scores, the first choice
    /// counts.
    pub fn of(questions: &[Question], scores: &[Vec<f64>]) -> Self {
        let mut accuracy = Self { questions: questions.len(), ..Self::default() };
        for (question, scores) in questions.iter().zip(scores) {
            let by_byte = question.choices.iter().zip(scores);
            let by_byte: Vec<f64> = by_byte.map(|(choice, score)| score / choice.bytes as f64).collect();
            accuracy.right += usize::from(best(scores) == question.answer);
            accuracy.right_by_byte += usize::from(best(&by_byte) == question.answer);
        }
        accuracy
    }

    /// Returns the fraction of right answers.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.questions as f64
    }

    /// Returns the fraction of right answers when scores are normalized by the length of the choices in
    /// bytes.
    pub fn accuracy_by_byte(&self) -> f64 {
        self.right_by_byte as f64 / self.questions as f64
    }
}

fn best(scores: &[f64]) -> usize {
    (0..scores.len()).reduce(|best, i| if scores[i] > scores[best] { i } else { best }).unwrap_or(0)
}

/// Minimum length, in tokens, of the texts that a program is compiled for.
const SHORTEST: usize = 32;

/// Returns the log-probability of each choice of each question, in nats: the sum over the choice's tokens,
/// each given all tokens before it. A run scores about `tokens` tokens.
///
/// # Errors
/// Returns an error if a text exceeds the model's context or a token is not in the vocabulary, and in the
/// same cases as [`Scorer::new`] and [`Scorer::score`].
pub fn score_choices<M: LanguageModel>(
    session: &Session<M>,
    questions: &[Question],
    tokens: usize,
) -> Result<Vec<Vec<f64>>> {
    let context = session.model().sizes().context;
    let mut scores: Vec<Vec<f64>> =
        questions.iter().map(|question| vec![0.0; question.choices.len()]).collect();
    // Compile programs for a few lengths, so that short texts are not padded to the longest one.
    let mut by_length: BTreeMap<usize, Vec<([usize; 2], &Choice)>> = BTreeMap::new();
    for (number, question) in questions.iter().enumerate() {
        for (place, choice) in question.choices.iter().enumerate() {
            let read = choice.tokens.len().saturating_sub(1);
            let length = read.next_power_of_two().max(SHORTEST).min(context.max(read));
            by_length.entry(length).or_default().push(([number, place], choice));
        }
    }
    for (length, choices) in by_length {
        let batch = (tokens / length).clamp(1, choices.len());
        let mut scorer = Scorer::new(session, batch, length)?;
        let texts: Vec<&[i32]> = choices.iter().map(|(_, choice)| &choice.tokens[..]).collect();
        for (([number, place], choice), found) in choices.iter().zip(scorer.score(&texts)?) {
            let scored = &found[found.len() - choice.scored.min(found.len())..];
            scores[*number][*place] = scored.iter().copied().map(f64::from).sum();
        }
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_sum_and_by_byte() {
        let choice = |bytes| Choice { tokens: vec![0, 1], scored: 1, bytes };
        let question = |answer| Question { choices: [1, 4].map(choice).to_vec(), answer };
        let questions = [question(0), question(1), question(0), question(1)];
        // The second choice is longer: in the first two questions, it has the lower sum but the higher score
        // per byte.
        let scores = [vec![-2.0, -4.0], vec![-2.0, -4.0], vec![-1.0, -4.0], vec![f64::NAN, -1.0]];
        let accuracy = Accuracy::of(&questions, &scores);
        // Of the equal -1 and -4/4, the first counts. Nothing compares greater than NaN.
        assert_eq!(accuracy, Accuracy { questions: 4, right: 2, right_by_byte: 2 });
        assert_eq!((accuracy.accuracy(), accuracy.accuracy_by_byte()), (0.5, 0.5));
    }
}
