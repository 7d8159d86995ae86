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
        unsigned v35 = ((__umulhi(v26, 3449720151u) ^ (v15 * 3449720151u)) ^ v29);
        unsigned v38 = ((__umulhi(v23, 3528531795u) ^ (v4 * 3528531795u)) ^ v31);
        unsigned v41 = (v29 + 2654435769u);
        unsigned v43 = (v31 + 3144134277u);
        unsigned v47 = ((__umulhi(v38, 3449720151u) ^ (v26 * 3449720151u)) ^ v41);
        unsigned v50 = ((__umulhi(v35, 3528531795u) ^ (v23 * 3528531795u)) ^ v43);
        unsigned v53 = (v41 + 2654435769u);
        unsigned v55 = (v43 + 3144134277u);
        unsigned v59 = ((__umulhi(v50, 3449720151u) ^ (v38 * 3449720151u)) ^ v53);
        unsigned v62 = ((__umulhi(v47, 3528531795u) ^ (v35 * 3528531795u)) ^ v55);
        unsigned v65 = (v53 + 2654435769u);
        unsigned v67 = (v55 + 3144134277u);
        unsigned v71 = ((__umulhi(v62, 3449720151u) ^ (v50 * 3449720151u)) ^ v65);
        unsigned v74 = ((__umulhi(v59, 3528531795u) ^ (v47 * 3528531795u)) ^ v67);
        unsigned v77 = (v65 + 2654435769u);
        unsigned v79 = (v67 + 3144134277u);
        unsigned v83 = ((__umulhi(v74, 3449720151u) ^ (v62 * 3449720151u)) ^ v77);
        unsigned v86 = ((__umulhi(v71, 3528531795u) ^ (v59 * 3528531795u)) ^ v79);
        unsigned v89 = (v77 + 2654435769u);
        unsigned v91 = (v79 + 3144134277u);
        unsigned v95 = ((__umulhi(v86, 3449720151u) ^ (v74 * 3449720151u)) ^ v89);
        unsigned v98 = ((__umulhi(v83, 3528531795u) ^ (v71 * 3528531795u)) ^ v91);
        unsigned v101 = (v89 + 2654435769u);
        unsigned v103 = (v91 + 3144134277u);
        unsigned v107 = ((__umulhi(v98, 3449720151u) ^ (v86 * 3449720151u)) ^ v101);
        unsigned v110 = ((__umulhi(v95, 3528531795u) ^ (v83 * 3528531795u)) ^ v103);
        unsigned v113 = (v101 + 2654435769u);
        unsigned v115 = (v103 + 3144134277u);
        unsigned v119 = ((__umulhi(v110, 3449720151u) ^ (v98 * 3449720151u)) ^ v113);
        unsigned v122 = ((__umulhi(v107, 3528531795u) ^ (v95 * 3528531795u)) ^ v115);
        b3[(v4 * 4u)] = ((__umulhi(v122, 3449720151u) ^ (v110 * 3449720151u)) ^ (v113 + 2654435769u));
        b3[((v4 * 4u) + 1u)] = (v122 * 3449720151u);
        b3[((v4 * 4u) + 2u)] = ((__umulhi(v119, 3528531795u) ^ (v107 * 3528531795u)) ^ (v115 + 3144134277u));
        if ((v4 < 15u)) {
            b3[((v4 * 4u) + 3u)] = (v119 * 3528531795u);
        }
    }
}
