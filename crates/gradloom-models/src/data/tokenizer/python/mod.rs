//! The parts of Python that templates use: formatting, string methods, dates and JSON.
//!
//! In: values of a template. Out: the results that Python produces. Invariant: an unsupported case is an
//! error.

mod date;
mod filters;
mod json;
mod methods;
mod texts;

pub(super) use date::date;
pub(super) use filters::add_to;
pub(super) use json::to_json;
pub(super) use methods::{attribute, method};
pub(super) use texts::text;

use methods::Range;
use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind};
use texts::{Form, float, quoted};

/// Maximum nesting depth of a printed value.
const DEEPEST: usize = 400;

/// Maximum length of a printed value in bytes.
const LONGEST: usize = 1 << 24;

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Returns `true` for an object created by `namespace`: a map in minijinja, but a separate type in Python.
fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// Returns the value, or an error if Python cannot iterate over it.
pub(super) fn each(value: &Value) -> Result<Value, Error> {
    match value.is_none() || is_namespace(value) {
        true => Err(wrong(format!("{} cannot be gone through: it is no list", text(value)?))),
        false => Ok(value.clone()),
    }
}

/// Returns the arguments of a call in the order of `names`. Python's `None` counts as absent.
fn arguments<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (given, named): (Rest<Value>, Kwargs) = from_args(args)?;
    if given.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut found = [const { None }; N];
    for (place, name) in names.into_iter().enumerate() {
        found[place] = match given.get(place) {
            Some(value) => Some(value.clone()),
            None => named.get::<Option<Value>>(name)?,
        }
        .filter(|value| !value.is_none());
    }
    named.assert_all_used()?;
    Ok(found)
}

/// Computes `left % right`: string formatting, or the remainder of a division.
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

/// Maximum field width.
const WIDEST: usize = 1 << 16;

/// Formats values according to a printf-style format string.
fn formatted(format: &str, right: &Value) -> Result<String, Error> {
    let mut values = match right.downcast_object::<Tuple>() {
        Some(tuple) => tuple.to_vec(),
        None => vec![right.clone()],
    }
    .into_iter();
    // Python treats maps and lists as mappings: it looks up values by name and does not check that all were
    // used.
    let named = right.downcast_object_ref::<Tuple>().is_none()
        && matches!(right.kind(), ValueKind::Map | ValueKind::Seq);
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
    let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
    let real = || {
        let number = if is_whole {
            i128::try_from(value.clone()).map(|number| number as f64)
        } else {
            f64::try_from(value.clone())
        };
        number.map_err(|_| wrong(format!("%{kind} needs a number, not {}", value.kind())))
    };
    let whole = || -> Result<i128, Error> {
        match kind {
            _ if is_whole => i128::try_from(value.clone()),
            'd' | 'i' | 'u' if real()?.is_finite() => Ok(real()?.trunc() as i128),
            _ => Err(wrong(format!("%{kind} needs a whole number, not {value}"))),
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
        's' => (String::new(), cut(text(value)?)),
        'r' | 'a' => {
            let mut quote = String::new();
            let form = if kind == 'a' { Form::Ascii } else { Form::Repr };
            quoted(value, form, 0, &mut quote)?;
            (String::new(), cut(quote))
        }
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
        'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
            let number = real()?;
            let (size, precision) = (number.abs(), precision.unwrap_or(6));
            let digits = match kind.to_ascii_lowercase() {
                _ if !number.is_finite() => size.to_string().to_lowercase(),
                'f' => format!("{size:.precision$}"),
                'e' => exponent(&format!("{size:.precision$e}")),
                _ => general(size, precision.max(1), flags.contains('#')),
            };
            let digits = if kind.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
            signed(number.is_sign_negative(), digits)
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

/// Formats a number in scientific notation like C: the exponent has a sign and at least two digits.
fn exponent(text: &str) -> String {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    let sign = if power.starts_with('-') { '-' } else { '+' };
    format!("{digits}e{sign}{:0>2}", power.trim_start_matches('-'))
}

/// Formats a number like `%g`.
fn general(size: f64, precision: usize, keeps_zeros: bool) -> String {
    let whole = format!("{size:.0$e}", precision - 1);
    let (digits, power) = whole.split_once('e').unwrap_or((&whole, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let cut = |text: &str| match (text.contains('.'), keeps_zeros) {
        (true, false) => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        (false, true) => format!("{text}."),
        _ => text.to_string(),
    };
    match usize::try_from(precision as i32 - 1 - power) {
        Ok(places) if power >= -4 => cut(&format!("{size:.places$}")),
        _ => exponent(&format!("{}e{power}", cut(digits))),
    }
}
