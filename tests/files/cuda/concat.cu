// One kernel for each operand.
// graph {
//   %0: f32[3, 5] = input "x"
//   %1: f32[3, 40] = input "y"
//   %2: f32[3, 45] = concat %0, %1 {axis=1}
//   output "z" %2
// }

// 1 blocks of 256 threads
// concat: operand 0
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
extern "C" __global__ void __launch_bounds__(256) kernel_0_0(float* b0, const float* b1, unsigned* status) {
    unsigned v4 = ((blockIdx.x * 256u) + threadIdx.x);
    if ((v4 < 15u)) {
        float v10 = b1[v4];
        b0[(remainder_of(v4, 5u) + (divide(v4, 5u) * 45u))] = v10;
    }
}

// 1 blocks of 256 threads
// concat: operand 1
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
extern "C" __global__ void __launch_bounds__(256) kernel_0_1(float* b0, const float* b1, unsigned* status) {
    unsigned v4 = ((blockIdx.x * 256u) + threadIdx.x);
    if ((v4 < 120u)) {
        float v10 = b1[v4];
        b0[((5u + remainder_of(v4, 40u)) + (divide(v4, 40u) * 45u))] = v10;
    }
}
