//! One function body, compiled for several instruction sets.
//!
//! In: a generic `#[inline(always)]` function. Out: a function of [`InstructionSet`](super::InstructionSet)
//! that returns the variant to call. Always holds: the variants differ in the width of their vectors only;
//! Rust contracts no multiplication and addition into one rounding, so they give the same bits.

/// Defines `fn name<G: Bound, ..>(level: InstructionSet) -> unsafe fn(args..) -> result`, whose variants all
/// inline `body`.
///
/// Calling the returned function needs what `body` needs, and a machine that has the level.
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($generic:ident: $bound:path),*>(
            $($arg:ident: $ty:ty),* $(,)?
        ) $(-> $ret:ty)? = $body:ident;
    ) => {
        $(#[$meta])*
        $vis fn $name<$($generic: $bound),*>(level: $crate::cpu::InstructionSet) -> unsafe fn($($ty),*) $(-> $ret)? {
            match level {
                $crate::cpu::InstructionSet::Baseline => $body::<$($generic),*>,
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::InstructionSet::Avx2 => {
                    #[target_feature(enable = "avx2")]
                    unsafe fn avx2<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                        // SAFETY: the caller vouches for what the body needs.
                        unsafe { $body::<$($generic),*>($($arg),*) }
                    }
                    avx2::<$($generic),*>
                }
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::InstructionSet::Avx512 => {
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                    unsafe fn avx512<$($generic: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                        // SAFETY: the caller vouches for what the body needs.
                        unsafe { $body::<$($generic),*>($($arg),*) }
                    }
                    avx512::<$($generic),*>
                }
                #[cfg(not(target_arch = "x86_64"))]
                $crate::cpu::InstructionSet::Avx2 | $crate::cpu::InstructionSet::Avx512 => $body::<$($generic),*>,
            }
        }
    };
}

pub(super) use multiversion;
