//! Printing of each op's name and attributes. Attributes implied by the types of operands and results are
//! omitted.

use super::literal::{float, number, write_literal};
use super::{Printer, quote};
use crate::ir::attributes::Attributes;
use crate::ir::{BlockFormat, Graph, Number, OpKind};
use std::convert::Infallible;
use std::fmt::{self, Display};
use std::str::FromStr;

impl Printer<'_> {
    /// Writes the op's name and the arguments before its operands.
    pub(super) fn head(&self, f: &mut impl fmt::Write, kind: &OpKind) -> fmt::Result {
        f.write_str(kind.name())?;
        if let Some(name) = Graph::leaf_name(kind) {
            write!(f, " {}", quote(name))?;
        }
        if let Some(block) = kind.block() {
            write!(f, " {}", self.block_name(block))?;
        }
        match kind {
            OpKind::Constant { ty, data } => {
                f.write_char(' ')?;
                write_literal(f, ty, data, self.elide)
            }
            OpKind::Custom(id) => match self.graph.customs.get(*id) {
                Some(custom) => write!(f, " {}", quote(custom.name())),
                None => write!(f, " ?{id}"),
            },
            _ => Ok(()),
        }
    }
}

/// Returns the attributes in printing order: `name=value`, or the name of a flag that is set.
pub(super) fn attributes(kind: &OpKind) -> Vec<String> {
    let mut written = Written(Vec::new());
    let Ok(()) = kind.clone().attributes(&mut written);
    written.0
}

struct Written(Vec<String>);

impl Written {
    #[expect(clippy::unnecessary_wraps, reason = "the trait's methods may fail")]
    fn assign(&mut self, name: &str, value: impl Display) -> Result<(), Infallible> {
        self.0.push(format!("{name}={value}"));
        Ok(())
    }
}

impl Attributes for Written {
    type Error = Infallible;

    fn flag(&mut self, name: &str, value: &mut bool) -> Result<(), Infallible> {
        self.0.extend(value.then(|| name.to_string()));
        Ok(())
    }

    fn integer<T: FromStr + Display>(&mut self, name: &str, value: &mut T) -> Result<(), Infallible> {
        self.assign(name, value)
    }

    fn optional_integer<T: FromStr + Display>(
        &mut self,
        name: &str,
        value: &mut Option<T>,
    ) -> Result<(), Infallible> {
        if let Some(value) = value { self.integer(name, value) } else { Ok(()) }
    }

    fn format(&mut self, name: &str, value: &mut BlockFormat) -> Result<(), Infallible> {
        self.assign(name, value)
    }

    fn number(&mut self, name: &str, value: &mut Number) -> Result<(), Infallible> {
        self.assign(name, number(*value))
    }

    fn float(&mut self, name: &str, value: &mut f64) -> Result<(), Infallible> {
        self.assign(name, float(*value))
    }

    fn optional_float(&mut self, name: &str, value: &mut Option<f64>) -> Result<(), Infallible> {
        if let Some(value) = value { self.float(name, value) } else { Ok(()) }
    }

    fn list(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Infallible> {
        self.assign(name, format_args!("{value:?}"))
    }

    fn list_unless_empty(&mut self, name: &str, value: &mut Vec<usize>) -> Result<(), Infallible> {
        if value.is_empty() { Ok(()) } else { self.list(name, value) }
    }
}
