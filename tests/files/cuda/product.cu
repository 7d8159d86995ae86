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
extern "C" __global__ void __launch_bounds__(128) k_dot(const float4* b0, const float4* b1, float* b2, unsigned* status) {
    __shared__ float4 a0[288];
    __shared__ float4 a1[256];
    let_next_start();
    unsigned v7 = (blockIdx.x * 32u);
    unsigned v14 = divide(threadIdx.x, 8u);
    unsigned v16 = remainder_of(threadIdx.x, 8u);
    unsigned v19 = remainder_of(threadIdx.x, 8u);
    unsigned v21 = divide(threadIdx.x, 8u);
    unsigned v23 = (v19 * 4u);
    unsigned v33 = (v7 + v21);
    unsigned v36 = ((((remainder_of(v21, 2u) * 16u) + divide(v21, 2u)) * 9u) + v19);
    float4 x0 = splat((0.0f));
    unsigned v38 = (threadIdx.x + 128u);
    unsigned v40 = remainder_of(v38, 8u);
    unsigned v42 = divide(v38, 8u);
    unsigned v44 = (v40 * 4u);
    unsigned v54 = (v7 + v42);
    unsigned v57 = ((((remainder_of(v42, 2u) * 16u) + divide(v42, 2u)) * 9u) + v40);
    float4 x1 = splat((0.0f));
    unsigned v60 = remainder_of(threadIdx.x, 8u);
    unsigned v62 = divide(threadIdx.x, 8u);
    unsigned v64 = (v60 * 4u);
    unsigned v69 = ((v62 * 8u) + v60);
    float4 x2 = splat((0.0f));
    unsigned v71 = (threadIdx.x + 128u);
    unsigned v73 = remainder_of(v71, 8u);
    unsigned v75 = divide(v71, 8u);
    unsigned v77 = (v73 * 4u);
    unsigned v82 = ((v75 * 8u) + v73);
    float4 x3 = splat((0.0f));
    float4 x4 = splat((0.0f));
    float4 x5 = splat((0.0f));
    float4 v103 = b0[divide(((min(v33, 9u) * 24u) + min(v23, 20u)), 4u)];
    x0 = ((v23 < 24u) ? v103 : splat((0.0f)));
    float4 v122 = b0[divide(((min(v54, 9u) * 24u) + min(v44, 20u)), 4u)];
    x1 = ((v44 < 24u) ? v122 : splat((0.0f)));
    float4 v141 = b1[divide((min(v64, 16u) + (min(v62, 23u) * 20u)), 4u)];
    x2 = ((v62 < 24u) ? v141 : splat((0.0f)));
    float4 v160 = b1[divide((min(v77, 16u) + (min(v75, 23u) * 20u)), 4u)];
    x3 = ((v75 < 24u) ? v160 : splat((0.0f)));
    for (unsigned i0 = 0u; i0 < 24u; i0 += 32u) {
        a0[v36] = x0;
        a0[v57] = x1;
        a1[v69] = x2;
        a1[v82] = x3;
        __syncthreads();
        unsigned v174 = (i0 + 32u);
        if ((v174 < 24u)) {
            float4 v191 = b0[divide(((min(v33, 9u) * 24u) + min((v174 + v23), 20u)), 4u)];
            x0 = (((v174 + v23) < 24u) ? v191 : splat((0.0f)));
            float4 v212 = b0[divide(((min(v54, 9u) * 24u) + min((v174 + v44), 20u)), 4u)];
            x1 = (((v174 + v44) < 24u) ? v212 : splat((0.0f)));
            float4 v233 = b1[divide((min(v64, 16u) + (min((v174 + v62), 23u) * 20u)), 4u)];
            x2 = (((v174 + v62) < 24u) ? v233 : splat((0.0f)));
            float4 v254 = b1[divide((min(v77, 16u) + (min((v174 + v75), 23u) * 20u)), 4u)];
            x3 = (((v174 + v75) < 24u) ? v254 : splat((0.0f)));
        }
        float4 v267 = a0[(v14 * 9u)];
        float4 v273 = a0[((v14 + 16u) * 9u)];
        float4 v282 = a1[v16];
        float4 v292 = a1[(8u + v16)];
        float4 v302 = a1[(16u + v16)];
        float4 v312 = a1[(24u + v16)];
        x4 = mul_add(splat(v267.x), v282, x4);
        x5 = mul_add(splat(v273.x), v282, x5);
        x4 = mul_add(splat(v267.y), v292, x4);
        x5 = mul_add(splat(v273.y), v292, x5);
        x4 = mul_add(splat(v267.z), v302, x4);
        x5 = mul_add(splat(v273.z), v302, x5);
        x4 = mul_add(splat(v267.w), v312, x4);
        x5 = mul_add(splat(v273.w), v312, x5);
        float4 v351 = a0[((v14 * 9u) + 1u)];
        float4 v358 = a0[(((v14 + 16u) * 9u) + 1u)];
        float4 v368 = a1[(32u + v16)];
        float4 v378 = a1[(40u + v16)];
        float4 v388 = a1[(48u + v16)];
        float4 v398 = a1[(56u + v16)];
        x4 = mul_add(splat(v351.x), v368, x4);
        x5 = mul_add(splat(v358.x), v368, x5);
        x4 = mul_add(splat(v351.y), v378, x4);
        x5 = mul_add(splat(v358.y), v378, x5);
        x4 = mul_add(splat(v351.z), v388, x4);
        x5 = mul_add(splat(v358.z), v388, x5);
        x4 = mul_add(splat(v351.w), v398, x4);
        x5 = mul_add(splat(v358.w), v398, x5);
        float4 v437 = a0[((v14 * 9u) + 2u)];
        float4 v444 = a0[(((v14 + 16u) * 9u) + 2u)];
        float4 v454 = a1[(64u + v16)];
        float4 v464 = a1[(72u + v16)];
        float4 v474 = a1[(80u + v16)];
        float4 v484 = a1[(88u + v16)];
        x4 = mul_add(splat(v437.x), v454, x4);
        x5 = mul_add(splat(v444.x), v454, x5);
        x4 = mul_add(splat(v437.y), v464, x4);
        x5 = mul_add(splat(v444.y), v464, x5);
        x4 = mul_add(splat(v437.z), v474, x4);
        x5 = mul_add(splat(v444.z), v474, x5);
        x4 = mul_add(splat(v437.w), v484, x4);
        x5 = mul_add(splat(v444.w), v484, x5);
        float4 v523 = a0[((v14 * 9u) + 3u)];
        float4 v530 = a0[(((v14 + 16u) * 9u) + 3u)];
        float4 v540 = a1[(96u + v16)];
        float4 v550 = a1[(104u + v16)];
        float4 v560 = a1[(112u + v16)];
        float4 v570 = a1[(120u + v16)];
        x4 = mul_add(splat(v523.x), v540, x4);
        x5 = mul_add(splat(v530.x), v540, x5);
        x4 = mul_add(splat(v523.y), v550, x4);
        x5 = mul_add(splat(v530.y), v550, x5);
        x4 = mul_add(splat(v523.z), v560, x4);
        x5 = mul_add(splat(v530.z), v560, x5);
        x4 = mul_add(splat(v523.w), v570, x4);
        x5 = mul_add(splat(v530.w), v570, x5);
        float4 v609 = a0[((v14 * 9u) + 4u)];
        float4 v616 = a0[(((v14 + 16u) * 9u) + 4u)];
        float4 v626 = a1[(128u + v16)];
        float4 v636 = a1[(136u + v16)];
        float4 v646 = a1[(144u + v16)];
        float4 v656 = a1[(152u + v16)];
        x4 = mul_add(splat(v609.x), v626, x4);
        x5 = mul_add(splat(v616.x), v626, x5);
        x4 = mul_add(splat(v609.y), v636, x4);
        x5 = mul_add(splat(v616.y), v636, x5);
        x4 = mul_add(splat(v609.z), v646, x4);
        x5 = mul_add(splat(v616.z), v646, x5);
        x4 = mul_add(splat(v609.w), v656, x4);
        x5 = mul_add(splat(v616.w), v656, x5);
        float4 v695 = a0[((v14 * 9u) + 5u)];
        float4 v702 = a0[(((v14 + 16u) * 9u) + 5u)];
        float4 v712 = a1[(160u + v16)];
        float4 v722 = a1[(168u + v16)];
        float4 v732 = a1[(176u + v16)];
        float4 v742 = a1[(184u + v16)];
        x4 = mul_add(splat(v695.x), v712, x4);
        x5 = mul_add(splat(v702.x), v712, x5);
        x4 = mul_add(splat(v695.y), v722, x4);
        x5 = mul_add(splat(v702.y), v722, x5);
        x4 = mul_add(splat(v695.z), v732, x4);
        x5 = mul_add(splat(v702.z), v732, x5);
        x4 = mul_add(splat(v695.w), v742, x4);
        x5 = mul_add(splat(v702.w), v742, x5);
        float4 v781 = a0[((v14 * 9u) + 6u)];
        float4 v788 = a0[(((v14 + 16u) * 9u) + 6u)];
        float4 v798 = a1[(192u + v16)];
        float4 v808 = a1[(200u + v16)];
        float4 v818 = a1[(208u + v16)];
        float4 v828 = a1[(216u + v16)];
        x4 = mul_add(splat(v781.x), v798, x4);
        x5 = mul_add(splat(v788.x), v798, x5);
        x4 = mul_add(splat(v781.y), v808, x4);
        x5 = mul_add(splat(v788.y), v808, x5);
        x4 = mul_add(splat(v781.z), v818, x4);
        x5 = mul_add(splat(v788.z), v818, x5);
        x4 = mul_add(splat(v781.w), v828, x4);
        x5 = mul_add(splat(v788.w), v828, x5);
        float4 v867 = a0[((v14 * 9u) + 7u)];
        float4 v874 = a0[(((v14 + 16u) * 9u) + 7u)];
        float4 v884 = a1[(224u + v16)];
        float4 v894 = a1[(232u + v16)];
        float4 v904 = a1[(240u + v16)];
        float4 v914 = a1[(248u + v16)];
        x4 = mul_add(splat(v867.x), v884, x4);
        x5 = mul_add(splat(v874.x), v884, x5);
        x4 = mul_add(splat(v867.y), v894, x4);
        x5 = mul_add(splat(v874.y), v894, x5);
        x4 = mul_add(splat(v867.z), v904, x4);
        x5 = mul_add(splat(v874.z), v904, x5);
        x4 = mul_add(splat(v867.w), v914, x4);
        x5 = mul_add(splat(v874.w), v914, x5);
        __syncthreads();
    }
    unsigned v950 = (v7 + (v14 * 2u));
    wait_for_others();
    if ((v950 < 10u)) {
        float4 v954 = x4;
        unsigned v957 = (v16 * 4u);
        if ((v957 < 20u)) {
            b2[((v950 * 20u) + v957)] = v954.x;
        }
        unsigned v974 = ((v16 * 4u) + 1u);
        if ((v974 < 20u)) {
            b2[((v950 * 20u) + v974)] = v954.y;
        }
        unsigned v990 = ((v16 * 4u) + 2u);
        if ((v990 < 20u)) {
            b2[((v950 * 20u) + v990)] = v954.z;
        }
        unsigned v1006 = ((v16 * 4u) + 3u);
        if ((v1006 < 20u)) {
            b2[((v950 * 20u) + v1006)] = v954.w;
        }
    }
    unsigned v1023 = ((v7 + (v14 * 2u)) + 1u);
    if ((v1023 < 10u)) {
        float4 v1026 = x5;
        unsigned v1029 = (v16 * 4u);
        if ((v1029 < 20u)) {
            b2[((v1023 * 20u) + v1029)] = v1026.x;
        }
        unsigned v1046 = ((v16 * 4u) + 1u);
        if ((v1046 < 20u)) {
            b2[((v1023 * 20u) + v1046)] = v1026.y;
        }
        unsigned v1062 = ((v16 * 4u) + 2u);
        if ((v1062 < 20u)) {
            b2[((v1023 * 20u) + v1062)] = v1026.z;
        }
        unsigned v1078 = ((v16 * 4u) + 3u);
        if ((v1078 < 20u)) {
            b2[((v1023 * 20u) + v1078)] = v1026.w;
        }
    }
}
