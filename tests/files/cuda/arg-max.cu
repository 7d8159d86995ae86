// The first of equal elements; NaN counts as the largest.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: i32[3] = argmax %0 {axis=1}
//   output "y" %1
// }

// 3 blocks of 1024 threads
// argmax
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
extern "C" __global__ void __launch_bounds__(1024) k_argmax(const float* b0, int* b1, unsigned* status) {
    __shared__ unsigned a0[1024];
    __shared__ unsigned a1[1024];
    let_next_start();
    unsigned v6 = (blockIdx.x * 400u);
    unsigned x0 = 0u;
    unsigned x1 = 400u;
    for (unsigned i0 = threadIdx.x; i0 < 400u; i0 += 8192u) {
        unsigned v16 = min(i0, 399u);
        float v19 = b0[(v6 + v16)];
        unsigned v24 = min((i0 + 1024u), 399u);
        float v27 = b0[(v6 + v24)];
        unsigned v32 = min((i0 + 2048u), 399u);
        float v35 = b0[(v6 + v32)];
        unsigned v40 = min((i0 + 3072u), 399u);
        float v43 = b0[(v6 + v40)];
        unsigned v48 = min((i0 + 4096u), 399u);
        float v51 = b0[(v6 + v48)];
        unsigned v56 = min((i0 + 5120u), 399u);
        float v59 = b0[(v6 + v56)];
        unsigned v64 = min((i0 + 6144u), 399u);
        float v67 = b0[(v6 + v64)];
        unsigned v72 = min((i0 + 7168u), 399u);
        float v75 = b0[(v6 + v72)];
        unsigned v76 = (unsigned)__float_as_int(v19);
        unsigned v95 = ((((unsigned)__float_as_int(v19) & 2147483647u) > 2139095040u) ? 4294967295u : (((v76 & 2147483647u) == 0u) ? 2147483648u : ((v76 >= 2147483648u) ? (~v76) : (v76 | 2147483648u))));
        if (((v16 == threadIdx.x) || (v95 > x0))) {
            x0 = v95;
            x1 = v16;
        }
        unsigned v100 = (unsigned)__float_as_int(v27);
        unsigned v119 = ((((unsigned)__float_as_int(v27) & 2147483647u) > 2139095040u) ? 4294967295u : (((v100 & 2147483647u) == 0u) ? 2147483648u : ((v100 >= 2147483648u) ? (~v100) : (v100 | 2147483648u))));
        if (((v24 == threadIdx.x) || (v119 > x0))) {
            x0 = v119;
            x1 = v24;
        }
        unsigned v124 = (unsigned)__float_as_int(v35);
        unsigned v143 = ((((unsigned)__float_as_int(v35) & 2147483647u) > 2139095040u) ? 4294967295u : (((v124 & 2147483647u) == 0u) ? 2147483648u : ((v124 >= 2147483648u) ? (~v124) : (v124 | 2147483648u))));
        if (((v32 == threadIdx.x) || (v143 > x0))) {
            x0 = v143;
            x1 = v32;
        }
        unsigned v148 = (unsigned)__float_as_int(v43);
        unsigned v167 = ((((unsigned)__float_as_int(v43) & 2147483647u) > 2139095040u) ? 4294967295u : (((v148 & 2147483647u) == 0u) ? 2147483648u : ((v148 >= 2147483648u) ? (~v148) : (v148 | 2147483648u))));
        if (((v40 == threadIdx.x) || (v167 > x0))) {
            x0 = v167;
            x1 = v40;
        }
        unsigned v172 = (unsigned)__float_as_int(v51);
        unsigned v191 = ((((unsigned)__float_as_int(v51) & 2147483647u) > 2139095040u) ? 4294967295u : (((v172 & 2147483647u) == 0u) ? 2147483648u : ((v172 >= 2147483648u) ? (~v172) : (v172 | 2147483648u))));
        if (((v48 == threadIdx.x) || (v191 > x0))) {
            x0 = v191;
            x1 = v48;
        }
        unsigned v196 = (unsigned)__float_as_int(v59);
        unsigned v215 = ((((unsigned)__float_as_int(v59) & 2147483647u) > 2139095040u) ? 4294967295u : (((v196 & 2147483647u) == 0u) ? 2147483648u : ((v196 >= 2147483648u) ? (~v196) : (v196 | 2147483648u))));
        if (((v56 == threadIdx.x) || (v215 > x0))) {
            x0 = v215;
            x1 = v56;
        }
        unsigned v220 = (unsigned)__float_as_int(v67);
        unsigned v239 = ((((unsigned)__float_as_int(v67) & 2147483647u) > 2139095040u) ? 4294967295u : (((v220 & 2147483647u) == 0u) ? 2147483648u : ((v220 >= 2147483648u) ? (~v220) : (v220 | 2147483648u))));
        if (((v64 == threadIdx.x) || (v239 > x0))) {
            x0 = v239;
            x1 = v64;
        }
        unsigned v244 = (unsigned)__float_as_int(v75);
        unsigned v263 = ((((unsigned)__float_as_int(v75) & 2147483647u) > 2139095040u) ? 4294967295u : (((v244 & 2147483647u) == 0u) ? 2147483648u : ((v244 >= 2147483648u) ? (~v244) : (v244 | 2147483648u))));
        if (((v72 == threadIdx.x) || (v263 > x0))) {
            x0 = v263;
            x1 = v72;
        }
    }
    unsigned v269 = x1;
    a0[threadIdx.x] = x0;
    a1[threadIdx.x] = v269;
    __syncthreads();
    if ((threadIdx.x < 512u)) {
        unsigned v274 = a0[(threadIdx.x + 512u)];
        unsigned v277 = a1[(threadIdx.x + 512u)];
        unsigned v278 = a0[threadIdx.x];
        unsigned v279 = a1[threadIdx.x];
        if (((v274 > v278) || ((v274 == v278) && (v277 < v279)))) {
            a0[threadIdx.x] = v274;
            a1[threadIdx.x] = v277;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 256u)) {
        unsigned v289 = a0[(threadIdx.x + 256u)];
        unsigned v292 = a1[(threadIdx.x + 256u)];
        unsigned v293 = a0[threadIdx.x];
        unsigned v294 = a1[threadIdx.x];
        if (((v289 > v293) || ((v289 == v293) && (v292 < v294)))) {
            a0[threadIdx.x] = v289;
            a1[threadIdx.x] = v292;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 128u)) {
        unsigned v304 = a0[(threadIdx.x + 128u)];
        unsigned v307 = a1[(threadIdx.x + 128u)];
        unsigned v308 = a0[threadIdx.x];
        unsigned v309 = a1[threadIdx.x];
        if (((v304 > v308) || ((v304 == v308) && (v307 < v309)))) {
            a0[threadIdx.x] = v304;
            a1[threadIdx.x] = v307;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 64u)) {
        unsigned v319 = a0[(threadIdx.x + 64u)];
        unsigned v322 = a1[(threadIdx.x + 64u)];
        unsigned v323 = a0[threadIdx.x];
        unsigned v324 = a1[threadIdx.x];
        if (((v319 > v323) || ((v319 == v323) && (v322 < v324)))) {
            a0[threadIdx.x] = v319;
            a1[threadIdx.x] = v322;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 32u)) {
        unsigned v334 = a0[(threadIdx.x + 32u)];
        unsigned v337 = a1[(threadIdx.x + 32u)];
        unsigned v338 = a0[threadIdx.x];
        unsigned v339 = a1[threadIdx.x];
        if (((v334 > v338) || ((v334 == v338) && (v337 < v339)))) {
            a0[threadIdx.x] = v334;
            a1[threadIdx.x] = v337;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 16u)) {
        unsigned v349 = a0[(threadIdx.x + 16u)];
        unsigned v352 = a1[(threadIdx.x + 16u)];
        unsigned v353 = a0[threadIdx.x];
        unsigned v354 = a1[threadIdx.x];
        if (((v349 > v353) || ((v349 == v353) && (v352 < v354)))) {
            a0[threadIdx.x] = v349;
            a1[threadIdx.x] = v352;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 8u)) {
        unsigned v364 = a0[(threadIdx.x + 8u)];
        unsigned v367 = a1[(threadIdx.x + 8u)];
        unsigned v368 = a0[threadIdx.x];
        unsigned v369 = a1[threadIdx.x];
        if (((v364 > v368) || ((v364 == v368) && (v367 < v369)))) {
            a0[threadIdx.x] = v364;
            a1[threadIdx.x] = v367;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 4u)) {
        unsigned v379 = a0[(threadIdx.x + 4u)];
        unsigned v382 = a1[(threadIdx.x + 4u)];
        unsigned v383 = a0[threadIdx.x];
        unsigned v384 = a1[threadIdx.x];
        if (((v379 > v383) || ((v379 == v383) && (v382 < v384)))) {
            a0[threadIdx.x] = v379;
            a1[threadIdx.x] = v382;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 2u)) {
        unsigned v394 = a0[(threadIdx.x + 2u)];
        unsigned v397 = a1[(threadIdx.x + 2u)];
        unsigned v398 = a0[threadIdx.x];
        unsigned v399 = a1[threadIdx.x];
        if (((v394 > v398) || ((v394 == v398) && (v397 < v399)))) {
            a0[threadIdx.x] = v394;
            a1[threadIdx.x] = v397;
        }
    }
    __syncthreads();
    if ((threadIdx.x < 1u)) {
        unsigned v409 = a0[(threadIdx.x + 1u)];
        unsigned v412 = a1[(threadIdx.x + 1u)];
        unsigned v413 = a0[threadIdx.x];
        unsigned v414 = a1[threadIdx.x];
        if (((v409 > v413) || ((v409 == v413) && (v412 < v414)))) {
            a0[threadIdx.x] = v409;
            a1[threadIdx.x] = v412;
        }
    }
    __syncthreads();
    wait_for_others();
    if ((threadIdx.x == 0u)) {
        unsigned v423 = a1[0u];
        b1[blockIdx.x] = (int)(v423);
    }
}
