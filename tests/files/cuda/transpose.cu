// The flat result of a permuted operand cannot be a view: a copy reads through the strides.
// graph {
//   %0: f32[6, 50] = param "x"
//   %1: f32[50, 6] = permute %0 {perm=[1, 0]}
//   %2: f32[300] = reshape %1
//   output "y" %2
// }

// 2 blocks of 256 threads
// map [1 x 300]
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
extern "C" __global__ void __launch_bounds__(256) k_map_1_x_300(const float* b0, float* b1, unsigned* status) {
    let_next_start();
    unsigned v4 = ((blockIdx.x * 256u) + threadIdx.x);
    wait_for_others();
    if ((v4 < 300u)) {
        unsigned v13 = ((divide(v4, 300u) * 300u) + remainder_of(v4, 300u));
        float v24 = b0[((remainder_of(v13, 6u) * 50u) + divide(v13, 6u))];
        b1[v4] = v24;
    }
}
