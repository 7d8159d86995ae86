//! Elementwise functions, comparisons and reductions: one table for each group.
//!
//! A row has everything that the compiler knows of an op: its name in the text form, the dtypes that it
//! takes, the cost of an element, its derivative, and its value in float64. What devices compute is in
//! `cpu/functions.rs` and `simt/spelling.rs` of `gradloom-codegen`. NaN stays NaN unless a comment says
//! otherwise.

mod binary;
mod compare;
mod composite;
mod reduce;
mod unary;

pub use binary::BinaryOp;
pub use compare::CompareOp;
pub use composite::CompositeOp;
pub use reduce::ReduceOp;
pub use unary::UnaryOp;

/// The cost of one element of a function, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostClass {
    /// An instruction or a few: less than memory takes to read the operand.
    Simple,
    /// One instruction that takes several times as long: divisions and roots.
    Divide,
    /// Tens of instructions, such as a polynomial.
    Function,
    /// Tens of instructions with many branches.
    Branches,
    /// A loop for each element.
    Loop,
}

/// Declares a group of ops with its table: the enum, [`ALL`](UnaryOp::ALL), `name` and `parse`, and a private
/// `row`. Fields that a row leaves out are those of the row type's `DEFAULT`.
macro_rules! table {
    (
        $(#[$about:meta])*
        pub enum $ty:ident: $row:ident {
            $($(#[$doc:meta])* $variant:ident { $($field:ident: $value:expr),* $(,)? })*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $ty {
            $($(#[$doc])* $variant,)*
        }

        impl $ty {
            /// Every op of this group.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];

            #[allow(clippy::needless_update)]
            fn row(self) -> &'static $row {
                match self {
                    $($ty::$variant => const { &$row { $($field: $value,)* ..$row::DEFAULT } },)*
                }
            }

            /// Returns the name in the text form.
            pub fn name(self) -> &'static str {
                self.row().name
            }

            /// Returns the op with this name.
            pub fn parse(name: &str) -> Option<$ty> {
                Self::ALL.iter().copied().find(|op| op.name() == name)
            }
        }
    };
}
use table;
