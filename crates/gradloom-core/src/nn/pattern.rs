//! Patterns for the names of parameters.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// A pattern for the names of parameters, in which `*` matches any characters: `layers.*.bias`,
/// `embedding.*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Returns `true` if a name matches.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(name) = name.strip_prefix(first).and_then(|name| name.strip_suffix(last)) else {
            return false;
        };
        let mut name = name.as_bytes();
        // Take the earliest match of each part, which leaves the most characters for the later parts.
        middle.split('*').all(|part| {
            let at = (0..=name.len()).find(|&at| name[at..].starts_with(part.as_bytes()));
            if let Some(at) = at {
                name = &name[at + part.len()..];
            }
            at.is_some()
        })
    }

    /// Checks that at least one of these names matches.
    ///
    /// # Errors
    /// Returns an error that lists some of the names if none matches.
    pub fn expect_any<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Result<()> {
        if names.clone().any(|name| self.matches(name)) {
            return Ok(());
        }
        let some: Vec<String> = names.clone().take(6).map(|name| format!("`{name}`")).collect();
        let more = if names.count() > some.len() { ", .." } else { "" };
        let message = format!("the pattern `{self}` is the name of no parameter");
        Err(Error::new(ErrorKind::Trace, message)
            .note(format!("they are called {}{more}", some.join(", ")))
            .help("`*` stands for any characters, as in `layers.*.bias`"))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<T: Into<String>> From<T> for Pattern {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, is) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("*", "", true),
            ("*", "layers.0.bias", true),
            ("*.bias", "layers.0.bias", true),
            ("*.bias", "bias", false),
            ("layers.*.bias", "layers.11.bias", true),
            ("layers.*.bias", "layers.bias", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*x*y*", "..x..y..", true),
            ("*x*y*", "..y..x..", false),
            ("a*b*c*d", "a.b.b.c.d", true),
            ("a**d", "ad", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(Pattern::from(pattern).matches(name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn what_matches_nothing_names_what_there_is() {
        let error = Pattern::from("*.weights").expect_any(["l1.weight", "l1.bias"].into_iter()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`*.weights`") && text.contains("`l1.weight`, `l1.bias`"), "{text}");
    }
}
