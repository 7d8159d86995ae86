// Each operand has workgroups of its own.
// graph {
//   %0: f32[3, 5] = input "x"
//   %1: f32[3, 40] = input "y"
//   %2: f32[3, 45] = concat %0, %1 {axis=1}
//   output "z" %2
// }

// 2 blocks of 256 threads
// concat
__device__ int divide(int a, int b) {
    return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b;
}
__device__ unsigned divide(unsigned a, unsigned b) {
    return b == 0u ? 0u : a / b;
}
__device__ int remainder_of(int a, int b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
__device__ unsigned remainder_of(unsigned a, unsigned b) {
    return b == 0u ? 0u : a % b;
}
__device__ float remainder_of(float a, float b) {
    return fmodf(a, b);
}
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_others() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
extern "C" __global__ void __launch_bounds__(256) k_concat(float* b0, const float* b1, const float* b2, unsigned* status) {
    let_next_start();
    unsigned v5 = ((blockIdx.x * 256u) + threadIdx.x);
    wait_for_others();
    if (((blockIdx.x < 1u) && (v5 < 15u))) {
        float v15 = b1[v5];
        b0[(remainder_of(v5, 5u) + (divide(v5, 5u) * 45u))] = v15;
    }
    unsigned v32 = (((blockIdx.x - 1u) * 256u) + threadIdx.x);
    if (((!(blockIdx.x < 1u)) && (v32 < 120u))) {
        float v43 = b2[v32];
        b0[((5u + remainder_of(v32, 40u)) + (divide(v32, 40u) * 45u))] = v43;
    }
}
