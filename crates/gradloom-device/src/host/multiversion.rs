//! One function body, compiled for several instruction sets.
//!
//! In: a generic `#[inline(always)]` function. Out: a function of [`InstructionSet`](super::InstructionSet)
//! that returns the variant to call. Always holds: the variants differ in the width of their vectors only;
//! Rust contracts no multiplication and addition into one rounding, so they give the same bits.

/// Defines `fn name<G: Bound, ..>(level: InstructionSet) -> unsafe fn(args..) -> result`, whose variants all
/// inline `body`. With `body, up to AVX2`, that is the widest: for what has machine code of its own where
/// there is AVX-512, so that a variant would be compiled for nothing.
///
/// Calling the returned function needs what `body` needs, and a machine that has the level.
#[macro_export]
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($generic:ident: $bound:path),*>(
            $($arg:ident: $ty:ty),* $(,)?
        ) $(-> $ret:ty)? = $body:ident, up to AVX2;
    ) => {
        $(#[$meta])*
        $vis fn $name<$($generic: $bound),*>(
            level: $crate::host::InstructionSet,
        ) -> unsafe fn($($ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            if level >= $crate::host::InstructionSet::Avx2 {
                #[target_feature(enable = "avx2")]
                unsafe fn avx2<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller vouches for what the body needs.
                    unsafe { $body::<$($generic),*>($($arg),*) }
                }
                return avx2::<$($generic),*>;
            }
            let _ = level;
            $body::<$($generic),*>
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($generic:ident: $bound:path),*>(
            $($arg:ident: $ty:ty),* $(,)?
        ) $(-> $ret:ty)? = $body:ident;
    ) => {
        $(#[$meta])*
        $vis fn $name<$($generic: $bound),*>(
            level: $crate::host::InstructionSet,
        ) -> unsafe fn($($ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            if level == $crate::host::InstructionSet::Avx512 {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn avx512<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller vouches for what the body needs.
                    unsafe { $body::<$($generic),*>($($arg),*) }
                }
                return avx512::<$($generic),*>;
            }
            $crate::multiversion! {
                fn narrower<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? = $body, up to AVX2;
            }
            narrower::<$($generic),*>(level)
        }
    };
}
