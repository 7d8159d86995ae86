// The gradient of queries row by row, then that of keys and values; sums have a fixed order.
// graph {
//   %0: f32[1, 1, 6, 4] = input "q"
//   %1: f32[1, 1, 6, 4] = input "k"
//   %2: f32[1, 1, 6, 4] = input "v"
//   %3: f32[1, 1, 6, 4] = input "o"
//   %4: f32[1, 1, 6] = input "s"
//   %5: f32[1, 1, 6, 4] = input "g"
//   %6: f32[1, 1, 6, 4], %7: f32[1, 1, 6, 4], %8: f32[1, 1, 6, 4] = attention_grad %0, %1, %2, %3, %4, %5 {scale=0.5}
//   output "dq" %6
//   output "dk" %7
//   output "dv" %8
// }

// 1 blocks of 256 threads
// attention_grad: means
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
__device__ float2 operator+(float2 a, float2 b) {
    return make_float2(a.x + b.x, a.y + b.y);
}
__device__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ float4 operator-(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}
__device__ float4 operator*(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ float4 mul_add(float4 a, float4 b, float4 c) {
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}
__device__ float4 splat(float a) {
    return make_float4(a, a, a, a);
}
extern "C" __global__ void __launch_bounds__(256) k_attention_grad_means(const float* b0, const float* b1, const float* b2, float* b3, unsigned* status) {
    let_next_start();
    unsigned v2 = remainder_of(threadIdx.x, 16u);
    unsigned v9 = ((blockIdx.x * 16u) + divide(threadIdx.x, 16u));
    unsigned v11 = min(v9, 5u);
    unsigned v13 = remainder_of(v11, 6u);
    unsigned v21 = (v13 * 4u);
    unsigned v24 = (v13 * 4u);
    float x0 = (0.0f);
    for (unsigned i0 = (v2 * 4u); i0 < 4u; i0 += 64u) {
        float v41 = b0[(v21 + min(i0, 3u))];
        unsigned v44 = (i0 + 1u);
        float v51 = b0[(v21 + min(v44, 3u))];
        unsigned v54 = (i0 + 2u);
        float v61 = b0[(v21 + min(v54, 3u))];
        unsigned v64 = (i0 + 3u);
        float v71 = b0[(v21 + min(v64, 3u))];
        float4 v73 = make_float4(((i0 < 4u) ? v41 : (0.0f)), ((v44 < 4u) ? v51 : (0.0f)), ((v54 < 4u) ? v61 : (0.0f)), ((v64 < 4u) ? v71 : (0.0f)));
        float v84 = b2[(v24 + min(i0, 3u))];
        unsigned v87 = (i0 + 1u);
        float v94 = b2[(v24 + min(v87, 3u))];
        unsigned v97 = (i0 + 2u);
        float v104 = b2[(v24 + min(v97, 3u))];
        unsigned v107 = (i0 + 3u);
        float v114 = b2[(v24 + min(v107, 3u))];
        float4 v116 = make_float4(((i0 < 4u) ? v84 : (0.0f)), ((v87 < 4u) ? v94 : (0.0f)), ((v97 < 4u) ? v104 : (0.0f)), ((v107 < 4u) ? v114 : (0.0f)));
        x0 = fmaf(v73.w, v116.w, fmaf(v73.z, v116.z, fmaf(v73.y, v116.y, fmaf(v73.x, v116.x, x0))));
    }
    float v130 = x0;
    float v131 = __shfl_xor_sync(0xffffffffu, v130, 8);
    float v132 = (v130 + v131);
    float v133 = __shfl_xor_sync(0xffffffffu, v132, 4);
    float v134 = (v132 + v133);
    float v135 = __shfl_xor_sync(0xffffffffu, v134, 2);
    float v136 = (v134 + v135);
    float v137 = __shfl_xor_sync(0xffffffffu, v136, 1);
    wait_for_others();
    if (((v2 == 0u) && (v9 < 6u))) {
        b3[v11] = (v136 + v137);
    }
}

// 1 blocks of 64 threads
// attention_grad: queries
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
extern "C" __global__ void __launch_bounds__(64) k_attention_grad_queries(const float* b0, const float* b1, const float* b2, const float* b3, const float* b4, const float* b5, float* b6, float* b7, unsigned* status) {
    let_next_start();
    unsigned v4 = ((blockIdx.x * 64u) + threadIdx.x);
    unsigned v6 = remainder_of(v4, 6u);
    unsigned v10 = divide(v4, 6u);
    unsigned v20 = min(v6, 5u);
    wait_for_others();
    if ((v10 < 1u)) {
        unsigned v27 = (v20 * 4u);
        float v31 = b0[v27];
        float v36 = b0[(v27 + 1u)];
        float v41 = b0[(v27 + 2u)];
        float v46 = b0[(v27 + 3u)];
        unsigned v49 = (v20 * 4u);
        float v53 = b5[v49];
        float v58 = b5[(v49 + 1u)];
        float v63 = b5[(v49 + 2u)];
        float v68 = b5[(v49 + 3u)];
        float v73 = b7[((v10 * 6u) + v20)];
        float x0 = (0.0f);
        float x1 = (0.0f);
        float x2 = (0.0f);
        float x3 = (0.0f);
        float v84 = b4[v20];
        for (unsigned i0 = 0u; i0 < 6u; i0 += 1u) {
            unsigned v89 = (i0 * 4u);
            unsigned v92 = (i0 * 4u);
            float x4 = (0.0f);
            float v97 = b1[v89];
            x4 = (x4 + (v31 * v97));
            float v105 = b1[(v89 + 1u)];
            x4 = (x4 + (v36 * v105));
            float v113 = b1[(v89 + 2u)];
            x4 = (x4 + (v41 * v113));
            float v121 = b1[(v89 + 3u)];
            x4 = (x4 + (v46 * v121));
            float v125 = x4;
            float x5 = (0.0f);
            float v130 = b2[v92];
            x5 = (x5 + (v53 * v130));
            float v138 = b2[(v92 + 1u)];
            x5 = (x5 + (v58 * v138));
            float v146 = b2[(v92 + 2u)];
            x5 = (x5 + (v63 * v146));
            float v154 = b2[(v92 + 3u)];
            x5 = (x5 + (v68 * v154));
            float v166 = ((expf(((v125 * (0.5f)) - v84)) * (x5 - v73)) * (0.5f));
            x0 = (x0 + (v166 * v97));
            x1 = (x1 + (v166 * v105));
            x2 = (x2 + (v166 * v113));
            x3 = (x3 + (v166 * v121));
        }
        if ((v6 < 6u)) {
            unsigned v183 = (v6 * 4u);
            b6[v183] = x0;
            b6[(v183 + 1u)] = x1;
            b6[(v183 + 2u)] = x2;
            b6[(v183 + 3u)] = x3;
        }
    }
}

// 1 blocks of 64 threads
// attention_grad: keys
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
extern "C" __global__ void __launch_bounds__(64) k_attention_grad_keys(const float* b0, const float* b1, const float* b2, const float* b3, const float* b4, const float* b5, float* b6, float* b7, float* b8, unsigned* status) {
    let_next_start();
    unsigned v4 = ((blockIdx.x * 64u) + threadIdx.x);
    unsigned v6 = remainder_of(v4, 6u);
    unsigned v10 = divide(v4, 6u);
    unsigned v20 = min(v6, 5u);
    wait_for_others();
    if ((v10 < 1u)) {
        unsigned v24 = (v20 * 4u);
        float v28 = b1[v24];
        float v33 = b1[(v24 + 1u)];
        float v38 = b1[(v24 + 2u)];
        float v43 = b1[(v24 + 3u)];
        unsigned v46 = (v20 * 4u);
        float v50 = b2[v46];
        float v55 = b2[(v46 + 1u)];
        float v60 = b2[(v46 + 2u)];
        float v65 = b2[(v46 + 3u)];
        float x0 = (0.0f);
        float x1 = (0.0f);
        float x2 = (0.0f);
        float x3 = (0.0f);
        float x4 = (0.0f);
        float x5 = (0.0f);
        float x6 = (0.0f);
        float x7 = (0.0f);
        unsigned v85 = ((v20 >= 6u) ? 6u : 0u);
        unsigned v89 = ((v6 >= 6u) ? 6u : 0u);
        for (unsigned i0 = 0u; i0 < 1u; i0 += 1u) {
            for (unsigned i1 = v89; i1 < 6u; i1 += 1u) {
                unsigned v103 = (i1 * 4u);
                unsigned v106 = (i1 * 4u);
                float v109 = b4[i1];
                float v115 = b8[(((v10 + i0) * 6u) + i1)];
                float x8 = (0.0f);
                float v120 = b0[v103];
                x8 = (x8 + (v28 * v120));
                float v128 = b0[(v103 + 1u)];
                x8 = (x8 + (v33 * v128));
                float v136 = b0[(v103 + 2u)];
                x8 = (x8 + (v38 * v136));
                float v144 = b0[(v103 + 3u)];
                x8 = (x8 + (v43 * v144));
                float v148 = x8;
                float x9 = (0.0f);
                float v153 = b5[v106];
                x9 = (x9 + (v50 * v153));
                float v161 = b5[(v106 + 1u)];
                x9 = (x9 + (v55 * v161));
                float v169 = b5[(v106 + 2u)];
                x9 = (x9 + (v60 * v169));
                float v177 = b5[(v106 + 3u)];
                x9 = (x9 + (v65 * v177));
                bool v182 = (i1 >= v85);
                float v188 = (v182 ? expf(((v148 * (0.5f)) - v109)) : (0.0f));
                float v194 = (v182 ? ((v188 * (x9 - v115)) * (0.5f)) : (0.0f));
                x4 = (x4 + (v188 * v153));
                x5 = (x5 + (v188 * v161));
                x6 = (x6 + (v188 * v169));
                x7 = (x7 + (v188 * v177));
                x0 = (x0 + (v194 * v120));
                x1 = (x1 + (v194 * v128));
                x2 = (x2 + (v194 * v136));
                x3 = (x3 + (v194 * v144));
            }
        }
        if ((v6 < 6u)) {
            unsigned v223 = (v6 * 4u);
            b6[v223] = x0;
            b6[(v223 + 1u)] = x1;
            b6[(v223 + 2u)] = x2;
            b6[(v223 + 3u)] = x3;
            unsigned v241 = (v6 * 4u);
            b7[v241] = x4;
            b7[(v241 + 1u)] = x5;
            b7[(v241 + 2u)] = x6;
            b7[(v241 + 3u)] = x7;
        }
    }
}
