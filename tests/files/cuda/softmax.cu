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
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
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
    float v35 = b0[((v27 * 70u) + v2)];
    float v41 = b0[((v27 * 70u) + v9)];
    float v48 = b0[((v27 * 70u) + v13)];
    float x0 = __int_as_float(0xff800000);
    x0 = max_or_nan(x0, v35);
    x0 = max_or_nan(x0, v41);
    x0 = max_or_nan(x0, (v15 ? v48 : __int_as_float(0xff800000)));
    float v62 = x0;
    float v63 = __shfl_xor_sync(0xffffffffu, v62, 16);
    float v64 = max_or_nan(v62, v63);
    float v65 = __shfl_xor_sync(0xffffffffu, v64, 8);
    float v66 = max_or_nan(v64, v65);
    float v67 = __shfl_xor_sync(0xffffffffu, v66, 4);
    float v68 = max_or_nan(v66, v67);
    float v69 = __shfl_xor_sync(0xffffffffu, v68, 2);
    float v70 = max_or_nan(v68, v69);
    float v71 = __shfl_xor_sync(0xffffffffu, v70, 1);
    float v72 = max_or_nan(v70, v71);
    float x1 = (0.0f);
    float v78 = expf((v35 - v72));
    x1 = (x1 + v78);
    float v82 = expf((v41 - v72));
    x1 = (x1 + v82);
    float v87 = expf((v48 - v72));
    x1 = (x1 + (v15 ? v87 : (0.0f)));
    float v92 = x1;
    float v93 = __shfl_xor_sync(0xffffffffu, v92, 16);
    float v94 = (v92 + v93);
    float v95 = __shfl_xor_sync(0xffffffffu, v94, 8);
    float v96 = (v94 + v95);
    float v97 = __shfl_xor_sync(0xffffffffu, v96, 4);
    float v98 = (v96 + v97);
    float v99 = __shfl_xor_sync(0xffffffffu, v98, 2);
    float v100 = (v98 + v99);
    float v101 = __shfl_xor_sync(0xffffffffu, v100, 1);
    float v102 = (v100 + v101);
    wait_for_others();
    if (v29) {
        b1[((v27 * 70u) + v2)] = (v78 / v102);
    }
    if (v29) {
        b1[((v27 * 70u) + v9)] = (v82 / v102);
    }
    if ((v15 && v29)) {
        b1[((v27 * 70u) + v13)] = (v87 / v102);
    }
}
