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
extern "C" __global__ void __launch_bounds__(64) k_attention_grad_queries(const float* b0, const float* b1, const float* b2, const float* b3, const float* b4, const float* b5, float* b6, float* b7, unsigned* status) {
    unsigned v4 = ((blockIdx.x * 64u) + threadIdx.x);
    unsigned v6 = remainder_of(v4, 6u);
    unsigned v10 = divide(v4, 6u);
    unsigned v20 = min(v6, 5u);
    if ((v10 < 1u)) {
        unsigned v26 = (v20 * 4u);
        float v30 = b0[v26];
        float v35 = b0[(v26 + 1u)];
        float v40 = b0[(v26 + 2u)];
        float v45 = b0[(v26 + 3u)];
        unsigned v48 = (v20 * 4u);
        float v52 = b5[v48];
        float v57 = b5[(v48 + 1u)];
        float v62 = b5[(v48 + 2u)];
        float v67 = b5[(v48 + 3u)];
        unsigned v70 = (v20 * 4u);
        float x0 = (0.0f);
        for (unsigned i0 = 0u; i0 < 4u; i0 += 1u) {
            float v79 = b5[(v48 + i0)];
            float v82 = b3[(v70 + i0)];
            x0 = (x0 + (v79 * v82));
        }
        float v85 = x0;
        float x1 = (0.0f);
        float x2 = (0.0f);
        float x3 = (0.0f);
        float x4 = (0.0f);
        if ((v6 < 6u)) {
            b7[((v10 * 6u) + v6)] = v85;
        }
        float v102 = b4[v20];
        for (unsigned i1 = 0u; i1 < 6u; i1 += 1u) {
            unsigned v108 = (i1 * 4u);
            unsigned v111 = (i1 * 4u);
            float x5 = (0.0f);
            float v116 = b1[v108];
            x5 = (x5 + (v30 * v116));
            float v124 = b1[(v108 + 1u)];
            x5 = (x5 + (v35 * v124));
            float v132 = b1[(v108 + 2u)];
            x5 = (x5 + (v40 * v132));
            float v140 = b1[(v108 + 3u)];
            x5 = (x5 + (v45 * v140));
            float v144 = x5;
            float x6 = (0.0f);
            float v149 = b2[v111];
            x6 = (x6 + (v52 * v149));
            float v157 = b2[(v111 + 1u)];
            x6 = (x6 + (v57 * v157));
            float v165 = b2[(v111 + 2u)];
            x6 = (x6 + (v62 * v165));
            float v173 = b2[(v111 + 3u)];
            x6 = (x6 + (v67 * v173));
            float v185 = ((expf(((v144 * (0.5f)) - v102)) * (x6 - v85)) * (0.5f));
            x1 = (x1 + (v185 * v116));
            x2 = (x2 + (v185 * v124));
            x3 = (x3 + (v185 * v132));
            x4 = (x4 + (v185 * v140));
        }
        if ((v6 < 6u)) {
            unsigned v202 = (v6 * 4u);
            b6[v202] = x1;
            b6[(v202 + 1u)] = x2;
            b6[(v202 + 2u)] = x3;
            b6[(v202 + 3u)] = x4;
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
extern "C" __global__ void __launch_bounds__(64) k_attention_grad_keys(const float* b0, const float* b1, const float* b2, const float* b3, const float* b4, const float* b5, float* b6, float* b7, float* b8, unsigned* status) {
    unsigned v4 = ((blockIdx.x * 64u) + threadIdx.x);
    unsigned v6 = remainder_of(v4, 6u);
    unsigned v10 = divide(v4, 6u);
    unsigned v20 = min(v6, 5u);
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
