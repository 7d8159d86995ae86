//! Random bits from Philox4x32-10. Each invocation computes four elements: the four words of one counter
//! value, or of one for each digit of the probability of a 1.
//!
//! In: seed and step as u32 scalars. Out: elements made of the words of
//! [`gradloom_core::philox::random_word`].

use super::super::ir::Kernel;
use super::each::each;
use super::{Builder, Value, Views};
use crate::narrow::narrow;
use gradloom_core::ir::BinaryFraction;
use gradloom_core::philox;

/// Returns the kernel of `RandomBits` for a site and the probability of a 1.
pub(super) fn random_bits(views: &Views<'_>, site: u32, ones: BinaryFraction) -> Vec<Kernel> {
    let elements = views.elements();
    let blocks = elements.div_ceil(4);
    each("random_bits", views, blocks, |k, position| {
        let load = |read| views.load(k, read, k.u32(0));
        let (key, step) = ([load(0), load(1)], load(2));
        // The block's own part of the second word is 0: a result has fewer than 2^34 elements.
        let words = |high| philox4x32(k, [position, high, step, k.u32(site)], key);
        let mut drawn = words(k.u32(0));
        if ones.digits > 1 {
            let variables = drawn.map(|word| k.var(word));
            k.count(k.u32(1), k.u32(ones.digits), k.u32(1), |digit| {
                let is_one = (k.u32(ones.parts) >> digit & 1).equals(k.u32(1));
                for (variable, word) in variables.iter().zip(words(digit << (philox::DIGIT_SHIFT - 32))) {
                    let before = variable.get();
                    variable.set(is_one.select(before | word, before & word));
                }
            });
            drawn = variables.map(|variable| variable.get());
        }
        for (number, value) in (0u32..).zip(drawn).take(elements.min(4)) {
            let store = || views.store(k, position * 4 + number, value);
            // Only the last block may have surplus words, which are not stored.
            if number as usize > (elements - 1) % 4 {
                k.when(position.below(narrow(blocks - 1)), store);
            } else {
                store();
            }
        }
    })
}

/// Returns the four random words for a counter and a key.
fn philox4x32<'k>(k: &'k Builder, mut c: [Value<'k>; 4], [mut k0, mut k1]: [Value<'k>; 2]) -> [Value<'k>; 4] {
    let [m0, m1] = philox::MULTIPLIERS.map(|multiplier| k.u32(multiplier));
    let [w0, w1] = philox::WEYL;
    for _ in 0..10 {
        let [a, b] = [c[0].mul_high(m0), c[2].mul_high(m1)];
        c = [b ^ c[1] ^ k0, c[2] * m1, a ^ c[3] ^ k1, c[0] * m0];
        (k0, k1) = (k0 + w0, k1 + w1);
    }
    c
}
