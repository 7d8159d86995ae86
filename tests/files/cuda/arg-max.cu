// The first of equal elements; NaN counts as the largest.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: i32[3] = argmax %0 {axis=1}
//   output "y" %1
// }

// 3 blocks of 256 threads
// argmax
extern "C" __global__ void __launch_bounds__(256) k_argmax(const float* b0, int* b1, unsigned* status) {
    __shared__ unsigned a0[256];
    __shared__ unsigned a1[256];
    unsigned v6 = (blockIdx.x * 400u);
    unsigned x0 = 0u;
    unsigned x1 = 400u;
    for (unsigned i0 = threadIdx.x; i0 < 400u; i0 += 256u) {
        float v13 = b0[(v6 + i0)];
        unsigned v14 = (unsigned)__float_as_int(v13);
        unsigned v33 = ((((unsigned)__float_as_int(v13) & 2147483647u) > 2139095040u) ? 4294967295u : (((v14 & 2147483647u) == 0u) ? 2147483648u : ((v14 >= 2147483648u) ? (~v14) : (v14 | 2147483648u))));
        if (((i0 == threadIdx.x) || (v33 > x0))) {
            x0 = v33;
            x1 = i0;
        }
    }
    unsigned v39 = x1;
    a0[threadIdx.x] = x0;
    a1[threadIdx.x] = v39;
    __syncthreads();
    if ((threadIdx.x < 128u)) {
        unsigned v44 = a0[(threadIdx.x + 128u)];
        unsigned v47 = a1[(threadIdx.x + 128u)];
        unsigned v48 = a0[threadIdx.x];
        unsigned v49 = a1[threadIdx.x];
        if (((v44 > v48) || ((v44 == v48) && (v47 < v49)))) {
            a0[threadIdx.x] = v44;
            a1[threadIdx.x] = v47;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 64u)) {
        unsigned v59 = a0[(threadIdx.x + 64u)];
        unsigned v62 = a1[(threadIdx.x + 64u)];
        unsigned v63 = a0[threadIdx.x];
        unsigned v64 = a1[threadIdx.x];
        if (((v59 > v63) || ((v59 == v63) && (v62 < v64)))) {
            a0[threadIdx.x] = v59;
            a1[threadIdx.x] = v62;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 32u)) {
        unsigned v74 = a0[(threadIdx.x + 32u)];
        unsigned v77 = a1[(threadIdx.x + 32u)];
        unsigned v78 = a0[threadIdx.x];
        unsigned v79 = a1[threadIdx.x];
        if (((v74 > v78) || ((v74 == v78) && (v77 < v79)))) {
            a0[threadIdx.x] = v74;
            a1[threadIdx.x] = v77;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 16u)) {
        unsigned v89 = a0[(threadIdx.x + 16u)];
        unsigned v92 = a1[(threadIdx.x + 16u)];
        unsigned v93 = a0[threadIdx.x];
        unsigned v94 = a1[threadIdx.x];
        if (((v89 > v93) || ((v89 == v93) && (v92 < v94)))) {
            a0[threadIdx.x] = v89;
            a1[threadIdx.x] = v92;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 8u)) {
        unsigned v104 = a0[(threadIdx.x + 8u)];
        unsigned v107 = a1[(threadIdx.x + 8u)];
        unsigned v108 = a0[threadIdx.x];
        unsigned v109 = a1[threadIdx.x];
        if (((v104 > v108) || ((v104 == v108) && (v107 < v109)))) {
            a0[threadIdx.x] = v104;
            a1[threadIdx.x] = v107;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 4u)) {
        unsigned v119 = a0[(threadIdx.x + 4u)];
        unsigned v122 = a1[(threadIdx.x + 4u)];
        unsigned v123 = a0[threadIdx.x];
        unsigned v124 = a1[threadIdx.x];
        if (((v119 > v123) || ((v119 == v123) && (v122 < v124)))) {
            a0[threadIdx.x] = v119;
            a1[threadIdx.x] = v122;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 2u)) {
        unsigned v134 = a0[(threadIdx.x + 2u)];
        unsigned v137 = a1[(threadIdx.x + 2u)];
        unsigned v138 = a0[threadIdx.x];
        unsigned v139 = a1[threadIdx.x];
        if (((v134 > v138) || ((v134 == v138) && (v137 < v139)))) {
            a0[threadIdx.x] = v134;
            a1[threadIdx.x] = v137;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 1u)) {
        unsigned v149 = a0[(threadIdx.x + 1u)];
        unsigned v152 = a1[(threadIdx.x + 1u)];
        unsigned v153 = a0[threadIdx.x];
        unsigned v154 = a1[threadIdx.x];
        if (((v149 > v153) || ((v149 == v153) && (v152 < v154)))) {
            a0[threadIdx.x] = v149;
            a1[threadIdx.x] = v152;
        }
    }
    __syncthreads();
    if ((threadIdx.x == 0u)) {
        unsigned v163 = a1[0u];
        b1[blockIdx.x] = (int)(v163);
    }
}
