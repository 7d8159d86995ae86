// f32: each invocation has a tile of sums in registers.
// graph {
//   %0: f32[10, 24] = input "x"
//   %1: f32[24, 20] = param "w"
//   %2: f32[10, 20] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
//   output "y" %2
// }

// 1 blocks of 128 threads
// dot
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
extern "C" __global__ void __launch_bounds__(128) kernel_0_0(const float4* b0, const float4* b1, float* b2, unsigned* status) {
    __shared__ float4 a0[288];
    __shared__ float4 a1[256];
    unsigned v7 = (blockIdx.x * 32u);
    unsigned v14 = divide(threadIdx.x, 8u);
    unsigned v16 = remainder_of(threadIdx.x, 8u);
    unsigned v20 = remainder_of(threadIdx.x, 8u);
    unsigned v22 = divide(threadIdx.x, 8u);
    unsigned v24 = (v20 * 4u);
    unsigned v34 = (v7 + v22);
    unsigned v37 = ((((remainder_of(v22, 2u) * 16u) + divide(v22, 2u)) * 9u) + v20);
    float4 x0 = splat((0.0f));
    unsigned v40 = (threadIdx.x + 128u);
    unsigned v42 = remainder_of(v40, 8u);
    unsigned v44 = divide(v40, 8u);
    unsigned v46 = (v42 * 4u);
    unsigned v56 = (v7 + v44);
    unsigned v59 = ((((remainder_of(v44, 2u) * 16u) + divide(v44, 2u)) * 9u) + v42);
    float4 x1 = splat((0.0f));
    unsigned v63 = remainder_of(threadIdx.x, 8u);
    unsigned v65 = divide(threadIdx.x, 8u);
    unsigned v67 = (v63 * 4u);
    unsigned v72 = ((v65 * 8u) + v63);
    float4 x2 = splat((0.0f));
    unsigned v75 = (threadIdx.x + 128u);
    unsigned v77 = remainder_of(v75, 8u);
    unsigned v79 = divide(v75, 8u);
    unsigned v81 = (v77 * 4u);
    unsigned v86 = ((v79 * 8u) + v77);
    float4 x3 = splat((0.0f));
    float4 x4 = splat((0.0f));
    float4 x5 = splat((0.0f));
    float4 v107 = b0[divide(((min(v34, 9u) * 24u) + min(v24, 20u)), 4u)];
    x0 = ((v24 < 24u) ? v107 : splat((0.0f)));
    float4 v126 = b0[divide(((min(v56, 9u) * 24u) + min(v46, 20u)), 4u)];
    x1 = ((v46 < 24u) ? v126 : splat((0.0f)));
    float4 v145 = b1[divide((min(v67, 16u) + (min(v65, 23u) * 20u)), 4u)];
    x2 = ((v65 < 24u) ? v145 : splat((0.0f)));
    float4 v164 = b1[divide((min(v81, 16u) + (min(v79, 23u) * 20u)), 4u)];
    x3 = ((v79 < 24u) ? v164 : splat((0.0f)));
    for (unsigned i0 = 0u; i0 < 24u; i0 += 32u) {
        a0[v37] = x0;
        a0[v59] = x1;
        a1[v72] = x2;
        a1[v86] = x3;
        __syncthreads();
        unsigned v178 = (i0 + 32u);
        if ((v178 < 24u)) {
            float4 v195 = b0[divide(((min(v34, 9u) * 24u) + min((v178 + v24), 20u)), 4u)];
            x0 = (((v178 + v24) < 24u) ? v195 : splat((0.0f)));
            float4 v216 = b0[divide(((min(v56, 9u) * 24u) + min((v178 + v46), 20u)), 4u)];
            x1 = (((v178 + v46) < 24u) ? v216 : splat((0.0f)));
            float4 v237 = b1[divide((min(v67, 16u) + (min((v178 + v65), 23u) * 20u)), 4u)];
            x2 = (((v178 + v65) < 24u) ? v237 : splat((0.0f)));
            float4 v258 = b1[divide((min(v81, 16u) + (min((v178 + v79), 23u) * 20u)), 4u)];
            x3 = (((v178 + v79) < 24u) ? v258 : splat((0.0f)));
        }
        float4 v271 = a0[(v14 * 9u)];
        float4 v277 = a0[((v14 + 16u) * 9u)];
        float4 v286 = a1[v16];
        float4 v296 = a1[(8u + v16)];
        float4 v306 = a1[(16u + v16)];
        float4 v316 = a1[(24u + v16)];
        x4 = mul_add(splat(v271.x), v286, x4);
        x5 = mul_add(splat(v277.x), v286, x5);
        x4 = mul_add(splat(v271.y), v296, x4);
        x5 = mul_add(splat(v277.y), v296, x5);
        x4 = mul_add(splat(v271.z), v306, x4);
        x5 = mul_add(splat(v277.z), v306, x5);
        x4 = mul_add(splat(v271.w), v316, x4);
        x5 = mul_add(splat(v277.w), v316, x5);
        float4 v355 = a0[((v14 * 9u) + 1u)];
        float4 v362 = a0[(((v14 + 16u) * 9u) + 1u)];
        float4 v372 = a1[(32u + v16)];
        float4 v382 = a1[(40u + v16)];
        float4 v392 = a1[(48u + v16)];
        float4 v402 = a1[(56u + v16)];
        x4 = mul_add(splat(v355.x), v372, x4);
        x5 = mul_add(splat(v362.x), v372, x5);
        x4 = mul_add(splat(v355.y), v382, x4);
        x5 = mul_add(splat(v362.y), v382, x5);
        x4 = mul_add(splat(v355.z), v392, x4);
        x5 = mul_add(splat(v362.z), v392, x5);
        x4 = mul_add(splat(v355.w), v402, x4);
        x5 = mul_add(splat(v362.w), v402, x5);
        float4 v441 = a0[((v14 * 9u) + 2u)];
        float4 v448 = a0[(((v14 + 16u) * 9u) + 2u)];
        float4 v458 = a1[(64u + v16)];
        float4 v468 = a1[(72u + v16)];
        float4 v478 = a1[(80u + v16)];
        float4 v488 = a1[(88u + v16)];
        x4 = mul_add(splat(v441.x), v458, x4);
        x5 = mul_add(splat(v448.x), v458, x5);
        x4 = mul_add(splat(v441.y), v468, x4);
        x5 = mul_add(splat(v448.y), v468, x5);
        x4 = mul_add(splat(v441.z), v478, x4);
        x5 = mul_add(splat(v448.z), v478, x5);
        x4 = mul_add(splat(v441.w), v488, x4);
        x5 = mul_add(splat(v448.w), v488, x5);
        float4 v527 = a0[((v14 * 9u) + 3u)];
        float4 v534 = a0[(((v14 + 16u) * 9u) + 3u)];
        float4 v544 = a1[(96u + v16)];
        float4 v554 = a1[(104u + v16)];
        float4 v564 = a1[(112u + v16)];
        float4 v574 = a1[(120u + v16)];
        x4 = mul_add(splat(v527.x), v544, x4);
        x5 = mul_add(splat(v534.x), v544, x5);
        x4 = mul_add(splat(v527.y), v554, x4);
        x5 = mul_add(splat(v534.y), v554, x5);
        x4 = mul_add(splat(v527.z), v564, x4);
        x5 = mul_add(splat(v534.z), v564, x5);
        x4 = mul_add(splat(v527.w), v574, x4);
        x5 = mul_add(splat(v534.w), v574, x5);
        float4 v613 = a0[((v14 * 9u) + 4u)];
        float4 v620 = a0[(((v14 + 16u) * 9u) + 4u)];
        float4 v630 = a1[(128u + v16)];
        float4 v640 = a1[(136u + v16)];
        float4 v650 = a1[(144u + v16)];
        float4 v660 = a1[(152u + v16)];
        x4 = mul_add(splat(v613.x), v630, x4);
        x5 = mul_add(splat(v620.x), v630, x5);
        x4 = mul_add(splat(v613.y), v640, x4);
        x5 = mul_add(splat(v620.y), v640, x5);
        x4 = mul_add(splat(v613.z), v650, x4);
        x5 = mul_add(splat(v620.z), v650, x5);
        x4 = mul_add(splat(v613.w), v660, x4);
        x5 = mul_add(splat(v620.w), v660, x5);
        float4 v699 = a0[((v14 * 9u) + 5u)];
        float4 v706 = a0[(((v14 + 16u) * 9u) + 5u)];
        float4 v716 = a1[(160u + v16)];
        float4 v726 = a1[(168u + v16)];
        float4 v736 = a1[(176u + v16)];
        float4 v746 = a1[(184u + v16)];
        x4 = mul_add(splat(v699.x), v716, x4);
        x5 = mul_add(splat(v706.x), v716, x5);
        x4 = mul_add(splat(v699.y), v726, x4);
        x5 = mul_add(splat(v706.y), v726, x5);
        x4 = mul_add(splat(v699.z), v736, x4);
        x5 = mul_add(splat(v706.z), v736, x5);
        x4 = mul_add(splat(v699.w), v746, x4);
        x5 = mul_add(splat(v706.w), v746, x5);
        float4 v785 = a0[((v14 * 9u) + 6u)];
        float4 v792 = a0[(((v14 + 16u) * 9u) + 6u)];
        float4 v802 = a1[(192u + v16)];
        float4 v812 = a1[(200u + v16)];
        float4 v822 = a1[(208u + v16)];
        float4 v832 = a1[(216u + v16)];
        x4 = mul_add(splat(v785.x), v802, x4);
        x5 = mul_add(splat(v792.x), v802, x5);
        x4 = mul_add(splat(v785.y), v812, x4);
        x5 = mul_add(splat(v792.y), v812, x5);
        x4 = mul_add(splat(v785.z), v822, x4);
        x5 = mul_add(splat(v792.z), v822, x5);
        x4 = mul_add(splat(v785.w), v832, x4);
        x5 = mul_add(splat(v792.w), v832, x5);
        float4 v871 = a0[((v14 * 9u) + 7u)];
        float4 v878 = a0[(((v14 + 16u) * 9u) + 7u)];
        float4 v888 = a1[(224u + v16)];
        float4 v898 = a1[(232u + v16)];
        float4 v908 = a1[(240u + v16)];
        float4 v918 = a1[(248u + v16)];
        x4 = mul_add(splat(v871.x), v888, x4);
        x5 = mul_add(splat(v878.x), v888, x5);
        x4 = mul_add(splat(v871.y), v898, x4);
        x5 = mul_add(splat(v878.y), v898, x5);
        x4 = mul_add(splat(v871.z), v908, x4);
        x5 = mul_add(splat(v878.z), v908, x5);
        x4 = mul_add(splat(v871.w), v918, x4);
        x5 = mul_add(splat(v878.w), v918, x5);
        __syncthreads();
    }
    unsigned v954 = (v7 + (v14 * 2u));
    if ((v954 < 10u)) {
        float4 v958 = x4;
        unsigned v961 = (v16 * 4u);
        if ((v961 < 20u)) {
            b2[((v954 * 20u) + v961)] = v958.x;
        }
        unsigned v978 = ((v16 * 4u) + 1u);
        if ((v978 < 20u)) {
            b2[((v954 * 20u) + v978)] = v958.y;
        }
        unsigned v994 = ((v16 * 4u) + 2u);
        if ((v994 < 20u)) {
            b2[((v954 * 20u) + v994)] = v958.z;
        }
        unsigned v1010 = ((v16 * 4u) + 3u);
        if ((v1010 < 20u)) {
            b2[((v954 * 20u) + v1010)] = v958.w;
        }
    }
    unsigned v1027 = ((v7 + (v14 * 2u)) + 1u);
    if ((v1027 < 10u)) {
        float4 v1030 = x5;
        unsigned v1033 = (v16 * 4u);
        if ((v1033 < 20u)) {
            b2[((v1027 * 20u) + v1033)] = v1030.x;
        }
        unsigned v1050 = ((v16 * 4u) + 1u);
        if ((v1050 < 20u)) {
            b2[((v1027 * 20u) + v1050)] = v1030.y;
        }
        unsigned v1066 = ((v16 * 4u) + 2u);
        if ((v1066 < 20u)) {
            b2[((v1027 * 20u) + v1066)] = v1030.z;
        }
        unsigned v1082 = ((v16 * 4u) + 3u);
        if ((v1082 < 20u)) {
            b2[((v1027 * 20u) + v1082)] = v1030.w;
        }
    }
}
