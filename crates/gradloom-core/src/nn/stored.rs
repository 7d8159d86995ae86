//! Parameters that are kept in fewer bits than they are computed with.
//!
//! In: a model and how its matrices are to be kept. Out: the same model, whose parameters are read from 16
//! bits or blocks. Always holds: what a layer gets of a parameter is f32 of the parameter's own shape, so no
//! layer knows; a parameter that is kept so is frozen.

use super::{Module, Param};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BlockFormat, DType, Type};
use crate::trace::{ParamTable, ParamUse, Tensor};

/// Format in which the store keeps a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Floats of 16 bits.
    F16,
    /// Floats of 16 bits with the range of f32.
    BF16,
    /// Blocks along the axis that products sum over: of a matrix `[in, out]` of a linear layer, u8
    /// `[out, bytes of in]`; of an embedding `[rows, width]`, u8 `[rows, bytes of width]`.
    Blocks(BlockFormat),
}

impl Stored {
    /// Returns the type in the store of a parameter of this type; `None` if it cannot be kept so.
    fn type_of(self, ty: &Type, by_columns: bool) -> Option<Type> {
        match (self, &ty.shape[..]) {
            (Stored::F16, shape) => Some(Type::new(DType::F16, shape)),
            (Stored::BF16, shape) => Some(Type::new(DType::BF16, shape)),
            (Stored::Blocks(format), &[rows, columns]) => {
                let [rows, length] = if by_columns { [columns, rows] } else { [rows, columns] };
                Some(Type::new(DType::U8, [rows, format.bytes_of(length)?]))
            }
            _ => None,
        }
    }
}

/// Keeps the matrices of a model in fewer bits, and freezes them: say it before the session is made. Vectors,
/// and matrices whose rows are no whole blocks, stay as they are. Gives the names of those that are kept so.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::ir::BlockFormat;
/// use gradloom::nn::{Linear, Stored, store_matrices};
///
/// let model = (Linear::new(64, 7), Linear::new(7, 3));
/// assert_eq!(store_matrices(&model, Stored::Blocks(BlockFormat::Q8_0))?, ["0.weight"]);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
///
/// # Errors
/// When a matrix is kept so already.
pub fn store_matrices(model: &dyn Module, stored: Stored) -> Result<Vec<String>> {
    let table = ParamTable::of(model)?;
    let matrices = || table.iter().filter(|used| used.param.shape().rank() == 2);
    if let Some(used) = matrices().find(|used| used.param.stored().is_some()) {
        let message = format!("`{}` is kept in fewer bits already", used.name);
        return Err(Error::new(ErrorKind::Trace, message).help("say it once, for a new model"));
    }
    let fits = |used: &&ParamUse| {
        let (ty, by_columns) = (used.param.ty(), used.param.is_transposed_in_torch());
        ty.dtype == DType::F32 && stored.type_of(&ty, by_columns).is_some()
    };
    let chosen = matrices().filter(fits);
    Ok(chosen
        .map(|used| {
            used.param.store_as(stored);
            used.name.clone()
        })
        .collect())
}

impl Param {
    /// Returns the format in the store; `None` if it is kept as it is.
    pub fn stored(&self) -> Option<Stored> {
        self.stored_cell().get().copied()
    }

    fn store_as(&self, stored: Stored) {
        self.stored_cell().get_or_init(|| stored);
        self.freeze();
    }

    /// Returns the type in the store.
    pub(super) fn stored_type(&self, ty: &Type) -> Type {
        let kept = self.stored().and_then(|stored| stored.type_of(ty, self.is_transposed_in_torch()));
        kept.unwrap_or_else(|| ty.clone())
    }

    /// Converts the tensor in the store to f32 of the parameter's shape.
    #[track_caller]
    pub(super) fn read(&self, kept: Tensor) -> Tensor {
        match self.stored() {
            None => kept,
            Some(Stored::F16 | Stored::BF16) => kept.cast(DType::F32),
            Some(Stored::Blocks(format)) => {
                let rows = kept.dequantize(format);
                if self.is_transposed_in_torch() { rows.transpose(0, 1) } else { rows }
            }
        }
    }

    /// Gathers rows of a table `[rows, R..]` by number, i32 `[I..]`: f32 `[I.., R..]`. Of a table in fewer
    /// bits, rows are taken first and converted then.
    #[track_caller]
    pub fn gather_rows(&self, index: Tensor) -> Tensor {
        match self.stored() {
            None => self.tensor().gather_rows(index),
            Some(Stored::F16 | Stored::BF16) => self.kept().gather_rows(index).cast(DType::F32),
            Some(Stored::Blocks(_)) if self.is_transposed_in_torch() => self.tensor().gather_rows(index),
            Some(Stored::Blocks(format)) => self.kept().gather_rows(index).dequantize(format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Embedding, LayerNorm, Linear};
    use crate::trace::{i32, trace};

    #[test]
    fn matrices_are_kept_in_blocks_along_sums() {
        let model = (Embedding::new(5, 64), Linear::new(32, 3), LayerNorm::new(64), Linear::new(33, 2));
        let names = store_matrices(&model, Stored::Blocks(BlockFormat::Q4_0)).unwrap();
        assert_eq!(names, ["0.weight", "1.weight"]);
        assert_eq!(model.0.weight.ty(), Type::new(DType::U8, [5, 36]));
        assert_eq!(model.1.weight.ty(), Type::new(DType::U8, [3, 18]));
        assert_eq!(model.1.weight.shape()[..], [32, 3]);
        assert!(model.1.weight.is_frozen() && !model.3.weight.is_frozen());
        let text = store_matrices(&model, Stored::F16).unwrap_err().to_string();
        assert!(text.contains("`0.weight` is kept in fewer bits already"), "{text}");
    }

    #[test]
    fn rows_of_a_table_are_taken_before_they_are_converted() {
        for stored in [Stored::BF16, Stored::Blocks(BlockFormat::Q8_0)] {
            let table = Embedding::new(5, 32);
            store_matrices(&table, stored).unwrap();
            let traced =
                trace(&table, &[i32("ids", [2])], false, |x| table.forward(x[0]), |t| vec![t]).unwrap();
            let ops: Vec<&str> = traced.graph.entry_ops().map(|(_, op)| op.kind.name()).collect();
            let [.., first, second] = ops[..] else { panic!("{ops:?}") };
            assert!(first == "gather" && ["cast", "dequantize"].contains(&second), "{ops:?}");
            assert_eq!(traced.graph.ty(traced.results[0]), &Type::new(DType::F32, [2, 32]));
        }
    }
}
