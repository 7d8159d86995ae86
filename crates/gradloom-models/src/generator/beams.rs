//! Beam search over paged keys and values.

use super::Generator;
use super::memory::{NewTokens, floats};
use super::program::Head;
use crate::decoding::{BeamOptions, Beams, Hypothesis};
use crate::kv::pages::SequenceId;
use gradloom_core::error::Result;

impl Generator {
    /// Returns the best continuations of a prompt, best first; see [`Beams`]. The blocks of the search must
    /// fit in memory in addition to those of the requests. Requests are not affected.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, if the prompt followed by `most` tokens exceeds the
    /// context, if there are too few blocks, or if the device fails.
    pub fn beams(&mut self, prompt: &[i32], options: BeamOptions) -> Result<Vec<Hypothesis>> {
        self.check_text(prompt, options.most)?;
        let mut beams = Beams::new(options)?;
        let mut running = vec![self.memory.begin(prompt, true)];
        let outcome = self.search(&mut beams, prompt, &mut running);
        for sequence in running {
            self.memory.pages.end(sequence).expect("it has begun");
        }
        outcome.map(|()| beams.finish())
    }

    fn search(&mut self, beams: &mut Beams, prompt: &[i32], running: &mut Vec<SequenceId>) -> Result<()> {
        let step = self.memory.read(running[0], prompt, self.options.chunk, Head::Last)?;
        let mut logits = floats(&step, 0);
        loop {
            let vocabulary = self.memory.vocabulary();
            logits.truncate(running.len() * vocabulary);
            logits.chunks_mut(vocabulary).for_each(log_softmax);
            let extensions = beams.step(&logits)?;
            if extensions.is_empty() {
                return Ok(());
            }
            let parents = extensions.iter().map(|extension| running[extension.parent]);
            let forked = parents.map(|parent| self.memory.pages.fork(parent).expect("it has begun"));
            let forked = forked.collect();
            for parent in std::mem::replace(running, forked) {
                self.memory.pages.end(parent).expect("it has begun");
            }
            let tokens: Vec<[i32; 1]> = extensions.iter().map(|extension| [extension.token]).collect();
            let rows = running.iter().zip(&tokens);
            let rows: Vec<NewTokens<'_>> =
                rows.map(|(&sequence, tokens)| NewTokens::known(sequence, tokens)).collect();
            logits = floats(&self.memory.append(&rows, Head::Last)?, 0);
        }
    }
}

/// Converts logits to log-probabilities in place.
fn log_softmax(logits: &mut [f32]) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| libm::exp(f64::from(x - most))).sum();
    let log = f64::from(most) + libm::log(sum);
    logits.iter_mut().for_each(|x| *x = (f64::from(*x) - log) as f32);
}
