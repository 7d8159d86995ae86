//! Checks that initial values do not depend on threads and instruction sets, and that they have the right
//! distributions. Seeds are fixed, so the tests are deterministic; the right distribution exceeds each bound
//! for about one seed in ten thousand.

use super::*;

const KEY: InitialKey = InitialKey { seed: 7, parameter: 3 };

fn elements_of(init: &Init, shape: impl Into<Shape>, key: InitialKey) -> Vec<f32> {
    let shape = shape.into();
    let mut out = vec![f32::NAN; shape.elements()];
    fill_initial(init, &shape, key, &mut out, &Pool::new(2)).unwrap();
    out
}

const SAMPLE: usize = if cfg!(debug_assertions) { 1 << 18 } else { 1 << 20 };

fn standard_normal(key: InitialKey) -> Vec<f64> {
    let values = elements_of(&Init::Normal { std: 1.0 }, [SAMPLE], key);
    values.into_iter().map(f64::from).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// Returns the cumulative distribution function of the standard normal distribution.
fn cumulative(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

#[test]
fn threads_and_instruction_sets_give_the_same_bits() {
    for init in [Init::Normal { std: 0.02 }, Init::Uniform { low: -1.0, high: 2.0 }, Init::FanIn] {
        for extent in [0, 1, 2, 3, 5, WORDS - 1, WORDS + 1, GRAIN, 3 * GRAIN + 7] {
            let shape = Shape::from([extent]);
            let fill = |threads, level| {
                let mut out = vec![f32::NAN; extent];
                fill_at_level(&init, &shape, KEY, &mut out, &Pool::new(threads), level).unwrap();
                out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let wanted = fill(1, InstructionSet::Baseline);
            for level in InstructionSet::available() {
                for threads in [1, 2, 3] {
                    assert_eq!(
                        fill(threads, level),
                        wanted,
                        "{init:?}, {extent}, {level:?}, {threads} threads"
                    );
                }
            }
        }
    }
}

#[test]
fn an_element_depends_on_its_position_its_parameter_and_the_seed() {
    let normal = Init::Normal { std: 1.0 };
    let values = elements_of(&normal, [2, GRAIN], KEY);
    assert_eq!(elements_of(&normal, [GRAIN + 5], KEY), values[..GRAIN + 5]);
    for other in [
        InitialKey { seed: 8, ..KEY },
        InitialKey { seed: 7 + (1 << 32), ..KEY },
        InitialKey { parameter: 4, ..KEY },
    ] {
        let others = elements_of(&normal, [2, GRAIN], other);
        let equal = values.iter().zip(&others).filter(|(a, b)| a == b).count();
        assert!(equal < 10, "{equal} elements are the same under {other:?}");
    }
}

/// Every machine must compute these bits, which were observed on x86-64 and in WebAssembly.
#[test]
fn the_bits_are_those_of_other_machines() {
    for (init, first, all) in [
        (Init::Normal { std: 0.02 }, [0x3be9_7a9d, 0xbbd4_cbe5, 0x3bfe_7f37], 0xa2aa_1e9e),
        (Init::Uniform { low: -1.0, high: 1.0 }, [0x3f47_d7c8, 0x3f43_c618, 0x3f17_9b34], 0xc15f_9497),
    ] {
        let bits: Vec<u32> = elements_of(&init, [100_003], KEY).into_iter().map(f32::to_bits).collect();
        assert_eq!(bits[..3], first, "{init:?}");
        // FNV-1a hash of the words.
        let hash = bits.iter().fold(0x811c_9dc5_u32, |hash, bits| (hash ^ bits).wrapping_mul(0x0100_0193));
        assert_eq!(hash, all, "{init:?}: {hash:#x}");
    }
}

#[test]
fn normal_numbers_have_the_moments() {
    for seed in [0, 7, u64::MAX] {
        let values = standard_normal(InitialKey { seed, parameter: 0 });
        let n = values.len() as f64;
        let moment = |power: i32| mean(values.iter().map(|v| v.powi(power)));
        // Each case has a power of a standard normal number, and its mean and variance, which is divided by n
        // below.
        for (power, wanted, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let (got, bound) = (moment(power), 4.0 * f64::sqrt(variance / n));
            assert!(
                (got - wanted).abs() < bound,
                "seed {seed}: moment {power} is {got}, not {wanted} ± {bound}"
            );
        }
    }
    let scaled = elements_of(&Init::Normal { std: 0.02 }, [300, 1001], KEY);
    let deviation = mean(scaled.iter().map(|&v| f64::from(v).powi(2))).sqrt();
    assert!((deviation / 0.02 - 1.0).abs() < 0.006, "deviation {deviation}");
}

/// Returns the Kolmogorov-Smirnov distance between the distribution of `values` and `cumulative`, multiplied
/// by the square root of the number of values.
fn distance(mut values: Vec<f64>, cumulative: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let steps = values.iter().enumerate();
    let gaps = steps.map(|(i, &v)| {
        let p = cumulative(v);
        f64::max((i + 1) as f64 / n - p, p - i as f64 / n)
    });
    gaps.fold(0.0, f64::max) * n.sqrt()
}

#[test]
fn the_distributions_are_right_everywhere() {
    // The bound is 2.23, which the Kolmogorov distribution exceeds with a probability of 1e-4.
    for seed in [0, 7, u64::MAX] {
        let key = InitialKey { seed, parameter: 1 };
        let normal = distance(standard_normal(key), cumulative);
        assert!(normal < 2.23, "seed {seed}: normal numbers are {normal} away");
        let uniform = elements_of(&Init::Uniform { low: -1.0, high: 3.0 }, [SAMPLE], key);
        assert!(uniform.iter().all(|v| (-1.0..=3.0).contains(v)));
        let uniform = distance(uniform.into_iter().map(f64::from).collect(), |v| (v + 1.0) / 4.0);
        assert!(uniform < 2.23, "seed {seed}: uniform numbers are {uniform} away");
    }
}

#[test]
fn tails_are_as_heavy_as_they_should_be() {
    let values = standard_normal(InitialKey { seed: 1, parameter: 0 });
    let n = values.len() as f64;
    for limit in [1.0, 2.0, 3.0, 4.0, 4.5] {
        let expected = n * cumulative(-limit);
        let below = values.iter().filter(|&&v| v < -limit).count() as f64;
        let above = values.iter().filter(|&&v| v > limit).count() as f64;
        for count in [below, above] {
            assert!(
                (count - expected).abs() < 4.0 * expected.sqrt() + 1.0,
                "{count} beyond {limit}, not {expected}"
            );
        }
    }
    // For the most extreme words, the numbers are finite; the largest is close to the square root of
    // `-2 log(2^-33)`.
    let (far, _) = normal_pair(0, 0);
    assert!((far - 6.764).abs() < 0.001, "{far}");
    let (near, _) = normal_pair(u32::MAX, 0);
    assert!(near > 0.0 && near < 2e-5, "{near}");
}

#[test]
fn neighbours_know_nothing_of_each_other() {
    let values = standard_normal(InitialKey { seed: 2, parameter: 0 });
    let n = values.len() as f64;
    // Compute the correlations of neighbors, of their squares (the two numbers of a pair share a radius), and
    // of a number with the square of its neighbor, each normalized by the standard deviations.
    type Function = fn(f64) -> f64;
    let (value, square): (Function, Function) = (|a| a, |a| (a * a - 1.0) / f64::sqrt(2.0));
    let kinds =
        [("values", value, value), ("squares", square, square), ("a value and a square", value, square)];
    for lag in [1, 2, 3, 4, 5, 8, WORDS, GRAIN] {
        for (name, f, g) in kinds {
            let pairs = values[lag..].iter().zip(&values);
            let correlation = mean(pairs.map(|(&a, &b)| f(a) * g(b)));
            assert!(correlation.abs() < 4.0 / n.sqrt(), "{name} at a distance of {lag}: {correlation}");
        }
    }
    // Count pairs in a grid of equally likely cells. The bound is 348, which chi-squared with 255 degrees of
    // freedom exceeds with a probability of 1e-4.
    let cell = |v: f64| ((cumulative(v) * 16.0) as usize).min(15);
    for (first, second) in [(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)] {
        let mut counts = [0.0; 256];
        for four in values.chunks_exact(4) {
            counts[16 * cell(four[first]) + cell(four[second])] += 1.0;
        }
        let expected = n / 4.0 / 256.0;
        let chi_squared: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi_squared < 348.0, "elements {first} and {second} of four: chi-squared {chi_squared}");
    }
}

#[test]
fn constants_given_values_and_bounds() {
    assert_eq!(elements_of(&Init::Zeros, [3], KEY), [0.0; 3]);
    assert_eq!(elements_of(&Init::Ones, [3], KEY), [1.0; 3]);
    assert_eq!(elements_of(&Init::Constant(0.1), [2], KEY), [0.1; 2]);
    assert_eq!(elements_of(&Init::Values(vec![1.0, 2.0].into()), [2], KEY), [1.0, 2.0]);
    let refused =
        fill_initial(&Init::Values(vec![1.0].into()), &[2].into(), KEY, &mut [0.0; 2], &Pool::new(1));
    assert!(refused.unwrap_err().contains("[2]"));
    // The first extent of a matrix is its fan-in; values reach the bound ±1/sqrt(16) and do not exceed it.
    let fan_in = elements_of(&Init::FanIn, [16, 1000], KEY);
    let largest = fan_in.iter().fold(0.0f32, |largest, v| largest.max(v.abs()));
    assert!((0.2499..=0.25).contains(&largest), "{largest}");
}

#[test]
fn kaiming_is_normal_with_the_fan_in_in_its_deviation() {
    let gain = std::f64::consts::SQRT_2;
    for (shape, fan_in) in [(vec![8, 3, 5], 15.0f64), (vec![1, 7], 1.0), (vec![], 1.0), (vec![9, 0], 9.0)] {
        let std = gain / fan_in.sqrt();
        let wanted = elements_of(&Init::Normal { std }, shape.clone(), KEY);
        assert_eq!(elements_of(&Init::Kaiming { gain }, shape.clone(), KEY), wanted, "{shape:?}");
    }
    // A product of the weights with standard normal inputs, followed by ReLU, which halves the mean of the
    // squares, preserves that mean.
    let weights = elements_of(&Init::Kaiming { gain }, [100, 2000], KEY);
    let square = mean(weights.iter().map(|&w| f64::from(w).powi(2)));
    assert!((square * 100.0 / 2.0 - 1.0).abs() < 0.02, "{square}");
}

#[test]
fn deviations_and_bounds_are_those_of_their_formulas() {
    let deviation = |init: &Init, shape: &[usize]| {
        let elements = elements_of(init, shape.to_vec(), KEY);
        let average = mean(elements.iter().map(|&w| f64::from(w)));
        assert!(average.abs() < 0.01, "{init:?}: {average}");
        let largest = elements.iter().fold(0.0f64, |most, w| most.max(f64::from(w.abs())));
        (mean(elements.iter().map(|&w| f64::from(w).powi(2))).sqrt(), largest)
    };
    let close = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.02, "{got}, {want} wanted");
    // The fan-in is 300 and the fan-out 100; for the convolution, they are 3 * 15 and 400 * 15.
    let gain = 1.5;
    close(deviation(&Init::Xavier { gain }, &[300, 100]).0, gain * (2.0f64 / 400.0).sqrt());
    let (std, most) = deviation(&Init::XavierUniform { gain }, &[300, 100]);
    close(std, gain * (2.0f64 / 400.0).sqrt());
    close(most, gain * (6.0f64 / 400.0).sqrt());
    let (std, most) = deviation(&Init::KaimingUniform { gain }, &[400, 3, 3, 5]);
    close(std, gain / 45f64.sqrt());
    close(most, gain * (3.0f64 / 45.0).sqrt());
    // 0.7737 is the variance of a standard normal distribution truncated at ±2.
    let (std, most) = deviation(&Init::TruncatedNormal { std: 0.5 }, &[200, 200]);
    close(std, 0.5 * 0.773_741_16f64.sqrt());
    assert!(most <= 1.0, "{most}");
    close(deviation(&Init::Orthogonal { gain: 1.0 }, &[40, 10, 6]).0, 1.0 / 60f64.sqrt());
}
