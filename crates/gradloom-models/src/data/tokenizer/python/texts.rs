//! Values as printed by Python.
//!
//! In: a value. Out: the text of `str` or `repr`. Invariant: printing terminates, however deep and large
//! the value is.

use super::{DEEPEST, LONGEST, exponent, is_namespace, wrong};
use minijinja::Error;
use minijinja::value::{Value, ValueKind};

/// Returns the text of `str(value)`.
pub(in super::super) fn text(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) if value.kind() == ValueKind::String => out.push_str(text),
        _ if value.is_undefined() => {}
        _ => quoted(value, Form::Repr, 0, &mut out)?,
    }
    Ok(out)
}

/// Format of a printed value.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// Format of `repr`.
    Repr,
    /// Format of `ascii`.
    Ascii,
    /// Format of `pprint` on one line, with sorted keys.
    Sorted,
}

/// Formats a float like Python.
pub(super) fn float(number: f64) -> String {
    let short = format!("{number:e}");
    let power = short.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok());
    match power {
        None => number.to_string().to_lowercase(),
        Some(-4..16) => {
            let text = number.to_string();
            if text.contains('.') { text } else { text + ".0" }
        }
        Some(_) => exponent(&short),
    }
}

/// Appends a value in the given format.
pub(super) fn quoted(value: &Value, form: Form, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > DEEPEST || out.len() > LONGEST {
        return Err(wrong("the value is too deep or too large to print"));
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => out.push_str(&float(number)),
            _ => out.push_str(&value.to_string()),
        },
        ValueKind::String => string(value.as_str().unwrap_or_default().chars(), form == Form::Ascii, out),
        ValueKind::Bytes => {
            out.push('b');
            let bytes = value.as_bytes().unwrap_or_default();
            string(bytes.iter().map(|&byte| char::from(byte)), true, out);
        }
        ValueKind::Seq if value.downcast_object_ref::<super::Range>().is_none() => {
            // Compare the name of the type, because `groupby` returns its pairs as tuples of another type.
            let is_tuple = value.as_object().is_some_and(|object| object.type_name().ends_with("Tuple"));
            let signs = if is_tuple { ["(", ")"] } else { ["[", "]"] };
            let items: Vec<_> = value.try_iter()?.collect();
            list(signs, &items, form, depth, out)?;
        }
        ValueKind::Map => {
            let is_namespace = is_namespace(value);
            out.push_str(if is_namespace { "<Namespace {" } else { "{" });
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if form == Form::Sorted {
                keys.sort();
            }
            for (number, key) in keys.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                quoted(key, form, depth + 1, out)?;
                out.push_str(": ");
                quoted(&value.get_item(key)?, form, depth + 1, out)?;
            }
            out.push_str(if is_namespace { "}>" } else { "}" });
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Appends a list of values in brackets.
fn list(signs: [&str; 2], items: &[Value], form: Form, depth: usize, out: &mut String) -> Result<(), Error> {
    out.push_str(signs[0]);
    for (number, item) in items.iter().enumerate() {
        out.push_str(if number > 0 { ", " } else { "" });
        quoted(item, form, depth + 1, out)?;
    }
    out.push_str(if signs[0] == "(" && items.len() == 1 { "," } else { "" });
    out.push_str(signs[1]);
    Ok(())
}

fn string(text: impl Iterator<Item = char> + Clone, ascii: bool, out: &mut String) {
    let has = |sign| text.clone().any(|c| c == sign);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if !ascii && is_printable(c) => out.push(c),
            _ => out.push_str(&match u32::from(c) {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ ..0x10000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

/// Returns `true` if Python prints a character without an escape. Rust's rule is the same except at the start
/// of a string, so the character is tested after an `a`.
fn is_printable(c: char) -> bool {
    !String::from_iter(['a', c]).escape_debug().any(|c| c == '\\')
}
