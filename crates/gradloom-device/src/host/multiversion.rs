//! Compilation of one function body for several instruction sets.
//!
//! In: a generic `#[inline(always)]` function. Out: a function from an
//! [`InstructionSet`](super::InstructionSet) to the variant to call. Invariant: all variants compute the
//! same bits. They differ only in vector width, because Rust never fuses a multiplication and an addition.

/// Defines `fn name<G: Bound, ..>(level: InstructionSet) -> unsafe fn(args..) -> result`, whose variants all
/// inline `body`. With `body, up to AVX2`, no AVX-512 variant is compiled; this is for loops that machine
/// code replaces from AVX2 on, except where it has no lowering.
///
/// The returned function has the safety requirements of `body` and requires a machine that supports the
/// level.
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
                    // SAFETY: the caller upholds the requirements of the body.
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
            if level >= $crate::host::InstructionSet::Avx512 {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn avx512<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: the caller upholds the requirements of the body.
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
