//! Random words from Philox4x32-10, sixteen counters at a time.
//!
//! Invariant: the words equal those of [`gradloom_core::philox::random_word`].

/// Number of counters processed together.
pub const LANES: usize = 16;
/// Number of words computed from [`LANES`] counters.
pub const WORDS: usize = 4 * LANES;

/// Computes Philox4x32-10 (see [`gradloom_core::philox`]) for [`LANES`] consecutive counters from `counter`.
/// Returns the first words of all counters, then the second words, and so on. The loops over the lanes are
/// inside each round, so that they vectorize.
#[inline(always)]
pub fn lanes(counter: u64, step: u32, site: u32, key: [u32; 2]) -> [[u32; LANES]; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = [[0u32; LANES]; 4];
    for lane in 0..LANES {
        let at = counter.wrapping_add(lane as u64);
        (c0[lane], c1[lane], c2[lane], c3[lane]) = (at as u32, (at >> 32) as u32, step, site);
    }
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        for lane in 0..LANES {
            let p0 = u64::from(c0[lane]) * 0xD251_1F53;
            let p1 = u64::from(c2[lane]) * 0xCD9E_8D57;
            c0[lane] = (p1 >> 32) as u32 ^ c1[lane] ^ k0;
            c1[lane] = p1 as u32;
            c2[lane] = (p0 >> 32) as u32 ^ c3[lane] ^ k1;
            c3[lane] = p0 as u32;
        }
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [c0, c1, c2, c3]
}
