//! Speculative decoding: a draft model proposes tokens, and the model verifies all of them in one step.

use super::memory::{NewTokens, floats, refusal};
use super::program::Head;
use super::{Finish, Generator, Request};
use crate::decoding::{Draw, Past, Sampling, SamplingError, draw, speculate};
use crate::kv::pages::SequenceId;
use gradloom_core::error::{Error, Result};

/// A text in a model's memory.
struct Side<'a> {
    generator: &'a mut Generator,
    sequence: SequenceId,
}

impl Side<'_> {
    /// Computes the missing tokens of a text. Returns the logits after each of its last `count` tokens, which
    /// must all be missing.
    fn logits(&mut self, text: &[i32], count: usize) -> Result<Vec<Vec<f32>>> {
        let memory = &mut self.generator.memory;
        let ahead = text.len() - count;
        if memory.length(self.sequence) < ahead {
            memory.read(self.sequence, &text[..ahead], self.generator.options.chunk, Head::Nothing)?;
        }
        let row = NewTokens::known(self.sequence, &text[ahead..]);
        let step = memory.append(&[row], Head::Each)?;
        let vocabulary = memory.vocabulary();
        Ok(floats(&step, 0).chunks(vocabulary).take(count).map(<[f32]>::to_vec).collect())
    }

    /// Truncates the text in memory to its first `length` tokens.
    fn cut(&mut self, length: usize) {
        let memory = &mut self.generator.memory;
        let length = length.min(memory.length(self.sequence));
        memory.pages.truncate(self.sequence, length).expect("it has as many");
    }
}

impl Generator {
    /// Generates one text by speculative decoding.
    ///
    /// The draft model, a smaller one with the same vocabulary, proposes up to `drafted` tokens at a time,
    /// and this model verifies them in one step. The tokens have exactly this model's distribution
    /// (Leviathan, Kalman and Matias, 2023); at temperature 0 they are the tokens that it would choose alone.
    /// `on_token` is called with each token as it is accepted. Beyond the draft model's context, nothing is
    /// proposed; the text ends at this model's context, even if the request [rolls](Request::rolls). Returns
    /// the reason why the text ended, and the numbers of accepted and proposed tokens.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generator::add`], for either model; if log-probabilities are
    /// requested; if no token can be drawn; if there are too few blocks in addition to those of the requests;
    /// or if the device fails.
    pub fn speculate(
        &mut self,
        draft: &mut Generator,
        request: &Request,
        drafted: usize,
        mut on_token: impl FnMut(i32),
    ) -> Result<(Finish, [usize; 2])> {
        self.check(request)?;
        if request.prompt.len() <= draft.memory.context() {
            draft.check(request)?;
        }
        let [own, other] = [self.memory.vocabulary(), draft.memory.vocabulary()];
        if own != other || drafted == 0 || request.logprobs.is_some() {
            let message = match (own == other, drafted) {
                (false, _) => format!("a draft model of {other} tokens for a model of {own}"),
                (true, 0) => "a draft of 0 tokens".to_string(),
                _ => "log-probabilities of a text with a draft model".to_string(),
            };
            return Err(refusal(
                message,
                "give a draft model of the same tokenizer, at least 1 token, and no log-probabilities",
            ));
        }
        let sequences = [
            self.memory.begin(&request.prompt, request.shares),
            draft.memory.begin(&request.prompt, request.shares),
        ];
        let mut own = Side { generator: &mut *self, sequence: sequences[0] };
        let mut other = Side { generator: &mut *draft, sequence: sequences[1] };
        let outcome = write(&mut own, &mut other, request, drafted, &mut on_token);
        self.memory.pages.end(sequences[0]).expect("it has begun");
        draft.memory.pages.end(sequences[1]).expect("it has begun");
        outcome
    }
}

fn write(
    own: &mut Side<'_>,
    other: &mut Side<'_>,
    request: &Request,
    drafted: usize,
    on_token: &mut dyn FnMut(i32),
) -> Result<(Finish, [usize; 2])> {
    let sampling = &request.sampling;
    let (mut text, mut past) = (request.prompt.clone(), Past::new(&request.prompt));
    let mut counts = [0; 2];
    let [context, readable] = [own.generator.memory.context(), other.generator.memory.context()];
    loop {
        let written = text.len() - request.prompt.len();
        // Leave room for one more token, which follows an accepted draft.
        let count = drafted.min(request.most - written - 1).min(context - text.len());
        // Do not propose tokens beyond the draft model's context.
        let count = count.min((readable + 1).saturating_sub(text.len()));
        let Draft { tokens, probabilities } = propose(other, sampling, &text, &past, written, count)?;
        let longer = [&text[..], &tokens].concat();
        let logits = own.logits(&longer, count + 1)?;
        let mut then = past.clone();
        let mut target = Vec::with_capacity(count + 1);
        for (place, logits) in logits.iter().enumerate() {
            target.push(sampling.probabilities(logits, &then).map_err(undrawable)?);
            tokens.get(place).into_iter().for_each(|&token| then.push(token));
        }
        let ids: Vec<usize> = tokens.iter().map(|&token| token as usize).collect();
        let uniform = |place: usize, draw| sampling.uniform((written + place) as u64, draw);
        let accepted = speculate(
            &ids,
            &probabilities,
            &target,
            |place| uniform(place, Draw::Accept),
            |place| uniform(place, Draw::Correction),
        );
        counts = [counts[0] + accepted.count, counts[1] + count];
        for token in tokens[..accepted.count].iter().copied().chain([accepted.next as i32]) {
            if request.ends.contains(&token) {
                return Ok((Finish::End(token), counts));
            }
            text.push(token);
            past.push(token);
            on_token(token);
            if text.len() - request.prompt.len() == request.most {
                return Ok((Finish::Length, counts));
            }
            if text.len() > context {
                return Ok((Finish::Context, counts));
            }
        }
        // Remove the rejected tokens, and the last token, which neither model has read.
        own.cut(text.len() - 1);
        other.cut(text.len() - 1);
    }
}

/// Proposed tokens, and the distributions that they were drawn from.
struct Draft {
    tokens: Vec<i32>,
    probabilities: Vec<Vec<f64>>,
}

fn propose(
    side: &mut Side<'_>,
    sampling: &Sampling,
    text: &[i32],
    past: &Past,
    written: usize,
    count: usize,
) -> Result<Draft> {
    let (mut text, mut past) = (text.to_vec(), past.clone());
    let mut draft = Draft { tokens: Vec::new(), probabilities: Vec::new() };
    for place in 0..count {
        let logits = side.logits(&text, 1)?;
        let probabilities = sampling.probabilities(&logits[0], &past).map_err(undrawable)?;
        let token = draw(&probabilities, sampling.uniform((written + place) as u64, Draw::Token)) as i32;
        draft.tokens.push(token);
        draft.probabilities.push(probabilities);
        text.push(token);
        past.push(token);
    }
    Ok(draft)
}

fn undrawable(error: SamplingError) -> Error {
    refusal(error.to_string(), error.remedy())
}
