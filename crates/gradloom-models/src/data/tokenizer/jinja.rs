//! Templates as minijinja reads them.
//!
//! In: a template of transformers. Out: one with the same text. Always holds: lines stay where they are;
//! text, strings, comments and raw blocks are left alone.
//!
//! minijinja knows neither the block `generation`, an extension by which transformers marks what a model
//! wrote (its names are its own, as those of `with`), nor formats: `a % b` becomes a filter of `a`.

/// The filter that stands for `%`.
pub(super) const PERCENT: &str = "__percent__";

/// Rewrites what minijinja does not read.
pub(super) fn readable(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let (kept, end) = match tag.as_bytes().get(1) {
            Some(b'#') => (tag.find("#}").map_or(tag.len(), |end| end + 2), ""),
            Some(b'{') => (0, "}}"),
            Some(b'%') => raw(tag).map_or((0, "%}"), |length| (length, "")),
            _ => (1, ""),
        };
        out.push_str(&tag[..kept]);
        let length = if end.is_empty() { kept } else { rewritten(tag, end, &mut out) };
        rest = &tag[length..];
    }
    out.push_str(rest);
    out
}

/// The length of a raw block with its tags.
fn raw(tag: &str) -> Option<usize> {
    let is = |tag: &str, name: &str| {
        let inner = tag.strip_prefix("{%")?.trim_start_matches(['-', '+']).trim_start();
        let rest = inner.strip_prefix(name)?.trim_start().trim_start_matches(['-', '+']);
        rest.strip_prefix("%}").map(|rest| tag.len() - rest.len())
    };
    let begin = is(tag, "raw")?;
    let ends = tag[begin..].match_indices("{%").map(|(at, _)| begin + at);
    let mut ends = ends.filter_map(|at| is(&tag[at..], "endraw").map(|length| at + length));
    Some(ends.next().unwrap_or(tag.len()))
}

/// Writes a tag anew; returns its length.
fn rewritten(tag: &str, end: &str, out: &mut String) -> usize {
    let (tokens, length) = tokens(tag, end);
    // What is put at places of the tag, and bytes that it takes the place of.
    let mut changes: Vec<(usize, usize, &str)> = Vec::new();
    let block = tokens.first().filter(|_| end == "%}").map(|&(at, text)| (at, text.len(), text));
    match block {
        Some((at, length, "generation")) => changes.push((at, length, "with")),
        Some((at, length, "endgeneration")) => changes.push((at, length, "endwith")),
        _ => {}
    }
    let call = format!("|{PERCENT}(");
    for (place, &(at, text)) in tokens.iter().enumerate() {
        if text != "%" || place == 0 || !is_end(tokens[place - 1].1) || is_factor(&tokens, place) {
            continue;
        }
        let last = operand(&tokens, place + 1);
        if let Some(&(from, text)) = tokens.get(last) {
            changes.push((at, 1, &call));
            changes.push((from + text.len(), 0, ")"));
        }
    }
    changes.sort_by_key(|&(at, taken, _)| (at, taken));
    let mut done = 0;
    for (at, taken, text) in changes {
        out.push_str(&tag[done..at]);
        out.push_str(text);
        done = at + taken;
    }
    out.push_str(&tag[done..length]);
    length
}

/// The words, numbers, strings and signs of a tag with their places, and the length of the tag.
fn tokens<'t>(tag: &'t str, end: &str) -> (Vec<(usize, &'t str)>, usize) {
    let (mut tokens, mut at, mut depth) = (Vec::new(), 2, 0usize);
    if tag[at..].starts_with(['-', '+']) {
        at += 1;
    }
    while let Some(c) = tag[at..].chars().next() {
        let rest = &tag[at..];
        if depth == 0 && rest.starts_with(end) {
            return (tokens, at + end.len());
        }
        let is_last = depth == 0 && matches!(c, '-' | '+') && rest[1..].starts_with(end);
        let length = match c {
            '\'' | '"' => quoted(rest, c),
            _ if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ => c.len_utf8(),
        };
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !c.is_whitespace() && !is_last {
            tokens.push((at, &rest[..length]));
        }
        at += length;
    }
    (tokens, tag.len())
}

/// The length of a string with its quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns true for a token that can end an operand.
fn is_end(token: &str) -> bool {
    let words = ["and", "or", "not", "in", "is", "if", "else", "elif", "set", "for", "with"];
    match token.chars().next() {
        Some(c) if c.is_alphanumeric() || c == '_' => !words.contains(&token),
        Some(c) => matches!(c, '\'' | '"' | ')' | ']' | '}'),
        None => false,
    }
}

/// Returns true where the operand before a place belongs to a product that a filter of it alone would
/// change.
fn is_factor(tokens: &[(usize, &str)], place: usize) -> bool {
    let mut at = place;
    loop {
        at -= 1;
        // Back over what is in brackets.
        let mut depth = 0;
        loop {
            match tokens[at].1 {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => depth -= 1,
                _ => {}
            }
            if depth <= 0 || at == 0 {
                break;
            }
            at -= 1;
        }
        let is_bracket = matches!(tokens[at].1, "(" | "[");
        match at.checked_sub(1).map(|before| tokens[before].1) {
            Some("." | "|") if at > 1 => at -= 1,
            // A call or an index of what is before it.
            Some(before) if is_bracket && is_end(before) => {}
            Some("*" | "/" | "%") => return true,
            Some("-" | "+") => return at < 2 || !is_end(tokens[at - 2].1),
            _ => return false,
        }
    }
}

/// The last token of the operand that begins at a place.
fn operand(tokens: &[(usize, &str)], mut at: usize) -> usize {
    let is = |at: usize, signs: &[&str]| tokens.get(at).is_some_and(|(_, token)| signs.contains(token));
    while is(at, &["-", "+"]) {
        at += 1;
    }
    loop {
        if is(at, &["(", "[", "{"]) {
            let mut depth = 0;
            while at < tokens.len() {
                match tokens[at].1 {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                at += 1;
            }
        }
        if is(at + 1, &[".", "|"]) {
            at += 2;
        } else if is(at + 1, &["(", "["]) {
            at += 1;
        } else {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn blocks_and_formats_are_rewritten_and_nothing_else() {
        for (template, expected) in [
            ("{%- generation -%}a{% endgeneration %}", "{%- with -%}a{% endwith %}"),
            ("{{ '%s' % x }}", "{{ '%s' |__percent__( x) }}"),
            ("{{ '%s' % m.a[0]|upper ~ 1 }}", "{{ '%s' |__percent__( m.a[0]|upper) ~ 1 }}"),
            ("{{ f % ('%d' % y, 2) }}", "{{ f |__percent__( ('%d' |__percent__( y), 2)) }}"),
            ("{{ 2 * 7 % 4 }}{{ -7 % 3 }}", "{{ 2 * 7 % 4 }}{{ -7 % 3 }}"),
            ("{% if a(1)[2] % -b %}%{% endif %}", "{% if a(1)[2] |__percent__( -b) %}%{% endif %}"),
        ] {
            assert_eq!(readable(template), expected);
        }
        for same in [
            "{# {% generation %} #}{% raw %}{{ '%s' % x }}{% endraw %}{{ '{% generation %}' }}",
            "100 % {{ {'a': {'b': 1}} }} { % } {% set generation = 1 %}{{ a -}}{%",
            "{{ 'open",
        ] {
            assert_eq!(readable(same), same);
        }
    }
}
