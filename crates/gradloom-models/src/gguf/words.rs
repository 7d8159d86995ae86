//! Ways to split text into words before bytes are merged, by the names that llama.cpp gives.
//!
//! In: the value of `tokenizer.ggml.pre`. Out: [`Words`]. Always holds: the patterns are those of the
//! tokenizer.json of the models that the name stands for, or of llama.cpp where it has its own.

/// A way to split text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Regular expressions, each of which splits what those before it left; none for GPT-2's.
    pub(super) patterns: &'static [&'static str],
    /// True if a word that is a token is encoded as that token, whatever the merges.
    pub(super) whole: bool,
    /// True if texts begin with a token when the file does not say.
    pub(super) begins: bool,
}

/// GPT-2's (Radford et al., 2019).
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Llama 3's: GPT-4's without its possessive quantifiers.
const LLAMA3: &[&str] = &[concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// Qwen 2's: the same with single digits.
const QWEN2: &[&str] = &[concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// Mistral's Tekken: words change where capitals begin.
const TEKKEN: &[&str] = &[concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// GPT-4o's, also Llama 4's: as Tekken's, with contractions and up to three digits.
const GPT4O: &[&str] = &[concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)];

/// llama.cpp's own, for files of before names were given.
const DEFAULT: &[&str] = &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"];

/// Returns the way of this name, if it is known.
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
