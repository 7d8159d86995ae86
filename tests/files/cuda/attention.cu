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
        unsigned v43 = ((v20 * 24u) + (v22 * 4u));
        float v47 = b0[v43];
        float v52 = b0[(v43 + 1u)];
        float v57 = b0[(v43 + 2u)];
        float v62 = b0[(v43 + 3u)];
        float x0 = (0.0f);
        float x1 = (0.0f);
        float x2 = (0.0f);
        float x3 = (0.0f);
        float x4 = (-3e38f);
        float x5 = (0.0f);
        for (unsigned i0 = 0u; i0 < min((remainder_of(v5, 6u) + 1u), 6u); i0 += 1u) {
            unsigned v77 = (i0 * 4u);
            unsigned v80 = (i0 * 4u);
            float x6 = (0.0f);
            float v85 = b1[v77];
            x6 = (x6 + (v47 * v85));
            float v93 = b1[(v77 + 1u)];
            x6 = (x6 + (v52 * v93));
            float v101 = b1[(v77 + 2u)];
            x6 = (x6 + (v57 * v101));
            float v109 = b1[(v77 + 3u)];
            x6 = (x6 + (v62 * v109));
            float v115 = (x6 * (0.25f));
            float v116 = x4;
            float v117 = fmaxf(v116, v115);
            float v119 = expf((v116 - v117));
            x4 = v117;
            float v121 = expf((v115 - v117));
            x5 = ((x5 * v119) + v121);
            float v127 = b2[v80];
            x0 = ((x0 * v119) + (v121 * v127));
            float v136 = b2[(v80 + 1u)];
            x1 = ((x1 * v119) + (v121 * v136));
            float v145 = b2[(v80 + 2u)];
            x2 = ((x2 * v119) + (v121 * v145));
            float v154 = b2[(v80 + 3u)];
            x3 = ((x3 * v119) + (v121 * v154));
        }
        if ((v7 < 6u)) {
            bool v162 = (0u < min((v22 + 1u), 6u));
            float v163 = x5;
            float v167 = (v162 ? ((1.0f) / v163) : (0.0f));
            unsigned v173 = ((v20 * 24u) + (v7 * 4u));
            b3[v173] = (x0 * v167);
            b3[(v173 + 1u)] = (x1 * v167);
            b3[(v173 + 2u)] = (x2 * v167);
            b3[(v173 + 3u)] = (x3 * v167);
            b4[((v20 * 6u) + v7)] = (v162 ? (x4 + logf(v163)) : __int_as_float(0xff800000));
        }
    }
}
