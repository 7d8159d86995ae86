//! Tests results that do not fit in the host's memory: they cause an error before anything is allocated or
//! run, and never abort the process.

use crate::{devices, graph};
use gradloom_core::error::ErrorKind;
use gradloom_core::nn::Linear;
use gradloom_core::optim::Sgd;
use gradloom_core::trace::{Tensor, f32};
use gradloom_cpu::CpuDevice as _;
use gradloom_runtime::{Device, Fault, Session, Trainer, run_once};
use std::process::Command;

/// One element, broadcast to 2^28: 4 bytes in the plan, and 1 GiB in the copy.
const WIDE: usize = 1 << 28;

fn wide(x: Tensor) -> Tensor {
    x.broadcast_to([WIDE])
}

#[test]
fn copies_of_results_count_as_memory() {
    let (device, faults) = Device::cpu_with_threads(1).unwrap().with_faults();
    let session = Session::new((), &device, 0).unwrap();
    let compile = || session.infer([f32("x", [1])], |_, [x]| wide(x * 2.0));
    faults.limit_memory(4 * WIDE as u64);
    let before = faults.count(Fault::Allocation);
    let error = compile().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    let text = error.to_string();
    assert!(text.contains("of memory, the limit is 1073741824 bytes (1.1 GB)"), "{text}");
    assert!(text.contains("the output `result.0`, f32[268435456], 1.1 GB"), "{text}");
    assert_eq!(faults.count(Fault::Allocation), before, "it was refused before anything was allocated");
    // The program is accepted if there is room for the plan in addition to the copy.
    faults.limit_memory(4 * WIDE as u64 + (1 << 20));
    compile().unwrap();
}

#[test]
fn outputs_of_a_training_step_count_too() {
    let (device, faults) = Device::cpu_with_threads(1).unwrap().with_faults();
    let trainer = || {
        Trainer::new(Linear::new(1, 1))
            .inputs([f32("x", [1, 1])])
            .loss(|layer, [x]| {
                let y = layer.forward(x);
                y.reshape([1]).broadcast_to([1 << 20]).capture("wide");
                y.sum()
            })
            .optimizer(Sgd::new(0.1))
    };
    faults.limit_memory(4 << 20);
    let error = trainer().compile(&device).unwrap_err();
    assert!(error.to_string().contains("the output `wide`, f32[1048576], 4.2 MB"), "{error}");
    faults.limit_memory(8 << 20);
    let mut train = trainer().compile(&device).unwrap();
    let step = train.step([&[1.0]]).unwrap();
    assert_eq!(step.get("wide").unwrap().len(), 1 << 20);
}

/// Results have the same values when they are copied a second time.
#[test]
fn results_of_every_dtype() {
    for device in devices() {
        let session = Session::new((), &device, 0).unwrap();
        let mut infer = session
            .infer([f32("x", [2, 3])], |_, [x]| {
                x.sum().capture("sum");
                let integers = x.cast(gradloom_core::ir::DType::I32);
                (x.transpose(0, 1), integers, x.gt(2.5), x.slice(1, 1..2).broadcast_to([2, 2]))
            })
            .unwrap();
        for _ in 0..2 {
            let (transposed, integers, greater, repeated) =
                infer.run([&[0.5, 1.5, 2.5, 3.5, -4.5, 5.5]]).unwrap();
            assert_eq!(transposed, [0.5, 3.5, 1.5, -4.5, 2.5, 5.5]);
            assert_eq!(integers, [0.0, 1.0, 2.0, 3.0, -4.0, 5.0]);
            assert_eq!(greater, [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
            assert_eq!(repeated, [1.5, 1.5, -4.5, -4.5]);
            // A capture can be read any number of times.
            assert_eq!((infer.get("sum").unwrap(), infer.get("sum").unwrap()), (vec![9.0], vec![9.0]));
        }
    }
}

#[test]
fn a_graph_whose_views_have_no_end_is_refused() {
    let text = format!("%0: f32[1] = input \"x\"\n%1: f32[{0}] = broadcast %0\noutput \"y\" %1", 1_u64 << 44);
    let error = run_once(graph(&text), &Device::cpu_with_threads(1).unwrap(), &[vec![1.0]]).unwrap_err();
    assert!(error.to_string().contains("the output `y`"), "{error}");
}

/// Runs in a child process, whose memory limit is smaller than one result.
#[test]
#[cfg(target_os = "linux")]
fn a_result_without_memory_is_an_error() {
    const CHILD: &str = "GRADLOOM_TEST_LITTLE_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        let name = "results::a_result_without_memory_is_an_error";
        let limited = format!("ulimit -v 800000 && exec \"$0\" --exact {name} --nocapture --test-threads=1");
        let program = std::env::current_exe().unwrap();
        let output =
            Command::new("sh").arg("-c").arg(limited).arg(program).env(CHILD, "1").output().expect("a shell");
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}");
        return assert!(text.contains("1 passed"), "{text}");
    }
    let session = Session::new((), &Device::cpu_with_threads(1).unwrap(), 0).unwrap();
    let mut infer = session.infer([f32("x", [1])], |_, [x]| wide(x * 2.0)).unwrap();
    for _ in 0..2 {
        let error = infer.run([&[1.0]]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert_eq!(error.message(), "no memory for 1073741824 bytes of the output `result.0`");
    }
}
