//! JSON as Python writes it.
//!
//! In: bytes. Out: values, and text again. Always holds: what Python writes beyond JSON (`NaN`, `Infinity`,
//! `-Infinity`) is read, and written as it was.

use serde_json::Value;

/// Stands before the name of a number that JSON does not have; Unicode gives it no meaning.
const MARK: char = '\u{fdd0}';
const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Reads a value.
///
/// # Errors
/// When it is no JSON, also not as Python writes it.
pub(super) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let marked = std::str::from_utf8(bytes).ok().map(marked);
        marked.and_then(|text| serde_json::from_str(&text).ok()).ok_or(error)
    })
}

/// Writes a value, in lines.
pub(super) fn text(value: &Value) -> String {
    NUMBERS
        .iter()
        .fold(format!("{value:#}\n"), |text, number| text.replace(&format!("\"{MARK}{number}\""), number))
}

/// Returns the text with such numbers as strings.
fn marked(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let (mut rest, mut is_string) = (text, false);
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS.iter().find(|number| !is_string && rest.starts_with(**number));
        let taken = match (first, number) {
            (_, Some(number)) => {
                marked.extend(['"', MARK]);
                marked.push_str(number);
                marked.push('"');
                number.len()
            }
            ('\\', None) if is_string => {
                let escape = rest.chars().take(2).map(char::len_utf8).sum();
                marked.push_str(&rest[..escape]);
                escape
            }
            _ => {
                is_string ^= first == '"';
                marked.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_python_writes_are_read_and_written_again() {
        let given = r#"{"a": [0.0, Infinity, -Infinity], "b": NaN, "c": "NaN \" Infinity \\", "é": 1}"#;
        let value = parse(given.as_bytes()).unwrap();
        assert_eq!(value["c"], "NaN \" Infinity \\");
        assert_eq!((&value["a"][0], &value["é"]), (&0.0.into(), &1.into()));
        let written = text(&value);
        assert_eq!(parse(written.as_bytes()).unwrap(), value);
        let words: String = written.split_whitespace().collect();
        assert!(words.contains("[0.0,Infinity,-Infinity]") && words.contains("\"b\":NaN"), "{words}");
        assert!(!words.contains(MARK));
        for other in ["{\"a\": Infinit}", "{", "", "NaNNaN", "{\"a\": nan}"] {
            assert!(parse(other.as_bytes()).is_err(), "{other}");
        }
    }
}
