//! Limits and features of an adapter that shaders and their dispatch depend on.

use crate::cuda::LARGE_PRODUCT;
use crate::narrow::narrow;
use crate::schedule::precision::Precision;
use gradloom_core::ir::DType;

/// Invocations of a workgroup, at most, where a kernel needs no other number.
const WORKGROUP: u32 = 256;

/// Limits and features of a device. Shaders are made for them, so they are part of a pipeline's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Invocations of a workgroup, at most.
    pub invocations: u32,
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Storage buffers of a shader.
    pub storage_buffers: usize,
    /// Bytes of one binding.
    pub binding_bytes: u64,
    /// Workgroups along each axis of a dispatch.
    pub workgroups: u32,
    /// Invocations of a subgroup, if shaders may use subgroup operations and it is the same for all of them.
    pub subgroup: Option<u32>,
    /// True if shaders may use f16.
    pub f16: bool,
    /// True if kernels may use bf16.
    pub bf16: bool,
    /// True if there are products of 16 x 16 matrices with f32 sums, of those floats of 16 bits that there
    /// are.
    pub cooperative: bool,
    /// True if such products also take operands in f32, of which they use the bits of TF32.
    pub tf32: bool,
    /// True if it is known which invocation of a subgroup has which element of a matrix.
    pub fragments: bool,
    /// True if kernels that do not wait for each other run at the same time.
    pub branches: bool,
    /// True if kernels of loops gain from taking four neighbours at a time.
    pub fours: bool,
    /// Multiplications of a matrix product from which on the vendor's library computes it, if there is one.
    pub library: Option<usize>,
    /// True if the device computes on a CPU: workgroup memory and barriers cost more than they save there.
    pub software: bool,
    /// True if it splits a load of a vector into loads of its elements for each invocation: SwiftShader
    /// does, where loads are most of what a kernel costs, to run and to compile.
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
            branches: false,
            fours: false,
            library: None,
            software: false,
            scalar: false,
        }
    }

    /// Returns the limits that WebGPU adapters of desktop GPUs grant: the drivers of NVIDIA, AMD, Intel and
    /// Apple all do.
    pub fn desktop() -> Self {
        Self {
            invocations: 1024,
            workgroup_memory: 32 * 1024,
            storage_buffers: 16,
            binding_bytes: (2 << 30) - 4,
            ..Self::portable()
        }
    }

    /// Returns the limits that every NVIDIA GPU from Ampere on (sm_80) grants a kernel that asks for
    /// nothing.
    pub fn cuda() -> Self {
        Self {
            invocations: 1024,
            workgroup_memory: 48 * 1024,
            storage_buffers: 256,
            // Nothing is cut into pieces: indices count 32 bits of elements.
            binding_bytes: u64::MAX / 4,
            workgroups: i32::MAX.cast_unsigned(),
            subgroup: Some(32),
            f16: true,
            bf16: true,
            cooperative: true,
            tf32: true,
            fragments: true,
            branches: true,
            fours: true,
            library: None,
            software: false,
            scalar: false,
        }
    }

    /// Returns these limits with the vendor's library of matrix products.
    #[must_use]
    pub fn with_library(self) -> Self {
        Self { library: Some(LARGE_PRODUCT), ..self }
    }

    /// Returns the floats of 16 bits of a precision, where the device has them: of values between kernels,
    /// and of the operands of matrix instructions.
    pub fn half(&self, precision: Precision) -> Option<DType> {
        match precision {
            Precision::F16 if self.f16 => Some(DType::F16),
            Precision::Bf16 if self.bf16 => Some(DType::BF16),
            _ => None,
        }
    }

    /// Returns the dtype in which matrix instructions take the operands of products, in a precision; `None`
    /// if they are not used.
    pub fn operands(&self, precision: Precision) -> Option<DType> {
        let is_tf32 = matches!(precision, Precision::Tf32 | Precision::Tf32x3);
        if self.tf32 && is_tf32 { Some(DType::F32) } else { self.half(precision) }
    }

    /// Returns the number of invocations of a workgroup that combine their results in workgroup memory; a
    /// power of two.
    ///
    /// Few on a software device, which runs one after the other a vector at a time anyway: SwiftShader clears
    /// that memory by instructions for each element, and compiled a sum 50 ms longer for 256 of them than for
    /// 16.
    pub(crate) fn sharing(&self) -> usize {
        match self.software {
            true => 16,
            false => WORKGROUP.min(self.invocations) as usize,
        }
    }

    /// Returns the number of lanes of a column, and of columns of a workgroup, where `lanes` lanes add up
    /// each column, or one lane on a software device.
    pub(crate) fn column_sharing(&self, lanes: usize) -> [usize; 2] {
        let lanes = if self.software { 1 } else { lanes };
        [lanes, self.sharing() / lanes]
    }

    /// Returns the size of subgroups, if a workgroup of this many invocations can use their operations.
    /// Subgroups are taken to be full where they divide the workgroup, which holds for the known drivers.
    pub(crate) fn subgroup_of(&self, workgroup: usize) -> Option<u32> {
        let whole =
            |&size: &u32| size > 1 && size.is_power_of_two() && workgroup.is_multiple_of(size as usize);
        self.subgroup.filter(whole)
    }

    /// Returns workgroup counts for `count` workgroups in a row; the shader numbers them `x + y *
    /// counts[0]` and those beyond `count` do nothing.
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
