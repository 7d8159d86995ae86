//! Options of a generator.

use gradloom_core::ir::DType;

/// Limits on the memory and batch size of a generator, and its other settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Number of blocks in the pool, one of which holds no text. Each of the others stores the keys and
    /// values of [`GeneratorOptions::block_size`] tokens. A token takes `8 · L · H · D` bytes in f32 for a
    /// model with L layers and H key heads of width D.
    pub blocks: usize,
    /// Number of tokens in a block. Common prefixes are shared in whole blocks.
    pub block_size: usize,
    /// Element type of the stored keys and values: f32, or a 16-bit float type, which takes half the memory.
    pub dtype: DType,
    /// Maximum number of texts in memory. The others wait.
    pub rows: usize,
    /// Maximum number of prompt tokens in a step including padding, rounded down to a power of two.
    pub chunk: usize,
    /// Number of tokens that can be generated, which are those with the lowest ids. A model's vocabulary may
    /// be larger than its tokenizer's. `None` for the model's whole vocabulary.
    pub vocabulary: Option<usize>,
    /// True if the step for the next tokens is queued before the tokens of the previous step are read. This
    /// keeps the device busy, but computes one token too many for a text that ends with one of
    /// [`Request::ends`](super::Request::ends). `None` means true if the device works concurrently with the
    /// host, and false otherwise. No step is queued ahead while prompts are read, or while an active request
    /// has penalties, for which the host must count tokens.
    pub ahead: Option<bool>,
    /// Name of the pool's states in the session's store. Generators of the same session need different names.
    pub name: String,
}

impl GeneratorOptions {
    /// Returns options with blocks of 16 tokens, sufficient for `texts` texts of `tokens` tokens each,
    /// including prompts, without any common prefix.
    ///
    /// There is one extra block per text, because a forked text copies its last block.
    pub fn holding(texts: usize, tokens: usize) -> Self {
        let (block_size, name) = (16, "pages".to_string());
        let blocks = texts.saturating_mul(tokens.div_ceil(block_size) + 1).saturating_add(1);
        let (vocabulary, ahead) = (None, None);
        Self { blocks, block_size, dtype: DType::F32, rows: texts, chunk: 512, vocabulary, ahead, name }
    }
}

impl Default for GeneratorOptions {
    /// Returns options for 16 texts, with 1,024 blocks of 16 tokens in addition to the unused one.
    fn default() -> Self {
        Self::holding(16, 63 * 16)
    }
}
