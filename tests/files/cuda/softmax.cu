// 32 invocations for each row find its largest element, then the sum of the exponentials: through shared memory in WGSL, which is for adapters without subgroups here, by shuffles in CUDA C.
// graph {
//   %0: f32[5, 70] = input "x"
//   %1: f32[5] = reduce_max %0 {axes=[1]}
//   %2: f32[5, 1] = reshape %1
//   %3: f32[5, 70] = broadcast %2
//   %4: f32[5, 70] = sub %0, %3
//   %5: f32[5, 70] = exp %4
//   %6: f32[5] = sum %5 {axes=[1]}
//   %7: f32[5, 1] = reshape %6
//   %8: f32[5, 70] = broadcast %7
//   %9: f32[5, 70] = div %5, %8
//   output "y" %9
// }

// 1 blocks of 256 threads
// row [5 x 70]
__device__ float max_or_nan(float a, float b) {
    return a != a || a > b ? a : b;
}
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
extern "C" __global__ void __launch_bounds__(256) k_row_5_x_70(const float* b0, float* b1, unsigned* status) {
    let_next_start();
    unsigned v2 = remainder_of(threadIdx.x, 32u);
    unsigned v9 = (v2 + 32u);
    unsigned v11 = (v2 + 64u);
    unsigned v13 = min(v11, 69u);
    bool v15 = (v11 < 70u);
    unsigned v25 = ((blockIdx.x * 8u) + divide(threadIdx.x, 32u));
    unsigned v27 = min(v25, 4u);
    bool v29 = (v25 < 5u);
    float x0 = __int_as_float(0xff800000);
    float v39 = b0[((v27 * 70u) + v2)];
    x0 = max_or_nan(x0, v39);
    float v47 = b0[((v27 * 70u) + v9)];
    x0 = max_or_nan(x0, v47);
    float v56 = b0[((v27 * 70u) + v13)];
    x0 = max_or_nan(x0, (v15 ? v56 : __int_as_float(0xff800000)));
    float v61 = x0;
    float v62 = __shfl_xor_sync(0xffffffffu, v61, 16);
    float v63 = max_or_nan(v61, v62);
    float v64 = __shfl_xor_sync(0xffffffffu, v63, 8);
    float v65 = max_or_nan(v63, v64);
    float v66 = __shfl_xor_sync(0xffffffffu, v65, 4);
    float v67 = max_or_nan(v65, v66);
    float v68 = __shfl_xor_sync(0xffffffffu, v67, 2);
    float v69 = max_or_nan(v67, v68);
    float v70 = __shfl_xor_sync(0xffffffffu, v69, 1);
    float v71 = max_or_nan(v69, v70);
    float x1 = (0.0f);
    float v77 = expf((v39 - v71));
    x1 = (x1 + v77);
    float v81 = expf((v47 - v71));
    x1 = (x1 + v81);
    float v86 = expf((v56 - v71));
    x1 = (x1 + (v15 ? v86 : (0.0f)));
    float v91 = x1;
    float v92 = __shfl_xor_sync(0xffffffffu, v91, 16);
    float v93 = (v91 + v92);
    float v94 = __shfl_xor_sync(0xffffffffu, v93, 8);
    float v95 = (v93 + v94);
    float v96 = __shfl_xor_sync(0xffffffffu, v95, 4);
    float v97 = (v95 + v96);
    float v98 = __shfl_xor_sync(0xffffffffu, v97, 2);
    float v99 = (v97 + v98);
    float v100 = __shfl_xor_sync(0xffffffffu, v99, 1);
    float v101 = (v99 + v100);
    wait_for_others();
    if (v29) {
        b1[((v27 * 70u) + v2)] = (v77 / v101);
    }
    if (v29) {
        b1[((v27 * 70u) + v9)] = (v81 / v101);
    }
    if ((v15 && v29)) {
        b1[((v27 * 70u) + v13)] = (v86 / v101);
    }
}
