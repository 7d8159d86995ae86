//! JSON as written by Python's `json.dumps`.
//!
//! In: a value of a template. Out: its JSON text, without HTML escapes. Invariant: values that Python
//! rejects are errors.

use super::{DEEPEST, Range, arguments, float, is_namespace, text, wrong};
use minijinja::Error;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};

/// Implements the `tojson` filter of transformers.
pub(in super::super) fn to_json(value: &Value, given: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort] = arguments(&given.into_values(), names)?;
    let is_set = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let indent = match indent {
        None => None,
        Some(indent) => match (indent.as_str(), indent.as_usize()) {
            (Some(text), _) => Some(text.chars().take(64).collect()),
            (_, Some(count)) => Some(" ".repeat(count.min(64))),
            _ => return Err(wrong("indent is a number or a text")),
        },
    };
    let mut signs = Vec::new();
    if let Some(separators) = separators {
        signs.extend(separators.try_iter()?.map(|sign| text(&sign)).collect::<Result<Vec<_>, _>>()?);
    } else {
        signs.extend([if indent.is_some() { "," } else { ", " }, ": "].map(String::from));
    }
    let [between, after] = signs.try_into().map_err(|_| wrong("separators are two texts"))?;
    let mut writer =
        Writer { out: String::new(), between, after, indent, ascii: is_set(ascii), sort: is_set(sort) };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    between: String,
    after: String,
    indent: Option<String>,
    ascii: bool,
    sort: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEEPEST || self.out.len() > super::LONGEST {
            return Err(wrong("the value is too deep or too large for JSON"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)?),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq if value.downcast_object_ref::<Range>().is_none() => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.items(["[", "]"], items, depth)?;
            }
            ValueKind::Map if !is_namespace(value) => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    items.push((Some(key), item));
                }
                if self.sort {
                    let is_text = |item: &(Option<Value>, Value)| {
                        item.0.as_ref().is_some_and(|key| key.kind() == ValueKind::String)
                    };
                    let texts = items.iter().filter(|item| is_text(item)).count();
                    let nones = items.iter().any(|item| item.0.as_ref().is_some_and(Value::is_none));
                    if (texts > 0 && texts < items.len()) || (nones && items.len() > 1) {
                        return Err(wrong("keys of different kinds have no order"));
                    }
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.items(["{", "}"], items, depth)?;
            }
            kind => return Err(wrong(format!("a value of the kind {kind} is not JSON serializable"))),
        }
        Ok(())
    }

    fn items(
        &mut self,
        signs: [&str; 2],
        items: Vec<(Option<Value>, Value)>,
        depth: usize,
    ) -> Result<(), Error> {
        self.out.push_str(signs[0]);
        let is_empty = items.is_empty();
        for (place, (key, item)) in items.into_iter().enumerate() {
            if place > 0 {
                self.out.push_str(&self.between);
            }
            self.line(depth + 1);
            if let Some(key) = key {
                match key.kind() {
                    ValueKind::String => self.string(key.as_str().unwrap_or_default()),
                    ValueKind::None => self.string("null"),
                    ValueKind::Bool => self.string(if key.is_true() { "true" } else { "false" }),
                    ValueKind::Number => self.string(&number(&key)?),
                    kind => return Err(wrong(format!("a key of the kind {kind} is not JSON serializable"))),
                }
                self.out.push_str(&self.after);
            }
            self.value(&item, depth + 1)?;
        }
        if !is_empty {
            self.line(depth);
        }
        self.out.push_str(signs[1]);
        Ok(())
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                _ if c < ' ' || (self.ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

fn number(value: &Value) -> Result<String, Error> {
    match f64::try_from(value.clone()) {
        Ok(real) if !value.is_integer() => Ok(match real {
            _ if real.is_nan() => "NaN".to_string(),
            f64::INFINITY => "Infinity".to_string(),
            f64::NEG_INFINITY => "-Infinity".to_string(),
            _ => float(real),
        }),
        _ => text(value),
    }
}
