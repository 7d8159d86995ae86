//! What CUDA C has not, or leaves undefined: functions that a kernel's text brings along.

use gradloom_core::collections::SortedSet;

/// A helper function of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Function {
    Max,
    Min,
    Sign,
    Sigmoid,
    Divide,
    Remainder,
    Report,
}

/// The functions that a kernel uses.
pub(super) type Functions = SortedSet<Function>;

impl Function {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Max => "max_or_nan",
            Self::Min => "min_or_nan",
            Self::Sign => "sign_of",
            Self::Sigmoid => "sigmoid",
            Self::Divide => "divide",
            Self::Remainder => "remainder_of",
            Self::Report => "report",
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Max => {
                "__device__ float max_or_nan(float a, float b) {
    return a != a || a > b ? a : b;
}
"
            }
            Self::Min => {
                "__device__ float min_or_nan(float a, float b) {
    return a != a || a < b ? a : b;
}
"
            }
            Self::Sign => {
                "__device__ float sign_of(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}
__device__ int sign_of(int x) {
    return (x > 0) - (x < 0);
}
"
            }
            // The form whose exponential cannot overflow.
            Self::Sigmoid => {
                "__device__ float sigmoid(float x) {
    float e = expf(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
"
            }
            // Zero divisors are reported, and give 0; the least number by -1 wraps.
            Self::Divide => {
                "__device__ int divide(int a, int b) {
    return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b;
}
__device__ unsigned divide(unsigned a, unsigned b) {
    return b == 0u ? 0u : a / b;
}
"
            }
            Self::Remainder => {
                "__device__ int remainder_of(int a, int b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
__device__ unsigned remainder_of(unsigned a, unsigned b) {
    return b == 0u ? 0u : a % b;
}
__device__ float remainder_of(float a, float b) {
    return fmodf(a, b);
}
"
            }
            // The first failure of a step is kept. See `wgsl::Status` for the words.
            Self::Report => {
                "__device__ void report(unsigned* status, unsigned launch, unsigned position, int index, unsigned extent) {
    if (atomicCAS(&status[1], 0u, launch) == 0u) {
        status[2] = position;
        status[3] = (unsigned)index;
        status[4] = extent;
    }
}
"
            }
        }
    }
}
