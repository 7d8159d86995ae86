// Many rows: parts of them are added up by workgroups, and the parts by another kernel.
// graph {
//   %0: f32[1024, 40] = input "x"
//   %1: f32[40] = sum %0 {axes=[0]}
//   output "y" %1
// }

// 128 blocks of 256 threads
// reduce [1024 x 40]
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
extern "C" __global__ void __launch_bounds__(256) k_reduce_1024_x_40(const float* b0, float* b1, unsigned* status) {
    __shared__ float a0[256];
    let_next_start();
    unsigned v2 = remainder_of(threadIdx.x, 64u);
    unsigned v5 = divide(threadIdx.x, 64u);
    unsigned v9 = min(v2, 39u);
    bool v11 = (v2 < 40u);
    float x0 = (0.0f);
    for (unsigned i0 = 0u; i0 < 2u; i0 += 2u) {
        float v44 = b0[((((((blockIdx.x * 2u) + i0) * 4u) + v5) * 40u) + v9)];
        float v52 = b0[((((((blockIdx.x * 2u) + (i0 + 1u)) * 4u) + v5) * 40u) + v9)];
        x0 = (x0 + (v11 ? v44 : (0.0f)));
        x0 = (x0 + (v11 ? v52 : (0.0f)));
    }
    float v81 = x0;
    a0[threadIdx.x] = v81;
    __syncthreads();
    wait_for_others();
    if (((v5 == 0u) && v11)) {
        float x1 = v81;
        for (unsigned i1 = 1u; i1 < 4u; i1 += 1u) {
            float v93 = a0[((i1 * 64u) + v2)];
            x1 = (x1 + v93);
        }
        b1[((blockIdx.x * 40u) + v9)] = x1;
    }
    __syncthreads();
}

// 2 blocks of 256 threads
// 1 kernels: sums of columns
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
extern "C" __global__ void __launch_bounds__(256) k_1_kernels_sums_of_columns(const unsigned* b0, const float* b1, float* b2, unsigned* status) {
    __shared__ float a0[256];
    let_next_start();
    wait_for_others();
    unsigned v7 = b0[1u];
    unsigned v10 = b0[2u];
    unsigned v13 = divide(threadIdx.x, 32u);
    unsigned v17 = b0[0u];
    unsigned v24 = (((blockIdx.x - v17) * 32u) + remainder_of(threadIdx.x, 32u));
    float x0 = (0.0f);
    bool v26 = (v24 < v10);
    if (v26) {
        for (unsigned i0 = v13; i0 < v7; i0 += 64u) {
            float x1 = (0.0f);
            for (unsigned i1 = i0; i1 < min((i0 + 64u), v7); i1 += 8u) {
                float v38 = b1[((i1 * v10) + v24)];
                x1 = (x1 + v38);
            }
            x0 = (x0 + x1);
        }
    }
    a0[threadIdx.x] = x0;
    __syncthreads();
    if ((v13 < 4u)) {
        float v52 = a0[(threadIdx.x + 128u)];
        float v55 = a0[threadIdx.x];
        a0[threadIdx.x] = (v55 + v52);
    }
    __syncthreads();
    if ((v13 < 2u)) {
        float v62 = a0[(threadIdx.x + 64u)];
        float v65 = a0[threadIdx.x];
        a0[threadIdx.x] = (v65 + v62);
    }
    __syncthreads();
    if ((v13 < 1u)) {
        float v72 = a0[(threadIdx.x + 32u)];
        float v75 = a0[threadIdx.x];
        a0[threadIdx.x] = (v75 + v72);
    }
    __syncthreads();
    if ((v13 == 0u)) {
        float v80 = a0[threadIdx.x];
        x0 = v80;
    }
    if (((v13 == 0u) && v26)) {
        b2[v24] = x0;
    }
}
