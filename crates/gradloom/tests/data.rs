//! Tests u8 and i64 with typical data of users: pixels, token ids, class indices.

use gradloom::ErrorKind;
use gradloom::ir::DType::{Bool, F16, F32, I32, I64, U8, U32};
use gradloom::prelude::*;

fn session() -> Session<Linear> {
    Session::new(Linear::new(1, 1), &Device::cpu(), 1).unwrap()
}

#[test]
fn arithmetic_is_that_of_i32() {
    let mut program = session()
        .infer([u8("x", [5]), i64("y", [5]), i32("z", [5])], |_, [x, y, z]| {
            let results = [
                x + x,
                x - 300,
                1 - x,
                x * z,
                y % 3,
                -y,
                x.maximum(y),
                x.clamp(2, 300),
                x.gt(100).cast(I32),
                y.eq(z).cast(I32),
                x.sum().broadcast_to([5]),
                x.remainder(300),
                x.detach().logical_and(y).cast(F32),
            ];
            results[..5].iter().chain(&results[5..8]).for_each(|t| assert_eq!(t.dtype(), I32));
            assert_eq!([x.detach().dtype(), y.detach().dtype()], [U8, I64]);
            results
        })
        .unwrap();
    let (x, y, z) = ([0u8, 200, 255, 1, 100], [5i64, -4, 2_000_000_000, 0, 7], [1, -2, 3, 0, 7]);
    let want: [[i32; 5]; 13] = [
        [0, 400, 510, 2, 200],
        [-300, -100, -45, -299, -200],
        [1, -199, -254, 0, -99],
        [0, -400, 765, 0, 700],
        [2, -1, 2, 0, 1],
        [-5, 4, -2_000_000_000, 0, -7],
        [5, 200, 2_000_000_000, 1, 100],
        [2, 200, 255, 2, 100],
        [0, 1, 1, 0, 0],
        [0, 0, 0, 1, 1],
        [556; 5],
        [0, 200, 255, 1, 100],
        [0, 200 & -4, 0, 0, 100 & 7],
    ];
    assert_eq!(program.run((&x, &y, &z)).unwrap(), want.map(|row| row.map(|n| n as f32).to_vec()));
}

#[test]
fn conversions_saturate_from_floats_and_wrap_from_integers() {
    let numbers = [-1.0, 255.9, 256.0, 1e30, f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 0.5];
    let mut program = session()
        .infer([f32("x", [8]), i32("i", [8]), u8("b", [8]), i64("w", [8])], |_, [x, i, b, w]| {
            [
                x.cast(U8),
                i.cast(U8),
                b.cast(F32),
                b.cast(U32),
                b.cast(Bool),
                b.cast(F16),
                b.cast(I64),
                x.ne(0.0).cast(U8),
                x.cast(I64),
                w.cast(U8),
                w.cast(Bool),
                w.cast(F32),
            ]
        })
        .unwrap();
    let i = [-1, 255, 256, 300, i32::MIN, i32::MAX, 0, 7];
    let b = [0u8, 1, 127, 128, 255, 2, 3, 4];
    let w = [0i64, -1, 256, 2_147_483_647, -2_147_483_648, 255, 1, 2];
    let got = program.run((&numbers, &i, &b, &w)).unwrap_err();
    // 2^31 - 1 cannot be represented in f32.
    assert_eq!(got.message(), "the integer 2147483647 is not an f32");
    let numbers = numbers.map(|x| if x > 1e9 { 1e9 } else { x });
    let got = program.run((&numbers, &i, &b, &w)).unwrap();
    let bytes = b.map(f32::from).to_vec();
    assert_eq!(got[0], [0.0, 255.0, 255.0, 255.0, 0.0, 0.0, 255.0, 0.0]);
    assert_eq!(got[1], [255.0, 255.0, 0.0, 44.0, 0.0, 255.0, 0.0, 7.0]);
    assert_eq!([&got[2], &got[3], &got[5], &got[6]], [&bytes; 4]);
    assert_eq!(got[4], [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(got[7], [1.0; 8]);
    assert_eq!(got[8][..4], [-1.0, 255.0, 256.0, 1e9]);
    assert_eq!(got[9], [0.0, 255.0, 0.0, 255.0, 0.0, 255.0, 1.0, 2.0]);
    assert_eq!(got[10], [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(got[11], w.map(|n| n as f32));
}

#[derive(Module)]
struct Classifier {
    table: Embedding,
    out: Linear,
}

/// Returns the losses of a few steps with token ids and class indices of a dtype.
fn losses<'a, D: Copy>(dtype: DType, ids: &'a [D], class: &'a [D]) -> Vec<u32>
where
    &'a [D]: Into<gradloom::Data<'a>>,
{
    let input =
        |name: &str, n| gradloom::Input { name: name.into(), ty: gradloom::ir::Type::new(dtype, [n]) };
    let mut train = Trainer::new(Classifier { table: Embedding::new(9, 4), out: Linear::new(4, 3) })
        .inputs([input("ids", 6), input("class", 6)])
        .loss(|net, [ids, class]| {
            let logits = net.out.forward(net.table.forward(ids));
            let picked = logits.take_along_axis(class.unsqueeze(1), 1).mean();
            logits.cross_entropy(class) + picked * 0.1 + logits.index_select(1, class).mean()
        })
        .optimizer(AdamW::new(1e-2))
        .compile(&Device::cpu())
        .unwrap();
    (0..4).map(|_| train.step([ids, class]).unwrap().loss().unwrap().to_bits()).collect()
}

#[test]
fn ids_and_class_numbers_are_converted_on_the_way() {
    let (ids, class) = ([8, 0, 3, 3, 1, 7], [0, 2, 1, 1, 0, 2]);
    let want = losses(I32, &ids, &class);
    assert_eq!(losses(I64, &ids.map(i64::from), &class.map(i64::from)), want);
    assert_eq!(losses(U8, &ids.map(|n| n as u8), &class.map(|n| n as u8)), want);
}

#[test]
fn an_id_beyond_i32_fails_the_step_and_changes_nothing() {
    let mut train = Trainer::new(Embedding::new(9, 4))
        .inputs([i64("ids", [3])])
        .loss(|table, [ids]| table.forward(ids).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let before = train.store().read("weight").unwrap();
    let step = train.step([&[1i64, 1 << 32, 2]]).unwrap();
    let error = step.loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trap);
    assert_eq!(error.message(), "the i64 at position [1] is not in i32's range");
    assert!(error.to_string().contains("data.rs"), "{error}");
    assert_eq!(train.store().read("weight").unwrap(), before);
}

#[derive(Module)]
struct Kept {
    weight: Param,
    bytes: State,
    last: State,
}

#[test]
fn states_keep_them_and_steps_give_their_bytes() {
    let model = Kept {
        weight: Param::new([1], Init::Zeros),
        bytes: State::new([3], U8, 250.0),
        last: State::new([2], I64, -1.0),
    };
    let mut train = Trainer::new(model)
        .inputs([u8("x", [3]), i64("y", [2])])
        .loss(|model, [x, y]| {
            model.bytes.tensor().capture("before");
            model.last.tensor().capture("last");
            model.bytes.set((model.bytes.tensor() + x).cast(U8));
            model.last.set(y);
            model.weight.tensor().square().mean()
        })
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let y = [i64::MIN, (1 << 53) + 1];
    train.step((&[1u8, 5, 6], &y)).unwrap().result().unwrap();
    assert_eq!(train.store().read("bytes").unwrap(), [251, 255, 0]);
    assert_eq!(train.store().read("last").unwrap(), y.map(i64::to_le_bytes).concat());
    let step = train.step((&[0u8; 3], &[0i64; 2])).unwrap();
    step.result().unwrap();
    let outputs: Vec<_> = step.outputs().map(|(name, dtype, bytes)| (name, dtype, bytes.to_vec())).collect();
    assert!(outputs.contains(&("before", U8, vec![251, 255, 0])), "{outputs:?}");
    assert!(outputs.contains(&("last", I64, y.map(i64::to_ne_bytes).concat())), "{outputs:?}");
}

/// Returns the message and the help of the error of a function of `x: u8[4]` and `y: i64[4]`.
fn refused(f: impl FnOnce(Tensor, Tensor) -> Tensor) -> (String, String) {
    let error = session().infer([u8("x", [4]), i64("y", [4])], |_, [x, y]| f(x, y)).unwrap_err();
    let text = error.to_string();
    let help = text.lines().find_map(|line| line.split_once("help: ")).map(|(_, help)| help.to_string());
    (error.message().to_string(), help.unwrap_or_default())
}

#[test]
fn what_is_refused_says_what_to_do() {
    let same = |got: (String, String), message: &str, help: &str| {
        assert_eq!((got.0.as_str(), got.1.as_str()), (message, help));
    };
    let floats = "convert the tensor with .cast(DType::F32)";
    same(
        refused(|x, _| x.exp()),
        "`exp` does not take i32 elements",
        "it takes f32: convert with .cast(DType::F32)",
    );
    same(
        refused(|x, _| x.mean()),
        "`mean` of u8[4]: a mean has a fraction",
        "convert with .cast(DType::F32)",
    );
    same(refused(|x, _| x + 0.5), "0.5 beside a tensor of i32: the fraction would be lost", floats);
    same(
        refused(|x, y| concat(0, &[x, y])),
        "`concat` of u8[4] and i64[4]: the dtypes differ",
        "convert one side with .cast(DType::U8)",
    );
    let no_number = "`select` of a tensor of u8: 256 is not a number of that dtype";
    same(refused(|x, _| x.gt(1).select(x, 256)), no_number, floats);
    let (message, _) = refused(|_, _| iota(U8, [4], 0));
    assert_eq!(message, "`iota` of u8");
    let error = session().infer([u8("x", [4])], |_, [x]| x).unwrap().run([&[1i32, 2, 3, 4]]).unwrap_err();
    assert_eq!(error.message(), "the input `x` is u8[4], got i32 elements");
}

#[derive(Module)]
struct Bytes {
    bytes: State,
}

#[test]
fn a_number_on_the_left_of_a_state_counts_with_it() {
    let session = Session::new(Bytes { bytes: State::new([2], U8, 250.0) }, &Device::cpu(), 1).unwrap();
    let mut sums = session.infer([], |m, []| [1000.0 + &m.bytes, -1.0 * &m.bytes]).unwrap();
    assert_eq!(sums.run([] as [&[f32]; 0]).unwrap(), [vec![1250.0; 2], vec![-250.0; 2]]);
}

#[test]
fn labels_and_lengths_of_ctc_are_of_any_integers() {
    let logs: Vec<f32> = (0..4 * 2 * 3).map(|i| -1.0 - (i % 5) as f32 * 0.3).collect();
    let mut losses = session()
        .infer([f32("x", [4, 2, 3]), i64("l", [2, 2]), u8("n", [2]), i32("k", [2])], |_, [x, l, n, k]| {
            let same = [l, n, k].map(|t| t.cast(I32));
            let options = CtcOptions::default();
            [x.ctc_loss(l, n, k, options), x.ctc_loss(same[0], same[1], same[2], options)]
        })
        .unwrap();
    let [mixed, same] =
        losses.run((&logs, &[1i64, 2, 2, 1], &[4u8, 3], &[2, 1])).unwrap().map(|loss| loss[0].to_bits());
    assert_eq!(mixed, same);
}

#[test]
fn a_gather_of_a_users_own_is_not_taken_for_a_check() {
    let mut rows = session()
        .infer([f32("x", [4, 1]), i32("i", [2])], |_, [x, i]| x.gather_rows(i.logical_xor(i.shift_right(1))))
        .unwrap();
    let error = rows.run((&[0f32; 4], &[2, 9])).unwrap_err().to_string();
    assert!(error.contains("index 13 at position [1]"), "{error}");
}
