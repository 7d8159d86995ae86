//! Mistakes in data, indices and states at run time.

use crate::book::Book;
use gradloom::prelude::*;
use gradloom::{Data, Outputs};

fn session() -> Session<Linear> {
    Session::new(Linear::new(4, 3), &Device::cpu(), 0).unwrap()
}

/// Returns the result of a function of i32 `[2]` for two numbers.
#[track_caller]
fn given<R: Outputs>(numbers: [i32; 2], f: impl FnOnce(Tensor) -> R) -> Result<R::Read> {
    session().infer([i32("i", [2])], |_, [i]| f(i))?.run([&numbers])
}

#[test]
fn data() {
    let mut book = Book::new("data.txt");
    let mut double = session().infer([f32("x", [2, 4])], |m, [x]| m.forward(x)).unwrap();
    book.answer("too few elements", double.run([&[0f32; 7]]));
    book.answer("another dtype", double.run([&[0i32; 8]]));
    book.answer("no data", double.queue(&[]));
    book.answer("too much data", double.queue(&[Data::F32(&[0.0; 8]), Data::F32(&[0.0; 8])]));
    book.answer("a capture that is not there", double.get("hidden"));
    let mut train = Trainer::new(Linear::new(4, 1))
        .inputs([f32("x", [2, 4])])
        .loss(|m, [x]| m.forward(x).log().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    book.answer("a loss that is NaN", train.step([&[-1e9f32; 8]]).and_then(|step| step.loss()));
    let step = train.step([&[0f32; 8]]).unwrap();
    book.answer("an output that is not there", step.get("hidden"));
    book.answer("a number that is not there", train.set_hyperparameter("momentun", 0.9));
    book.answer("a number out of range", train.set_hyperparameter("weight_decay", -1.0));
    book.answer("a state that is not there", train.reset_states("cache"));
    book.answer("a parameter that is not there", train.store().read_f32("wieght"));
    book.check(11);
}

#[test]
fn values() {
    let mut book = Book::new("values.txt");
    let table = || full(DType::F32, [4, 5], 0.0);
    book.answer("", given([1, 4], |i| table().gather_rows(i)));
    book.answer("", given([1, -1], |i| table().slice(0, 0..2).take_last(i)));
    book.answer("", given([0, 5], |i| table().slice(0, 0..2).cross_entropy(i)));
    book.answer("", given([0, 7], |i| table().index_select(1, i)));
    book.answer("", given([0, 9], |i| table().scatter_add_rows(i, table().slice(0, 0..2))));
    book.answer("", given([3, 9], |i| full(DType::F32, [2, 4], 0.5).rope_at(i, 8, 10_000.0)));
    book.answer(
        "",
        given([3, 0], |i| table().dynamic_slice(&[i.slice(0, 0..1).squeeze(0), i.sum()], &[2, 1])),
    );
    book.answer("", given([3, 0], |i| 7 / i));
    book.answer("", given([3, 0], |i| i % i));
    let logs = || full(DType::F32, [3, 2, 5], -1.6);
    let labels = || iota(DType::I32, [2, 2], 1) + 1;
    let two = || full(DType::I32, [2], 2.0);
    book.answer("", given([2, 3], |n| logs().ctc_loss(labels(), two(), n, CtcOptions::new())));
    book.answer("", given([2, -1], |n| logs().ctc_loss(labels(), n, two(), CtcOptions::new())));
    book.answer("", given([2, -1], |n| logs().ctc_loss(labels(), two(), n, CtcOptions::new())));
    book.answer("", given([2, 2], |n| logs().ctc_loss(labels(), n, n, CtcOptions::new().blank(2))));
    let long = session().infer([i64("i", [1])], |_, [i]| i + 1).unwrap().run([&[1i64 << 40]]);
    book.answer("", long);
    let constant = session().infer([], |_, []| table().gather_rows(full(DType::I64, [1], 2f64.powi(40))));
    book.answer("", constant.and_then(|mut run| run.run([] as [&[f32]; 0])));
    let (state, start) = (State::new([4], DType::F32, 0.0).named("s"), || full(DType::I32, [0; 0], 3.0));
    let window = session().infer([f32("x", [2])], |_, [x]| state.update_at(&[start()], x * 2.0));
    book.answer("", window.and_then(|mut run| run.run([&[0f32; 2]])));
    book.check(16);
}
