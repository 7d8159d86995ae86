//! Second derivatives at 0 and at kinks, where branches of a function meet, and where terms that cancel in
//! the first derivative need not cancel in the second.

use super::{Value, drawn, floats, ints, run};
use gradloom_core::ir::DType;
use gradloom_core::trace::{AttentionOptions, CrossEntropyOptions, Tensor, full, gradients};

/// Computes the first and second derivatives of an elementwise function at each point.
fn derivatives(x: &[f64], f: impl Fn(Tensor) -> Tensor) -> [Vec<f64>; 2] {
    let found = run(&[floats(&[x.len()], x)], |x| {
        let first = gradients(f(x[0]).sum(), [x[0]])[0];
        vec![first, gradients(first.sum(), [x[0]])[0]]
    });
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    [found[0].to_f64(), found[1].to_f64()]
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn bell(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Returns the second derivative of `x tanh(softplus(x))`, from the formulas of its parts.
fn mish(x: f64) -> f64 {
    let (s, softplus) = (sigmoid(x), x.max(0.0) + (-x.abs()).exp().ln_1p());
    let t = softplus.tanh();
    let first = (1.0 - t * t) * s;
    let second = -2.0 * t * first * s + (1.0 - t * t) * s * (1.0 - s);
    2.0 * first + x * second
}

fn gelu_tanh(x: f64) -> f64 {
    let c = (2.0 / std::f64::consts::PI).sqrt();
    let (u, du, ddu) = (c * (x + 0.044715 * x * x * x), c * (1.0 + 0.134145 * x * x), c * 0.26829 * x);
    let t = u.tanh();
    let slope = 1.0 - t * t;
    slope * du + 0.5 * x * (slope * ddu - 2.0 * t * slope * du * du)
}

#[test]
fn activations_bend_as_their_formulas_say() {
    type Activation = fn(Tensor) -> Tensor;
    type Formula = fn(f64) -> f64;
    let table: &[(&str, Activation, Formula)] = &[
        ("softplus", Tensor::softplus, |x| sigmoid(x) * sigmoid(-x)),
        ("log_sigmoid", Tensor::log_sigmoid, |x| -sigmoid(x) * sigmoid(-x)),
        ("sigmoid", Tensor::sigmoid, |x| sigmoid(x) * sigmoid(-x) * (1.0 - 2.0 * sigmoid(x))),
        ("tanh", Tensor::tanh, |x| -2.0 * x.tanh() * (1.0 - x.tanh().powi(2))),
        ("silu", Tensor::silu, |x| {
            let s = sigmoid(x);
            s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))
        }),
        ("mish", Tensor::mish, mish),
        ("gelu", Tensor::gelu, |x| bell(x) * (2.0 - x * x)),
        ("gelu_tanh", Tensor::gelu_tanh, gelu_tanh),
        ("tanh_shrink", Tensor::tanh_shrink, |x| 2.0 * x.tanh() * (1.0 - x.tanh().powi(2))),
        ("softsign", Tensor::softsign, |x| {
            if x == 0.0 { 0.0 } else { -2.0 * x.signum() / (1.0 + x.abs()).powi(3) }
        }),
        // Where two branches meet, the derivative is that of the branch that includes 0, as in PyTorch.
        ("relu", Tensor::relu, |_| 0.0),
        ("elu", |x| x.elu(1.5), |x| if x > 0.0 { 0.0 } else { 1.5 * x.exp() }),
        ("celu", |x| x.celu(1.5), |x| if x > 0.0 { 0.0 } else { (x / 1.5).exp() / 1.5 }),
        ("selu", Tensor::selu, |x| {
            if x > 0.0 { 0.0 } else { 1.673_263_242_354_377_2 * 1.050_700_987_355_480_5 * x.exp() }
        }),
        ("leaky_relu", |x| x.leaky_relu(0.1), |_| 0.0),
        ("hard_sigmoid", Tensor::hard_sigmoid, |_| 0.0),
        ("hard_swish", Tensor::hard_swish, |x| if x.abs() < 3.0 { 1.0 / 3.0 } else { 0.0 }),
        ("soft_shrink", |x| x.soft_shrink(0.5), |_| 0.0),
        ("square", Tensor::square, |_| 2.0),
        ("pow 2", |x| x.pow(2.0), |_| 2.0),
        ("pow 3", |x| x.pow(3.0), |x| 6.0 * x),
        ("abs", Tensor::abs, |_| 0.0),
        ("exp", Tensor::exp, f64::exp),
        ("expm1", Tensor::expm1, f64::exp),
        ("sinh", Tensor::sinh, f64::sinh),
        ("cosh", Tensor::cosh, f64::cosh),
        ("asinh", Tensor::asinh, |x| -x / (1.0 + x * x).powf(1.5)),
        ("atan", Tensor::atan, |x| -2.0 * x / (1.0 + x * x).powi(2)),
        ("erf", Tensor::erf, |x| -4.0 * x / std::f64::consts::PI.sqrt() * (-x * x).exp()),
        (
            "logsumexp with 0",
            |x| x.unsqueeze(1).pad(1, 0, 1, 0.0).logsumexp_axes(1),
            |x| sigmoid(x) * sigmoid(-x),
        ),
        (
            "softmax beside 0",
            |x| x.unsqueeze(1).pad(1, 0, 1, 0.0).softmax(1).slice(1, 0..1),
            |x| sigmoid(x) * sigmoid(-x) * (1.0 - 2.0 * sigmoid(x)),
        ),
        (
            "log_softmax beside 0",
            |x| x.unsqueeze(1).pad(1, 0, 1, 0.0).log_softmax(1).slice(1, 0..1),
            |x| -sigmoid(x) * sigmoid(-x),
        ),
        (
            "norm 4 with 1",
            |x| x.unsqueeze(1).pad(1, 0, 1, 1.0).norm_axes(1, 4.0),
            |x| 3.0 * x * x * (1.0 + x.powi(4)).powf(-1.75),
        ),
        ("hypot with 1", |x| x.hypot(1.0), |x| (1.0 + x * x).powf(-1.5)),
    ];
    let points = [-20.0, -3.0, -2.0, -1.0, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.5, 1.0, 2.0, 3.0, 20.0];
    for (name, f, formula) in table {
        let found = derivatives(&points, f);
        for (x, got) in points.iter().zip(&found[1]) {
            let want = formula(*x);
            let near = (got - want).abs() <= 1e-10 * want.abs().max(1.0);
            assert!(near, "{name} at {x}: {got}, not {want}");
        }
    }
    println!("{} comparisons", table.len() * points.len());
}

#[test]
fn losses_bend_as_their_formulas_say() {
    type Loss = fn(Tensor, Tensor) -> Tensor;
    type Formula = fn(f64, f64) -> f64;
    let table: &[(&str, Loss, Formula)] = &[
        ("bce_with_logits", |x, y| x.bce_with_logits(y), |x, _| sigmoid(x) * sigmoid(-x)),
        ("mse", |x, y| x.mse_loss(y), |_, _| 2.0),
        ("l1", |x, y| x.l1_loss(y), |_, _| 0.0),
        ("huber", |x, y| x.huber_loss(y, 1.0), |x, y| f64::from(u8::from((x - y).abs() < 1.0))),
        (
            "smooth_l1",
            |x, y| x.smooth_l1_loss(y, 0.5),
            |x, y| {
                if (x - y).abs() < 0.5 { 2.0 } else { 0.0 }
            },
        ),
        ("hinge", |x, y| x.hinge_loss(y), |_, _| 0.0),
        ("poisson", |x, y| x.poisson_nll_loss(y), |x, _| x.exp()),
        ("gaussian", |x, y| x.gaussian_nll_loss(y, y.detach() * 0.0 + 0.5), |_, _| 2.0),
        (
            "bce",
            |x, y| (x * 0.0 + 0.5 + x * 0.1).bce_loss(y),
            |x, y| {
                let p = 0.5 + 0.1 * x;
                0.01 * (y / (p * p) + (1.0 - y) / ((1.0 - p) * (1.0 - p)))
            },
        ),
    ];
    let points = [-4.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 4.0];
    let mut count = 0;
    for (name, f, formula) in table {
        for y in [0.0, 1.0, 0.5] {
            for x in points {
                // Skip the kink of the hinge, where the first derivative is discontinuous.
                if *name == "hinge" && x * y == 1.0 {
                    continue;
                }
                let found = run(&[floats(&[1], &[x]), floats(&[1], &[y])], |x| {
                    let first = gradients(f(x[0], x[1]), [x[0]])[0];
                    vec![gradients(first.sum(), [x[0]])[0]]
                });
                let (got, want) = (found.unwrap()[0].to_f64()[0], formula(x, y));
                assert!(
                    (got - want).abs() <= 1e-9 * want.abs().max(1.0),
                    "{name} of {x}, {y}: {got}, not {want}"
                );
                count += 1;
            }
        }
    }
    println!("{count} comparisons");
}

/// Checks the gradient of a weighted sum of the gradients against central differences of the gradients.
#[track_caller]
fn check_curvature(name: &str, values: &[Value], f: impl Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-3;
    let weights = drawn(&values[0].ty.shape, 98);
    let slope = |values: &[Value]| -> f64 {
        let found = run(values, |x| vec![gradients(f(x), [x[0]])[0]]).unwrap();
        found[0].to_f64().iter().zip(&weights.data).map(|(slope, weight)| slope * weight).sum()
    };
    let all = [values, std::slice::from_ref(&weights)].concat();
    let found = run(&all, |x| {
        let first = gradients(f(&x[..values.len()]), [x[0]])[0];
        vec![gradients((first * x[values.len()]).sum(), [x[0]])[0]]
    });
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}"))[0].to_f64();
    for (element, got) in found.into_iter().enumerate() {
        let at = |offset: f64| {
            let mut moved = values.to_vec();
            moved[0].data[element] += offset * STEP;
            slope(&moved)
        };
        let want = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * STEP);
        assert!(
            (got - want).abs() <= 1e-5 * want.abs().max(1e-1),
            "{name}, element {element}: {got}, not {want}"
        );
    }
}

/// Checks rows with equal elements, at which maxima are tied and differences are 0.
#[test]
fn functions_of_rows_bend_where_elements_are_equal() {
    let ties = || floats(&[2, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, -0.5]);
    let classes = || ints(&[2], &[1.0, 2.0]);
    check_curvature("softmax", &[ties()], |x| x[0].softmax(-1).square().sum());
    check_curvature("log_softmax", &[ties()], |x| x[0].log_softmax(-1).square().sum());
    check_curvature("logsumexp", &[ties()], |x| x[0].logsumexp_axes(-1).square().sum());
    check_curvature("cross_entropy", &[ties(), classes()], |x| x[0].cross_entropy(x[1]));
    check_curvature("cross_entropy_with", &[ties(), classes()], |x| {
        x[0].cross_entropy_with(x[1], CrossEntropyOptions::new().label_smoothing(0.1).ignore_index(-1))
    });
    check_curvature("layer_norm", &[ties()], |x| (x[0].layer_norm(1.0, 0.1) * x[0]).square().sum());
    check_curvature("var", &[ties()], |x| x[0].var_axes(-1, 0.0).square().sum());
    check_curvature("norm", &[ties()], |x| (x[0] + 0.75).norm_axes(-1, 3.0).sum());
    check_curvature("normalize", &[ties()], |x| ((x[0] + 0.25).normalize(-1, 2.0, 1e-12) * x[0]).sum());
    let heads =
        || [floats(&[1, 1, 2, 2], &[0.0; 4]), floats(&[1, 1, 2, 2], &[0.5; 4]), drawn(&[1, 1, 2, 2], 3)];
    check_curvature("attention", &heads(), |x| {
        // Attention as a single op has no second derivative.
        let options = AttentionOptions::causal().bias(full(DType::F32, [2, 2], 0.0));
        let y = x[0].attention(x[1] + x[0], x[2], options);
        y.square().sum()
    });
    let lengths = || [ints(&[1, 1], &[1.0]), ints(&[1], &[3.0]), ints(&[1], &[1.0])];
    let inputs = [&[floats(&[3, 1, 2], &[-0.5; 6])][..], &lengths()].concat();
    check_curvature("ctc", &inputs, |x| {
        x[0].ctc_loss(x[1], x[2], x[3], gradloom_core::trace::CtcOptions::new())
    });
}

/// Checks products and cumulative products, forward and reversed, with zeros at various positions.
#[test]
fn products_bend_at_zeros() {
    let rows: &[&[f64]] = &[
        &[0.0],
        &[2.0],
        &[0.0, 2.0],
        &[0.0, 0.0],
        &[0.0, 2.0, 3.0],
        &[2.0, 0.0, 3.0],
        &[2.0, 3.0, 0.0],
        &[0.0, 0.0, 3.0],
        &[0.0, 0.0, 0.0],
        &[-1.0, 0.0, 0.5, -0.0, 2.0],
        &[0.0, 1.5, 0.0, -2.0, 0.0, 1.0, 0.5, 0.0, -1.0],
    ];
    for row in rows {
        let x = || [floats(&[row.len()], row), drawn(&[row.len()], 5)];
        check_curvature("prod", &x(), |x| x[0].prod());
        check_curvature("cumprod", &x(), |x| (x[0].cumprod(0) * x[1]).sum());
        check_curvature("cumprod from behind", &x(), |x| (x[0].flip(0).cumprod(0) * x[1]).sum());
        check_curvature("a slope of prod", &x(), |x| (gradients(x[0].prod(), [x[0]])[0] * x[1]).sum());
        check_curvature("a slope of cumprod", &x(), |x| {
            let slope = gradients((x[0].cumprod(0) * x[1]).sum(), [x[0]])[0];
            (slope * x[1]).square().sum()
        });
    }
    let zeros = || floats(&[2, 3, 2], &[0.0, 2.0, 3.0, 0.0, 1.0, 4.0, 0.0, 0.0, 2.0, 1.0, 0.5, -1.0]);
    for axes in [&[][..], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
        check_curvature("prod_axes", &[zeros()], |x| {
            x[0].prod_axes(axes).square().sum() + x[0].prod_axes(axes).sum()
        });
    }
    for axis in 0..3 {
        check_curvature("cumprod", &[zeros()], |x| (x[0].cumprod(axis) * x[0]).sum());
    }
}

#[test]
fn second_derivatives_of_products_are_those_of_the_polynomial() {
    // Returns the gradient of a weighted sum of the elements of the gradient.
    let second = |x: Value, weights: &[f64], f: fn(Tensor) -> Tensor| {
        let weights = floats(&x.ty.shape, weights);
        let found = run(&[x, weights], |x| {
            let first = gradients(f(x[0]), [x[0]])[0];
            vec![gradients((first * x[1]).sum(), [x[0]])[0]]
        });
        found.unwrap()[0].to_f64()
    };
    assert_eq!(second(floats(&[3], &[0.0, 2.0, 3.0]), &[1.0; 3], Tensor::prod), [5.0, 3.0, 2.0]);
    assert_eq!(second(floats(&[3], &[0.0, 0.0, 3.0]), &[1.0; 3], Tensor::prod), [3.0, 3.0, 0.0]);
    let rows = floats(&[2, 2], &[0.0, 2.0, 3.0, 4.0]);
    assert_eq!(second(rows, &[1.0; 4], |x| x.prod_axes(1).sum()), [1.0; 4]);
    let x = floats(&[3], &[0.0, 2.0, 3.0]);
    assert_eq!(second(x, &[1.0, 2.0, 3.0], |x| x.cumprod(0).sum()), [14.0, 4.0, 2.0]);
}

/// Checks derivatives of integer powers, up to an order at which they are 0 everywhere, with a number and a
/// tensor as the exponent.
#[test]
fn powers_bend_at_zeros() {
    let points = [-2.0, -0.5, -0.0, 0.0, 0.5, 2.0];
    for exponent in 0..4_i32 {
        for of_tensor in [false, true] {
            let inputs = [floats(&[6], &points), floats(&[6], &[f64::from(exponent); 6])];
            let found = run(&inputs, |x| {
                let mut y = match of_tensor {
                    true => x[0].pow(x[1]),
                    false => x[0].pow(f64::from(exponent)),
                };
                (0..5)
                    .map(|_| {
                        let next = gradients(y.sum(), [x[0]])[0];
                        std::mem::replace(&mut y, next)
                    })
                    .collect()
            });
            let found = found.unwrap_or_else(|error| panic!("{error}"));
            let mut factor = 1.0;
            for (order, found) in (0..).zip(&found) {
                let want = |&x: &f64| if factor == 0.0 { 0.0 } else { factor * x.powi(exponent - order) };
                let want: Vec<f64> = points.iter().map(want).collect();
                assert_eq!(found.to_f64(), want, "{order}th derivative of x^{exponent}, {of_tensor}");
                factor *= f64::from(exponent - order);
            }
        }
    }
    // Where the exponent is 0, the slope still depends on it: (x^y)' = y x^(y - 1), whose derivative with
    // respect to y is 1 / x.
    let found = run(&[floats(&[3], &[-2.0, 0.0, 4.0]), floats(&[3], &[0.0; 3])], |x| {
        let slope = gradients(x[0].pow(x[1]).sum(), [x[0]])[0];
        let [mixed, by_exponent] =
            [gradients(slope.sum(), [x[1]])[0], gradients(x[0].pow(x[1]).sum(), [x[1]])[0]];
        vec![mixed, gradients(by_exponent.sum(), [x[1]])[0]]
    });
    let found = found.unwrap();
    assert_eq!(found[0].to_f64()[1..], [0.0, 0.25]);
    assert_eq!(found[1].to_f64()[1..], [0.0, 4.0_f64.ln().powi(2)]);
}
