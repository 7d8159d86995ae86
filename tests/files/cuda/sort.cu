// A bitonic sort of a row in the workgroup's memory; the smaller index wins among equals.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: f32[3, 9], %2: i32[3, 9] = sort %0 {count=9, descending}
//   output "y" %1
//   output "i" %2
// }

// 3 blocks of 256 threads
// sort: parts
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
extern "C" __global__ void __launch_bounds__(256) k_sort_parts(const float* b0, float* b1, int* b2, unsigned* status) {
    __shared__ unsigned a0[1024];
    __shared__ unsigned a1[1024];
    let_next_start();
    for (unsigned i0 = threadIdx.x; i0 < 1024u; i0 += 256u) {
        unsigned x0 = 4294967295u;
        unsigned x1 = 4294967295u;
        if ((i0 < 400u)) {
            x1 = i0;
            if ((x1 < 4294967295u)) {
                float v25 = b0[((blockIdx.x * 400u) + x1)];
                unsigned v26 = (unsigned)__float_as_int(v25);
                x0 = (~((((unsigned)__float_as_int(v25) & 2147483647u) > 2139095040u) ? 4294967295u : (((v26 & 2147483647u) == 0u) ? 2147483648u : ((v26 >= 2147483648u) ? (~v26) : (v26 | 2147483648u)))));
            }
        }
        a0[i0] = x0;
        a1[i0] = x1;
    }
    __syncthreads();
    for (unsigned i1 = 1u; i1 < 11u; i1 += 1u) {
        unsigned v54 = (1u << ((unsigned)(i1) & 31u));
        for (unsigned i2 = 0u; i2 < i1; i2 += 1u) {
            unsigned v60 = ((v54 >> ((unsigned)(1u) & 31u)) >> ((unsigned)(i2) & 31u));
            for (unsigned i3 = threadIdx.x; i3 < 512u; i3 += 256u) {
                unsigned v67 = (i3 & (v60 - 1u));
                unsigned v71 = (((i3 - v67) * 2u) + v67);
                unsigned v72 = (v71 + v60);
                unsigned v73 = a0[v71];
                unsigned v74 = a1[v71];
                unsigned v75 = a0[v72];
                unsigned v76 = a1[v72];
                if ((((v75 < v73) || ((v75 == v73) && (v76 < v74))) == ((v71 & v54) == 0u))) {
                    a0[v71] = v75;
                    a1[v71] = v76;
                    a0[v72] = v73;
                    a1[v72] = v74;
                }
            }
            __syncthreads();
        }
    }
    wait_for_others();
    for (unsigned i4 = threadIdx.x; i4 < 9u; i4 += 256u) {
        unsigned v89 = a1[i4];
        unsigned v92 = ((blockIdx.x * 9u) + i4);
        float v99 = b0[((blockIdx.x * 400u) + v89)];
        b1[v92] = v99;
        b2[v92] = (int)(v89);
    }
}
