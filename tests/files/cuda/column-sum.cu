// Many rows: parts of them are added up by workgroups, and the parts by another kernel.
// graph {
//   %0: f32[1024, 40] = input "x"
//   %1: f32[40] = sum %0 {axes=[0]}
//   output "y" %1
// }

// 64 blocks of 256 threads
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
extern "C" __global__ void __launch_bounds__(256) kernel_0_0(const float* b0, float* b1, unsigned* status) {
    __shared__ float a0[256];
    unsigned v2 = remainder_of(threadIdx.x, 16u);
    unsigned v5 = divide(threadIdx.x, 16u);
    unsigned v8 = (v2 + 16u);
    unsigned v10 = (v2 + 32u);
    unsigned v12 = min(v10, 39u);
    bool v14 = (v10 < 40u);
    float x0 = (0.0f);
    float x1 = (0.0f);
    float x2 = (0.0f);
    unsigned v28 = ((blockIdx.x * 16u) + v5);
    float v36 = b0[((v28 * 40u) + v2)];
    float v42 = b0[((v28 * 40u) + v8)];
    float v48 = b0[((v28 * 40u) + v12)];
    x0 = (x0 + v36);
    x1 = (x1 + v42);
    x2 = (x2 + (v14 ? v48 : (0.0f)));
    float v65 = x0;
    a0[threadIdx.x] = v65;
    __syncthreads();
    if ((v5 == 0u)) {
        float x3 = v65;
        for (unsigned i0 = 1u; i0 < 16u; i0 += 1u) {
            float v76 = a0[((i0 * 16u) + v2)];
            x3 = (x3 + v76);
        }
        b1[((blockIdx.x * 40u) + v2)] = x3;
    }
    __syncthreads();
    float v84 = x1;
    a0[threadIdx.x] = v84;
    __syncthreads();
    if ((v5 == 0u)) {
        float x4 = v84;
        for (unsigned i1 = 1u; i1 < 16u; i1 += 1u) {
            float v95 = a0[((i1 * 16u) + v2)];
            x4 = (x4 + v95);
        }
        b1[((blockIdx.x * 40u) + v8)] = x4;
    }
    __syncthreads();
    float v103 = x2;
    a0[threadIdx.x] = v103;
    __syncthreads();
    if (((v5 == 0u) && v14)) {
        float x5 = v103;
        for (unsigned i2 = 1u; i2 < 16u; i2 += 1u) {
            float v115 = a0[((i2 * 16u) + v2)];
            x5 = (x5 + v115);
        }
        b1[((blockIdx.x * 40u) + v12)] = x5;
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
extern "C" __global__ void __launch_bounds__(256) kernel_1_0(const unsigned* b0, const float* b1, float* b2, unsigned* status) {
    __shared__ float a0[256];
    unsigned v7 = b0[1u];
    unsigned v10 = b0[2u];
    unsigned v13 = divide(threadIdx.x, 32u);
    unsigned v17 = b0[0u];
    unsigned v24 = (((blockIdx.x - v17) * 32u) + remainder_of(threadIdx.x, 32u));
    float x0 = (0.0f);
    bool v26 = (v24 < v10);
    if (v26) {
        for (unsigned i0 = v13; i0 < v7; i0 += 8u) {
            float v32 = b1[((i0 * v10) + v24)];
            x0 = (x0 + v32);
        }
    }
    a0[threadIdx.x] = x0;
    __syncthreads();
    if ((v13 == 0u)) {
        for (unsigned i1 = 1u; i1 < 8u; i1 += 1u) {
            float v48 = a0[((i1 * 32u) + threadIdx.x)];
            x0 = (x0 + v48);
        }
    }
    if (((v13 == 0u) && v26)) {
        b2[v24] = x0;
    }
}
