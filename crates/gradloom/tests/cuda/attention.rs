//! Tests attention and its gradient on an NVIDIA GPU against sums in f64, if `GRADLOOM_ADAPTER` is `cuda`.

use gradloom::prelude::*;
use gradloom::trace::{AttentionOptions, gradients};
use gradloom::{CudaOptions, Precision};
use gradloom_testing::adapter::skipped_without_cuda as skipped;

/// Extents: sequences, heads, key heads, queries, keys, depth.
type Extents = [usize; 6];

/// Deterministic numbers in -1..1, times `scale`, that bf16 represents.
fn numbers(count: usize, seed: usize, scale: f32) -> Vec<f32> {
    let number = |i: usize| {
        let mixed = (i + 1).wrapping_mul(2_654_435_761).wrapping_add(seed * 97_003) % 1_000_003;
        let x = ((mixed * 7_919) % 10_007) as f32 / 5_003.5 - 1.0;
        DType::BF16.of_narrow_bits(DType::BF16.narrow_bits(x * scale))
    };
    (0..count).map(number).collect()
}

/// Attention with all of its gradients, computed in f64.
struct Exact {
    output: Vec<f64>,
    gradients: [Vec<f64>; 3],
}

fn exact([b, h, g, t, s, d]: Extents, causal: bool, [q, k, v, dy]: [&[f32]; 4]) -> Exact {
    let scale = 1.0 / (d as f64).sqrt();
    let mut output = vec![0.0; b * h * t * d];
    let mut gradients = [vec![0.0; b * h * t * d], vec![0.0; b * g * s * d], vec![0.0; b * g * s * d]];
    let dot =
        |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum() };
    for (pair, i) in (0..b * h).flat_map(|pair| (0..t).map(move |i| (pair, i))) {
        let key_pair = pair / h * g + pair % h / (h / g);
        let row = (pair * t + i) * d..(pair * t + i + 1) * d;
        let key = |j: usize| (key_pair * s + j) * d..(key_pair * s + j + 1) * d;
        let seen = if causal { (i + 1).min(s) } else { s };
        let scores: Vec<f64> = (0..seen).map(|j| scale * dot(&q[row.clone()], &k[key(j)])).collect();
        let most = scores.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp() / total).collect();
        let slopes: Vec<f64> = (0..seen).map(|j| dot(&dy[row.clone()], &v[key(j)])).collect();
        let mean: f64 = weights.iter().zip(&slopes).map(|(weight, slope)| weight * slope).sum();
        for (j, weight) in weights.into_iter().enumerate() {
            let slope = scale * weight * (slopes[j] - mean);
            for (c, (own, other)) in row.clone().zip(key(j)).enumerate() {
                debug_assert_eq!(own % d, c);
                output[own] += weight * f64::from(v[other]);
                gradients[0][own] += slope * f64::from(k[other]);
                gradients[1][other] += slope * f64::from(q[own]);
                gradients[2][other] += weight * f64::from(dy[own]);
            }
        }
    }
    Exact { output, gradients }
}

/// Returns the largest error of a row, relative to a scale that `scale_of` returns for the row's norm and the
/// root mean square of all rows' norms.
fn error(got: &[f32], want: &[f64], d: usize, scale_of: fn(f64, f64) -> f64) -> (f64, usize) {
    let norm = (want.iter().map(|x| x * x).sum::<f64>() / (want.len() / d) as f64).sqrt();
    let of_row = |(got, want): (&[f32], &[f64])| {
        let off = got.iter().zip(want).map(|(got, want)| (f64::from(*got) - want).powi(2)).sum::<f64>();
        let own = want.iter().map(|x| x * x).sum::<f64>().sqrt();
        if off.is_finite() { off.sqrt() / scale_of(own, norm) } else { f64::INFINITY }
    };
    let rows = got.chunks(d).zip(want.chunks(d)).map(of_row).enumerate();
    rows.fold((0.0, 0), |most, (row, off)| if off > most.0 { (off, row) } else { most })
}

#[test]
fn attention_agrees_with_sums_in_f64() {
    if skipped() {
        return;
    }
    let mut wrong = Vec::new();
    for (extents, causal, scale) in [
        ([1, 2, 2, 1024, 1024, 64], true, 1.0),
        ([2, 3, 3, 512, 512, 64], false, 2.0),
        ([1, 4, 2, 300, 300, 64], true, 4.0),
        ([1, 2, 1, 200, 333, 128], false, 2.0),
        ([1, 2, 2, 333, 333, 128], true, 2.0),
        ([1, 2, 2, 260, 260, 80], true, 2.0),
        ([1, 2, 2, 260, 260, 96], true, 2.0),
        ([1, 2, 2, 260, 260, 32], true, 2.0),
        ([1, 2, 2, 260, 260, 48], true, 2.0),
    ] {
        let [b, h, g, t, s, d] = extents;
        let of = [(b * h * t * d, scale), (b * g * s * d, scale), (b * g * s * d, 1.0), (b * h * t * d, 1.0)];
        let [q, k, v, dy] = [0, 1, 2, 3].map(|i: usize| numbers(of[i].0, i, of[i].1));
        let exact = exact(extents, causal, [&q, &k, &v, &dy]);
        for precision in [Precision::Bf16, Precision::F16, Precision::Tf32] {
            let device = Device::cuda_with(&CudaOptions::default().precision(precision)).unwrap();
            let session = Session::new((), &device, 0).unwrap();
            let inputs = [
                f32("q", [b, h, t, d]),
                f32("k", [b, g, s, d]),
                f32("v", [b, g, s, d]),
                f32("dy", [b, h, t, d]),
            ];
            let mut infer = session
                .infer(inputs, |(), inputs| {
                    // The doubled operands are values between kernels, which have 16 bits.
                    let [q, k, v, dy] = inputs.map(|x| x * 2.0);
                    let options = if causal { AttentionOptions::causal() } else { AttentionOptions::full() };
                    let y = q.attention(k, v, options);
                    let [dq, dk, dv] = gradients((y * dy).sum(), [q, k, v]);
                    [y, dq, dk, dv].map(|x| x * 2.0)
                })
                .unwrap();
            let halved = |x: &[f32]| x.iter().map(|x| x / 2.0).collect::<Vec<f32>>();
            let results = infer.run((&halved(&q), &halved(&k), &halved(&v), &halved(&dy))).unwrap();
            let again = infer.run((&halved(&q), &halved(&k), &halved(&v), &halved(&dy))).unwrap();
            // Outputs have a relative error of up to 2^-8 in bf16 and 2^-11 in f16, half of it on average,
            // and so have operands of sums, in TF32 as in f16. A slope of a peaked softmax is a small
            // difference of a weight's gradient and its mean, which is computed from a rounded output.
            let unit = if precision == Precision::Bf16 { 0.002 } else { 0.00025 };
            let bounds = [4.0, 24.0, 12.0, 6.0].map(|factor: f64| factor * unit);
            let wanted = [&exact.output, &exact.gradients[0], &exact.gradients[1], &exact.gradients[2]];
            for (i, (got, want)) in results.iter().zip(wanted).enumerate() {
                let halves: Vec<f32> = got.iter().map(|x| x / 2.0).collect();
                let (off, row) = error(&halves, want, d, |_, mean| mean);
                let name = ["y", "dq", "dk", "dv"][i];
                println!(
                    "{extents:?} causal {causal} scale {scale} {precision:?} {name}: {off:.1e} in row {row}"
                );
                if off > bounds[i] {
                    wrong.push(format!("{extents:?} {precision:?} {name}: {off:.1e} in row {row}"));
                }
                assert_eq!(
                    got.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                    again[i].iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
                    "{name} of {extents:?}"
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The CPU, whose kernels are tested against sums in f64, draws the same numbers.
#[test]
fn attention_with_dropout_agrees_with_the_cpu() {
    if skipped() {
        return;
    }
    let names = ["y", "dq", "dk", "dv"];
    let mut wrong = Vec::new();
    for ([b, h, g, t, s, d], window) in [
        ([2, 4, 4, 512, 512, 64], None),
        ([1, 4, 2, 300, 300, 128], None),
        ([1, 2, 2, 333, 333, 80], Some(100)),
        ([1, 2, 1, 200, 70, 64], None),
    ] {
        let shapes = [[b, h, t, d], [b, g, s, d], [b, g, s, d], [b, h, t, d]];
        let inputs = [0, 1, 2, 3].map(|i: usize| numbers(shapes[i].iter().product(), i, 1.0));
        let results = |device: &Device| -> [Vec<f32>; 4] {
            let mut train = Trainer::new((Param::new([1], Init::Ones),))
                .inputs([f32("q", shapes[0]), f32("k", shapes[1]), f32("v", shapes[2]), f32("dy", shapes[3])])
                .loss(|(p,), inputs| {
                    let [q, k, v, dy] = inputs.map(|x| x * 2.0);
                    let options = AttentionOptions::causal().dropout(0.2);
                    let options = window.map_or(options, |window| options.window(window));
                    let y = q.attention(k, v, options);
                    let [dq, dk, dv] = gradients((y * dy).sum(), [q, k, v]);
                    names.into_iter().zip([y, dq, dk, dv]).for_each(|(name, x)| _ = x.capture(name));
                    p.tensor().sum() * 0.0
                })
                .optimizer(Sgd::new(0.1))
                .compile(device)
                .unwrap();
            let step = train.step((&inputs[0], &inputs[1], &inputs[2], &inputs[3])).unwrap();
            names.map(|name| step.get(name).unwrap().to_vec())
        };
        let exact = results(&Device::cpu()).map(|x| x.into_iter().map(f64::from).collect::<Vec<f64>>());
        for precision in [Precision::Bf16, Precision::F16, Precision::Tf32] {
            let device = Device::cuda_with(&CudaOptions::default().precision(precision)).unwrap();
            // In f64 with random masks, exact kernels that round shares, outputs and slopes of scores as
            // these do are up to 2.3, 32, 18 and 2.0 units off: with a window or few keys, slopes are small
            // differences of a product and its mean over the keys, which is computed from a rounded output.
            let unit = if precision == Precision::Bf16 { 0.002 } else { 0.00025 };
            for (i, (got, want)) in results(&device).iter().zip(&exact).enumerate() {
                let (off, row) = error(got, want, d, f64::max);
                let line =
                    format!("{t} {s} {d} {window:?} {precision:?} {}: {off:.3e} in row {row}", names[i]);
                println!("{line}");
                if off > [4.0, 24.0, 20.0, 6.0][i] * unit {
                    wrong.push(line);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
