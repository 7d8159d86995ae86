//! Products of bf16 matrices in the tile registers of AMX.
//!
//! In: operands packed by [`Bf16`](super::pairs::Bf16), the left one with contiguous rows. Out: the product
//! of whole groups of [`SIDE`] rows over whole groups of [`SIDE`] words; the caller computes the rest. See
//! Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3. Invariant: tiles are
//! configured only within [`multiply`], so that the system saves none for threads that are elsewhere.

use crate::InstructionSet;
use crate::matrix::tile::{Rows, TileTarget};
use std::arch::asm;

/// Number of rows of a tile, and of words or f32 in a row.
pub(super) const SIDE: usize = 16;

/// Eight tile registers of [`SIDE`] rows of [`SIDE`] words or f32.
pub(super) trait Tiles: Copy {
    /// Configures the registers; nothing else may be called before.
    fn configure(self);
    /// Ends the use of the registers.
    fn release(self);
    /// Sets tile `T` to zeros.
    fn zero<const T: usize>(self);
    /// Reads tile `T` from rows that start `stride` words apart.
    ///
    /// # Safety
    /// [`SIDE`] rows of [`SIDE`] words must be readable.
    unsafe fn load<const T: usize>(self, from: *const f32, stride: usize);
    /// Writes tile `T` to rows that start `stride` words apart.
    ///
    /// # Safety
    /// [`SIDE`] rows of [`SIDE`] words must be writable.
    unsafe fn store<const T: usize>(self, to: *mut f32, stride: usize);
    /// Adds to tile `T`, of f32, the product of tile `A`, whose rows are words along the contracted index,
    /// and tile `B`, whose columns are.
    fn multiply<const T: usize, const A: usize, const B: usize>(self);
}

/// Tile registers of this machine.
#[derive(Clone, Copy)]
pub(super) struct Amx(());

impl Amx {
    /// Returns the tiles if the instruction set, which this machine must support, has them.
    pub(super) fn of(level: InstructionSet) -> Option<Self> {
        (level >= InstructionSet::AmxBf16).then_some(Self(()))
    }
}

/// Operand of `ldtilecfg`, with fields as the instruction reads them.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight tiles with [`SIDE`] rows of [`SIDE`] words.
static CONFIGURATION: Configuration = {
    let mut all =
        Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    let mut tile = 0;
    while tile < 8 {
        (all.row_bytes[tile], all.rows[tile]) = (4 * SIDE as u16, SIDE as u8);
        tile += 1;
    }
    all
};

// Instructions are not declared to change tile registers: the compiler does not know these, so it keeps
// nothing in them.
impl Tiles for Amx {
    #[inline(always)]
    fn configure(self) {
        // SAFETY: a value of this type proves that the process may use the instructions.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, preserves_flags, readonly))
        }
    }

    #[inline(always)]
    fn release(self) {
        // SAFETY: as above.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) }
    }

    #[inline(always)]
    fn zero<const T: usize>(self) {
        // SAFETY: as above.
        unsafe { asm!("tilezero tmm{t}", t = const T, options(nostack, preserves_flags, nomem)) }
    }

    #[inline(always)]
    unsafe fn load<const T: usize>(self, from: *const f32, stride: usize) {
        // SAFETY: as above, and guaranteed by the caller.
        unsafe {
            asm!(
                "tileloadd tmm{t}, [{from} + {stride}*1]",
                t = const T,
                from = in(reg) from,
                stride = in(reg) 4 * stride,
                options(nostack, preserves_flags, readonly),
            );
        }
    }

    #[inline(always)]
    unsafe fn store<const T: usize>(self, to: *mut f32, stride: usize) {
        // SAFETY: as above, and guaranteed by the caller.
        unsafe {
            asm!(
                "tilestored [{to} + {stride}*1], tmm{t}",
                t = const T,
                to = in(reg) to,
                stride = in(reg) 4 * stride,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn multiply<const T: usize, const A: usize, const B: usize>(self) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "tdpbf16ps tmm{t}, tmm{a}, tmm{b}",
                t = const T,
                a = const A,
                b = const B,
                options(nostack, preserves_flags, nomem),
            );
        }
    }
}

/// Panel of a right operand: rows of `width` words, of which as many are used as the target has columns.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) start: *const f32,
    pub(super) width: usize,
    pub(super) target: TileTarget,
}

/// Computes `target = rows · panel` for each panel, over `rows` groups of [`SIDE`] rows and `words` groups of
/// [`SIDE`] words. Targets have at most two groups of columns.
///
/// # Safety
/// `left`, whose rows must be contiguous, and the panels with their targets must be valid for these extents.
/// Nothing else may access the targets.
#[inline(always)]
pub(super) unsafe fn multiply<T: Tiles>(
    tiles: T,
    [rows, words]: [usize; 2],
    left: Rows,
    panels: impl Iterator<Item = Panel> + Clone,
) {
    tiles.configure();
    let mut row = 0;
    while row < rows {
        // Two groups of rows stay in the first-level cache, while the panels are read from end to end.
        let count = (rows - row).min(2);
        for panel in panels.clone() {
            let (left, target) = (left.at(row * SIDE, 0), panel.target);
            let panel = Panel { target: TileTarget { start: target.row(row * SIDE), ..target }, ..panel };
            // SAFETY: guaranteed by the caller.
            unsafe {
                match (count > 1, target.columns > SIDE) {
                    (true, true) => block::<T, 2, 2>(tiles, words, left, panel),
                    (true, false) => block::<T, 2, 1>(tiles, words, left, panel),
                    (false, true) => block::<T, 1, 2>(tiles, words, left, panel),
                    (false, false) => block::<T, 1, 1>(tiles, words, left, panel),
                }
            }
        }
        row += count;
    }
    tiles.release();
}

/// Computes `R` by `C` tiles of a target.
///
/// # Safety
/// Same as [`multiply`].
#[inline(always)]
unsafe fn block<T: Tiles, const R: usize, const C: usize>(
    tiles: T,
    words: usize,
    left: Rows,
    Panel { start: mut right, width, target }: Panel,
) {
    let mut from = left.start;
    // SAFETY: guaranteed by the caller.
    unsafe {
        begin::<T, 0>(tiles, target, 0, 0);
        if C > 1 {
            begin::<T, 1>(tiles, target, 0, SIDE);
        }
        if R > 1 {
            begin::<T, 2>(tiles, target, SIDE, 0);
        }
        if R > 1 && C > 1 {
            begin::<T, 3>(tiles, target, SIDE, SIDE);
        }
        for _ in 0..words {
            tiles.load::<4>(from, left.row_stride);
            tiles.load::<6>(right, width);
            tiles.multiply::<0, 4, 6>();
            if C > 1 {
                tiles.load::<7>(right.add(SIDE), width);
                tiles.multiply::<1, 4, 7>();
            }
            if R > 1 {
                tiles.load::<5>(from.add(SIDE * left.row_stride), left.row_stride);
                tiles.multiply::<2, 5, 6>();
            }
            if R > 1 && C > 1 {
                tiles.multiply::<3, 5, 7>();
            }
            (from, right) = (from.wrapping_add(SIDE), right.wrapping_add(SIDE * width));
        }
        end::<T, 0>(tiles, target, 0, 0);
        if C > 1 {
            end::<T, 1>(tiles, target, 0, SIDE);
        }
        if R > 1 {
            end::<T, 2>(tiles, target, SIDE, 0);
        }
        if R > 1 && C > 1 {
            end::<T, 3>(tiles, target, SIDE, SIDE);
        }
    }
}

/// Returns `true` if a tile from a column on is written in place.
#[inline(always)]
fn is_whole(target: TileTarget, column: usize) -> bool {
    target.padded || column + SIDE <= target.columns
}

/// Sets sum `S` to the target's elements if it is accumulated in place, and to zeros otherwise.
///
/// # Safety
/// The target must have [`SIDE`] rows from `row` on.
#[inline(always)]
unsafe fn begin<T: Tiles, const S: usize>(tiles: T, target: TileTarget, row: usize, column: usize) {
    if target.accumulate && is_whole(target, column) {
        // SAFETY: guaranteed by the caller.
        unsafe { tiles.load::<S>(target.row(row).wrapping_add(column), target.row_stride) };
    } else {
        tiles.zero::<S>();
    }
}

/// Writes or adds sum `S` to the target.
///
/// # Safety
/// Same as [`begin`]; nothing else may access the target.
#[inline(always)]
unsafe fn end<T: Tiles, const S: usize>(tiles: T, target: TileTarget, row: usize, column: usize) {
    let to = target.row(row).wrapping_add(column);
    if is_whole(target, column) {
        // SAFETY: guaranteed by the caller.
        return unsafe { tiles.store::<S>(to, target.row_stride) };
    }
    let mut sums = [0.0; SIDE * SIDE];
    // SAFETY: guaranteed by the caller; `sums` has room for a tile, and columns end at the target's last.
    unsafe {
        tiles.store::<S>(sums.as_mut_ptr(), SIDE);
        for (r, sums) in sums.as_chunks::<SIDE>().0.iter().enumerate() {
            let to = to.wrapping_add(r * target.row_stride);
            for (c, sum) in sums[..target.columns - column].iter().enumerate() {
                let before = if target.accumulate { *to.add(c) } else { 0.0 };
                *to.add(c) = before + sum;
            }
        }
    }
}

#[cfg(test)]
pub(super) mod emulated {
    //! Tile registers in memory, which run the loops on machines without AMX.

    use super::{SIDE, Tiles};
    use gradloom_core::ir::half::from_bf16;
    use std::cell::RefCell;

    /// Registers; empty unless they are configured.
    pub(in super::super) type Registers = RefCell<Vec<[u32; SIDE * SIDE]>>;

    impl Tiles for &Registers {
        fn configure(self) {
            assert!(self.borrow().is_empty(), "the tiles are in use");
            *self.borrow_mut() = vec![[0x7fc0_7fc0; SIDE * SIDE]; 8];
        }

        fn release(self) {
            self.borrow_mut().clear();
        }

        fn zero<const T: usize>(self) {
            self.borrow_mut()[T] = [0; SIDE * SIDE];
        }

        unsafe fn load<const T: usize>(self, from: *const f32, stride: usize) {
            for i in 0..SIDE * SIDE {
                // SAFETY: guaranteed by the caller.
                self.borrow_mut()[T][i] = unsafe { from.add(i / SIDE * stride + i % SIDE).read().to_bits() };
            }
        }

        unsafe fn store<const T: usize>(self, to: *mut f32, stride: usize) {
            for i in 0..SIDE * SIDE {
                let word = f32::from_bits(self.borrow()[T][i]);
                // SAFETY: guaranteed by the caller.
                unsafe { to.add(i / SIDE * stride + i % SIDE).write(word) };
            }
        }

        fn multiply<const T: usize, const A: usize, const B: usize>(self) {
            let mut tiles = self.borrow_mut();
            let halves = |word: u32| [word as u16, (word >> 16) as u16].map(from_bf16);
            for i in 0..SIDE * SIDE {
                let mut sum = f32::from_bits(tiles[T][i]);
                for q in 0..SIDE {
                    let left = halves(tiles[A][i / SIDE * SIDE + q]);
                    let right = halves(tiles[B][q * SIDE + i % SIDE]);
                    sum += left[0] * right[0] + left[1] * right[1];
                }
                tiles[T][i] = sum.to_bits();
            }
        }
    }
}
