//! Possible changes of a source file, found in its text.
//!
//! In: the text of a file as rustfmt leaves it. Out: changes, each inside one function. Always holds:
//! comments, strings, attributes, and `debug_assert`s are left alone, and so are functions that return
//! `impl ..`, since two versions of one have two types.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A change of one function.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub(super) file: PathBuf,
    /// Line number, from 1.
    pub(super) line: usize,
    /// The function's body, between its braces.
    pub(super) body: Range<usize>,
    /// The range that is replaced, inside the body.
    pub(super) at: Range<usize>,
    pub(super) by: String,
    /// The line, or the function's signature, before.
    before: String,
    /// The same text with the change.
    after: String,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (self.before.trim(), self.after.trim());
        write!(f, "{}:{}\n    - {before}\n    + {after}", self.file.display(), self.line)
    }
}

const OPERATORS: [(&str, &str); 24] = [
    (" == ", " != "),
    (" != ", " == "),
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" % ", " / "),
    (" += ", " -= "),
    (" && ", " || "),
    (" || ", " && "),
    (".min(", ".max("),
    (".max(", ".min("),
    (".any(", ".all("),
    (".all(", ".any("),
    (".is_some_and(", ".is_none_or("),
    (".is_none_or(", ".is_some_and("),
    (".is_some()", ".is_none()"),
    (".is_none()", ".is_some()"),
    (".rev()", ""),
    ("continue", "break"),
];

/// Every change of a file that is known here.
pub(super) fn mutations(file: &Path, text: &str) -> Vec<Mutation> {
    let masked = mask(text);
    let mut found = Vec::new();
    for function in functions(&masked) {
        let mut add = |at: Range<usize>, by: String| {
            let lines = match at == function.body {
                true => function.start..function.body.start,
                false => line_start(text, at.start)..line_end(text, at.end),
            };
            let before = text[lines.clone()].to_string();
            let rest = if at == function.body { "}" } else { &text[at.end..lines.end] };
            let after = format!("{}{by}{rest}", &text[lines.start..at.start]);
            let line = line_of(text, at.start);
            let body = function.body.clone();
            found.push(Mutation { file: file.to_path_buf(), line, body, at, by, before, after });
        };
        let body = function.body.clone();
        for (from, to) in OPERATORS {
            for (at, _) in masked[body.clone()].match_indices(from) {
                add(body.start + at..body.start + at + from.len(), to.to_string());
            }
        }
        for word in words(&masked, body.clone()) {
            if let Some(by) = other_word(&masked, &word) {
                add(word, by);
            }
        }
        for at in negations(&masked, body.clone()) {
            add(at..at + 1, String::new());
        }
        for statement in call_statements(&masked, body.clone()) {
            add(statement, String::new());
        }
        for (arms, swapped) in neighbouring_arms(text, &masked, body.clone()) {
            add(arms, swapped);
        }
        for result in early_results(&masked[function.start..body.start]) {
            add(body.clone(), format!(" {result} "));
        }
    }
    found
}

struct Function {
    start: usize,
    body: Range<usize>,
}

/// Functions that can be changed, outermost ones only.
fn functions(masked: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    let tests = masked.find("#[cfg(test)]").unwrap_or(masked.len());
    for (start, _) in masked[..tests].match_indices("fn ") {
        let boundary = masked[..start].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        if !boundary || functions.last().is_some_and(|f| start < f.body.end) {
            continue;
        }
        let mut depth = 0_i32;
        let open = masked[start..].char_indices().find(|&(_, c)| {
            depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
            depth == 0 && matches!(c, '{' | ';')
        });
        let Some((at, '{')) = open else { continue };
        let open = start + at;
        let signature = &masked[line_start(masked, start)..open];
        let Some(close) = matching(masked, open) else { continue };
        if !signature.contains("-> impl") && !signature.contains("const fn") {
            functions.push(Function { start, body: open + 1..close });
        }
    }
    functions
}

/// The brace that closes the one at `open`.
fn matching(masked: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in masked[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

/// The text with comments, strings, characters, attributes and `debug_assert`s as blanks, byte for byte.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            at + rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with('"') {
            string_end(bytes, at)
        } else if let Some(hashes) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let inner = at + hashes + 2;
            inner + text[inner..].find(&close).map_or(0, |length| length + close.len())
        } else if rest.starts_with('\'') {
            character_end(rest).map_or(at, |length| at + length)
        } else if rest.starts_with("#[") && !rest.starts_with("#[cfg(test)]") {
            at + rest.find(']').map_or(0, |length| length + 1)
        } else if rest.starts_with("debug_assert") {
            at + rest.find(';').unwrap_or(0)
        } else {
            at
        };
        let end = end.max(at);
        masked[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        at = end.max(at + 1);
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    String::from_utf8(masked).expect("only whole characters are blanked")
}

fn string_end(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Number of hashes of a raw string that starts here.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Length of a character literal; `None` for a lifetime.
fn character_end(rest: &str) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    let (_, first) = characters.next()?;
    if first == '\\' {
        return rest[2..].find('\'').map(|length| length + 3);
    }
    let (at, next) = characters.next()?;
    (next == '\'').then_some(at + 1)
}

/// Words and numbers.
fn words(masked: &str, body: Range<usize>) -> Vec<Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in masked[body.clone()].char_indices().chain([(body.len(), ' ')]) {
        match (start, is_word(c)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(body.start + from..body.start + at);
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Another bool or whole number.
fn other_word(masked: &str, word: &Range<usize>) -> Option<String> {
    match &masked[word.clone()] {
        "true" => return Some("false".into()),
        "false" => return Some("true".into()),
        _ => {}
    }
    let number: u64 = masked[word.clone()].parse().ok()?;
    // Neither a field of a tuple nor a part of a float.
    let (before, after) = (&masked[..word.start], &masked[word.end..]);
    let field = before.ends_with('.') && !before.ends_with("..");
    let float = after.starts_with('.') && !after.starts_with("..");
    (!field && !float).then(|| (if number == 1 { 0 } else { number + 1 }).to_string())
}

/// The positions of negations by `!`.
fn negations(masked: &str, body: Range<usize>) -> Vec<usize> {
    let is_prefix = |at: usize| {
        let before = masked[..at].chars().next_back();
        let after = masked[at + 1..].chars().next();
        before.is_some_and(|c| matches!(c, ' ' | '(' | '|' | '\n'))
            && after.is_some_and(|c| c.is_alphabetic() || c == '(' || c == '_')
    };
    masked[body.clone()]
        .match_indices('!')
        .map(|(at, _)| body.start + at)
        .filter(|&at| is_prefix(at))
        .collect()
}

/// Statements of one line that only call something.
fn call_statements(masked: &str, body: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = body.start;
    let mut complete = true;
    for line in masked[body.clone()].split_inclusive('\n') {
        let text = line.trim();
        let words = ["let ", "return", "break", "continue", "use ", "const "];
        let is_call = text.ends_with(");")
            && text.starts_with(|c: char| c.is_alphabetic())
            && !text.contains(" = ")
            && !words.iter().any(|word| text.starts_with(word))
            && text.matches('(').count() == text.matches(')').count();
        if complete && is_call {
            let from = start + line.find(text).unwrap_or(0);
            found.push(from..from + text.len());
        }
        if !text.is_empty() {
            complete = text.ends_with([';', '{', '}']);
        }
        start += line.len();
    }
    found
}

/// Two arms of a match, each on a line of its own, with their results swapped.
fn neighbouring_arms(text: &str, masked: &str, body: Range<usize>) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut previous: Option<(Range<usize>, usize)> = None;
    let mut start = body.start;
    for line in masked[body].split_inclusive('\n') {
        let arm = line.find(" => ").filter(|_| line.trim_end().ends_with(','));
        let range = start..start + line.trim_end().len();
        let current = arm.map(|at| (range, start + at + 4));
        if let (Some((first, first_result)), Some((second, second_result))) = (&previous, &current) {
            let results = [&text[*first_result..first.end], &text[*second_result..second.end]];
            if results[0] != results[1] {
                let swapped = [
                    &text[first.start..*first_result],
                    results[1],
                    &text[first.end..*second_result],
                    results[0],
                ];
                found.push((first.start..second.end, swapped.concat()));
            }
        }
        previous = current;
        start += line.len();
    }
    found
}

/// The results that a function could return early.
fn early_results(signature: &str) -> Vec<&'static str> {
    let Some((_, ty)) = signature.rsplit_once("-> ") else { return vec![""] };
    let ty = ty.trim_end_matches('{').trim();
    match ty {
        "bool" => vec!["true", "false"],
        "usize" | "u64" => vec!["0", "1"],
        "Result<()>" | "Result<(), String>" => vec!["Ok(())"],
        _ if ty.starts_with("Option<") => vec!["None"],
        _ if ty.starts_with("Vec<") => vec!["Vec::new()"],
        _ => vec![],
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length)
}

pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> Vec<String> {
        let apply = |m: Mutation| format!("{}{}{}", &text[..m.at.start], m.by, &text[m.at.end..]);
        mutations(Path::new("a.rs"), text).into_iter().map(apply).collect()
    }

    #[test]
    fn operators_literals_and_results() {
        let text = "fn f(a: u8) -> bool {\n    a == 3\n}\n";
        let wanted = [
            "fn f(a: u8) -> bool {\n    a != 3\n}\n",
            "fn f(a: u8) -> bool {\n    a == 4\n}\n",
            "fn f(a: u8) -> bool { true }\n",
            "fn f(a: u8) -> bool { false }\n",
        ];
        assert_eq!(changed(text), wanted);
    }

    #[test]
    fn statements_arms_and_negations() {
        let text =
            "fn f(a: bool) {\n    g(a);\n    match !a {\n        true => x(),\n        _ => y(),\n    }\n}\n";
        let changes = changed(text);
        assert!(changes.contains(&text.replace("g(a);", "")));
        assert!(changes.contains(&text.replace("!a", "a")));
        assert!(changes.contains(&text.replace("x()", "z").replace("y()", "x()").replace('z', "y()")));
        assert!(changes.contains(&"fn f(a: bool) {  }\n".to_string()));
    }

    #[test]
    fn text_that_does_not_run_stays() {
        let quiet = "// fn f() { a == b }\nconst fn g() { a == b }\nfn h() -> impl Fn() { a == b }\n";
        assert_eq!(changed(quiet), Vec::<String>::new());
        let strings = "fn f(x: &'a str) -> u8 {\n    h(\" == \\\" 1\", r#\" && \"#, '1', x.0, 1.5) // 1\n}\n";
        assert_eq!(changed(strings), Vec::<String>::new());
        let tests = "#[cfg(test)]\nmod tests {\n    fn f() { a == b }\n}\n";
        assert_eq!(changed(tests), Vec::<String>::new());
    }
}
