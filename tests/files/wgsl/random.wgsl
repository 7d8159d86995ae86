// Philox: four words for each invocation, from the counter alone.
// graph {
//   %0: u32[] = scalar "a"
//   %1: u32[] = scalar "b"
//   %2: u32[] = scalar "c"
//   %3: u32[7, 9] = random_bits %0, %1, %2 {site=5}
//   output "y" %3
// }

// [1, 1, 1] workgroups
// random_bits
@group(0) @binding(0) var<storage, read_write> b0: array<u32>;
@group(0) @binding(1) var<storage, read_write> b1: array<u32>;
fn mul_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u);
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 16u)) {
        let v9 = b0[0u];
        let v12 = b0[1u + 0u];
        let v15 = b0[2u + 0u];
        let v23 = ((mul_high(v15, 3449720151u) ^ 0u) ^ v9);
        let v26 = ((mul_high(v4, 3528531795u) ^ 5u) ^ v12);
        let v29 = (v9 + 2654435769u);
        let v31 = (v12 + 3144134277u);
        let v35 = ((mul_high(v26, 3449720151u) ^ (v15 * 3449720151u)) ^ v29);
        let v38 = ((mul_high(v23, 3528531795u) ^ (v4 * 3528531795u)) ^ v31);
        let v41 = (v29 + 2654435769u);
        let v43 = (v31 + 3144134277u);
        let v47 = ((mul_high(v38, 3449720151u) ^ (v26 * 3449720151u)) ^ v41);
        let v50 = ((mul_high(v35, 3528531795u) ^ (v23 * 3528531795u)) ^ v43);
        let v53 = (v41 + 2654435769u);
        let v55 = (v43 + 3144134277u);
        let v59 = ((mul_high(v50, 3449720151u) ^ (v38 * 3449720151u)) ^ v53);
        let v62 = ((mul_high(v47, 3528531795u) ^ (v35 * 3528531795u)) ^ v55);
        let v65 = (v53 + 2654435769u);
        let v67 = (v55 + 3144134277u);
        let v71 = ((mul_high(v62, 3449720151u) ^ (v50 * 3449720151u)) ^ v65);
        let v74 = ((mul_high(v59, 3528531795u) ^ (v47 * 3528531795u)) ^ v67);
        let v77 = (v65 + 2654435769u);
        let v79 = (v67 + 3144134277u);
        let v83 = ((mul_high(v74, 3449720151u) ^ (v62 * 3449720151u)) ^ v77);
        let v86 = ((mul_high(v71, 3528531795u) ^ (v59 * 3528531795u)) ^ v79);
        let v89 = (v77 + 2654435769u);
        let v91 = (v79 + 3144134277u);
        let v95 = ((mul_high(v86, 3449720151u) ^ (v74 * 3449720151u)) ^ v89);
        let v98 = ((mul_high(v83, 3528531795u) ^ (v71 * 3528531795u)) ^ v91);
        let v101 = (v89 + 2654435769u);
        let v103 = (v91 + 3144134277u);
        let v107 = ((mul_high(v98, 3449720151u) ^ (v86 * 3449720151u)) ^ v101);
        let v110 = ((mul_high(v95, 3528531795u) ^ (v83 * 3528531795u)) ^ v103);
        let v113 = (v101 + 2654435769u);
        let v115 = (v103 + 3144134277u);
        let v119 = ((mul_high(v110, 3449720151u) ^ (v98 * 3449720151u)) ^ v113);
        let v122 = ((mul_high(v107, 3528531795u) ^ (v95 * 3528531795u)) ^ v115);
        b1[(v4 * 4u)] = ((mul_high(v122, 3449720151u) ^ (v110 * 3449720151u)) ^ (v113 + 2654435769u));
        b1[((v4 * 4u) + 1u)] = (v122 * 3449720151u);
        b1[((v4 * 4u) + 2u)] = ((mul_high(v119, 3528531795u) ^ (v107 * 3528531795u)) ^ (v115 + 3144134277u));
        if ((v4 < 15u)) {
            b1[((v4 * 4u) + 3u)] = (v119 * 3528531795u);
        }
    }
}
