// A zero divisor is a trap that names its element. WGSL defines x / 0 and -2^31 / -1, CUDA C does not, so a function stands between.
// graph {
//   %0: i32[70] = input "x"
//   %1: i32[70] = input "y"
//   %2: i32[70] = div %0, %1
//   output "z" %2
// }

// 1 blocks of 256 threads
// map [1 x 70]
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
__device__ void report(unsigned* status, unsigned launch, unsigned position, int index, unsigned extent) {
    if (atomicCAS(&status[1], 0u, launch) == 0u) {
        status[2] = position;
        status[3] = (unsigned)index;
        status[4] = extent;
    }
}
extern "C" __global__ void __launch_bounds__(256) k_map_1_x_70(const int* b0, const int* b1, int* b2, unsigned* status) {
    let_next_start();
    unsigned v4 = ((blockIdx.x * 256u) + threadIdx.x);
    wait_for_others();
    if ((v4 < 70u)) {
        int v14 = b0[v4];
        if (v14 == 0) report(status, 1u, v4, 0, 0u);
        int v18 = b1[v4];
        b2[v4] = divide(v18, v14);
    }
}
