//! Small mutations of a graph's text, most of which can still be parsed.

use gradloom_testing::Random;

/// Boundary values of the types.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "16",
    "17",
    "63",
    "64",
    "65",
    "255",
    "256",
    "1000",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "140737488355328",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
];

/// Words of the grammar besides those in the texts.
const WORDS: [&str; 16] = [
    "f32",
    "i32",
    "u32",
    "bool",
    "nan",
    "inf",
    "true",
    "false",
    "-1",
    "-0.0",
    "1e400",
    "[]",
    "{",
    "}",
    "must_alias",
    "\"x\"",
];

/// Groups of ops with the same operand and result types.
const ALIKE: [&[&str]; 6] = [
    &[
        "neg", "abs", "sign", "floor", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh",
        "sigmoid", "erf", "detach",
    ],
    &["add", "sub", "mul", "div", "rem", "pow", "max", "min"],
    &["and", "or", "xor", "shl", "shr"],
    &["eq", "ne", "lt", "le", "gt", "ge"],
    &["sum", "prod", "max", "min"],
    &["f32", "i32", "u32", "bool"],
];

/// A text as a list of words, numbers, and the separators between them.
#[derive(Clone)]
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn of(text: &str) -> Self {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let mut words: Vec<String> = Vec::new();
        let mut in_word = false;
        for c in text.chars() {
            match (is_word(c) && in_word, words.last_mut()) {
                (true, Some(word)) => word.push(c),
                _ => words.push(c.to_string()),
            }
            in_word = is_word(c);
        }
        Self(words)
    }

    /// Returns the text with a few mutations.
    pub(super) fn mutated(mut self, random: &mut Random, corpus: &[Words]) -> String {
        for _ in 0..1 + random.below(3) {
            if !self.0.is_empty() {
                self.change(random, corpus);
            }
        }
        self.0.concat()
    }

    fn is_number(&self, at: usize) -> bool {
        self.0[at].starts_with(|c: char| c.is_ascii_digit())
    }

    /// Returns the position of a word for which `wanted` returns `true`, searching from a random one.
    fn find(&self, random: &mut Random, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let start = random.below(self.0.len());
        (start..self.0.len()).chain(0..start).find(|&at| wanted(at))
    }

    fn change(&mut self, random: &mut Random, corpus: &[Words]) {
        let at = random.below(self.0.len());
        let number = |words: &Self, random: &mut Random| words.find(random, |at| words.is_number(at));
        match random.below(12) {
            // Replace one number: most often an extent, a position, or the number of a value.
            0 | 1 => {
                if let Some(at) = number(self, random) {
                    self.0[at] = random.pick(&NUMBERS).to_string();
                }
            }
            2 => {
                if let Some(at) = number(self, random) {
                    let present: u64 = self.0[at].parse().unwrap_or(0);
                    let near =
                        if random.below(2) == 0 { present.wrapping_sub(1) } else { present.wrapping_add(1) };
                    self.0[at] = near.to_string();
                }
            }
            // Replace a number everywhere, so that shapes still match.
            3 | 4 => {
                if let Some(at) =
                    self.find(random, |at| self.is_number(at) && at > 0 && self.0[at - 1] != "%")
                {
                    let (old, new) = (self.0[at].clone(), random.pick(&NUMBERS[..16]).to_string());
                    for at in 1..self.0.len() {
                        if self.0[at] == old && self.0[at - 1] != "%" && self.0[at - 1] != "^" {
                            self.0[at] = new.clone();
                        }
                    }
                }
            }
            // Replace an operand by another one.
            5 | 6 => {
                let is_value = |at: usize| at > 0 && self.0[at - 1] == "%";
                let pair = (self.find(random, is_value), self.find(random, is_value));
                if let (Some(to), Some(from)) = pair {
                    self.0[to] = self.0[from].clone();
                }
            }
            // Replace an op or a dtype.
            7 | 8 => {
                let class = random.pick(&ALIKE);
                if let Some(at) = self.find(random, |at| class.contains(&self.0[at].as_str())) {
                    self.0[at] = random.pick(class).to_string();
                }
            }
            9 => {
                let other = &corpus[random.below(corpus.len())].0;
                self.0[at] = match random.below(2) {
                    0 => random.pick(&WORDS).to_string(),
                    _ => other[random.below(other.len())].clone(),
                };
            }
            10 => self.change_lines(random),
            _ => {
                if random.below(2) == 0 {
                    self.0.remove(at);
                } else {
                    let word = self.0[at].clone();
                    self.0.insert(random.below(self.0.len()), word);
                }
            }
        }
    }

    /// Removes, moves or copies a line.
    fn change_lines(&mut self, random: &mut Random) {
        let text = self.0.concat();
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return;
        }
        let (from, to) = (random.below(lines.len()), random.below(lines.len()));
        let line = if random.below(2) == 0 { lines.remove(from) } else { lines[from] };
        if random.below(2) == 0 {
            lines.insert(to.min(lines.len()), line);
        }
        *self = Self::of(&lines.join("\n"));
    }
}
