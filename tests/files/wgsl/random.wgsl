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
        let v37 = ((mul_high(v26, 3449720151u) ^ (v15 * 3449720151u)) ^ v29);
        let v40 = ((mul_high(v23, 3528531795u) ^ (v4 * 3528531795u)) ^ v31);
        let v43 = (v29 + 2654435769u);
        let v45 = (v31 + 3144134277u);
        let v51 = ((mul_high(v40, 3449720151u) ^ (v26 * 3449720151u)) ^ v43);
        let v54 = ((mul_high(v37, 3528531795u) ^ (v23 * 3528531795u)) ^ v45);
        let v57 = (v43 + 2654435769u);
        let v59 = (v45 + 3144134277u);
        let v65 = ((mul_high(v54, 3449720151u) ^ (v40 * 3449720151u)) ^ v57);
        let v68 = ((mul_high(v51, 3528531795u) ^ (v37 * 3528531795u)) ^ v59);
        let v71 = (v57 + 2654435769u);
        let v73 = (v59 + 3144134277u);
        let v79 = ((mul_high(v68, 3449720151u) ^ (v54 * 3449720151u)) ^ v71);
        let v82 = ((mul_high(v65, 3528531795u) ^ (v51 * 3528531795u)) ^ v73);
        let v85 = (v71 + 2654435769u);
        let v87 = (v73 + 3144134277u);
        let v93 = ((mul_high(v82, 3449720151u) ^ (v68 * 3449720151u)) ^ v85);
        let v96 = ((mul_high(v79, 3528531795u) ^ (v65 * 3528531795u)) ^ v87);
        let v99 = (v85 + 2654435769u);
        let v101 = (v87 + 3144134277u);
        let v107 = ((mul_high(v96, 3449720151u) ^ (v82 * 3449720151u)) ^ v99);
        let v110 = ((mul_high(v93, 3528531795u) ^ (v79 * 3528531795u)) ^ v101);
        let v113 = (v99 + 2654435769u);
        let v115 = (v101 + 3144134277u);
        let v121 = ((mul_high(v110, 3449720151u) ^ (v96 * 3449720151u)) ^ v113);
        let v124 = ((mul_high(v107, 3528531795u) ^ (v93 * 3528531795u)) ^ v115);
        let v127 = (v113 + 2654435769u);
        let v129 = (v115 + 3144134277u);
        let v135 = ((mul_high(v124, 3449720151u) ^ (v110 * 3449720151u)) ^ v127);
        let v138 = ((mul_high(v121, 3528531795u) ^ (v107 * 3528531795u)) ^ v129);
        b1[(v4 * 4u)] = ((mul_high(v138, 3449720151u) ^ (v124 * 3449720151u)) ^ (v127 + 2654435769u));
        b1[((v4 * 4u) + 1u)] = (v138 * 3449720151u);
        b1[((v4 * 4u) + 2u)] = ((mul_high(v135, 3528531795u) ^ (v121 * 3528531795u)) ^ (v129 + 3144134277u));
        if ((v4 < 15u)) {
            b1[((v4 * 4u) + 3u)] = (v135 * 3528531795u);
        }
    }
}
