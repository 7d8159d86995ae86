//! Selects the characters of a source line that the caret marks, given the line, the column of the origin and
//! a token.
//!
//! `#[track_caller]` reports the position of the name for a method call, and the start of the whole
//! expression for a function call or a binary operator. The search for the token therefore starts at the
//! column, first outside brackets: in `scale(a + b) + c`, the operator of the expression that starts at
//! `scale` is the second one. Two equal operators whose expressions start at the same column (`a + b + c`)
//! cannot be distinguished; the first one is marked.
//!
//! The token may differ from the user's code, because late stages know only the name of the op, such as `add`
//! for `+` or `dot` for `.matmul(..)`. The position of a method is exact, so the method's name in the source
//! is marked in that case.

use std::ops::Range;

/// Returns the range of `token` at or after `column`, which counts from 1. Without such a token, returns the
/// range of the method or the single character at the column. Returns `None` if the line has no such column.
pub(super) fn span(line: &str, column: u32, token: &str) -> Option<Range<usize>> {
    let line: Vec<char> = line.chars().collect();
    let start = (column as usize).checked_sub(1).filter(|&start| start < line.len())?;
    let token: Vec<char> = token.chars().collect();
    let is_method = start > 0 && line[start - 1] == '.' && is_word(line[start]);
    let found = match token.first() {
        Some(&first) if !is_word(first) => find_operator(&line, start, &token),
        // Search the call's arguments as well, because `.loss(|m, [x]| ..)` is the origin of ops whose exact
        // position is unknown.
        _ if is_method => find_word(&line[..end_of_call(&line, start)], start, &token)
            .or_else(|| Some(start..end_of_word(&line, start))),
        _ => find_word(&line, start, &token).or_else(|| find_operator(&line, start, &[operator_of(&token)?])),
    };
    Some(found.unwrap_or(start..start + 1))
}

/// Returns the operator that most likely produced the op with this name.
fn operator_of(name: &[char]) -> Option<char> {
    Some(match *name {
        ['a', 'd', 'd'] => '+',
        ['s', 'u', 'b'] | ['n', 'e', 'g'] => '-',
        ['m', 'u', 'l'] => '*',
        ['d', 'i', 'v'] => '/',
        _ => return None,
    })
}

/// Finds a name as a whole word, preferring occurrences outside brackets.
fn find_word(line: &[char], start: usize, token: &[char]) -> Option<Range<usize>> {
    let matches = |at: usize| {
        !token.is_empty()
            && line[at..].starts_with(token)
            && (at == 0 || !is_word(line[at - 1]))
            && line.get(at + token.len()).is_none_or(|&next| !is_word(next))
    };
    let mut nested = None;
    for (at, depth) in code(line, start) {
        if matches(at) {
            let found = at..at + token.len();
            if depth == 0 {
                return Some(found);
            }
            nested = nested.or(Some(found));
        }
    }
    nested
}

fn end_of_word(line: &[char], start: usize) -> usize {
    start + line[start..].iter().take_while(|&&c| is_word(c)).count()
}

/// Returns the index of the bracket that closes the call of the method named at `start`, or the line's
/// length.
fn end_of_call(line: &[char], start: usize) -> usize {
    code(line, start).find(|&(at, depth)| depth == 0 && line[at] == ')').map_or(line.len(), |(at, _)| at)
}

/// Finds an operator outside brackets: a prefix operator at `start`, or a binary operator after an operand.
fn find_operator(line: &[char], start: usize, token: &[char]) -> Option<Range<usize>> {
    if start >= line.len() {
        return None;
    }
    if matches!(token, ['-'] | ['!']) && line[start..].starts_with(token) {
        return Some(start..start + 1);
    }
    let is_binary = |at: usize| {
        let before =
            line[start..at].iter().rposition(|c| !c.is_whitespace()).map(|offset| line[start + offset]);
        before.is_some_and(|c| is_word(c) || matches!(c, ')' | ']' | '}' | '?' | '"' | '\''))
    };
    // Excludes longer operators such as `->` and `+=`.
    let goes_on = |at: usize| matches!(line.get(at + token.len()), Some('=' | '>'));
    code(line, start)
        .find(|&(at, depth)| {
            depth == 0
                && line[at..].starts_with(token)
                && is_binary(at)
                && !goes_on(at)
                && !is_exponent_sign(line, at)
        })
        .map(|(at, _)| at..at + token.len())
        // The operator of `(a + b).mean()` is reported at the opening bracket, so search inside it.
        .or_else(|| if line[start] == '(' { find_operator(line, start + 1, token) } else { None })
}

/// Returns `true` if the sign at `at` belongs to an exponent, as in `1e-5`.
fn is_exponent_sign(line: &[char], at: usize) -> bool {
    at >= 2
        && matches!(line[at - 1], 'e' | 'E')
        && (line[at - 2].is_ascii_digit() || line[at - 2] == '.')
        && line.get(at + 1).is_some_and(char::is_ascii_digit)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the indices of the characters from `start` to the end of the expression, except those inside
/// literals and comments, each with its bracket depth.
fn code(line: &[char], start: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut next = start;
    let mut depth = 0_usize;
    std::iter::from_fn(move || {
        let at = next;
        let mut depth_here = depth;
        next = at + 1;
        match *line.get(at)? {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                depth_here = depth;
            }
            ';' if depth == 0 => return None,
            '/' if line.get(at + 1) == Some(&'/') => return None,
            '"' => next = end_of_literal(line, at),
            // Matches a character literal, not a lifetime.
            '\'' if line.get(at + 1) == Some(&'\\') || line.get(at + 2) == Some(&'\'') => {
                next = end_of_literal(line, at);
            }
            _ => {}
        }
        Some((at, depth_here))
    })
}

/// Returns the index after the closing quote of the literal that starts at `open`, or the line's length.
fn end_of_literal(line: &[char], open: usize) -> usize {
    let mut at = open + 1;
    while let Some(&c) = line.get(at) {
        match c {
            '\\' => at += 2,
            _ if c == line[open] => return at + 1,
            _ => at += 1,
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::span;

    /// Asserts the position of the carets when the origin is at the first occurrence of `start` in the line.
    #[track_caller]
    fn check(line: &str, start: &str, token: &str, carets: &str) {
        let column = line[..line.find(start).expect("start is in the line")].chars().count() as u32 + 1;
        let span = span(line, column, token).expect("the column is in the line");
        let marked = format!("{}{}", " ".repeat(span.start), "^".repeat(span.len()));
        assert_eq!(marked, carets, "\n{line}");
    }

    #[test]
    fn a_method_is_marked_at_its_name() {
        check("    x.matmul(w).relu()", "matmul", "matmul", "      ^^^^^^");
        check("    x.matmul(w).relu()", "relu", "relu", "                ^^^^");
    }

    #[test]
    fn a_function_is_marked_at_its_last_name() {
        check("let y = Tensor::concat(&[a, b], 1);", "Tensor", "concat", "                ^^^^^^");
    }

    #[test]
    fn a_name_is_a_whole_word() {
        check("f(x.sum_axes([0]), x.sum())", "f(", "sum", "                     ^^^");
        check("assume(a).sum()", "assume", "sum", "          ^^^");
    }

    #[test]
    fn a_name_outside_of_brackets_comes_first() {
        check("a(b.mean()).mean()", "a(", "mean", "            ^^^^");
        check(".loss(|m, [x, y]| m.relu(x))", "loss", "relu", "                    ^^^^");
    }

    #[test]
    fn an_operator_is_marked_at_its_sign() {
        check("let y = x + bias;", "x", "+", "          ^");
        check("(a + b) + c", "(a", "+", "        ^");
        check("(a + b) + c", "a", "+", "   ^");
        check("scale(a * b)[0] * -c", "scale", "*", "                ^");
    }

    #[test]
    fn signs_in_literals_and_comments_are_not_operators() {
        check("x.capture(\"a) + b\") + y", "x", "+", "                    ^");
        check("x.name('(') + y", "x", "+", "            ^");
        check("x.name('\\'') + y", "x", "+", "             ^");
        check("1e-5 - x", "1e", "-", "     ^");
        check("x // a + b", "x", "+", "^");
    }

    #[test]
    fn an_operator_in_brackets_is_found_when_there_is_none_outside() {
        assert_eq!(span("(a + b).mean()", 1, "+"), Some(3..4));
        assert_eq!(span("(a * b) + c", 1, "+"), Some(8..9));
        assert_eq!(span("(", 1, "+"), Some(0..1));
    }

    #[test]
    fn other_operators_with_the_sign_are_skipped() {
        check("&x * &y", "&", "*", "   ^");
        check("*x * y", "*x", "*", "   ^");
        check("x -= y - z", "x", "-", "       ^");
        check("x -= y", "x", "-=", "  ^^");
        check("-x", "-", "-", "^");
    }

    #[test]
    fn without_the_token_the_column_is_marked() {
        check("    let y = x", "x", "+", "            ^");
        check("total(list)", "total", "add", "^");
        check("total(list)", "total", "", "^");
        check("f(x) + y", "x", "+", "  ^");
        check("a; b + c", "a", "+", "^");
    }

    #[test]
    fn a_method_that_has_another_name_than_its_op_is_marked_whole() {
        check("x.matmul(w).dot(v)", "matmul", "dot", "  ^^^^^^");
        check("x.square().mean() * y", "square", "mul", "  ^^^^^^");
        check("x.square(", "square", "mul", "  ^^^^^^");
        check("x.square().mean()", "square", "", "  ^^^^^^");
        check("x.0 + y", "0", "mul", "  ^");
    }

    #[test]
    fn the_name_of_an_op_finds_its_operator() {
        check("scale(a + b) + c", "scale", "add", "             ^");
        check("2.0 * x", "2", "mul", "    ^");
        check("-x", "-", "neg", "^");
        check("x / y", "x", "add", "^");
    }

    #[test]
    fn columns_count_characters() {
        check("let größe = \"né\"; größe + x", "größe + x", "+", "                        ^");
    }

    #[test]
    fn a_column_outside_of_the_line_has_no_span() {
        assert_eq!(span("abc", 0, "abc"), None);
        assert_eq!(span("abc", 4, "abc"), None);
        assert_eq!(span("", 1, ""), None);
    }

    #[test]
    fn lines_with_open_literals_do_not_panic() {
        for line in ["\"", "'\\", "x.name(\"a\\", "((((", "))))", "'a", "e-"] {
            for column in 1..=line.len() as u32 {
                assert!(span(line, column, "+").is_some());
                assert!(span(line, column, "name").is_some());
            }
        }
    }
}
