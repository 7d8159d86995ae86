//! Decoding of a single text with `KeyValueCache`s and logits on the host: the oracle for the generator's
//! pages.

#![allow(dead_code, reason = "no test needs all of it")]

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use gradloom_core::nn::{KeyValueCache, State};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{Tensor, i32, iota};
use gradloom_models::language_model::{LanguageModel, Sizes};
use gradloom_runtime::{Infer, Session};
use std::collections::BTreeMap;

/// Keys and values of all layers for one text, and its length: the states `NAME.length`, `NAME.h.0.keys`,
/// `NAME.h.0.values`, and so on.
pub(crate) struct TextCache {
    name: String,
    length: State,
    layers: Vec<KeyValueCache>,
}

impl TextCache {
    /// Creates an empty cache. Caches with the same name and store share their contents.
    pub(crate) fn new(sizes: Sizes, name: &str, dtype: DType) -> Self {
        let cache = || {
            let cache = KeyValueCache::new(1, sizes.key_heads, sizes.context, sizes.depth).kept_as(dtype);
            sizes.window.map_or(cache.clone(), |window| cache.windowed(window))
        };
        Self {
            name: name.to_string(),
            length: State::new([], DType::I32, 0.0).named(format!("{name}.length")),
            layers: (0..sizes.layers).map(|i| cache().named(&format!("{name}.h.{i}"))).collect(),
        }
    }

    /// Appends the first `count` of the ids, i32 `[1, time]`, and returns the logits of the next token.
    pub(crate) fn extend(&self, model: &impl LanguageModel, ids: Tensor, count: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let length = self.length.tensor();
        self.length.set(length + count);
        let positions = iota(DType::I32, [time], 0) + length;
        let hidden =
            model.hidden(ids, positions, &mut |layer, [q, k, v]| self.layers[layer].extend(q, k, v, length));
        let width = hidden.shape()[2];
        model.logits(hidden.reshape([time, width]).gather_rows((count - 1).reshape([1])))
    }
}

/// A growing text, extended by programs for 1, 2, 4, .. tokens.
pub(crate) struct Decoder<'s, M> {
    session: &'s Session<M>,
    cache: TextCache,
    programs: BTreeMap<usize, Infer<2, Tensor>>,
}

impl<'s, M: LanguageModel> Decoder<'s, M> {
    /// Creates a decoder of the text with this name, which is empty unless the session already contains it.
    pub(crate) fn new(session: &'s Session<M>, name: &str) -> Result<Self> {
        Self::kept_as(session, name, DType::F32)
    }

    pub(crate) fn kept_as(session: &'s Session<M>, name: &str, dtype: DType) -> Result<Self> {
        let cache = TextCache::new(session.model().sizes(), name, dtype);
        let mut decoder = Self { session, cache, programs: BTreeMap::new() };
        decoder.program(1)?;
        Ok(decoder)
    }

    pub(crate) fn length(&self) -> usize {
        let bytes = self.session.store().read(self.cache.length.name().unwrap()).unwrap();
        i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
    }

    /// Appends tokens and returns the logits of the next one.
    pub(crate) fn feed(&mut self, mut tokens: &[i32]) -> Result<Vec<f32>> {
        let room = self.session.model().sizes().context - self.length();
        if tokens.is_empty() || tokens.len() > room {
            return Err(Error::new(ErrorKind::Feed, "no tokens, or more than there is room for"));
        }
        loop {
            // Pad to a power of two if there is enough space.
            let room = self.session.model().sizes().context - self.length();
            let next = tokens.len().next_power_of_two();
            let time = if next <= room { next } else { 1 << tokens.len().ilog2() };
            let (now, later) = tokens.split_at(tokens.len().min(time));
            let mut ids = now.to_vec();
            ids.resize(time, 0);
            let logits = self.program(time)?.run((&ids, &[now.len() as i32]))?;
            if later.is_empty() {
                return Ok(logits);
            }
            tokens = later;
        }
    }

    pub(crate) fn reset(&mut self) {
        self.session.reset_states(&self.cache.name).unwrap();
    }

    /// Returns the plan of the program that appends one token.
    pub(crate) fn plan(&self) -> &Plan {
        self.programs[&1].plan()
    }

    fn program(&mut self, time: usize) -> Result<&mut Infer<2, Tensor>> {
        if !self.programs.contains_key(&time) {
            let inputs = [i32("ids", [1, time]), i32("count", [])];
            let cache = &self.cache;
            let program = self.session.infer(inputs, |model, [ids, n]| cache.extend(model, ids, n))?;
            self.programs.insert(time, program);
        }
        Ok(self.programs.get_mut(&time).expect("it is there"))
    }
}
