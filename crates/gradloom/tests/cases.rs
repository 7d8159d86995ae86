//! Compares functions of tensors and their gradients with PyTorch in float64: see `scripts/oracle/cases.py`.
//!
//! Every case in the file is tested here, and vice versa. The float64 evaluator must agree to float64
//! precision, which checks the formulas; the CPU and a GPU must agree to float32 precision.

mod common;

use common::{Oracle, widen};
use gradloom::prelude::*;
use gradloom::reference::evaluate;
use gradloom::trace::{Input, Tensor};
use gradloom::{DType, ir};
use std::collections::{BTreeMap, BTreeSet};

type Function = Box<dyn Fn(&[Tensor]) -> Tensor>;

/// Number of cases that are compiled together.
const TOGETHER: usize = 25;

/// Functions by the name of their case.
#[derive(Default)]
struct Cases(BTreeMap<String, Function>);

impl Cases {
    fn add(&mut self, name: impl Into<String>, function: impl Fn(&[Tensor]) -> Tensor + 'static) {
        let name = name.into();
        assert!(self.0.insert(name.clone(), Box::new(function)).is_none(), "{name} is there twice");
    }
}

/// Adds methods of one tensor with the same name as their case.
macro_rules! unary {
    ($cases:expr, $($name:ident),* $(,)?) => { $($cases.add(stringify!($name), |x| x[0].$name());)* };
}

/// Adds methods of two tensors with the same name as their case.
macro_rules! binary {
    ($cases:expr, $($name:ident),* $(,)?) => { $($cases.add(stringify!($name), |x| x[0].$name(x[1]));)* };
}

fn elementwise(cases: &mut Cases) {
    unary!(
        cases,
        abs,
        sign,
        floor,
        ceil,
        round,
        trunc,
        exp,
        expm1,
        exp2,
        log,
        log1p,
        log2,
        log10,
        sqrt,
        rsqrt,
        reciprocal,
        square,
        sin,
        cos,
        tanh,
        sigmoid,
        erf,
        is_nan,
        is_inf,
        is_finite,
        relu,
        relu6,
        gelu,
        gelu_tanh,
        silu,
        mish,
        softplus,
        log_sigmoid,
        softsign,
        selu,
        hard_sigmoid,
        hard_swish,
        tanh_shrink,
        tan,
        asin,
        acos,
        atan,
        sinh,
        cosh,
        asinh,
        acosh,
        atanh,
    );
    cases.add("neg", |x| -x[0]);
    cases.add("leaky_relu", |x| x[0].leaky_relu(0.1));
    cases.add("elu", |x| x[0].elu(0.7));
    cases.add("celu", |x| x[0].celu(1.3));
    cases.add("hard_tanh", |x| x[0].clamp(-1.0, 1.0));
    cases.add("hard_shrink", |x| x[0].hard_shrink(0.5));
    cases.add("soft_shrink", |x| x[0].soft_shrink(0.5));
    cases.add("clamp", |x| x[0].clamp(-1.0, 1.7));
    cases.add("glu", |x| x[0].glu(1));
    cases.add("prelu", |x| x[0].prelu(x[1]));
}

fn two_operands(cases: &mut Cases) {
    binary!(cases, minimum, maximum, eq, ne, lt, le, gt, ge, hypot, pow, remainder);
    cases.add("add", |x| x[0] + x[1]);
    cases.add("sub", |x| x[0] - x[1]);
    cases.add("mul", |x| x[0] * x[1]);
    cases.add("div", |x| x[0] / x[1]);
    cases.add("rem", |x| x[0] % x[1]);
    cases.add("lerp", |x| x[0].lerp(x[1], x[2]));
    cases.add("clamp_tensors", |x| x[0].clamp(x[1], x[2]));
    cases.add("minimum_tie", |x| x[0].minimum(x[1]));
    cases.add("maximum_tie", |x| x[0].maximum(x[1]));
    cases.add("select", |x| x[0].gt(0).select(x[1], x[2]));
    cases.add("masked_fill", |x| x[0].masked_fill(x[1].gt(0), 2.5));
    cases.add("div_i32", |x| x[0] / x[1]);
    cases.add("rem_i32", |x| x[0] % x[1]);
    cases.add("remainder_i32", |x| x[0].remainder(x[1]));
}

fn reductions(cases: &mut Cases) {
    type Axes<'a> = &'a [isize];
    type Reduction = fn(Tensor, Axes<'_>) -> Tensor;
    let both: [(&str, Reduction, Reduction); 12] = [
        ("sum", |x, a| x.sum_axes(a), |x, a| x.sum_keep(a)),
        ("mean", |x, a| x.mean_axes(a), |x, a| x.mean_keep(a)),
        ("max", |x, a| x.max_axes(a), |x, a| x.max_keep(a)),
        ("min", |x, a| x.min_axes(a), |x, a| x.min_keep(a)),
        ("var", |x, a| x.var_axes(a, 1.0), |x, a| x.var_keep(a, 1.0)),
        ("std", |x, a| x.std_axes(a, 1.0), |x, a| x.std_keep(a, 1.0)),
        ("var0", |x, a| x.var_axes(a, 0.0), |x, a| x.var_keep(a, 0.0)),
        ("logsumexp", |x, a| x.logsumexp_axes(a), |x, a| x.logsumexp_keep(a)),
        ("norm", |x, a| x.norm_axes(a, 2.0), |x, a| x.norm_keep(a, 2.0)),
        ("norm1", |x, a| x.norm_axes(a, 1.0), |x, a| x.norm_keep(a, 1.0)),
        ("norm3", |x, a| x.norm_axes(a, 3.0), |x, a| x.norm_keep(a, 3.0)),
        ("norm_inf", |x, a| x.norm_axes(a, f64::INFINITY), |x, a| x.norm_keep(a, f64::INFINITY)),
    ];
    let lists: [Axes<'_>; 7] = [&[0], &[1], &[-1], &[0, 2], &[1, 2], &[-3, -1], &[0, 1, 2]];
    for axes in lists {
        let names = axes.iter().map(ToString::to_string).collect::<Vec<_>>().join("_");
        for (name, some, keep) in both {
            cases.add(format!("{name}/{names}"), move |x| some(x[0], axes));
            cases.add(format!("{name}_keep/{names}"), move |x| keep(x[0], axes));
        }
        cases.add(format!("any/{names}"), move |x| x[0].eq(0).any_axes(axes));
        cases.add(format!("all/{names}"), move |x| x[0].all_axes(axes));
        cases.add(format!("count_nonzero/{names}"), move |x| x[0].count_nonzero(axes));
    }
    cases.add("sum/all", |x| x[0].sum());
    cases.add("mean/all", |x| x[0].mean());
    cases.add("max/all", |x| x[0].max());
    cases.add("min/all", |x| x[0].min());
    cases.add("var/all", |x| x[0].var(1.0));
    cases.add("std/all", |x| x[0].std(1.0));
    cases.add("prod/all", |x| x[0].prod());
    cases.add("logsumexp/all", |x| x[0].logsumexp());
    cases.add("norm/all", |x| x[0].norm(2.0));
    cases.add("argmax_all/all", |x| x[0].argmax_all());
    cases.add("argmin_all/all", |x| x[0].argmin_all());
    for axis in [0, 1, -1] {
        cases.add(format!("prod/{axis}"), move |x| x[0].prod_axes(axis));
        cases.add(format!("argmax/{axis}"), move |x| x[0].argmax(axis));
        cases.add(format!("argmin/{axis}"), move |x| x[0].argmin(axis));
        cases.add(format!("softmax/{axis}"), move |x| x[0].softmax(axis));
        cases.add(format!("log_softmax/{axis}"), move |x| x[0].log_softmax(axis));
        cases.add(format!("normalize/{axis}"), move |x| x[0].normalize(axis, 2.0, 1e-12));
        cases.add(format!("cosine_similarity/{axis}"), move |x| x[0].cosine_similarity(x[1], axis));
    }
    cases.add("sum_i32", |x| x[0].sum_axes(1));
    cases.add("std_of_equal", |x| x[0].std_axes(1, 1.0));
}

fn shapes(cases: &mut Cases) {
    unary!(cases, flatten, diagonal, diag_embed);
    cases.add("reshape", |x| x[0].reshape([4, 15]));
    cases.add("permute", |x| x[0].permute([2, 0, 1]));
    cases.add("transpose", |x| x[0].transpose(0, -1));
    cases.add("unsqueeze", |x| x[0].unsqueeze(1));
    cases.add("narrow", |x| x[0].narrow(1, 1, 2));
    cases.add("slice", |x| x[0].slice(-1, 1..4));
    cases.add("slice_step", |x| x[0].slice_step(-1, 1..5, 2));
    cases.add("flip", |x| x[0].flip([0, -1]));
    cases.add("roll", |x| x[0].roll(1, 2));
    cases.add("roll_back", |x| x[0].roll(-1, -7));
    cases.add("tile", |x| x[0].tile(&[2, 1, 3, 1]));
    cases.add("repeat_interleave", |x| x[0].repeat_interleave(1, 3));
    cases.add("upsample_nearest2d", |x| x[0].upsample_nearest2d(2));
    cases.add("resize_linear", |x| x[0].resize_linear(-1, 7));
    cases.add("resize_linear_down", |x| x[0].resize_linear(-1, 3));
    cases.add("resize_bilinear", |x| x[0].resize_bilinear(6, 9));
    cases.add("pad", |x| x[0].pad(-1, 1, 2, 0.5));
    cases.add("pad_reflect", |x| x[0].pad_reflect(-1, 4, 2));
    cases.add("pad_replicate", |x| x[0].pad_replicate(-1, 6, 2));
    cases.add("pad_circular", |x| x[0].pad_circular(-1, 5, 2));
    cases.add("unfold", |x| x[0].unfold(1, 3, 1));
    cases.add("unfold_step", |x| x[0].unfold(-1, 2, 3));
    cases.add("tril", |x| x[0].tril(0));
    cases.add("triu", |x| x[0].triu(0));
    cases.add("tril_above", |x| x[0].tril(1));
    cases.add("triu_below", |x| x[0].triu(-2));
    cases.add("broadcast_to", |x| x[0].broadcast_to([2, 3, 4, 5]));
    cases.add("split_sizes", |x| x[0].split_sizes(1, &[1, 3])[1]);
    cases.add("chunk", |x| x[0].chunk(-1, 2)[1]);
    cases.add("concat", |x| concat(1, x));
    cases.add("stack", |x| stack(-1, x));
    cases.add("meshgrid", |x| meshgrid(x)[1]);
}

fn indices(cases: &mut Cases) {
    binary!(cases, gather_rows, take_last);
    cases.add("index_select", |x| x[0].index_select(1, x[1]));
    for axis in [0, 1, -1] {
        cases.add(format!("take_along_axis/{axis}"), move |x| x[0].take_along_axis(x[1], axis));
        cases.add(format!("scatter_add/{axis}"), move |x| x[0].scatter_add(x[1], x[2], axis));
    }
    for axis in [0, 1, -1] {
        cases.add(format!("cumsum/{axis}"), move |x| x[0].cumsum(axis));
        cases.add(format!("cumprod/{axis}"), move |x| x[0].cumprod(axis));
        cases.add(format!("cumprod_zeros/{axis}"), move |x| x[0].cumprod(axis));
        cases.add(format!("cummax/{axis}"), move |x| x[0].cummax(axis));
        cases.add(format!("cummin/{axis}"), move |x| x[0].cummin(axis));
        cases.add(format!("sort/{axis}"), move |x| x[0].sort(axis));
        cases.add(format!("sort_descending/{axis}"), move |x| x[0].sort_descending(axis));
        cases.add(format!("argsort/{axis}"), move |x| x[0].argsort(axis));
        cases.add(format!("argsort_descending/{axis}"), move |x| x[0].argsort_descending(axis));
        cases.add(format!("top_k/{axis}"), move |x| x[0].top_k(3, axis).0);
        cases.add(format!("arg_top_k/{axis}"), move |x| x[0].arg_top_k(3, axis));
        cases.add(format!("scatter/{axis}"), move |x| x[0].scatter(x[1], x[2], axis));
    }
    cases.add("cumsum_long", |x| x[0].cumsum(1));
    cases.add("sort_long", |x| x[0].sort(1));
    cases.add("argsort_ties", |x| x[0].argsort(1));
    cases.add("argsort_descending_ties", |x| x[0].argsort_descending(1));
    cases.add("cumsum_i32", |x| x[0].cumsum(1));
    cases.add("one_hot", |x| x[0].one_hot(6));
}

fn attention(cases: &mut Cases) {
    let mut add = |name: &str, options: fn(&[Tensor]) -> AttentionOptions| {
        cases.add(format!("attention/{name}"), move |x| x[0].attention(x[1], x[2], options(x)));
    };
    add("full", |_| AttentionOptions::full());
    add("causal", |_| AttentionOptions::causal());
    add("lengths", |x| AttentionOptions::full().key_length(x[3]));
    add("offsets", |x| AttentionOptions::causal().query_offset(x[3]));
    add("window", |_| AttentionOptions::causal().window(2));
    add("window_both", |_| AttentionOptions::full().window(2));
    add("window_lengths", |x| AttentionOptions::full().window(3).key_length(x[3]));
    add("bias", |x| AttentionOptions::full().bias(x[3]));
    add("mask", |x| AttentionOptions::full().mask(x[3].gt(0.0)));
    cases.add("rope", |x| x[0].rope(100.0));
    cases.add("rope_at/shared", |x| x[0].rope_at(x[1], 50, 100.0));
    cases.add("rope_at/rows", |x| x[0].rope_at(x[1], 50, 100.0));
}

fn products(cases: &mut Cases) {
    for name in ["matrices", "batch", "one_right", "broadcast", "row", "column", "vectors", "one_left"] {
        cases.add(format!("matmul/{name}"), |x| x[0].matmul(x[1]));
    }
    binary!(cases, dot, outer);
    cases.add("tensordot", |x| x[0].tensordot(x[1], [2, 0], [0, 1]));
    for spec in [
        "ij,jk->ik",
        "bqd,bkd->bqk",
        "bhqd,bhkd->bhqk",
        "ij->ji",
        "ij->",
        "ij->i",
        "ii->i",
        "ii",
        "i,j->ij",
        "ij,ij->ij",
        "ij,ij->",
        "ij,jk,kl->il",
        "ba,b->a",
        "abc,cd->bad",
        "ba",
        "aij,ajk,a->ik",
        "iji->ij",
    ] {
        cases.add(format!("einsum/{spec}"), move |x| einsum(spec, x));
    }
}

fn losses(cases: &mut Cases) {
    binary!(cases, cross_entropy, nll_loss, mse_loss, l1_loss, bce_with_logits,);
    let options = CrossEntropyOptions::new;
    cases.add("cross_entropy/smoothed", move |x| {
        x[0].cross_entropy_with(x[1], options().label_smoothing(0.1))
    });
    cases.add("cross_entropy/ignored", move |x| x[0].cross_entropy_with(x[1], options().ignore_index(-100)));
    cases.add("cross_entropy/weighted", move |x| {
        x[0].cross_entropy_with(x[1], options().weights(x[2].detach()))
    });
    cases.add("cross_entropy/everything", move |x| {
        let options = options().label_smoothing(0.2).ignore_index(-100).weights(x[2].detach());
        x[0].cross_entropy_with(x[1], options)
    });
    cases.add("cross_entropy/soft", |x| x[0].cross_entropy(x[1]));
    cases.add("hinge_loss", |x| x[0].hinge_loss(x[1].cast(x[0].dtype())));
    cases.add("bce_loss", |x| x[0].bce_loss(x[1].detach()));
    cases.add("kl_div_loss", |x| x[0].kl_div_loss(x[1].detach()));
    cases.add("poisson_nll_loss", |x| x[0].poisson_nll_loss(x[1].detach()));
    cases.add("huber_loss", |x| x[0].huber_loss(x[1], 0.8));
    cases.add("smooth_l1_loss", |x| x[0].smooth_l1_loss(x[1], 0.6));
    cases.add("cosine_embedding_loss", |x| x[0].cosine_embedding_loss(x[1], x[2].cast(x[0].dtype()), 0.1));
    cases.add("triplet_loss", |x| x[0].triplet_loss(x[1], x[2], 1.5));
    cases.add("gaussian_nll_loss", |x| x[0].gaussian_nll_loss(x[1], x[2]));
    cases.add("layer_norm", |x| x[0].layer_norm(x[1], 1e-5));
    cases.add("rms_norm", |x| x[0].rms_norm(x[1], 1e-6));
}

fn ctc(cases: &mut Cases) {
    type Change = fn(CtcOptions) -> CtcOptions;
    let mut add = |name: &str, change: Change, finish: fn(Tensor) -> Tensor| {
        cases.add(name, move |x| {
            let logs = x[0].log_softmax(-1);
            finish(logs.ctc_loss_rows(x[1], x[2], x[3], change(CtcOptions::new())))
        });
    };
    add("ctc_loss/sum", |o| o, |rows| rows.sum());
    add("ctc_loss/none", |o| o, |rows| rows);
    add("ctc_loss/infinite", |o| o, |rows| rows);
    cases.add("ctc_loss/never", |x| x[0].detach().ctc_loss_rows(x[1], x[2], x[3], CtcOptions::new()));
    let mut add = |name: &str, change: Change| {
        cases.add(name, move |x| x[0].log_softmax(-1).ctc_loss(x[1], x[2], x[3], change(CtcOptions::new())));
    };
    add("ctc_loss", |o| o);
    add("ctc_loss/blank", |o| o.blank(4));
    add("ctc_loss/no_labels", |o| o);
    add("ctc_loss/repeated", |o| o);
    add("ctc_loss/zero_infinity", CtcOptions::zero_infinity);
    add("ctc_loss/long", |o| o);
}

fn convolutions(cases: &mut Cases) {
    let options = ConvOptions::new;
    cases.add("conv2d/plain", move |x| x[0].conv2d(x[1], options()));
    cases.add("conv2d/padded", move |x| x[0].conv2d(x[1], options().padding(1)));
    cases.add("conv2d/strided", move |x| x[0].conv2d(x[1], options().stride(2).padding(1)));
    cases.add("conv2d/uneven", move |x| x[0].conv2d(x[1], options().stride([2, 3]).padding([0, 2])));
    cases.add("conv2d/dilated", move |x| x[0].conv2d(x[1], options().padding(2).dilation(2)));
    cases.add("conv2d/everything", move |x| {
        x[0].conv2d(x[1], options().stride([2, 3]).padding([1, 2]).dilation([2, 1]).groups(2))
    });
    cases.add("conv2d/depthwise", move |x| x[0].conv2d(x[1], options().padding(1).groups(4)));
    cases.add("conv2d/pointwise", move |x| x[0].conv2d(x[1], options()));
    cases.add("conv2d/wide_padding", move |x| x[0].conv2d(x[1], options().padding(3)));
    cases.add("conv2d/whole", move |x| x[0].conv2d(x[1], options()));
    cases.add("conv1d/plain", move |x| x[0].conv1d(x[1], options()));
    cases.add("conv1d/strided", move |x| {
        x[0].conv1d(x[1], options().stride(3).padding(2).dilation(2).groups(2))
    });
    cases.add("conv_transpose2d/plain", move |x| x[0].conv_transpose2d(x[1], options()));
    cases.add("conv_transpose2d/strided", move |x| {
        x[0].conv_transpose2d(x[1], options().stride(2).padding(1).output_padding(1))
    });
    cases.add("conv_transpose2d/groups", move |x| {
        x[0].conv_transpose2d(x[1], options().stride([2, 1]).padding([0, 1]).groups(2))
    });
    cases.add("conv_transpose2d/dilated", move |x| {
        x[0].conv_transpose2d(x[1], options().stride(2).padding(1).output_padding(1).dilation(2))
    });
    cases.add("conv_transpose2d/wide_padding", move |x| x[0].conv_transpose2d(x[1], options().padding(2)));
    cases.add("conv_transpose1d", move |x| {
        x[0].conv_transpose1d(x[1], options().stride(3).padding(1).output_padding(2))
    });
    let pool = PoolOptions::new;
    cases.add("max_pool2d", move |x| x[0].max_pool2d(2, pool()));
    cases.add("max_pool2d/overlapping", move |x| x[0].max_pool2d(3, pool().stride(2).padding(1)));
    cases.add("max_pool2d/uneven", move |x| x[0].max_pool2d([2, 3], pool().stride([1, 2])));
    cases.add("max_pool2d/ties", move |x| x[0].max_pool2d(2, pool()));
    cases.add("avg_pool2d", move |x| x[0].avg_pool2d(2, pool()));
    cases.add("avg_pool2d/overlapping", move |x| x[0].avg_pool2d(3, pool().stride(2).padding(1)));
    cases.add("max_pool1d", move |x| x[0].max_pool1d(3, pool().stride(2).padding(1)));
    cases.add("avg_pool1d", move |x| x[0].avg_pool1d(3, pool().stride(1).padding(1)));
    cases.add("adaptive_avg_pool2d", |x| x[0].adaptive_avg_pool2d([3, 2]));
    cases.add("adaptive_max_pool2d", |x| x[0].adaptive_max_pool2d([2, 3]));
}

fn all() -> Cases {
    let mut cases = Cases::default();
    elementwise(&mut cases);
    two_operands(&mut cases);
    reductions(&mut cases);
    shapes(&mut cases);
    indices(&mut cases);
    attention(&mut cases);
    products(&mut cases);
    losses(&mut cases);
    convolutions(&mut cases);
    ctc(&mut cases);
    cases
}

/// Returns a graph of several cases that computes with floats of a dtype. Its inputs and outputs are f32,
/// with the names in the file.
fn graph(oracle: &Oracle, cases: &[(&String, &Function)], dtype: DType) -> ir::Graph {
    let operands = |name: &str| -> Vec<String> {
        (0..).map(|i: usize| i.to_string()).take_while(|i| oracle.has(name, i)).collect()
    };
    let mut inputs = Vec::new();
    for (name, _) in cases {
        let upstream = oracle.has(name, "u").then(|| "u".to_string());
        for operand in operands(name).into_iter().chain(upstream) {
            let key = format!("{name}/{operand}");
            inputs.push(Input { ty: ir::Type::new(DType::F32, oracle.shape(&key)), name: key });
        }
    }
    let mut names = Vec::new();
    let trace = |x: &[Tensor]| {
        let mut x = x.iter();
        let mut results = Vec::new();
        for (name, function) in cases {
            let keys = operands(name);
            let whole = |key: &String| oracle.is_whole(&format!("{name}/{key}"));
            let given: Vec<Tensor> = keys.iter().map(|_| *x.next().unwrap()).collect();
            let as_typed =
                |(key, &x): (&String, &Tensor)| x.cast(if whole(key) { DType::I32 } else { dtype });
            let typed: Vec<Tensor> = keys.iter().zip(&given).map(as_typed).collect();
            let y = function(&typed);
            names.push(format!("{name}/y"));
            results.push(y.cast(DType::F32));
            if oracle.has(name, "u") {
                let loss = (y.cast(DType::F32) * x.next().unwrap()).sum();
                for (key, &x) in keys.iter().zip(&given).filter(|(key, _)| !whole(key)) {
                    names.push(format!("{name}/g{key}"));
                    results.push(gradients(loss, [x])[0]);
                }
            }
        }
        results
    };
    let traced = gradloom::trace::trace(&Vec::<Param>::new(), &inputs, false, trace, |results| results);
    let mut traced = traced.unwrap_or_else(|error| panic!("{error}"));
    traced.graph.outputs.clear();
    for (name, &value) in names.iter().zip(&traced.results) {
        traced.graph.outputs.push(ir::Output { name: name.clone(), value });
    }
    traced.graph
}

/// Returns the largest relative error of an element.
fn error(got: &[f64], want: &[f64]) -> f64 {
    // Compare small elements relative to the largest one, because they may lose digits in a sum with large
    // ones.
    let scale = want.iter().fold(0.0, |most: f64, x| most.max(x.abs())) * 0.05;
    let error = |(&got, &want): (&f64, &f64)| match got.is_nan() || want.is_nan() {
        true if got.is_nan() && want.is_nan() => 0.0,
        true => f64::INFINITY,
        false if got == want => 0.0,
        false => (got - want).abs() / want.abs().max(scale).max(1e-30),
    };
    got.iter().zip(want).map(error).fold(0.0, f64::max)
}

/// Runs all cases with an executor, which returns the outputs of a graph, and checks the largest error of
/// each function, in units of `tolerance`.
fn check(what: &str, tolerance: f64, run: impl Fn(ir::Graph, &Oracle) -> Vec<(String, Vec<f64>)>) {
    let (oracle, cases) = (Oracle::load("cases.safetensors"), all());
    let in_file: BTreeSet<&str> = oracle.names().filter_map(|name| name.strip_suffix("/y")).collect();
    let here: BTreeSet<&str> = cases.0.keys().map(String::as_str).collect();
    let different: Vec<_> = in_file.symmetric_difference(&here).collect();
    assert!(different.is_empty(), "the file and the test do not both have {different:?}");
    let list: Vec<_> = cases.0.iter().collect();
    let mut worst: BTreeMap<String, f64> = BTreeMap::new();
    let mut failed = Vec::new();
    for together in list.chunks(TOGETHER) {
        for (name, got) in run(graph(&oracle, together, DType::F32), &oracle) {
            let want = oracle.get(&name);
            assert_eq!(got.len(), want.len(), "{name}");
            let most = error(&got, want);
            if most > tolerance {
                failed.push(format!("{name}: off by {most:.2e}\n  got  {got:?}\n  want {want:?}"));
            }
            let function = name.split('/').next().unwrap().to_string();
            let known = worst.entry(function).or_default();
            *known = known.max(most);
        }
    }
    let mut table: Vec<_> = worst.into_iter().collect();
    table.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (function, error) in &table {
        println!("{what}: {function:<24} {error:.2e}");
    }
    assert!(failed.is_empty(), "{what}: {} of {}\n{}", failed.len(), list.len(), failed.join("\n"));
}

/// Messages show the line that calls a function: no op has an origin in gradloom or in the standard library.
#[test]
fn every_function_stands_at_its_call() {
    let (oracle, cases) = (Oracle::load("cases.safetensors"), all());
    for case in &cases.0 {
        let graph = graph(&oracle, &[case], DType::F32);
        let strange = graph.origins.iter().find(|(_, origin)| origin.file != file!());
        assert!(strange.is_none() && graph.origins.iter().count() > 0, "{}: {strange:?}", case.0);
    }
}

#[test]
fn the_reference_agrees_with_pytorch() {
    check("reference", 1e-7, |graph, oracle| {
        let leaf = |kind: &ir::OpKind| Some(oracle.host(common::leaf_name(kind)?, DType::F32));
        let evaluation = evaluate(&graph, &leaf).unwrap();
        let outputs = graph.outputs.iter();
        outputs.map(|o| (o.name.clone(), evaluation.output(&o.name).unwrap().to_f64())).collect()
    });
}

fn on(device: &Device, graph: ir::Graph, oracle: &Oracle) -> Vec<(String, Vec<f64>)> {
    let inputs: Vec<Vec<f32>> = graph
        .entry_ops()
        .filter_map(|(_, op)| match &op.kind {
            ir::OpKind::Input { name, .. } => Some(oracle.f32(name)),
            _ => None,
        })
        .collect();
    let names: Vec<String> = graph.outputs.iter().map(|output| output.name.clone()).collect();
    let outputs = gradloom::runtime::run_once(graph, device, &inputs).unwrap();
    names.into_iter().zip(outputs).map(|(name, output)| (name, widen(&output))).collect()
}

#[test]
fn the_cpu_agrees_with_pytorch() {
    check("cpu", 1e-5, |graph, oracle| on(&Device::cpu(), graph, oracle));
}

#[cfg(feature = "wgpu")]
#[test]
fn a_gpu_agrees_with_pytorch() {
    let Some(device) = common::gpu() else { return };
    check("gpu", 1e-5, |graph, oracle| on(&device, graph, oracle));
}

/// Checks the cases with 16-bit floats: the graph in float64, which rounds at conversions, is close to
/// PyTorch's float64, and an executor agrees with it to a few roundings.
fn check_narrow(dtype: DType, run: impl Fn(ir::Graph, &Oracle) -> Vec<(String, Vec<f64>)>) {
    let (oracle, cases) = (Oracle::load("cases.safetensors"), all());
    let unit = if dtype == DType::F16 { 2.0_f64.powi(-11) } else { 2.0_f64.powi(-8) };
    let list: Vec<_> = cases.0.iter().collect();
    let (mut failed, mut errors) = (Vec::new(), Vec::new());
    for together in list.chunks(TOGETHER) {
        let graph = graph(&oracle, together, dtype);
        let leaf = |kind: &ir::OpKind| Some(oracle.host(common::leaf_name(kind)?, DType::F32));
        let evaluation = evaluate(&graph, &leaf).unwrap();
        for (name, got) in run(graph, &oracle) {
            let want = evaluation.output(&name).unwrap().to_f64();
            errors.push(error(&want, oracle.get(&name)) / unit);
            let most = error(&got, &want) / unit;
            if most > 4.0 {
                failed.push(format!("{name}: off by {most:.1} roundings\n  got  {got:?}\n  want {want:?}"));
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let share = |share: f64| errors[(share * errors.len() as f64) as usize];
    println!("{dtype}: half within {:.2} roundings of PyTorch, nine tenths {:.2}", share(0.5), share(0.9));
    assert!(failed.is_empty(), "{dtype}: {} of {}\n{}", failed.len(), list.len(), failed.join("\n"));
    assert!(share(0.5) < 3.0 && share(0.9) < 100.0);
}

#[test]
fn the_cpu_computes_on_floats_of_16_bits() {
    for dtype in [DType::F16, DType::BF16] {
        check_narrow(dtype, |graph, oracle| on(&Device::cpu(), graph, oracle));
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn a_gpu_computes_on_floats_of_16_bits() {
    let Some(device) = common::gpu() else { return };
    for dtype in [DType::F16, DType::BF16] {
        check_narrow(dtype, |graph, oracle| on(&device, graph, oracle));
    }
}
