//! Functions of one tensor, without arguments and with axes, extents and shapes.

use super::values::{Extents, List, calls, each};
use super::{Report, types};
use gradloom_core::ir::{BlockFormat, DType};
use gradloom_core::trace::*;

#[test]
fn functions_of_a_tensor_alone() {
    let mut r = Report::new();
    calls! { r, types();
        |x| x.abs();
        |x| x.sign();
        |x| x.floor();
        |x| x.exp();
        |x| x.expm1();
        |x| x.log();
        |x| x.log1p();
        |x| x.sqrt();
        |x| x.rsqrt();
        |x| x.sin();
        |x| x.cos();
        |x| x.tanh();
        |x| x.sigmoid();
        |x| x.erf();
        |x| x.logical_not();
        |x| x.tan();
        |x| x.asin();
        |x| x.acos();
        |x| x.atan();
        |x| x.sinh();
        |x| x.cosh();
        |x| x.asinh();
        |x| x.acosh();
        |x| x.atanh();
        |x| x.relu();
        |x| x.relu6();
        |x| x.gelu();
        |x| x.gelu_tanh();
        |x| x.silu();
        |x| x.mish();
        |x| x.softplus();
        |x| x.log_sigmoid();
        |x| x.softsign();
        |x| x.selu();
        |x| x.hard_sigmoid();
        |x| x.hard_swish();
        |x| x.tanh_shrink();
        |x| x.softmax_causal();
        |x| x.merge_heads();
        |x| x.square();
        |x| x.ceil();
        |x| x.round();
        |x| x.trunc();
        |x| x.reciprocal();
        |x| x.exp2();
        |x| x.log2();
        |x| x.log10();
        |x| x.is_nan();
        |x| x.is_inf();
        |x| x.is_finite();
        |x| x.diagonal();
        |x| x.diag_embed();
        |x| x.flatten();
        |x| x.detach();
        |x| x.argmax_all();
        |x| x.argmin_all();
        |x| x.sum();
        |x| x.prod();
        |x| x.max();
        |x| x.min();
        |x| x.mean();
        |x| x.logsumexp();
        |x| x.any();
        |x| x.all();
        |x| x.channel_mean();
        |x| x.dims::<0>();
        |x| x.dims::<3>();
        |x| x.ty();
        |x| x.shape();
        |x| x.dtype();
        |x| x.rank();
        |x| x.value();
        |x| (x.capture(""), x.capture("loss"), x.capture("a"), x.capture("a"));
        |x| x.dequantize(BlockFormat::Q8_0);
        |x| -x;
        |x| x % 0;
        |x| x / 0.0;
        |x| 2.0 / x;
        |x| meshgrid(&[x, x]);
        |x| meshgrid(&[x; 70]);
        |x| concat(0, &[x; 70]);
        |x| stack(0, &[x; 2]);
        |x| gradients(x, [x]);
        |x| gradients(x.mean(), [x]);
        |x| einsum("", &[x]);
        |x| einsum("->", &[]);
        |x| einsum("ii", &[x]);
        |x| einsum("iii->i", &[x]);
        |x| einsum("ij->ji,", &[x]);
        |x| einsum("ij,jk", &[x, x]);
        |x| einsum("abcdefghijklmnopqrstuvwxyz", &[x]);
        |x| einsum("ij,ij,ij,ij->ijk", &[x; 4]);
        |x| x.split::<0>(0);
        |x| x.split::<1000>(-1);
        |x| checkpoint(|| [x.exp(), x]);
    }
    r.check(1500);
}

#[test]
fn functions_of_axes() {
    let mut r = Report::new();
    calls! { r, types();
        |x, a: isize| x.glu(*a);
        |x, a: isize| x.cumsum(*a);
        |x, a: isize| x.cumprod(*a);
        |x, a: isize| x.cummax(*a);
        |x, a: isize| x.cummin(*a);
        |x, a: isize| x.sort(*a);
        |x, a: isize| x.sort_descending(*a);
        |x, a: isize| x.argsort(*a);
        |x, a: isize| x.argsort_descending(*a);
        |x, a: isize| x.argmax(*a);
        |x, a: isize| x.argmin(*a);
        |x, a: isize| x.softmax(*a);
        |x, a: isize| x.log_softmax(*a);
        |x, a: isize| x.unsqueeze(*a);
        |x, a: isize| x.squeeze(*a);
        |x, a: isize| x.split::<2>(*a);
        |x, a: isize| x.categorical(*a);
        |x, a: isize| x.tril(*a);
        |x, a: isize| x.triu(*a);
        |x, a: isize| concat(*a, &[x, x]);
        |x, a: isize| concat(*a, &[]);
        |x, a: isize| stack(*a, &[x, x]);
        |x, a: isize| stack(*a, &[]);
        |x, a: isize, b: isize| x.transpose(*a, *b);
        |x, a: isize, b: isize| x.roll(*a, *b);
        |x, a: isize, k: usize| x.top_k(*k, *a);
        |x, a: isize, k: usize| x.arg_top_k(*k, *a);
        |x, a: isize, k: usize| x.chunk(*a, *k);
        |x, a: isize, k: usize| x.repeat_interleave(*a, *k);
        |x, a: isize, k: usize| x.resize_linear(*a, *k);
        |x, a: isize, b: isize, c: isize| x.slice(*a, *b..*c);
        |x, a: isize, b: isize| x.slice(*a, *b..=*b);
        |x, a: isize, b: isize| x.slice(*a, *b..);
        |x, a: isize, b: isize| x.slice(*a, ..*b);
        |x, a: isize, b: isize| x.slice(*a, ..=*b);
        |x, a: isize| x.slice(*a, ..);
    }
    r.check(15_000);
}

#[test]
fn functions_of_axes_and_extents() {
    let mut r = Report::new();
    calls! { r, types();
        |x, a: isize, k: usize, n: usize| x.narrow(*a, *k, *n);
        |x, a: isize, k: usize, n: usize| x.pad_reflect(*a, *k, *n);
        |x, a: isize, k: usize, n: usize| x.pad_replicate(*a, *k, *n);
        |x, a: isize, k: usize, n: usize| x.pad_circular(*a, *k, *n);
        |x, a: isize, k: usize, n: usize| x.unfold(*a, *k, *n);
        |x, a: isize, b: isize, n: usize| x.slice_step(*a, *b.., *n);
    }
    r.check(40_000);
}

#[test]
fn functions_of_lists() {
    let mut r = Report::new();
    calls! { r, types();
        |x, a: List| x.sum_axes(&a.0[..]);
        |x, a: List| x.sum_keep(&a.0[..]);
        |x, a: List| x.prod_axes(&a.0[..]);
        |x, a: List| x.prod_keep(&a.0[..]);
        |x, a: List| x.max_axes(&a.0[..]);
        |x, a: List| x.max_keep(&a.0[..]);
        |x, a: List| x.min_axes(&a.0[..]);
        |x, a: List| x.min_keep(&a.0[..]);
        |x, a: List| x.mean_axes(&a.0[..]);
        |x, a: List| x.mean_keep(&a.0[..]);
        |x, a: List| x.logsumexp_axes(&a.0[..]);
        |x, a: List| x.logsumexp_keep(&a.0[..]);
        |x, a: List| x.any_axes(&a.0[..]);
        |x, a: List| x.any_keep(&a.0[..]);
        |x, a: List| x.all_axes(&a.0[..]);
        |x, a: List| x.all_keep(&a.0[..]);
        |x, a: List| x.count_nonzero(&a.0[..]);
        |x, a: List| x.permute(&a.0[..]);
        |x, a: List| x.flip(&a.0[..]);
        |x, a: List| x.reshape(&a.0[..]);
        |x, a: List, b: List| x.tensordot(x, &a.0[..], &b.0[..]);
        |x, a: List, n: f64| x.var_axes(&a.0[..], *n);
        |x, a: List, n: f64| x.var_keep(&a.0[..], *n);
        |x, a: List, n: f64| x.std_axes(&a.0[..], *n);
        |x, a: List, n: f64| x.std_keep(&a.0[..], *n);
        |x, a: List, n: f64| x.norm_axes(&a.0[..], *n);
        |x, a: List, n: f64| x.norm_keep(&a.0[..], *n);
        |x, e: Extents| x.reshape(&e.0[..]);
        |x, e: Extents| x.broadcast_to(&e.0[..]);
        |x, e: Extents| x.tile(&e.0);
        |x, e: Extents| x.dynamic_slice(&[], &e.0);
        |x, e: Extents, a: isize| x.split_sizes(*a, &e.0);
    }
    r.check(15_000);
}

#[test]
fn tensors_of_shapes_and_counts() {
    let mut r = Report::new();
    let none = [gradloom_core::ir::Type::scalar(DType::F32)];
    calls! { r, none;
        |x, e: Extents| (x, uniform(&e.0[..]));
        |x, e: Extents| (x, randn(&e.0[..]));
        |x, e: Extents, p: f64| (x, bernoulli(&e.0[..], *p));
        |x, e: Extents, d: DType, v: f64| (x, full(*d, &e.0[..], *v));
        |x, e: Extents, d: DType, a: isize| (x, iota(*d, &e.0[..], *a));
        |x, e: Extents| (x, literal(&[], &e.0[..]));
        |x, e: Extents| (x, literal(&[1.0; 6], &e.0[..]));
        |x, n: usize| (x, eye(*n));
        |x, n: usize| (x, permutation(*n));
        |x, a: f64, b: f64, n: usize| (x, linspace(*a, *b, *n));
        |x, n: usize| scan(*n, x, (), |x, ()| (x + 1.0, ()));
        |x, n: usize| scan(*n, x, (), |x, ()| (x, x));
        |x, n: usize| scan(*n, x, x, |x, y| (x + y, ()));
        |x, n: usize| scan(*n, x, uniform([3]), |x, y| (x.broadcast_to([2]), y));
        |x, n: usize| scan(*n, x, (), |x, ()| (x + uniform([2]).mean(), ()));
    }
    r.check(2000);
}
