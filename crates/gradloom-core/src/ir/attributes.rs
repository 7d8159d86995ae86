//! The attributes of ops in the text form, `{axes=[0, 1], causal}`: one list for what writes them and what
//! reads them.

use super::{BlockFormat, Number};
use std::fmt::Display;
use std::str::FromStr;

/// Visitor of an op's attributes, which writes each of them or sets it from a text.
pub(super) trait Attributes {
    type Error;
    /// Visits a flag: a name that is there or not.
    fn flag(&mut self, name: &str, value: &mut bool) -> Result<(), Self::Error>;
    fn integer<T: FromStr + Display>(&mut self, name: &str, value: &mut T) -> Result<(), Self::Error>;
    fn format(&mut self, name: &str, value: &mut BlockFormat) -> Result<(), Self::Error>;
    /// Visits a number that is an element of the result.
    fn number(&mut self, name: &str, value: &mut Number) -> Result<(), Self::Error>;
    fn list(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Self::Error>;
    /// Visits a list that is not written when it is empty.
    fn list_unless_empty(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Self::Error>;
    fn float(&mut self, name: &str, value: &mut f64) -> Result<(), Self::Error>;
}
