//! Integers that sort in the order of elements.
//!
//! An element is converted to a u32 key, and packed with its index in the row into a u64. No two of these are
//! equal, so any sort is stable.

/// Elements that can be sorted.
pub(super) trait Element: Copy + Send + Sync + 'static {
    /// Returns the key of the element. Keys have the order of elements; NaN is greater than all numbers, and
    /// zeros are equal.
    fn key(self) -> u32;
    /// Returns the element with the given key, or `None` if several elements share the key.
    fn of_key(key: u32) -> Option<Self>;
}

/// Key of zeros.
const ZERO: u32 = 0x8000_0000;

impl Element for f32 {
    #[inline(always)]
    fn key(self) -> u32 {
        let bits = self.to_bits();
        let magnitude = bits & !ZERO;
        let ordered = if bits & ZERO != 0 { !bits } else { bits | ZERO };
        let number = if magnitude == 0 { ZERO } else { ordered };
        if magnitude > 0x7f80_0000 { u32::MAX } else { number }
    }

    #[inline(always)]
    fn of_key(key: u32) -> Option<Self> {
        let bits = if key & ZERO != 0 { key & !ZERO } else { !key };
        (key != ZERO && key != u32::MAX).then_some(f32::from_bits(bits))
    }
}

impl Element for i32 {
    #[inline(always)]
    fn key(self) -> u32 {
        self.cast_unsigned() ^ ZERO
    }

    #[inline(always)]
    fn of_key(key: u32) -> Option<Self> {
        Some((key ^ ZERO).cast_signed())
    }
}

impl Element for u32 {
    #[inline(always)]
    fn key(self) -> u32 {
        self
    }

    #[inline(always)]
    fn of_key(key: u32) -> Option<Self> {
        Some(key)
    }
}

/// Packs a key and an index into one number.
#[inline(always)]
pub(super) fn packed(key: u32, index: usize) -> u64 {
    u64::from(key) << 32 | index as u64
}

/// Returns the key and the index of a packed number.
#[inline(always)]
pub(super) fn unpacked(packed: u64) -> (u32, usize) {
    ((packed >> 32) as u32, packed as u32 as usize)
}

/// Packs `count` elements from `first` on. Keys are XORed with `flip`, which is 0 or all ones.
///
/// # Safety
/// `from` must be valid for reads of the elements, and `to` for writes of `count` numbers.
#[inline(always)]
pub(super) unsafe fn pack_body<E: Element>(
    (from, stride): (*const E, usize),
    first: usize,
    count: usize,
    flip: u32,
    to: *mut u64,
) {
    for i in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { *to.add(i) = packed((*from.add((first + i) * stride)).key() ^ flip, first + i) };
    }
}
