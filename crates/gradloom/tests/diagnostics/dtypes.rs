//! Mistakes in dtypes, numbers combined with tensors, and indices.

use crate::book::Book;
use gradloom::prelude::*;

#[test]
fn dtypes() {
    let mut book = Book::new("dtypes.txt");
    book.trace(|g| g.x * g.x.argmax(-1).unsqueeze(1));
    book.trace(|g| g.ids.exp());
    book.trace(|g| g.bytes.exp());
    book.trace(|g| g.longs.sqrt());
    book.trace(|g| g.ids.gelu());
    book.trace(|g| g.bytes.mish());
    book.trace(|g| g.ids.asin());
    book.trace(|g| g.ids.softmax(0));
    book.trace(|g| g.ids.mean());
    book.trace(|g| g.bytes.mean_axes(0));
    book.trace(|g| g.ids.var(1.0));
    book.trace(|g| g.mask.sum());
    book.trace(|g| g.mask + g.mask);
    book.trace(|g| -g.mask);
    book.trace(|g| g.mask.argmax(0));
    book.trace(|g| g.mask.cumsum(0));
    book.trace(|g| g.x.logical_and(g.x));
    book.trace(|g| g.x.shift_left(1));
    book.trace(|g| g.x.select(g.x, 0.0));
    book.trace(|g| g.ids.reshape([2, 4]).matmul(g.ids.reshape([4, 2])));
    book.trace(|g| g.x.slice(1, 0..4).matmul(g.bytes.reshape([4, 1])));
    book.trace(|g| g.bytes + g.x.slice(1, 0..4));
    book.trace(|g| g.longs * g.x.slice(1, 0..4));
    book.trace(|g| iota(DType::U8, [4], 0) + g.bytes);
    book.trace(|g| g.ids.reshape([2, 4]).rope(10_000.0));
    book.check(25);
}

#[test]
fn numbers() {
    let mut book = Book::new("numbers.txt");
    book.trace(|g| g.ids * 0.5);
    book.trace(|g| g.bytes / 255.0);
    book.trace(|g| g.bytes / 255);
    book.trace(|g| g.ids / 2.0);
    book.trace(|g| 1.0 / g.ids);
    book.trace(|g| g.x / 0.0);
    book.trace(|g| g.ids / 0);
    book.trace(|g| g.x % 0.0);
    book.trace(|g| g.ids.remainder(0));
    book.trace(|g| g.longs.eq(1_099_511_627_776.0));
    book.trace(|g| g.ids.lt(f64::INFINITY));
    book.trace(|g| g.mask.eq(2));
    book.trace(|g| g.bytes.gt(1).select(g.bytes, 256));
    book.trace(|g| g.x.norm(-1.0));
    book.trace(|g| g.x.dropout(1.5));
    book.trace(|g| bernoulli([4], -0.1).cast(DType::F32) + g.x.sum());
    book.check(16);
}

#[test]
fn indices() {
    let mut book = Book::new("indices.txt");
    book.trace(|g| g.x.gather_rows(g.x));
    book.trace(|g| g.x.sum().gather_rows(g.ids));
    book.trace(|g| g.x.take_last(g.x.slice(1, 0..1).squeeze(1)));
    book.trace(|g| g.x.take_last(g.longs));
    book.trace(|g| g.x.take_along_axis(g.ids, 1));
    book.trace(|g| g.x.index_select(0, g.x));
    book.trace(|g| g.x.index_select(2, g.ids));
    book.trace(|g| g.x.one_hot(10));
    book.trace(|g| g.x.scatter_add(g.ids, g.x, 0));
    book.trace(|g| g.x.scatter(g.ids, g.ids, 0));
    book.trace(|g| g.x.scatter_rows(g.ids, g.x.slice(1, 0..2)));
    book.trace(|g| g.x.scatter_add_rows(g.x, g.x));
    book.trace(|g| g.x.categorical(2));
    book.trace(|g| Embedding::new(10, 4).forward(g.ids));
    book.check(14);
}
