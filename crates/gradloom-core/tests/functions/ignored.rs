//! Elements that are not selected have no effect: NaN and infinity in ignored, masked, padded or clamped
//! elements change neither values nor gradients, bit for bit.

use super::{Value, drawn, floats, ints, run_as};
use gradloom_core::ir::{DType, Type};
use gradloom_core::trace::{AttentionOptions, CrossEntropyOptions, CtcOptions, Tensor, gradients};

const ANY: &[f64] = &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e38, -3e38];

type Function = Box<dyn Fn(&[Tensor]) -> Tensor>;
type OfRows = fn(Tensor) -> Tensor;

/// A function, and elements of its inputs that must have no effect.
struct Case {
    name: String,
    inputs: Vec<Value>,
    /// Elements to poison, as pairs of an input and an index.
    ignored: Vec<(usize, usize)>,
    /// Numbers that replace the elements.
    poisons: Vec<f64>,
    training: bool,
    f: Function,
}

fn case(
    name: impl Into<String>,
    inputs: Vec<Value>,
    ignored: impl IntoIterator<Item = (usize, usize)>,
    f: impl Fn(&[Tensor]) -> Tensor + 'static,
) -> Case {
    Case {
        name: name.into(),
        inputs,
        ignored: ignored.into_iter().collect(),
        poisons: ANY.to_vec(),
        training: false,
        f: Box::new(f),
    }
}

impl Case {
    fn only(mut self, poisons: &[f64]) -> Self {
        self.poisons = poisons.to_vec();
        self
    }

    fn training(mut self) -> Self {
        self.training = true;
        self
    }

    /// Computes the value, and the gradient of each float input.
    fn run(&self, inputs: &[Value]) -> Vec<Vec<f64>> {
        let found = run_as(self.training, inputs, |x| {
            let y = (self.f)(x);
            let wrt: Vec<Tensor> = x.iter().copied().filter(|x| x.dtype().is_float()).collect();
            [vec![y], gradients((y * 1.5).sum(), wrt)].concat()
        });
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        found.into_iter().map(|tensor| tensor.to_f64()).collect()
    }

    /// Poisons each element separately, and then all of them. Returns the number of comparisons.
    fn check(&self) -> usize {
        let want = self.run(&self.inputs);
        let finite = want[1..].iter().flatten().all(|x| x.is_finite());
        assert!(finite, "{}: the gradients are {:?}", self.name, &want[1..]);
        let floats: Vec<usize> =
            (0..self.inputs.len()).filter(|&i| self.inputs[i].ty.dtype.is_float()).collect();
        for &(input, element) in self.ignored.iter().filter(|(input, _)| floats.contains(input)) {
            let at = floats.iter().position(|&i| i == input).unwrap();
            assert_eq!(want[1 + at][element], 0.0, "{}: input {input}, element {element}", self.name);
        }
        let alone = self.ignored.iter().map(|place| vec![*place]);
        let sets: Vec<_> = alone.chain([self.ignored.clone()]).collect();
        for (places, &poison) in sets.iter().flat_map(|set| self.poisons.iter().map(move |p| (set, p))) {
            let mut inputs = self.inputs.clone();
            places.iter().for_each(|&(input, element)| inputs[input].data[element] = poison);
            let got = self.run(&inputs);
            let same = got
                .iter()
                .flatten()
                .zip(want.iter().flatten())
                .all(|(a, b)| a == b || (*a == 0.0 && *b == 0.0));
            assert!(same, "{}: {poison} at {places:?} gives {got:?}, not {want:?}", self.name);
        }
        sets.len() * self.poisons.len()
    }
}

fn bools(shape: &[usize], data: &[f64]) -> Value {
    Value { ty: Type::new(DType::Bool, shape), data: data.to_vec() }
}

/// Checks all cases, and prints the number of comparisons.
fn check_all(cases: &[Case]) {
    let count: usize = cases.iter().map(Case::check).sum();
    println!("{} cases, {count} comparisons", cases.len());
}

#[test]
fn ignored_targets_and_classes_without_a_target() {
    let mut cases = Vec::new();
    let logits = drawn(&[4, 3], 1);
    let targets = ints(&[4], &[2.0, -100.0, 0.0, -100.0]);
    let rows: Vec<_> = [3, 4, 5, 9, 10, 11].map(|element| (0, element)).to_vec();
    for (smoothing, weighted) in [(0.0, false), (0.1, false), (0.0, true), (0.3, true)] {
        let inputs = vec![logits.clone(), targets.clone(), floats(&[3], &[0.5, 1.5, 2.0])];
        let f = move |x: &[Tensor]| {
            let mut options = CrossEntropyOptions::new().label_smoothing(smoothing).ignore_index(-100);
            if weighted {
                options = options.weights(x[2]);
            }
            x[0].cross_entropy_with(x[1], options)
        };
        cases.push(case(format!("cross_entropy {smoothing} {weighted}"), inputs, rows.clone(), f));
    }
    let all_ignored = vec![logits.clone(), ints(&[4], &[-100.0; 4])];
    cases.push(case("cross_entropy of nothing", all_ignored, (0..12).map(|i| (0, i)), |x| {
        x[0].cross_entropy_with(x[1], CrossEntropyOptions::new().ignore_index(-100))
    }));
    let shares = floats(&[2, 3], &[0.0, 0.25, 0.75, 1.0, 0.0, 0.0]);
    let mut low = drawn(&[2, 3], 2);
    [0, 4, 5].into_iter().for_each(|i| low.data[i] = -1e30);
    let unwanted = [(0, 0), (0, 4), (0, 5)];
    cases.push(
        case("cross_entropy of shares", vec![low, shares.clone()], unwanted, |x| {
            x[0].cross_entropy(x[1].detach())
        })
        .only(&[f64::NEG_INFINITY, -3e38]),
    );
    cases
        .push(case("kl_div", vec![drawn(&[2, 3], 3), shares], unwanted, |x| x[0].kl_div_loss(x[1].detach())));
    check_all(&cases);
}

#[test]
fn what_losses_clamp() {
    let zeros = || floats(&[4], &[0.3, 0.0, 0.2, 0.0]);
    let cases = [
        // Predictions far on the correct side of the margin, whose loss is 0.
        case(
            "hinge",
            vec![floats(&[4], &[0.5, 7.0, -0.5, 9.0]), floats(&[4], &[1.0; 4])],
            [(0, 1), (0, 3)],
            |x| x[0].hinge_loss(x[1]),
        )
        .only(&[f64::INFINITY, 3e38]),
        case(
            "gaussian variance",
            vec![zeros(), zeros(), floats(&[4], &[0.5, -1.0, 2.0, -3.0])],
            [(2, 1), (2, 3)],
            |x| x[0].gaussian_nll_loss(x[1], x[2]),
        )
        .only(&[f64::NEG_INFINITY, -3e38]),
        case(
            "triplet",
            vec![drawn(&[2, 2], 1), drawn(&[2, 2], 2), floats(&[2, 2], &[0.1, 0.2, 1e10, 1e9])],
            [(2, 2), (2, 3)],
            |x| x[0].triplet_loss(x[1], x[2], 5.0),
        )
        .only(&[f64::INFINITY, f64::NEG_INFINITY]),
    ];
    check_all(&cases);
    // Far from the target, the slope is constant, even for infinite predictions.
    for (name, f) in [
        ("huber", (|x, y| x.huber_loss(y, 1.0)) as fn(Tensor, Tensor) -> Tensor),
        ("smooth_l1", |x, y| x.smooth_l1_loss(y, 0.5)),
        ("l1", |x, y| x.l1_loss(y)),
    ] {
        let far = floats(&[3], &[f64::INFINITY, f64::NEG_INFINITY, 0.25]);
        let case = case(name, vec![far, floats(&[3], &[0.0; 3])], [], move |x| f(x[0], x[1]));
        let found = case.run(&case.inputs);
        assert_eq!(
            found[1].iter().map(|slope| slope / 1.5 * 3.0).collect::<Vec<_>>()[..2],
            [1.0, -1.0],
            "{name}: {found:?}"
        );
    }
}

/// Compares `bce_loss` and its gradients with PyTorch's `binary_cross_entropy` at probabilities of, and close
/// to, 0 and 1.
#[test]
fn bce_of_saturated_probabilities() {
    let probabilities = [0.0, 1.0, 0.25, 1e-20, 1e-13, 1.0 - 1e-13, 1e-9, 0.5];
    for p in probabilities {
        for y in [0.0, 1.0, 0.5, 0.25] {
            let inputs = [floats(&[1], &[p]), floats(&[1], &[y])];
            let found = run_as(true, &inputs, |x| {
                let loss = x[0].bce_loss(x[1]);
                [vec![loss], gradients(loss, [x[0], x[1]]).to_vec()].concat()
            });
            let found: Vec<f64> = found.unwrap().iter().map(|tensor| tensor.to_f64()[0]).collect();
            let (log, rest) = (p.ln().max(-100.0), (1.0 - p).ln().max(-100.0));
            let slope = (p - y) / (p * (1.0 - p)).max(1e-12);
            for (got, want) in found.iter().zip([-(y * log + (1.0 - y) * rest), slope, rest - log]) {
                let near = (got - want).abs() <= 1e-9 * want.abs().max(1.0);
                assert!(near, "p {p}, y {y}: {found:?}, not {want}");
            }
        }
    }
    // The gradient of a saturated sigmoid is 0 only if the gradient of the loss with respect to the
    // probability is finite.
    let case = case("bce of sigmoids", vec![floats(&[3], &[800.0, -800.0, 0.5])], [], |x| {
        x[0].sigmoid().bce_loss(1.0 - x[0].detach().gt(0.0).cast(DType::F32))
    });
    let found = case.run(&case.inputs);
    assert!(found[0][0] == (200.0 + 0.5f64.exp().ln_1p()) / 3.0 || (found[0][0] - 66.99).abs() < 1.0);
    assert_eq!(&found[1][..2], &[0.0, 0.0], "{found:?}");
}

#[test]
fn clamped_places_of_activations() {
    type Activation = fn(Tensor) -> Tensor;
    // The function, its values at -inf and inf, and its slopes there.
    let table: &[(&str, Activation, [f64; 2], [f64; 2])] = &[
        ("relu", Tensor::relu, [0.0, f64::INFINITY], [0.0, 1.0]),
        ("relu6", Tensor::relu6, [0.0, 6.0], [0.0, 0.0]),
        ("clamp", |x| x.clamp(-1.0, 2.0), [-1.0, 2.0], [0.0, 0.0]),
        ("clamp by tensors", |x| x.clamp(x.detach() * 0.0 - 1.0, 2.0), [f64::NAN; 2], [0.0, 0.0]),
        ("hard_sigmoid", Tensor::hard_sigmoid, [0.0, 1.0], [0.0, 0.0]),
        ("hard_swish", Tensor::hard_swish, [0.0, f64::INFINITY], [0.0, 1.0]),
        ("softplus", Tensor::softplus, [0.0, f64::INFINITY], [0.0, 1.0]),
        ("log_sigmoid", Tensor::log_sigmoid, [f64::NEG_INFINITY, 0.0], [1.0, 0.0]),
        ("elu", |x| x.elu(1.5), [-1.5, f64::INFINITY], [0.0, 1.0]),
        ("celu", |x| x.celu(1.5), [-1.5, f64::INFINITY], [0.0, 1.0]),
        ("leaky_relu", |x| x.leaky_relu(0.5), [f64::NEG_INFINITY, f64::INFINITY], [0.5, 1.0]),
        ("hard_shrink", |x| x.hard_shrink(0.5), [f64::NEG_INFINITY, f64::INFINITY], [1.0, 1.0]),
        ("soft_shrink", |x| x.soft_shrink(0.5), [f64::NEG_INFINITY, f64::INFINITY], [1.0, 1.0]),
        ("sigmoid", Tensor::sigmoid, [0.0, 1.0], [0.0, 0.0]),
        ("tanh", Tensor::tanh, [-1.0, 1.0], [0.0, 0.0]),
    ];
    for (name, f, values, slopes) in table {
        let ends = floats(&[2], &[f64::NEG_INFINITY, f64::INFINITY]);
        let found = run_as(false, &[ends], |x| {
            let y = f(x[0]);
            vec![y, gradients(y.sum(), [x[0]])[0]]
        });
        let found: Vec<Vec<f64>> = found.unwrap().iter().map(|tensor| tensor.to_f64()).collect();
        if !values[0].is_nan() {
            assert_eq!(found[0], values, "{name}");
            assert_eq!(found[1], slopes, "{name}");
        }
    }
    // The gradient of a weight excludes elements that are not multiplied by it.
    let x = floats(&[3], &[2.0, -1.0, 5.0]);
    let prelu = case("prelu", vec![x, floats(&[1], &[0.25])], [], |x| x[0].prelu(x[1]).minimum(3.0));
    let mut far = prelu.inputs.clone();
    far[0].data[2] = f64::INFINITY;
    assert_eq!(prelu.run(&far)[2], prelu.run(&prelu.inputs)[2]);
}

#[test]
fn masked_reductions() {
    let mut cases = Vec::new();
    // The second row is masked entirely, the others in part.
    let mask = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0];
    let hidden: Vec<_> = (0..9).filter(|&i| mask[i] == 1.0).map(|i| (0, i)).collect();
    let reductions: &[(&str, f64, OfRows)] = &[
        ("sum", 0.0, |x| x.sum_axes(-1)),
        ("mean", 0.0, |x| x.mean_axes(-1)),
        ("prod", 1.0, |x| x.prod_axes(-1)),
        ("max", -1e30, |x| x.max_axes(-1)),
        ("min", 1e30, |x| x.min_axes(-1)),
        ("var", 0.0, |x| x.var_axes(-1, 1.0)),
        ("std", 0.0, |x| x.std_axes(-1, 1.0)),
        ("norm 0.5", 0.0, |x| x.norm_axes(-1, 0.5)),
        ("norm 1", 0.0, |x| x.norm_axes(-1, 1.0)),
        ("norm 1.5", 0.0, |x| x.norm_axes(-1, 1.5)),
        ("norm 2", 0.0, |x| x.norm_axes(-1, 2.0)),
        ("norm 3", 0.0, |x| x.norm_axes(-1, 3.0)),
        ("norm inf", 0.0, |x| x.norm_axes(-1, f64::INFINITY)),
        ("normalize", 0.0, |x| x.normalize(-1, 2.0, 1e-12)),
        ("normalize 0.5", 0.0, |x| x.normalize(-1, 0.5, 1e-12)),
        ("cosine_similarity", 0.0, |x| x.cosine_similarity(x.detach().masked_fill(x.is_nan(), 0.0), -1)),
        ("layer_norm", 0.0, |x| x.layer_norm(1.0, 1e-5)),
        ("rms_norm", 0.0, |x| x.rms_norm(1.0, 1e-5)),
        ("cumsum", 0.0, |x| x.cumsum(-1)),
        ("softmax", -1e30, |x| x.softmax(-1)),
        ("log_softmax", -1e30, |x| x.log_softmax(-1).maximum(-100.0)),
        ("logsumexp", -1e30, |x| x.logsumexp_axes(-1)),
    ];
    for &(name, fill, f) in reductions {
        let inputs = vec![drawn(&[3, 3], 5), bools(&[3, 3], &mask)];
        cases.push(case(name, inputs, hidden.clone(), move |x| f(x[0].masked_fill(x[1], fill))));
    }
    // The log-sum-exp of the fully masked row is -inf, so the function excludes this row.
    let inputs = vec![drawn(&[3, 3], 5), bools(&[3, 3], &mask)];
    cases.push(case("logsumexp of nothing", inputs, hidden, |x| {
        let sums = x[0].masked_fill(x[1], f64::NEG_INFINITY).logsumexp_axes(-1);
        sums.eq(f64::NEG_INFINITY).select(0.0, sums)
    }));
    let above = [(0, 1), (0, 2), (0, 5)];
    let below = [(0, 3), (0, 6), (0, 7)];
    let square = || vec![drawn(&[3, 3], 6)];
    cases.push(case("where_causal", square(), above, |x| x[0].where_causal(0.5)));
    cases.push(case("softmax_causal", square(), above, |x| x[0].softmax_causal()));
    cases.push(case("tril", square(), above, |x| x[0].tril(0)));
    cases.push(case("triu", square(), below, |x| x[0].triu(0)));
    cases.push(case("dropout of all", square(), (0..9).map(|i| (0, i)), |x| x[0].dropout(1.0)).training());
    check_all(&cases);
    // Dropout draws its own mask, so find the dropped elements by their gradient of 0.
    let drops = case("dropout", vec![drawn(&[64], 7)], [], |x| x[0].dropout(0.5)).training();
    let kept = drops.run(&drops.inputs)[1].clone();
    let dropped: Vec<_> = (0..64).filter(|&i| kept[i] == 0.0).map(|i| (0, i)).collect();
    assert!((16..48).contains(&dropped.len()));
    let drops = case("dropout", drops.inputs, dropped, |x| x[0].dropout(0.5)).training();
    check_all(&[drops]);
}

#[test]
fn norms_of_zeros_have_gradients_of_zero() {
    for p in [0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, f64::INFINITY] {
        for x in [vec![0.0, 0.0, 0.0], vec![0.0, -2.0, 1.0], vec![-0.0, 0.0, 3.0]] {
            let case = case(format!("norm {p}"), vec![floats(&[3], &x)], [], move |x| x[0].norm(p));
            let found = case.run(&case.inputs);
            for (x, slope) in x.iter().zip(&found[1]) {
                let want = if *x == 0.0 {
                    *slope == 0.0 || p.is_infinite()
                } else {
                    *slope != 0.0 || p.is_infinite()
                };
                assert!(want && slope.is_finite(), "norm {p} of {:?}: {found:?}", case.inputs[0].data);
            }
        }
    }
}

/// Returns queries [2, 4, queries, 2] and keys and values [2, 2, keys, 2]: two query heads share a key head.
fn heads(queries: usize, keys: usize) -> Vec<Value> {
    vec![drawn(&[2, 4, queries, 2], 1), drawn(&[2, 2, keys, 2], 2), drawn(&[2, 2, keys, 2], 3)]
}

/// Returns the elements at position `at` in all batches and heads of an input.
fn position(input: usize, value: &Value, at: usize) -> Vec<(usize, usize)> {
    let (length, depth) = (value.ty.shape[2], value.ty.shape[3]);
    let all = 0..value.data.len();
    all.filter(|i| i / depth % length == at).map(|i| (input, i)).collect()
}

#[test]
fn keys_that_no_query_sees_and_queries_that_see_none() {
    let (queries, keys) = (3, 5);
    let inputs = heads(queries, keys);
    let key = |at: usize| [position(1, &inputs[1], at), position(2, &inputs[2], at)].concat();
    let query = |at: usize| position(0, &inputs[0], at);
    let attend = |x: &[Tensor], options: AttentionOptions| x[0].attention(x[1], x[2], options);
    let mut cases = Vec::new();
    // Check attention without and with a window that hides nothing.
    let lengths = ints(&[2], &[3.0, 3.0]);
    for window in [None, Some(100)] {
        let with = move |mut options: AttentionOptions| {
            if let Some(window) = window {
                options = options.window(window);
            }
            options
        };
        let longer = [inputs.clone(), vec![lengths.clone()]].concat();
        let length = move |x: &[Tensor]| with(AttentionOptions::full().key_length(x[3]));
        let name = |what: &str| format!("{what}, window {window:?}");
        cases.push(case(name("key_length"), longer.clone(), [key(3), key(4)].concat(), move |x| {
            attend(x, length(x))
        }));
        let causal = move |x: &[Tensor]| with(AttentionOptions::causal().key_length(x[3]));
        cases.push(case(name("causal length"), longer, [key(3), key(4)].concat(), move |x| {
            attend(x, causal(x))
        }));
        let more = [key(3), key(4)].concat();
        cases.push(case(name("causal"), inputs.clone(), more, move |x| {
            attend(x, with(AttentionOptions::causal()))
        }));
    }
    // A mask of padding keys, with a row for each sequence; then masks and a bias that exclude a key and a
    // query.
    let padding = bools(&[2, 1, 1, keys], &[1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    let with_mask = [inputs.clone(), vec![padding]].concat();
    cases.push(case("mask of keys", with_mask, [key(2), key(4)].concat(), move |x| {
        attend(x, AttentionOptions::full().mask(x[3]))
    }));
    let rows: Vec<f64> =
        (0..queries * keys).map(|i| f64::from(u8::from(i / keys != 1 && i % keys != 0))).collect();
    let hidden = [key(0), query(1)].concat();
    let mask = bools(&[queries, keys], &rows);
    cases.push(case("mask of pairs", [inputs.clone(), vec![mask]].concat(), hidden.clone(), move |x| {
        attend(x, AttentionOptions::full().mask(x[3]))
    }));
    let bias: Vec<f64> = rows.iter().map(|&seen| if seen == 1.0 { 0.5 } else { f64::NEG_INFINITY }).collect();
    let bias = floats(&[1, 1, queries, keys], &bias);
    cases.push(case("bias", [inputs.clone(), vec![bias]].concat(), hidden.clone(), move |x| {
        attend(x, AttentionOptions::full().bias(x[3].detach()))
    }));
    let each = bools(&[2, 4, queries, keys], &rows.repeat(8));
    cases.push(case("mask of heads", [inputs, vec![each]].concat(), hidden, move |x| {
        attend(x, AttentionOptions::full().mask(x[3]))
    }));
    check_all(&cases);
}

/// Checks that a query whose bias is the lowest number for all keys attends to all keys equally, as in
/// PyTorch.
#[test]
fn a_bias_of_the_lowest_number() {
    let lowest = f64::from(f32::MIN);
    for causal in [false, true] {
        let inputs = [heads(2, 2), vec![floats(&[2, 2], &[0.0, 0.0, lowest, lowest])]].concat();
        let found = run_as(false, &inputs, |x| {
            let options = if causal { AttentionOptions::causal() } else { AttentionOptions::full() };
            let y = x[0].attention(x[1], x[2], options.bias(x[3]));
            [vec![y], gradients(y.sum(), [x[0], x[1], x[2]]).to_vec()].concat()
        });
        let found: Vec<Vec<f64>> = found.unwrap().iter().map(|tensor| tensor.to_f64()).collect();
        assert!(found.iter().flatten().all(|x| x.is_finite()), "{found:?}");
        for (row, values) in (0..8).map(|head| (head, &inputs[2].data[head / 2 * 4..][..4])) {
            for column in 0..2 {
                let want = (values[column] + values[column + 2]) / 2.0;
                let got = found[0][row * 4 + 2 + column];
                assert!((got - want).abs() < 1e-12, "{got}, not {want}");
            }
        }
    }
    // All keys have the lowest score, so only the mask excludes the last key.
    let inputs = [heads(2, 3), vec![floats(&[2, 3], &[lowest; 6]), bools(&[3], &[1.0, 1.0, 0.0])]].concat();
    let found = run_as(false, &inputs, |x| {
        vec![x[0].attention(x[1], x[2], AttentionOptions::full().bias(x[3]).mask(x[4]))]
    });
    let got = found.unwrap()[0].to_f64();
    let want = (inputs[2].data[0] + inputs[2].data[2]) / 2.0;
    assert!((got[0] - want).abs() < 1e-12, "{got:?}");
    // The first row of a causal softmax has only its diagonal element, which is the lowest number.
    let rows = floats(&[2, 2], &[lowest, 0.0, 0.0, 0.0]);
    let found = run_as(false, &[rows], |x| vec![x[0].softmax_causal()]).unwrap();
    assert_eq!(found[0].to_f64(), [1.0, 0.0, 0.5, 0.5]);
}

#[test]
fn times_and_labels_past_the_end() {
    let (times, batch, classes) = (4, 2, 3);
    let logits = drawn(&[times, batch, classes], 8);
    let labels = ints(&[batch, 2], &[1.0, 2.0, 2.0, 0.0]);
    let inputs = vec![logits, labels, ints(&[batch], &[4.0, 2.0]), ints(&[batch], &[2.0, 1.0])];
    // Sequence 1 ends after two times and one label.
    let past: Vec<_> = [2, 3]
        .into_iter()
        .flat_map(|t| (0..classes).map(move |c| (0, (t * batch + 1) * classes + c)))
        .collect();
    let loss = |x: &[Tensor], options| x[0].ctc_loss(x[1], x[2], x[3], options);
    let cases = [
        case("ctc", inputs.clone(), past.clone(), move |x| loss(x, CtcOptions::new())),
        case("ctc labels", inputs.clone(), [(1, 3)], move |x| loss(x, CtcOptions::new())).only(&[7.0, -1.0]),
        case("ctc zero_infinity", inputs, past, move |x| loss(x, CtcOptions::new().zero_infinity())),
    ];
    check_all(&cases);
}
