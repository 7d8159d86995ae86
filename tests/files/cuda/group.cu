// Updates of three parameters of different sizes in one kernel: a table has where each one's elements are.
// graph {
//   %0: f32[40] = param "a"
//   %1: f32[3, 8] = param "b"
//   %2: f32[300] = param "c"
//   %3: f32[40] = input "da"
//   %4: f32[3, 8] = input "db"
//   %5: f32[300] = input "dc"
//   %6: f32[40] = sub %0, %3
//   %7: f32[3, 8] = sub %1, %4
//   %8: f32[300] = sub %2, %5
//   update %0 <- %6
//   update %1 <- %7
//   update %2 <- %8
// }

// 3 blocks of 256 threads
// 3 kernels: map
__device__ int divide(int a, int b) {
    return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b;
}
__device__ unsigned divide(unsigned a, unsigned b) {
    return b == 0u ? 0u : a / b;
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
extern "C" __global__ void __launch_bounds__(256) k_3_kernels_map(const unsigned* b0, const float* b1, const float* b2, float* b3, unsigned* status) {
    let_next_start();
    wait_for_others();
    unsigned x0 = 0u;
    unsigned x1 = 3u;
    for (unsigned i0 = 0u; i0 < 2u; i0 += 1u) {
        unsigned v6 = x0;
        unsigned v7 = x1;
        unsigned v10 = divide((v6 + v7), 2u);
        unsigned v14 = b0[(v10 * 6u)];
        bool v15 = (blockIdx.x < v14);
        x0 = (v15 ? v6 : v10);
        x1 = (v15 ? v10 : v7);
    }
    unsigned v20 = (x0 * 6u);
    unsigned v23 = b0[(v20 + 3u)];
    unsigned v26 = b0[(v20 + 4u)];
    unsigned v29 = b0[(v20 + 5u)];
    unsigned v32 = b0[(v20 + 1u)];
    unsigned v35 = b0[(v20 + 2u)];
    unsigned v39 = b0[v20];
    unsigned v42 = ((blockIdx.x - v39) * 1024u);
    for (unsigned i1 = (v42 + threadIdx.x); i1 < min((v42 + 1024u), (v32 * v35)); i1 += 256u) {
        if ((status[0] == 0u)) {
            float v53 = b1[(v23 + i1)];
            float v55 = b2[(v26 + i1)];
            b3[(v29 + i1)] = (v53 - v55);
        }
    }
}
