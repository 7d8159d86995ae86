//! Programs over a cache: one for each of a few numbers of tokens at once.

use super::TextCache;
use crate::language_model::LanguageModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Tensor, i32};
use gradloom_runtime::{Infer, Session};
use std::collections::BTreeMap;

/// A text that grows, over the parameters of a session.
///
/// Tokens are appended by programs of 1, 2, 4, .. tokens, each compiled when it is first needed: a prompt
/// takes one run, filled up to the next of these lengths, and every further token one run of the first
/// program, whose cost does not depend on how the text came about. The text is in the session's store:
/// decoders of one name over one session go on with the same text.
#[derive(Debug)]
pub struct Decoder<'s, M> {
    session: &'s Session<M>,
    cache: TextCache,
    programs: BTreeMap<usize, Infer<2, Tensor>>,
}

impl<'s, M: LanguageModel> Decoder<'s, M> {
    /// A decoder of the text with this name, which is empty unless the session has one. Compiles the program
    /// for one token, so that the session's store has all parameters afterwards.
    ///
    /// # Errors
    /// As [`Session::infer`].
    pub fn new(session: &'s Session<M>, name: &str) -> Result<Self> {
        Self::over(session, TextCache::new(session.model().sizes(), name))
    }

    /// The same for a cache of one's own: one in 16 bits ([`TextCache::kept_as`]), or a short one.
    ///
    /// # Errors
    /// As [`Session::infer`].
    pub fn over(session: &'s Session<M>, cache: TextCache) -> Result<Self> {
        let mut decoder = Self { session, cache, programs: BTreeMap::new() };
        decoder.program(1)?;
        Ok(decoder)
    }

    /// Number of tokens in the text.
    ///
    /// # Errors
    /// On the null device, which keeps no states.
    pub fn length(&self) -> Result<usize> {
        let bytes = self.session.store().read(self.cache.length_name())?;
        let length = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        usize::try_from(length).map_err(|_| {
            Error::new(ErrorKind::Store, format!("the state `{}` is {length}", self.cache.length_name()))
        })
    }

    /// Appends tokens and gives the logits of what follows the last one.
    ///
    /// # Errors
    /// When there are none, or more than fit the model's context or the cache; nothing changes then. When a
    /// token is not in the vocabulary; the text is then as it was, or has some of the tokens that came
    /// before.
    pub fn feed(&mut self, mut tokens: &[i32]) -> Result<Vec<f32>> {
        let context = self.session.model().sizes().context.min(self.cache.room());
        let mut length = self.length()?;
        if tokens.is_empty() || tokens.len() > context - length.min(context) {
            let message = format!("{} tokens after {length} for a context of {context}", tokens.len());
            return Err(Error::new(ErrorKind::Feed, message)
                .help("give at least one token; reset a text that has come to the end of its context"));
        }
        loop {
            let time = chunk(tokens.len(), context - length);
            let count = tokens.len().min(time);
            let (now, later) = tokens.split_at(count);
            let mut ids = now.to_vec();
            ids.resize(time, 0);
            let logits = self.program(time)?.run((&ids, &[count as i32]))?;
            if later.is_empty() {
                return Ok(logits);
            }
            tokens = later;
            length += count;
        }
    }

    /// Empties the text.
    ///
    /// # Errors
    /// On the null device, which keeps no states.
    pub fn reset(&mut self) -> Result<()> {
        self.session.reset_states(self.cache.name())
    }

    /// The plan of the program that appends one token.
    pub fn plan(&self) -> &Plan {
        self.programs[&1].plan()
    }

    /// The program for this many tokens at once.
    fn program(&mut self, time: usize) -> Result<&mut Infer<2, Tensor>> {
        use std::collections::btree_map::Entry;
        match self.programs.entry(time) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(missing) => {
                let inputs = [i32("ids", [1, time]), i32("count", [])];
                let cache = &self.cache;
                let program = self.session.infer(inputs, |model, [ids, n]| cache.extend(model, ids, n))?;
                Ok(missing.insert(program))
            }
        }
    }
}

/// How many tokens to compute at once, of which `count` are wanted and `room` fit: the least power of two
/// that holds those wanted, or, where so many do not fit, the greatest that need not be filled up.
fn chunk(count: usize, room: usize) -> usize {
    let next = count.next_power_of_two();
    if next <= room { next } else { 1 << count.ilog2() }
}

#[cfg(test)]
mod tests {
    use super::chunk;

    #[test]
    fn chunks_hold_what_is_wanted_or_fit_the_room() {
        for context in [1, 2, 7, 64, 100] {
            for used in 0..context {
                for wanted in 1..=context - used {
                    let (mut count, mut room, mut runs) = (wanted, context - used, 0);
                    while count > 0 {
                        let time = chunk(count, room);
                        assert!(time.is_power_of_two() && time <= room, "{time} of {room}");
                        let done = count.min(time);
                        (count, room, runs) = (count - done, room - done, runs + 1);
                    }
                    assert!(runs <= 1 + wanted.ilog2(), "{wanted} tokens took {runs} runs");
                }
            }
        }
        assert_eq!([1, 2, 3, 5, 64, 65].map(|count| chunk(count, 128)), [1, 2, 4, 8, 64, 128]);
    }
}
