// Philox: four words for each invocation, from the counter alone.
// graph {
//   %0: u32[] = scalar "a"
//   %1: u32[] = scalar "b"
//   %2: u32[] = scalar "c"
//   %3: u32[7, 9] = random_bits %0, %1, %2 {site=5}
//   output "y" %3
// }

// 1 blocks of 256 threads
// random_bits
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
extern "C" __global__ void __launch_bounds__(256) k_random_bits(const unsigned* b0, const unsigned* b1, const unsigned* b2, unsigned* b3, unsigned* status) {
    let_next_start();
    unsigned v4 = ((blockIdx.x * 256u) + threadIdx.x);
    wait_for_others();
    if ((v4 < 16u)) {
        unsigned v9 = b0[0u];
        unsigned v12 = b1[0u];
        unsigned v15 = b2[0u];
        unsigned v23 = ((__umulhi(v15, 3449720151u) ^ 0u) ^ v9);
        unsigned v26 = ((__umulhi(v4, 3528531795u) ^ 5u) ^ v12);
        unsigned v29 = (v9 + 2654435769u);
        unsigned v31 = (v12 + 3144134277u);
        unsigned v37 = ((__umulhi(v26, 3449720151u) ^ (v15 * 3449720151u)) ^ v29);
        unsigned v40 = ((__umulhi(v23, 3528531795u) ^ (v4 * 3528531795u)) ^ v31);
        unsigned v43 = (v29 + 2654435769u);
        unsigned v45 = (v31 + 3144134277u);
        unsigned v51 = ((__umulhi(v40, 3449720151u) ^ (v26 * 3449720151u)) ^ v43);
        unsigned v54 = ((__umulhi(v37, 3528531795u) ^ (v23 * 3528531795u)) ^ v45);
        unsigned v57 = (v43 + 2654435769u);
        unsigned v59 = (v45 + 3144134277u);
        unsigned v65 = ((__umulhi(v54, 3449720151u) ^ (v40 * 3449720151u)) ^ v57);
        unsigned v68 = ((__umulhi(v51, 3528531795u) ^ (v37 * 3528531795u)) ^ v59);
        unsigned v71 = (v57 + 2654435769u);
        unsigned v73 = (v59 + 3144134277u);
        unsigned v79 = ((__umulhi(v68, 3449720151u) ^ (v54 * 3449720151u)) ^ v71);
        unsigned v82 = ((__umulhi(v65, 3528531795u) ^ (v51 * 3528531795u)) ^ v73);
        unsigned v85 = (v71 + 2654435769u);
        unsigned v87 = (v73 + 3144134277u);
        unsigned v93 = ((__umulhi(v82, 3449720151u) ^ (v68 * 3449720151u)) ^ v85);
        unsigned v96 = ((__umulhi(v79, 3528531795u) ^ (v65 * 3528531795u)) ^ v87);
        unsigned v99 = (v85 + 2654435769u);
        unsigned v101 = (v87 + 3144134277u);
        unsigned v107 = ((__umulhi(v96, 3449720151u) ^ (v82 * 3449720151u)) ^ v99);
        unsigned v110 = ((__umulhi(v93, 3528531795u) ^ (v79 * 3528531795u)) ^ v101);
        unsigned v113 = (v99 + 2654435769u);
        unsigned v115 = (v101 + 3144134277u);
        unsigned v121 = ((__umulhi(v110, 3449720151u) ^ (v96 * 3449720151u)) ^ v113);
        unsigned v124 = ((__umulhi(v107, 3528531795u) ^ (v93 * 3528531795u)) ^ v115);
        unsigned v127 = (v113 + 2654435769u);
        unsigned v129 = (v115 + 3144134277u);
        unsigned v135 = ((__umulhi(v124, 3449720151u) ^ (v110 * 3449720151u)) ^ v127);
        unsigned v138 = ((__umulhi(v121, 3528531795u) ^ (v107 * 3528531795u)) ^ v129);
        b3[(v4 * 4u)] = ((__umulhi(v138, 3449720151u) ^ (v124 * 3449720151u)) ^ (v127 + 2654435769u));
        b3[((v4 * 4u) + 1u)] = (v138 * 3449720151u);
        b3[((v4 * 4u) + 2u)] = ((__umulhi(v135, 3528531795u) ^ (v121 * 3528531795u)) ^ (v129 + 3144134277u));
        if ((v4 < 15u)) {
            b3[((v4 * 4u) + 3u)] = (v135 * 3528531795u);
        }
    }
}
