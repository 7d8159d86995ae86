//! Enums whose variants have names.

/// Declares an enum with `ALL`, `name` and `Display`, from its variants and their names.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $ty:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$about])*
        pub enum $ty {
            $($(#[$doc])* $variant,)*
        }

        impl $ty {
            /// All variants, in declaration order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name in texts and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
