//! Reads and writes JSON as Python does.
//!
//! In: bytes. Out: values, and text again. Invariant: Python's extensions of JSON are accepted (`NaN`,
//! `Infinity`, numbers beyond the range of f64, unpaired surrogates), as is a leading byte order mark.
//! Numbers beyond the range are written as infinity, unpaired surrogates as U+FFFD.

use serde_json::Value;

/// Maximum nesting depth of values.
const DEEPEST: usize = 100;
/// Prefix of the name of a number that JSON lacks; it is a Unicode noncharacter.
const MARK: char = '\u{fdd0}';
const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Parses a value.
///
/// # Errors
/// Returns a message with the line if the text is not JSON, even with Python's extensions, or is nested too
/// deeply.
#[expect(clippy::disallowed_methods, reason = "this is the reader that all others are to use")]
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return serde_json::from_slice(bytes).map_err(|error| error.to_string());
    };
    let (depth, plain) = (depth(text), serde_json::from_str(text));
    if depth > DEEPEST {
        return Err(format!("{depth} values lie in one another: {DEEPEST} is the limit"));
    }
    plain.or_else(|error| {
        let plain = plain_json(text);
        if plain == text {
            return Err(error.to_string());
        }
        // The replacements shift columns, so the message has only the line.
        serde_json::from_str(&plain).map_err(|error| {
            let message = error.to_string();
            let what = message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what);
            format!("{what} at line {}", error.line())
        })
    })
}

/// Parses an object.
///
/// # Errors
/// Returns the same errors as [`parse`]. Also returns an error if the value is not an object.
pub fn parse_object(bytes: &[u8]) -> Result<serde_json::Map<String, Value>, String> {
    match parse(bytes)? {
        Value::Object(object) => Ok(object),
        _ => Err("it is no JSON object".to_string()),
    }
}

/// Formats a value on several lines.
pub fn text(value: &Value) -> String {
    NUMBERS
        .iter()
        .fold(format!("{value:#}\n"), |text, number| text.replace(&format!("\"{MARK}{number}\""), number))
}

/// Returns the maximum nesting depth of lists and objects.
fn depth(text: &str) -> usize {
    let (mut open, mut most, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string ^= true,
            b'[' | b'{' if !is_string => open += 1,
            b']' | b'}' if !is_string => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Converts the text to standard JSON: numbers that JSON lacks become strings, and unpaired surrogates become
/// U+FFFD.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let (mut rest, mut is_string) = (text, false);
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '\\' if is_string => {
                let escape = rest.chars().take(2).map(char::len_utf8).sum();
                let (taken, written) = surrogates(rest).unwrap_or((escape, &rest[..escape]));
                plain.push_str(written);
                taken
            }
            '-' | '0'..='9' | 'I' | 'N' if !is_string => {
                let (taken, number) = number(rest);
                match number {
                    Some(name) => plain.extend(["\"", MARK.encode_utf8(&mut [0; 4]), name, "\""]),
                    None => plain.push_str(&rest[..taken]),
                }
                taken
            }
            _ => {
                is_string ^= first == '"';
                plain.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    plain
}

/// Returns the length of a number, and its name if JSON cannot represent it.
fn number(text: &str) -> (usize, Option<&'static str>) {
    if let Some(name) = NUMBERS.into_iter().find(|name| text.starts_with(name)) {
        return (name.len(), Some(name));
    }
    let is_part = |c: char| c.is_ascii_digit() || ['+', '-', '.', 'e', 'E'].contains(&c);
    let length = text.find(|c| !is_part(c)).unwrap_or(text.len());
    match text[..length].parse::<f64>() {
        Ok(f64::INFINITY) => (length, Some("Infinity")),
        Ok(f64::NEG_INFINITY) => (length, Some("-Infinity")),
        _ => (length.max(1), None),
    }
}

/// Returns the length of an escaped surrogate or surrogate pair, and its replacement.
fn surrogates(text: &str) -> Option<(usize, &str)> {
    let half = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let first = half(text).filter(|half| (0xd800..0xe000).contains(half))?;
    let second = text.get(6..).and_then(half);
    let is_pair = first < 0xdc00 && second.is_some_and(|half| (0xdc00..0xe000).contains(&half));
    Some(if is_pair { (12, &text[..12]) } else { (6, "\\ufffd") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_python_writes_are_read_and_written_again() {
        let given = r#"{"a": [0.0, Infinity, -Infinity], "b": NaN, "c": "NaN \" Infinity \\ 1e400", "é": 1,
                        "d": [1e400, -1E+999, 1e-999, 2.5e3]}"#;
        let value = parse(given.as_bytes()).unwrap();
        assert_eq!(value["c"], "NaN \" Infinity \\ 1e400");
        assert_eq!((&value["a"][0], &value["é"]), (&0.0.into(), &1.into()));
        let written = text(&value);
        assert_eq!(parse(written.as_bytes()).unwrap(), value);
        let words: String = written.split_whitespace().collect();
        assert!(words.contains("[0.0,Infinity,-Infinity]") && words.contains("\"b\":NaN"), "{words}");
        assert!(words.contains("[Infinity,-Infinity,0.0,2500.0]") && !words.contains(MARK), "{words}");
        for other in
            ["{\"a\": Infinit}", "{", "", "NaNNaN", "{\"a\": nan}", "[-]", "[+1e400]", "[1e]", "[01]"]
        {
            assert!(parse(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_kept() {
        let read = |text: &str| parse(format!("{{\"a\": \"{text}\"}}").as_bytes()).unwrap()["a"].clone();
        assert_eq!(read(r"\ud83e\uddf5"), "🧵");
        assert_eq!(read(r"\ud83e"), "\u{fffd}");
        assert_eq!(read(r"\ud83ex\uDDF5\\ud83e\n"), "\u{fffd}x\u{fffd}\\ud83e\n");
        assert_eq!(read(r"\ud83e\ud83e\uddf5"), "\u{fffd}🧵");
        for bad in [r"\ud83", r"\ud83\uddf5", r"\u+123", r"\ud83e\x"] {
            assert!(parse(format!("\"{bad}\"").as_bytes()).is_err(), "{bad}");
        }
    }

    /// Only one byte order mark is skipped, and it is not a value by itself.
    #[test]
    fn a_byte_order_mark_and_depth_are_bounded() {
        assert_eq!(parse("\u{feff}[1]".as_bytes()), Ok(json!([1])));
        assert_eq!(parse("\u{feff}[NaN]".as_bytes()), parse(b"[NaN]"));
        for other in ["\u{feff}", "\u{feff}\u{feff}1", " \u{feff}1"] {
            assert!(parse(other.as_bytes()).is_err(), "{other:?}");
        }
        assert!(parse(b"\xff\xfe1\x00").is_err());
        let nested = |depth: usize| "[".repeat(depth) + "\"[[\\\"[\"" + &"]".repeat(depth);
        assert!(parse(nested(100).as_bytes()).is_ok());
        let reason = "101 values lie in one another: 100 is the limit";
        assert_eq!(parse(nested(101).as_bytes()), Err(reason.to_string()));
        assert!(parse(nested(1_000_000).as_bytes()).unwrap_err().contains("1000000 values"));
    }

    /// The message reports the error itself, not the Python extensions before it.
    #[test]
    fn errors_name_the_place_of_the_fault() {
        assert_eq!(parse(b"[NaN,\n 1e400,\n 'a']"), Err("expected value at line 3".to_string()));
        assert_eq!(parse(b"[1,\n 'a']"), Err("expected value at line 2 column 2".to_string()));
        assert_eq!(parse_object(b"[NaN]"), Err("it is no JSON object".to_string()));
    }
}
