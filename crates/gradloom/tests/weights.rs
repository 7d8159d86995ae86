//! Tests files of weights and checkpoints: gradloom's, PyTorch's, sharded, and damaged ones.

use gradloom::error::ErrorKind;
use gradloom::files::{Entries, Load, Source, Weights};
use gradloom::prelude::*;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[derive(Module)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

impl Net {
    fn new() -> Self {
        Self { first: Linear::new(3, 5), norm: BatchNorm::new(5), last: Linear::no_bias(5, 2) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        self.last.forward(self.norm.forward(self.first.forward(x)).relu())
    }
}

fn session(seed: u64) -> Session<Net> {
    Session::new(Net::new(), &Device::cpu(), seed).unwrap()
}

const X: [f32; 6] = [0.5, -1.0, 2.0, 0.1, 0.0, -0.7];
const Y: [f32; 4] = [1.0, 0.0, -1.0, 0.5];

fn outputs(session: &Session<Net>) -> Vec<f32> {
    session.infer([f32("x", [2, 3])], |net, [x]| net.forward(x)).unwrap().run([&X]).unwrap()
}

fn names(session: &Session<Net>) -> Vec<String> {
    let states = session.params().states().map(|used| used.name.clone());
    session.params().iter().map(|used| used.name.clone()).chain(states).collect()
}

/// Writes a file with these tensors, as another program would.
fn foreign(path: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap()));
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn bytes(floats: impl IntoIterator<Item = f32>) -> Vec<u8> {
    floats.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn folder() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    (folder, move |name: &str| path.join(name))
}

#[test]
fn weights_come_back_before_and_after_a_program_is_compiled() {
    let (_folder, file) = folder();
    let (one, other) = (session(1), session(2));
    one.set("norm.running_mean", &[0.1f32, 0.2, 0.3, 0.4, 0.5]).unwrap();
    one.save(file("net.safetensors")).unwrap();
    assert_ne!(one.get("first.weight").unwrap(), other.get("first.weight").unwrap());
    other.load(file("net.safetensors")).unwrap();
    for name in names(&one) {
        assert_eq!(one.get(&name).unwrap(), other.get(&name).unwrap(), "{name}");
    }
    assert_eq!(outputs(&one), outputs(&other));
    // Load into a session that already has a compiled program.
    let third = session(3);
    let before = outputs(&third);
    third.load(file("net.safetensors")).unwrap();
    assert_ne!(before, outputs(&third));
    assert_eq!(outputs(&one), outputs(&third));
    // The same contents result in the same file.
    third.save(file("again.safetensors")).unwrap();
    assert_eq!(fs::read(file("net.safetensors")).unwrap(), fs::read(file("again.safetensors")).unwrap());
    let memory = Weights::from_bytes(fs::read(file("again.safetensors")).unwrap()).unwrap();
    let report = session(4).load_with(&memory, &Load::strict()).unwrap();
    assert_eq!(report.to_string(), "7 taken");
    assert_eq!(report.taken, names(&one));
}

#[test]
fn elements_are_set_by_name() {
    let session = session(1);
    session.set("last.weight", &[1.0f32; 10]).unwrap();
    assert_eq!(session.get("last.weight").unwrap(), [1.0; 10]);
    let wrong = session.set("last.weight", &[1.0f32; 9]).unwrap_err();
    assert_eq!(wrong.message(), "`last.weight` is f32[5, 2] with 10 elements, got 9 of f32");
    assert!(session.set("last.weight", &[1i32; 10]).unwrap_err().message().ends_with("got 10 of i32"));
    let unknown = session.get("last.weigth").unwrap_err();
    assert!(unknown.remedies().any(|help| help == "did you mean `last.weight`?"), "{unknown}");
}

/// PyTorch writes the weights of `nn.Linear` as `[out, in]`, and a counter for batch normalization.
#[test]
fn a_file_of_pytorch_is_read_and_written() {
    let (_folder, file) = folder();
    let ours = session(1);
    ours.set("first.weight", &std::array::from_fn::<f32, 15, _>(|i| i as f32)).unwrap();
    ours.save_for_torch(file("torch.safetensors")).unwrap();
    let written = Weights::open(file("torch.safetensors")).unwrap();
    let weight = written.get("first.weight").unwrap();
    assert_eq!(weight.to_string(), "f32[5, 3]");
    let by_columns: Vec<f32> = (0..5).flat_map(|out| (0..3).map(move |i| (i * 5 + out) as f32)).collect();
    assert_eq!(weight.to_f32().unwrap(), by_columns);

    let tensors: Vec<_> =
        written.iter().map(|(name, found)| (name, found.shape, found.bytes.to_vec())).collect();
    let mut tensors: Vec<_> =
        tensors.iter().map(|(name, shape, bytes)| (*name, Dtype::F32, *shape, bytes.clone())).collect();
    tensors.push(("norm.num_batches_tracked", Dtype::I64, &[], 7i64.to_le_bytes().to_vec()));
    foreign(&file("foreign.safetensors"), &tensors);
    let foreign = Weights::open(file("foreign.safetensors")).unwrap();
    let theirs = session(2);
    let error = theirs.load_with(&foreign, &Load::strict()).unwrap_err();
    assert!(error.message().contains("first.weight is f32[5, 3] and not f32[3, 5]"), "{error}");
    assert!(error.message().contains("unknown: norm.num_batches_tracked"), "{error}");
    let report = theirs.load_with(&foreign, &Load::strict().torch()).unwrap();
    assert_eq!(report.taken.len(), 7);
    assert_eq!(outputs(&ours), outputs(&theirs));

    fs::write(file("model.pt"), [&b"PK\x03\x04"[..], &[7; 60]].concat()).unwrap();
    let error = Weights::open(file("model.pt")).unwrap_err();
    assert!(error.message().contains("the file is a zip archive, and no safetensors file"), "{error}");
}

/// The shape of a square matrix does not reveal its layout.
#[test]
fn the_layout_that_a_file_says_must_be_the_one_that_is_asked_for() {
    let (_folder, file) = folder();
    let session = Session::new(Linear::new(3, 3), &Device::cpu(), 1).unwrap();
    session.save(file("ours.safetensors")).unwrap();
    session.save_for_torch(file("torch.safetensors")).unwrap();
    let error = session.load(file("torch.safetensors")).unwrap_err();
    assert!(error.message().ends_with("the weights of linear layers have PyTorch's layout"), "{error}");
    let ours = Weights::open(file("ours.safetensors")).unwrap();
    let error = session.load_with(&ours, &Load::strict().torch()).unwrap_err();
    assert!(error.message().ends_with("the weights of linear layers have gradloom's layout"), "{error}");
    session.load(file("ours.safetensors")).unwrap();
    let none = session.load_with(&ours, &Load::strict().only("encodr.*")).unwrap_err();
    assert_eq!(none.message(), "no parameter or state is called encodr.*");
}

/// PyTorch numbers the layers of `nn.LSTM` and `nn.GRU`.
#[test]
fn recurrent_layers_have_their_names_in_pytorch() {
    let (_folder, file) = folder();
    let session = |seed| Session::new(Lstm::new(3, 2), &Device::cpu(), seed).unwrap();
    let ours = session(1);
    ours.save_for_torch(file("lstm.safetensors")).unwrap();
    let written = Weights::open(file("lstm.safetensors")).unwrap();
    let names: Vec<_> = written.iter().map(|(name, tensor)| format!("{name} {tensor}")).collect();
    let expected =
        ["bias_hh_l0 f32[8]", "bias_ih_l0 f32[8]", "weight_hh_l0 f32[8, 2]", "weight_ih_l0 f32[8, 3]"];
    assert_eq!(names, expected);
    let theirs = session(2);
    let _ = theirs.load_with(&written, &Load::strict().torch()).unwrap();
    for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
        assert_eq!(ours.get(name).unwrap(), theirs.get(name).unwrap(), "{name}");
    }
}

#[test]
fn types_are_converted_and_what_does_not_fit_is_said() {
    let (_folder, file) = folder();
    let halves =
        |floats: [f32; 5]| floats.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    let bfloats =
        |floats: [f32; 5]| floats.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    let doubles = |floats: [f64; 5]| floats.iter().flat_map(|x| x.to_le_bytes()).collect();
    foreign(
        &file("x.safetensors"),
        &[
            ("first.bias", Dtype::F16, &[5], halves([0.5, -2.0, 65504.0, f32::INFINITY, 0.1])),
            ("norm.weight", Dtype::BF16, &[5], bfloats([0.5, -2.0, 1e30, 0.0, 0.1])),
            ("norm.bias", Dtype::F64, &[5], doubles([0.1, 1e300, -0.0, 3.0, 4.0])),
            ("norm.running_mean", Dtype::I32, &[5], vec![0; 20]),
            ("norm.running_var", Dtype::F8_E4M3, &[5], vec![0; 5]),
            ("last.weight", Dtype::F32, &[2, 5], vec![0; 40]),
        ],
    );
    let session = session(1);
    let before = outputs(&session);
    let weights = Weights::open(file("x.safetensors")).unwrap();
    assert!(session.load_with(&weights, &Load::strict()).is_err());
    assert_eq!(before, outputs(&session), "nothing changed");
    let report = session.load_with(&weights, &Load::partial()).unwrap();
    assert_eq!(report.taken, ["first.bias", "norm.weight", "norm.bias"]);
    assert_eq!(report.missing, ["first.weight"]);
    let mismatched: Vec<&str> = report.mismatched.iter().map(|(name, ..)| &name[..]).collect();
    assert_eq!(mismatched, ["last.weight", "norm.running_mean", "norm.running_var"]);
    assert_eq!(report.skipped, [""; 0]);
    assert_eq!(
        report.to_string(),
        "3 taken; missing: first.weight; mis-shaped: last.weight is f32[2, 5] and not f32[5, 2], \
         norm.running_mean is i32[5] and not f32[5], norm.running_var is f8_e4m3[5] and not f32[5]"
    );
    let close = half::f16::from_f32(0.1).to_f32();
    assert_eq!(session.get("first.bias").unwrap(), [0.5, -2.0, 65504.0, f32::INFINITY, close]);
    assert_eq!(session.get("norm.bias").unwrap(), [0.1, f32::INFINITY, -0.0, 3.0, 4.0]);
    assert!(weights.get("norm.running_var").unwrap().to_f32().is_err());
}

#[test]
fn other_names_prefixes_and_parts() {
    let (_folder, file) = folder();
    let transposed = bytes((0..15).map(|i| i as f32));
    foreign(
        &file("x.safetensors"),
        &[
            ("model.fc1.w", Dtype::F32, &[5, 3], transposed),
            ("model.fc1.b", Dtype::F32, &[5], bytes([1.0; 5])),
            ("model.head.w", Dtype::F32, &[7, 5], vec![0; 140]),
            ("optimizer.step", Dtype::I64, &[], vec![0; 8]),
        ],
    );
    let weights = Weights::open(file("x.safetensors")).unwrap();
    let session = session(1);
    let names = |name: &str| match name {
        "first.weight" => Source::new("fc1.w").transposed(),
        "first.bias" => "fc1.b".into(),
        other => other.into(),
    };
    let load = || Load::strict().prefix("model.").from(names);
    let error = session.load_with(&weights, &load()).unwrap_err();
    let expected = "(missing: model.norm.weight, model.norm.bias, model.last.weight and 2 more; unknown: \
                    model.head.w)";
    assert!(error.message().ends_with(expected), "{error}");
    let report = session.load_with(&weights, &load().only("first.*")).unwrap();
    assert_eq!(report.to_string(), "2 taken");
    let rows: Vec<f32> = (0..3).flat_map(|i| (0..5).map(move |out| (out * 3 + i) as f32)).collect();
    assert_eq!(session.get("first.weight").unwrap(), rows);
}

#[test]
fn tied_parameters_are_found_under_either_name() {
    #[derive(Module)]
    struct Tied {
        table: Param,
        head: Param,
    }
    let (_folder, file) = folder();
    let table = Param::new([2, 2], Init::Zeros);
    let session = Session::new(Tied { head: table.tie(), table }, &Device::cpu(), 0).unwrap();
    for names in [&["head"][..], &["table"], &["head", "table"]] {
        let tensors: Vec<_> =
            names.iter().map(|name| (*name, Dtype::F32, &[2usize, 2][..], bytes([1.0; 4]))).collect();
        foreign(&file("x.safetensors"), &tensors);
        session.set("table", &[0.0f32; 4]).unwrap();
        session.load(file("x.safetensors")).unwrap();
        assert_eq!(session.get("table").unwrap(), [1.0; 4]);
    }
}

#[test]
fn an_index_joins_files() {
    let (_folder, file) = folder();
    let ours = session(1);
    ours.save(file("whole")).unwrap();
    let whole = Weights::open(file("whole")).unwrap();
    let mut map = BTreeMap::new();
    let all: Vec<_> = whole.iter().map(|(name, found)| (name, found.shape, found.bytes.to_vec())).collect();
    for (i, part) in all.chunks(3).enumerate() {
        let name = format!("model-{i}.safetensors");
        let tensors: Vec<_> =
            part.iter().map(|(name, shape, bytes)| (*name, Dtype::F32, *shape, bytes.clone())).collect();
        foreign(&file(&name), &tensors);
        map.extend(part.iter().map(|(tensor, ..)| (tensor.to_string(), name.clone())));
    }
    let index = |map: &BTreeMap<String, String>| {
        let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{k:?}:{v:?}")).collect();
        let text = format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{{{}}}}}"#, pairs.join(","));
        fs::write(file("model.safetensors.index.json"), text).unwrap();
    };
    index(&map);
    for path in [file(""), file("model.safetensors.index.json")] {
        let theirs = session(2);
        theirs.load(path).unwrap();
        assert_eq!(outputs(&ours), outputs(&theirs));
    }
    let failure = || Weights::open(file("model.safetensors.index.json")).unwrap_err();
    let lost = map.insert("first.bias".to_string(), "model-2.safetensors".to_string()).unwrap();
    index(&map);
    // Loading fails if the model needs the missing tensor; others may be missing.
    let missing = session(2).load(file("model.safetensors.index.json")).unwrap_err();
    assert!(missing.message().contains("the file has no `first.bias`"), "{missing}");
    map.insert("first.bias".to_string(), format!("../{lost}"));
    index(&map);
    assert!(
        failure().message().contains("not the name of a file in the folder of the index"),
        "{}",
        failure()
    );
    fs::write(file("model.safetensors.index.json"), "{}").unwrap();
    assert!(failure().message().ends_with("it has no `weight_map`"), "{}", failure());
    fs::remove_file(file("model.safetensors.index.json")).unwrap();
    let several = Weights::open(file("")).unwrap_err();
    assert!(several.message().ends_with("the folder has 3 files of weights"), "{several}");
}

fn trainer(seed: u64) -> Train<Net, 2> {
    Trainer::new(Net::new())
        .seed(seed)
        .inputs([f32("x", [2, 3]), f32("y", [2, 2])])
        .loss(|net, [x, y]| (net.forward(x).dropout(0.3) - y).square().mean())
        .optimizer(AdamW::new(Schedule::Cosine { from: 0.1, to: 0.0, steps: 20 }))
        .compile(&Device::cpu())
        .unwrap()
}

fn losses(train: &mut Train<Net, 2>, steps: usize) -> Vec<u32> {
    (0..steps).map(|_| train.step((&X, &Y)).unwrap().loss().unwrap().to_bits()).collect()
}

#[test]
fn training_goes_on_from_a_checkpoint_with_the_same_bits() {
    let (_folder, file) = folder();
    let mut whole = trainer(7);
    losses(&mut whole, 5);
    whole.set_hyperparameter("beta1", 0.8).unwrap();
    let entries: Entries = [("epoch".to_string(), "3".to_string())].into();
    whole.save_checkpoint(file("c.safetensors"), &entries).unwrap();
    let rest = losses(&mut whole, 5);
    // A new process has another seed until it loads the checkpoint.
    let mut resumed = trainer(0);
    losses(&mut resumed, 2);
    let restored = resumed.load_checkpoint(file("c.safetensors")).unwrap();
    assert_eq!((restored.attempted_steps, &restored.entries, restored.was_scheduled), (5, &entries, false));
    assert_eq!((resumed.attempted_steps(), resumed.applied_steps().unwrap(), resumed.seed()), (5, 5, 7));
    assert_eq!(losses(&mut resumed, 5), rest);
    // A rate or a schedule that was set replaces the optimizer's schedule.
    resumed.set_lr(0.01);
    resumed.save_checkpoint(file("c.safetensors"), &Entries::new()).unwrap();
    let next = losses(&mut resumed, 3);
    resumed.set_schedule(Schedule::Linear { from: 1.0, to: 0.0, steps: 9 });
    resumed.save_checkpoint(file("d.safetensors"), &Entries::new()).unwrap();
    let mut third = trainer(1);
    assert!(!third.load_checkpoint(file("d.safetensors")).unwrap().was_scheduled);
    assert_eq!(third.lr(), resumed.lr());
    let scheduled = losses(&mut resumed, 3);
    assert_eq!(losses(&mut third, 3), scheduled);
    // For a checkpoint of an earlier version or of the npm package, only the existence of a schedule is
    // reported.
    let mut notes = resumed.notes();
    notes.remove("gradloom.schedule");
    third.load_notes(&notes).unwrap();
    let own = Schedule::Cosine { from: 0.1, to: 0.0, steps: 20 };
    assert_eq!(third.lr(), own.at(third.attempted_steps()));
    third.load_checkpoint(file("c.safetensors")).unwrap();
    assert_eq!(losses(&mut third, 3), next);
    // Weights can also be loaded from a checkpoint.
    let inference = session(0);
    inference.load(file("c.safetensors")).unwrap();
    assert_eq!(
        Weights::open(file("c.safetensors")).unwrap().get("first.bias").unwrap().to_f32().unwrap(),
        inference.get("first.bias").unwrap()
    );
}

#[test]
fn a_checkpoint_is_taken_whole_or_not_at_all() {
    let (_folder, file) = folder();
    let mut train = trainer(7);
    losses(&mut train, 2);
    train.save_checkpoint(file("c.safetensors"), &Entries::new()).unwrap();
    let before: Vec<_> = train.store().read_all().unwrap().into_iter().map(|(_, bytes)| bytes).collect();
    let sound = fs::read(file("c.safetensors")).unwrap();
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    session(1).save(file("weights.safetensors")).unwrap();
    fs::write(file("damaged.safetensors"), damaged).unwrap();
    fs::write(file("short.safetensors"), &sound[..sound.len() / 2]).unwrap();
    for name in ["weights", "damaged", "short", "none"] {
        let error = train.load_checkpoint(file(&format!("{name}.safetensors"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File, "{name}: {error}");
        let after: Vec<_> = train.store().read_all().unwrap().into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!((train.attempted_steps(), &after), (2, &before));
    }
    for name in ["gradloom.seed", "gradloom.best", "gradloom.number.x"] {
        let reserved: Entries = [(name.to_string(), "1".to_string())].into();
        assert!(train.save_checkpoint(file("c.safetensors"), &reserved).is_err(), "{name}");
    }
    assert_eq!(fs::read(file("c.safetensors")).unwrap(), sound, "the old file stays");
    // Another optimizer has other states.
    let mut other = Trainer::new(Net::new())
        .inputs([f32("x", [2, 3])])
        .loss(|net, [x]| net.forward(x).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let error = other.load_checkpoint(file("c.safetensors")).unwrap_err();
    assert!(error.message().contains("c.safetensors: the file is of another model (unknown: "), "{error}");
}

#[global_allocator]
static ALLOCATOR: gradloom_testing::memory::Counting = gradloom_testing::memory::Counting;

/// Loading files with changed bytes fails or succeeds correctly, and never allocates more than the file's
/// size.
#[test]
fn mutated_files() {
    let (_folder, file) = folder();
    let ours = session(1);
    ours.save(file("sound")).unwrap();
    let whole = Weights::open(file("sound")).unwrap();
    let tensors: Vec<_> =
        whole.iter().map(|(name, found)| (name, Dtype::F32, found.shape, found.bytes.to_vec())).collect();
    foreign(&file("foreign"), &tensors);
    let mut random = gradloom_testing::Random(11);
    let (mut loaded, mut refused) = (0, 0);
    let target = session(2);
    for name in ["sound", "foreign"] {
        let sound = fs::read(file(name)).unwrap();
        let header = 8 + u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
        for round in 0..5_000 {
            let reach = if round % 2 == 0 { header } else { sound.len() };
            let bytes = gradloom_testing::mutate::mutated(&sound, reach, &mut random);
            let length = bytes.len();
            let (result, taken) = gradloom_testing::memory::measured(|| {
                Weights::from_bytes(bytes).and_then(|weights| target.load_with(&weights, &Load::strict()))
            });
            assert!(taken.largest <= (4 * length).max(4 << 10), "{taken:?} for {length} bytes");
            match result {
                Ok(_) => loaded += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::File, "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(loaded > 100 && refused > 5_000, "{loaded} loaded, {refused} refused");
}
