//! Tests random numbers as users draw them: their distributions over many steps and call sites, and their
//! independence. The seed is fixed, so that results are reproducible.

use gradloom::prelude::*;

const STEPS: usize = 10_000;

/// Returns the results of a program without inputs in each of many runs.
fn runs<const N: usize>(steps: usize, f: impl FnOnce() -> [Tensor; N]) -> Vec<[Vec<f32>; N]> {
    let session = Session::new((), &Device::cpu_with_threads(1).unwrap(), 5).unwrap();
    let mut program = session.infer([], |(), []: [Tensor; 0]| f().to_vec()).unwrap();
    let numbers = |_| {
        let values = program.run([] as [&[f32]; 0]).unwrap();
        <[Vec<f32>; N]>::try_from(values).expect("as many results as tensors")
    };
    (0..steps).map(numbers).collect()
}

/// Returns Pearson's statistic for counts with the given expected shares, minus its mean and divided by its
/// standard deviation. It rarely exceeds 4.
fn chi_square(counts: &[usize], shares: &[f64]) -> f64 {
    let all = counts.iter().sum::<usize>() as f64;
    let term = |(&count, &share): (&usize, &f64)| (count as f64 - all * share).powi(2) / (all * share);
    let freedom = (counts.len() - 1) as f64;
    (counts.iter().zip(shares).map(term).sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

/// Returns the correlation of two lists, multiplied by the square root of their length. It rarely exceeds 4
/// if the lists are independent.
fn correlation(a: &[f32], b: &[f32]) -> f64 {
    let mean = |x: &[f32]| x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    let product = |x: &[f32], of_x: f64, y: &[f32], of_y: f64| -> f64 {
        x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - of_x) * (f64::from(y) - of_y)).sum()
    };
    let deviations = (product(a, of_a, a, of_a) * product(b, of_b, b, of_b)).sqrt();
    product(a, of_a, b, of_b) / deviations * (a.len() as f64).sqrt()
}

#[test]
fn uniform_numbers_over_steps_and_places() {
    let drawn = runs(STEPS, || [uniform([8]), uniform([8]), uniform([2, 4])]);
    let all: Vec<f32> = drawn.iter().flatten().flatten().copied().collect();
    assert!(all.iter().all(|x| (0.0..1.0).contains(x)));
    let mut counts = [0; 256];
    all.iter().for_each(|x| counts[(x * 256.0) as usize] += 1);
    assert!(chi_square(&counts, &[1.0 / 256.0; 256]).abs() < 4.0, "{counts:?}");
    // Numbers of different call sites, elements and steps are not correlated.
    let column =
        |site: usize, element: usize| -> Vec<f32> { drawn.iter().map(|d| d[site][element]).collect() };
    for (site, element) in [(0, 1), (0, 4), (1, 0), (2, 0), (2, 7)] {
        let related = correlation(&column(0, 0), &column(site, element));
        assert!(related.abs() < 4.0, "site {site}, element {element}: {related}");
    }
    let first = column(0, 0);
    for lag in [1, 2, 4, 64] {
        let related = correlation(&first[lag..], &first[..STEPS - lag]);
        assert!(related.abs() < 4.0, "lag {lag}: {related}");
    }
}

#[test]
fn normal_numbers_have_their_moments() {
    let drawn = runs(STEPS, || [randn([20])]);
    let all: Vec<f64> = drawn.iter().flatten().flatten().map(|&x| f64::from(x)).collect();
    let count = all.len() as f64;
    // The variances of x, x², x³ and x⁴ are 1, 2, 15 and 96.
    for (power, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let found = all.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        let deviation = (found - mean) / (variance / count).sqrt();
        assert!(deviation.abs() < 4.0, "moment {power} is {found}, {deviation} deviations off");
    }
}

#[test]
fn coins_classes_and_permutations_have_their_frequencies() {
    let logits = [0.5f32, -1.0, f32::NEG_INFINITY, 2.0];
    let drawn = runs(STEPS, || {
        let classes = gradloom::trace::literal(&logits, [4]).broadcast_to([10, 4]).categorical(-1);
        let kept = full(DType::F32, [10], 1.0) * bernoulli([10], 0.3).cast(DType::F32);
        [kept, classes.cast(DType::F32), permutation(4).cast(DType::F32)]
    });
    let ones = drawn.iter().flat_map(|d| &d[0]).filter(|&&x| x == 1.0).count();
    let counts = [ones, 10 * STEPS - ones];
    assert!(chi_square(&counts, &[0.3, 0.7]) < 4.0, "{counts:?}");

    let weights = logits.map(|x| f64::from(x).exp());
    let total: f64 = weights.iter().sum();
    let mut counts = [0; 4];
    drawn.iter().flat_map(|d| &d[1]).for_each(|&class| counts[class as usize] += 1);
    assert_eq!(counts[2], 0, "a logit of -inf is never drawn");
    let (seen, shares): (Vec<_>, Vec<_>) =
        [0, 1, 3].map(|i| (counts[i], weights[i] / total)).into_iter().unzip();
    assert!(chi_square(&seen, &shares) < 4.0, "{counts:?}");

    let mut orders = std::collections::BTreeMap::new();
    for order in drawn.iter().map(|d| d[2].iter().map(|&x| x as u32).collect::<Vec<_>>()) {
        *orders.entry(order).or_insert(0) += 1;
    }
    let counts: Vec<usize> = orders.into_values().collect();
    assert_eq!(counts.len(), 24, "all orders of four");
    assert!(chi_square(&counts, &[1.0 / 24.0; 24]).abs() < 4.0, "{counts:?}");
}

/// A scan draws new numbers in every iteration and step, even if it is nested in other scans or recomputed,
/// whether values are captured or carried.
#[test]
fn numbers_inside_a_scan() {
    let drawn = runs(2, || {
        let x = full(DType::F32, [3], 1.0);
        let (last, rows) = scan(5, x, (), |x, ()| (x * 1.0, uniform([3]) * x));
        let (_, nested) = scan(2, last, (), |x, ()| {
            let inner = checkpoint(|| scan(4, x, (), |x, ()| (x, uniform([2]) + x.slice(0, 0..2))).1);
            (x, inner)
        });
        [rows, nested]
    });
    let mut all: Vec<f32> = drawn.iter().flatten().flatten().copied().map(f32::fract).collect();
    assert_eq!(all.len(), 2 * (15 + 16));
    all.sort_by(f32::total_cmp);
    all.dedup();
    assert!(all.len() >= 60, "{} different numbers of 62", all.len());
}

/// Dropout between the iterations of a recurrent layer: gradients flow only through elements that are kept.
#[test]
fn dropout_inside_a_recurrent_function() {
    #[derive(Module)]
    struct Gain {
        weight: Param,
    }
    let mut train = Trainer::new(Gain { weight: Param::new([4], Init::Ones) })
        .inputs([f32("x", [6, 4])])
        .loss(|m, [x]| {
            let start = full(DType::F32, [4], 0.0);
            let (last, kept) = scan(6, start, x, |h, x| {
                let kept = (x * &m.weight).dropout(0.5);
                (h + kept, kept)
            });
            kept.capture("kept");
            last.sum()
        })
        .optimizer(Sgd::new(1.0))
        .compile(&Device::cpu())
        .unwrap();
    let x: Vec<f32> = (0..24).map(|i| 1.0 + i as f32 / 8.0).collect();
    let step = train.step([&x]).unwrap();
    let kept = step.get("kept").unwrap();
    let zeros = kept.iter().filter(|&&x| x == 0.0).count();
    assert!((4..20).contains(&zeros), "{kept:?}");
    for (column, weight) in train.store().read_f32("weight").unwrap().into_iter().enumerate() {
        let gradient: f32 = (0..6).map(|row| kept[row * 4 + column]).sum();
        assert!((1.0 - weight - gradient).abs() < 1e-5, "column {column}: {weight}, not 1 - {gradient}");
    }
}
