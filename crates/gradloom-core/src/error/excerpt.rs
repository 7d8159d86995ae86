//! Formats a source line for a terminal.
//!
//! Expands tabs, replaces characters that would move the cursor, and cuts the line to a bounded width around
//! the marked characters. Also computes the terminal columns of the mark, which lie within the excerpt.

use std::ops::Range;

/// Maximum width, in terminal columns, of a line that is shown whole.
const MAX_WIDTH: usize = 120;
const ELLIPSIS: &str = "...";
const TAB: &str = "    ";

/// A line to print, with the position of the carets below it.
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Number of columns before the carets.
    pub(super) indent: usize,
    /// Number of carets, at least 1.
    pub(super) width: usize,
}

/// Returns the part of `line` around the character range `mark`.
pub(super) fn around(line: &str, mark: Range<usize>) -> Excerpt {
    let widths: Vec<usize> = line.chars().map(width).collect();
    let columns = |range: Range<usize>| widths[range].iter().sum::<usize>();
    let window = window(&widths, &mark);
    let mark = mark.start.max(window.start)..mark.end.min(window.end);

    let cut_left = if window.start > 0 { ELLIPSIS } else { "" };
    let cut_right = if window.end < widths.len() { ELLIPSIS } else { "" };
    let mut text = String::from(cut_left);
    for c in line.chars().skip(window.start).take(window.len()) {
        match c {
            '\t' => text.push_str(TAB),
            c if is_disruptive(c) => text.push(char::REPLACEMENT_CHARACTER),
            c => text.push(c),
        }
    }
    text.push_str(cut_right);
    Excerpt { text, indent: cut_left.len() + columns(window.start..mark.start), width: columns(mark).max(1) }
}

/// Returns the range of characters to show: all if they fit, otherwise as much of the mark as fits, extended
/// equally to the left and right.
fn window(widths: &[usize], mark: &Range<usize>) -> Range<usize> {
    let fits = |range: &Range<usize>, limit: usize| widths[range.clone()].iter().sum::<usize>() <= limit;
    if fits(&(0..widths.len()), MAX_WIDTH) {
        return 0..widths.len();
    }
    let limit = MAX_WIDTH - 2 * ELLIPSIS.len();
    let mut window = mark.start..mark.start;
    // Include the mark first, then extend both sides in turn while the limit allows.
    while window.end < mark.end && fits(&(window.start..window.end + 1), limit) {
        window.end += 1;
    }
    loop {
        let before = window.clone();
        if window.start > 0 && fits(&(window.start - 1..window.end), limit) {
            window.start -= 1;
        }
        if window.end < widths.len() && fits(&(window.start..window.end + 1), limit) {
            window.end += 1;
        }
        if window == before {
            return window;
        }
    }
}

/// Returns `true` if a terminal interprets the character instead of showing it, as for control characters and
/// bidirectional formatting marks.
fn is_disruptive(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the number of terminal columns that a character occupies in the excerpt.
///
/// Covers the blocks that Unicode Standard Annex 11 classifies as wide or fullwidth, and the common combining
/// characters. A wrong width only misplaces a caret, so a complete table is not worth its size.
fn width(c: char) -> usize {
    match c {
        '\t' => TAB.len(),
        _ if is_disruptive(c) => 1,
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, mark: Range<usize>) -> String {
        let Excerpt { text, indent, width } = around(line, mark);
        format!("{text}\n{}{}", " ".repeat(indent), "^".repeat(width))
    }

    #[test]
    fn a_tab_is_four_columns() {
        assert_eq!(shown("\tx\t+ y", 3..4), "    x    + y\n         ^");
        assert_eq!(shown("\tx", 0..1), "    x\n^^^^");
    }

    #[test]
    fn wide_and_combining_characters_keep_the_caret_in_place() {
        assert_eq!(shown("é + x", 2..3), "é + x\n  ^");
        assert_eq!(shown("e\u{301} + x", 3..4), "e\u{301} + x\n  ^");
        assert_eq!(shown("重み + x", 3..4), "重み + x\n     ^");
        assert_eq!(shown("重み + x", 0..2), "重み + x\n^^^^");
        assert_eq!(shown("\u{301}", 0..1), "\u{301}\n^");
    }

    #[test]
    fn characters_that_move_the_cursor_are_replaced() {
        assert_eq!(shown("a\u{1b}[31m + b", 7..8), "a\u{fffd}[31m + b\n       ^");
        assert_eq!(shown("a\u{202e} + b", 3..4), "a\u{fffd} + b\n   ^");
    }

    #[test]
    fn a_line_of_the_greatest_width_is_whole() {
        let line = "x".repeat(MAX_WIDTH);
        assert_eq!(around(&line, 119..120).text, line);
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let long = |left: usize, right: usize| format!("{}MARK{}", "a".repeat(left), "b".repeat(right));
        let expect = |left: usize, right: usize, text: String, indent: usize| {
            let excerpt = around(&long(left, right), left..left + 4);
            assert_eq!((excerpt.text, excerpt.indent, excerpt.width), (text, indent, 4));
        };
        expect(300, 300, format!("...{}MARK{}...", "a".repeat(55), "b".repeat(55)), 58);
        expect(10, 300, format!("{}MARK{}...", "a".repeat(10), "b".repeat(100)), 10);
        expect(300, 10, format!("...{}MARK{}", "a".repeat(100), "b".repeat(10)), 103);
    }

    #[test]
    fn a_mark_that_is_too_long_is_cut() {
        let excerpt = around(&"m".repeat(500), 100..400);
        assert_eq!(excerpt.text, format!("...{}...", "m".repeat(114)));
        assert_eq!((excerpt.indent, excerpt.width), (3, 114));
    }
}
