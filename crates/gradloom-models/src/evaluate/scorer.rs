//! Log-probabilities of the tokens in batches of texts.

use crate::language_model::LanguageModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::trace::{Tensor, i32};
use gradloom_runtime::{Infer, Session};

/// A program that scores the tokens of batches of texts up to a maximum length.
///
/// Shorter texts are padded at the end, and missing texts consist of padding only. Padding follows all scored
/// tokens, so it does not affect their scores.
#[derive(Debug)]
pub struct Scorer {
    program: Infer<2, Tensor>,
    batch: usize,
    length: usize,
    vocabulary: usize,
}

impl Scorer {
    /// Compiles a program that reads `batch` texts of `length` tokens each.
    ///
    /// # Errors
    /// Returns an error if `batch` or `length` is 0, if `length` exceeds the model's context, and in the same
    /// cases as [`Session::infer`].
    pub fn new<M: LanguageModel>(session: &Session<M>, batch: usize, length: usize) -> Result<Self> {
        let sizes = session.model().sizes();
        if batch == 0 || length == 0 || length > sizes.context {
            let message = format!("{batch} texts of {length} tokens for a context of {}", sizes.context);
            return Err(Error::new(ErrorKind::Feed, message)
                .help("score at least one text of at least one token, and none beyond the context"));
        }
        let inputs = [i32("ids", [batch, length]), i32("targets", [batch, length])];
        let program = session.infer(inputs, |model, [ids, targets]| {
            // The losses are not reduced, because padding must not contribute to a sum.
            model.forward(ids).cross_entropy_rows(targets)
        })?;
        Ok(Self { program, batch, length, vocabulary: sizes.vocabulary })
    }

    /// Returns the number of texts per run.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Returns the log-probability, in nats, of each token except the first of each text, given the preceding
    /// tokens.
    ///
    /// # Errors
    /// Returns an error if a text has fewer than two tokens or more than `length + 1`, if a token is not in
    /// the model's vocabulary, and in the same cases as [`Infer::run`].
    pub fn score(&mut self, texts: &[&[i32]]) -> Result<Vec<Vec<f32>>> {
        texts.iter().try_for_each(|text| self.check(text))?;
        let mut scores = Vec::with_capacity(texts.len());
        for batch in texts.chunks(self.batch) {
            let mut ids = vec![0; self.batch * self.length];
            let mut targets = ids.clone();
            for (row, text) in batch.iter().enumerate() {
                let (start, read) = (row * self.length, text.len() - 1);
                ids[start..start + read].copy_from_slice(&text[..read]);
                targets[start..start + read].copy_from_slice(&text[1..]);
            }
            let losses: Vec<f32> = self.program.run((&ids, &targets))?;
            for (row, text) in losses.chunks_exact(self.length).zip(batch) {
                scores.push(row[..text.len() - 1].iter().map(|loss| -loss).collect());
            }
        }
        Ok(scores)
    }

    fn check(&self, text: &[i32]) -> Result<()> {
        let wrong = |message: String, help: &str| Err(Error::new(ErrorKind::Feed, message).help(help));
        if text.len() < 2 || text.len() - 1 > self.length {
            let (tokens, most) = (text.len(), self.length + 1);
            return wrong(
                format!("a text of {tokens} tokens is to be scored, by a program for 2 to {most}"),
                "cut the text into spans, or make a scorer of another length",
            );
        }
        let is_unknown = |id: &&i32| usize::try_from(**id).map_or(true, |id| id >= self.vocabulary);
        match text.iter().find(is_unknown) {
            Some(id) => wrong(
                format!("the token {id} is not one of the model's {}", self.vocabulary),
                "take the tokenizer that belongs to the model",
            ),
            None => Ok(()),
        }
    }
}
