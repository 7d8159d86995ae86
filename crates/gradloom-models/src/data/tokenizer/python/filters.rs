//! Filters, tests and functions of Jinja that minijinja lacks or implements differently.
//!
//! In: values of a template. Out: the results that Jinja produces. Invariant: an unsupported case is an
//! error.

use super::methods::{Range, centered, is_space, lines, stripped};
use super::texts::{Form, quoted, text};
use super::{WIDEST, arguments, each, is_namespace, wrong};
use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, State, functions};
use minijinja_contrib::globals;

/// Adds the filters, tests and functions to an environment.
pub(in super::super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_formatter(|output, state, value| {
        let mut text = text(value)?;
        if !matches!(state.auto_escape(), AutoEscape::None) && !value.is_safe() {
            text = escaped(&text);
        }
        state.consume_fuel((text.len() / 64) as u64)?;
        output.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("string", |value: &Value| match value.kind() {
        ValueKind::String => Ok(value.clone()),
        _ => text(value).map(Value::from),
    });
    for name in ["e", "escape", "forceescape"] {
        environment.add_filter(name, move |value: &Value| match value.is_safe() && name != "forceescape" {
            true => Ok(value.clone()),
            false => text(value).map(|text| Value::from_safe_string(escaped(&text))),
        });
    }
    environment.add_filter("trim", |value: &Value, of: Option<&str>| {
        text(value).map(|text| Value::from(stripped(&text, of, true, true)))
    });
    // Do not look up keys of a dictionary: in Python, its only attributes are its methods.
    environment.add_filter("attr", |value: &Value, name: &Value| match value.kind() {
        ValueKind::Map if !is_namespace(value) => Ok(Value::UNDEFINED),
        _ => value.get_item(name),
    });
    environment.add_filter("pprint", |value: &Value| {
        let mut text = String::new();
        quoted(value, Form::Sorted, 0, &mut text)?;
        match text.len() <= 80 {
            true => Ok(text),
            false => Err(wrong("pprint of more than 80 columns is not known: use tojson(indent=2)")),
        }
    });
    environment.add_filter("wordcount", |value: &Value| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        text(value).map(|text| text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count())
    });
    environment.add_filter("center", |value: &Value, width: Option<usize>| {
        centered(&text(value)?, width.unwrap_or(80), ' ')
    });
    environment.add_filter("truncate", truncated);
    environment.add_filter("indent", indented);
    environment.add_filter("urlencode", urlencoded);
    environment.add_filter("xmlattr", attributes);
    environment.add_filter("filesizeformat", size);
    environment.add_test("sequence", |value: &Value| {
        let is_map = value.kind() == ValueKind::Map && !is_namespace(value);
        is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Undefined)
    });
    environment.add_test("mapping", |value: &Value| value.kind() == ValueKind::Map && !is_namespace(value));
    environment.add_test("iterable", |value: &Value| each(value).is_ok() && value.try_iter().is_ok());
    environment.add_test("callable", |value: &Value| {
        let name = value.as_object().map_or("", |object| object.type_name());
        let is_called = ["::Macro", "::Loop"].iter().any(|end| name.ends_with(end));
        value.is_undefined() || is_called || (value.kind() == ValueKind::Plain && !name.ends_with("::Cycler"))
    });
    environment.add_filter("list", |state: &mut State<'_, '_>, value: &Value| {
        minijinja::filters::list(state, each(value)?)
    });
    environment.add_filter("title", |value: &Value| {
        let (mut out, mut inside) = (String::new(), false);
        for c in text(value)?.chars() {
            if inside {
                out.extend(c.to_lowercase())
            } else {
                out.extend(c.to_uppercase())
            }
            inside = !is_space(c) && !"-({[<".contains(c);
        }
        Ok(out)
    });
    environment.add_function("range", Range::of);
    environment.add_function("joiner", globals::joiner);
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("dict", |given: Option<&Value>, named: Kwargs| dictionary(given, named));
    let namespace = Value::from_function(functions::namespace);
    environment.add_function(
        "namespace",
        move |state: &mut State<'_, '_>, given: Option<&Value>, named: Kwargs| {
            namespace.call(state, &[dictionary(given, named)?])
        },
    );
}

/// Creates a dictionary from a dictionary or pairs, and from keyword arguments.
fn dictionary(given: Option<&Value>, named: Kwargs) -> Result<Value, Error> {
    let mut items = Vec::new();
    if let Some(given) = given {
        let is_map = given.kind() == ValueKind::Map;
        for item in given.try_iter()? {
            if is_map {
                let value = given.get_item(&item)?;
                items.push((item, value));
                continue;
            }
            match <[Value; 2]>::try_from(item.try_iter()?.collect::<Vec<_>>()) {
                Ok([key, value]) => items.push((key, value)),
                Err(_) => return Err(wrong("a dictionary is made of pairs")),
            }
        }
    }
    for name in named.args() {
        items.push((Value::from(name), named.get(name)?));
    }
    Ok(Value::from_pairs(items))
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('\'', "&#39;").replace('"', "&#34;")
}

fn truncated(value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [length, kills, end, leeway] =
        arguments(&given.into_values(), ["length", "killwords", "end", "leeway"])?;
    let number = |value: Option<Value>, default: usize| {
        value.map_or(Ok(default), |value| value.as_usize().ok_or_else(|| wrong("truncate needs a length")))
    };
    let (text, end) = (text(value)?, end.map_or_else(|| Ok("...".to_string()), |end| text(&end))?);
    let (length, leeway) = (number(length, 255)?, number(leeway, 5)?);
    let kept = length.checked_sub(end.chars().count());
    let kept = kept.ok_or_else(|| wrong(format!("truncate needs a length of the end {end:?} at least")))?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let cut: String = text.chars().take(kept).collect();
    let word = cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before);
    Ok(if kills.is_some_and(|kills| kills.is_true()) { cut.clone() } else { word.to_string() } + &end)
}

fn indented(state: &mut State<'_, '_>, value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let [width, first, blank] = arguments(&given.into_values(), ["width", "first", "blank"])?;
    let is_set = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let (first, blank) = (is_set(first), is_set(blank));
    let indent = match width {
        None => " ".repeat(4),
        Some(width) => match (width.as_str(), width.as_usize().filter(|&width| width <= WIDEST)) {
            (Some(text), _) => text.to_string(),
            (_, Some(count)) => " ".repeat(count),
            _ => return Err(wrong("indent needs a number of columns or a text")),
        },
    };
    // Append a newline so that an empty last line is processed too.
    let text = text(value)? + "\n";
    let mut out = String::new();
    for (number, (line, end)) in lines(&text).into_iter().enumerate() {
        let line = &line[..line.len() - end];
        out.push_str(if number > 0 { "\n" } else { "" });
        if (number == 0 && first) || (number > 0 && (blank || !line.is_empty())) {
            state.consume_fuel((indent.len() / 64) as u64)?;
            out.push_str(&indent);
        }
        out.push_str(line);
    }
    Ok(out)
}

fn urlencoded(value: &Value) -> Result<String, Error> {
    let quoted = |value: &Value, kept: &str, blank: &str| -> Result<String, Error> {
        let mut out = String::new();
        for byte in text(value)?.bytes() {
            match char::from(byte) {
                ' ' => out.push_str(blank),
                c if c.is_ascii_alphanumeric() || "_.-~".contains(c) || kept.contains(c) => out.push(c),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
        Ok(out)
    };
    if matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) && !is_namespace(value) {
        let pairs = dictionary(Some(value), Kwargs::from_iter(std::iter::empty::<(&str, Value)>()))?;
        let mut parts = Vec::new();
        for key in pairs.try_iter()? {
            parts.push(format!("{}={}", quoted(&key, "", "+")?, quoted(&pairs.get_item(&key)?, "", "+")?));
        }
        return Ok(parts.join("&"));
    }
    quoted(value, "/", "%20")
}

fn attributes(map: &Value, spaced: Option<bool>) -> Result<String, Error> {
    if map.kind() != ValueKind::Map || is_namespace(map) {
        return Err(wrong("xmlattr needs a dictionary"));
    }
    let mut out = String::new();
    for key in map.try_iter()? {
        let value = map.get_item(&key)?;
        if value.is_none() || value.is_undefined() {
            continue;
        }
        let name = key.as_str().ok_or_else(|| wrong("xmlattr needs names that are texts"))?;
        if name.contains(|c: char| c.is_whitespace() || "/>=".contains(c)) {
            return Err(wrong(format!("{name:?} names no attribute")));
        }
        out.push_str(if out.is_empty() && !spaced.unwrap_or(true) { "" } else { " " });
        out.push_str(&format!("{}=\"{}\"", escaped(name), escaped(&text(&value)?)));
    }
    Ok(out)
}

fn size(value: &Value, binary: Option<bool>) -> Result<String, Error> {
    let number = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::String => value.as_str().and_then(|text| text.trim().parse().ok()),
        _ => f64::try_from(value.clone()).ok(),
    };
    let number = number.ok_or_else(|| wrong("filesizeformat needs a number"))?;
    let (base, end) = if binary.unwrap_or(false) { (1024.0, "iB") } else { (1000.0, "B") };
    if number == 1.0 {
        return Ok("1 Byte".to_string());
    }
    if number < base {
        return Ok(format!("{:.0} Bytes", number + 0.0));
    }
    let (mut number, mut signs) = (number / base, "kMGTPEZY".chars());
    let mut sign = signs.next();
    while number >= base
        && let Some(next) = signs.next()
    {
        (number, sign) = (number / base, Some(next));
    }
    let sign = sign.map(|sign| if base > 1000.0 { sign.to_ascii_uppercase() } else { sign });
    Ok(format!("{number:.1} {}{end}", sign.unwrap_or('k')))
}
