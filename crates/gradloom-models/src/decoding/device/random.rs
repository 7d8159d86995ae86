//! The random words of rows, in ops of 32 bits: those of [`Sampling::uniform`](crate::decoding::Sampling),
//! bit for bit.

use super::super::Draw;
use super::super::sampling::DOMAIN;
use gradloom_core::ir::DType;
use gradloom_core::philox::{MULTIPLIERS, WEYL};
use gradloom_core::trace::{Tensor, full};

/// A u32 for each seed and position: word 1 of Philox4x32-10 with the counter (position, 0, [`Draw::Token`],
/// [`DOMAIN`]).
#[track_caller]
pub(super) fn word(seed: [Tensor; 2], position: Tensor) -> Tensor {
    let number = |value: u32| full(DType::U32, position.shape(), value.into());
    let factors = MULTIPLIERS.map(number);
    let mut key = seed;
    let mut counter = [position.cast(DType::U32), number(0), number(Draw::Token as u32), number(DOMAIN)];
    for _ in 0..10 {
        let [c0, c1, c2, c3] = counter;
        counter = [
            high_product(c2, factors[1]).logical_xor(c1).logical_xor(key[0]),
            c2 * factors[1],
            high_product(c0, factors[0]).logical_xor(c3).logical_xor(key[1]),
            c0 * factors[0],
        ];
        key = [key[0] + number(WEYL[0]), key[1] + number(WEYL[1])];
    }
    counter[1]
}

/// The high 32 bits of products of u32, made of products of 16 bits.
#[track_caller]
pub(super) fn high_product(a: Tensor, b: Tensor) -> Tensor {
    const LOW: i32 = 0xffff;
    let [a_low, b_low] = [a, b].map(|x| x.logical_and(LOW));
    let [a_high, b_high] = [a, b].map(|x| x.shift_right(16));
    // No sum overflows: (2^16 - 1)^2 + 2 (2^16 - 1) = 2^32 - 1.
    let middle = a_high * b_low + (a_low * b_low).shift_right(16);
    let other = a_low * b_high + middle.logical_and(LOW);
    a_high * b_high + middle.shift_right(16) + other.shift_right(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoding::Sampling;
    use gradloom_core::trace::{i32, u32};
    use gradloom_runtime::{Device, Session};

    #[test]
    fn words_are_the_hosts_bit_for_bit() {
        const ROWS: usize = 100;
        let seeds: Vec<u64> =
            (0..ROWS as u64).map(|i| i.pow(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let positions: Vec<i32> =
            (0..ROWS as i32).map(|i| if i == 9 { i32::MAX } else { i * i * 31 }).collect();
        let words: Vec<u32> = seeds.iter().flat_map(|&seed| [seed as u32, (seed >> 32) as u32]).collect();
        let session = Session::new((), &Device::cpu(), 0).unwrap();
        let mut run = session
            .infer([u32("seed", [ROWS, 2]), i32("position", [ROWS])], |(), [seed, position]| {
                let word = word([0, 1].map(|i| seed.slice(1, i..i + 1)), position.unsqueeze(1));
                [word.shift_right(16), word.logical_and(0xffff)]
            })
            .unwrap();
        let [high, low] = run.run((&words, &positions)).unwrap();
        for (row, (&seed, &position)) in seeds.iter().zip(&positions).enumerate() {
            let got = f64::from(high[row]) * 65536.0 + f64::from(low[row]);
            let want = Sampling { seed, ..Sampling::default() }.uniform(position as u64, Draw::Token);
            assert_eq!(got, want * 4_294_967_296.0, "{seed} {position}");
        }
    }

    #[test]
    fn high_products_are_exact_at_the_ends() {
        let ends = [0u32, 1, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
        let pairs: Vec<[u32; 2]> = ends.iter().flat_map(|&a| ends.map(|b| [a, b])).collect();
        let session = Session::new((), &Device::cpu(), 0).unwrap();
        let mut run = session
            .infer([u32("a", [64]), u32("b", [64])], |(), [a, b]| {
                let high = high_product(a, b);
                [high.shift_right(16), high.logical_and(0xffff)]
            })
            .unwrap();
        let [a, b] = [0, 1].map(|i| pairs.iter().map(|pair| pair[i]).collect::<Vec<u32>>());
        let [high, low] = run.run((&a, &b)).unwrap();
        for (i, [a, b]) in pairs.into_iter().enumerate() {
            let got = high[i] as u64 * 65536 + low[i] as u64;
            assert_eq!(got, (u64::from(a) * u64::from(b)) >> 32, "{a} {b}");
        }
    }
}
