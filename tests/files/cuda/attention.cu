// A causal mask, and two heads of queries for each of keys.
// graph {
//   %0: f32[1, 2, 6, 4] = input "q"
//   %1: f32[1, 1, 6, 4] = input "k"
//   %2: f32[1, 1, 6, 4] = input "v"
//   %3: i32[] = input "offset"
//   %4: i32[] = input "length"
//   %5: f32[1, 2, 6, 4], %6: f32[1, 2, 6] = attention %0, %1, %2 {scale=0.25, causal}
//   output "o" %5
// }

// 1 blocks of 64 threads
// attention
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
extern "C" __global__ void __launch_bounds__(64) k_attention(const float* b0, const float* b1, const float* b2, float* b3, float* b4, unsigned* status) {
    let_next_start();
    unsigned v5 = ((blockIdx.x * 64u) + threadIdx.x);
    unsigned v7 = remainder_of(v5, 6u);
    unsigned v11 = divide(v5, 6u);
    unsigned v20 = remainder_of(v11, 2u);
    unsigned v22 = min(v7, 5u);
    wait_for_others();
    if ((divide(v11, 2u) < 1u)) {
        unsigned v44 = ((v20 * 24u) + (v22 * 4u));
        float v48 = b0[v44];
        float v53 = b0[(v44 + 1u)];
        float v58 = b0[(v44 + 2u)];
        float v63 = b0[(v44 + 3u)];
        float x0 = (0.0f);
        float x1 = (0.0f);
        float x2 = (0.0f);
        float x3 = (0.0f);
        float x4 = (-3e38f);
        float x5 = (0.0f);
        for (unsigned i0 = 0u; i0 < min((remainder_of(v5, 6u) + 1u), 6u); i0 += 1u) {
            unsigned v78 = (i0 * 4u);
            unsigned v81 = (i0 * 4u);
            float x6 = (0.0f);
            float v86 = b1[v78];
            x6 = (x6 + (v48 * v86));
            float v94 = b1[(v78 + 1u)];
            x6 = (x6 + (v53 * v94));
            float v102 = b1[(v78 + 2u)];
            x6 = (x6 + (v58 * v102));
            float v110 = b1[(v78 + 3u)];
            x6 = (x6 + (v63 * v110));
            float v116 = (x6 * (0.25f));
            float v117 = x4;
            float v118 = fmaxf(v117, v116);
            float v120 = expf((v117 - v118));
            x4 = v118;
            float v122 = expf((v116 - v118));
            x5 = ((x5 * v120) + v122);
            float v128 = b2[v81];
            x0 = ((x0 * v120) + (v122 * v128));
            float v137 = b2[(v81 + 1u)];
            x1 = ((x1 * v120) + (v122 * v137));
            float v146 = b2[(v81 + 2u)];
            x2 = ((x2 * v120) + (v122 * v146));
            float v155 = b2[(v81 + 3u)];
            x3 = ((x3 * v120) + (v122 * v155));
        }
        if ((v7 < 6u)) {
            bool v164 = (0u < min((v22 + 1u), 6u));
            float v165 = x5;
            float v169 = (v164 ? ((1.0f) / v165) : (0.0f));
            unsigned v175 = ((v20 * 24u) + (v7 * 4u));
            b3[v175] = (x0 * v169);
            b3[(v175 + 1u)] = (x1 * v169);
            b3[(v175 + 2u)] = (x2 * v169);
            b3[(v175 + 3u)] = (x3 * v169);
            b4[((v20 * 6u) + v7)] = (v164 ? (x4 + logf(v165)) : __int_as_float(0xff800000));
        }
    }
}
