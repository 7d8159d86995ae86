//! Options of a generator.

use gradloom_core::ir::DType;

/// Limits on what a generator holds in memory and does at once, and how it does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Blocks of the pool; one of them holds no text. Each takes the keys and values of
    /// [`GeneratorOptions::block_size`] tokens: for a model of L layers with H key heads of depth D,
    /// `8 · L · H · D` bytes a token in f32.
    pub blocks: usize,
    /// Tokens of a block. What texts have in common is shared in whole blocks.
    pub block_size: usize,
    /// Type in which keys and values are kept: f32, or a float of 16 bits, which takes half the memory.
    pub dtype: DType,
    /// Texts that are in memory at once, at most. Others wait.
    pub rows: usize,
    /// Tokens of prompts in a step, at most, those that fill up included; rounded down to a power of two.
    pub chunk: usize,
    /// Only the model's first so many tokens can follow: a model may have more tokens than its tokenizer.
    pub vocabulary: Option<usize>,
    /// True if a step for the next tokens is queued before those of the last step are read. This keeps the
    /// device busy, but a text that ends with a token of [`Request::ends`](super::Request::ends) is
    /// computed one token too far. `None`: true if the device works alongside the host. Steps are never
    /// queued ahead while a request under way has penalties, for which the host counts tokens, or while
    /// prompts are read.
    pub ahead: Option<bool>,
    /// The name of the pool's states in the session's store. Generators of one session need names of their
    /// own.
    pub name: String,
}

impl GeneratorOptions {
    /// Blocks of 16 tokens, as many as so many texts take of so many tokens each, prompts included, that have
    /// nothing in common; with a block more for each, as texts that part copy one.
    pub fn holding(texts: usize, tokens: usize) -> Self {
        let (block_size, name) = (16, "pages".to_string());
        let blocks = texts.saturating_mul(tokens.div_ceil(block_size) + 1).saturating_add(1);
        let (vocabulary, ahead) = (None, None);
        Self { blocks, block_size, dtype: DType::F32, rows: texts, chunk: 512, vocabulary, ahead, name }
    }
}

impl Default for GeneratorOptions {
    /// Returns options for 16 texts over 1,024 blocks of 16 tokens.
    fn default() -> Self {
        Self::holding(16, 63 * 16)
    }
}
