// Totals of pieces, what is before each piece, and then the sums from the last element back.
// graph {
//   %0: f32[2, 3000] = input "x"
//   %1: f32[2, 3000] = cumsum %0 {reverse}
//   output "y" %1
// }

// 4 blocks of 256 threads
// cumulate: pieces
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
extern "C" __global__ void __launch_bounds__(256) k_cumulate_pieces(const float* b0, float* b1, unsigned* status) {
    __shared__ float a0[256];
    let_next_start();
    unsigned v8 = (((remainder_of(blockIdx.x, 2u) * 256u) + threadIdx.x) * 8u);
    unsigned v12 = divide(blockIdx.x, 2u);
    float x0 = (0.0f);
    for (unsigned i0 = min(v8, 3000u); i0 < min((v8 + 8u), 3000u); i0 += 1u) {
        float v29 = b0[((v12 * 3000u) + (2999u - i0))];
        x0 = (x0 + v29);
    }
    a0[threadIdx.x] = x0;
    __syncthreads();
    for (unsigned i1 = 0u; i1 < 8u; i1 += 1u) {
        unsigned v38 = (1u << ((unsigned)(i1) & 31u));
        bool v40 = (!(threadIdx.x < v38));
        float v44 = a0[(v40 ? (threadIdx.x - v38) : 0u)];
        float v47 = a0[threadIdx.x];
        __syncthreads();
        a0[threadIdx.x] = ((v40 ? v44 : (0.0f)) + v47);
        __syncthreads();
    }
    wait_for_others();
    if ((threadIdx.x == 0u)) {
        float v53 = a0[255u];
        b1[blockIdx.x] = v53;
    }
}

// 2 blocks of 256 threads
// cumulate: before
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
extern "C" __global__ void __launch_bounds__(256) k_cumulate_before(float* b0, unsigned* status) {
    __shared__ float a0[256];
    let_next_start();
    unsigned v2 = (blockIdx.x * 2u);
    unsigned v7 = min(threadIdx.x, 2u);
    unsigned v13 = min((threadIdx.x + 1u), 2u);
    float x0 = (0.0f);
    wait_for_others();
    for (unsigned i0 = v7; i0 < v13; i0 += 1u) {
        float v19 = b0[(v2 + i0)];
        x0 = (x0 + v19);
    }
    a0[threadIdx.x] = x0;
    __syncthreads();
    for (unsigned i1 = 0u; i1 < 8u; i1 += 1u) {
        unsigned v28 = (1u << ((unsigned)(i1) & 31u));
        bool v30 = (!(threadIdx.x < v28));
        float v34 = a0[(v30 ? (threadIdx.x - v28) : 0u)];
        float v37 = a0[threadIdx.x];
        __syncthreads();
        a0[threadIdx.x] = ((v30 ? v34 : (0.0f)) + v37);
        __syncthreads();
    }
    bool v41 = (0u < threadIdx.x);
    float v47 = a0[(v41 ? (threadIdx.x - 1u) : 0u)];
    float x1 = (v41 ? v47 : (0.0f));
    for (unsigned i2 = v7; i2 < v13; i2 += 1u) {
        float v53 = b0[(v2 + i2)];
        b0[(v2 + i2)] = x1;
        x1 = (x1 + v53);
    }
}

// 4 blocks of 256 threads
// cumulate
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
extern "C" __global__ void __launch_bounds__(256) k_cumulate(const float* b0, float* b1, float* b2, unsigned* status) {
    __shared__ float a0[256];
    let_next_start();
    unsigned v8 = (((remainder_of(blockIdx.x, 2u) * 256u) + threadIdx.x) * 8u);
    unsigned v12 = divide(blockIdx.x, 2u);
    unsigned v13 = min(v8, 3000u);
    unsigned v16 = min((v8 + 8u), 3000u);
    float x0 = (0.0f);
    for (unsigned i0 = v13; i0 < v16; i0 += 1u) {
        float v29 = b0[((v12 * 3000u) + (2999u - i0))];
        x0 = (x0 + v29);
    }
    a0[threadIdx.x] = x0;
    __syncthreads();
    for (unsigned i1 = 0u; i1 < 8u; i1 += 1u) {
        unsigned v38 = (1u << ((unsigned)(i1) & 31u));
        bool v40 = (!(threadIdx.x < v38));
        float v44 = a0[(v40 ? (threadIdx.x - v38) : 0u)];
        float v47 = a0[threadIdx.x];
        __syncthreads();
        a0[threadIdx.x] = ((v40 ? v44 : (0.0f)) + v47);
        __syncthreads();
    }
    bool v51 = (0u < threadIdx.x);
    float v57 = a0[(v51 ? (threadIdx.x - 1u) : 0u)];
    wait_for_others();
    float v61 = b1[blockIdx.x];
    float x1 = (v61 + (v51 ? v57 : (0.0f)));
    for (unsigned i2 = v13; i2 < v16; i2 += 1u) {
        float v74 = b0[((v12 * 3000u) + (2999u - i2))];
        x1 = (x1 + v74);
        b2[((v12 * 3000u) + (2999u - i2))] = x1;
    }
}
