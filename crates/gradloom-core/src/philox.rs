//! Counter-based random bits, shared by all backends, the reference and parameter initialization.
//!
//! Implements Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3",
//! SC'11).

/// Multipliers of a Philox round.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Weyl constants added to the key after each round.
pub const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Returns the four random words for a counter and a key.
#[inline]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIERS[0]) * u64::from(c0);
        let p1 = u64::from(MULTIPLIERS[1]) * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// Binary logarithm of the distance between the counters of consecutive digits.
pub const DIGIT_SHIFT: u32 = 56;

/// Returns the first two words of a counter, as a number, for four elements from `4 * block` and a digit of
/// the probability of a 1, from 0 for the last one.
#[inline]
pub fn counter(block: u64, digit: u32) -> u64 {
    block + (u64::from(digit) << DIGIT_SHIFT)
}

/// Returns the word that [`crate::ir::OpKind::RandomBits`] draws for a row-major element index and a digit of
/// the probability of a 1. The element is that word if the probability is 1/2.
#[inline]
pub fn random_word(seed: [u32; 2], step: u32, site: u32, element: u64, digit: u32) -> u32 {
    let counter = counter(element / 4, digit);
    philox4x32([counter as u32, (counter >> 32) as u32, step, site], seed)[(element % 4) as usize]
}

#[cfg(test)]
mod tests {
    use super::philox4x32;

    /// Known answers from Random123, the reference implementation (`kat_vectors`).
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }
}
