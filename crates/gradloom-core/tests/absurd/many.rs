//! Functions of two and three tensors.

use super::Report;
use super::values::{calls, each, pairs, triples};
use gradloom_core::ir::{DType, DotAxes};
use gradloom_core::trace::*;

#[test]
fn functions_of_two_tensors() {
    let mut r = Report::new();
    pairs! { r;
        |x, y| x + y;
        |x, y| x - y;
        |x, y| x * y;
        |x, y| x / y;
        |x, y| x % y;
        |x, y| x.pow(y);
        |x, y| x.minimum(y);
        |x, y| x.maximum(y);
        |x, y| x.logical_and(y);
        |x, y| x.logical_or(y);
        |x, y| x.logical_xor(y);
        |x, y| x.shift_left(y);
        |x, y| x.shift_right(y);
        |x, y| x.eq(y);
        |x, y| x.ne(y);
        |x, y| x.lt(y);
        |x, y| x.le(y);
        |x, y| x.gt(y);
        |x, y| x.ge(y);
        |x, y| x.remainder(y);
        |x, y| x.hypot(y);
        |x, y| x.prelu(y);
        |x, y| x.masked_fill(y, 0.0);
        |x, y| x.select(y, 0.0);
        |x, y| x.lerp(y, 0.5);
        |x, y| x.clamp(y, y);
        |x, y| x.dot(y);
        |x, y| x.outer(y);
        |x, y| x.matmul(y);
        |x, y| x.dot_general(y, DotAxes::default());
        |x, y| x.dot_general(y, DotAxes { lhs_contract: vec![0], rhs_contract: vec![usize::MAX], ..DotAxes::default() });
        |x, y| x.dot_general(y, DotAxes { lhs_batch: vec![0], rhs_batch: vec![0, 0], ..DotAxes::default() });
        |x, y| x.gather_rows(y);
        |x, y| x.take_last(y);
        |x, y| x.scatter_rows(y, x);
        |x, y| x.scatter_add_rows(y, x);
        |x, y| x.scatter_distinct_rows(y, x);
        |x, y| x.dynamic_slice(&[y], &[2]);
        |x, y| x.dynamic_slice(&[y, y], &[1, 1]);
        |x, y| x.dynamic_update_slice(y, &[]);
        |x, y| x.dynamic_update_slice(x, &[y, y]);
        |x, y| x.cross_entropy(y);
        |x, y| x.cross_entropy_rows(y);
        |x, y| x.nll_loss(y);
        |x, y| x.mse_loss(y);
        |x, y| x.l1_loss(y);
        |x, y| x.bce_with_logits(y);
        |x, y| x.bce_loss(y);
        |x, y| x.kl_div_loss(y);
        |x, y| x.hinge_loss(y);
        |x, y| x.poisson_nll_loss(y);
        |x, y| x.layer_norm(y, 1e-5);
        |x, y| x.rms_norm(y, 1e-5);
        |x, y| x.instance_norm(y, 1e-5);
        |x, y| x.group_norm(2, y, 1e-5);
        |x, y| x.channel_variance(y);
        |x, y| concat(0, &[x, y]);
        |x, y| stack(-1, &[x, y]);
        |x, y| einsum("i,j->ij", &[x, y]);
        |x, y| einsum("ij,jk->ik", &[x, y]);
        |x, y| einsum("i,i", &[x, y]);
        |x, y| x.attention(y, y, AttentionOptions::full());
        |x, y| x.attention(x, x, AttentionOptions::full().mask(y));
        |x, y| x.attention(x, x, AttentionOptions::full().bias(y));
        |x, y| x.attention(x, x, AttentionOptions::causal().query_offset(y));
        |x, y| x.attention(x, x, AttentionOptions::causal().key_length(y));
        |x, y| x.attention(x, x, AttentionOptions::causal().key_length(y).block_table(y));
        |x, y| x.rope_at(y, 8, 10_000.0);
        |x, y| gradients(x.mean(), [y]);
        |x, y| gradients((x * y).sum(), [x, y]);
        |x, y, a: isize| x.take_along_axis(y, *a);
        |x, y, a: isize| x.index_select(*a, y);
        |x, y, a: isize| x.cosine_similarity(y, *a);
        |x, y, n: f64| x.cosine_embedding_loss(x, y, *n);
        |x, y, n: f64| x.triplet_loss(x, y, *n);
        |x, y, n: f64| x.huber_loss(y, *n);
        |x, y, n: f64| x.smooth_l1_loss(y, *n);
        |x, y, n: f64| x.cross_entropy_with(y, CrossEntropyOptions::new().label_smoothing(*n));
        |x, y, n: i32| x.cross_entropy_with(y, CrossEntropyOptions::new().ignore_index(*n));
        |x, y, n: i32| x.ctc_loss(y, y, y, CtcOptions::new().blank(*n));
        |x, y, n: usize| scan(*n, x, y, |x, y| (x, y));
    }
    r.check(25_000);
}

#[test]
fn functions_of_three_tensors() {
    let mut r = Report::new();
    triples! { r;
        |x, y, z| x.select(y, z);
        |x, y, z| x.clamp(y, z);
        |x, y, z| x.lerp(y, z);
        |x, y, z| x.masked_fill(y, z);
        |x, y, z| x.attention(y, z, AttentionOptions::full());
        |x, y, z| x.attention(y, z, AttentionOptions::full().window(3));
        |x, y, z| x.gaussian_nll_loss(y, z);
        |x, y, z| x.cosine_embedding_loss(y, z, 0.5);
        |x, y, z| x.triplet_loss(y, z, 1.0);
        |x, y, z| x.cross_entropy_with(y, CrossEntropyOptions::new().weights(z));
        |x, y, z| x.scatter_rows(y, z);
        |x, y, z| x.scatter_add_rows(y, z);
        |x, y, z| x.scatter_distinct_rows(y, z);
        |x, y, z| x.scatter(y, z, 0);
        |x, y, z| x.scatter_add(y, z, -1);
        |x, y, z| x.dynamic_update_slice(y, &[z]);
        |x, y, z| x.batch_norm(y, z, 1.0, 1e-5);
        |x, y, z| x.lstm(y, z, z, z);
        |x, y, z| x.gru(y, z, z, z);
        |x, y, z| x.ctc_loss(y, z, z, CtcOptions::new());
        |x, y, z| x.ctc_loss_rows(y, z, z, CtcOptions::new().zero_infinity());
        |x, y, z| einsum("ij,jk,kl->il", &[x, y, z]);
        |x, y, z| x.attention(x, y, AttentionOptions::full().block_table(z));
    }
    r.check(28_000);
}

/// Convolutions of images and weights, some of whose shapes match.
#[test]
fn convolutions() {
    use super::values::PerAxis;
    let mut r = Report::new();
    let of = |shape: &[usize]| gradloom_core::ir::Type::new(DType::F32, shape);
    let images = [of(&[1, 2, 4, 4]), of(&[1, 2, 1 << 30, 1]), of(&[0, 2, 0, 4]), of(&[2, 3])];
    let weights =
        [of(&[2, 2, 3, 3]), of(&[2, 1, 1, 1]), of(&[2, 2, 0, 1]), of(&[2, 2, 1 << 40, 1]), of(&[3])];
    for ty in &images {
        for weight in &weights {
            each!([s: PerAxis, p: PerAxis, d: PerAxis] {
                let options = || ConvOptions::new().stride(&s.0[..]).padding(&p.0[..]).dilation(&d.0[..]);
                let arguments = || format!("{s:?} {p:?} {d:?}");
                r.traced("conv2d", &(), &[ty, weight], &arguments, &|x| _ = x[0].conv2d(x[1], options()));
                let more = || options().output_padding(&p.0[..]);
                r.traced("conv_transpose2d", &(), &[ty, weight], &arguments, &|x| _ = x[0].conv_transpose2d(x[1], more()));
            });
        }
    }
    let lines = [of(&[1, 2, 4]), of(&[1, 0, 4]), of(&[1, 2, 1 << 44]), of(&[2])];
    let weights = [of(&[2, 2, 3]), of(&[2, 1, 2]), of(&[0, 0, 1]), of(&[2, 2, 1 << 44])];
    for ty in &lines {
        for weight in &weights {
            each!([s: usize, p: usize, g: usize] {
                let options = || ConvOptions::new().stride(*s).padding(*p).groups(*g);
                let arguments = || format!("{s} {p} {g}");
                r.traced("conv1d", &(), &[ty, weight], &arguments, &|x| _ = x[0].conv1d(x[1], options().dilation(*p)));
                r.traced("conv_transpose1d", &(), &[ty, weight], &arguments, &|x| {
                    _ = x[0].conv_transpose1d(x[1], options().dilation(*p).output_padding(*s));
                });
                r.traced("conv_transpose1d", &(), &[ty, weight], &arguments, &|x| {
                    _ = x[0].conv_transpose1d(x[1], options());
                });
            });
        }
    }
    calls! { r, images;
        |x, g: usize| x.conv2d(x, ConvOptions::new().groups(*g));
        |x, g: usize| x.conv_transpose2d(x, ConvOptions::new().groups(*g));
    }
    r.check(40_000);
}
