//! Arguments of a command: numbers in order, of which each op reads as many as it needs.

use crate::commands::Commands;
use gradloom_core::decimal::Decimal;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Shape};
use gradloom_core::trace::{Operand, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// The unread numbers of a command, and the tables that they index.
pub(crate) struct Arguments<'a> {
    pub(crate) commands: &'a Commands,
    code: u32,
    rest: &'a [f64],
}

/// A tensor, or a number in its place.
#[derive(Clone, Copy)]
pub(crate) enum Either {
    Tensor(Tensor),
    Number(f64),
}

impl Operand for Either {
    fn tensor(self, beside: Tensor) -> Tensor {
        match self {
            Either::Tensor(tensor) => tensor,
            Either::Number(number) => number.tensor(beside),
        }
    }

    fn number(self) -> Option<f64> {
        match self {
            Either::Tensor(_) => None,
            Either::Number(number) => Some(number),
        }
    }
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(commands: &'a Commands, code: u32, rest: &'a [f64]) -> Self {
        Self { commands, code, rest }
    }

    /// Returns the error for a misuse of the interface between the languages, which is a bug in the
    /// TypeScript part.
    fn misuse(&self, what: &str) -> Error {
        Error::new(ErrorKind::Internal, format!("command {}: {what}", self.code))
    }

    pub(crate) fn unknown(&self, code: u32) -> Error {
        self.misuse(&format!("there is no op {code}: the script and the module are of different versions"))
    }

    pub(crate) fn out_of_range(&self) -> Error {
        Error::new(ErrorKind::Trace, "a number is out of range")
    }

    pub(crate) fn number(&mut self) -> Result<f64> {
        let (&first, rest) = self.rest.split_first().ok_or_else(|| self.misuse("an argument is missing"))?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn integer(&mut self) -> Result<i64> {
        let number = self.number()?;
        if number.fract() != 0.0 || number.abs() > 9_007_199_254_740_991.0 {
            return Err(Error::new(
                ErrorKind::Trace,
                format!("{} is not a whole number", Decimal::from(number)),
            ));
        }
        Ok(number as i64)
    }

    /// Reads a non-negative integer: an extent, an index, a count.
    pub(crate) fn index(&mut self) -> Result<usize> {
        let number = self.bytes()?;
        let error = || {
            Error::new(ErrorKind::Trace, format!("{number} is more than the indices of a page's GPU count"))
        };
        usize::try_from(number).map_err(|_| error().help("an extent has at most 2^31 - 1 elements"))
    }

    /// Reads a number of bytes, which may exceed the module's own address space.
    pub(crate) fn bytes(&mut self) -> Result<u64> {
        let number = self.integer()?;
        let error =
            || Error::new(ErrorKind::Trace, format!("{number} where a whole number from 0 on is wanted"));
        u64::try_from(number).map_err(|_| error())
    }

    /// Reads a device limit in bytes or invocations, clamped to the maximum of this module's integers.
    pub(crate) fn granted(&mut self) -> Result<u64> {
        Ok(self.number()?.clamp(0.0, f64::from(u32::MAX)) as u64)
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        Ok(self.number()? != 0.0)
    }

    pub(crate) fn dtype(&mut self) -> Result<DType> {
        let number = self.index()?;
        DTYPES.get(number).copied().ok_or_else(|| self.misuse("there is no such dtype"))
    }

    /// Reads an optional number; NaN means `None`.
    pub(crate) fn optional(&mut self) -> Result<Option<f64>> {
        Ok(Some(self.number()?).filter(|number| !number.is_nan()))
    }

    /// Reads an optional integer; NaN means `None`.
    pub(crate) fn optional_integer<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        if self.rest.first().is_some_and(|number| number.is_nan()) {
            return self.optional().map(|_| None);
        }
        self.integer()?.try_into().map(Some).map_err(|_| self.out_of_range())
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let id = self.index()?;
        self.commands.texts.get(id).map(String::as_str).ok_or_else(|| self.misuse("there is no such text"))
    }

    pub(crate) fn blob(&mut self) -> Result<Arc<[f32]>> {
        let id = self.index()?;
        self.commands.blobs.get(id).cloned().ok_or_else(|| self.misuse("there is no such blob"))
    }

    pub(crate) fn tensor(&mut self) -> Result<Tensor> {
        let id = self.index()?;
        self.commands.tensor(id).ok_or_else(|| self.misuse("there is no such tensor"))
    }

    pub(crate) fn optional_tensor(&mut self) -> Result<Option<Tensor>> {
        match self.integer()? {
            -1 => Ok(None),
            id => {
                let tensor = usize::try_from(id).ok().and_then(|id| self.commands.tensor(id));
                Ok(Some(tensor.ok_or_else(|| self.misuse("there is no such tensor"))?))
            }
        }
    }

    pub(crate) fn operand(&mut self) -> Result<Either> {
        Ok(if self.bool()? { Either::Number(self.number()?) } else { Either::Tensor(self.tensor()?) })
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.index()?;
        if count > self.rest.len() {
            return Err(self.misuse("a list is cut off"));
        }
        (0..count).map(|_| one(self)).collect()
    }

    pub(crate) fn tensors(&mut self) -> Result<Vec<Tensor>> {
        self.list(Self::tensor)
    }

    pub(crate) fn integers(&mut self) -> Result<Vec<usize>> {
        self.list(Self::index)
    }

    pub(crate) fn axes(&mut self) -> Result<Vec<isize>> {
        self.list(|this| this.integer()?.try_into().map_err(|_| this.out_of_range()))
    }

    pub(crate) fn shape(&mut self) -> Result<Shape> {
        Ok(self.integers()?.into())
    }

    pub(crate) fn range(&mut self) -> Result<Range<isize>> {
        let mut place = || self.integer().map(|place| place as isize);
        Ok(place()?..place()?)
    }

    /// Reads all remaining numbers.
    pub(crate) fn rest<T>(&mut self, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while !self.rest.is_empty() {
            all.push(one(self)?);
        }
        Ok(all)
    }
}

/// Element types by their codes.
pub(crate) const DTYPES: [DType; 8] = DType::ALL;
