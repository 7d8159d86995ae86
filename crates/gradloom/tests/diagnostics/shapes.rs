//! Mistakes in shapes, axes, views and concatenations.

use crate::book::Book;
use gradloom::prelude::*;

#[test]
fn shapes() {
    let mut book = Book::new("shapes.txt");
    book.trace(|g| g.x.matmul(g.x));
    book.trace(|g| g.m.layers[0].forward(g.x).matmul(&g.m.layers[1].weight));
    book.trace(|g| g.x.matmul(g.x.sum()));
    book.trace(|g| g.x.reshape([2, 4, 64]).matmul(g.image.reshape([3, 64, 2])));
    book.trace(|g| g.m.layers.iter().fold(g.x, |x, layer| layer.forward(x)));
    book.trace(|g| g.x + g.x.transpose(0, 1));
    book.trace(|g| g.x.sum_axes(1) * g.x);
    book.trace(|g| g.x.maximum(g.image));
    book.trace(|g| g.x.eq(g.x.slice(1, 0..3)));
    book.trace(|g| g.mask.select(g.x, g.image));
    book.trace(|g| g.x.masked_fill(g.image.gt(0.0), 0.0));
    book.trace(|g| g.x.lerp(g.x.transpose(0, 1), 0.5));
    book.trace(|g| g.x.clamp(g.x.slice(1, 0..2), 1.0));
    book.trace(|g| g.x.reshape([8, 63]));
    book.trace(|g| g.x.reshape([-1, 5]));
    book.trace(|g| g.x.reshape([-1, -1]));
    book.trace(|g| g.x.reshape([8, -2]));
    book.trace(|g| {
        let [_batch, _time, width] = g.x.dims();
        g.x * width as f64
    });
    book.check(18);
}

#[test]
fn axes() {
    let mut book = Book::new("axes.txt");
    book.trace(|g| g.x.sum_axes(2));
    book.trace(|g| g.x.sum_axes([0, 0]));
    book.trace(|g| g.x.max_keep(-3));
    book.trace(|g| g.x.mean_axes([0, 2]));
    book.trace(|g| g.x.sum().sum_axes(0));
    book.trace(|g| g.x.var_axes(5, 1.0));
    book.trace(|g| g.x.std_keep(5, 1.0));
    book.trace(|g| g.x.norm_axes(-3, 2.0));
    book.trace(|g| g.x.logsumexp_axes(2));
    book.trace(|g| g.x.any_axes(2));
    book.trace(|g| g.x.softmax(2));
    book.trace(|g| g.x.log_softmax(-3));
    book.trace(|g| g.x.argmax(2));
    book.trace(|g| g.x.cumsum(2));
    book.trace(|g| g.x.sort(-3));
    book.trace(|g| g.x.top_k(65, 1).0);
    book.trace(|g| g.x.normalize(2, 2.0, 1e-8));
    book.trace(|g| g.x.cosine_similarity(g.x, 4));
    book.trace(|g| g.x.transpose(0, 2));
    book.trace(|g| g.x.permute([0, 2]));
    book.trace(|g| g.x.permute([1, 1]));
    book.trace(|g| g.image.permute([1, 0]));
    book.trace(|g| g.x.squeeze(0));
    book.trace(|g| g.x.squeeze(2));
    book.trace(|g| g.x.unsqueeze(4));
    book.trace(|g| g.x.glu(3));
    book.trace(|g| g.x.slice(1, 0..63).glu(1));
    book.trace(|g| iota(DType::I32, [4], 1) + g.ids.sum());
    book.check(28);
}

#[test]
fn views_and_joins() {
    let mut book = Book::new("views.txt");
    book.trace(|g| g.x.slice(1, 0..65));
    let (from, to) = (5, 3);
    book.trace(|g| g.x.slice(1, from..to));
    book.trace(|g| g.x.slice(0, -9..));
    book.trace(|g| g.x.slice_step(0, .., 0));
    book.trace(|g| g.x.narrow(1, 60, 10));
    book.trace(|g| g.x.split::<3>(0)[0]);
    book.trace(|g| g.x.split_sizes(1, &[32, 31])[0]);
    book.trace(|g| g.x.chunk(1, 0)[0]);
    book.trace(|g| g.x.broadcast_to([8, 65]));
    book.trace(|g| g.x.broadcast_to([64]));
    book.trace(|g| g.ids.pad(0, 1, 1, 0.5));
    book.trace(|g| g.bytes.pad(0, 1, 1, -1.0));
    book.trace(|g| g.x.pad_reflect(0, 8, 0));
    book.trace(|g| g.x.unfold(1, 65, 1));
    book.trace(|g| g.x.diagonal());
    book.trace(|g| g.ids.tril(0));
    book.trace(|_| concat(0, &[]));
    book.trace(|g| concat(0, &[g.x, g.x.transpose(0, 1)]));
    book.trace(|g| concat(0, &[g.x, g.ids]));
    book.trace(|g| concat(2, &[g.x, g.x]));
    book.trace(|g| stack(0, &[g.x, g.x.slice(0, 0..2)]));
    book.trace(|g| stack(4, &[g.x, g.x]));
    book.trace(|g| full(DType::U8, [2], 256.0) + g.ids.sum());
    book.trace(|g| g.x.dynamic_slice(&[g.ids], &[1, 1]));
    book.trace(|g| g.x.dynamic_slice(&[g.ids.sum(), g.ids.sum()], &[9, 1]));
    book.trace(|g| g.x.dynamic_update_slice(g.ids, &[g.ids.sum(), g.ids.sum()]));
    book.trace(|g| g.x.dot(g.x));
    book.trace(|g| g.x.outer(g.x));
    book.trace(|g| g.x.tensordot(g.image, [1], [1]));
    book.trace(|g| einsum("ij,jk->ik", &[g.x, g.x]));
    book.trace(|g| einsum("ij,jk->ik", &[g.x]));
    book.trace(|g| einsum("i->i", &[g.x]));
    book.trace(|g| einsum("ij->ik", &[g.x]));
    book.trace(|g| einsum("i1->i", &[g.x]));
    book.trace(|g| einsum("i,i->i", &[g.ids, g.ids]));
    book.check(35);
}
