// Operands are read as vectors of four and rounded on the way to the workgroup's memory; the epilogue has the sum in f32; rows beyond the last are not stored.
// graph {
//   %0: f32[70, 128] = input "x"
//   %1: f32[128, 64] = param "w"
//   %2: f32[64] = param "b"
//   %3: f32[70, 64] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
//   %4: f32[1, 64] = reshape %2
//   %5: f32[70, 64] = broadcast %4
//   %6: f32[70, 64] = add %3, %5
//   output "y" %6
// }

// 2 blocks of 128 threads
// dot [70 x 64] with epilogue
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
struct __align__(8) Half4 {
    unsigned low, high;
};
__device__ unsigned halves(float low, float high) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ Half4 to_half(float4 a) {
    return {halves(a.x, a.y), halves(a.z, a.w)};
}
__device__ float half_of(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ float4 to_vector(Half4 a) {
    return make_float4(half_of(a.low), half_of(a.low >> 16), half_of(a.high), half_of(a.high >> 16));
}
struct Left {
    unsigned r[4];
};
struct Right {
    unsigned r[4];
};
struct Sum {
    float r[8];
    __device__ Sum() : r{} {}
};
// Two neighbours along the sums' terms: of a row of a left matrix, or of a column of a right one.
template <bool CONTIGUOUS> __device__ unsigned pair(const unsigned short* items, unsigned pitch, unsigned at, unsigned term) {
    const unsigned short* first = items + (CONTIGUOUS ? at * 4u * pitch + term : term * 4u * pitch + at);
    return first[0] | (unsigned)first[CONTIGUOUS ? 1u : 4u * pitch] << 16;
}
template <class M, bool BY_ROWS> struct Load;
template <bool BY_ROWS> struct Load<Left, BY_ROWS> {
    static __device__ Left matrix(const unsigned short* items, unsigned pitch, unsigned group, unsigned term) {
        return {{pair<BY_ROWS>(items, pitch, group, term), pair<BY_ROWS>(items, pitch, group + 8u, term),
                 pair<BY_ROWS>(items, pitch, group, term + 8u), pair<BY_ROWS>(items, pitch, group + 8u, term + 8u)}};
    }
};
template <bool BY_ROWS> struct Load<Right, BY_ROWS> {
    static __device__ Right matrix(const unsigned short* items, unsigned pitch, unsigned group, unsigned term) {
        return {{pair<!BY_ROWS>(items, pitch, group, term), pair<!BY_ROWS>(items, pitch, group, term + 8u),
                 pair<!BY_ROWS>(items, pitch, group + 8u, term), pair<!BY_ROWS>(items, pitch, group + 8u, term + 8u)}};
    }
};
template <class M, bool BY_ROWS, class Four> __device__ M load_matrix(const Four* items, unsigned pitch) {
    unsigned lane = threadIdx.x % 32u;
    return Load<M, BY_ROWS>::matrix((const unsigned short*)items, pitch, lane / 4u, lane % 4u * 2u);
}
__device__ void store_matrix(float* to, unsigned pitch, Sum c) {
    unsigned row = threadIdx.x % 32u / 4u, column = threadIdx.x % 4u * 2u;
    for (int i = 0; i < 8; i++) {
        to[(row + (i & 2) * 4) * pitch + column + (i & 1) + (i & 4) * 2] = c.r[i];
    }
}
__device__ Sum multiply(Left a, Right b, Sum c) {
    for (int half = 0; half < 2; half++) {
        float* r = c.r + 4 * half;
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3])
            : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[2 * half]), "r"(b.r[2 * half + 1]));
    }
    return c;
}
extern "C" __global__ void __launch_bounds__(128) kernel_0_0(const float4* b0, const float4* b1, const float* b2, float* b3, unsigned* status) {
    __shared__ Half4 a0[1152];
    __shared__ Half4 a1[1152];
    __shared__ float a2[1280];
    unsigned v7 = (blockIdx.x * 64u);
    unsigned v14 = divide(threadIdx.x, 32u);
    unsigned v18 = remainder_of(threadIdx.x, 16u);
    unsigned v20 = divide(threadIdx.x, 16u);
    unsigned v22 = (v18 * 4u);
    unsigned v25 = (v7 + v20);
    unsigned v28 = ((v20 * 18u) + v18);
    Half4 x0 = to_half(splat((0.0f)));
    unsigned v32 = (threadIdx.x + 128u);
    unsigned v34 = remainder_of(v32, 16u);
    unsigned v36 = divide(v32, 16u);
    unsigned v38 = (v34 * 4u);
    unsigned v41 = (v7 + v36);
    unsigned v44 = ((v36 * 18u) + v34);
    Half4 x1 = to_half(splat((0.0f)));
    unsigned v48 = (threadIdx.x + 256u);
    unsigned v50 = remainder_of(v48, 16u);
    unsigned v52 = divide(v48, 16u);
    unsigned v54 = (v50 * 4u);
    unsigned v57 = (v7 + v52);
    unsigned v60 = ((v52 * 18u) + v50);
    Half4 x2 = to_half(splat((0.0f)));
    unsigned v64 = (threadIdx.x + 384u);
    unsigned v66 = remainder_of(v64, 16u);
    unsigned v68 = divide(v64, 16u);
    unsigned v70 = (v66 * 4u);
    unsigned v73 = (v7 + v68);
    unsigned v76 = ((v68 * 18u) + v66);
    Half4 x3 = to_half(splat((0.0f)));
    unsigned v80 = (threadIdx.x + 512u);
    unsigned v82 = remainder_of(v80, 16u);
    unsigned v84 = divide(v80, 16u);
    unsigned v86 = (v82 * 4u);
    unsigned v89 = (v7 + v84);
    unsigned v92 = ((v84 * 18u) + v82);
    Half4 x4 = to_half(splat((0.0f)));
    unsigned v96 = (threadIdx.x + 640u);
    unsigned v98 = remainder_of(v96, 16u);
    unsigned v100 = divide(v96, 16u);
    unsigned v102 = (v98 * 4u);
    unsigned v105 = (v7 + v100);
    unsigned v108 = ((v100 * 18u) + v98);
    Half4 x5 = to_half(splat((0.0f)));
    unsigned v112 = (threadIdx.x + 768u);
    unsigned v114 = remainder_of(v112, 16u);
    unsigned v116 = divide(v112, 16u);
    unsigned v118 = (v114 * 4u);
    unsigned v121 = (v7 + v116);
    unsigned v124 = ((v116 * 18u) + v114);
    Half4 x6 = to_half(splat((0.0f)));
    unsigned v128 = (threadIdx.x + 896u);
    unsigned v130 = remainder_of(v128, 16u);
    unsigned v132 = divide(v128, 16u);
    unsigned v134 = (v130 * 4u);
    unsigned v137 = (v7 + v132);
    unsigned v140 = ((v132 * 18u) + v130);
    Half4 x7 = to_half(splat((0.0f)));
    unsigned v145 = (divide(v14, 2u) * 32u);
    unsigned v149 = remainder_of(threadIdx.x, 16u);
    unsigned v151 = divide(threadIdx.x, 16u);
    unsigned v153 = (v149 * 4u);
    unsigned v158 = ((v151 * 18u) + v149);
    Half4 x8 = to_half(splat((0.0f)));
    unsigned v162 = (threadIdx.x + 128u);
    unsigned v164 = remainder_of(v162, 16u);
    unsigned v166 = divide(v162, 16u);
    unsigned v168 = (v164 * 4u);
    unsigned v173 = ((v166 * 18u) + v164);
    Half4 x9 = to_half(splat((0.0f)));
    unsigned v177 = (threadIdx.x + 256u);
    unsigned v179 = remainder_of(v177, 16u);
    unsigned v181 = divide(v177, 16u);
    unsigned v183 = (v179 * 4u);
    unsigned v188 = ((v181 * 18u) + v179);
    Half4 x10 = to_half(splat((0.0f)));
    unsigned v192 = (threadIdx.x + 384u);
    unsigned v194 = remainder_of(v192, 16u);
    unsigned v196 = divide(v192, 16u);
    unsigned v198 = (v194 * 4u);
    unsigned v203 = ((v196 * 18u) + v194);
    Half4 x11 = to_half(splat((0.0f)));
    unsigned v207 = (threadIdx.x + 512u);
    unsigned v209 = remainder_of(v207, 16u);
    unsigned v211 = divide(v207, 16u);
    unsigned v213 = (v209 * 4u);
    unsigned v218 = ((v211 * 18u) + v209);
    Half4 x12 = to_half(splat((0.0f)));
    unsigned v222 = (threadIdx.x + 640u);
    unsigned v224 = remainder_of(v222, 16u);
    unsigned v226 = divide(v222, 16u);
    unsigned v228 = (v224 * 4u);
    unsigned v233 = ((v226 * 18u) + v224);
    Half4 x13 = to_half(splat((0.0f)));
    unsigned v237 = (threadIdx.x + 768u);
    unsigned v239 = remainder_of(v237, 16u);
    unsigned v241 = divide(v237, 16u);
    unsigned v243 = (v239 * 4u);
    unsigned v248 = ((v241 * 18u) + v239);
    Half4 x14 = to_half(splat((0.0f)));
    unsigned v252 = (threadIdx.x + 896u);
    unsigned v254 = remainder_of(v252, 16u);
    unsigned v256 = divide(v252, 16u);
    unsigned v258 = (v254 * 4u);
    unsigned v263 = ((v256 * 18u) + v254);
    Half4 x15 = to_half(splat((0.0f)));
    unsigned v268 = (remainder_of(v14, 2u) * 32u);
    Sum x16 = Sum();
    Sum x17 = Sum();
    Sum x18 = Sum();
    Sum x19 = Sum();
    float4 v288 = b0[divide(((min(v25, 69u) * 128u) + v22), 4u)];
    x0 = to_half(v288);
    float4 v303 = b0[divide(((min(v41, 69u) * 128u) + v38), 4u)];
    x1 = to_half(v303);
    float4 v318 = b0[divide(((min(v57, 69u) * 128u) + v54), 4u)];
    x2 = to_half(v318);
    float4 v333 = b0[divide(((min(v73, 69u) * 128u) + v70), 4u)];
    x3 = to_half(v333);
    float4 v348 = b0[divide(((min(v89, 69u) * 128u) + v86), 4u)];
    x4 = to_half(v348);
    float4 v363 = b0[divide(((min(v105, 69u) * 128u) + v102), 4u)];
    x5 = to_half(v363);
    float4 v378 = b0[divide(((min(v121, 69u) * 128u) + v118), 4u)];
    x6 = to_half(v378);
    float4 v393 = b0[divide(((min(v137, 69u) * 128u) + v134), 4u)];
    x7 = to_half(v393);
    float4 v406 = b1[divide((v153 + (v151 * 64u)), 4u)];
    x8 = to_half(v406);
    float4 v419 = b1[divide((v168 + (v166 * 64u)), 4u)];
    x9 = to_half(v419);
    float4 v432 = b1[divide((v183 + (v181 * 64u)), 4u)];
    x10 = to_half(v432);
    float4 v445 = b1[divide((v198 + (v196 * 64u)), 4u)];
    x11 = to_half(v445);
    float4 v458 = b1[divide((v213 + (v211 * 64u)), 4u)];
    x12 = to_half(v458);
    float4 v471 = b1[divide((v228 + (v226 * 64u)), 4u)];
    x13 = to_half(v471);
    float4 v484 = b1[divide((v243 + (v241 * 64u)), 4u)];
    x14 = to_half(v484);
    float4 v497 = b1[divide((v258 + (v256 * 64u)), 4u)];
    x15 = to_half(v497);
    for (unsigned i0 = 0u; i0 < 128u; i0 += 64u) {
        a0[v28] = x0;
        a0[v44] = x1;
        a0[v60] = x2;
        a0[v76] = x3;
        a0[v92] = x4;
        a0[v108] = x5;
        a0[v124] = x6;
        a0[v140] = x7;
        a1[v158] = x8;
        a1[v173] = x9;
        a1[v188] = x10;
        a1[v203] = x11;
        a1[v218] = x12;
        a1[v233] = x13;
        a1[v248] = x14;
        a1[v263] = x15;
        __syncthreads();
        unsigned v520 = (i0 + 64u);
        if ((v520 < 128u)) {
            float4 v536 = b0[divide(((min(v25, 69u) * 128u) + (v520 + v22)), 4u)];
            x0 = to_half(v536);
            float4 v552 = b0[divide(((min(v41, 69u) * 128u) + (v520 + v38)), 4u)];
            x1 = to_half(v552);
            float4 v568 = b0[divide(((min(v57, 69u) * 128u) + (v520 + v54)), 4u)];
            x2 = to_half(v568);
            float4 v584 = b0[divide(((min(v73, 69u) * 128u) + (v520 + v70)), 4u)];
            x3 = to_half(v584);
            float4 v600 = b0[divide(((min(v89, 69u) * 128u) + (v520 + v86)), 4u)];
            x4 = to_half(v600);
            float4 v616 = b0[divide(((min(v105, 69u) * 128u) + (v520 + v102)), 4u)];
            x5 = to_half(v616);
            float4 v632 = b0[divide(((min(v121, 69u) * 128u) + (v520 + v118)), 4u)];
            x6 = to_half(v632);
            float4 v648 = b0[divide(((min(v137, 69u) * 128u) + (v520 + v134)), 4u)];
            x7 = to_half(v648);
            float4 v662 = b1[divide((v153 + ((v520 + v151) * 64u)), 4u)];
            x8 = to_half(v662);
            float4 v676 = b1[divide((v168 + ((v520 + v166) * 64u)), 4u)];
            x9 = to_half(v676);
            float4 v690 = b1[divide((v183 + ((v520 + v181) * 64u)), 4u)];
            x10 = to_half(v690);
            float4 v704 = b1[divide((v198 + ((v520 + v196) * 64u)), 4u)];
            x11 = to_half(v704);
            float4 v718 = b1[divide((v213 + ((v520 + v211) * 64u)), 4u)];
            x12 = to_half(v718);
            float4 v732 = b1[divide((v228 + ((v520 + v226) * 64u)), 4u)];
            x13 = to_half(v732);
            float4 v746 = b1[divide((v243 + ((v520 + v241) * 64u)), 4u)];
            x14 = to_half(v746);
            float4 v760 = b1[divide((v258 + ((v520 + v256) * 64u)), 4u)];
            x15 = to_half(v760);
        }
        Left v768 = load_matrix<Left, true>(&a0[(v145 * 18u)], 18u);
        Left v774 = load_matrix<Left, true>(&a0[((v145 + 16u) * 18u)], 18u);
        Right v779 = load_matrix<Right, true>(&a1[divide(v268, 4u)], 18u);
        x16 = multiply(v768, v779, x16);
        x18 = multiply(v774, v779, x18);
        Right v789 = load_matrix<Right, true>(&a1[divide((v268 + 16u), 4u)], 18u);
        x17 = multiply(v768, v789, x17);
        x19 = multiply(v774, v789, x19);
        Left v799 = load_matrix<Left, true>(&a0[((v145 * 18u) + 4u)], 18u);
        Left v806 = load_matrix<Left, true>(&a0[(((v145 + 16u) * 18u) + 4u)], 18u);
        Right v812 = load_matrix<Right, true>(&a1[(divide(v268, 4u) + 288u)], 18u);
        x16 = multiply(v799, v812, x16);
        x18 = multiply(v806, v812, x18);
        Right v823 = load_matrix<Right, true>(&a1[(divide((v268 + 16u), 4u) + 288u)], 18u);
        x17 = multiply(v799, v823, x17);
        x19 = multiply(v806, v823, x19);
        Left v833 = load_matrix<Left, true>(&a0[((v145 * 18u) + 8u)], 18u);
        Left v840 = load_matrix<Left, true>(&a0[(((v145 + 16u) * 18u) + 8u)], 18u);
        Right v846 = load_matrix<Right, true>(&a1[(divide(v268, 4u) + 576u)], 18u);
        x16 = multiply(v833, v846, x16);
        x18 = multiply(v840, v846, x18);
        Right v857 = load_matrix<Right, true>(&a1[(divide((v268 + 16u), 4u) + 576u)], 18u);
        x17 = multiply(v833, v857, x17);
        x19 = multiply(v840, v857, x19);
        Left v867 = load_matrix<Left, true>(&a0[((v145 * 18u) + 12u)], 18u);
        Left v874 = load_matrix<Left, true>(&a0[(((v145 + 16u) * 18u) + 12u)], 18u);
        Right v880 = load_matrix<Right, true>(&a1[(divide(v268, 4u) + 864u)], 18u);
        x16 = multiply(v867, v880, x16);
        x18 = multiply(v874, v880, x18);
        Right v891 = load_matrix<Right, true>(&a1[(divide((v268 + 16u), 4u) + 864u)], 18u);
        x17 = multiply(v867, v891, x17);
        x19 = multiply(v874, v891, x19);
        __syncthreads();
    }
    unsigned v897 = (v14 * 320u);
    store_matrix(&a2[v897], 20u, x16);
    unsigned v899 = (v7 + v145);
    __syncthreads();
    for (unsigned i1 = remainder_of(threadIdx.x, 32u); i1 < 256u; i1 += 32u) {
        unsigned v911 = (v899 + divide(i1, 16u));
        unsigned v914 = (v268 + remainder_of(i1, 16u));
        if ((v911 < 70u)) {
            float v926 = a2[((v897 + (divide(i1, 16u) * 20u)) + remainder_of(i1, 16u))];
            float v939 = b2[v914];
            b3[((v911 * 64u) + v914)] = (v926 + v939);
        }
    }
    __syncthreads();
    store_matrix(&a2[v897], 20u, x17);
    unsigned v945 = (v7 + v145);
    unsigned v948 = (v268 + 16u);
    __syncthreads();
    for (unsigned i2 = remainder_of(threadIdx.x, 32u); i2 < 256u; i2 += 32u) {
        unsigned v958 = (v945 + divide(i2, 16u));
        unsigned v961 = (v948 + remainder_of(i2, 16u));
        if ((v958 < 70u)) {
            float v973 = a2[((v897 + (divide(i2, 16u) * 20u)) + remainder_of(i2, 16u))];
            float v986 = b2[v961];
            b3[((v958 * 64u) + v961)] = (v973 + v986);
        }
    }
    __syncthreads();
    store_matrix(&a2[v897], 20u, x18);
    unsigned v994 = ((v7 + v145) + 16u);
    __syncthreads();
    for (unsigned i3 = remainder_of(threadIdx.x, 32u); i3 < 256u; i3 += 32u) {
        unsigned v1005 = (v994 + divide(i3, 16u));
        unsigned v1008 = (v268 + remainder_of(i3, 16u));
        if ((v1005 < 70u)) {
            float v1020 = a2[((v897 + (divide(i3, 16u) * 20u)) + remainder_of(i3, 16u))];
            float v1033 = b2[v1008];
            b3[((v1005 * 64u) + v1008)] = (v1020 + v1033);
        }
    }
    __syncthreads();
    store_matrix(&a2[v897], 20u, x19);
    unsigned v1041 = ((v7 + v145) + 16u);
    unsigned v1043 = (v268 + 16u);
    __syncthreads();
    for (unsigned i4 = remainder_of(threadIdx.x, 32u); i4 < 256u; i4 += 32u) {
        unsigned v1053 = (v1041 + divide(i4, 16u));
        unsigned v1056 = (v1043 + remainder_of(i4, 16u));
        if ((v1053 < 70u)) {
            float v1068 = a2[((v897 + (divide(i4, 16u) * 20u)) + remainder_of(i4, 16u))];
            float v1081 = b2[v1056];
            b3[((v1053 * 64u) + v1056)] = (v1068 + v1081);
        }
    }
    __syncthreads();
}
