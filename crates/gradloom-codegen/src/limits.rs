//! Limits and features of a device, on which shaders and their dispatches depend.

use crate::cuda::LARGE_PRODUCT;
use crate::narrow::narrow;
use crate::schedule::precision::Precision;
use gradloom_core::ir::DType;

/// Maximum number of invocations of a workgroup that combine their results in workgroup memory.
const WORKGROUP: u32 = 256;

/// Limits and features of a device. Shaders are generated for them, so they are part of a pipeline's
/// identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Maximum number of invocations of a workgroup.
    pub invocations: u32,
    /// Size of workgroup memory, in bytes.
    pub workgroup_memory: u32,
    /// Maximum number of storage buffers of a shader.
    pub storage_buffers: usize,
    /// Maximum size of a binding, in bytes.
    pub binding_bytes: u64,
    /// Maximum number of workgroups along each axis of a dispatch.
    pub workgroups: u32,
    /// Number of invocations of a subgroup, if shaders may use subgroup operations and all subgroups have the
    /// same size.
    pub subgroup: Option<u32>,
    /// True if shaders may use f16.
    pub f16: bool,
    /// True if kernels may use bf16.
    pub bf16: bool,
    /// True if the device has instructions for products of 16 x 16 matrices, accumulated in f32, for each
    /// 16-bit float type that it supports.
    pub cooperative: bool,
    /// True if the instructions for matrix products also take f32 operands, which they truncate to TF32.
    pub tf32: bool,
    /// True if the mapping from matrix elements to the invocations of a subgroup is known.
    pub fragments: bool,
    /// Maximum size of workgroup memory in bytes for a kernel that asks for more than `workgroup_memory`;
    /// `None` if no kernel can.
    pub large_memory: Option<u32>,
    /// True if the device has products of warpgroups.
    pub warpgroups: bool,
    /// True if the device runs independent kernels concurrently.
    pub branches: bool,
    /// True if loop kernels are faster when each invocation computes four neighboring elements.
    pub fours: bool,
    /// Minimum number of multiplications for which the vendor library computes a matrix product, or `None`
    /// without such a library.
    pub library: Option<usize>,
    /// True if the device computes on a CPU, where workgroup memory and barriers cost more than they save.
    pub software: bool,
    /// True if the device splits a vector load of an invocation into one load per element, as SwiftShader
    /// does. Loads then take most of the time to run and to compile a kernel.
    pub scalar: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self::portable()
    }
}

impl Limits {
    /// Returns the limits that every WebGPU implementation grants.
    pub fn portable() -> Self {
        Self {
            invocations: 256,
            workgroup_memory: 16 * 1024,
            storage_buffers: 8,
            binding_bytes: 128 << 20,
            workgroups: 65_535,
            subgroup: None,
            f16: false,
            bf16: false,
            cooperative: false,
            tf32: false,
            fragments: false,
            large_memory: None,
            warpgroups: false,
            branches: false,
            fours: false,
            library: None,
            software: false,
            scalar: false,
        }
    }

    /// Returns the limits that WebGPU adapters of desktop GPUs grant with the drivers of NVIDIA, AMD, Intel
    /// and Apple.
    pub fn desktop() -> Self {
        Self {
            invocations: 1024,
            workgroup_memory: 32 * 1024,
            storage_buffers: 16,
            binding_bytes: (2 << 30) - 4,
            ..Self::portable()
        }
    }

    /// Returns the limits that every NVIDIA GPU from Ampere (sm_80) on grants a kernel by default.
    pub fn cuda() -> Self {
        Self {
            invocations: 1024,
            workgroup_memory: 48 * 1024,
            storage_buffers: 256,
            // Buffers are never split, because the size of an operand is already limited by the 32-bit
            // indices of its elements.
            binding_bytes: u64::MAX / 4,
            workgroups: i32::MAX.cast_unsigned(),
            subgroup: Some(32),
            f16: true,
            bf16: true,
            cooperative: true,
            tf32: true,
            fragments: true,
            large_memory: None,
            warpgroups: false,
            branches: true,
            fours: true,
            library: None,
            software: false,
            scalar: false,
        }
    }

    /// Returns the limits of an NVIDIA GPU of this compute capability (major, minor). (CUDA C++ Programming
    /// Guide, "Technical Specifications per Compute Capability".)
    pub fn cuda_of(capability: (i32, i32)) -> Self {
        let large_memory = match capability {
            (8, 0 | 7) => Some(163 << 10),
            (8, _) | (12, _) => Some(99 << 10),
            (9.., _) => Some(227 << 10),
            _ => None,
        };
        Self { large_memory, warpgroups: capability == (9, 0), ..Self::cuda() }
    }

    /// Returns these limits with the vendor library for matrix products.
    #[must_use]
    pub fn with_library(self) -> Self {
        Self { library: Some(LARGE_PRODUCT), ..self }
    }

    /// Returns the 16-bit float type of a precision, if the device supports it. Values that are stored
    /// between kernels, and operands of matrix instructions, have this type.
    pub fn half(&self, precision: Precision) -> Option<DType> {
        match precision {
            Precision::F16 if self.f16 => Some(DType::F16),
            Precision::Bf16 if self.bf16 => Some(DType::BF16),
            _ => None,
        }
    }

    /// Returns the type of the operands of matrix instructions in a precision, or `None` if the precision
    /// does not use them.
    pub fn operands(&self, precision: Precision) -> Option<DType> {
        let is_tf32 = matches!(precision, Precision::Tf32 | Precision::Tf32x3);
        if self.tf32 && is_tf32 { Some(DType::F32) } else { self.half(precision) }
    }

    /// Returns the type to which attention may round the operands of matrix instructions in a precision:
    /// 16-bit floats, or f32 for TF32; `None` if attention computes in f32.
    pub fn attention_operands(&self, precision: Precision) -> Option<DType> {
        let by_tf32 = precision == Precision::Tf32 && self.tf32 && self.fragments;
        self.half(precision).or(by_tf32.then_some(DType::F32))
    }

    /// Returns the number of invocations of a workgroup that combine their results in workgroup memory, a
    /// power of two.
    ///
    /// It is small on a software device, which runs the invocations one after the other, a vector at a time.
    /// SwiftShader emits instructions for each element to clear workgroup memory; it took 50 ms longer to
    /// compile a sum with 256 invocations than with 16.
    pub(crate) fn sharing(&self) -> usize {
        match self.software {
            true => 16,
            false => WORKGROUP.min(self.invocations) as usize,
        }
    }

    /// Returns the number of lanes per column and of columns per workgroup. `lanes` lanes sum each column,
    /// except on a software device, where a single lane does.
    pub(crate) fn column_sharing(&self, lanes: usize) -> [usize; 2] {
        let lanes = if self.software { 1 } else { lanes };
        [lanes, self.sharing() / lanes]
    }

    /// Returns the size of subgroups, if a workgroup of this many invocations can use subgroup operations. If
    /// the size divides that of the workgroup, all subgroups are assumed to be full, which holds for the
    /// known drivers.
    pub(crate) fn subgroup_of(&self, workgroup: usize) -> Option<u32> {
        let whole =
            |&size: &u32| size > 1 && size.is_power_of_two() && workgroup.is_multiple_of(size as usize);
        self.subgroup.filter(whole)
    }

    /// Returns the workgroup counts of a dispatch of `count` workgroups. The shader numbers its workgroups
    /// `x + y * counts[0]`, and those numbered `count` or more do nothing.
    pub fn spread(&self, count: usize) -> [u32; 3] {
        let most = self.workgroups as usize;
        if count <= most {
            return [narrow(count), 1, 1];
        }
        let rows = count.div_ceil(most);
        [narrow(count.div_ceil(rows)), narrow(rows), 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workgroups_are_spread_over_two_axes() {
        let limits = Limits::portable();
        for count in [0, 1, 65_535, 65_536, 65_537, 1 << 20, 100_000_007] {
            let [x, y, z] = limits.spread(count);
            let total = x as usize * y as usize;
            assert!(x <= limits.workgroups && y <= limits.workgroups && z == 1);
            assert!(total >= count && total < count + y as usize, "{count} in {x} x {y}");
        }
    }
}
