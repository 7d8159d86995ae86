//! Static analysis of how a regular expression can match two adjacent characters.
//!
//! In: a pattern in the syntax of the `fancy-regex` crate, and two characters. Out: [`Reads`]. Invariant:
//! an unsupported construct (lookbehind, anchor, backreference) yields no [`Pattern`], and if a repetition,
//! alternation or assertion has several possible paths, the analysis covers all of them.

use fancy_regex::{Expr, LookAround};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use std::collections::HashMap;
use std::str::from_utf8;
use std::sync::Arc;

/// Maximum length of a pattern in bytes, twenty times that of published tokenizers. Every pair of characters
/// is evaluated against the whole pattern.
const LONGEST: usize = 1 << 13;

/// A regular expression whose matches depend only on the characters that it reads.
#[derive(Debug)]
pub(super) struct Pattern(Node);

#[derive(Debug)]
enum Node {
    /// A single character of a class.
    One(Arc<ClassUnicode>),
    Then(Vec<Node>),
    Or(Vec<Node>),
    Many {
        child: Box<Node>,
        least: usize,
        most: usize,
    },
    /// A lookahead.
    Ahead(Box<Node>),
    /// An atomic group.
    Whole(Box<Node>),
}

/// The ways in which a pattern can match a text in which `a` and `b` are adjacent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// True if the pattern can match the empty string.
    pub(super) empty: bool,
    /// True if the pattern can read `b` directly after `a`, so that an end of the text between them could
    /// change the match.
    pub(super) both: bool,
    /// True if the pattern certainly matches at `a`, or at `b`, whatever the context.
    pub(super) alone: [bool; 2],
    /// True if the pattern can read `a`, or `b`, at all.
    pub(super) has: [bool; 2],
    /// True if the first character that the pattern reads can be `b`.
    begins: bool,
    /// True if the last character that the pattern consumes can be `a`.
    ends: bool,
    /// True if the first character that the pattern consumes can be `a`, or `b`.
    takes: [bool; 2],
    /// True if the pattern certainly matches the empty string at `a`, or at `b`.
    free: [bool; 2],
}

const NOTHING: Reads = Reads {
    empty: true,
    both: false,
    alone: [false; 2],
    has: [false; 2],
    begins: false,
    ends: false,
    takes: [false; 2],
    free: [true; 2],
};

fn either(a: [bool; 2], b: [bool; 2]) -> [bool; 2] {
    [a[0] || b[0], a[1] || b[1]]
}

fn and(a: [bool; 2], b: [bool; 2]) -> [bool; 2] {
    [a[0] && b[0], a[1] && b[1]]
}

impl Reads {
    fn then(self, next: Self) -> Self {
        let skipped = [self.empty; 2];
        Self {
            empty: self.empty && next.empty,
            both: self.both || next.both || self.ends && next.begins,
            alone: either(and(self.alone, next.free), and(self.free, next.alone)),
            has: either(self.has, next.has),
            begins: self.begins || self.empty && next.begins,
            ends: next.ends || next.empty && self.ends,
            takes: either(self.takes, and(skipped, next.takes)),
            free: and(self.free, next.free),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            empty: self.empty || other.empty,
            both: self.both || other.both,
            alone: either(self.alone, other.alone),
            has: either(self.has, other.has),
            begins: self.begins || other.begins,
            ends: self.ends || other.ends,
            takes: either(self.takes, other.takes),
            free: either(self.free, other.free),
        }
    }
}

impl Pattern {
    /// Parses a regular expression. Returns `None` if it is too long or contains an unsupported construct.
    pub(super) fn new(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        Classes::default().node(&Expr::parse_tree(text).ok()?.expr).map(Self)
    }

    /// Creates a pattern that matches a literal string.
    pub(super) fn literal(text: &str) -> Option<Self> {
        (text.len() <= LONGEST).then(|| Classes::default().text(text, false)).flatten().map(Self)
    }

    /// Returns the ways in which the pattern can match two adjacent characters.
    pub(super) fn reads(&self, a: char, b: char) -> Reads {
        self.0.reads(a, b)
    }
}

/// Character classes by pattern and case sensitivity. Equal classes are compiled once.
#[derive(Default)]
struct Classes(HashMap<(String, bool), Arc<ClassUnicode>>);

impl Classes {
    fn one(&mut self, class: &str, ignores_case: bool) -> Option<Node> {
        let key = (class.to_string(), ignores_case);
        if let Some(known) = self.0.get(&key) {
            return Some(Node::One(known.clone()));
        }
        let case = if ignores_case { "(?i)" } else { "" };
        let made = Arc::new(match regex_syntax::parse(&format!("{case}(?:{class})")).ok()?.into_kind() {
            HirKind::Class(Class::Unicode(class)) => class,
            HirKind::Class(Class::Bytes(class)) => class.to_unicode_class()?,
            HirKind::Literal(text) => single(from_utf8(&text.0).ok()?.parse().ok()?),
            _ => return None,
        });
        self.0.insert(key, made.clone());
        Some(Node::One(made))
    }

    fn text(&mut self, text: &str, ignores_case: bool) -> Option<Node> {
        let mut one = |c: char| {
            let key = (c.to_string(), ignores_case);
            if let Some(known) = self.0.get(&key) {
                return Some(Node::One(known.clone()));
            }
            let mut class = single(c);
            if ignores_case {
                class.try_case_fold_simple().ok()?;
            }
            let made = Arc::new(class);
            self.0.insert(key, made.clone());
            Some(Node::One(made))
        };
        text.chars().map(&mut one).collect::<Option<_>>().map(Node::Then)
    }

    fn node(&mut self, expression: &Expr) -> Option<Node> {
        Some(match expression {
            Expr::Empty => Node::Then(Vec::new()),
            Expr::Any { newline: true } => self.one("(?s:.)", false)?,
            Expr::Any { newline: false } => self.one(".", false)?,
            Expr::Literal { val, casei } => self.text(val, *casei)?,
            Expr::Concat(parts) => Node::Then(self.all(parts)?),
            Expr::Alt(parts) => Node::Or(self.all(parts)?),
            Expr::Group(part) => self.node(part)?,
            Expr::AtomicGroup(part) => Node::Whole(Box::new(self.node(part)?)),
            Expr::LookAround(part, LookAround::LookAhead | LookAround::LookAheadNeg) => {
                Node::Ahead(Box::new(self.node(part)?))
            }
            Expr::Repeat { child, lo, hi, .. } => {
                Node::Many { child: Box::new(self.node(child)?), least: *lo, most: *hi }
            }
            Expr::Delegate { inner, size: 1, casei } => self.one(inner, *casei)?,
            _ => return None,
        })
    }

    fn all(&mut self, parts: &[Expr]) -> Option<Vec<Node>> {
        parts.iter().map(|part| self.node(part)).collect()
    }
}

fn single(c: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(c, c)])
}

/// Returns `true` if a class contains a character.
fn has(class: &ClassUnicode, c: char) -> bool {
    let ranges = class.ranges();
    ranges.get(ranges.partition_point(|range| range.end() < c)).is_some_and(|range| range.start() <= c)
}

impl Node {
    fn reads(&self, a: char, b: char) -> Reads {
        match self {
            Self::One(class) => {
                let has = [a, b].map(|c| has(class, c));
                Reads { alone: has, has, begins: has[1], ends: has[0], takes: has, ..Reads::default() }
            }
            Self::Then(parts) => parts.iter().fold(NOTHING, |before, part| before.then(part.reads(a, b))),
            Self::Or(parts) => {
                parts.iter().fold(Reads::default(), |before, part| before.or(part.reads(a, b)))
            }
            Self::Many { most: 0, .. } => NOTHING,
            Self::Many { child, least, most } => {
                let once = child.reads(a, b);
                let (optional, again) = (*least == 0, *most > 1);
                Reads {
                    empty: once.empty || optional,
                    both: once.both || again && once.ends && once.begins,
                    alone: if *least <= 1 { once.alone } else { and(once.alone, once.free) },
                    free: if optional { [true; 2] } else { once.free },
                    ..once
                }
            }
            Self::Ahead(part) => {
                let Reads { both, has, begins, .. } = part.reads(a, b);
                Reads { both, has, begins, empty: true, ..Reads::default() }
            }
            Self::Whole(part) => {
                let read = part.reads(a, b);
                Reads { free: and(read.free, read.takes.map(|takes| !takes)), ..read }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fancy_regex::Regex;

    fn reads(pattern: &str, a: char, b: char) -> Reads {
        Pattern::new(pattern).unwrap_or_else(|| panic!("{pattern}")).reads(a, b)
    }

    /// Checks every pattern, pair and short text: every match that contains both characters, or that an end
    /// of the text between them changes, was reported as possible; and every match reported as certain
    /// occurs.
    #[test]
    fn what_is_said_holds_of_every_short_text() {
        let patterns = [
            "'s|'t| ?a+| ?1+| ?[^\\sa1]+|\\s+(?!\\S)|\\s+",
            "[^\\na1]?a+|1{1,3}| ?[^\\sa1]+[\\n]*|\\s*\\n+|\\s+(?!\\S)|\\s+",
            "a b",
            "a+(?= ,)|.",
            "(?=(1{3})+(?!1))",
            "(?i:A)+ ?",
            "a?+a|\\n",
            "(?>a*) (?!a)|[^a]",
            "a{2}|,",
            "(?:a| )*1",
            "[\\s\\S]",
            "(?:a(?! )|1)+",
        ];
        let letters = ['a', '1', ' ', ',', '\n', '\''];
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            let longer = texts.iter().flat_map(|text| letters.map(|c| format!("{text}{c}")));
            texts = longer.chain([String::new()]).collect();
        }
        let matches = |regex: &Regex, text: &str| -> Vec<(usize, usize)> {
            let found = regex.find_iter(text).map(|found| found.unwrap());
            found.map(|found| (found.start(), found.end())).filter(|(start, end)| start < end).collect()
        };
        let mut cut = 0;
        for pattern in patterns {
            let regex = Regex::new(pattern).unwrap();
            let (known, mut seen) = (Pattern::new(pattern).unwrap(), HashMap::new());
            for text in &texts {
                let whole = matches(&regex, text);
                let pairs = text.char_indices().zip(text.char_indices().skip(1));
                for ((_, a), (at, b)) in pairs {
                    let read: &mut Reads = seen.entry((a, b)).or_insert_with(|| known.reads(a, b));
                    if read.both {
                        continue;
                    }
                    cut += 1;
                    let mut parts = matches(&regex, &text[..at]);
                    parts.extend(matches(&regex, &text[at..]).iter().map(|(s, e)| (s + at, e + at)));
                    assert_eq!(parts, whole, "{pattern:?} of {text:?}, cut at {at}");
                    let edges = whole.iter().any(|&(start, end)| start == at || end == at);
                    assert!(edges || read.alone == [false; 2], "{pattern:?} of {text:?}, cut at {at}");
                }
            }
        }
        assert!(cut > 100_000, "{cut}");
    }

    #[test]
    fn words_of_models_end_where_they_should() {
        let gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
        for (a, b) in [('a', ' '), ('文', '，'), ('1', '\n'), ('a', '1'), ('.', '\n')] {
            let read = reads(gpt2, a, b);
            assert!(!read.both && read.alone != [false; 2], "{a:?} {b:?}");
        }
        for (a, b) in [('a', 'b'), (' ', ' '), (' ', 'a'), ('\n', 'a'), ('.', '!'), ('\'', 's')] {
            assert!(reads(gpt2, a, b).both, "{a:?} {b:?}");
        }
        for pattern in ["(?<=a)b", "^a", "a$", r"\bа", r"(a)\1"] {
            assert!(Pattern::new(pattern).is_none(), "{pattern}");
        }
    }
    /// Checks that a class contains exactly the characters that it matches.
    #[test]
    fn classes_have_the_characters_that_they_match() {
        let classes = [
            r"\p{L}",
            r"[^\s\p{L}\p{N}]",
            ".",
            r"(?s:.)",
            r"(?i:k)",
            r"(?i:ſ)",
            r"(?i:[à-ö])",
            r"\n",
            r"[a-c&&b]",
            r"(?i:İ)",
            r"(?i:ß)",
            r"(?i:ς)",
            r"\h",
            r"\d",
            r"[一-龥]",
            "字",
            r"(?i)[^x]",
            r"\.",
            r"[^\x00-\x{10FFFF}]",
        ];
        for class in classes {
            let (regex, known) =
                (Regex::new(&format!("^(?:{class})$")).unwrap(), Pattern::new(class).unwrap());
            for c in ('\0'..='\u{3ff}').chain('\u{1e00}'..='\u{2180}').chain("一龥字Kſ\u{10ffff}".chars())
            {
                let matches = regex.is_match(c.encode_utf8(&mut [0; 4])).unwrap();
                assert_eq!(known.reads(c, c).has[0], matches, "{class} and {c:?}");
            }
        }
    }

    /// Checks that equal classes are compiled once, and that a pattern far longer than any model's is
    /// rejected.
    #[test]
    fn equal_classes_are_made_once() {
        let made = |pattern: &str| {
            let mut classes = Classes::default();
            classes.node(&Expr::parse_tree(pattern).unwrap().expr).unwrap();
            classes.0.len()
        };
        let words: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
        assert_eq!(made(&words.join("|")), 11);
        assert_eq!(made(&format!("(?i:{})", words.join("|"))), 11);
        assert_eq!(made(&r"\p{L}[^a]".repeat(500)), 2);
        assert!(Pattern::new(&words.join("|")).is_some() && Pattern::literal(&words.concat()).is_some());
        assert!(Pattern::new(&words.join("|").repeat(2)).is_none());
        assert!(Pattern::literal(&words.concat().repeat(3)).is_none());
    }
}
