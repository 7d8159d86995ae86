//! Ranges of numbers: a number outside a function's range is an error at the user's line that names the
//! number. `every_function_of_a_number_is_here` finds functions that are not in the table.

use gradloom_core::error::Error;
use gradloom_core::ir::DType;
use gradloom_core::nn::Module;
use gradloom_core::nn::layers::*;
use gradloom_core::trace::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
/// A number above the largest f32.
const LARGE: f64 = 1e39;
/// A number below the smallest normal f32, whose reciprocal is infinite in f32.
const SMALL: f64 = 1e-39;

/// Numbers inside and outside a range.
type Range = (&'static [f64], &'static [f64]);
const FINITE: Range = (&[0.0, -1.0, 1.0, SMALL, 1e38], &[NAN, INF, -INF, LARGE, -LARGE]);
const NOT_NEGATIVE: Range = (&[0.0, 1.0, SMALL, 1e38], &[NAN, INF, -INF, LARGE, -1.0, -SMALL]);
const POSITIVE: Range = (&[1.0, 1e-37, 1e37], &[NAN, INF, -INF, LARGE, -1.0, -SMALL, 0.0, SMALL, 5e-324]);
const PART: Range = (&[0.0, 0.5, 1.0], &[NAN, INF, -INF, -1.0, 1.5, -SMALL]);
const ORDERED: Range = (&[0.0, -1.0, INF, -INF], &[NAN]);

/// Traces a training program with an f32 input `[2, 3, 4]`.
fn traced(model: &dyn Module, f: &dyn Fn(Tensor)) -> Result<(), Error> {
    trace(model, &[f32("x", [2, 3, 4])], true, |x| f(x[0]), |()| vec![]).map(|_| ())
}

/// The name of a function, the name of its argument in errors, the argument's range, and the function.
type Row = (&'static str, &'static str, Range, fn(Tensor, f64));

/// Returns `x` in the shape of attention heads.
fn heads(x: Tensor) -> Tensor {
    x.unsqueeze(0)
}

/// Returns a tensor with one number for each channel.
fn ones() -> Tensor {
    full(DType::F32, [3], 1.0)
}

fn table() -> Vec<Row> {
    vec![
        ("leaky_relu", "slope", FINITE, |x, n| _ = x.leaky_relu(n)),
        ("elu", "alpha", FINITE, |x, n| _ = x.elu(n)),
        ("celu", "alpha", POSITIVE, |x, n| _ = x.celu(n)),
        ("hard_shrink", "lambda", NOT_NEGATIVE, |x, n| _ = x.hard_shrink(n)),
        ("soft_shrink", "lambda", NOT_NEGATIVE, |x, n| _ = x.soft_shrink(n)),
        ("clamp", "lower bound", ORDERED, |x, n| _ = x.clamp(n, 1.0)),
        ("clamp", "upper bound", ORDERED, |x, n| _ = x.clamp(1.0, n)),
        ("huber_loss", "delta", POSITIVE, |x, n| _ = x.huber_loss(0.0, n)),
        ("smooth_l1_loss", "beta", (&[0.0, 1.0], POSITIVE.1.split_at(6).0), |x, n| {
            _ = x.smooth_l1_loss(0.0, n)
        }),
        ("triplet_loss", "margin", NOT_NEGATIVE, |x, n| _ = x.triplet_loss(x, x, n)),
        ("cosine_embedding_loss", "margin", FINITE, |x, n| {
            _ = x.cosine_embedding_loss(x, full(DType::F32, [2, 3], 1.0), n)
        }),
        ("cross_entropy_with", "label smoothing", PART, |x, n| {
            let targets = full(DType::I32, [2, 3], 1.0);
            _ = x.cross_entropy_with(targets, CrossEntropyOptions::new().label_smoothing(n))
        }),
        ("var", "correction", FINITE, |x, n| _ = x.var(n)),
        ("var_axes", "correction", FINITE, |x, n| _ = x.var_axes(0, n)),
        ("var_keep", "correction", FINITE, |x, n| _ = x.var_keep(0, n)),
        ("std", "correction", FINITE, |x, n| _ = x.std(n)),
        ("std_axes", "correction", FINITE, |x, n| _ = x.std_axes(0, n)),
        ("std_keep", "correction", FINITE, |x, n| _ = x.std_keep(0, n)),
        ("norm", "order", (&[0.0, 1.0, 2.5, INF], &[NAN, -1.0, -INF, LARGE, SMALL]), |x, n| _ = x.norm(n)),
        ("norm_axes", "order", (&[0.0, INF], &[NAN, -1.0, -INF]), |x, n| _ = x.norm_axes(0, n)),
        ("norm_keep", "order", (&[0.0, INF], &[NAN, -1.0, -INF]), |x, n| _ = x.norm_keep(0, n)),
        ("normalize", "order", (&[0.0, INF], &[NAN, -1.0, -INF]), |x, n| _ = x.normalize(0, n, 0.1)),
        ("normalize", "epsilon", NOT_NEGATIVE, |x, n| _ = x.normalize(0, 2.0, n)),
        ("layer_norm", "epsilon", NOT_NEGATIVE, |x, n| _ = x.layer_norm(1.0, n)),
        ("rms_norm", "epsilon", NOT_NEGATIVE, |x, n| _ = x.rms_norm(1.0, n)),
        ("group_norm", "epsilon", NOT_NEGATIVE, |x, n| _ = x.group_norm(3, 1.0, n)),
        ("instance_norm", "epsilon", NOT_NEGATIVE, |x, n| _ = x.instance_norm(1.0, n)),
        ("batch_norm", "epsilon", NOT_NEGATIVE, |x, n| _ = x.batch_norm(ones(), ones(), 1.0, n)),
        ("dropout", "probability", PART, |x, n| _ = x.dropout(n)),
        ("bernoulli", "probability", PART, |_, n| _ = bernoulli([2], n)),
        ("linspace", "start", FINITE, |_, n| _ = linspace(n, 1.0, 4)),
        ("linspace", "end", FINITE, |_, n| _ = linspace(1.0, n, 4)),
        ("rope", "base", (&[1e4], &[NAN, INF, -1.0, 0.0]), |x, n| _ = x.rope(n)),
        ("rope_at", "base", (&[1e4], &[NAN, INF, -1.0, 0.0]), |x, n| {
            _ = x.rope_at(full(DType::I32, [3], 0.0), 4, n)
        }),
        ("attention", "scale", FINITE, |x, n| {
            _ = heads(x).attention(heads(x), heads(x), AttentionOptions::full().scale(n))
        }),
        ("attention", "scale", FINITE, |x, n| {
            _ = heads(x).attention(heads(x), heads(x), AttentionOptions::full().scale(n).window(2))
        }),
        ("attention", "dropout", PART, |x, n| {
            _ = heads(x).attention(heads(x), heads(x), AttentionOptions::full().dropout(n))
        }),
    ]
}

/// Checks that there is an error if and only if the number is outside the range.
fn outcome(name: &str, argument: &str, number: f64, is_good: bool, outcome: Result<(), Error>) {
    let call = format!("`{name}` with the {argument} {number:e}");
    match outcome {
        Ok(()) => assert!(is_good, "absurd: {call} passes"),
        Err(error) => {
            assert!(!is_good, "absurd: {call}: {error}");
            let text = error.message();
            let names = text.contains(name) && text.contains(argument);
            assert!(names && error.remedies().next().is_some(), "absurd: {call}: {error}");
            let file = &error.origin().expect("a place").file;
            assert!(file.replace('\\', "/").ends_with("tests/absurd/ranges.rs"), "absurd: {call}: {error}");
        }
    }
}

#[test]
fn numbers_out_of_range_are_errors_that_name_them() {
    for (name, argument, (good, bad), f) in table() {
        for (numbers, is_good) in [(good, true), (bad, false)] {
            for &number in numbers {
                outcome(name, argument, number, is_good, traced(&(), &|x| f(x, number)));
            }
        }
    }
}

#[test]
fn numbers_of_layers_out_of_range_are_errors_that_name_them() {
    fn check<L: Module>(
        name: &str,
        argument: &str,
        (good, bad): Range,
        make: impl Fn(f64) -> L,
        forward: impl Fn(&L, Tensor),
    ) {
        for (numbers, is_good) in [(good, true), (bad, false)] {
            for &number in numbers {
                let layer = make(number);
                outcome(name, argument, number, is_good, traced(&layer, &|x| forward(&layer, x)));
            }
        }
    }
    check(
        "",
        "epsilon",
        NOT_NEGATIVE,
        |n| LayerNorm { epsilon: n, ..LayerNorm::new(4) },
        |l, x| _ = l.forward(x),
    );
    check(
        "",
        "epsilon",
        NOT_NEGATIVE,
        |n| RmsNorm { epsilon: n, ..RmsNorm::new(4) },
        |l, x| _ = l.forward(x),
    );
    check(
        "",
        "epsilon",
        NOT_NEGATIVE,
        |n| GroupNorm { epsilon: n, ..GroupNorm::new(1, 3) },
        |l, x| _ = l.forward(x),
    );
    check(
        "",
        "epsilon",
        NOT_NEGATIVE,
        |n| BatchNorm { epsilon: n, ..BatchNorm::new(3) },
        |l, x| _ = l.forward(x),
    );
    check("", "momentum", PART, |n| BatchNorm { momentum: n, ..BatchNorm::new(3) }, |l, x| _ = l.forward(x));
    check("", "probability", PART, Dropout::new, |l, x| _ = l.forward(x));
    check(
        "",
        "dropout",
        PART,
        |n| MultiHeadAttention::new(4, 2).dropout(n),
        |l, x| _ = l.forward(x, AttentionOptions::full()),
    );
    check("", "probability", PART, |n| TransformerBlock::new(4, 2).dropout(n), |l, x| _ = l.forward(x));
}

/// Checks that counts beyond the range of 32-bit indices are errors.
#[test]
fn indices_beyond_32_bits_are_errors() {
    for depth in [(1 << 31) + 1, 1 << 40] {
        let error = traced(&(), &|x| _ = x.cast(DType::I32).one_hot(depth)).unwrap_err();
        assert!(error.message().contains("`one_hot`"), "{error}");
        let error = traced(&(), &|_| _ = iota(DType::I32, [2, depth], 1)).unwrap_err();
        assert!(error.message().contains("`iota`"), "{error}");
    }
    traced(&(), &|_| _ = iota(DType::I32, [1 << 31], 0)).unwrap();
    let wide = AttentionOptions::causal().window(1 << 40);
    traced(&(), &|x| _ = heads(x).attention(heads(x), heads(x), wide)).unwrap();
}

/// Checks that every function of a number is in the table, unless it accepts any number.
#[test]
fn every_function_of_a_number_is_here() {
    let any_number = [
        // Functions whose argument becomes an element, which may have any value.
        "full",
        "pad",
        "where_causal",
        // Setters of options, whose numbers are checked by the function that takes the options.
        "scale",
        "label_smoothing",
        "alpha",
        // Initial values of states are checked against their dtype, and adapters' numbers by `attach`.
        "new",
        "of_type",
        "add_low_rank",
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (names, mut missing) = (table(), Vec::new());
    let mut found = 0;
    for part in ["trace", "nn", "nn/layers"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            let source = std::fs::read_to_string(&file).unwrap();
            for (at, _) in source.match_indices("pub fn ") {
                let signature = source[at + 7..].split('{').next().unwrap();
                let (name, arguments) = signature.split_once('(').unwrap();
                let name = name.split('<').next().unwrap();
                let arguments = arguments.split("->").next().unwrap();
                if !arguments.contains(": f64") || name.starts_with('$') {
                    continue;
                }
                found += 1;
                if !any_number.contains(&name) && !names.iter().any(|row| row.0 == name) {
                    missing.push(format!("{name} of {}", file.display()));
                }
            }
        }
    }
    crate::assert_in_tables(&missing);
    assert!(found > 30, "absurd: {found} functions of numbers were found");
}
