//! Measures the peak rates of a GPU with its own clock.
//!
//! In: a device. Out: a [`Roofline`]: the rate of multiply-adds in f32, the bandwidth of caches and memory,
//! and, if products use another type, the rate of a large product. Invariant: the kernels are written in
//! the kernel language, so that every GPU runs the same ones; each rate is the best of several runs. The
//! product is compiled as in any program, because no other kernel of gradloom comes closer to the device's
//! peak rate.

use crate::train::{Infer, Session};
use gradloom_codegen::pipeline::Precision;
use gradloom_codegen::simt::custom::{CustomLaunch, gpu_lowering};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CustomOp, DType, GpuLowering, Slice, SliceMut, Type, TypeError};
use gradloom_core::kernel::Kernel;
use gradloom_core::nn::{Init, Param};
use gradloom_core::reference::HostTensor;
use gradloom_core::trace::{self, Tensor};
use gradloom_device::Device;
use gradloom_device::host::Roofline;
use gradloom_device::outputs::Outputs;
use std::fmt;
use std::sync::Arc;

/// Number of runs of each kernel; the fastest one counts.
const RUNS: usize = 12;
/// Number of invocations per workgroup.
const WORKGROUP: u32 = 256;
/// Number of chains of dependent multiply-adds per invocation.
const CHAINS: u32 = 8;
/// Number of multiply-adds per chain.
const LENGTH: u32 = 1024;
/// Number of elements of each array that a workgroup processes per iteration.
const TURN: u32 = 4 * WORKGROUP;
/// Total size in bytes of the three arrays in each measurement; the largest working set fits in no cache.
const WORKING_SETS: [u32; 3] = [3 << 20, 24 << 20, 384 << 20];
/// Time in seconds that the large product would take at the rate of f32.
const PRODUCT_SECONDS: f64 = 4e-3;

/// Measures the peak rates of a GPU.
///
/// # Errors
/// Returns an error if the device does not time kernels, has no memory for the arrays, or is lost.
pub(super) fn measure(device: &Device) -> Result<Roofline> {
    let mut flops = 0.0f64;
    // Increase the number of workgroups until the largest device is fully used; a slow device stops earlier.
    for groups in [64, 1024, 16384] {
        let seconds = best(device, &chains(groups))?;
        let operations = groups as f64 * f64::from(WORKGROUP) * f64::from(2 * CHAINS * LENGTH);
        flops = flops.max(operations / seconds);
        if seconds > 5e-3 {
            break;
        }
    }
    let mut bandwidth = Vec::new();
    for set in WORKING_SETS {
        let groups = set / (12 * TURN);
        // Process at least 400 MB in total, so that the launch overhead is negligible.
        let repeats = (400_u32 << 20).div_ceil(set);
        let seconds = match best(device, &triad(groups, repeats)) {
            Ok(seconds) => seconds,
            Err(error) if bandwidth.is_empty() => return Err(error),
            // Keep the rates measured so far if the device has too little memory for this working set, or if
            // its buffers are too small.
            Err(_) => break,
        };
        bandwidth.push((set.into(), f64::from(groups * TURN) * 12.0 * f64::from(repeats) / seconds));
    }
    let products = match device.precision() {
        Precision::F32 => None,
        _ => Some(product(device, flops)?),
    };
    Ok(Roofline { threads: 1, flops, bandwidth, products })
}

/// Returns the minimum time of a probe in seconds.
fn best(device: &Device, op: &Probe) -> Result<f64> {
    let session = Session::new((), device, 0)?;
    let mut program = session.infer([trace::f32("x", [1])], |(), [x]| Tensor::custom(op.clone(), [x])[0])?;
    time(&mut program, |_| true)
}

/// Measures the rate of a large product in the device's precision.
fn product(device: &Device, flops: f64) -> Result<f64> {
    let extent = ((flops * PRODUCT_SECONDS / 2.0).cbrt() as usize).next_multiple_of(256).clamp(256, 8192);
    let factors = [(); 2].map(|()| Param::new([extent, extent], Init::Normal { std: 1.0 }));
    let session = Session::new(factors, device, 0)?;
    let mut program = session.infer([trace::f32("x", [1])], |[left, right], [x]| {
        left.tensor().matmul(right.tensor()).sum() + x.sum()
    })?;
    let launches = program.plan().launches.iter();
    let is_product: Vec<bool> =
        launches.map(|launch| multiplies(&launch.kernel, device.precision())).collect();
    Ok(2.0 * (extent as f64).powi(3) / time(&mut program, |launch| is_product[launch])?)
}

/// Returns the minimum time in seconds of the launches for which `counts` returns `true`.
fn time<R: Outputs>(program: &mut Infer<1, R>, counts: impl Fn(usize) -> bool) -> Result<f64> {
    program.set_profiling(true);
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        program.run([&[0.5f32]])?;
        let spans = program.spans().iter().filter(|span| counts(span.launch));
        least = least.min(spans.map(|span| span.took.as_secs_f64()).sum());
    }
    if least > 0.0 {
        return Ok(least);
    }
    Err(Error::new(ErrorKind::Device, "the device does not tell the times of its kernels"))
}

/// Returns `true` if a kernel runs at the rate of products, in a precision in which that rate differs from
/// the rate of other operations. In TF32, attention does not run at the rate of products.
pub(super) fn multiplies(kernel: &Kernel, precision: Precision) -> bool {
    match kernel.name() {
        "dot" => true,
        "attention" | "attention_grad" => matches!(precision, Precision::F16 | Precision::Bf16),
        _ => false,
    }
}

/// Op whose kernels are timed.
#[derive(Clone)]
struct Probe(Arc<dyn Fn(&CustomLaunch<'_>) + Send + Sync>);

/// Creates a probe that computes multiply-adds in registers.
fn chains(groups: usize) -> Probe {
    Probe(Arc::new(move |op| {
        let (x, sums) = (op.operand(0), op.scratch(DType::F32, groups * WORKGROUP as usize));
        op.kernel(WORKGROUP, groups, |k| {
            let factor = k.load(x, k.u32(0));
            let chains: Vec<_> = (0..CHAINS).map(|i| k.var(factor + k.f32(i as f32))).collect();
            k.count(k.u32(0), k.u32(LENGTH), |_| {
                chains.iter().for_each(|chain| chain.set(chain.get().mul_add(factor, factor)));
            });
            let sum = chains.iter().map(|chain| chain.get()).reduce(|a, b| a + b).unwrap_or(factor);
            k.store(sums, k.group() * WORKGROUP + k.local(), sum);
        });
        result(op);
    }))
}

/// Creates a probe that computes `a = b + s * c` (McCalpin's STREAM). In each iteration a workgroup processes
/// a distant part of the arrays, so that a cache smaller than the arrays does not help.
fn triad(groups: u32, repeats: u32) -> Probe {
    Probe(Arc::new(move |op| {
        let [a, b, c] = [(); 3].map(|()| op.scratch(DType::F32, (groups * TURN) as usize));
        op.kernel(WORKGROUP, groups as usize, |k| {
            k.count(k.u32(0), k.u32(repeats), |turn| {
                let first = (k.group() + turn * (groups / 2 + 1)) % groups * TURN + k.local();
                let at = [0, 1, 2, 3].map(|i| first + i * WORKGROUP);
                let sums = at.map(|at| k.load(c, at).mul_add(k.f32(0.5), k.load(b, at)));
                at.into_iter().zip(sums).for_each(|(at, sum)| k.store(a, at, sum));
            });
        });
        result(op);
    }))
}

/// Copies the operand to the result, which the op must write.
fn result(op: &CustomLaunch<'_>) {
    let (x, y) = (op.operand(0), op.result(0));
    op.each(1, |k, i| k.store(y, i, k.load(x, i)));
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("probe")
    }
}

impl CustomOp for Probe {
    fn name(&self) -> &str {
        "probe"
    }

    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }

    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(operands.to_vec())
    }

    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("it measures GPUs".to_string())
    }

    fn gpu(&self) -> Option<GpuLowering> {
        let write = Arc::clone(&self.0);
        Some(gpu_lowering(move |op| write(op)))
    }
}
