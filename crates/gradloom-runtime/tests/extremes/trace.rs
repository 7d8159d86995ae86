//! Tests methods of tensors with extreme numbers: they return an error at the user's line or a graph, and
//! never panic.

use crate::{Counts, EXTREMES};
use gradloom_core::ir::DType;
use gradloom_core::nn::{Embedding, KeyValueCache, LayerNorm, Linear};
use gradloom_core::trace::{Tensor, checkpoint, concat, f32, full, i32, iota, scan, trace, uniform};

type Method = fn(Tensor, Tensor, usize, usize) -> Tensor;

/// Methods with `x` `[4, 6]`, an i32 index `[4]`, and two numbers as arguments.
const METHODS: &[(&str, Method)] = &[
    ("reshape", |x, _, v, w| x.reshape([v, w])),
    ("broadcast_to", |x, _, v, w| x.broadcast_to([v, w, 4, 6])),
    ("broadcast_to of a scalar", |x, _, v, w| x.sum().broadcast_to([v, w])),
    ("permute", |x, _, v, w| x.permute([v as isize, w as isize])),
    ("transpose", |x, _, v, w| x.transpose(v as isize, w as isize)),
    ("unsqueeze", |x, _, v, _| x.unsqueeze(v as isize)),
    ("squeeze", |x, _, v, _| x.squeeze(v as isize)),
    ("slice", |x, _, v, w| x.slice(0, v..w)),
    ("slice to the end", |x, _, v, w| x.slice(w as isize, v..)),
    ("slice with its end", |x, _, v, w| x.slice(1, v..=w)),
    ("slice_step", |x, _, v, w| x.slice_step(0, 0..v, w)),
    ("slice_step twice", |x, _, v, w| x.slice_step(0, 0..4, v).slice_step(0, 0..1, w)),
    ("slice_step of two", |x, _, v, w| x.slice_step(1, .., 2).slice_step(1, 1..2, w).slice_step(1, .., v)),
    ("pad", |x, _, v, w| x.pad(0, v, w, 0.5)),
    ("pad twice", |x, _, v, w| x.pad(1, v, 0, 0.5).pad(-1, w, v, 0.5)),
    ("concat", |x, _, v, w| concat(w as isize, &[x, x.slice(0, 0..v.min(4))])),
    ("concat of much", |x, _, v, w| concat(0, &[x.sum().broadcast_to([v]), x.sum().broadcast_to([w])])),
    ("sum_axes", |x, _, v, w| x.sum_axes([v as isize, w as isize])),
    ("mean of much", |x, _, v, w| x.sum().broadcast_to([v, w]).mean()),
    ("prod of much", |x, _, v, w| x.sum().broadcast_to([v, w]).prod_keep(0)),
    ("argmax", |x, _, v, _| x.argmax(v as isize).cast(DType::F32)),
    ("softmax", |x, _, v, _| x.softmax(v as isize)),
    ("logsumexp_keep of much", |x, _, v, w| x.sum().broadcast_to([v, w]).logsumexp_keep(1)),
    ("one_hot", |_, index, v, _| index.one_hot(v)),
    ("gather_rows of much", |x, index, v, w| x.sum().broadcast_to([v, w]).gather_rows(index)),
    ("take_last of much", |x, index, v, _| x.sum().broadcast_to([4, v]).take_last(index)),
    ("scatter_add_rows", |x, index, v, w| full(DType::F32, [v, w], 0.0).scatter_add_rows(index, x)),
    ("dynamic_slice", |x, index, v, w| x.dynamic_slice(&[index.max(), index.min()], &[v, w])),
    ("dynamic_update_slice", |x, index, v, w| {
        let start = [index.max(), index.min()];
        x.dynamic_update_slice(full(DType::F32, [v, w], 1.0), &start)
    }),
    ("full and iota", |x, _, v, w| {
        full(DType::F32, [v, w], 1.0) + iota(DType::F32, [v, w], w as isize) + x.sum()
    }),
    ("uniform", |x, _, v, w| uniform([v, w]) + x.sum()),
    ("matmul of much", |x, _, v, w| x.sum().broadcast_to([v, w]).matmul(x.sum().broadcast_to([w, v]))),
    ("attention of much", |x, _, v, w| {
        let [q, k] = [v, w].map(|n| x.sum().broadcast_to([1, 2, n, 4]));
        q.attention(k, k, gradloom_core::trace::AttentionOptions::causal())
    }),
    ("cross_entropy of much", |x, index, v, _| x.sum().broadcast_to([4, v]).cross_entropy(index)),
    ("scan", |x, _, v, _| scan(v, x, (), |x, ()| (x, x)).0),
    ("scan of rows", |x, _, v, w| scan(v, x, x.sum().broadcast_to([v, w]), |x, row| (x + row.sum(), ())).0),
    ("checkpoint", |x, _, v, w| checkpoint(|| x.sum().broadcast_to([v, w]))),
    ("Linear", |x, _, v, w| Linear::new(v, w).forward(x)),
    ("LayerNorm", |x, _, v, _| LayerNorm::new(v).forward(x)),
    ("Embedding", |_, index, v, w| Embedding::new(v, w).forward(index)),
    ("KeyValueCache", |x, index, v, w| {
        let q = x.reshape([1, 2, 3, 4]);
        KeyValueCache::new(1, 2, v, w).named("cache").extend(q, q, q, index.max())
    }),
];

#[test]
fn methods_of_tensors() {
    let mut counts = Counts::default();
    let mut wrong = 0;
    for (name, method) in METHODS {
        for v in EXTREMES {
            for w in EXTREMES {
                // Skip long loops, which would be unrolled here; another test checks the maximum length.
                if name.starts_with("scan") && v > 4 && v < usize::MAX / 8 {
                    continue;
                }
                let inputs = [f32("x", [4, 6]), i32("index", [4])];
                let traced = std::panic::catch_unwind(|| {
                    trace(&(), &inputs, true, |x| method(x[0], x[1], v, w), |y| vec![y])
                });
                let Ok(traced) = traced else { panic!("`{name}` with {v} and {w} panicked") };
                let Ok(mut traced) = traced else {
                    wrong += 1;
                    continue;
                };
                let value = traced.results[0];
                traced.graph.outputs.push(gradloom_core::ir::Output { name: "y".into(), value });
                if !name.starts_with("scan") || v <= 4 {
                    counts.check(&traced.graph.to_string());
                }
            }
        }
    }
    assert!(wrong > 1000 && counts.planned > 500 && counts.refused == 0, "{wrong} errors, {counts:?}");
}
