//! Positions at which a text can be cut without changing its tokens.
//!
//! In: the components of a tokenizer, and a text. Out: a cut position. Invariant: the ids of the text
//! before the position followed by those of the text after it are the ids of the whole text. If this cannot
//! be guaranteed for a component (a pattern with anchors, a table-driven normalizer), texts are never cut and
//! are encoded whole.
//!
//! A cut position lies between two characters such that normalization changes nothing across it ([`Normal`]),
//! each side is split into words as if the other did not exist ([`Words`]), and no added token touches it. If
//! a word may continue across the position, no token of the vocabulary may occur in the text across it; then
//! no merge crosses it either, and the merges of the two sides are independent.

use super::Bpe;
use super::patterns::Pattern;
use super::pieces::{Spelling, character_of};
use super::strings::{Strings, spread};
use serde_json::Value;
use std::collections::HashMap;
use std::str::from_utf8;
use std::sync::{Mutex, OnceLock, PoisonError};

/// GPT-2's word pattern, built into the `ByteLevel` pre-tokenizer.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Maximum number of cached character pairs.
const REMEMBERED: usize = 1 << 16;
/// Minimum number of positions examined in one pass.
const PART: usize = 1 << 12;
/// Extra distance in bytes, beyond the longest token, between a cut and the end of a text that may continue.
const MARGIN: usize = 8;

/// Finds cut positions in texts for a tokenizer.
#[derive(Debug)]
pub(super) struct Cuts {
    /// Normalization and splitting steps; `None` if no position can be proven safe.
    steps: Option<(Vec<Normal>, Vec<Words>)>,
    /// Added tokens that are matched in the original text.
    plain: Strings,
    /// Added tokens that are matched in normalized text.
    normalized: Strings,
    /// True if an added token absorbs adjacent whitespace.
    takes_blanks: bool,
    /// The vocabulary, if it determines where merges are possible. Created on first use.
    vocabulary: OnceLock<Option<Strings>>,
    /// Length in bytes of the longest token of any kind, plus [`MARGIN`].
    reach: usize,
    joints: Mutex<HashMap<(char, char), Joint>>,
}

/// Relation of two adjacent characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    /// Normalization or splitting may treat the characters differently when they are separated.
    Closed,
    /// A word may continue across the boundary.
    Inner,
    /// A word ends or begins at the boundary.
    Edge,
}

/// A step of normalization.
#[derive(Debug)]
enum Normal {
    /// Canonical composition (NFC).
    Compose,
    /// A step that leaves printable ASCII unchanged, except that `lower` makes it lowercase. Its effect on
    /// other characters is unknown.
    Ascii {
        lower: bool,
    },
    Lower,
    Replace {
        from: String,
        to: String,
    },
    ReplaceMatches(Pattern),
    Prepend(char),
    Strip {
        left: bool,
        right: bool,
    },
}

/// A step of splitting a text into words.
#[derive(Debug)]
enum Words {
    /// Splits before and after each match of a pattern.
    Split(Pattern),
    /// Represents bytes as characters, after prepending a space if `prefix` is set.
    Bytes {
        prefix: bool,
        words: Option<Pattern>,
    },
    /// Replaces spaces by `sign`, and prepends `sign` to the text unless `never` is set.
    Sign {
        sign: char,
        never: bool,
        first: bool,
        split: bool,
    },
    /// Splits at whitespace.
    Blanks {
        punctuation: bool,
    },
    Digits {
        single: bool,
    },
    Punctuation,
}

impl Cuts {
    /// Analyzes a tokenizer whose longest token has `longest` bytes.
    pub(super) fn of(inner: &tokenizers::Tokenizer, spelling: Spelling, longest: usize) -> Self {
        let part = |part: Result<Value, serde_json::Error>| part.unwrap_or_default();
        let normal = part(serde_json::to_value(inner.get_normalizer()));
        let normal = sequence(&normal, "normalizers", &|step| Normal::of(step));
        let words = part(serde_json::to_value(inner.get_pre_tokenizer()));
        let words = sequence(&words, "pretokenizers", &|step| Words::of(step));
        // `Prepend` must be the first step: earlier steps would see a later piece without its leading space.
        let normal =
            normal.filter(|steps| steps.iter().skip(1).all(|step| !matches!(step, Normal::Prepend(_))));
        let put = normal.as_ref().and_then(|steps| put_before(steps));
        let (mut plain, mut normalized, mut takes_blanks) = (Vec::new(), Vec::new(), false);
        for (id, token) in inner.get_added_tokens_decoder() {
            takes_blanks |= token.lstrip || token.rstrip;
            if token.normalized {
                // The crate stores the normalized content, so search for that.
                let content = inner.id_to_token(id).unwrap_or(token.content);
                normalized.extend(with_and_without(spelling.spaced(&content).into_bytes(), put));
            } else {
                plain.push(token.content.into_bytes());
            }
        }
        let (plain, normalized) = (Strings::new(plain), Strings::new(normalized));
        Self {
            steps: normal.zip(words),
            reach: longest.max(plain.longest).max(normalized.longest) + MARGIN,
            plain,
            normalized,
            takes_blanks,
            vocabulary: OnceLock::new(),
            joints: Mutex::default(),
        }
    }

    /// Returns `true` if normalization prepends a character to every text.
    pub(super) fn prepends(&self) -> bool {
        self.steps.as_ref().is_some_and(|(normal, _)| put_before(normal).is_some())
    }

    /// Returns the last safe cut position in a text that may continue.
    pub(super) fn last(&self, text: &[u8], of: &Bpe) -> Option<usize> {
        self.search(text, of, &mut 0)
    }

    /// Implements [`Cuts::last`] and adds its cost to `steps`. The cost is proportional to the number of
    /// bytes after the position.
    fn search(&self, text: &[u8], of: &Bpe, steps: &mut usize) -> Option<usize> {
        let (normal, words) = self.steps.as_ref()?;
        let mut end = text.len().checked_sub(self.plain.longest.max(self.normalized.longest) + MARGIN)?;
        let mut joints = self.joints.lock().unwrap_or_else(PoisonError::into_inner);
        // Do not cut off a piece that consists only of the prepended space: without the space, it would be
        // empty.
        let least = 1 + usize::from(self.prepends());
        while end >= least {
            // Examine at least `4 * reach` positions per part: the context of a part has twice that length,
            // and the total cost must remain linear.
            let begin = least.max((end + 1).saturating_sub(PART.max(4 * self.reach)));
            let mut part =
                Part { text, begin, end, plain: None, image: None, normalized: None, vocabulary: None };
            let place = (begin..=end).rev().find(|&at| {
                *steps += 1;
                let Some((a, b)) = before(text, at).zip(after(text, at)) else { return false };
                if joints.len() >= REMEMBERED {
                    joints.clear();
                }
                let joint = joints.entry((a, b)).or_insert_with(|| match self.takes_blanks {
                    true if a.is_whitespace() && b.is_whitespace() => Joint::Closed,
                    _ => joint(normal, words, a, b, of).unwrap_or(Joint::Closed),
                });
                match *joint {
                    Joint::Closed => false,
                    _ if self.is_plain_found(&mut part, at, b, steps) => false,
                    _ if self.is_normalized_found(normal, &mut part, at, b, of.spelling, steps) => false,
                    Joint::Edge => true,
                    Joint::Inner => self.is_between_tokens(normal, &mut part, at, of, steps),
                }
            });
            if place.is_some() {
                return place;
            }
            end = begin - 1;
        }
        None
    }

    /// Returns `true` if an added token in the original text touches the position or the next character. The
    /// next character matters because it becomes the first one once a prepended space is removed.
    fn is_plain_found(&self, part: &mut Part, at: usize, b: char, steps: &mut usize) -> bool {
        if self.plain.longest == 0 {
            return false;
        }
        let from = part.begin.saturating_sub(self.plain.longest);
        let to = part.text.len().min(part.end + self.plain.longest + MARGIN);
        let text = &part.text[from..to];
        let earliest = part.plain.get_or_insert_with(|| self.plain.earliest(text, steps));
        earliest[at - from] as usize <= at + b.len_utf8() - from
    }

    /// Returns `true` if an added token in the normalized text may touch the position or the next character.
    fn is_normalized_found(
        &self,
        normal: &[Normal],
        part: &mut Part,
        at: usize,
        b: char,
        spelling: Spelling,
        steps: &mut usize,
    ) -> bool {
        if self.normalized.longest == 0 {
            return false;
        }
        let image = part.image.get_or_insert_with(|| {
            Image::new(normal, part.text, part.begin, part.end, self.reach, spelling, steps)
        });
        let earliest = part.normalized.get_or_insert_with(|| image.earliest(&self.normalized, steps));
        let [place, beside] = [at, at + b.len_utf8()].map(|at| image.place(at));
        earliest[place] as usize <= beside
    }

    /// Returns `true` if it is certain that no token of the vocabulary crosses the position.
    fn is_between_tokens(
        &self,
        normal: &[Normal],
        part: &mut Part,
        at: usize,
        of: &Bpe,
        steps: &mut usize,
    ) -> bool {
        let vocabulary = self.vocabulary.get_or_init(|| {
            let both = |token: &[u8]| with_and_without(token.to_vec(), put_before(normal));
            Some(Strings::new(of.literal_tokens()?.flat_map(both).collect()))
        });
        let Some(vocabulary) = vocabulary else { return false };
        let image = part.image.get_or_insert_with(|| {
            Image::new(normal, part.text, part.begin, part.end, self.reach, of.spelling, steps)
        });
        let earliest = part.vocabulary.get_or_insert_with(|| image.earliest(vocabulary, steps));
        let place = image.place(at);
        earliest.get(place + 1).is_some_and(|&earliest| earliest as usize >= place)
    }
}

/// A part of a text in which positions are examined, with the matches in it, computed on demand.
struct Part<'t> {
    text: &'t [u8],
    /// First position to examine.
    begin: usize,
    /// Last position to examine.
    end: usize,
    /// Result of [`Strings::earliest`] for the text that starts `longest` bytes before the first position.
    plain: Option<Vec<u32>>,
    image: Option<Image>,
    /// Result of [`Strings::earliest`] for the added tokens in the image.
    normalized: Option<Vec<u32>>,
    /// Result of [`Strings::earliest`] for the tokens of the vocabulary in the image.
    vocabulary: Option<Vec<u32>>,
}

/// Normalized text around the positions of a [`Part`].
struct Image {
    text: Vec<u8>,
    /// Start of the source range in the original text.
    from: usize,
    /// Image offset of each byte of the original text from `from` on.
    places: Vec<u32>,
    /// Image offsets at which the normalized text is unknown.
    unknown: Vec<usize>,
}

impl Image {
    /// Normalizes the text at positions `begin..=end` and enough of its surroundings for at least `reach`
    /// bytes of the image on each side, or up to the ends of the text.
    fn new(
        normal: &[Normal],
        text: &[u8],
        begin: usize,
        end: usize,
        reach: usize,
        spelling: Spelling,
        steps: &mut usize,
    ) -> Self {
        // Read `4 * reach` bytes on each side, because a character of at most four bytes becomes at least one
        // byte.
        let (from, to) = (begin.saturating_sub(4 * reach), text.len().min(end + 4 * reach));
        let mut made = Self { text: Vec::new(), from, places: Vec::new(), unknown: Vec::new() };
        let space = Some(spelling.space()).filter(|_| spelling != Spelling::Bytes);
        let mut known = HashMap::new();
        for chunk in text[from..to].utf8_chunks() {
            for c in chunk.valid().chars() {
                made.places.extend(std::iter::repeat_n(made.text.len() as u32, c.len_utf8()));
                let image =
                    known.entry(c).or_insert_with(|| normal.iter().try_fold(c, |c, step| step.image(c)));
                match *image {
                    Some(_) if *image == space => made.text.push(b' '),
                    Some(c) => made.text.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    None => made.unknown.push(made.text.len()),
                }
            }
            if !chunk.invalid().is_empty() {
                made.places.extend(chunk.invalid().iter().map(|_| made.text.len() as u32));
                made.unknown.push(made.text.len());
            }
        }
        *steps += made.places.len();
        // The image is unknown at the end because the text may continue.
        made.places.push(made.text.len() as u32);
        made.unknown.push(made.text.len());
        made
    }

    /// Returns the image offset of a position in the text.
    fn place(&self, at: usize) -> usize {
        self.places[at - self.from] as usize
    }

    /// Calls [`Strings::earliest`] for the image, and assumes that a string may match around every unknown
    /// offset.
    fn earliest(&self, strings: &Strings, steps: &mut usize) -> Vec<u32> {
        let mut earliest = strings.earliest(&self.text, steps);
        let far = strings.longest + MARGIN;
        for &unknown in &self.unknown {
            let until = &mut earliest[self.text.len().min(unknown + far)];
            *until = (*until).min(unknown.saturating_sub(far) as u32);
        }
        spread(&mut earliest);
        earliest
    }
}

/// Returns the character that normalization prepends to a text.
fn put_before(normal: &[Normal]) -> Option<char> {
    match normal.first() {
        Some(Normal::Prepend(sign)) => Some(*sign),
        _ => None,
    }
}

/// Returns the two strings to search a text for: the token without its leading space or `put`, which
/// normalization may have prepended (empty if it starts with neither), and the whole token.
fn with_and_without(token: Vec<u8>, put: Option<char>) -> [Vec<u8>; 2] {
    let put = put.unwrap_or(' ').to_string();
    let without = token.strip_prefix(b" ").or_else(|| token.strip_prefix(put.as_bytes()));
    [without.unwrap_or_default().to_vec(), token]
}

/// Returns the joint of two characters, or `None` for [`Joint::Closed`].
fn joint(normal: &[Normal], words: &[Words], a: char, b: char, of: &Bpe) -> Option<Joint> {
    let (mut left, mut right, mut put) = (a, b, None);
    for step in normal {
        if let Normal::Prepend(sign) = step {
            put = Some(*sign);
        } else if step.joins(left, right) {
            return None;
        }
        (left, right) = (step.image(left)?, step.image(right)?);
        if let Some(sign) = &mut put {
            *sign = step.image(*sign)?;
        }
    }
    // Allow a cut only before a space, which is removed from the piece after the cut and prepended again.
    if put.is_some_and(|sign| b != ' ' || sign != right) {
        return None;
    }
    let mut is_edge = false;
    for step in words {
        (left, right) = step.pass(left, right, &mut is_edge)?;
    }
    match is_edge {
        true => Some(Joint::Edge),
        false => (of.knows(left) && of.knows(right)).then_some(Joint::Inner),
    }
}

/// Returns the UTF-8 character that ends at a position.
fn before(text: &[u8], at: usize) -> Option<char> {
    let goes_on = |place: &usize| text[*place] & 0xc0 == 0x80;
    let from = (at.saturating_sub(4)..at).rev().find(|place| !goes_on(place))?;
    let mut characters = from_utf8(&text[from..at]).ok()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// Returns the UTF-8 character that begins at a position.
fn after(text: &[u8], at: usize) -> Option<char> {
    let length = match *text.get(at)? {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return None,
    };
    from_utf8(text.get(at..at + length)?).ok()?.chars().next()
}

/// Returns the steps of a tokenizer component, or `None` if one is unknown.
fn sequence<T>(part: &Value, name: &str, step: &dyn Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match &part[name] {
        _ if part.is_null() => Some(Vec::new()),
        Value::Array(parts) if part["type"] == "Sequence" => {
            let steps: Option<Vec<_>> = parts.iter().map(|part| sequence(part, name, step)).collect();
            Some(steps?.into_iter().flatten().collect())
        }
        _ => Some(vec![step(part)?]),
    }
}

/// Returns `true` if composition leaves a character unchanged, by itself and together with the preceding
/// characters.
fn begins_anew(c: char) -> bool {
    matches!(c,
        '\0'..='~' | '¡'..='ſ' | 'Α'..='ώ' | 'А'..='я' | '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{64a}'
        | '\u{e01}'..='\u{e30}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3029}'
        | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '가'..='힣'
        | '！'..='～' | '\u{1f300}'..='\u{1faff}')
}

impl Normal {
    fn of(step: &Value) -> Option<Self> {
        let text = |name: &str| step[name].as_str().map(str::to_string);
        match step["type"].as_str()? {
            "NFC" => Some(Self::Compose),
            "NFD" | "NFKC" | "NFKD" | "StripAccents" | "Nmt" => Some(Self::Ascii { lower: false }),
            "BertNormalizer" => Some(Self::Ascii { lower: step["lowercase"] != false }),
            "Lowercase" => Some(Self::Lower),
            "Prepend" => {
                let put = text("prepend")?;
                let mut characters = put.chars();
                characters.next().filter(|_| characters.next().is_none()).map(Self::Prepend)
            }
            "Strip" => {
                Some(Self::Strip { left: step["strip_left"] != false, right: step["strip_right"] != false })
            }
            "Replace" => match (&step["pattern"]["String"], &step["pattern"]["Regex"]) {
                (Value::String(from), _) if !from.is_empty() => {
                    Some(Self::Replace { from: from.clone(), to: text("content")? })
                }
                (_, Value::String(pattern)) => Pattern::new(pattern).map(Self::ReplaceMatches),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns `true` if a step may treat two characters differently when they are separated.
    fn joins(&self, a: char, b: char) -> bool {
        match self {
            Self::Strip { left, right } => *left && b.is_whitespace() || *right && a.is_whitespace(),
            Self::ReplaceMatches(pattern) => {
                let read = pattern.reads(a, b);
                read.both || read.empty
            }
            // A `Replace` pattern of several characters contains neither `a` nor `b`: otherwise, `image`
            // returns `None`.
            _ => false,
        }
    }

    /// Returns the normalized form of a character, or `None` if it depends on the context or is not a single
    /// character.
    fn image(&self, c: char) -> Option<char> {
        let single = |text: &mut dyn Iterator<Item = char>| text.next().filter(|_| text.next().is_none());
        match self {
            Self::Compose => begins_anew(c).then_some(c),
            Self::Ascii { lower } if matches!(c, ' '..='~') => {
                Some(if *lower { c.to_ascii_lowercase() } else { c })
            }
            Self::Ascii { .. } => None,
            Self::Lower => single(&mut c.to_lowercase()),
            Self::Replace { from, .. } if !from.contains(c) => Some(c),
            Self::Replace { from, to } => {
                single(&mut from.chars())?;
                single(&mut to.chars())
            }
            Self::ReplaceMatches(pattern) => (!pattern.reads(c, c).has[0]).then_some(c),
            Self::Prepend(_) | Self::Strip { .. } => Some(c),
        }
    }
}

impl Words {
    fn of(step: &Value) -> Option<Self> {
        match step["type"].as_str()? {
            // Exclude the other behaviors, which attach a match to its neighbors.
            "Split" if matches!(step["behavior"].as_str(), Some("Isolated" | "Removed")) => {
                match (&step["pattern"]["String"], &step["pattern"]["Regex"]) {
                    (Value::String(text), _) if !text.is_empty() => Pattern::literal(text),
                    (_, Value::String(pattern)) => Pattern::new(pattern),
                    _ => None,
                }
                .map(Self::Split)
            }
            "ByteLevel" => {
                let words = if step["use_regex"] == false { None } else { Some(Pattern::new(GPT2)?) };
                Some(Self::Bytes { prefix: step["add_prefix_space"] != false, words })
            }
            "Metaspace" => Some(Self::Sign {
                sign: step["replacement"].as_str()?.chars().next()?,
                never: step["prepend_scheme"] == "never",
                first: step["prepend_scheme"] == "first",
                split: step["split"] != false,
            }),
            "WhitespaceSplit" => Some(Self::Blanks { punctuation: false }),
            "BertPreTokenizer" => Some(Self::Blanks { punctuation: true }),
            "Whitespace" => Pattern::new(r"\w+|[^\w\s]+").map(Self::Split),
            "Digits" => Some(Self::Digits { single: step["individual_digits"] == true }),
            "Punctuation" if matches!(step["behavior"].as_str(), Some("Isolated" | "Removed")) => {
                Some(Self::Punctuation)
            }
            _ => None,
        }
    }

    /// Returns both characters after the step, or `None` if the step may depend on the two being adjacent.
    /// Sets `is_edge` if a word certainly ends between them; later steps then see the two sides separately.
    fn pass(&self, a: char, b: char, is_edge: &mut bool) -> Option<(char, char)> {
        match self {
            Self::Split(pattern) if !*is_edge => {
                let read = pattern.reads(a, b);
                *is_edge = read.alone != [false; 2];
                (!read.both).then_some((a, b))
            }
            Self::Split(_) => Some((a, b)),
            Self::Bytes { prefix, words } => {
                if *prefix && !*is_edge && b != ' ' {
                    return None;
                }
                if let Some(pattern) = words.as_ref().filter(|_| !*is_edge) {
                    let read = pattern.reads(a, b);
                    *is_edge = read.alone != [false; 2];
                    if read.both {
                        return None;
                    }
                }
                let bytes = |c: char| c.to_string().into_bytes();
                Some((character_of(*bytes(a).last()?), character_of(bytes(b)[0])))
            }
            Self::Sign { sign, never, first, split } => {
                let [a, b] = [a, b].map(|c| if c == ' ' { *sign } else { c });
                // Reject a cut after which the step would prepend `sign` to the right side.
                if !never && (!*is_edge || *first) && b != *sign {
                    return None;
                }
                *is_edge |= *split && b == *sign;
                Some((a, b))
            }
            Self::Blanks { punctuation } => {
                let is_apart = |c: char| c.is_whitespace() || *punctuation && c.is_ascii_punctuation();
                *is_edge |= is_apart(a) || is_apart(b);
                Some((a, b))
            }
            Self::Digits { single } => {
                let digits = [a, b].map(char::is_numeric);
                *is_edge |= digits[0] != digits[1] || *single && digits[0];
                Some((a, b))
            }
            Self::Punctuation => {
                *is_edge |= a.is_ascii_punctuation() || b.is_ascii_punctuation();
                Some((a, b))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{LongText, Tokenizer};
    use serde_json::json;

    /// Creates a tokenizer without a pre-tokenizer. It has tokens for runs of `letter` up to length `run`, so
    /// every position in a run is crossed by a token.
    fn tokenizer(letter: char, run: usize, added: &[(usize, bool)], normalizer: &Value) -> Bpe {
        let mut vocabulary: Vec<String> = (0..=255).map(|byte| character_of(byte).to_string()).collect();
        let mut merges = Vec::new();
        for length in 2..=run {
            merges.push(json!([letter.to_string().repeat(length - 1), letter]));
            vocabulary.push(letter.to_string().repeat(length));
        }
        let added: Vec<Value> = added
            .iter()
            .zip(vocabulary.len()..)
            .map(|(&(length, normalized), id)| {
                let content = letter.to_string().repeat(length) + "b";
                json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                       "normalized": normalized, "special": false})
            })
            .collect();
        let ids: serde_json::Map<String, Value> =
            vocabulary.into_iter().zip(0..).map(|(token, id)| (token, json!(id))).collect();
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let file = json!({
            "version": "1.0", "added_tokens": added, "normalizer": normalizer, "pre_tokenizer": bytes,
            "decoder": bytes, "model": {"type": "BPE", "vocab": ids, "merges": merges},
        });
        Bpe::from_json(file.to_string().as_bytes(), "t").unwrap()
    }

    /// Returns the number of steps that cutting a text takes, and the number of pieces.
    fn steps(bpe: &Bpe, text: &[u8]) -> (usize, usize) {
        let (steps, mut pieces) = (std::cell::Cell::new(0), 0);
        let mut long = LongText::new(text);
        let cut = |text: &[u8]| {
            let mut taken = steps.get();
            let place = bpe.cuts.search(text, bpe, &mut taken);
            assert_eq!(place, bpe.last_cut(text));
            steps.set(taken);
            place
        };
        while long.next(&cut).unwrap().is_some() {
            pieces += 1;
        }
        (steps.get(), pieces)
    }

    /// The cost is linear whatever the length of the tokens and the number of matches at each position.
    #[test]
    fn steps_go_with_the_bytes_of_a_text() {
        let ascii = json!({"type": "NFKC"});
        let none = json!(null);
        for (letter, run, added, normalizer) in [
            ('a', 2, &[][..], &none),
            ('a', 2, &[(128, false)], &none),
            ('a', 2, &[(1000, false), (20_000, false)], &none),
            ('a', 2, &[(1000, true)], &none),
            ('a', 2, &[(1000, true), (128, false)], &ascii),
            ('-', 31, &[(100, false)], &none),
            ('-', 400, &[(3000, true)], &ascii),
        ] {
            let bpe = tokenizer(letter, run, added, normalizer);
            for length in [100_000, 400_000] {
                let text = letter.to_string().repeat(length).into_bytes();
                let (steps, _) = steps(&bpe, &text);
                let longest = added.iter().map(|(bytes, _)| bytes).max().copied().unwrap_or(0) + run * run;
                let most = 30 * (length + longest);
                assert!(steps <= most, "{letter} {run} {added:?}: {steps} steps for {length} bytes");
            }
        }
    }

    /// A text without word boundaries is cut between letters that no token joins.
    #[test]
    fn a_text_without_words_is_cut_between_its_tokens() {
        let bpe = tokenizer('a', 31, &[(100, false), (70, true)], &json!({"type": "NFKC"}));
        let text = "aaaac".repeat(60_000);
        let (steps, pieces) = steps(&bpe, text.as_bytes());
        assert!(pieces > 3 && steps < text.len(), "{steps} steps, {pieces} pieces");
        // The image of "é" is unknown, so cuts keep a distance of the longest token from it.
        let odd = format!("{}é{}", "aaaac".repeat(100), "aaaac".repeat(100));
        let place = bpe.last_cut(&odd.as_bytes()[..620]).unwrap();
        assert!(place < 500 - 70, "{place}");
        assert!(bpe.last_cut(odd.as_bytes()).unwrap() > 502 + 70);
    }
}
