//! Values as Python prints them.
//!
//! In: a value. Out: the text of `str` or `repr`. Always holds: it ends, however deep and large the value is.

use super::{DEEPEST, LONGEST, exponent, is_namespace, wrong};
use minijinja::Error;
use minijinja::value::{Tuple, Value, ValueKind};

/// A value as `str` has it.
pub(in super::super) fn text(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) if value.kind() == ValueKind::String => out.push_str(text),
        _ if value.is_undefined() => {}
        _ => quoted(value, false, 0, &mut out)?,
    }
    Ok(out)
}

/// A value as `pprint` has it on one line: its keys are in order.
pub(super) fn printed(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    quoted(&sorted(value, 0)?, false, 0, &mut out)?;
    Ok(out)
}

fn sorted(value: &Value, depth: usize) -> Result<Value, Error> {
    if depth > DEEPEST {
        return Err(wrong("the value is too deep to print"));
    }
    match value.kind() {
        ValueKind::Map if !is_namespace(value) => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            keys.sort();
            let item = |key: Value| {
                let item = sorted(&value.get_item(&key)?, depth + 1)?;
                Ok((key, item))
            };
            keys.into_iter().map(item).collect::<Result<Vec<_>, Error>>().map(Value::from_pairs)
        }
        ValueKind::Seq if value.downcast_object_ref::<super::Range>().is_none() => {
            let items = value.try_iter()?.map(|item| sorted(&item, depth + 1));
            let items = items.collect::<Result<Vec<_>, Error>>()?;
            Ok(match value.downcast_object_ref::<Tuple>() {
                Some(_) => Value::from(Tuple::from(items)),
                None => Value::from(items),
            })
        }
        _ => Ok(value.clone()),
    }
}

/// A number as Python has it.
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

/// Writes a value as `repr`, or `ascii`, has it.
pub(super) fn quoted(value: &Value, ascii: bool, depth: usize, out: &mut String) -> Result<(), Error> {
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
        ValueKind::String => string(value.as_str().unwrap_or_default().chars(), ascii, out),
        ValueKind::Bytes => {
            out.push('b');
            let bytes = value.as_bytes().unwrap_or_default();
            string(bytes.iter().map(|&byte| char::from(byte)), true, out);
        }
        ValueKind::Seq if value.downcast_object_ref::<super::Range>().is_none() => {
            // So are the pairs of `groupby`.
            let is_tuple = value.as_object().is_some_and(|object| object.type_name().ends_with("Tuple"));
            let signs = if is_tuple { ["(", ")"] } else { ["[", "]"] };
            let items: Vec<_> = value.try_iter()?.collect();
            list(signs, &items, ascii, depth, out)?;
        }
        ValueKind::Map => {
            let is_namespace = is_namespace(value);
            out.push_str(if is_namespace { "<Namespace {" } else { "{" });
            for (number, key) in value.try_iter()?.enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                quoted(&key, ascii, depth + 1, out)?;
                out.push_str(": ");
                quoted(&value.get_item(&key)?, ascii, depth + 1, out)?;
            }
            out.push_str(if is_namespace { "}>" } else { "}" });
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// Writes values in brackets.
fn list(signs: [&str; 2], items: &[Value], ascii: bool, depth: usize, out: &mut String) -> Result<(), Error> {
    out.push_str(signs[0]);
    for (number, item) in items.iter().enumerate() {
        out.push_str(if number > 0 { ", " } else { "" });
        quoted(item, ascii, depth + 1, out)?;
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

/// Returns true for what Python prints as it is. Rust's rule is the same, after another character.
fn is_printable(c: char) -> bool {
    !String::from_iter(['a', c]).escape_debug().any(|c| c == '\\')
}
