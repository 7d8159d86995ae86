//! Compares every operation of every instruction set of this machine, lane by lane, with scalar arithmetic.

use super::{Simd, Vectorized, WIDEST, dispatch};
use crate::InstructionSet;
use crate::testing::Random;
use gradloom_core::ir::half;

type Lanes = [f32; WIDEST];

fn on_all(code: impl Vectorized + Clone) {
    for level in InstructionSet::available() {
        // SAFETY: this machine supports the level.
        unsafe { dispatch(level, code.clone()) };
    }
}

fn load<S: Simd>(simd: S, lanes: &Lanes) -> S::F32s {
    // SAFETY: no vector has more than `WIDEST` lanes.
    unsafe { simd.load(lanes.as_ptr()) }
}

/// Returns the lanes of a vector.
fn lanes<S: Simd>(simd: S, vector: S::F32s) -> Vec<f32> {
    let mut lanes = [f32::NAN; WIDEST];
    // SAFETY: no vector has more than `WIDEST` lanes.
    unsafe { simd.store(lanes.as_mut_ptr(), vector) };
    lanes[..S::LANES].to_vec()
}

fn random(random: &mut Random) -> Lanes {
    std::array::from_fn(|_| random.float() * 8.0)
}

#[track_caller]
fn assert_lanes(found: &[f32], expected: impl Fn(usize) -> f32) {
    for (i, &found) in found.iter().enumerate() {
        let expected = expected(i);
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{found}, not {expected}, in lane {i}"
        );
    }
}

#[derive(Clone)]
struct Arithmetic;

impl Vectorized for Arithmetic {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut numbers = Random(1);
        for _ in 0..20 {
            let [x, y, z] = std::array::from_fn(|_| random(&mut numbers));
            let [a, b, c] = [x, y, z].map(|lanes| load(simd, &lanes));
            assert_lanes(&lanes(simd, simd.splat(x[0])), |_| x[0]);
            assert_lanes(&lanes(simd, simd.add(a, b)), |i| x[i] + y[i]);
            assert_lanes(&lanes(simd, simd.sub(a, b)), |i| x[i] - y[i]);
            assert_lanes(&lanes(simd, simd.mul(a, b)), |i| x[i] * y[i]);
            assert_lanes(&lanes(simd, simd.max(a, b)), |i| x[i].max(y[i]));
            let selected = lanes(simd, simd.select_less(a, b, c, a));
            assert_lanes(&selected, |i| if x[i] < y[i] { z[i] } else { x[i] });
            for (i, found) in lanes(simd, simd.mul_add(a, b, c)).into_iter().enumerate() {
                let (fused, rounded) = (x[i].mul_add(y[i], z[i]), x[i] * y[i] + z[i]);
                assert!(found == fused || found == rounded, "{found} is neither {fused} nor {rounded}");
            }
            let x = &x[..S::LANES];
            let (exact, size) =
                x.iter().fold((0.0, 0.0), |(sum, size), &x| (sum + f64::from(x), size + f64::from(x.abs())));
            let sum = f64::from(simd.sum(a));
            assert!((sum - exact).abs() <= size * 1e-6, "the sum {sum} is not {exact}");
            assert_eq!(simd.largest(a), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
        let [nan, one] = [f32::NAN, 1.0].map(|x| simd.splat(x));
        assert_lanes(&lanes(simd, simd.max(one, nan)), |_| f32::NAN);
        assert_lanes(&lanes(simd, simd.select_less(nan, one, nan, one)), |_| 1.0);
        assert_lanes(&lanes(simd, simd.select_less(one, one, nan, one)), |_| 1.0);
        for n in -126i32..=127 {
            // Set bits above the ninth as well, which must be ignored.
            for above in [0, 0x4b40_0000] {
                let bits = simd.splat(f32::from_bits(n.cast_unsigned() & 0x1ff | above));
                assert_lanes(&lanes(simd, simd.power_of_two(bits)), |_| 2f64.powi(n) as f32);
            }
        }
    }
}

#[test]
fn arithmetic_is_that_of_scalars() {
    on_all(Arithmetic);
}

#[derive(Clone)]
struct First;

impl Vectorized for First {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut numbers = Random(2);
        for count in 0..=S::LANES {
            let [x, y] = std::array::from_fn(|_| random(&mut numbers));
            let [a, b] = [x, y].map(|lanes| load(simd, &lanes));
            // Nothing beyond these elements may be read, which Miri checks.
            let some = x[..count].to_vec();
            // SAFETY: there are `count` elements.
            let found = unsafe { simd.load_first(count, some.as_ptr()) };
            assert_lanes(&lanes(simd, found), |i| if i < count { x[i] } else { 0.0 });
            assert_lanes(&lanes(simd, simd.first(count, a, b)), |i| if i < count { x[i] } else { y[i] });
            let mut written = y;
            // SAFETY: `written` has room for `count` elements.
            unsafe { simd.store_first(count, written.as_mut_ptr(), a) };
            assert_lanes(&written, |i| if i < count { x[i] } else { y[i] });
        }
    }
}

#[test]
fn the_first_lanes_are_read_written_and_chosen_alone() {
    on_all(First);
}

#[derive(Clone)]
struct Narrow;

impl Vectorized for Narrow {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let bytes: Vec<u8> = (0..=255).collect();
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        // SAFETY: each chunk has as many elements as a vector has lanes.
        unsafe {
            for chunk in bytes.chunks_exact(S::LANES) {
                let from = chunk.as_ptr();
                assert_lanes(&lanes(simd, simd.load_i8(from)), |i| f32::from(chunk[i].cast_signed()));
                let [low, high] = [false, true].map(|high| lanes(simd, simd.load_nibbles(from, high)));
                assert_lanes(&low, |i| f32::from(chunk[i] & 15) - 8.0);
                assert_lanes(&high, |i| f32::from(chunk[i] >> 4) - 8.0);
            }
            for chunk in halves.chunks_exact(S::LANES) {
                let from = chunk.as_ptr();
                assert_lanes(&lanes(simd, simd.load_f16(from)), |i| half::from_f16(chunk[i]));
                assert_lanes(&lanes(simd, simd.load_bf16(from)), |i| half::from_bf16(chunk[i]));
                assert_lanes(&lanes(simd, simd.splat_f16(chunk[0])), |_| half::from_f16(chunk[0]));
            }
        }
    }
}

#[test]
fn narrow_numbers_become_f32_exactly() {
    on_all(Narrow);
}
