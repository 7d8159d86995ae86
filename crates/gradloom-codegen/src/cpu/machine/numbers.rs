//! Indices of the parts of a routine, with a type for each kind of part.
//!
//! Invariant: a number identifies one part. Bodies are bounded, so all numbers fit in 32 bits. Creating a
//! number that does not fit panics, so numbers are never confused.

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Creates the number of the part at this position.
            pub fn new(position: usize) -> Self {
                Self(u32::try_from(position).expect("a routine has fewer than 2^32 parts"))
            }

            /// Returns the position of the part.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

numbers! {
    /// A value that an instruction defines.
    Value;
    /// An operand of a routine.
    OperandNumber;
    /// One of [`super::ir::Lines::invariants`].
    InvariantNumber;
    /// A slot in the frame for a vector that has no register.
    SpillNumber;
}
