//! Mistakes in losses, convolutions, pooling, attention, norms and recurrent functions.

use crate::book::Book;
use gradloom::prelude::*;

#[test]
fn losses() {
    let mut book = Book::new("losses.txt");
    book.trace(|g| g.x.cross_entropy(g.x.slice(0, 0..4)));
    book.trace(|g| g.x.cross_entropy(g.longs));
    book.trace(|g| g.x.sum().cross_entropy(g.ids));
    book.trace(|g| g.x.cross_entropy_rows(g.mask));
    book.trace(|g| g.x.cross_entropy_with(g.x, CrossEntropyOptions::new()));
    book.trace(|g| g.x.cross_entropy_with(g.ids, CrossEntropyOptions::new().label_smoothing(1.5)));
    book.trace(|g| g.x.cross_entropy_with(g.ids, CrossEntropyOptions::new().weights(g.x)));
    book.trace(|g| g.x.nll_loss(g.longs));
    book.trace(|g| g.x.mse_loss(g.x.slice(1, 0..32)));
    book.trace(|g| g.x.mse_loss(g.ids));
    book.trace(|g| g.ids.mse_loss(g.ids));
    book.trace(|g| g.x.huber_loss(g.image, 1.0));
    book.trace(|g| g.x.bce_with_logits(g.mask));
    book.trace(|g| g.ids.bce_loss(0.5));
    book.trace(|g| g.x.kl_div_loss(g.ids));
    book.trace(|g| g.x.triplet_loss(g.x, g.ids, 1.0));
    book.trace(|g| g.x.ctc_loss(g.ids, g.ids, g.ids, CtcOptions::new()));
    book.check(17);
}

#[test]
fn layers() {
    let mut book = Book::new("layers.txt");
    let conv = ConvOptions::new;
    book.trace(|g| g.image.conv2d(g.x, conv()));
    book.trace(|g| g.image.conv2d(full(DType::F32, [4, 1, 3, 3], 0.0), conv()));
    book.trace(|g| g.image.conv2d(full(DType::F32, [4, 3, 9, 9], 0.0), conv()));
    book.trace(|g| g.image.conv2d(full(DType::F32, [4, 3, 3, 3], 0.0), conv().groups(2)));
    book.trace(|g| g.image.conv2d(full(DType::I32, [4, 3, 3, 3], 0.0), conv()));
    book.trace(|g| g.image.conv2d(full(DType::F32, [4, 3, 3, 3], 0.0), conv().stride([1, 2, 3])));
    book.trace(|g| g.x.conv1d(g.x, conv()));
    book.trace(|g| g.image.conv_transpose2d(g.image, conv()));
    book.trace(|g| g.m.conv.forward(g.image));
    book.trace(|g| g.image.max_pool2d(9, PoolOptions::new()));
    book.trace(|g| g.image.avg_pool2d([2, 2, 2], PoolOptions::new()));
    book.trace(|g| g.ids.max_pool1d(2, PoolOptions::new()));
    book.trace(|g| g.image.max_pool2d(2, PoolOptions::new().padding(2)));
    book.trace(|g| g.image.adaptive_avg_pool2d(0));
    book.trace(|g| g.x.attention(g.x, g.x, AttentionOptions::causal()));
    book.trace(|g| g.image.attention(g.image.slice(0, 0..1), g.image, AttentionOptions::full()));
    book.trace(|g| g.image.attention(g.image.slice(3, 0..4), g.image, AttentionOptions::full()));
    book.trace(|g| {
        g.image.attention(g.image.slice(1, 0..2), g.image.slice(1, 0..2), AttentionOptions::full())
    });
    book.trace(|g| g.image.attention(g.image, g.image, AttentionOptions::full().mask(g.mask)));
    book.trace(|g| g.image.attention(g.image, g.image, AttentionOptions::full().query_offset(g.x)));
    book.trace(|g| g.x.split_heads(5));
    book.trace(|g| g.x.self_attention(4, AttentionOptions::causal()));
    book.trace(|g| g.x.softmax_causal());
    book.trace(|g| g.image.slice(3, 0..3).rope(10_000.0));
    book.trace(|g| g.image.rope(0.0));
    book.trace(|g| g.image.rope_at(g.ids.slice(0, 0..3), 16, 10_000.0));
    book.trace(|g| g.x.layer_norm(g.x, 1e-5));
    book.trace(|g| LayerNorm::new(32).forward(g.x));
    book.trace(|g| g.ids.rms_norm(1.0, 1e-5));
    book.trace(|g| g.image.group_norm(2, 1.0, 1e-5));
    book.trace(|g| g.image.batch_norm(g.x, g.x, 1.0, 1e-5));
    book.trace(|g| g.x.lstm(g.x, g.x, g.x, g.x));
    book.trace(|g| g.image.prelu(g.x));
    book.check(33);
}
