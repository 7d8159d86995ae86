//! Results of functions of NaN that every backend must return, which are those of PyTorch 2.

use gradloom::prelude::*;

/// f32 `[2, 4]`; the first row contains a NaN.
pub(crate) const INPUT: [f32; 8] = [1.0, f32::NAN, -2.0, 3.0, 4.0, 5.0, -6.0, 7.0];

type Case = (&'static str, fn(Tensor) -> Tensor, &'static str);

/// Name, function, and result elements: `n` for NaN, a digit for that number, `.` for any other number.
#[rustfmt::skip]
const CASES: &[Case] = &[
    // Elementwise: NaN only where the input is NaN.
    ("neg", |x| -x, ".n......"),
    ("add", |x| x + 1.0, "2n.456.8"),
    ("sub", |x| 1.0 - x, "0n3....."),
    ("mul", |x| x * 0.0, "0n000000"),
    ("div", |x| x / 2.0, ".n......"),
    ("rem", |x| x % 2.0, "1n010101"),
    ("remainder", |x| x.remainder(2.0), "1n010101"),
    ("abs", |x| x.abs(), "1n234567"),
    ("square", |x| x.square(), "1n49...."),
    ("pow", |x| x.pow(2.0), ".n......"),
    ("exp", |x| x.exp(), ".n......"),
    ("expm1", |x| x.expm1(), ".n......"),
    ("log", |x| x.abs().log(), "0n......"),
    ("log1p", |x| x.abs().log1p(), ".n......"),
    ("sqrt", |x| x.abs().sqrt(), "1n..2..."),
    ("rsqrt", |x| x.abs().rsqrt(), "1n......"),
    ("sin", |x| x.sin(), ".n......"),
    ("cos", |x| x.cos(), ".n......"),
    ("tan", |x| x.tan(), ".n......"),
    ("atan", |x| x.atan(), ".n......"),
    ("sinh", |x| x.sinh(), ".n......"),
    ("cosh", |x| x.cosh(), ".n......"),
    ("asinh", |x| x.asinh(), ".n......"),
    ("asin", |x| (x * 0.1).asin(), ".n......"),
    ("acos", |x| (x * 0.1).acos(), ".n......"),
    ("acosh", |x| x.abs().acosh(), "0n......"),
    ("atanh", |x| (x * 0.1).atanh(), ".n......"),
    ("tanh", |x| x.tanh(), ".n......"),
    ("sigmoid", |x| x.sigmoid(), ".n......"),
    ("erf", |x| x.erf(), ".n......"),
    ("floor", |x| x.floor(), "1n.345.7"),
    ("ceil", |x| x.ceil(), "1n.345.7"),
    ("round", |x| x.round(), "1n.345.7"),
    ("trunc", |x| x.trunc(), "1n.345.7"),
    ("reciprocal", |x| x.reciprocal(), "1n......"),
    ("hypot", |x| x.hypot(0.0), "1n234567"),
    ("lerp", |x| x.lerp(0.0, 1.0), "0n000000"),
    ("maximum", |x| x.maximum(0.0), "1n034507"),
    ("maximum of a number and NaN", |x| (x * 0.0).maximum(x), "1n034507"),
    ("minimum", |x| x.minimum(0.0), "0n.000.0"),
    ("minimum of a number and NaN", |x| (x * 0.0).minimum(x), "0n.000.0"),
    ("clamp", |x| x.clamp(0.0, 4.0), "1n034404"),
    ("clamp by tensors", |x| x.clamp(full(DType::F32, [4], 0.0), full(DType::F32, [4], 4.0)), "1n034404"),
    ("relu", |x| x.relu(), "1n034507"),
    ("relu6", |x| x.relu6(), "1n034506"),
    ("gelu", |x| x.gelu(), ".n......"),
    ("gelu_tanh", |x| x.gelu_tanh(), ".n......"),
    ("silu", |x| x.silu(), ".n......"),
    ("mish", |x| x.mish(), ".n......"),
    ("softplus", |x| x.softplus(), ".n......"),
    ("log_sigmoid", |x| x.log_sigmoid(), ".n......"),
    ("softsign", |x| x.softsign(), ".n......"),
    ("leaky_relu", |x| x.leaky_relu(0.1), "1n.345.7"),
    ("prelu", |x| x.prelu(0.1), "1n.345.7"),
    ("elu", |x| x.elu(1.0), "1n.345.7"),
    ("celu", |x| x.celu(1.0), "1n.345.7"),
    ("selu", |x| x.selu(), ".n......"),
    ("hard_sigmoid", |x| x.hard_sigmoid(), ".n.11101"),
    ("hard_swish", |x| x.hard_swish(), ".n.34507"),
    ("tanh_shrink", |x| x.tanh_shrink(), ".n......"),
    ("hard_shrink", |x| x.hard_shrink(2.5), "0n0345.7"),
    ("soft_shrink", |x| x.soft_shrink(3.0), "0n0012.4"),
    ("glu", |x| x.glu(0), ".n.."),
    ("dropout", |x| x.dropout(0.5), "1n.345.7"),
    // Selection.
    ("select the other", |x| x.is_nan().select(0.0, x), "10.345.7"),
    ("select it", |x| x.gt(2.0).select(9.0, x), "1n.999.9"),
    ("masked_fill", |x| x.masked_fill(x.is_nan(), 8.0), "18.345.7"),
    ("is_nan", |x| x.is_nan(), "01000000"),
    ("is_inf", |x| x.is_inf(), "00000000"),
    ("is_finite", |x| x.is_finite(), "10111111"),
    ("eq", |x| x.eq(x), "10111111"),
    ("ne", |x| x.ne(x), "01000000"),
    ("lt", |x| x.lt(2.0), "10100010"),
    ("ge", |x| x.ge(2.0), "00011101"),
    ("cast to i32", |x| x.abs().cast(DType::I32), "10234567"),
    ("cast to bool", |x| x.cast(DType::Bool), "11111111"),
    // Along rows.
    ("sum", |x| x.sum_axes(1), "n."),
    ("prod", |x| x.prod_axes(1), "n."),
    ("mean", |x| x.mean_axes(1), "n."),
    ("max", |x| x.max_axes(1), "n7"),
    ("min", |x| x.min_axes(1), "n."),
    ("max of columns", |x| x.max_axes(0), "4n.7"),
    ("min of columns", |x| x.min_axes(0), "1n.3"),
    ("max of all", |x| x.max(), "n"),
    ("argmax", |x| x.argmax(1), "13"),
    ("argmin", |x| x.argmin(1), "12"),
    ("argmax_all", |x| x.argmax_all(), "1"),
    ("var", |x| x.var_axes(1, 1.0), "n."),
    ("std", |x| x.std_axes(1, 1.0), "n."),
    ("norm", |x| x.norm_axes(1, 2.0), "n."),
    ("norm of order 1", |x| x.norm_axes(1, 1.0), "n."),
    ("largest norm", |x| x.norm_axes(1, f64::INFINITY), "n7"),
    ("logsumexp", |x| x.logsumexp_axes(1), "n."),
    ("any", |x| x.any_axes(1), "11"),
    ("all", |x| x.all_axes(1), "11"),
    ("count_nonzero", |x| x.count_nonzero(1), "44"),
    ("softmax", |x| x.softmax(1), "nnnn...."),
    ("log_softmax", |x| x.log_softmax(1), "nnnn...."),
    ("normalize", |x| x.normalize(1, 2.0, 1e-12), "nnnn...."),
    ("layer_norm", |x| x.layer_norm(1.0, 1e-5), "nnnn...."),
    ("rms_norm", |x| x.rms_norm(1.0, 1e-5), "nnnn...."),
    ("cumsum", |x| x.cumsum(1), "1nnn49.."),
    ("cumprod", |x| x.cumprod(1), "1nnn...."),
    ("cummax", |x| x.cummax(1), "1nnn4557"),
    ("cummin", |x| x.cummin(1), "1nnn44.."),
    ("sort", |x| x.sort(1), ".13n.457"),
    ("sort_descending", |x| x.sort_descending(1), "n31.754."),
    ("argsort", |x| x.argsort(1), "20312013"),
    ("top_k", |x| x.top_k(2, 1).0, "n375"),
    ("max_pool1d", |x| x.max_pool1d(2, PoolOptions::new()), "n357"),
    ("avg_pool1d", |x| x.avg_pool1d(2, PoolOptions::new()), "n..."),
    ("max_pool2d", |x| x.reshape([1, 1, 2, 4]).max_pool2d(2, PoolOptions::new()), "n7"),
    ("adaptive_max_pool2d", |x| x.reshape([1, 2, 4]).adaptive_max_pool2d([1, 2]), "n7"),
    // Products and losses.
    ("matmul", |x| x.matmul(full(DType::F32, [4, 1], 1.0)), "n."),
    ("matmul by zeros", |x| x.matmul(full(DType::F32, [4, 1], 0.0)), "n0"),
    ("cross_entropy", |x| x.cross_entropy_rows(full(DType::I32, [2], 0.0)), "n."),
    ("mse_loss", |x| x.mse_loss(0.0), "n"),
    ("huber_loss", |x| x.huber_loss(0.0, 1.0), "n"),
    ("bce_with_logits", |x| x.bce_with_logits(1.0), "n"),
    ("hinge_loss", |x| x.hinge_loss(1.0), "n"),
];

/// Applies all functions to an input.
pub(crate) fn outputs(x: Tensor) -> Vec<Tensor> {
    CASES.iter().map(|(_, f, _)| f(x)).collect()
}

/// Compares the results of all functions with the expected ones, in order.
pub(crate) fn verify(backend: &str, results: &[Vec<f32>]) {
    assert_eq!(results.len(), CASES.len());
    let mut wrong = Vec::new();
    for ((name, _, expected), got) in CASES.iter().zip(results) {
        let is_right = |(c, &y): (char, &f32)| match c.to_digit(10) {
            Some(digit) => (y - digit as f32).abs() < 1e-6,
            None => y.is_nan() == (c == 'n'),
        };
        // Skip `lerp` on WebGPU: WGSL allows a shader compiler to replace the sum of a number and its
        // negative by 0.
        if backend == "WebGPU" && *name == "lerp" {
            continue;
        }
        if expected.len() != got.len() || !expected.chars().zip(got).all(is_right) {
            wrong.push(format!("{name}: {got:?} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "on {backend}:\n{}", wrong.join("\n"));
}

/// Finite angles, some of them very large.
pub(crate) const ANGLES: [f32; 10] = [0.0, 1e-40, 0.5, -3.0, 1e4, -7.3e5, 1e10, -4.2e20, 1e30, f32::MAX];

/// Compares sines and cosines of the angles.
pub(crate) fn verify_angles(backend: &str, [sines, cosines]: [Vec<f32>; 2]) {
    for ((&x, &sin), &cos) in ANGLES.iter().zip(&sines).zip(&cosines) {
        let (s, c) = f64::from(x).sin_cos();
        let off = (f64::from(sin) - s).abs().max((f64::from(cos) - c).abs());
        assert!(off < 1e-6 && sin.abs() <= 1.0 && cos.abs() <= 1.0, "on {backend}: {x}: {sin}, {cos}");
    }
}
