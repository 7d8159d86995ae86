// The first of equal elements; NaN counts as the largest.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: i32[3] = argmax %0 {axis=1}
//   output "y" %1
// }

// 3 blocks of 1024 threads
// argmax
extern "C" __global__ void __launch_bounds__(1024) k_argmax(const float* b0, int* b1, unsigned* status) {
    __shared__ unsigned a0[1024];
    __shared__ unsigned a1[1024];
    unsigned v6 = (blockIdx.x * 400u);
    unsigned x0 = 0u;
    unsigned x1 = 400u;
    for (unsigned i0 = threadIdx.x; i0 < 400u; i0 += 8192u) {
        float v17 = b0[(v6 + i0)];
        unsigned v22 = min((i0 + 1024u), 399u);
        float v25 = b0[(v6 + v22)];
        unsigned v30 = min((i0 + 2048u), 399u);
        float v33 = b0[(v6 + v30)];
        unsigned v38 = min((i0 + 3072u), 399u);
        float v41 = b0[(v6 + v38)];
        unsigned v46 = min((i0 + 4096u), 399u);
        float v49 = b0[(v6 + v46)];
        unsigned v54 = min((i0 + 5120u), 399u);
        float v57 = b0[(v6 + v54)];
        unsigned v62 = min((i0 + 6144u), 399u);
        float v65 = b0[(v6 + v62)];
        unsigned v70 = min((i0 + 7168u), 399u);
        float v73 = b0[(v6 + v70)];
        unsigned v74 = (unsigned)__float_as_int(v17);
        unsigned v93 = ((((unsigned)__float_as_int(v17) & 2147483647u) > 2139095040u) ? 4294967295u : (((v74 & 2147483647u) == 0u) ? 2147483648u : ((v74 >= 2147483648u) ? (~v74) : (v74 | 2147483648u))));
        if (((i0 == threadIdx.x) || (v93 > x0))) {
            x0 = v93;
            x1 = i0;
        }
        unsigned v98 = (unsigned)__float_as_int(v25);
        unsigned v117 = ((((unsigned)__float_as_int(v25) & 2147483647u) > 2139095040u) ? 4294967295u : (((v98 & 2147483647u) == 0u) ? 2147483648u : ((v98 >= 2147483648u) ? (~v98) : (v98 | 2147483648u))));
        if (((v22 == threadIdx.x) || (v117 > x0))) {
            x0 = v117;
            x1 = v22;
        }
        unsigned v122 = (unsigned)__float_as_int(v33);
        unsigned v141 = ((((unsigned)__float_as_int(v33) & 2147483647u) > 2139095040u) ? 4294967295u : (((v122 & 2147483647u) == 0u) ? 2147483648u : ((v122 >= 2147483648u) ? (~v122) : (v122 | 2147483648u))));
        if (((v30 == threadIdx.x) || (v141 > x0))) {
            x0 = v141;
            x1 = v30;
        }
        unsigned v146 = (unsigned)__float_as_int(v41);
        unsigned v165 = ((((unsigned)__float_as_int(v41) & 2147483647u) > 2139095040u) ? 4294967295u : (((v146 & 2147483647u) == 0u) ? 2147483648u : ((v146 >= 2147483648u) ? (~v146) : (v146 | 2147483648u))));
        if (((v38 == threadIdx.x) || (v165 > x0))) {
            x0 = v165;
            x1 = v38;
        }
        unsigned v170 = (unsigned)__float_as_int(v49);
        unsigned v189 = ((((unsigned)__float_as_int(v49) & 2147483647u) > 2139095040u) ? 4294967295u : (((v170 & 2147483647u) == 0u) ? 2147483648u : ((v170 >= 2147483648u) ? (~v170) : (v170 | 2147483648u))));
        if (((v46 == threadIdx.x) || (v189 > x0))) {
            x0 = v189;
            x1 = v46;
        }
        unsigned v194 = (unsigned)__float_as_int(v57);
        unsigned v213 = ((((unsigned)__float_as_int(v57) & 2147483647u) > 2139095040u) ? 4294967295u : (((v194 & 2147483647u) == 0u) ? 2147483648u : ((v194 >= 2147483648u) ? (~v194) : (v194 | 2147483648u))));
        if (((v54 == threadIdx.x) || (v213 > x0))) {
            x0 = v213;
            x1 = v54;
        }
        unsigned v218 = (unsigned)__float_as_int(v65);
        unsigned v237 = ((((unsigned)__float_as_int(v65) & 2147483647u) > 2139095040u) ? 4294967295u : (((v218 & 2147483647u) == 0u) ? 2147483648u : ((v218 >= 2147483648u) ? (~v218) : (v218 | 2147483648u))));
        if (((v62 == threadIdx.x) || (v237 > x0))) {
            x0 = v237;
            x1 = v62;
        }
        unsigned v242 = (unsigned)__float_as_int(v73);
        unsigned v261 = ((((unsigned)__float_as_int(v73) & 2147483647u) > 2139095040u) ? 4294967295u : (((v242 & 2147483647u) == 0u) ? 2147483648u : ((v242 >= 2147483648u) ? (~v242) : (v242 | 2147483648u))));
        if (((v70 == threadIdx.x) || (v261 > x0))) {
            x0 = v261;
            x1 = v70;
        }
    }
    unsigned v267 = x1;
    a0[threadIdx.x] = x0;
    a1[threadIdx.x] = v267;
    __syncthreads();
    if ((threadIdx.x < 512u)) {
        unsigned v272 = a0[(threadIdx.x + 512u)];
        unsigned v275 = a1[(threadIdx.x + 512u)];
        unsigned v276 = a0[threadIdx.x];
        unsigned v277 = a1[threadIdx.x];
        if (((v272 > v276) || ((v272 == v276) && (v275 < v277)))) {
            a0[threadIdx.x] = v272;
            a1[threadIdx.x] = v275;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 256u)) {
        unsigned v287 = a0[(threadIdx.x + 256u)];
        unsigned v290 = a1[(threadIdx.x + 256u)];
        unsigned v291 = a0[threadIdx.x];
        unsigned v292 = a1[threadIdx.x];
        if (((v287 > v291) || ((v287 == v291) && (v290 < v292)))) {
            a0[threadIdx.x] = v287;
            a1[threadIdx.x] = v290;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 128u)) {
        unsigned v302 = a0[(threadIdx.x + 128u)];
        unsigned v305 = a1[(threadIdx.x + 128u)];
        unsigned v306 = a0[threadIdx.x];
        unsigned v307 = a1[threadIdx.x];
        if (((v302 > v306) || ((v302 == v306) && (v305 < v307)))) {
            a0[threadIdx.x] = v302;
            a1[threadIdx.x] = v305;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 64u)) {
        unsigned v317 = a0[(threadIdx.x + 64u)];
        unsigned v320 = a1[(threadIdx.x + 64u)];
        unsigned v321 = a0[threadIdx.x];
        unsigned v322 = a1[threadIdx.x];
        if (((v317 > v321) || ((v317 == v321) && (v320 < v322)))) {
            a0[threadIdx.x] = v317;
            a1[threadIdx.x] = v320;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 32u)) {
        unsigned v332 = a0[(threadIdx.x + 32u)];
        unsigned v335 = a1[(threadIdx.x + 32u)];
        unsigned v336 = a0[threadIdx.x];
        unsigned v337 = a1[threadIdx.x];
        if (((v332 > v336) || ((v332 == v336) && (v335 < v337)))) {
            a0[threadIdx.x] = v332;
            a1[threadIdx.x] = v335;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 16u)) {
        unsigned v347 = a0[(threadIdx.x + 16u)];
        unsigned v350 = a1[(threadIdx.x + 16u)];
        unsigned v351 = a0[threadIdx.x];
        unsigned v352 = a1[threadIdx.x];
        if (((v347 > v351) || ((v347 == v351) && (v350 < v352)))) {
            a0[threadIdx.x] = v347;
            a1[threadIdx.x] = v350;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 8u)) {
        unsigned v362 = a0[(threadIdx.x + 8u)];
        unsigned v365 = a1[(threadIdx.x + 8u)];
        unsigned v366 = a0[threadIdx.x];
        unsigned v367 = a1[threadIdx.x];
        if (((v362 > v366) || ((v362 == v366) && (v365 < v367)))) {
            a0[threadIdx.x] = v362;
            a1[threadIdx.x] = v365;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 4u)) {
        unsigned v377 = a0[(threadIdx.x + 4u)];
        unsigned v380 = a1[(threadIdx.x + 4u)];
        unsigned v381 = a0[threadIdx.x];
        unsigned v382 = a1[threadIdx.x];
        if (((v377 > v381) || ((v377 == v381) && (v380 < v382)))) {
            a0[threadIdx.x] = v377;
            a1[threadIdx.x] = v380;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 2u)) {
        unsigned v392 = a0[(threadIdx.x + 2u)];
        unsigned v395 = a1[(threadIdx.x + 2u)];
        unsigned v396 = a0[threadIdx.x];
        unsigned v397 = a1[threadIdx.x];
        if (((v392 > v396) || ((v392 == v396) && (v395 < v397)))) {
            a0[threadIdx.x] = v392;
            a1[threadIdx.x] = v395;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 1u)) {
        unsigned v407 = a0[(threadIdx.x + 1u)];
        unsigned v410 = a1[(threadIdx.x + 1u)];
        unsigned v411 = a0[threadIdx.x];
        unsigned v412 = a1[threadIdx.x];
        if (((v407 > v411) || ((v407 == v411) && (v410 < v412)))) {
            a0[threadIdx.x] = v407;
            a1[threadIdx.x] = v410;
        }
    }
    __syncthreads();
    if ((threadIdx.x == 0u)) {
        unsigned v421 = a1[0u];
        b1[blockIdx.x] = (int)(v421);
    }
}
