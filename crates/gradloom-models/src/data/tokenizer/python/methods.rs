//! Methods of Python's types.
//!
//! In: a value, the name of a method, and arguments. Out: the result in Python. Invariant: an unsupported
//! case is an error.

use super::texts::text;
use super::{WIDEST, arguments, is_namespace, wrong};
use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, State};
use minijinja_contrib::pycompat;
use std::fmt;
use std::sync::Arc;

/// A Python `range`.
#[derive(Debug)]
pub(super) struct Range {
    start: i64,
    stop: i64,
    step: i64,
}

/// Maximum length of a range, as in Jinja's sandbox.
const MOST: i64 = 100_000;

impl Range {
    /// Creates a range from Python's arguments: `first` is the end if `stop` is absent, and the start
    /// otherwise.
    pub(super) fn of(first: i64, stop: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
        let (start, stop) = stop.map_or((0, first), |stop| (first, stop));
        let range = Self { start, stop, step: step.unwrap_or(1) };
        match range.step {
            0 => Err(wrong("range() arg 3 must not be zero")),
            _ if range.len() > i128::from(MOST) => Err(wrong("range has too many elements")),
            _ => Ok(Value::from_object(range)),
        }
    }

    fn len(&self) -> i128 {
        let [start, stop, step] = [self.start, self.stop, self.step].map(i128::from);
        ((stop - start + step - step.signum()) / step).max(0)
    }
}

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let place = key.as_usize().filter(|&place| (place as i128) < self.len())?;
        Some(Value::from(self.start + place as i64 * self.step))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.len() as usize)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "range({}, {}", self.start, self.stop)?;
        if self.step == 1 { write!(f, ")") } else { write!(f, ", {})", self.step) }
    }
}

/// A view of a dictionary's keys, values or items.
#[derive(Debug)]
struct View {
    name: &'static str,
    items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = text(&Value::from(self.items.clone())).map_err(|_| fmt::Error)?;
        write!(f, "{}({items})", self.name)
    }
}

/// A bound method.
#[derive(Debug)]
struct Method {
    of: Value,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.of.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

/// Returns an attribute of a value. For a dictionary, this is a bound method.
pub(in super::super) fn attribute(of: &Value, name: &str) -> Result<Value, Error> {
    match of.kind() {
        ValueKind::Map if !is_namespace(of) => {
            Ok(Value::from_object(Method { of: of.clone(), name: name.to_string() }))
        }
        _ => of.get_item(&Value::from(name)),
    }
}

/// Calls a method: one implemented here if minijinja lacks it or differs from Python, and minijinja's
/// otherwise.
pub(in super::super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let found = match value.kind() {
        ValueKind::String => of_string(state, value.as_str().unwrap_or_default(), name, args),
        ValueKind::Map if !is_namespace(value) => of_map(value, name, args),
        ValueKind::Seq => of_list(value, name, args),
        ValueKind::Number => of_number(value, name, args),
        _ => None,
    };
    found.unwrap_or_else(|| pycompat::unknown_method_callback(state, value, name, args))
}

fn of_map(map: &Value, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let view = |name| {
        let () = from_args(args)?;
        let mut items = Vec::new();
        for key in map.try_iter()? {
            items.push(match name {
                "dict_keys" => key,
                "dict_values" => map.get_item(&key)?,
                _ => Value::from(Tuple::from([key.clone(), map.get_item(&key)?])),
            });
        }
        Ok(Value::from_object(View { name, items }))
    };
    Some(match name {
        "keys" => view("dict_keys"),
        "values" => view("dict_values"),
        "items" => view("dict_items"),
        // Values are immutable in templates, so no copy is needed.
        "copy" => from_args::<()>(args).map(|()| map.clone()),
        _ => return None,
    })
}

fn of_list(list: &Value, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match name {
        "copy"
            if list.downcast_object_ref::<Tuple>().is_none()
                && list.downcast_object_ref::<Range>().is_none() =>
        {
            from_args::<()>(args).map(|()| list.clone())
        }
        "index" => arguments(args, ["", " ", "  "]).and_then(|[what, start, end]| {
            let what = what.unwrap_or_default();
            let items: Vec<Value> = list.try_iter()?.collect();
            let (start, end) = bounds(items.len(), start, end);
            let found = (start..end).find(|&place| items[place] == what);
            found.map(Value::from).ok_or_else(|| wrong("the value is not in the list"))
        }),
        _ => return None,
    })
}

fn of_number(number: &Value, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let none = || from_args::<()>(args);
    Some(match name {
        "is_integer" => none().map(|()| {
            let real = f64::try_from(number.clone()).unwrap_or(f64::NAN);
            Value::from(number.is_integer() || (real.is_finite() && real.fract() == 0.0))
        }),
        "bit_length" if number.is_integer() => none().map(|()| {
            let size = i128::try_from(number.clone()).unwrap_or_default().unsigned_abs();
            Value::from(128 - size.leading_zeros())
        }),
        _ => return None,
    })
}

/// Resolves Python's slice bounds for a sequence of `length` items.
fn bounds(length: usize, start: Option<Value>, end: Option<Value>) -> (usize, usize) {
    let place = |value: Option<Value>, default: usize| match value.and_then(|value| value.as_i64()) {
        Some(at) if at < 0 => length.saturating_sub(at.unsigned_abs() as usize),
        Some(at) => at as usize,
        None => default,
    };
    (place(start, 0), place(end, length).min(length))
}

/// Returns `true` for the characters that Python treats as whitespace.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Returns the lines of a text with their terminators, each with the length of its terminator.
pub(super) fn lines(text: &str) -> Vec<(&str, usize)> {
    let (mut lines, mut rest) = (Vec::new(), text);
    let is_end = |c| matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    while let Some(at) = rest.find(is_end) {
        let length = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        lines.push((&rest[..at + length], length));
        rest = &rest[at + length..];
    }
    lines.extend((!rest.is_empty()).then_some((rest, 0)));
    lines
}

/// Returns the title-case form of a character.
fn title(c: char) -> String {
    match c {
        'Ǆ'..='ǆ' => "ǅ".to_string(),
        'Ǉ'..='ǉ' => "ǈ".to_string(),
        'Ǌ'..='ǌ' => "ǋ".to_string(),
        'Ǳ'..='ǳ' => "ǲ".to_string(),
        // Leave Georgian letters unchanged, because they have no title case.
        '\u{10d0}'..='\u{10ff}' => c.to_string(),
        '\u{1f80}'..='\u{1faf}' => char::from_u32(u32::from(c) | 8).unwrap_or(c).to_string(),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(u32::from(c) + 9).unwrap_or(c).to_string(),
        // Only the first letter of a ligature becomes uppercase.
        'ß' | 'և' | '\u{fb00}'..='\u{fb17}' => {
            let mut upper = c.to_uppercase();
            upper.next().into_iter().chain(upper.flat_map(char::to_lowercase)).collect()
        }
        _ => c.to_uppercase().collect(),
    }
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || is_great(c)
}

fn is_great(c: char) -> bool {
    c.is_uppercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

fn of_string(state: &State<'_, '_>, text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let part = |found: Option<usize>, separator: &str, is_first: bool| {
        let parts = match found {
            Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
            None if is_first => [text, "", ""],
            None => ["", "", text],
        };
        Value::from(Tuple::new(parts.into_iter().map(Value::from).collect()))
    };
    let one = || from_args::<(&str,)>(args).map(|(one,)| one);
    let separator = || match one() {
        Ok("") => Err(wrong("empty separator")),
        other => other,
    };
    let none = || from_args::<()>(args);
    let cased = |c: char| -> String {
        if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
    };
    let found = match name {
        "split" | "rsplit" => split(text, name == "split", args),
        "splitlines" => arguments(args, ["keepends"]).map(|[keeps]| {
            let keeps = keeps.is_some_and(|keeps| keeps.is_true());
            let lines = lines(text).into_iter();
            lines.map(|(line, end)| Value::from(&line[..line.len() - if keeps { 0 } else { end }])).collect()
        }),
        "strip" | "lstrip" | "rstrip" => arguments(args, [""]).and_then(|[of]| {
            let of = of.map(|of| of.as_str().map(String::from).ok_or_else(|| wrong("strip needs a text")));
            let of = of.transpose()?;
            Ok(Value::from(stripped(text, of.as_deref(), name != "rstrip", name != "lstrip")))
        }),
        "startswith" | "endswith" => arguments(args, ["", " ", "  "]).and_then(|[ends, start, end]| {
            let ends = ends.unwrap_or_default();
            let ends: Vec<Value> =
                if ends.kind() == ValueKind::String { vec![ends] } else { ends.try_iter()?.collect() };
            let Some((_, text)) = cut(text, start, end) else { return Ok(Value::from(false)) };
            for end in &ends {
                let end = end.as_str().ok_or_else(|| wrong(format!("{name} needs texts")))?;
                if if name == "startswith" { text.starts_with(end) } else { text.ends_with(end) } {
                    return Ok(Value::from(true));
                }
            }
            Ok(Value::from(false))
        }),
        "find" | "rfind" | "index" | "rindex" | "count" => {
            arguments(args, ["", " ", "  "]).and_then(|[what, start, end]| {
                let what = what.unwrap_or_default();
                let what = what.as_str().ok_or_else(|| wrong(format!("{name} needs a text")))?;
                let part = cut(text, start, end);
                let found = part.and_then(|(before, part)| {
                    let at = if name.starts_with('r') { part.rfind(what) } else { part.find(what) };
                    at.map(|at| before + part[..at].chars().count())
                });
                match found {
                    _ if name == "count" => {
                        Ok(Value::from(part.map_or(0, |(_, part)| part.matches(what).count())))
                    }
                    Some(at) => Ok(Value::from(at)),
                    None if name.ends_with("find") => Ok(Value::from(-1)),
                    None => Err(wrong("substring not found")),
                }
            })
        }
        "join" => from_args::<(&Value,)>(args).and_then(|(items,)| {
            let mut out = String::new();
            for (number, item) in items.try_iter()?.enumerate() {
                let item = item.as_str().ok_or_else(|| {
                    wrong(format!("join needs texts: item {number} is of the kind {}", item.kind()))
                })?;
                let separator = if number > 0 { text } else { "" };
                state.consume_fuel(((separator.len() + item.len()) / 64) as u64)?;
                out.push_str(separator);
                out.push_str(item);
            }
            Ok(Value::from(out))
        }),
        "partition" => separator().map(|by| part(text.find(by), by, true)),
        "rpartition" => separator().map(|by| part(text.rfind(by), by, false)),
        "removeprefix" => one().map(|end| Value::from(text.strip_prefix(end).unwrap_or(text))),
        "removesuffix" => one().map(|end| Value::from(text.strip_suffix(end).unwrap_or(text))),
        "zfill" | "ljust" | "rjust" | "center" => filled(text, name, args),
        "isspace" => none().map(|()| Value::from(!text.is_empty() && text.chars().all(is_space))),
        "swapcase" => none().map(|()| Value::from(text.chars().map(cased).collect::<String>())),
        "casefold" => none().map(|()| Value::from(text.to_lowercase().replace('ß', "ss"))),
        "capitalize" => none().map(|()| {
            let mut rest = text.chars();
            Value::from(rest.next().map(title).unwrap_or_default() + &rest.as_str().to_lowercase())
        }),
        "title" => none().map(|()| {
            let (mut out, mut inside) = (String::new(), false);
            for c in text.chars() {
                if inside {
                    out.extend(c.to_lowercase())
                } else {
                    out.push_str(&title(c))
                }
                inside = is_cased(c);
            }
            Value::from(out)
        }),
        "istitle" => none().map(|()| {
            let (mut inside, mut any, mut fits) = (false, false, true);
            for c in text.chars() {
                fits &= !is_cased(c) || is_great(c) != inside;
                inside = is_cased(c);
                any |= inside;
            }
            Value::from(any && fits)
        }),
        "isidentifier" => none().map(|()| {
            let mut rest = text.chars();
            let starts = rest.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            Value::from(starts && rest.all(|c| c.is_alphanumeric() || c == '_'))
        }),
        "expandtabs" => arguments(args, ["tabsize"]).and_then(|[size]| {
            let size = size.map_or(Some(8), |size| size.as_usize()).filter(|&size| size <= WIDEST);
            let size = size.ok_or_else(|| wrong("expandtabs needs a number of columns"))?;
            let (mut out, mut column) = (String::new(), 0);
            for c in text.chars() {
                let blanks = if c == '\t' && size > 0 { size - column % size } else { 0 };
                state.consume_fuel((blanks / 64) as u64)?;
                match c {
                    '\t' => out.push_str(&" ".repeat(blanks)),
                    _ => out.push(c),
                }
                column = if matches!(c, '\n' | '\r') { 0 } else { column + blanks + usize::from(c != '\t') };
            }
            Ok(Value::from(out))
        }),
        "translate" => from_args::<(&Value,)>(args).and_then(|(table,)| {
            let mut out = String::new();
            for c in text.chars() {
                let to = table.get_item(&Value::from(u32::from(c)))?;
                match (to.as_str(), to.as_i64()) {
                    _ if to.is_undefined() => out.push(c),
                    _ if to.is_none() => {}
                    (Some(to), _) => {
                        state.consume_fuel((to.len() / 64) as u64)?;
                        out.push_str(to);
                    }
                    (_, Some(code)) => out.push(
                        u32::try_from(code)
                            .ok()
                            .and_then(char::from_u32)
                            .ok_or_else(|| wrong("translate needs codes of characters"))?,
                    ),
                    _ => return Err(wrong("translate needs texts, numbers or none")),
                }
            }
            Ok(Value::from(out))
        }),
        "encode" => arguments(args, ["encoding"]).and_then(|[encoding]| {
            let name = encoding.as_ref().map_or(Some("utf-8"), |name| name.as_str()).unwrap_or_default();
            match name.to_lowercase().replace(['-', '_'], "").as_str() {
                "utf8" => Ok(Value::from_bytes(text.as_bytes().to_vec())),
                _ => Err(wrong(format!("the encoding {name} is not known: utf-8 is"))),
            }
        }),
        _ => return None,
    };
    Some(found)
}

/// Returns the slice of a text between two character positions, and the number of characters before it.
/// Returns `None` if the range is out of bounds.
fn cut(text: &str, start: Option<Value>, end: Option<Value>) -> Option<(usize, &str)> {
    let length = text.chars().count();
    let (start, end) = bounds(length, start, end);
    let byte = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    (start <= end && start <= length).then(|| (start, &text[byte(start)..byte(end)]))
}

/// Removes whitespace, or the characters in `of`, from the ends of a text.
pub(super) fn stripped<'t>(text: &'t str, of: Option<&str>, left: bool, right: bool) -> &'t str {
    let is_blank = |c: char| of.map_or_else(|| is_space(c), |of| of.contains(c));
    let text = if left { text.trim_start_matches(is_blank) } else { text };
    if right { text.trim_end_matches(is_blank) } else { text }
}

fn split(text: &str, from_left: bool, args: &[Value]) -> Result<Value, Error> {
    let [by, most] = arguments(args, ["sep", "maxsplit"])?;
    let most = most.and_then(|most| most.as_i64()).and_then(|most| usize::try_from(most).ok());
    let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> = match by {
        Some(by) => {
            let by = by.as_str().filter(|by| !by.is_empty()).ok_or_else(|| wrong("empty separator"))?;
            match from_left {
                true => text.splitn(most, by).collect(),
                false => text.rsplitn(most, by).collect(),
            }
        }
        None => {
            let (mut parts, mut rest) = (Vec::new(), stripped(text, None, from_left, !from_left));
            while parts.len() + 1 < most
                && let Some(at) = if from_left { rest.find(is_space) } else { rest.rfind(is_space) }
            {
                let (before, after) = rest.split_at(at);
                let [before, after] =
                    [stripped(before, None, false, true), stripped(after, None, true, false)];
                parts.push(if from_left { before } else { after });
                rest = if from_left { after } else { before };
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    if !from_left {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

fn filled(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(args)?;
    Ok(Value::from(match name {
        "center" => centered(text, width, fill.unwrap_or(' '))?,
        _ if width > WIDEST => return Err(wrong(format!("a text of {width} columns"))),
        _ => {
            let missing = width.saturating_sub(text.chars().count());
            let filled = String::from_iter(std::iter::repeat_n(fill.unwrap_or(' '), missing));
            match name {
                "ljust" => format!("{text}{filled}"),
                "rjust" => format!("{filled}{text}"),
                _ => {
                    let sign = if text.starts_with(['-', '+']) { &text[..1] } else { "" };
                    format!("{sign}{}{}", "0".repeat(missing), &text[sign.len()..])
                }
            }
        }
    }))
}

/// Centers a text in a column of `width` characters.
pub(super) fn centered(text: &str, width: usize, fill: char) -> Result<String, Error> {
    if width > WIDEST {
        return Err(wrong(format!("a text of {width} columns")));
    }
    let missing = width.saturating_sub(text.chars().count());
    let filled = |count: usize| fill.to_string().repeat(count);
    // If the padding is odd, Python puts the larger half on the left for an odd width and on the right
    // otherwise.
    let left = missing / 2 + (missing & width & 1);
    Ok(format!("{}{text}{}", filled(left), filled(missing - left)))
}
