//! Parsing of an op's attributes in braces: `{axes=[0, 1], causal}`.

use super::error::{Position, Result};
use super::lexer::Token;
use super::literal::to_number;
use super::{ParseError, Parser};
use crate::ir::attributes::Attributes;
use crate::ir::{BlockFormat, DType, Number};
use std::fmt::Display;
use std::str::FromStr;

#[derive(Debug)]
enum Attribute {
    Flag,
    /// Text of a number, a bool or a block format.
    Scalar(String),
    List(Vec<usize>),
}

/// Parsed attributes that have not been taken yet.
pub(super) struct Given {
    entries: Vec<(String, Attribute, Position)>,
    /// Position of the attributes, or the position where they would begin.
    position: Position,
    /// Dtype of the op's first result.
    dtype: DType,
}

impl Parser<'_> {
    /// Parses attributes in braces, if present, for an op whose first result has this dtype.
    pub(super) fn attributes(&mut self, dtype: DType) -> Result<Given> {
        let position = self.position();
        if *self.peek() != Token::Mark("{") {
            return Ok(Given { entries: Vec::new(), position, dtype });
        }
        let entries = self.list("{", "}", |parser| {
            let position = parser.position();
            let name = parser.word("an attribute")?;
            let attribute = if parser.take("=") { parser.attribute_value()? } else { Attribute::Flag };
            Ok((name, attribute, position))
        })?;
        Ok(Given { entries, position, dtype })
    }

    fn attribute_value(&mut self) -> Result<Attribute> {
        match self.peek() {
            Token::Mark("[") => {
                Ok(Attribute::List(self.list("[", "]", |parser| parser.unsigned("a whole number"))?))
            }
            Token::Word(word) if word.parse::<BlockFormat>().is_ok() => {
                let format = word.clone();
                self.advance();
                Ok(Attribute::Scalar(format))
            }
            Token::Number(_) | Token::Word(_) => Ok(Attribute::Scalar(self.scalar()?)),
            _ => self.expected("a number, `true`, `false`, or a list"),
        }
    }
}

impl Given {
    fn take(&mut self, name: &str) -> Option<(Attribute, Position)> {
        let at = self.entries.iter().position(|(entry, _, _)| entry == name)?;
        let (_, attribute, position) = self.entries.remove(at);
        Some((attribute, position))
    }

    fn missing(&self, name: &str) -> ParseError {
        self.position.error(format!("expected the attribute `{name}=..` for this op"))
    }

    fn scalar(&mut self, name: &str) -> Result<(String, Position)> {
        match self.take(name) {
            Some((Attribute::Scalar(text), position)) => Ok((text, position)),
            Some((_, position)) => Err(position.error(format!("expected a number for `{name}`"))),
            None => Err(self.missing(name)),
        }
    }

    fn whole<T: FromStr>(&mut self, name: &str) -> Result<T> {
        let (text, position) = self.scalar(name)?;
        let message = || format!("expected a whole number in range for `{name}`, found `{text}`");
        text.parse().map_err(|_| position.error(message()))
    }

    fn element(&mut self, name: &str, dtype: DType) -> Result<Number> {
        let (text, position) = self.scalar(name)?;
        to_number(&text, dtype).map_err(|message| position.error(message))
    }

    fn optional_list(&mut self, name: &str) -> Result<Option<Vec<usize>>> {
        match self.take(name) {
            Some((Attribute::List(list), _)) => Ok(Some(list)),
            Some((_, position)) => {
                Err(position.error(format!("expected a list such as `[0, 1]` for `{name}`")))
            }
            None => Ok(None),
        }
    }

    /// Returns an error if an attribute was not taken, because the op has no such attribute.
    pub(super) fn finish(self, op: &str) -> Result<()> {
        match self.entries.first() {
            Some((name, _, position)) => {
                Err(position.error(format!("{op} takes no further attribute `{name}`")))
            }
            None => Ok(()),
        }
    }
}

impl Attributes for Given {
    type Error = ParseError;

    fn flag(&mut self, name: &str, value: &mut bool) -> Result<()> {
        *value = match self.take(name) {
            Some((Attribute::Flag, _)) => true,
            Some((_, position)) => {
                return Err(position.error(format!("expected `{name}` alone: it is a flag")));
            }
            None => false,
        };
        Ok(())
    }

    fn integer<T: FromStr + Display>(&mut self, name: &str, value: &mut T) -> Result<()> {
        *value = self.whole(name)?;
        Ok(())
    }

    fn optional_integer<T: FromStr + Display>(&mut self, name: &str, value: &mut Option<T>) -> Result<()> {
        let is_given = self.entries.iter().any(|(entry, ..)| entry == name);
        *value = if is_given { Some(self.whole(name)?) } else { None };
        Ok(())
    }

    fn format(&mut self, name: &str, value: &mut BlockFormat) -> Result<()> {
        let (text, position) = self.scalar(name)?;
        let names = || BlockFormat::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ");
        let message = || format!("expected a format of blocks ({}) for `{name}`, found `{text}`", names());
        *value = text.parse().map_err(|_| position.error(message()))?;
        Ok(())
    }

    fn number(&mut self, name: &str, value: &mut Number) -> Result<()> {
        *value = self.element(name, self.dtype)?;
        Ok(())
    }

    fn float(&mut self, name: &str, value: &mut f64) -> Result<()> {
        *value = self.element(name, DType::F32)?.as_f64();
        Ok(())
    }

    fn optional_float(&mut self, name: &str, value: &mut Option<f64>) -> Result<()> {
        let is_given = self.entries.iter().any(|(entry, ..)| entry == name);
        *value = if is_given { Some(self.element(name, DType::F32)?.as_f64()) } else { None };
        Ok(())
    }

    fn list(&mut self, name: &str, value: &mut Vec<usize>) -> Result<()> {
        *value = self.optional_list(name)?.ok_or_else(|| self.missing(name))?;
        Ok(())
    }

    fn list_unless_empty(&mut self, name: &str, value: &mut Vec<usize>) -> Result<()> {
        *value = self.optional_list(name)?.unwrap_or_default();
        Ok(())
    }
}
