//! Tests the inspection of a user's program: its stages, plan and page, and a tensor during tracing.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

use gradloom::CpuDevice as _;
use gradloom::ir::{CustomOp, Slice, SliceMut, Type, TypeError};
use gradloom::nn::{LayerNorm, Linear};
use gradloom::plan::Region;
use gradloom::reference::HostTensor;
use gradloom::runtime::pipeline::Target;
use gradloom::runtime::{Cut, Limits, Precision};
use gradloom::{AdamW, Device, Module, Session, Tensor, Train, Trainer, checkpoint, f32, i32};
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Module)]
struct Net {
    hidden: Linear,
    norm: LayerNorm,
    out: Linear,
}

fn train(device: &Device) -> Train<Net, 2> {
    let net = Net { hidden: Linear::new(6, 8), norm: LayerNorm::new(8), out: Linear::new(8, 3) };
    Trainer::new(net)
        .inputs([f32("x", [4, 6]), i32("class", [4])])
        .loss(|net, [x, class]| {
            net.out.forward(net.norm.forward(net.hidden.forward(x)).gelu()).cross_entropy(class)
        })
        .optimizer(AdamW::new(1e-3))
        .compile(device)
        .unwrap()
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"id="plan">"#).expect("the plan is inside");
    parse(rest.split_once("</script>").expect("its element ends").0)
}

fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

#[test]
fn the_page_has_every_launch_and_every_buffer() {
    for device in [Device::cpu(), Device::null()] {
        let train = train(&device);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.html");
        train.inspect().titled("a <net>").write_html(&path).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        assert_eq!(page, train.inspect().titled("a <net>").to_html());
        assert!(page.contains("<title>a &lt;net></title>"));
        let (data, inspection) = (data_of(&page), train.inspect());
        let plan = inspection.plan();
        assert!(plan.launches().map(|launch| launch.name()).eq(texts(&data["launches"], "name")));
        let labels = train.plan().buffers.iter().map(|buffer| plan.label(buffer));
        assert!(labels.eq(texts(&data["buffers"], "name")));
        assert_eq!(data, parse(&plan.to_json()));
    }
}

#[test]
fn the_numbers_are_those_of_the_plan() {
    let train = train(&Device::cpu());
    let (json, totals) = (parse(&train.inspect().to_json()), train.plan().totals);
    assert_eq!(json["launches"], train.plan().launches.len());
    assert_eq!(json["unique_kernels"], train.program().unique_kernels());
    for (key, bytes) in [
        ("store_bytes", totals.store),
        ("constant_bytes", totals.constants),
        ("step_bytes", totals.step),
        ("workspace_bytes", totals.workspace),
        ("planned_peak_bytes", totals.peak()),
    ] {
        assert_eq!(json[key], bytes, "{key}");
    }
    assert_eq!(texts(&json["stages"], "stage"), ["trace", "grad", "optim", "passes"]);
    let ops = train.stages().passes.entry_ops().count();
    assert_eq!(json["stages"][3]["ops"], ops);
    assert_eq!(
        json["operations"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        ops as u64
    );

    let text = train.inspect().to_string();
    let launches = format!("\nplan: {} launches of ", train.plan().launches.len());
    assert!(text.contains(&launches) && text.contains(&format!("\npasses   {ops:>5} ")), "{text}");
    assert_eq!(train.inspect().plan().to_string(), train.plan().report(&train.stages().passes));
}

#[test]
fn a_forward_program_is_inspected_too() {
    let session = Session::new(Linear::new(6, 3), &Device::cpu(), 0).unwrap();
    let infer = session.infer([f32("x", [4, 6])], |layer, [x]| layer.forward(x).softmax(-1)).unwrap();
    let data = data_of(&infer.inspect().to_html());
    let names: BTreeSet<&str> = texts(&data["buffers"], "name").into_iter().collect();
    assert!(["x", "weight", "bias"].iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(parse(&infer.inspect().to_json())["launches"], infer.plan().launches.len());
    assert!(infer.inspect().to_string().contains("\noperations after the passes\n"));
}

/// Op that doubles its operand, on the host only.
#[derive(Debug)]
struct Twice;

impl CustomOp for Twice {
    fn name(&self) -> &str {
        "twice"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let x = &operands[0];
        Ok(vec![HostTensor::from_f64(x.ty.clone(), x.to_f64().into_iter().map(|x| 2.0 * x))])
    }
    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("it is not run here".into())
    }
}

#[test]
fn the_graphs_of_a_program_for_cuda_are_told_with_the_reason_of_each_cut() {
    let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
    let session = Session::new([Linear::new(6, 6), Linear::new(6, 3)], &device, 0).unwrap();
    let infer = session.infer([f32("x", [4, 6]), f32("y", [4, 6])], |[first, second], [x, y]| {
        // Two branches that join on the host.
        let twice = Tensor::custom(Twice, [first.forward(x.cumsum(0)) * y.exp().cumsum(1)])[0];
        second.forward(twice)
    });
    let infer = infer.unwrap();
    let inspection = infer.inspect();
    let replay = inspection.replay().unwrap();
    let hosted = inspection.plan().launches().position(|launch| launch.name().starts_with("custom"));
    let reason = "`twice` has no GPU kernel, and runs on the host";
    assert_eq!(replay.cuts, [Cut { launch: hosted.unwrap(), reason: reason.into() }]);
    assert_eq!((replay.segments.len(), replay.covered()), (2, infer.plan().launches.len() - 1));
    let [before, behind] = replay.shapes().try_into().unwrap();
    assert!(before.branches >= 2 && before.depth < before.nodes, "{before:?}");
    assert_eq!(before.nodes + behind.nodes, replay.nodes.len());

    let json = &parse(&inspection.to_json())["replay"];
    assert_eq!(
        (&json["nodes"], &json["covered_launches"]),
        (&replay.nodes.len().into(), &replay.covered().into())
    );
    assert_eq!(
        (&json["segments"][0]["cut"]["reason"], &json["segments"][1]["cut"]),
        (&reason.into(), &Value::Null)
    );
    let text = inspection.to_string();
    let (covered, all) = (replay.covered(), infer.plan().launches.len());
    assert!(text.contains(&format!("replay: {covered} of {all} launches in 2 graphs\n")), "{text}");
    assert!(text.contains(&format!("  launch {}: {reason}\n", hosted.unwrap())), "{text}");

    // Kernels exist for every launch of the step except those on the host.
    let kernels = inspection.kernels().unwrap();
    assert!(
        kernels.iter().all(|kernel| kernel.launch != hosted.unwrap() && kernel.source.contains("__global__"))
    );
    // Other devices replay no graphs, and have other sources.
    let session = Session::new(Linear::new(6, 3), &Device::cpu(), 0).unwrap();
    let infer = session.infer([f32("x", [4, 6])], |layer, [x]| layer.forward(x).tanh()).unwrap();
    assert!(infer.inspect().replay().is_none());
    assert_eq!(parse(&infer.inspect().to_json())["replay"], Value::Null);
    assert!(infer.inspect().kernels().unwrap().iter().all(|kernel| kernel.source.contains("tanh")));
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_with_its_path() {
    let error = train(&Device::null()).inspect().write_html("no/such/folder/plan.html").unwrap_err();
    assert!(error.message().starts_with("no/such/folder/plan.html: cannot be written: "), "{error}");
}

#[test]
fn a_tensor_says_what_it_is_while_it_is_traced() {
    let session = Session::new(Linear::new(6, 3), &Device::null(), 0).unwrap();
    let mut left = None;
    let infer = session.infer([f32("x", [4, 6])], |layer, [x]| {
        assert_eq!(format!("{x:?}"), r#"Tensor(f32[4, 6], %0 = input "x")"#);
        let weight = layer.weight.tensor();
        assert_eq!(format!("{weight:?}"), r#"Tensor(f32[6, 3], %1 = param "weight")"#);
        let (product, line) = (x.matmul(weight), line!());
        let expected = format!("Tensor(f32[4, 3], %2 = dot, {}:{line})", file!());
        assert_eq!(format!("{product:?}"), expected);
        left = Some(product);
        checkpoint(|| {
            let inner = product.exp();
            assert!(format!("{inner:?}").starts_with("Tensor(f32[4, 3], %"), "{inner:?}");
            assert_eq!(format!("{product:?}"), expected);
            inner
        })
    });
    infer.unwrap();
    let left = left.unwrap();
    assert_eq!(format!("{left:?}"), "Tensor(%2 of a trace that is closed)");
}

#[test]
fn a_step_is_verified_without_being_made() {
    let train = train(&Device::cpu());
    let (x, class) = (std::array::from_fn::<f32, 24, _>(|i| (i as f32).sin()), [0i32, 1, 2, 1]);
    let before = train.store().read("hidden.weight").unwrap();
    let verification = train.verify((&x, &class)).unwrap();
    verification.check().unwrap();
    let groups: Vec<&str> = verification.device.iter().map(|deviation| deviation.group).collect();
    assert_eq!(groups, ["output", "gradient", "squared gradient", "parameter", "state"]);
    assert!(verification.to_string().contains("device against float64 (tolerance 1e-5)"), "{verification}");
    assert_eq!((train.attempted_steps(), train.store().read("hidden.weight").unwrap()), (0, before));
}

#[test]
fn kernels_in_a_row_that_read_weights_start_before_those_before_them_are_done() {
    let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
    let layers: Vec<Linear> = (0..6).map(|_| Linear::new(256, 256)).collect();
    let session = Session::new(layers, &device, 0).unwrap();
    let one = |layers: &Vec<Linear>, x: Tensor| layers.iter().fold(x, |x, layer| layer.forward(x).tanh());
    let row = session.infer([f32("x", [1, 256])], |layers, [x]| one(layers, x)).unwrap();
    let inspection = row.inspect();
    let replay = inspection.replay().unwrap();
    // Weights, biases and inputs are available early, the results of layers are not. The first product waits
    // for the kernel that copies the inputs.
    assert_eq!((replay.shapes()[0].early, replay.covered()), (5, 6), "{replay}");
    assert!(replay.to_string().contains("; 5 may start before those before them are done"), "{replay}");
    let edges = replay.edges(&replay.segments[0]);
    assert_eq!(replay.early(&replay.segments[0], &edges)[..3], [false, false, true]);
    // The store and constants do not change until the results have been copied.
    let phase = replay.nodes.iter().skip(1).take_while(|node| node.unit.is_some());
    assert!(phase.flat_map(|node| &node.touches.writes).all(|(memory, _)| *memory >= Region::Step as usize));

    // No kernel starts early if kernels run concurrently, because a waiting kernel would occupy resources
    // that another one needs.
    let all = session
        .infer([f32("x", [1, 256])], |layers, [x]| {
            layers.iter().map(|layer| layer.forward(x).cumsum(1)).reduce(|a, b| a + b).unwrap()
        })
        .unwrap();
    assert_eq!(all.inspect().replay().unwrap().shapes()[0].early, 0);
}
