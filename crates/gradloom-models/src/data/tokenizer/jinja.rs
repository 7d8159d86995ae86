//! Rewriting of templates for minijinja.
//!
//! In: a template for transformers. Out: an equivalent template for minijinja. Invariant: line numbers are
//! preserved; text, comments and raw blocks are unchanged except that line endings become `\n`.
//!
//! minijinja supports neither the `generation` block, an extension with which transformers marks the
//! assistant's output, nor `%` formatting. `generation` is rewritten as a `with` block, whose variables are
//! local too, and `a % b` as a filter of `a`.

/// Name of the filter that implements `%`.
pub(super) const PERCENT: &str = "__percent__";

/// Name of the function that checks a loop's items and rejects values that Python cannot iterate over.
pub(super) const EACH: &str = "__each__";

/// Name of the filter that implements `.` before the name of a method that is not called.
pub(super) const ATTRIBUTE: &str = "__attribute__";

/// Methods that take precedence over the keys of a Python dictionary.
const METHODS: [&str; 6] = ["items", "keys", "values", "get", "copy", "fromkeys"];

/// An error in a template: its line number and a description.
pub(super) type Fault = (usize, String);

/// Rewrites everything that minijinja does not support or treats differently from Jinja.
///
/// # Errors
/// Returns an error if the template uses a feature that minijinja lacks, or one that Jinja rejects but
/// minijinja would accept.
pub(super) fn readable(template: &str) -> Result<String, Fault> {
    let template = template.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::new();
    let mut rest = template.as_str();
    let mut blocks = Blocks::default();
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
        let length = match end {
            "" => kept,
            _ => rewritten(tag, end, &mut blocks, &mut out).map_err(|reason| {
                (1 + template[..template.len() - tag.len()].matches('\n').count(), reason)
            })?,
        };
        rest = &tag[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The open blocks, outermost first.
///
/// minijinja implements `break` and `continue` as a jump that does not close the blocks inside the loop:
/// frames of `with` remain open and cause a panic, and captures of `set` and `filter` remain open and lose
/// the output that follows.
#[derive(Default)]
struct Blocks<'t>(Vec<&'t str>);

impl<'t> Blocks<'t> {
    /// Processes a tag. The first token is its name.
    fn go_on(&mut self, tokens: &[(usize, &'t str)]) -> Result<(), String> {
        let Some(&(_, name)) = tokens.first() else { return Ok(()) };
        match name {
            "set" if top_level(tokens).any(|place| tokens[place].1 == "=") => {}
            "for" | "if" | "with" | "set" | "filter" | "call" | "macro" | "generation" | "autoescape" => {
                self.0.push(name);
            }
            // Close the loop: its `else` branch runs after it, so `break` and `continue` are not allowed
            // there.
            "else" if self.0.last() == Some(&"for") => *self.0.last_mut().expect("looked at") = "else",
            "break" | "continue" => {
                let mut inside =
                    self.0.iter().rev().filter(|name| !matches!(**name, "if" | "else" | "autoescape"));
                match inside.next() {
                    Some(&"for") => {}
                    Some(block @ (&"with" | &"set" | &"filter")) => {
                        return Err(format!(
                            "`{name}` within a `{block}` of the loop is not supported: end `{block}` before it"
                        ));
                    }
                    Some(block) => return Err(format!("`{name}` within `{block}` has no loop to act on")),
                    None => return Err(format!("`{name}` stands outside of a loop")),
                }
            }
            _ if name.starts_with("end") => drop(self.0.pop()),
            _ => {}
        }
        Ok(())
    }
}

/// Returns the indices of the tokens that are not inside brackets.
fn top_level(tokens: &[(usize, &str)]) -> impl Iterator<Item = usize> {
    let mut depth = 0usize;
    let places = tokens.iter().enumerate().filter_map(move |(place, (_, token))| {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ if depth == 0 => return Some(place),
            _ => {}
        }
        None
    });
    places.collect::<Vec<_>>().into_iter()
}

/// Returns the length of a raw block including its tags, or `None` if the tag does not begin one.
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

/// Appends a rewritten tag to `out` and returns the length of the original.
fn rewritten<'t>(
    tag: &'t str,
    end: &str,
    blocks: &mut Blocks<'t>,
    out: &mut String,
) -> Result<usize, String> {
    let (tokens, length) = tokens(tag, end);
    if tag[..length].ends_with("+}}") {
        return Err("`+}}` ends no expression: Jinja knows `+%}` and `-}}`".to_string());
    }
    // Replacements: position in the tag, number of bytes replaced, and new text.
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    // Skip the targets of `set`: in `set namespace.field = ..`, the field is assigned rather than read.
    let is_set = end == "%}" && tokens.first().is_some_and(|token| token.1 == "set");
    let targets = top_level(&tokens).find(|&place| is_set && tokens[place].1 == "=").unwrap_or(0);
    for (place, &(at, text)) in tokens.iter().enumerate() {
        if text.starts_with(['\'', '"']) && text.contains('\\') {
            changes.push((at, text.len(), escapes(text)?));
        }
        if text == "." && place > 0 && place >= targets && is_end(tokens[place - 1].1) {
            changes.extend(attribute(&tokens, place));
        }
        if text != "%" || place == 0 || !is_end(tokens[place - 1].1) || is_factor(&tokens, place) {
            continue;
        }
        let last = operand(&tokens, place + 1);
        if let Some(&(from, text)) = tokens.get(last) {
            changes.push((at, 1, format!("|{PERCENT}(")));
            changes.push((from + text.len(), 0, ")".to_string()));
        }
    }
    if end == "%}" {
        blocks.go_on(&tokens)?;
        match tokens.first() {
            Some(&(at, "generation")) => changes.push((at, 10, "with".to_string())),
            Some(&(at, "endgeneration")) => changes.push((at, 13, "endwith".to_string())),
            Some((_, "with")) => changes.extend(apart(tag, &tokens)),
            Some((_, "for")) => changes.extend(each(&tokens)),
            _ => {}
        }
    }
    changes.sort_by_key(|&(at, taken, _)| (at, taken));
    let mut done = 0;
    for (at, taken, text) in changes {
        out.push_str(&tag[done..at]);
        out.push_str(&text);
        done = at + taken;
    }
    out.push_str(&tag[done..length]);
    Ok(length)
}

/// Returns the replacements by which an attribute with a method's name is accessed through [`ATTRIBUTE`].
fn attribute(tokens: &[(usize, &str)], place: usize) -> Vec<(usize, usize, String)> {
    let Some(&(at, name)) = tokens.get(place + 1).filter(|token| METHODS.contains(&token.1)) else {
        return Vec::new();
    };
    let first = start(tokens, place - 1);
    let is_filter = first > 0 && tokens[first - 1].1 == "|";
    if is_filter || tokens.get(place + 2).is_some_and(|token| token.1 == "(") {
        return Vec::new();
    }
    let from = tokens[place].0;
    let filter = format!("|{ATTRIBUTE}('{name}'))");
    vec![(tokens[first].0, 0, "(".to_string()), (from, at + name.len() - from, filter)]
}

/// Returns the replacements that keep the values of a `with` from referring to its own variables: Jinja
/// evaluates all values before it assigns any.
fn apart(tag: &str, tokens: &[(usize, &str)]) -> Vec<(usize, usize, String)> {
    let top: Vec<usize> = top_level(tokens).collect();
    let signs = |sign: &'static str| top.iter().copied().filter(move |&place| tokens[place].1 == sign);
    if signs(",").count() == 0 {
        return Vec::new();
    }
    let (mut changes, mut names) = (Vec::new(), String::new());
    for (number, first) in std::iter::once(1).chain(signs(",").map(|comma| comma + 1)).enumerate() {
        let Some(equals) = signs("=").find(|&place| place > first) else { return Vec::new() };
        let (from, to) = (tokens[first].0, tokens[equals].0);
        names.push_str(&format!(", {}=__with{number}__", tag[from..to].trim_end()));
        changes.push((from, to - from, format!("__with{number}__")));
    }
    let &(at, last) = tokens.last().expect("a name and a value");
    changes.push((at + last.len(), 0, names));
    changes
}

/// Returns the replacements that pass a loop's items through [`EACH`].
fn each(tokens: &[(usize, &str)]) -> Vec<(usize, usize, String)> {
    let mut top = top_level(tokens).skip_while(|&place| tokens[place].1 != "in");
    let Some(first) = top.next().map(|place| place + 1).filter(|&first| first < tokens.len()) else {
        return Vec::new();
    };
    let is_stop = |place: &usize| *place > first && matches!(tokens[*place].1, "if" | "recursive");
    let (at, last) = tokens[top.find(is_stop).unwrap_or(tokens.len()) - 1];
    vec![(tokens[first].0, 0, format!("{EACH}((")), (at + last.len(), 0, "))".to_string())]
}

/// Converts the escapes of a string literal from Python's syntax to minijinja's.
fn escapes(text: &str) -> Result<String, String> {
    let (mut out, mut rest, mut lines) = (String::new(), text, 0);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        let mut length = kind.len_utf8();
        match kind {
            'N' => return Err(r"the escape `\N{...}` is not known: write the character".to_string()),
            'U' => {
                let code = rest.get(1..9).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let c = code.and_then(char::from_u32).ok_or(r"the escape `\U` names no character")?;
                match c.is_ascii() {
                    true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                    false => out.push(c),
                }
                length = 9;
            }
            'a' => out.push_str("\\u0007"),
            'v' => out.push_str("\\u000b"),
            '/' => out.push_str("\\\\/"),
            // Join the string with its next line, and add the newline after the string to keep line numbers.
            '\n' => lines += 1,
            // Keep the backslash and spell out the character's escape: Jinja replaces non-ASCII characters by
            // escapes before it decodes the string.
            '\u{80}'.. => out.push_str(&match u32::from(kind) {
                code @ ..0x100 => format!("\\\\x{code:02x}"),
                code @ ..0x10000 => format!("\\\\u{code:04x}"),
                code => format!("\\\\U{code:08x}"),
            }),
            _ => out.extend(['\\', kind]),
        }
        rest = &rest[length..];
    }
    Ok(out + rest + &"\n".repeat(lines))
}

/// Returns the words, numbers, strings and operators of a tag with their positions, and the tag's length.
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

/// Returns the length of a string literal including its quotes.
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

/// Returns `true` if a token can end an operand.
fn is_end(token: &str) -> bool {
    let words = ["and", "or", "not", "in", "is", "if", "else", "elif", "set", "for", "with"];
    match token.chars().next() {
        Some(c) if c.is_alphanumeric() || c == '_' => !words.contains(&token),
        Some(c) => matches!(c, '\'' | '"' | ')' | ']' | '}'),
        None => false,
    }
}

/// Returns `true` if the operand before `place` is a factor of a product or has a sign, so a filter would
/// apply to only part of the left operand.
fn is_factor(tokens: &[(usize, &str)], place: usize) -> bool {
    let mut first = start(tokens, place - 1);
    while first > 1 && tokens[first - 1].1 == "|" {
        first = start(tokens, first - 2);
    }
    match first.checked_sub(1).map(|before| tokens[before].1) {
        Some("*" | "/" | "%") => true,
        Some("-" | "+") => first < 2 || !is_end(tokens[first - 2].1),
        _ => false,
    }
}

/// Returns the first token of the expression that ends at `at`, including calls, subscripts and attributes
/// but excluding filters.
fn start(tokens: &[(usize, &str)], mut at: usize) -> usize {
    loop {
        // Skip backwards to the matching bracket.
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
            Some(".") if at > 1 => at -= 2,
            // Continue with the preceding operand, which the bracket calls or subscripts.
            Some(before) if is_bracket && is_end(before) => at -= 1,
            _ => return at,
        }
    }
}

/// Returns the last token of the operand that begins at `at`.
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
        } else if is(at + 1, &["*"]) && is(at + 2, &["*"]) {
            return operand(tokens, at + 3);
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
            ("{{ 5 % 3 ** 2 ~ 1 }}", "{{ 5 |__percent__( 3 ** 2) ~ 1 }}"),
            ("a\r\nb\rc", "a\nb\nc"),
            (
                "{{ a.b[0].items.keys % 2 }}{{ a.items() }}{{ a|f.items }}",
                "{{ ((a.b[0]|__attribute__('items'))|__attribute__('keys')) |__percent__( 2) }}\
                 {{ a.items() }}{{ a|f.items }}",
            ),
            ("{% set a.items = (b).get %}", "{% set a.items = ((b)|__attribute__('get')) %}"),
            ("{% for a in 1, 2 if a %}", "{% for a in __each__((1, 2)) if a %}"),
            ("{% for a in b % 2 %}", "{% for a in __each__((b |__percent__( 2))) %}"),
            (
                "{% with a=f(1, 2), (b, c) = a %}",
                "{% with __with0__=f(1, 2), __with1__= a, a=__with0__, (b, c)=__with1__ %}",
            ),
            (r"{{ '\U0001F9F5\\U\U00000027\n' }}", r"{{ '🧵\\U\u0027\n' }}"),
            (r"{{ '\a\/\é\\/' ~ '\\' }}", r"{{ '\u0007\\/\\xe9\\/' ~ '\\' }}"),
            ("{{ 'a\\\nb' }}", "{{ 'ab'\n }}"),
            ("{% if a(1)[2] % -b %}%{% endif %}", "{% if a(1)[2] |__percent__( -b) %}%{% endif %}"),
        ] {
            assert_eq!(readable(template).unwrap(), expected);
        }
        for same in [
            "{# {% generation %} #}{% raw %}{{ '%s' % x }}{% endraw %}{{ '{% generation %}' }}",
            "100 % {{ {'a': {'b': 1}} }} { % } {% set generation = 1 %}{{ a -}}{%",
            "{{ 'open",
        ] {
            assert_eq!(readable(same).unwrap(), same);
        }
    }

    #[test]
    fn what_only_jinja_can_do_is_refused_by_line() {
        for (template, expected) in [
            ("{% with %}{% continue %}{% endwith %}", "within a `with`"),
            (
                "{% if a %}{% with a=1, b=2 %}{% if b %}{% break %}{% endif %}{% endwith %}{% endif %}",
                "within a `with`",
            ),
            ("{% set q %}{% continue %}{% endset %}", "within a `set`"),
            ("{% set q | upper %}{% break %}{% endset %}", "within a `set`"),
            ("{% filter upper %}{% continue %}{% endfilter %}", "within a `filter`"),
            ("{% generation %}{% continue %}{% endgeneration %}", "within `generation`"),
            ("{% call f() %}{% break %}{% endcall %}", "within `call`"),
            ("{% macro f() %}{% break %}{% endmacro %}", "within `macro`"),
        ] {
            let (line, reason) =
                readable(&format!("{{% for m in ms %}}\n{template}{{% endfor %}}")).unwrap_err();
            assert_eq!((line, reason.contains(expected)), (2, true), "{template}: {reason}");
            let inner = template.replace("{% continue %}", "{% break %}");
            let inner = inner.replace("{% break %}", "{% for a in b %}{% break %}{% else %}{% endfor %}");
            readable(&inner).unwrap();
        }
        for outside in ["{% break %}", "{% for a in b %}{% else %}{% continue %}{% endfor %}"] {
            assert!(readable(outside).unwrap_err().1.contains("outside of a loop"));
        }
        readable("{% for a in b %}{% set q %}{% endset %}{% set r = 1 %}{% continue %}{% endfor %}").unwrap();
        for refused in ["{{ 'a' +}}", r"{{ '\N{BULLET}' }}", r"{{ '\U1' }}", r"{{ '\U00110000' }}"] {
            readable(refused).unwrap_err();
        }
    }
}
