//! Tests user-defined ops on a GPU: kernels in the kernel language, and ops that the host runs in the middle
//! of a step.

use super::{device, skipped};
use gradloom::CpuDevice as _;
use gradloom::custom::{
    Builder, CustomLaunch, CustomOp, GpuLowering, HostTensor, Slice, SliceMut, Type, TypeError, ValueId,
    gpu_lowering,
};
use gradloom::nn::{Linear, Module};
use gradloom::runtime::Work;
use gradloom::{Adam, DType, Device, Error, ErrorKind, Retention, Session, Tensor, Train, Trainer, f32, i32};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Implementation of the op on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Kernels,
    Host,
}

/// Op that returns the sums of groups of four adjacent elements, and whether each is positive. It rejects
/// NaN.
#[derive(Debug)]
struct Quads(Way);

impl CustomOp for Quads {
    fn name(&self) -> &str {
        match self.0 {
            Way::Kernels => "quads_by_kernels",
            Way::Host => "quads_on_the_host",
        }
    }

    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        let [x] = operands else { return Err(TypeError::new("quads takes one tensor")) };
        let count = x.shape.elements() / 4;
        Ok(vec![Type::new(DType::F32, [count]), Type::new(DType::Bool, [count])])
    }

    fn gradient(
        &self,
        b: &mut Builder<'_>,
        x: &[ValueId],
        _: &[ValueId],
        g: &[Option<ValueId>],
    ) -> Option<Vec<Option<ValueId>>> {
        let shape = b.graph.ty(x[0]).shape.clone();
        let count = shape.elements() / 4;
        let column = b.reshape(g[0]?, [count, 1]);
        let spread = b.broadcast(column, &[count, 4].into());
        Some(vec![Some(b.reshape(spread, shape))])
    }

    fn reference(&self, x: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let sums: Vec<f64> = x[0].to_f64().chunks(4).map(|x| x.iter().sum()).collect();
        let positive: Vec<f64> = sums.iter().map(|&sum| f64::from(u8::from(sum > 0.0))).collect();
        let types = self.infer(&[x[0].ty.clone()]).map_err(|error| format!("{error:?}"))?;
        let values = types.into_iter().zip([sums, positive]);
        Ok(values.map(|(ty, values)| HostTensor::from_f64(ty, values)).collect())
    }

    fn run_on_host(&self, x: &[Slice<'_>], y: &mut [SliceMut<'_>]) -> Result<(), String> {
        let ([Slice::F32(x)], [SliceMut::F32(sums), SliceMut::Bool(positive)]) = (x, y) else {
            return Err("f32 is expected".into());
        };
        for ((quad, sum), positive) in x.chunks(4).zip(sums.iter_mut()).zip(positive.iter_mut()) {
            *sum = quad.iter().sum();
            *positive = (*sum > 0.0).into();
            if sum.is_nan() {
                return Err(format!("a sum of {sum}"));
            }
        }
        Ok(())
    }

    /// Returns two kernels with scratch memory between them; the second uses shared memory.
    fn gpu(&self) -> Option<GpuLowering> {
        (self.0 == Way::Kernels).then(|| {
            gpu_lowering(|op| {
                let (x, sums, positive) = (op.operand(0), op.result(0), op.result(1));
                let count = sums.elements();
                let pairs = op.scratch(DType::F32, 2 * count);
                op.each(2 * count, |k, i| {
                    k.store(pairs, i, k.load(x, i * 2) + k.load(x, i * 2 + 1));
                });
                op.kernel(64, count.div_ceil(64), |k| {
                    let shared = k.shared(DType::F32, 128);
                    let first = k.group() * 128;
                    k.count(k.u32(0), k.u32(2), |turn| {
                        let at = turn * 64 + k.local();
                        k.set(shared, at, k.load(pairs, first + at));
                    });
                    k.barrier();
                    let sum = k.get(shared, k.local() * 2) + k.get(shared, k.local() * 2 + 1);
                    let i = k.group() * 64 + k.local();
                    k.store(sums, i, sum);
                    k.store(positive, i, k.f32(0.0).less(sum));
                });
            })
        })
    }
}

#[derive(Module)]
struct Model {
    inner: Linear,
    outer: Linear,
}

const ROWS: usize = 37;

fn compiled(device: &Device, way: Way) -> Train<Model, 2> {
    let model = Model { inner: Linear::new(3, 20), outer: Linear::new(5, 2) };
    Trainer::new(model)
        .inputs([f32("x", [ROWS, 3]), f32("y", [ROWS, 2])])
        .loss(|m, [x, y]| {
            // An intermediate view that is not contiguous.
            let hidden = m.inner.forward(x).tanh().transpose(0, 1);
            let quads = Tensor::custom(Quads(way), [hidden.transpose(0, 1)]);
            let positive = quads[1].cast(DType::F32) * 0.1;
            let sums = (quads[0] + positive).reshape([ROWS, 5]);
            (m.outer.forward(sums) - y).square().mean()
        })
        .optimizer(Adam::new(0.01))
        .seed(7)
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn data(step: u32) -> (Vec<f32>, Vec<f32>) {
    let wave = |i: usize| ((i as u32 * 37 + step * 11) % 101) as f32 / 50.0 - 1.0;
    ((0..ROWS * 3).map(wave).collect(), (0..ROWS * 2).map(|i| wave(i * 3)).collect())
}

fn work(train: &Train<Model, 2>) -> Work {
    train.program().work().unwrap()
}

#[test]
fn kernels_and_the_host_train_alike() {
    if skipped() {
        return;
    }
    let device = device();
    let mut cpu = compiled(&Device::cpu(), Way::Host);
    let mut kernels = compiled(&device, Way::Kernels);
    let mut host = compiled(&device, Way::Host);
    assert_eq!((work(&kernels).host_ops, work(&kernels).submits), (0, 1));
    assert_eq!((work(&host).host_ops, work(&host).submits), (1, 2));
    // The rest is not affected: kernels are fused before and after the op.
    assert!(work(&host).dispatches < work(&kernels).dispatches);
    let mut last = 0.0;
    for step in 0..20 {
        let (x, y) = data(step);
        let losses = [&mut cpu, &mut kernels, &mut host].map(|train| train.step((&x, &y)).unwrap().loss());
        let [cpu, kernels, host] = losses.map(|loss| loss.unwrap());
        assert!((cpu - kernels).abs() < 1e-4 * cpu, "step {step}: {cpu} and {kernels}");
        assert!((cpu - host).abs() < 1e-4 * cpu, "step {step}: {cpu} and {host}");
        last = cpu;
    }
    assert!(last < 1.0);
}

#[test]
fn an_op_that_fails_on_the_host_ends_its_step_alone() {
    if skipped() {
        return;
    }
    let (mut cpu, mut gpu) = (compiled(&Device::cpu(), Way::Host), compiled(&device(), Way::Host));
    for step in 0..6 {
        let (mut x, y) = data(step);
        if step == 3 {
            x[5] = f32::NAN;
        }
        let before = gpu.store().read("inner.weight").unwrap();
        let results = [&mut cpu, &mut gpu].map(|train| train.step((&x, &y)).and_then(|step| step.loss()));
        match results {
            [Ok(cpu), Ok(gpu)] => assert!((cpu - gpu).abs() < 1e-4 * cpu, "step {step}: {cpu} and {gpu}"),
            [Err(cpu), Err(gpu)] => {
                assert_eq!((step, cpu.kind(), cpu.to_string()), (3, ErrorKind::Trap, gpu.to_string()));
                assert!(gpu.to_string().contains("quads_on_the_host: a sum of NaN"), "{gpu}");
                assert!(gpu.to_string().contains("custom.rs"), "{gpu}");
            }
            [cpu, gpu] => panic!("step {step}: {cpu:?} and {gpu:?}"),
        }
        if step == 3 {
            assert_eq!(gpu.store().read("inner.weight").unwrap(), before);
        }
    }
    gpu.wait().unwrap();
}

#[test]
fn debug_runs_stop_at_ops_of_the_host() {
    if skipped() {
        return;
    }
    let (x, y) = data(1);
    for way in [Way::Kernels, Way::Host] {
        let mut train = compiled(&device(), way);
        let mut run = train.debug_run((&x, &y), Retention::AsPlanned).unwrap();
        for launch in 0..run.plan().launches.len() {
            run.run(launch..launch + 1).unwrap();
        }
        let loss = train.step((&x, &y)).unwrap().loss().unwrap();
        assert_eq!(run.output("loss").unwrap().to_f64(), [f64::from(loss)]);
    }
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Op that counts its calls.
#[derive(Debug)]
struct Counted;

impl CustomOp for Counted {
    fn name(&self) -> &str {
        "counted"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(operands.to_vec())
    }
    fn run_on_host(&self, x: &[Slice<'_>], y: &mut [SliceMut<'_>]) -> Result<(), String> {
        CALLS.fetch_add(1, Ordering::Relaxed);
        for pair in x.iter().zip(y) {
            match pair {
                (Slice::F32(x), SliceMut::F32(y)) => y.copy_from_slice(x),
                (Slice::Bool(x), SliceMut::Bool(y)) => y.copy_from_slice(x),
                (Slice::Half(_, x), SliceMut::Half(_, y)) => y.copy_from_slice(x),
                (Slice::I32(x), SliceMut::I32(y)) => y.copy_from_slice(x),
                (x, _) => return Err(format!("{x:?}")),
            }
        }
        Ok(())
    }
}

#[test]
fn a_step_that_has_trapped_does_not_call_the_host() {
    if skipped() {
        return;
    }
    let session = Session::new(Nothing {}, &device(), 0).unwrap();
    let inputs = [f32("table", [5, 3]), i32("ids", [4])];
    let mut gather = session
        .infer(inputs, |_, [table, ids]| {
            let rows = table.gather_rows(ids);
            // Odd numbers of elements with fewer than 32 bits, and an empty tensor.
            let parts = [
                rows,
                rows.lt(0.0).slice(0, 0..3),
                rows.cast(DType::F16).slice(0, 0..1),
                rows.slice(0, 0..0),
            ];
            let all = Tensor::custom(Counted, parts);
            (all[0], all[1].cast(DType::F32), all[2].cast(DType::F32), all[3])
        })
        .unwrap();
    let table: Vec<f32> = (0..15).map(|x| x as f32 - 7.5).collect();
    let (rows, less, half, none) = gather.run((&table, &[4, 0, 2, 1])).unwrap();
    let expected = [4.5, 5.5, 6.5, -7.5, -6.5, -5.5, -1.5, -0.5, 0.5, -4.5, -3.5, -2.5];
    assert_eq!(rows, expected);
    let signs: Vec<f32> = expected[..9].iter().map(|&x| f32::from(u8::from(x < 0.0))).collect();
    assert_eq!((less, half, none), (signs, expected[..3].to_vec(), vec![]));
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    let error = gather.run((&table, &[4, 0, 5, 1])).unwrap_err();
    assert_eq!((error.kind(), CALLS.load(Ordering::Relaxed)), (ErrorKind::Trap, 1), "{error}");
    assert!(error.to_string().contains("index 5"), "{error}");
    gather.run((&table, &[4, 0, 3, 1])).unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 2);
}

#[derive(Module)]
struct Nothing {}

/// Op with one operand and a result of the same type, computed by the given kernels.
#[derive(Clone)]
struct Written(GpuLowering);

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Written")
    }
}

impl CustomOp for Written {
    fn name(&self) -> &str {
        "written"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(operands.to_vec())
    }
    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("it runs on GPUs".into())
    }
    fn gpu(&self) -> Option<GpuLowering> {
        Some(self.0.clone())
    }
}

/// Returns the op's result for the inputs 0, 1, 2, ..
fn result(lowering: GpuLowering, elements: usize) -> Result<Vec<f32>, Error> {
    let session = Session::new(Nothing {}, &device(), 0)?;
    let op = Written(lowering);
    let mut run = session.infer([f32("x", [elements])], |_, [x]| Tensor::custom(op, [x])[0])?;
    run.run([&(0..elements).map(|x| x as f32).collect::<Vec<_>>()])
}

#[test]
fn kernels_access_nothing_outside_of_their_op() {
    if skipped() {
        return;
    }
    let far = gpu_lowering(|op| {
        let (x, y) = (op.operand(0), op.result(0));
        op.each(5000, |k, i| {
            let array = k.private(DType::F32, 2);
            k.set(array, k.u32(0), k.load(x, i + 4));
            k.set(array, i + 1, k.f32(-1.0));
            k.store(y, i, k.get(array, k.u32(0)));
            k.store(y, i + 4_000_000_000, k.f32(-1.0));
        });
    });
    assert_eq!(result(far.clone(), 7).unwrap(), [4.0, 5.0, 6.0, 6.0, 6.0, 6.0, 6.0]);
    assert!(result(far, 0).unwrap().is_empty());
}

#[test]
fn an_index_that_a_kernel_checks_is_a_trap() {
    if skipped() {
        return;
    }
    let checked = gpu_lowering(|op| {
        let (x, y) = (op.operand(0), op.result(0));
        op.each(y.elements(), |k, i| {
            let index = k.check_index(k.load(x, i).cast(DType::I32), 6, i);
            k.store(y, i, index.cast(DType::F32));
        });
    });
    assert_eq!(result(checked.clone(), 6).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let error = result(checked, 7).unwrap_err();
    assert!(error.kind() == ErrorKind::Trap && error.to_string().contains("index 6"), "{error}");
}

#[test]
fn kernels_that_are_not_valid_are_errors_that_say_why() {
    if skipped() {
        return;
    }
    type Kernel = fn(&CustomLaunch<'_>);
    let wrong: [(Kernel, &str); 13] = [
        (|op| op.each(4, |k, i| k.store(op.result(0), i, i)), "a store of u32 where elements are f32"),
        (|op| op.each(4, |k, i| k.store(op.operand(0), i, k.f32(0.0))), "a store to an operand"),
        (|op| op.each(4, |k, i| k.store(op.result(1), i, k.f32(0.0))), "the op has no such result"),
        (|op| op.each(4, |k, _| k.store(op.result(0), k.i32(0), k.f32(0.0))), "a position of i32"),
        (|op| op.kernel(0, 1, |_| {}), "a workgroup of 0"),
        (|op| op.kernel(100_000, 1, |_| {}), "a workgroup of 100000"),
        (|op| op.kernel(64, usize::MAX, |_| {}), "more than 32 bits count"),
        (|op| op.kernel(64, 1, |k| k.when(k.local().below(3), || k.barrier())), "barrier"),
        (
            |op| op.kernel(64, 1, |a| op.kernel(64, 1, |b| b.store(op.result(0), a.local(), b.f32(0.0)))),
            "a kernel inside of another",
        ),
        (|op| _ = op.scratch(DType::F32, usize::MAX), "32 bits cannot count them"),
        (
            |op| {
                op.kernel(64, 1, |k| {
                    k.private(DType::F32, u32::MAX);
                });
            },
            "an invocation has arrays of",
        ),
        (
            |op| {
                op.kernel(64, 1, |k| {
                    k.shared(DType::F32, 1 << 20);
                });
            },
            "a workgroup shares 4194304 bytes",
        ),
        (
            |op| {
                op.each(4, |k, i| {
                    let _ = k.f32(1.0) + i;
                });
            },
            "has operands that it cannot take",
        ),
    ];
    for (kernel, expected) in wrong {
        let error = result(gpu_lowering(kernel), 4).unwrap_err().to_string();
        let starts = "the GPU kernels of the custom op `written` are not valid: ";
        assert!(error.contains(starts) && error.contains(expected), "{expected}: {error}");
        assert!(error.contains("custom.rs") && error.contains("CustomOp::gpu"), "{error}");
    }
    let foreign = GpuLowering::new(3);
    assert!(result(foreign, 4).unwrap_err().to_string().contains("what `gpu_lowering` made"));
}
