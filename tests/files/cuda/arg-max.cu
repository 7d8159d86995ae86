// The first of equal elements; NaN counts as the largest.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: i32[3] = argmax %0 {axis=1}
//   output "y" %1
// }

// 3 blocks of 256 threads
// argmax
extern "C" __global__ void __launch_bounds__(256) kernel_0_0(const float* b0, int* b1, unsigned* status) {
    __shared__ unsigned a0[256];
    __shared__ unsigned a1[256];
    unsigned v6 = (blockIdx.x * 400u);
    unsigned x0 = 0u;
    unsigned x1 = 400u;
    for (unsigned i0 = threadIdx.x; i0 < 400u; i0 += 256u) {
        float v13 = b0[(v6 + i0)];
        unsigned v14 = (unsigned)__float_as_int(v13);
        unsigned v16 = (v14 & 2147483647u);
        unsigned v30 = ((v16 > 2139095040u) ? 4294967295u : ((v16 == 0u) ? 2147483648u : ((v14 >= 2147483648u) ? (~v14) : (v14 | 2147483648u))));
        if (((i0 == threadIdx.x) || (v30 > x0))) {
            x0 = v30;
            x1 = i0;
        }
    }
    unsigned v36 = x1;
    a0[threadIdx.x] = x0;
    a1[threadIdx.x] = v36;
    __syncthreads();
    if ((threadIdx.x < 128u)) {
        unsigned v41 = a0[(threadIdx.x + 128u)];
        unsigned v44 = a1[(threadIdx.x + 128u)];
        unsigned v45 = a0[threadIdx.x];
        unsigned v46 = a1[threadIdx.x];
        if (((v41 > v45) || ((v41 == v45) && (v44 < v46)))) {
            a0[threadIdx.x] = v41;
            a1[threadIdx.x] = v44;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 64u)) {
        unsigned v56 = a0[(threadIdx.x + 64u)];
        unsigned v59 = a1[(threadIdx.x + 64u)];
        unsigned v60 = a0[threadIdx.x];
        unsigned v61 = a1[threadIdx.x];
        if (((v56 > v60) || ((v56 == v60) && (v59 < v61)))) {
            a0[threadIdx.x] = v56;
            a1[threadIdx.x] = v59;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 32u)) {
        unsigned v71 = a0[(threadIdx.x + 32u)];
        unsigned v74 = a1[(threadIdx.x + 32u)];
        unsigned v75 = a0[threadIdx.x];
        unsigned v76 = a1[threadIdx.x];
        if (((v71 > v75) || ((v71 == v75) && (v74 < v76)))) {
            a0[threadIdx.x] = v71;
            a1[threadIdx.x] = v74;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 16u)) {
        unsigned v86 = a0[(threadIdx.x + 16u)];
        unsigned v89 = a1[(threadIdx.x + 16u)];
        unsigned v90 = a0[threadIdx.x];
        unsigned v91 = a1[threadIdx.x];
        if (((v86 > v90) || ((v86 == v90) && (v89 < v91)))) {
            a0[threadIdx.x] = v86;
            a1[threadIdx.x] = v89;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 8u)) {
        unsigned v101 = a0[(threadIdx.x + 8u)];
        unsigned v104 = a1[(threadIdx.x + 8u)];
        unsigned v105 = a0[threadIdx.x];
        unsigned v106 = a1[threadIdx.x];
        if (((v101 > v105) || ((v101 == v105) && (v104 < v106)))) {
            a0[threadIdx.x] = v101;
            a1[threadIdx.x] = v104;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 4u)) {
        unsigned v116 = a0[(threadIdx.x + 4u)];
        unsigned v119 = a1[(threadIdx.x + 4u)];
        unsigned v120 = a0[threadIdx.x];
        unsigned v121 = a1[threadIdx.x];
        if (((v116 > v120) || ((v116 == v120) && (v119 < v121)))) {
            a0[threadIdx.x] = v116;
            a1[threadIdx.x] = v119;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 2u)) {
        unsigned v131 = a0[(threadIdx.x + 2u)];
        unsigned v134 = a1[(threadIdx.x + 2u)];
        unsigned v135 = a0[threadIdx.x];
        unsigned v136 = a1[threadIdx.x];
        if (((v131 > v135) || ((v131 == v135) && (v134 < v136)))) {
            a0[threadIdx.x] = v131;
            a1[threadIdx.x] = v134;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 1u)) {
        unsigned v146 = a0[(threadIdx.x + 1u)];
        unsigned v149 = a1[(threadIdx.x + 1u)];
        unsigned v150 = a0[threadIdx.x];
        unsigned v151 = a1[threadIdx.x];
        if (((v146 > v150) || ((v146 == v150) && (v149 < v151)))) {
            a0[threadIdx.x] = v146;
            a1[threadIdx.x] = v149;
        }
    }
    __syncthreads();
    if ((threadIdx.x == 0u)) {
        unsigned v160 = a1[0u];
        b1[blockIdx.x] = (int)(v160);
    }
}
