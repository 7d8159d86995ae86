//! Functions of a tensor and numbers such as heads, windows, factors and probabilities.

use super::values::{PerAxis, calls, each};
use super::{Report, types};
use gradloom_core::ir::DType;
use gradloom_core::trace::*;

#[test]
fn functions_of_numbers() {
    let mut r = Report::new();
    calls! { r, types();
        |x, n: f64| x.leaky_relu(*n);
        |x, n: f64| x.elu(*n);
        |x, n: f64| x.celu(*n);
        |x, n: f64| x.hard_shrink(*n);
        |x, n: f64| x.soft_shrink(*n);
        |x, n: f64| x.prelu(*n);
        |x, n: f64| x.where_causal(*n);
        |x, n: f64| x.rope(*n);
        |x, n: f64| x.dropout(*n);
        |x, n: f64| x.var(*n);
        |x, n: f64| x.std(*n);
        |x, n: f64| x.norm(*n);
        |x, n: f64| x + *n;
        |x, n: f64| *n - x;
        |x, n: f64| x * *n;
        |x, n: f64| *n / x;
        |x, n: f64| x % *n;
        |x, n: f64| x.pow(*n);
        |x, n: f64| x.minimum(*n);
        |x, n: f64| x.maximum(*n);
        |x, n: f64| x.remainder(*n);
        |x, n: f64| x.hypot(*n);
        |x, n: f64| x.eq(*n);
        |x, n: f64| x.ne(*n);
        |x, n: f64| x.lt(*n);
        |x, n: f64| x.le(*n);
        |x, n: f64| x.gt(*n);
        |x, n: f64| x.ge(*n);
        |x, n: i32| x + *n;
        |x, n: i32| x / *n;
        |x, n: i32| x % *n;
        |x, n: i32| x.remainder(*n);
        |x, n: i32| x.logical_and(*n);
        |x, n: i32| x.logical_or(*n);
        |x, n: i32| x.logical_xor(*n);
        |x, n: i32| x.shift_left(*n);
        |x, n: i32| x.shift_right(*n);
        |x, n: f64| x.mse_loss(*n);
        |x, n: f64| x.l1_loss(*n);
        |x, n: f64| x.bce_with_logits(*n);
        |x, n: f64| x.bce_loss(*n);
        |x, n: f64| x.hinge_loss(*n);
        |x, n: f64| x.poisson_nll_loss(*n);
        |x, n: f64| x.gaussian_nll_loss(*n, x);
        |x, n: f64, m: f64| x.huber_loss(*n, *m);
        |x, n: f64, m: f64| x.smooth_l1_loss(*n, *m);
        |x, n: f64, m: f64| x.clamp(*n, *m);
        |x, n: f64, m: f64| x.lerp(*n, *m);
        |x, n: f64, m: f64| x.select(*n, *m);
        |x, n: f64| x.masked_fill(x.gt(0), *n);
        |x, n: f64, e: f64| x.layer_norm(*n, *e);
        |x, n: f64, e: f64| x.rms_norm(*n, *e);
        |x, n: f64, e: f64| x.instance_norm(*n, *e);
        |x, n: usize, e: f64| x.group_norm(*n, 1.0, *e);
        |x, n: usize| x.split_heads(*n);
        |x, n: usize| x.upsample_nearest2d(*n);
        |x, n: usize| x.one_hot(*n);
        |x, n: usize, m: usize| x.resize_bilinear(*n, *m);
        |x, d: DType| x.cast(*d);
        |x, a: isize, p: f64, e: f64| x.normalize(*a, *p, *e);
    }
    r.check(20_000);
}

#[test]
fn padding_with_numbers() {
    let mut r = Report::new();
    calls! { r, types();
        |x, a: isize, k: usize, n: usize| x.pad(*a, *k, *n, 0.0);
        |x, k: usize, v: f64| x.pad(0, *k, 1, *v);
    }
    r.check(8000);
}

/// Returns types of images and rows for pooling and attention, and others.
fn images() -> Vec<gradloom_core::ir::Type> {
    let of = |shape: &[usize]| gradloom_core::ir::Type::new(DType::F32, shape);
    let mut all = types();
    all.retain(|ty| !matches!(ty.shape.len(), 0 | 1) || ty.shape.first() == Some(&(1 << 31)));
    all.extend([of(&[1, 1, 1 << 40, 2]), of(&[1, 2, 0, 3]), of(&[1, 2, 1 << 20, 1 << 20])]);
    all
}

#[test]
fn pooling() {
    let mut r = Report::new();
    let options = |stride: &PerAxis, padding: &PerAxis| {
        PoolOptions::new().stride(&stride.0[..]).padding(&padding.0[..])
    };
    calls! { r, images();
        |x, n: usize| x.max_pool1d(*n, PoolOptions::new());
        |x, n: usize| x.avg_pool1d(*n, PoolOptions::new());
        |x, n: usize, s: usize, p: usize| x.max_pool1d(*n, PoolOptions::new().stride(*s).padding(*p));
        |x, n: usize, s: usize, p: usize| x.avg_pool1d(*n, PoolOptions::new().stride(*s).padding(*p));
        |x, n: PerAxis, s: PerAxis, p: PerAxis| x.max_pool2d(&n.0[..], options(s, p));
        |x, n: PerAxis, s: PerAxis, p: PerAxis| x.avg_pool2d(&n.0[..], options(s, p));
        |x, n: PerAxis| x.adaptive_avg_pool2d(&n.0[..]);
        |x, n: PerAxis| x.adaptive_max_pool2d(&n.0[..]);
        |x, n: usize, m: usize| x.adaptive_avg_pool2d([*n, *m]);
    }
    r.check(20_000);
}

#[test]
fn attention() {
    let mut r = Report::new();
    calls! { r, images();
        |x, n: usize| x.self_attention(*n, AttentionOptions::causal());
        |x, s: f64| x.attention(x, x, AttentionOptions::full().scale(*s));
        |x, p: f64| x.attention(x, x, AttentionOptions::full().dropout(*p));
        |x, w: usize| x.attention(x, x, AttentionOptions::full().window(*w));
        |x, w: usize| x.attention(x, x, AttentionOptions::causal().window(*w));
        |x, w: usize| x.attention_with_log_sum(x, x, AttentionOptions::causal().window(*w));
        |x| x.attention_with_log_sum(x, x, AttentionOptions::causal());
        |x| x.attention(x, x, AttentionOptions::full().mask(x));
        |x| x.attention(x, x, AttentionOptions::full().bias(x));
        |x| x.attention(x, x, AttentionOptions::full().query_offset(x));
        |x| x.attention(x, x, AttentionOptions::causal().key_length(x).window(2));
        |x| x.attention(x, x, AttentionOptions::full().block_table(x));
        |x| x.attention(x, x, AttentionOptions::full().block_table(x).window(2));
        |x, context: usize, base: f64| x.rope_at(iota(DType::I32, [4], 0), *context, *base);
    }
    r.check(1500);
}
