//! Checks that the parser, the printer and the verifier do not panic on mutated texts.

use crate::twice::customs;
use gradloom_core::ir::parse_with;
use gradloom_core::philox::philox4x32;
use gradloom_core::verify::verify;

const EVERY_OP: &str = include_str!("every_op.txt");

/// Counter-based random numbers, so that a failure can be reproduced.
struct Random(u32, u32);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        philox4x32([self.1, 0, 0, 0], [self.0, 0])[0] as usize % n
    }
}

/// Tokens of the grammar, and numbers at the limits of their types.
const PIECES: [&str; 40] = [
    "%0",
    "%86",
    "%4294967295",
    "^1",
    "^3",
    "@0",
    "@9",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "=",
    "->",
    "<-",
    "-",
    "\"x\"",
    "\"",
    "f32[2]",
    "i32[]",
    "bool[0]",
    "0",
    "1",
    "18446744073709551615",
    "9223372036854775807",
    "-2147483648",
    "1e400",
    "nan",
    "inf",
    "true",
    "hex32",
    "add",
    "pad",
    "repeat ^1",
    "concat",
    "input",
    "\u{fe}ß",
];

/// Checks that parsing fails, or that the text of the parsed graph parses and prints to the same text.
/// Returns `true` if parsing succeeds.
fn check(text: &str) -> bool {
    let Ok(graph) = parse_with(text, &customs()) else { return false };
    let _ = verify(&graph);
    let printed = graph.to_string();
    let again = parse_with(&printed, &customs()).unwrap_or_else(|error| panic!("{error} in\n{printed}"));
    assert_eq!(again.to_string(), printed);
    true
}

#[test]
fn truncated_text_is_an_error() {
    assert!(check(EVERY_OP));
    let end = EVERY_OP.trim_end().len();
    for (at, _) in EVERY_OP[..end].char_indices() {
        assert!(!check(&EVERY_OP[..at]), "a graph ends at byte {at}");
    }
}

#[test]
fn mutated_text_never_panics() {
    let lines: Vec<&str> = EVERY_OP.lines().collect();
    let mut graphs = 0;
    for seed in 0..3000 {
        let mut random = Random(seed, 0);
        let mut text: Vec<char> = EVERY_OP.chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len());
            let end = (at + random.below(12)).min(text.len());
            match random.below(6) {
                0 => drop(text.drain(at..end)),
                1 => drop(text.splice(at..end, PIECES[random.below(PIECES.len())].chars())),
                2 => text[at] = char::from(b' ' + random.below(95) as u8),
                3 => drop(text.splice(at..at, lines[random.below(lines.len())].chars())),
                4 => {
                    // Replace a digit, such as one of an extent, an id or an axis.
                    if let Some(digit) = text[at..].iter().position(char::is_ascii_digit) {
                        text[at + digit] = char::from(b'0' + random.below(10) as u8);
                    }
                }
                _ => {
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = random.below(text.len());
                    text.splice(to..to, copy);
                }
            }
        }
        graphs += usize::from(check(&text.into_iter().collect::<String>()));
    }
    // Some mutated texts must parse, or the printer and the verifier are never reached.
    assert!(graphs > 50, "{graphs} mutated texts were graphs");
}

#[test]
fn mutated_lines_never_panic() {
    // The mutated op is the last one, so that no later op can make the graph invalid.
    let text: Vec<&str> = EVERY_OP.lines().collect();
    let ops = text.iter().position(|line| line.contains("^1(")).unwrap();
    let mut graphs = 0;
    for seed in 0..4000 {
        let mut random = Random(seed, 1);
        let at = loop {
            let at = random.below(ops);
            if text[at].starts_with("  %") {
                break at;
            }
        };
        let mut words: Vec<&str> = text[at].split(' ').collect();
        for _ in 0..=random.below(2) {
            let word = random.below(words.len());
            words[word] = PIECES[random.below(PIECES.len())];
        }
        graphs += usize::from(check(&format!("{}\n{}\n}}", text[..at].join("\n"), words.join(" "))));
    }
    assert!(graphs > 10, "{graphs} mutated ops were ops");
}

#[test]
fn deep_nesting_of_brackets_and_blocks_is_fine() {
    assert!(!check(&"[".repeat(100_000)));
    assert!(!check(&format!("graph {{ {}", "^1(".repeat(100_000))));
    let mut text = String::from("graph {\n^0() { -> }\n");
    for i in 1..20_000 {
        text += &format!("^{i}() {{ checkpoint ^{} -> }}\n", i - 1);
    }
    text += "checkpoint ^19999\n}";
    let graph = parse_with(&text, &customs()).unwrap();
    assert!(verify(&graph).unwrap_err().to_string().contains("blocks nest more than 64 deep"));
    assert!(check(&text));
}
