//! Parameters that are stored in fewer bits than computations use.
//!
//! In: a model and a storage format for its matrices. Out: the same model, with parameters that are read from
//! 16 bits or blocks. Invariant: layers read a parameter as f32 of its own shape, so they are independent of
//! the format. A parameter in such a format is frozen.

use super::{Module, Param};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BlockFormat, DType, Type};
use crate::trace::{ParamTable, ParamUse, Tensor};

/// The format of a parameter in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// 16-bit floats.
    F16,
    /// 16-bit floats with the range of f32.
    BF16,
    /// Blocks along the axis over which products sum: a matrix `[in, out]` of a linear layer is stored as u8
    /// `[out, bytes of in]`, and an embedding `[rows, width]` as u8 `[rows, bytes of width]`.
    Blocks(BlockFormat),
}

impl Stored {
    /// Returns the stored type of a parameter of this type; `None` if the format cannot represent it.
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

/// Stores the matrices of a model in fewer bits and freezes them. Call it before the session is created.
/// Parameters that are not f32 matrices, and matrices that cannot be divided into whole blocks, are
/// unchanged. Returns the names of the matrices whose format changed.
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
/// Returns an error if a matrix is already stored in fewer bits, or an error of [`ParamTable::of`].
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
    /// Returns the format in the store; `None` if the parameter is stored in its own dtype.
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

    /// Gathers the rows of a table `[rows, R..]` that `index` i32 `[I..]` names, and returns f32
    /// `[I.., R..]`. If the table is stored in fewer bits, rows are gathered before they are converted,
    /// except from blocks along the columns ([`Param::is_transposed_in_torch`]): these need the whole table.
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
