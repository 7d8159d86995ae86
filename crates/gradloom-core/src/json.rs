//! A minimal JSON writer for tools and web pages.

use std::fmt;

/// A JSON value. `Display` writes it as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Json {
    Null,
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

/// Creates a JSON string.
pub fn text(text: &str) -> Json {
    Json::Text(text.to_string())
}

pub fn count(n: usize) -> Json {
    Json::Number(n as u64)
}

pub fn numbers(list: &[usize]) -> Json {
    Json::List(list.iter().copied().map(count).collect())
}

/// Creates an object whose keys keep the given order.
pub fn object<const N: usize>(fields: [(&'static str, Json); N]) -> Json {
    Json::Object(fields.into())
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |i: usize| if i > 0 { "," } else { "" };
        match self {
            Json::Null => f.write_str("null"),
            Json::Number(number) => write!(f, "{number}"),
            Json::Text(text) => quoted(text, f),
            Json::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", comma(i))?;
                }
                f.write_str("]")
            }
            Json::Object(fields) => {
                f.write_str("{")?;
                for (i, (key, value)) in fields.iter().enumerate() {
                    write!(f, "{}\"{key}\":{value}", comma(i))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes a JSON string. Also escapes `<`, so that the text can be embedded in the script of an HTML page.
fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '<' | '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
