//! Elementwise functions, comparisons and reductions, defined by one table per group.
//!
//! A row contains all properties of an op that the compiler uses: its name in the text form, its dtypes, its
//! cost per element, its derivative and its value in float64. The device code is in `cpu/functions.rs` and
//! `simt/spelling.rs` of `gradloom-codegen`. Ops propagate NaN unless their documentation states otherwise.

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

/// Cost of a function per element. The variants are in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostClass {
    /// At most a few instructions, cheaper than loading the operand from memory.
    Simple,
    /// One slow instruction, such as a division or a root.
    Divide,
    /// Tens of instructions, such as a polynomial.
    Function,
    /// Tens of instructions with many branches.
    Branches,
    /// A loop per element.
    Loop,
}

/// Declares a group of ops with its table: the enum, [`ALL`](UnaryOp::ALL), `name`, `parse`, and a private
/// `row`. Omitted fields of a row are taken from the `DEFAULT` of the row type.
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
            /// All ops of this group.
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
