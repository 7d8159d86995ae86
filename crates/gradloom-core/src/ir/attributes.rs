//! Visitor of op attributes in the text form, such as `{axes=[0, 1], causal}`, shared by the printer and the
//! parser.

use super::{BlockFormat, Number};
use std::fmt::Display;
use std::str::FromStr;

/// Visits an op's attributes, either to print them or to set them from text.
pub(super) trait Attributes {
    type Error;
    /// Visits a flag, whose name appears in the text only if the flag is set.
    fn flag(&mut self, name: &str, value: &mut bool) -> Result<(), Self::Error>;
    fn integer<T: FromStr + Display>(&mut self, name: &str, value: &mut T) -> Result<(), Self::Error>;
    /// Visits a number that is omitted when `None`.
    fn optional_integer<T: FromStr + Display>(
        &mut self,
        name: &str,
        value: &mut Option<T>,
    ) -> Result<(), Self::Error>;
    fn format(&mut self, name: &str, value: &mut BlockFormat) -> Result<(), Self::Error>;
    /// Visits a number that is an element of the result's dtype.
    fn number(&mut self, name: &str, value: &mut Number) -> Result<(), Self::Error>;
    fn list(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Self::Error>;
    /// Visits a list that is omitted when empty.
    fn list_unless_empty(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Self::Error>;
    fn float(&mut self, name: &str, value: &mut f64) -> Result<(), Self::Error>;
    /// Visits a float that is omitted when `None`.
    fn optional_float(&mut self, name: &str, value: &mut Option<f64>) -> Result<(), Self::Error>;
}
