//! The part of Python that templates call: formats, methods of strings, dates, JSON.
//!
//! In: values of a template. Out: what Python makes of them. Always holds: what is not known is an error.

use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io::{self, Write};

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A value as `str` has it.
pub(super) fn text(value: &Value) -> String {
    match (value.kind(), value.is_true()) {
        (ValueKind::None, _) => "None".to_string(),
        (ValueKind::Bool, true) => "True".to_string(),
        (ValueKind::Bool, false) => "False".to_string(),
        _ => value.to_string(),
    }
}

/// `left % right`: a format, or the rest of a division.
pub(super) fn percent(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        return formatted(format, right).map(Value::from);
    }
    if let (Some(a), Some(b)) = (left.as_i64(), right.as_i64())
        && left.is_integer()
        && right.is_integer()
    {
        let rest = a.checked_rem(b).ok_or_else(|| wrong("division by zero"))?;
        return Ok(Value::from(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }));
    }
    match (f64::try_from(left.clone()), f64::try_from(right.clone())) {
        (Ok(_), Ok(0.0)) => Err(wrong("division by zero")),
        (Ok(a), Ok(b)) => Ok(Value::from(a - b * (a / b).floor())),
        _ => Err(wrong(format!("{} % {} is not known", left.kind(), right.kind()))),
    }
}

/// Widest column of a format.
const WIDEST: usize = 1 << 16;

/// A format of C's kind.
fn formatted(format: &str, right: &Value) -> Result<String, Error> {
    let mut values = match right.downcast_object::<Tuple>() {
        Some(tuple) => tuple.to_vec(),
        None => vec![right.clone()],
    }
    .into_iter();
    let named = right.kind() == ValueKind::Map;
    let (mut out, mut rest) = (String::new(), format);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut name = None;
        if let Some(inner) = rest.strip_prefix('(') {
            let (found, after) = inner.split_once(')').ok_or_else(|| wrong("incomplete format key"))?;
            (name, rest) = (Some(found), after);
        }
        let end = rest.find(|c: char| !"-+ 0#".contains(c)).unwrap_or(rest.len());
        let flags;
        (flags, rest) = rest.split_at(end);
        let mut number = || {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let digits = &rest[..end];
            rest = &rest[end..];
            let number = digits.parse::<usize>().ok();
            match number {
                Some(number) if number > WIDEST => Err(wrong(format!("a format of {number} columns"))),
                number => Ok(number),
            }
        };
        let width = number()?.unwrap_or(0);
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            precision = Some(rest[..end].parse::<usize>().unwrap_or(0));
            rest = &rest[end..];
        }
        if precision.is_some_and(|precision| precision > WIDEST) {
            return Err(wrong("a format of too many digits"));
        }
        let kind = rest.chars().next().ok_or_else(|| wrong("incomplete format"))?;
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match name {
            Some(name) => right.get_item(&Value::from(name))?,
            None => values.next().ok_or_else(|| wrong("not enough arguments for format string"))?,
        };
        out.push_str(&converted(kind, &value, flags, width, precision)?);
    }
    if !named && values.next().is_some() {
        return Err(wrong("not all arguments converted during string formatting"));
    }
    out.push_str(rest);
    Ok(out)
}

fn converted(
    kind: char,
    value: &Value,
    flags: &str,
    width: usize,
    precision: Option<usize>,
) -> Result<String, Error> {
    let cut = |text: String| match precision {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    };
    let real = || {
        f64::try_from(value.clone())
            .map_err(|_| wrong(format!("%{kind} needs a number, not {}", value.kind())))
    };
    let whole = || -> Result<i128, Error> {
        match i128::try_from(value.clone()) {
            Ok(number) => Ok(number),
            Err(_) => real().map(|number| number.trunc() as i128),
        }
    };
    let signed = |number: bool, digits: String| match number {
        true => (String::from("-"), digits),
        false if flags.contains('+') => (String::from("+"), digits),
        false if flags.contains(' ') => (String::from(" "), digits),
        false => (String::new(), digits),
    };
    let radix = |digits: String, prefix: &str| match flags.contains('#') {
        true => format!("{prefix}{digits}"),
        false => digits,
    };
    let is_number = !matches!(kind, 's' | 'r' | 'a' | 'c');
    let (sign, digits) = match kind {
        's' => (String::new(), cut(text(value))),
        'r' | 'a' => match value.as_str() {
            Some(text) if text.contains('\'') && !text.contains('"') => {
                (String::new(), cut(format!("\"{text}\"")))
            }
            Some(text) => {
                let text = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                (String::new(), cut(format!("'{text}'")))
            }
            None => (String::new(), cut(text(value))),
        },
        'c' => match value.as_str() {
            Some(text) if text.chars().count() == 1 => (String::new(), text.to_string()),
            Some(_) => return Err(wrong("%c requires int or char")),
            None => {
                let code = u32::try_from(whole()?).ok().and_then(char::from_u32);
                (String::new(), code.ok_or_else(|| wrong("%c arg not in range"))?.to_string())
            }
        },
        'd' | 'i' | 'u' => {
            let number = whole()?;
            signed(number < 0, format!("{:0>1$}", number.unsigned_abs(), precision.unwrap_or(0)))
        }
        'x' => signed(whole()? < 0, radix(format!("{:x}", whole()?.unsigned_abs()), "0x")),
        'X' => signed(whole()? < 0, radix(format!("{:X}", whole()?.unsigned_abs()), "0X")),
        'o' => signed(whole()? < 0, radix(format!("{:o}", whole()?.unsigned_abs()), "0o")),
        'f' | 'F' => {
            let number = real()?;
            signed(number.is_sign_negative(), format!("{:.1$}", number.abs(), precision.unwrap_or(6)))
        }
        other => return Err(wrong(format!("the format %{other} is not known"))),
    };
    let missing = width.saturating_sub(sign.chars().count() + digits.chars().count());
    let blanks = " ".repeat(missing);
    Ok(match () {
        () if flags.contains('-') => format!("{sign}{digits}{blanks}"),
        () if is_number && flags.contains('0') => format!("{sign}{}{digits}", "0".repeat(missing)),
        () => format!("{blanks}{sign}{digits}"),
    })
}

/// Methods of Python that minijinja lacks, then those that it has.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(found) = of_string(text, name, args)
    {
        return found;
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

fn of_string(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let part = |found: Option<usize>, separator: &str, is_first: bool| {
        let parts = match found {
            Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
            None if is_first => [text, "", ""],
            None => ["", "", text],
        };
        Value::from(Tuple::new(parts.into_iter().map(Value::from).collect()))
    };
    let one = || from_args::<(&str,)>(args).map(|(one,)| one);
    let none = || from_args::<()>(args);
    let cased = |c: char| -> String {
        if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
    };
    let found = match name {
        "rsplit" => rsplit(text, args),
        "partition" => one().map(|by| part(text.find(by), by, true)),
        "rpartition" => one().map(|by| part(text.rfind(by), by, false)),
        "removeprefix" => one().map(|end| Value::from(text.strip_prefix(end).unwrap_or(text))),
        "removesuffix" => one().map(|end| Value::from(text.strip_suffix(end).unwrap_or(text))),
        "index" | "rindex" => one().and_then(|part| {
            let at = if name == "index" { text.find(part) } else { text.rfind(part) };
            let at = at.ok_or_else(|| wrong("substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }),
        "zfill" | "ljust" | "rjust" | "center" => filled(text, name, args),
        "isspace" => none().map(|()| Value::from(!text.is_empty() && text.chars().all(char::is_whitespace))),
        "swapcase" => none().map(|()| Value::from(text.chars().map(cased).collect::<String>())),
        "casefold" => none().map(|()| Value::from(text.to_lowercase().replace('ß', "ss"))),
        _ => return None,
    };
    Some(found)
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (given, named): (Rest<Value>, Kwargs) = from_args(args)?;
    let by = given.first().cloned().or(named.get::<Option<Value>>("sep")?);
    let most = given.get(1).cloned().or(named.get::<Option<Value>>("maxsplit")?);
    named.assert_all_used()?;
    let most = most.and_then(|most| most.as_i64()).and_then(|most| usize::try_from(most).ok());
    let most = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<Value> = match by.as_ref().filter(|by| !by.is_none()) {
        Some(by) => {
            let by = by.as_str().filter(|by| !by.is_empty()).ok_or_else(|| wrong("empty separator"))?;
            text.rsplitn(most, by).map(Value::from).collect()
        }
        None => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end());
            while parts.len() + 1 < most
                && let Some(at) = rest.rfind(char::is_whitespace)
            {
                parts.push(Value::from(rest[at..].trim_start()));
                rest = rest[..at].trim_end();
            }
            parts.extend((!rest.is_empty()).then(|| Value::from(rest)));
            parts.into_iter().filter(|part| part.as_str() != Some("")).collect()
        }
    };
    parts.reverse();
    Ok(Value::from(parts))
}

fn filled(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (usize, Option<char>) = from_args(args)?;
    if width > WIDEST {
        return Err(wrong(format!("a text of {width} columns")));
    }
    let missing = width.saturating_sub(text.chars().count());
    let filled = |count: usize| fill.unwrap_or(' ').to_string().repeat(count);
    Ok(Value::from(match name {
        "ljust" => format!("{text}{}", filled(missing)),
        "rjust" => format!("{}{text}", filled(missing)),
        "center" => {
            // Of an odd number, Python puts the greater part where the width is odd.
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", filled(left), filled(missing - left))
        }
        _ => {
            let sign = if text.starts_with(['-', '+']) { &text[..1] } else { "" };
            format!("{sign}{}{}", "0".repeat(missing), &text[sign.len()..])
        }
    }))
}

/// A time in seconds since 1970, of UTC, as `strftime` writes it.
pub(super) fn date(seconds: i64, format: &str) -> Result<String, Error> {
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year: i64| 365 + i64::from(is_leap(year));
    let (mut year, mut day) = (1970, days);
    while day < 0 || day >= length(year) {
        if day < 0 {
            year -= 1;
            day += length(year);
        } else {
            day -= length(year);
            year += 1;
        }
    }
    let (of_year, mut month) = (day + 1, 0);
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (weekday, day) = ((days + 4).rem_euclid(7), day + 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let hour12 = (hour + 11) % 12 + 1;
    let (name, month_name) = (DAYS[weekday as usize], MONTHS[month]);
    let month = month as i64 + 1;
    let (mut out, mut rest) = (String::new(), format.chars());
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut kind = rest.next().unwrap_or('%');
        let plain = kind == '-';
        if plain {
            kind = rest.next().unwrap_or('%');
        }
        let two = |number: i64| if plain { number.to_string() } else { format!("{number:02}") };
        out.push_str(&match kind {
            'Y' => year.to_string(),
            'y' => two(year.rem_euclid(100)),
            'm' => two(month),
            'd' => two(day),
            'e' => format!("{day:2}"),
            'H' => two(hour),
            'I' => two(hour12),
            'M' => two(minute),
            'S' => two(second),
            'f' => "000000".to_string(),
            'j' if plain => of_year.to_string(),
            'j' => format!("{of_year:03}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_string(),
            'A' => name.to_string(),
            'a' => name[..3].to_string(),
            'B' => month_name.to_string(),
            'b' | 'h' => month_name[..3].to_string(),
            'w' => weekday.to_string(),
            'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
            's' => seconds.to_string(),
            'Z' => "UTC".to_string(),
            'z' => "+0000".to_string(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' | 'X' => format!("{hour:02}:{minute:02}:{second:02}"),
            'R' => format!("{hour:02}:{minute:02}"),
            'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            'c' => {
                format!(
                    "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
                    &name[..3],
                    &month_name[..3]
                )
            }
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            other => return Err(wrong(format!("the date format %{other} is not known"))),
        });
    }
    Ok(out)
}

/// JSON as Python writes it, without the escapes for HTML.
pub(super) fn to_json(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let indent: Option<Value> = arguments.get("indent")?;
    let separators: Option<Vec<String>> = arguments.get("separators")?;
    let ensure_ascii = arguments.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort_keys = arguments.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    arguments.assert_all_used()?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => match (indent.as_str(), indent.as_usize()) {
            (Some(text), _) => Some(text.chars().take(64).collect()),
            (_, Some(count)) => Some(" ".repeat(count.min(64))),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "indent is a number or a text")),
        },
    };
    let [between, after] = match separators {
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(String::from),
        Some(given) => given
            .try_into()
            .map_err(|_| Error::new(ErrorKind::InvalidOperation, "separators are two texts"))?,
    };
    let style = Style { between, after, indent, depth: 0, has_items: false };
    let mut text = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut text, style);
    match sort_keys {
        true => sorted(serde_json::to_value(value).map_err(wrong)?).serialize(&mut writer),
        false => value.serialize(&mut writer),
    }
    .map_err(wrong)?;
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    if !ensure_ascii {
        return Ok(text);
    }
    let mut ascii = String::new();
    for c in text.chars() {
        match c.is_ascii() && c != '\u{7f}' {
            true => ascii.push(c),
            false => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}")))
            }
        }
    }
    Ok(ascii)
}

/// A value whose objects have their keys in order.
fn sorted(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value::{Array, Object};
    match value {
        Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Object(fields.into_iter().collect())
        }
        Array(items) => Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Python's layout of JSON.
struct Style {
    between: String,
    after: String,
    indent: Option<String>,
    depth: usize,
    has_items: bool,
}

impl Style {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_items = false;
        writer.write_all(sign)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.has_items {
            self.line(writer)?;
        }
        self.has_items = true;
        writer.write_all(sign)
    }

    fn item<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.between.as_bytes())?;
        }
        self.line(writer)
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        match &self.indent {
            None => Ok(()),
            Some(indent) => writer.write_all(format!("\n{}", indent.repeat(self.depth)).as_bytes()),
        }
    }
}

impl Formatter for Style {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.after.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_items = true;
        Ok(())
    }
}
