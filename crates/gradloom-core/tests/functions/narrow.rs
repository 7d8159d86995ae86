//! Functions of 16-bit floats compute in f32 and round once, at their end: the result equals the rounded
//! result of the same numbers in f32, and the gradient equals the gradient in f32.

use super::{Value, drawn, floats, ints, run};
use gradloom_core::ir::DType;
use gradloom_core::trace::{
    AttentionOptions, ConvOptions, CrossEntropyOptions, CtcOptions, PoolOptions, Tensor, gradients,
};

type Function = Box<dyn Fn(&[Tensor]) -> Tensor>;

struct Case {
    name: String,
    inputs: Vec<Value>,
    /// True if the case is also checked with inputs of other magnitudes.
    scales: bool,
    f: Function,
}

fn case(name: &str, inputs: Vec<Value>, f: impl Fn(&[Tensor]) -> Tensor + 'static) -> Case {
    Case { name: name.to_string(), inputs, scales: true, f: Box::new(f) }
}

impl Case {
    /// Checks the case without scaling its inputs, such as probabilities and their logarithms.
    fn unscaled(mut self) -> Self {
        self.scales = false;
        self
    }

    /// Compares the case with f32 for each magnitude of the inputs. Returns the number of comparisons.
    fn check(&self, dtype: DType) -> usize {
        let scales: &[f64] = if self.scales { &[1.0, 300.0, 3e-3] } else { &[1.0] };
        for &scale in scales {
            let mut inputs = self.inputs.clone();
            for input in inputs.iter_mut().filter(|input| input.ty.dtype.is_float()) {
                input.data.iter_mut().for_each(|x| *x *= scale);
            }
            let found = run(&inputs, |x| {
                let stored: Vec<Tensor> =
                    x.iter().map(|x| if is_float(x) { x.cast(dtype) } else { *x }).collect();
                let wide: Vec<Tensor> =
                    stored.iter().map(|x| if is_float(x) { x.cast(DType::F32) } else { *x }).collect();
                let (got, want) = ((self.f)(&stored), (self.f)(&wide));
                assert_eq!(
                    got.dtype(),
                    if want.dtype().is_float() { dtype } else { want.dtype() },
                    "{}",
                    self.name
                );
                let mut all = vec![got.cast(want.dtype()), want.cast(got.dtype()).cast(want.dtype())];
                for (y, wrt) in [(got, &stored), (want, &wide)] {
                    let wrt: Vec<Tensor> = wrt.iter().copied().filter(is_float).collect();
                    let slopes = gradients(y.cast(DType::F32).sum(), wrt);
                    all.extend(slopes.into_iter().map(|slope| slope.cast(DType::F32)));
                }
                all
            });
            let found = found.unwrap_or_else(|error| panic!("{} of {dtype}: {error}", self.name));
            let found: Vec<Vec<f64>> = found.iter().map(|tensor| tensor.to_f64()).collect();
            let same = |a: &f64, b: &f64| a == b || (a.is_nan() && b.is_nan());
            let equal = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
            let what = format!("{} of {dtype} times {scale}", self.name);
            assert!(equal(&found[0], &found[1]), "{what}: {:?}, not {:?}", found[0], found[1]);
            let (own, wide) = found[2..].split_at((found.len() - 2) / 2);
            for (own, wide) in own.iter().zip(wide) {
                assert!(equal(own, wide), "{what}, gradients: {own:?}, not {wide:?}");
            }
        }
        scales.len()
    }
}

fn is_float(x: &Tensor) -> bool {
    x.dtype().is_float()
}

/// Draws numbers in 0..1.
fn shares(shape: &[usize], seed: u64) -> Value {
    let mut value = drawn(shape, seed);
    value.data.iter_mut().for_each(|x| *x = (*x + 2.0) / 4.0);
    value
}

fn reductions() -> Vec<Case> {
    let one = || vec![drawn(&[3, 40], 1)];
    let pair = || vec![drawn(&[3, 40], 1), drawn(&[3, 40], 2)];
    let mut cases = vec![
        case("sum", one(), |x| x[0].sum()),
        case("mean", one(), |x| x[0].mean()),
        case("mean_axes", one(), |x| x[0].mean_axes(0)),
        case("mean_keep", one(), |x| x[0].mean_keep(-1)),
        case("prod", vec![drawn(&[3, 4], 1)], |x| x[0].prod_axes(-1)),
        case("max", one(), |x| x[0].max_axes(-1)),
        case("min", one(), |x| x[0].min_keep(-1)),
        case("var", one(), |x| x[0].var_axes(-1, 1.0)),
        case("var of all", one(), |x| x[0].var(0.0)),
        case("std", one(), |x| x[0].std_axes(-1, 1.0)),
        case("std of all", one(), |x| x[0].std(0.0)),
        case("logsumexp", one(), |x| x[0].logsumexp_axes(-1)),
        case("softmax", one(), |x| x[0].softmax(-1)),
        case("log_softmax", one(), |x| x[0].log_softmax(-1)),
        case("softmax_causal", vec![drawn(&[4, 4], 3)], |x| x[0].softmax_causal()),
        case("normalize", one(), |x| x[0].normalize(-1, 2.0, 1e-12)),
        case("normalize of zeros", vec![floats(&[2, 3], &[0.0; 6])], |x| x[0].normalize(-1, 2.0, 1e-12)),
        case("cosine_similarity", pair(), |x| x[0].cosine_similarity(x[1], -1)),
        case("layer_norm", one(), |x| x[0].layer_norm(1.0, 1e-5)),
        case("layer_norm with weight", vec![drawn(&[3, 8], 1), drawn(&[8], 2)], |x| {
            x[0].layer_norm(x[1], 1e-5)
        }),
        case("rms_norm", one(), |x| x[0].rms_norm(1.0, 1e-6)),
        case("group_norm", vec![drawn(&[2, 4, 5], 4)], |x| x[0].group_norm(2, 1.0, 1e-5)),
        case("instance_norm", vec![drawn(&[2, 4, 5], 4)], |x| x[0].instance_norm(1.0, 1e-5)),
        case("channel_mean", vec![drawn(&[6, 4, 5], 4)], |x| x[0].channel_mean()),
        case("channel_variance", vec![drawn(&[6, 4, 5], 4), drawn(&[4], 5)], |x| x[0].channel_variance(x[1])),
        case("batch_norm", vec![drawn(&[6, 4, 5], 4), drawn(&[4], 5), shares(&[4], 6)], |x| {
            x[0].batch_norm(x[1], x[2], 1.0, 1e-5)
        }),
        case("cumsum", one(), |x| x[0].cumsum(-1)),
        case("cumprod", vec![drawn(&[3, 4], 1)], |x| x[0].cumprod(-1)),
        case("matmul", vec![drawn(&[3, 40], 1), drawn(&[40, 2], 2)], |x| x[0].matmul(x[1])),
        case("hypot", pair(), |x| x[0].hypot(x[1])),
        case("lerp", pair(), |x| x[0].lerp(x[1], 0.3)),
        case("resize", vec![drawn(&[1, 5], 7)], |x| x[0].resize_linear(-1, 7)),
        case("avg_pool2d", vec![drawn(&[1, 1, 7, 7], 8)], |x| x[0].avg_pool2d(7, PoolOptions::new())),
        case("max_pool2d", vec![drawn(&[1, 1, 7, 7], 8)], |x| {
            x[0].max_pool2d(3, PoolOptions::new().stride(2).padding(1))
        }),
        case("adaptive_avg_pool2d", vec![drawn(&[1, 1, 7, 7], 8)], |x| x[0].adaptive_avg_pool2d(3)),
        case("adaptive_max_pool2d", vec![drawn(&[1, 1, 7, 7], 8)], |x| x[0].adaptive_max_pool2d(3)),
        case("conv2d", vec![drawn(&[1, 2, 5, 5], 8), drawn(&[2, 2, 3, 3], 9)], |x| {
            x[0].conv2d(x[1], ConvOptions::new().padding(1))
        }),
    ];
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        cases.push(case(&format!("norm {p}"), one(), move |x| x[0].norm(p)));
        cases.push(case(&format!("norm {p} of rows"), one(), move |x| x[0].norm_axes(-1, p)));
    }
    cases
}

fn losses() -> Vec<Case> {
    let pair = || vec![drawn(&[4, 6], 1), drawn(&[4, 6], 2)];
    let classes = || ints(&[4], &[0.0, 5.0, -100.0, 2.0]);
    let plain = || ints(&[4], &[0.0, 5.0, 1.0, 2.0]);
    let signs = || floats(&[4], &[1.0, -1.0, 1.0, -1.0]);
    let options = || CrossEntropyOptions::new().ignore_index(-100);
    vec![
        case("mse", pair(), |x| x[0].mse_loss(x[1])),
        case("l1", pair(), |x| x[0].l1_loss(x[1])),
        case("huber", pair(), |x| x[0].huber_loss(x[1], 0.7)),
        case("smooth_l1", pair(), |x| x[0].smooth_l1_loss(x[1], 0.3)),
        case("hinge", pair(), |x| x[0].hinge_loss(x[1])),
        case("bce_with_logits", vec![drawn(&[4, 6], 1), shares(&[4, 6], 2)], |x| x[0].bce_with_logits(x[1])),
        case("bce", vec![shares(&[4, 6], 1), shares(&[4, 6], 2)], |x| x[0].bce_loss(x[1])).unscaled(),
        case("kl_div", vec![drawn(&[4, 6], 1), shares(&[4, 6], 2)], |x| x[0].kl_div_loss(x[1])),
        case("poisson", pair(), |x| x[0].poisson_nll_loss(x[1])).unscaled(),
        case("gaussian", vec![drawn(&[4, 6], 1), drawn(&[4, 6], 2), shares(&[4, 6], 3)], |x| {
            x[0].gaussian_nll_loss(x[1], x[2])
        }),
        case("cosine_embedding", [pair(), vec![signs()]].concat(), |x| {
            x[0].cosine_embedding_loss(x[1], x[2], 0.1)
        })
        .unscaled(),
        case("triplet", [pair(), vec![drawn(&[4, 6], 3)]].concat(), |x| x[0].triplet_loss(x[1], x[2], 1.0)),
        case("nll", vec![drawn(&[4, 6], 1), plain()], |x| x[0].nll_loss(x[1])),
        case("cross_entropy", vec![drawn(&[4, 6], 1), plain()], |x| x[0].cross_entropy(x[1])),
        case("cross_entropy_rows", vec![drawn(&[4, 6], 1), plain()], |x| x[0].cross_entropy_rows(x[1])),
        case("cross_entropy of shares", vec![drawn(&[4, 6], 1), shares(&[4, 6], 2)], |x| {
            x[0].cross_entropy(x[1])
        }),
        case("cross_entropy_with", vec![drawn(&[4, 6], 1), classes()], move |x| {
            x[0].cross_entropy_with(x[1], options())
        }),
        case("cross_entropy_with all", vec![drawn(&[4, 6], 1), classes(), shares(&[6], 2)], move |x| {
            x[0].cross_entropy_with(x[1], options().label_smoothing(0.1).weights(x[2]))
        }),
        case(
            "ctc",
            vec![
                drawn(&[5, 2, 3], 1),
                ints(&[2, 2], &[1.0, 2.0, 2.0, 1.0]),
                ints(&[2], &[5.0, 4.0]),
                ints(&[2], &[2.0, 1.0]),
            ],
            |x| x[0].ctc_loss(x[1], x[2], x[3], CtcOptions::new()),
        ),
    ]
}

fn attentions() -> Vec<Case> {
    let inputs = || vec![drawn(&[1, 4, 3, 4], 1), drawn(&[1, 2, 3, 4], 2), drawn(&[1, 2, 3, 4], 3)];
    let biased = || [inputs(), vec![drawn(&[3, 3], 4)]].concat();
    vec![
        case("attention by scores", inputs(), |x| {
            x[0].attention(x[1], x[2], AttentionOptions::causal().window(2))
        })
        .unscaled(),
        case("attention with bias", biased(), |x| {
            x[0].attention(x[1], x[2], AttentionOptions::full().bias(x[3]))
        })
        .unscaled(),
    ]
}

fn activations() -> Vec<Case> {
    type Activation = fn(Tensor) -> Tensor;
    let all: &[(&str, Activation)] = &[
        ("relu", Tensor::relu),
        ("relu6", Tensor::relu6),
        ("gelu", Tensor::gelu),
        ("gelu_tanh", Tensor::gelu_tanh),
        ("silu", Tensor::silu),
        ("mish", Tensor::mish),
        ("softplus", Tensor::softplus),
        ("log_sigmoid", Tensor::log_sigmoid),
        ("softsign", Tensor::softsign),
        ("selu", Tensor::selu),
        ("hard_sigmoid", Tensor::hard_sigmoid),
        ("hard_swish", Tensor::hard_swish),
        ("tanh_shrink", Tensor::tanh_shrink),
    ];
    let named = all.iter().map(|&(name, f)| case(name, vec![drawn(&[24], 1)], move |x| f(x[0])));
    let with_numbers = [
        case("leaky_relu", vec![drawn(&[24], 1)], |x| x[0].leaky_relu(0.1)),
        case("elu", vec![drawn(&[24], 1)], |x| x[0].elu(0.7)),
        case("celu", vec![drawn(&[24], 1)], |x| x[0].celu(0.7)),
        case("hard_shrink", vec![drawn(&[24], 1)], |x| x[0].hard_shrink(0.3)),
        case("soft_shrink", vec![drawn(&[24], 1)], |x| x[0].soft_shrink(0.3)),
        case("clamp", vec![drawn(&[24], 1)], |x| x[0].clamp(-0.7, 1.1)),
        case("prelu", vec![drawn(&[24], 1)], |x| x[0].prelu(0.3)),
        case("glu", vec![drawn(&[24], 1)], |x| x[0].glu(0)),
        case("add a number", vec![drawn(&[24], 1)], |x| x[0] + 0.1),
    ];
    named.chain(with_numbers).collect()
}

#[test]
fn sixteen_bits_are_rounded_once() {
    let groups = [reductions(), losses(), attentions(), activations()];
    let mut count = 0;
    for case in groups.iter().flatten() {
        for dtype in [DType::F16, DType::BF16] {
            count += case.check(dtype);
        }
    }
    println!("{count} comparisons of {} functions", groups.iter().flatten().count());
}

#[test]
fn squares_and_counts_beyond_16_bits() {
    let narrow = |data: &[f64], f: fn(Tensor) -> Tensor| {
        let found = run(&[floats(&[data.len()], data)], |x| vec![f(x[0].cast(DType::F16)).cast(DType::F32)]);
        found.unwrap()[0].to_f64()
    };
    assert_eq!(narrow(&[300.0, 400.0], |x| x.norm(2.0)), [500.0]);
    assert_eq!(narrow(&[-1000.0, 1000.0], |x| x.std(0.0)), [1000.0]);
    assert_eq!(narrow(&[0.0; 3], |x| x.normalize(0, 2.0, 1e-12)), [0.0; 3]);
    // The number of elements is greater than the largest f16.
    assert_eq!(narrow(&[1.0; 70_000], Tensor::mean), [1.0]);
    assert_eq!(narrow(&[2.0; 70_000], |x| x.norm(1.0) * 0.25), [f64::INFINITY]);
    // The result of a call is rounded before the next call.
    assert_eq!(narrow(&[300.0], |x| x.square().sqrt()), [f64::INFINITY]);
}
