//! Random bits: Philox4x32-10, one invocation for each counter, which gives four words.
//!
//! In: seed and step as u32 scalars. Out: the words of [`gradloom_core::philox::random_word`], bit by bit.

use super::Dispatch;
use super::movement::{done, each};
use super::source::{Source, index_at};
use gradloom_core::philox;

/// The shader of `RandomBits` at a site.
pub(crate) fn random_bits(mut source: Source<'_>, site: u32) -> Vec<Dispatch> {
    let write = source.operands.writes[0].clone();
    let elements = write.layout.shape.elements();
    let counters = elements.div_ceil(4);
    source.global(PRODUCT);
    let [m0, m1] = philox::MULTIPLIERS;
    let [w0, w1] = philox::WEYL;
    each(&mut source, counters, |source| {
        for (name, read) in [("k0", 0), ("k1", 1), ("step", 2)] {
            let scalar = source.operands.reads[read].clone();
            let value = source.load(&scalar, &index_at(&scalar.layout, "0u"));
            source.line(format_args!("var {name} = {value};"));
        }
        // The counter's second word stays 0: a result has fewer than 2^34 elements.
        source.line(format_args!("var c = vec4<u32>(position, 0u, step, {site}u);"));
        source.line("for (var round = 0u; round < 10u; round++) {");
        source.line(format_args!("let p0 = product(c.x, {m0}u);"));
        source.line(format_args!("let p1 = product(c.z, {m1}u);"));
        source.line("c = vec4<u32>(p1.y ^ c.y ^ k0, p1.x, p0.y ^ c.w ^ k1, p0.x);");
        source.line(format_args!("k0 += {w0}u;"));
        source.line(format_args!("k1 += {w1}u;"));
        source.line("}");
        for word in 0..4.min(elements) {
            // Only the last counter may have words to spare.
            let last_has = (elements - 1) % 4;
            if word > last_has {
                source.line(format_args!("if (position < {}u) {{", counters - 1));
            }
            let index = index_at(&write.layout, &format!("(4u * position + {word}u)"));
            source.store(&write, &index, &format!("c[{word}]"));
            if word > last_has {
                source.line("}");
            }
        }
    });
    done(source, "random_bits", counters)
}

/// The low and the high word of a product, from products of halves.
const PRODUCT: &str = "fn product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
    return vec2<u32>(a * b, (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u));
}";
