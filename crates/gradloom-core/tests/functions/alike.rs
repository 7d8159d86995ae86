//! Shapes of predictions and targets. The tests call every function of two or three tensors in which
//! broadcasting would be a mistake, with all small combinations of shapes. The expected rules are written out
//! here.

use super::assert_near;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Shape, Type};
use gradloom_core::reference::{HostTensor, eval};
use gradloom_core::trace::{CrossEntropyOptions, Input, Tensor, full, iota, trace};

type Extents = Vec<usize>;
type OfTwo = fn(Tensor, Tensor) -> Tensor;
type OfThree = fn(Tensor, Tensor, Tensor) -> Tensor;

/// Returns all shapes of at most `rank` axes with extents of at most `extent`.
fn shapes(rank: usize, extent: usize) -> Vec<Extents> {
    let mut all = vec![vec![]];
    for axes in 0..rank {
        let longer: Vec<Extents> = all.iter().filter(|shape| shape.len() == axes).cloned().collect();
        for shape in longer {
            all.extend((0..=extent).map(|n| [&shape[..], &[n]].concat()));
        }
    }
    all
}

/// Traces a function with inputs of these shapes and dtypes, and returns the shape of its result.
fn traced(inputs: &[(&[usize], DType)], f: impl Fn(&[Tensor]) -> Tensor) -> Result<Extents> {
    let declared: Vec<Input> = inputs
        .iter()
        .enumerate()
        .map(|(i, (shape, dtype))| Input { name: i.to_string(), ty: Type::new(*dtype, *shape) })
        .collect();
    let traced = trace(&(), &declared, true, |x| f(x), |result| vec![result])?;
    Ok(traced.graph.ty(traced.results[0]).shape.to_vec())
}

/// Checks that an error names the function and the shapes, has the right location, and suggests a remedy.
fn check_refusal(name: &str, error: &Error, given: &[&[usize]]) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Trace, "{text}");
    let place = error.origin().expect("a place");
    assert_eq!(place.file, file!(), "{text}");
    assert!(error.message().contains(&format!("`{name}`")), "{name}: {text}");
    let shapes = given.iter().filter(|shape| error.message().contains(&format!("{shape:?}"))).count();
    assert!(shapes >= given.len().min(2), "{text}");
    assert!(error.remedies().next().is_some(), "{text}");
}

const TARGETS: [(&str, OfTwo); 10] = [
    ("mse_loss", |x, y| x.mse_loss(y)),
    ("l1_loss", |x, y| x.l1_loss(y)),
    ("huber_loss", |x, y| x.huber_loss(y, 1.0)),
    ("smooth_l1_loss", |x, y| x.smooth_l1_loss(y, 1.0)),
    ("smooth_l1_loss", |x, y| x.smooth_l1_loss(y, 0.0)),
    ("bce_with_logits", |x, y| x.bce_with_logits(y)),
    ("bce_loss", |x, y| x.bce_loss(y)),
    ("hinge_loss", |x, y| x.hinge_loss(y)),
    ("poisson_nll_loss", |x, y| x.poisson_nll_loss(y)),
    ("gaussian_nll_loss", |x, y| x.gaussian_nll_loss(y, x)),
];
/// Functions of rows. Each has a name, the dtype of its targets, `true` if it has one target for each row,
/// and `true` if it has one result for each row.
const ROWS: [(&str, DType, bool, bool, OfTwo); 7] = [
    ("kl_div_loss", DType::F32, false, false, |x, y| x.kl_div_loss(y)),
    ("cross_entropy", DType::F32, false, false, |x, y| x.cross_entropy(y)),
    ("cross_entropy_rows", DType::F32, false, true, |x, y| x.cross_entropy_rows(y)),
    ("cross_entropy", DType::I32, true, false, |x, y| x.cross_entropy(y)),
    ("cross_entropy_rows", DType::I32, true, true, |x, y| x.cross_entropy_rows(y)),
    ("cross_entropy_with", DType::I32, true, false, |x, y| {
        x.cross_entropy_with(y, CrossEntropyOptions::new().ignore_index(-1).label_smoothing(0.1))
    }),
    ("nll_loss", DType::I32, true, false, |x, y| x.nll_loss(y)),
];
const TRIPLES: [(&str, OfThree); 3] = [
    ("cosine_embedding_loss", |x, y, z| x.cosine_embedding_loss(y, z, 0.5)),
    ("triplet_loss", |x, y, z| x.triplet_loss(y, z, 1.0)),
    ("gaussian_nll_loss", |x, y, z| x.gaussian_nll_loss(y, z)),
];

#[test]
fn every_loss_is_in_the_tables() {
    let sources = [
        include_str!("../../src/trace/losses.rs"),
        include_str!("../../src/trace/loss.rs"),
        include_str!("../../src/trace/ctc.rs"),
    ];
    // Skip the CTC loss, whose operands have different shapes: the tests of `ctc` check them.
    let mut known = vec!["ctc_loss", "ctc_loss_rows"];
    known.extend(TARGETS.map(|(name, _)| name));
    known.extend(ROWS.map(|(name, ..)| name));
    known.extend(TRIPLES.map(|(name, _)| name));
    let mut found = 0;
    for source in sources {
        for (at, _) in source.match_indices("pub fn ") {
            let rest = &source[at + 7..];
            let name = rest.split(['(', '<']).next().expect("a name");
            let arguments = rest[name.len()..].split(')').next().unwrap_or_default().split_whitespace();
            if arguments.collect::<String>().starts_with("(self,") {
                found += 1;
                assert!(known.contains(&name), "`{name}` is in no table");
            }
        }
    }
    assert_eq!(found, 18);
}

#[test]
fn targets_have_the_shape_of_the_predictions_or_are_one_number() {
    let all = shapes(3, 3);
    let (mut passed, mut refused) = (0, 0);
    for (name, f) in TARGETS {
        for a in &all {
            for b in &all {
                let fits = a == b || b.is_empty();
                match traced(&[(a, DType::F32), (b, DType::F32)], |x| f(x[0], x[1])) {
                    Ok(shape) => {
                        assert!(fits && shape.is_empty(), "`{name}` of {a:?} and {b:?} gave {shape:?}");
                        passed += 1;
                    }
                    Err(error) => {
                        assert!(!fits, "`{name}` of {a:?} and {b:?}: {error}");
                        check_refusal(name, &error, &[a, b]);
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{passed} passed, {refused} refused");
    assert_eq!((passed + refused, passed), (10 * 85 * 85, 10 * (85 + 84)));
}

#[test]
fn rows_have_a_target_each() {
    let all = shapes(3, 3);
    let (mut passed, mut refused) = (0, 0);
    for (name, dtype, is_for_rows, gives_rows, f) in ROWS {
        for a in &all {
            for b in &all {
                let lead = a.split_last().map(|(_, lead)| lead);
                // A scalar has no classes, so functions of rows refuse it.
                let fits = if is_for_rows { lead == Some(b) } else { lead.is_some() && a == b };
                match traced(&[(a, DType::F32), (b, dtype)], |x| f(x[0], x[1])) {
                    Ok(shape) => {
                        assert!(fits, "`{name}` of {a:?} and {b:?} gave {shape:?}");
                        assert_eq!(Some(&shape[..]), if gives_rows { lead } else { Some(&[][..]) });
                        passed += 1;
                    }
                    Err(error) => {
                        assert!(!fits, "`{name}` of {a:?} and {b:?}: {error}");
                        check_refusal(name, &error, &[]);
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{passed} passed, {refused} refused");
    assert_eq!((passed + refused, passed), (7 * 85 * 85, 7 * 84));
}

#[test]
fn three_tensors_fit() {
    let all = shapes(2, 3);
    let (mut passed, mut refused) = (0, 0);
    for (name, f) in TRIPLES {
        for a in &all {
            for b in &all {
                for c in &all {
                    let lead = a.split_last().map(|(_, lead)| lead.to_vec());
                    let fits = match name {
                        "triplet_loss" => a == b && a == c && !a.is_empty(),
                        "cosine_embedding_loss" => {
                            a == b && lead.is_some() && (c.is_empty() || lead.as_ref() == Some(c))
                        }
                        _ => {
                            let along = a.len() == c.len()
                                && a.iter().zip(c).filter(|(a, c)| a != c).all(|(_, &c)| c == 1)
                                && a.iter().zip(c).filter(|(a, c)| a != c).count() <= 1;
                            (a == b || b.is_empty()) && (c.is_empty() || along || lead.as_ref() == Some(c))
                        }
                    };
                    let given = [(&a[..], DType::F32), (b, DType::F32), (c, DType::F32)];
                    match traced(&given, |x| f(x[0], x[1], x[2])) {
                        Ok(shape) => {
                            assert!(fits, "`{name}` of {a:?}, {b:?} and {c:?}");
                            assert!(shape.is_empty());
                            passed += 1;
                        }
                        Err(error) => {
                            assert!(!fits, "`{name}` of {a:?}, {b:?} and {c:?}: {error}");
                            check_refusal(name, &error, &[]);
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{passed} passed, {refused} refused");
    assert_eq!(passed + refused, 3 * 21 * 21 * 21);
    assert!(passed > 200, "{passed}");
}

#[test]
fn what_is_left_of_a_column_is_said() {
    let help = |a: &[usize], b: &[usize]| {
        let error = traced(&[(a, DType::F32), (b, DType::F32)], |x| x[0].mse_loss(x[1])).unwrap_err();
        error.remedies().next().expect("a remedy").to_string()
    };
    assert_eq!(help(&[32, 1], &[32]), "`.squeeze(1)` on the predictions gives them the shape of the targets");
    assert_eq!(help(&[32], &[32, 1]), "`.squeeze(1)` on the targets gives them the shape of the predictions");
    assert_eq!(help(&[1, 32], &[32]), "`.squeeze(0)` on the predictions gives them the shape of the targets");
    assert_eq!(
        help(&[32, 1, 1], &[32]),
        "`.reshape([32, 1, 1])` on the targets gives them the shape of the predictions"
    );
    assert!(help(&[8, 4], &[4]).contains("`.broadcast_to([8, 4])` on the targets"));
    assert!(help(&[8, 4], &[4, 8]).contains("the same shape: they do not broadcast"));
}

#[test]
fn a_number_is_a_target_for_all() {
    let y = eval(|| full(DType::F32, [2, 3], 3.0).mse_loss(1.0));
    assert_eq!(y, [4.0]);
    let y = eval(|| full(DType::F32, [2, 3], 3.0).mse_loss(full(DType::F32, Shape::scalar(), 1.0)));
    assert_eq!(y, [4.0]);
}

#[test]
fn variances_are_pytorchs() {
    // As in torch.nn.functional.gaussian_nll_loss, variances may have the shapes [2, 3], [2, 1] and [2].
    let loss = |variance: fn(Tensor) -> Tensor| {
        eval(|| {
            let x = iota(DType::I32, [2, 3], 1).cast(DType::F32);
            x.gaussian_nll_loss(1.0, variance((iota(DType::I32, [2, 1], 0).cast(DType::F32) + 1.0) * 2.0))
        })[0]
    };
    let column = loss(|v| v);
    assert_eq!(loss(|v| v.squeeze(1)), column);
    assert_eq!(loss(|v| v.broadcast_to([2, 3])), column);
    // The squared differences of 0, 1, 2 from 1 are 1, 0, 1: the mean of each row is 2/3.
    let want = [2.0f64, 4.0].map(|v| (v.ln() + 2.0 / 3.0 / v) / 2.0).iter().sum::<f64>() / 2.0;
    assert!((column - want).abs() < 1e-6, "{column} {want}");
}

/// Checks that the axis is an axis of the broadcast shape, as in PyTorch, which broadcasts both tensors
/// first.
#[test]
fn cosines_are_those_of_the_repeated_tensors() {
    let all = shapes(3, 3);
    let (mut passed, mut refused) = (0, 0);
    for a in &all {
        for b in &all {
            let common = Shape::from(&a[..]).broadcast(&Shape::from(&b[..]));
            for axis in -4..4 {
                let got = traced(&[(a, DType::F32), (b, DType::F32)], |x| x[0].cosine_similarity(x[1], axis));
                let Ok(got) = got else {
                    let error = got.unwrap_err();
                    check_refusal("cosine_similarity", &error, &[]);
                    let at = common.as_ref().map_or(0, |common| common.rank() as isize);
                    let from_last = if axis < 0 { -axis } else { at - axis };
                    let extent = |shape: &Extents| {
                        (1..=shape.len() as isize)
                            .contains(&from_last)
                            .then(|| shape[shape.len() - from_last as usize])
                    };
                    assert!(
                        common.is_none() || extent(a).is_none() || extent(a) != extent(b),
                        "{a:?} {b:?} {axis}: {error}"
                    );
                    refused += 1;
                    continue;
                };
                passed += 1;
                let common = common.clone().expect("they broadcast");
                let at = if axis < 0 { axis + common.rank() as isize } else { axis } as usize;
                assert_eq!(got, common.without(&[at])[..], "{a:?} {b:?} {axis}");
                if common.elements() == 0 || passed % 8 != 0 {
                    continue;
                }
                let values = |repeats: bool| {
                    eval(|| {
                        let numbers = |shape: &Extents, from: f64| {
                            let count = shape.iter().product::<usize>();
                            let x = iota(DType::I32, [count], 0).cast(DType::F32) * 0.7 + from;
                            x.sin().reshape(shape.clone())
                        };
                        let (x, y) = (numbers(a, 0.3), numbers(b, 2.0));
                        match repeats {
                            true => {
                                let (x, y) = (x.broadcast_to(common.clone()), y.broadcast_to(common.clone()));
                                (x * y).sum_axes(axis) / (x.norm_axes(axis, 2.0) * y.norm_axes(axis, 2.0))
                            }
                            false => x.cosine_similarity(y, axis),
                        }
                    })
                };
                let (got, want) = (values(false), values(true));
                let ty = Type::new(DType::F32, [got.len()]);
                assert_near(&HostTensor::from_f64(ty, got), &[want.len()], &want, 1e-6);
            }
        }
    }
    println!("{passed} passed, {refused} refused");
    assert_eq!(passed + refused, 8 * 85 * 85);
    assert!(passed > 4000, "{passed}");
}

/// Checks that a mask or its value does not enlarge a tensor.
#[test]
fn parts_broadcast_into_the_tensor() {
    let all = shapes(3, 3);
    let parts: [(&str, OfTwo); 2] = [
        ("masked_fill", |x, y| x.masked_fill(y.gt(0.0), 0.0)),
        ("masked_fill", |x, y| x.masked_fill(x.gt(0.0), y)),
    ];
    for (name, f) in parts {
        for a in &all {
            for b in &all {
                let whole = Shape::from(&a[..]);
                let fits = whole.broadcast(&Shape::from(&b[..])).as_ref() == Some(&whole);
                match traced(&[(a, DType::F32), (b, DType::F32)], |x| f(x[0], x[1])) {
                    Ok(shape) => assert!(fits && shape == *a, "`{name}` of {a:?} and {b:?} gave {shape:?}"),
                    Err(error) => {
                        assert!(!fits, "`{name}` of {a:?} and {b:?}: {error}");
                        check_refusal(name, &error, &[a, b]);
                    }
                }
            }
        }
    }
}

/// Checks that there is one weight, or one for each channel (axis 1), but never one for each position along
/// the last axis.
#[test]
fn weights_of_prelu_are_those_of_channels() {
    let all = shapes(4, 3);
    for a in &all {
        for b in &all {
            let fits = matches!(b[..], [] | [1]) || (b.len() == 1 && a.get(1) == Some(&b[0]));
            match traced(&[(a, DType::F32), (b, DType::F32)], |x| x[0].prelu(x[1])) {
                Ok(shape) => assert!(fits && shape == *a, "`prelu` of {a:?} and {b:?} gave {shape:?}"),
                Err(error) => {
                    assert!(!fits, "`prelu` of {a:?} and {b:?}: {error}");
                    check_refusal("prelu", &error, &[a, b]);
                }
            }
        }
    }
    // There are as many channels as positions along the last axis, but the weights are those of the channels.
    let inputs = [super::floats(&[1, 2, 1, 2], &[-8.0; 4]), super::floats(&[2], &[0.5, 0.25])];
    let found = super::run(&inputs, |x| vec![x[0].prelu(x[1])]).unwrap();
    assert_eq!(found[0].to_f64(), [-4.0, -4.0, -2.0, -2.0]);
}
