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
struct Half2 {
    unsigned both;
};
struct __align__(8) Half4 {
    unsigned low, high;
};
struct __align__(16) Half8 {
    Half4 fours[2];
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
__device__ float2 to_vector(Half2 a) {
    return make_float2(half_of(a.both), half_of(a.both >> 16));
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
// Four blocks of 8 x 8, each lane with the address of a row of one: those of the first eight rows and of the
// others, or of the first eight columns and of the others, in turns.
template <bool DOWN, bool TURNED, class M, class Four>
__device__ M load_blocks(const Four* items, unsigned pitch) {
    unsigned lane = threadIdx.x % 32u, first = lane / 8u % 2u * 8u, second = lane / 16u * 8u;
    unsigned row = lane % 8u + (DOWN ? first : second), column = DOWN ? second : first;
    unsigned from = (unsigned)__cvta_generic_to_shared((const unsigned short*)(items + row * pitch) + column);
    M m;
    if (TURNED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.r[0]), "=r"(m.r[1]), "=r"(m.r[2]), "=r"(m.r[3]) : "r"(from));
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.r[0]), "=r"(m.r[1]), "=r"(m.r[2]), "=r"(m.r[3]) : "r"(from));
    }
    return m;
}
template <class M, bool BY_ROWS> struct Load;
template <bool BY_ROWS> struct Load<Left, BY_ROWS> {
    template <class Four> static __device__ Left matrix(const Four* items, unsigned pitch) {
        return load_blocks<BY_ROWS, !BY_ROWS, Left>(items, pitch);
    }
};
template <bool BY_ROWS> struct Load<Right, BY_ROWS> {
    template <class Four> static __device__ Right matrix(const Four* items, unsigned pitch) {
        return load_blocks<BY_ROWS, BY_ROWS, Right>(items, pitch);
    }
};
template <class M, bool BY_ROWS, class Four> __device__ M load_matrix(const Four* items, unsigned pitch) {
    return Load<M, BY_ROWS>::matrix(items, pitch);
}
// Of a lane's four terms, the first two are the first ones of a block of eight, the others of the next block.
template <class Four> __device__ Left left_of(Four upper, Four lower) {
    return {upper.low, lower.low, upper.high, lower.high};
}
template <class Four> __device__ Right right_of(Four first, Four second) {
    return {first.low, first.high, second.low, second.high};
}
template <int HALF> __device__ float4 half_of_sum(Sum c) {
    return make_float4(c.r[4 * HALF], c.r[4 * HALF + 1], c.r[4 * HALF + 2], c.r[4 * HALF + 3]);
}
__device__ Sum sum_of(float4 left, float4 right) {
    Sum c;
    c.r[0] = left.x, c.r[1] = left.y, c.r[2] = left.z, c.r[3] = left.w;
    c.r[4] = right.x, c.r[5] = right.y, c.r[6] = right.z, c.r[7] = right.w;
    return c;
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
extern "C" __global__ void __launch_bounds__(128) k_dot_70_x_64_with_epilogue(const float4* b0, const float4* b1, const float* b2, float* b3, unsigned* status) {
    __shared__ __align__(16) Half4 a0[1152];
    __shared__ __align__(16) Half4 a1[1152];
    __shared__ float a2[1280];
    let_next_start();
    unsigned v7 = (blockIdx.x * 64u);
    unsigned v14 = divide(threadIdx.x, 32u);
    unsigned v18 = remainder_of(threadIdx.x, 16u);
    unsigned v20 = divide(threadIdx.x, 16u);
    unsigned v22 = (v18 * 4u);
    unsigned v25 = (v7 + v20);
    unsigned v28 = ((v20 * 18u) + v18);
    Half4 x0 = to_half(splat((0.0f)));
    unsigned v31 = (threadIdx.x + 128u);
    unsigned v33 = remainder_of(v31, 16u);
    unsigned v35 = divide(v31, 16u);
    unsigned v37 = (v33 * 4u);
    unsigned v40 = (v7 + v35);
    unsigned v43 = ((v35 * 18u) + v33);
    Half4 x1 = to_half(splat((0.0f)));
    unsigned v46 = (threadIdx.x + 256u);
    unsigned v48 = remainder_of(v46, 16u);
    unsigned v50 = divide(v46, 16u);
    unsigned v52 = (v48 * 4u);
    unsigned v55 = (v7 + v50);
    unsigned v58 = ((v50 * 18u) + v48);
    Half4 x2 = to_half(splat((0.0f)));
    unsigned v61 = (threadIdx.x + 384u);
    unsigned v63 = remainder_of(v61, 16u);
    unsigned v65 = divide(v61, 16u);
    unsigned v67 = (v63 * 4u);
    unsigned v70 = (v7 + v65);
    unsigned v73 = ((v65 * 18u) + v63);
    Half4 x3 = to_half(splat((0.0f)));
    unsigned v76 = (threadIdx.x + 512u);
    unsigned v78 = remainder_of(v76, 16u);
    unsigned v80 = divide(v76, 16u);
    unsigned v82 = (v78 * 4u);
    unsigned v85 = (v7 + v80);
    unsigned v88 = ((v80 * 18u) + v78);
    Half4 x4 = to_half(splat((0.0f)));
    unsigned v91 = (threadIdx.x + 640u);
    unsigned v93 = remainder_of(v91, 16u);
    unsigned v95 = divide(v91, 16u);
    unsigned v97 = (v93 * 4u);
    unsigned v100 = (v7 + v95);
    unsigned v103 = ((v95 * 18u) + v93);
    Half4 x5 = to_half(splat((0.0f)));
    unsigned v106 = (threadIdx.x + 768u);
    unsigned v108 = remainder_of(v106, 16u);
    unsigned v110 = divide(v106, 16u);
    unsigned v112 = (v108 * 4u);
    unsigned v115 = (v7 + v110);
    unsigned v118 = ((v110 * 18u) + v108);
    Half4 x6 = to_half(splat((0.0f)));
    unsigned v121 = (threadIdx.x + 896u);
    unsigned v123 = remainder_of(v121, 16u);
    unsigned v125 = divide(v121, 16u);
    unsigned v127 = (v123 * 4u);
    unsigned v130 = (v7 + v125);
    unsigned v133 = ((v125 * 18u) + v123);
    Half4 x7 = to_half(splat((0.0f)));
    unsigned v138 = (divide(v14, 2u) * 32u);
    unsigned v142 = remainder_of(threadIdx.x, 16u);
    unsigned v144 = divide(threadIdx.x, 16u);
    unsigned v146 = (v142 * 4u);
    unsigned v151 = ((v144 * 18u) + v142);
    Half4 x8 = to_half(splat((0.0f)));
    unsigned v154 = (threadIdx.x + 128u);
    unsigned v156 = remainder_of(v154, 16u);
    unsigned v158 = divide(v154, 16u);
    unsigned v160 = (v156 * 4u);
    unsigned v165 = ((v158 * 18u) + v156);
    Half4 x9 = to_half(splat((0.0f)));
    unsigned v168 = (threadIdx.x + 256u);
    unsigned v170 = remainder_of(v168, 16u);
    unsigned v172 = divide(v168, 16u);
    unsigned v174 = (v170 * 4u);
    unsigned v179 = ((v172 * 18u) + v170);
    Half4 x10 = to_half(splat((0.0f)));
    unsigned v182 = (threadIdx.x + 384u);
    unsigned v184 = remainder_of(v182, 16u);
    unsigned v186 = divide(v182, 16u);
    unsigned v188 = (v184 * 4u);
    unsigned v193 = ((v186 * 18u) + v184);
    Half4 x11 = to_half(splat((0.0f)));
    unsigned v196 = (threadIdx.x + 512u);
    unsigned v198 = remainder_of(v196, 16u);
    unsigned v200 = divide(v196, 16u);
    unsigned v202 = (v198 * 4u);
    unsigned v207 = ((v200 * 18u) + v198);
    Half4 x12 = to_half(splat((0.0f)));
    unsigned v210 = (threadIdx.x + 640u);
    unsigned v212 = remainder_of(v210, 16u);
    unsigned v214 = divide(v210, 16u);
    unsigned v216 = (v212 * 4u);
    unsigned v221 = ((v214 * 18u) + v212);
    Half4 x13 = to_half(splat((0.0f)));
    unsigned v224 = (threadIdx.x + 768u);
    unsigned v226 = remainder_of(v224, 16u);
    unsigned v228 = divide(v224, 16u);
    unsigned v230 = (v226 * 4u);
    unsigned v235 = ((v228 * 18u) + v226);
    Half4 x14 = to_half(splat((0.0f)));
    unsigned v238 = (threadIdx.x + 896u);
    unsigned v240 = remainder_of(v238, 16u);
    unsigned v242 = divide(v238, 16u);
    unsigned v244 = (v240 * 4u);
    unsigned v249 = ((v242 * 18u) + v240);
    Half4 x15 = to_half(splat((0.0f)));
    unsigned v254 = (remainder_of(v14, 2u) * 32u);
    Sum x16 = Sum();
    Sum x17 = Sum();
    Sum x18 = Sum();
    Sum x19 = Sum();
    float4 v274 = b0[divide(((min(v25, 69u) * 128u) + v22), 4u)];
    x0 = to_half(v274);
    float4 v289 = b0[divide(((min(v40, 69u) * 128u) + v37), 4u)];
    x1 = to_half(v289);
    float4 v304 = b0[divide(((min(v55, 69u) * 128u) + v52), 4u)];
    x2 = to_half(v304);
    float4 v319 = b0[divide(((min(v70, 69u) * 128u) + v67), 4u)];
    x3 = to_half(v319);
    float4 v334 = b0[divide(((min(v85, 69u) * 128u) + v82), 4u)];
    x4 = to_half(v334);
    float4 v349 = b0[divide(((min(v100, 69u) * 128u) + v97), 4u)];
    x5 = to_half(v349);
    float4 v364 = b0[divide(((min(v115, 69u) * 128u) + v112), 4u)];
    x6 = to_half(v364);
    float4 v379 = b0[divide(((min(v130, 69u) * 128u) + v127), 4u)];
    x7 = to_half(v379);
    float4 v392 = b1[divide((v146 + (v144 * 64u)), 4u)];
    x8 = to_half(v392);
    float4 v405 = b1[divide((v160 + (v158 * 64u)), 4u)];
    x9 = to_half(v405);
    float4 v418 = b1[divide((v174 + (v172 * 64u)), 4u)];
    x10 = to_half(v418);
    float4 v431 = b1[divide((v188 + (v186 * 64u)), 4u)];
    x11 = to_half(v431);
    float4 v444 = b1[divide((v202 + (v200 * 64u)), 4u)];
    x12 = to_half(v444);
    float4 v457 = b1[divide((v216 + (v214 * 64u)), 4u)];
    x13 = to_half(v457);
    float4 v470 = b1[divide((v230 + (v228 * 64u)), 4u)];
    x14 = to_half(v470);
    float4 v483 = b1[divide((v244 + (v242 * 64u)), 4u)];
    x15 = to_half(v483);
    for (unsigned i0 = 0u; i0 < 128u; i0 += 64u) {
        a0[v28] = x0;
        a0[v43] = x1;
        a0[v58] = x2;
        a0[v73] = x3;
        a0[v88] = x4;
        a0[v103] = x5;
        a0[v118] = x6;
        a0[v133] = x7;
        a1[v151] = x8;
        a1[v165] = x9;
        a1[v179] = x10;
        a1[v193] = x11;
        a1[v207] = x12;
        a1[v221] = x13;
        a1[v235] = x14;
        a1[v249] = x15;
        __syncthreads();
        unsigned v506 = (i0 + 64u);
        if ((v506 < 128u)) {
            float4 v522 = b0[divide(((min(v25, 69u) * 128u) + (v506 + v22)), 4u)];
            x0 = to_half(v522);
            float4 v538 = b0[divide(((min(v40, 69u) * 128u) + (v506 + v37)), 4u)];
            x1 = to_half(v538);
            float4 v554 = b0[divide(((min(v55, 69u) * 128u) + (v506 + v52)), 4u)];
            x2 = to_half(v554);
            float4 v570 = b0[divide(((min(v70, 69u) * 128u) + (v506 + v67)), 4u)];
            x3 = to_half(v570);
            float4 v586 = b0[divide(((min(v85, 69u) * 128u) + (v506 + v82)), 4u)];
            x4 = to_half(v586);
            float4 v602 = b0[divide(((min(v100, 69u) * 128u) + (v506 + v97)), 4u)];
            x5 = to_half(v602);
            float4 v618 = b0[divide(((min(v115, 69u) * 128u) + (v506 + v112)), 4u)];
            x6 = to_half(v618);
            float4 v634 = b0[divide(((min(v130, 69u) * 128u) + (v506 + v127)), 4u)];
            x7 = to_half(v634);
            float4 v648 = b1[divide((v146 + ((v506 + v144) * 64u)), 4u)];
            x8 = to_half(v648);
            float4 v662 = b1[divide((v160 + ((v506 + v158) * 64u)), 4u)];
            x9 = to_half(v662);
            float4 v676 = b1[divide((v174 + ((v506 + v172) * 64u)), 4u)];
            x10 = to_half(v676);
            float4 v690 = b1[divide((v188 + ((v506 + v186) * 64u)), 4u)];
            x11 = to_half(v690);
            float4 v704 = b1[divide((v202 + ((v506 + v200) * 64u)), 4u)];
            x12 = to_half(v704);
            float4 v718 = b1[divide((v216 + ((v506 + v214) * 64u)), 4u)];
            x13 = to_half(v718);
            float4 v732 = b1[divide((v230 + ((v506 + v228) * 64u)), 4u)];
            x14 = to_half(v732);
            float4 v746 = b1[divide((v244 + ((v506 + v242) * 64u)), 4u)];
            x15 = to_half(v746);
        }
        Left v754 = load_matrix<Left, true>(&a0[(v138 * 18u)], 18u);
        Left v760 = load_matrix<Left, true>(&a0[((v138 + 16u) * 18u)], 18u);
        Right v765 = load_matrix<Right, true>(&a1[divide(v254, 4u)], 18u);
        x16 = multiply(v754, v765, x16);
        x18 = multiply(v760, v765, x18);
        Right v775 = load_matrix<Right, true>(&a1[divide((v254 + 16u), 4u)], 18u);
        x17 = multiply(v754, v775, x17);
        x19 = multiply(v760, v775, x19);
        Left v785 = load_matrix<Left, true>(&a0[((v138 * 18u) + 4u)], 18u);
        Left v792 = load_matrix<Left, true>(&a0[(((v138 + 16u) * 18u) + 4u)], 18u);
        Right v798 = load_matrix<Right, true>(&a1[(divide(v254, 4u) + 288u)], 18u);
        x16 = multiply(v785, v798, x16);
        x18 = multiply(v792, v798, x18);
        Right v809 = load_matrix<Right, true>(&a1[(divide((v254 + 16u), 4u) + 288u)], 18u);
        x17 = multiply(v785, v809, x17);
        x19 = multiply(v792, v809, x19);
        Left v819 = load_matrix<Left, true>(&a0[((v138 * 18u) + 8u)], 18u);
        Left v826 = load_matrix<Left, true>(&a0[(((v138 + 16u) * 18u) + 8u)], 18u);
        Right v832 = load_matrix<Right, true>(&a1[(divide(v254, 4u) + 576u)], 18u);
        x16 = multiply(v819, v832, x16);
        x18 = multiply(v826, v832, x18);
        Right v843 = load_matrix<Right, true>(&a1[(divide((v254 + 16u), 4u) + 576u)], 18u);
        x17 = multiply(v819, v843, x17);
        x19 = multiply(v826, v843, x19);
        Left v853 = load_matrix<Left, true>(&a0[((v138 * 18u) + 12u)], 18u);
        Left v860 = load_matrix<Left, true>(&a0[(((v138 + 16u) * 18u) + 12u)], 18u);
        Right v866 = load_matrix<Right, true>(&a1[(divide(v254, 4u) + 864u)], 18u);
        x16 = multiply(v853, v866, x16);
        x18 = multiply(v860, v866, x18);
        Right v877 = load_matrix<Right, true>(&a1[(divide((v254 + 16u), 4u) + 864u)], 18u);
        x17 = multiply(v853, v877, x17);
        x19 = multiply(v860, v877, x19);
        __syncthreads();
    }
    unsigned v883 = (v14 * 320u);
    store_matrix(&a2[v883], 20u, x16);
    unsigned v885 = (v7 + v138);
    __syncthreads();
    wait_for_others();
    for (unsigned i1 = remainder_of(threadIdx.x, 32u); i1 < 256u; i1 += 32u) {
        unsigned v897 = (v885 + divide(i1, 16u));
        unsigned v900 = (v254 + remainder_of(i1, 16u));
        if ((v897 < 70u)) {
            float v912 = a2[((v883 + (divide(i1, 16u) * 20u)) + remainder_of(i1, 16u))];
            float v925 = b2[v900];
            b3[((v897 * 64u) + v900)] = (v912 + v925);
        }
    }
    __syncthreads();
    store_matrix(&a2[v883], 20u, x17);
    unsigned v931 = (v7 + v138);
    unsigned v934 = (v254 + 16u);
    __syncthreads();
    for (unsigned i2 = remainder_of(threadIdx.x, 32u); i2 < 256u; i2 += 32u) {
        unsigned v944 = (v931 + divide(i2, 16u));
        unsigned v947 = (v934 + remainder_of(i2, 16u));
        if ((v944 < 70u)) {
            float v959 = a2[((v883 + (divide(i2, 16u) * 20u)) + remainder_of(i2, 16u))];
            float v972 = b2[v947];
            b3[((v944 * 64u) + v947)] = (v959 + v972);
        }
    }
    __syncthreads();
    store_matrix(&a2[v883], 20u, x18);
    unsigned v980 = ((v7 + v138) + 16u);
    __syncthreads();
    for (unsigned i3 = remainder_of(threadIdx.x, 32u); i3 < 256u; i3 += 32u) {
        unsigned v991 = (v980 + divide(i3, 16u));
        unsigned v994 = (v254 + remainder_of(i3, 16u));
        if ((v991 < 70u)) {
            float v1006 = a2[((v883 + (divide(i3, 16u) * 20u)) + remainder_of(i3, 16u))];
            float v1019 = b2[v994];
            b3[((v991 * 64u) + v994)] = (v1006 + v1019);
        }
    }
    __syncthreads();
    store_matrix(&a2[v883], 20u, x19);
    unsigned v1027 = ((v7 + v138) + 16u);
    unsigned v1029 = (v254 + 16u);
    __syncthreads();
    for (unsigned i4 = remainder_of(threadIdx.x, 32u); i4 < 256u; i4 += 32u) {
        unsigned v1039 = (v1027 + divide(i4, 16u));
        unsigned v1042 = (v1029 + remainder_of(i4, 16u));
        if ((v1039 < 70u)) {
            float v1054 = a2[((v883 + (divide(i4, 16u) * 20u)) + remainder_of(i4, 16u))];
            float v1067 = b2[v1042];
            b3[((v1039 * 64u) + v1042)] = (v1054 + v1067);
        }
    }
    __syncthreads();
}
