//! Replaces each number in the text of every op by extreme numbers.

use crate::{Counts, EXTREMES};

const EVERY_OP: &str = include_str!("../../../gradloom-core/tests/text/every_op.txt");

/// Returns the text without the custom op, which is not registered in this crate.
pub(crate) fn text() -> String {
    let lines = EVERY_OP.lines().filter(|line| !line.contains("tests.twice") && !line.contains("%102"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the ranges of the numbers in a line's types and attributes, excluding digits in names.
fn numbers(line: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = (at..bytes.len()).find(|&i| !bytes[i].is_ascii_alphanumeric()).unwrap_or(bytes.len());
        let is_name = at > 0 && matches!(bytes[at - 1], b'%' | b'^' | b'@' | b'_' | b'a'..=b'z');
        if !is_name {
            found.push(at..end);
        }
        at = end;
    }
    found
}

#[test]
fn every_number_of_the_text_of_every_op() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    let mut counts = Counts::default();
    counts.check(&text);
    assert_eq!(counts.refused, 0, "the text itself is a graph");
    for (at, line) in lines.iter().enumerate() {
        for range in numbers(line) {
            for extreme in EXTREMES {
                // Skip long loops, which would be unrolled here; another test checks the maximum length.
                if line[..range.start].ends_with("trip=") && extreme > 4 {
                    continue;
                }
                let number = extreme.to_string();
                let changed = [&line[..range.start], &number, &line[range.end..]].concat();
                let text = [&lines[..at], &[changed.as_str()], &lines[at + 1..]].concat().join("\n");
                counts.check(&text);
            }
        }
    }
    println!("{counts:?}");
    assert!(counts.refused > 500 && counts.verified > 20, "{counts:?}");
}
