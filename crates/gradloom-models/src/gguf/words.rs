//! Pre-tokenizers of byte-level BPEs, by llama.cpp's names.
//!
//! In: the value of `tokenizer.ggml.pre`. Out: [`Words`]. Invariant: the patterns are those in the
//! tokenizer.json of the named models, or llama.cpp's own where they differ.

/// A pre-tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Regular expressions, applied one after the other to the parts that result. Empty for GPT-2's pattern.
    pub(super) patterns: &'static [&'static str],
    /// True if a word that is a token is always encoded as that token, even if merges would not produce it.
    pub(super) whole: bool,
    /// True if texts begin with a BOS token unless the file specifies otherwise.
    pub(super) begins: bool,
}

/// GPT-2's pattern (Radford et al., 2019).
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Llama 3's pattern: GPT-4's without possessive quantifiers.
const LLAMA3: &[&str] = &[concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// Qwen 2's pattern: Llama 3's with single digits.
const QWEN2: &[&str] = &[concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// Pattern of Mistral's Tekken, which also splits before capital letters.
const TEKKEN: &[&str] = &[concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// GPT-4o's pattern, also used by Llama 4: Tekken's with contractions and up to three digits.
const GPT4O: &[&str] = &[concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// llama.cpp's own patterns for files from before pre-tokenizers were named.
const DEFAULT: &[&str] = &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"];

/// Returns the pre-tokenizer with this name, if it is known.
pub(super) fn find(name: &str) -> Option<Words> {
    let (patterns, whole, begins): (&[&str], bool, bool) = match name {
        "gpt-2" | "mpt" | "olmo" | "jais" | "phi-2" | "trillion" | "gigachat" | "a.x-4.0" | "mellum" => {
            (&[], false, false)
        }
        "default" => (DEFAULT, false, false),
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => {
            (LLAMA3, true, true)
        }
        "dbrx" | "smaug-bpe" => (LLAMA3, false, false),
        "qwen2" | "deepseek-r1-qwen" | "stablelm2" => (QWEN2, false, false),
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" => (&[r"\p{N}", GPT2], false, false),
        "falcon" => (&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], false, false),
        "tekken" => (TEKKEN, true, true),
        "gpt-4o" | "llama4" => (GPT4O, false, false),
        _ => return None,
    };
    Some(Words { patterns, whole, begins })
}
