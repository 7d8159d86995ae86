//! Random bits from Philox4x32-10. Each invocation computes the four words of one counter value.
//!
//! In: seed and step as u32 scalars. Out: the same words as [`gradloom_core::philox::random_word`].

use super::super::ir::Kernel;
use super::Views;
use super::each::each;
use crate::narrow::narrow;
use gradloom_core::philox;

/// Returns the kernel of `RandomBits` for a site.
pub(super) fn random_bits(views: &Views<'_>, site: u32) -> Vec<Kernel> {
    let elements = views.elements();
    let counters = elements.div_ceil(4);
    let [m0, m1] = philox::MULTIPLIERS;
    let [w0, w1] = philox::WEYL;
    each("random_bits", views, counters, |k, position| {
        let load = |read| views.load(k, read, k.u32(0));
        let (mut k0, mut k1, step) = (load(0), load(1), load(2));
        // The counter's second word stays 0: a result has fewer than 2^34 elements.
        let mut c = [position, k.u32(0), step, k.u32(site)];
        for _ in 0..10 {
            let (m0, m1) = (k.u32(m0), k.u32(m1));
            let [a, b] = [c[0].mul_high(m0), c[2].mul_high(m1)];
            c = [b ^ c[1] ^ k0, c[2] * m1, a ^ c[3] ^ k1, c[0] * m0];
            (k0, k1) = (k0 + w0, k1 + w1);
        }
        for (word, value) in (0u32..).zip(c).take(elements.min(4)) {
            let store = || views.store(k, position * 4 + word, value);
            // Only the last counter value may have surplus words, which are not stored.
            if word as usize > (elements - 1) % 4 {
                k.when(position.below(narrow(counters - 1)), store);
            } else {
                store();
            }
        }
    })
}
