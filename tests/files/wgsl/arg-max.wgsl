// The first of equal elements; NaN counts as the largest.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: i32[3] = argmax %0 {axis=1}
//   output "y" %1
// }

// [3, 1, 1] workgroups
// argmax
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
var<workgroup> a0: array<u32, 256>;
var<workgroup> a1: array<u32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v6 = (group * 400u);
    var x0 = 0u;
    var x1 = 400u;
    for (var i0 = local; i0 < 400u; i0 += 256u) {
        let v17 = b0[(v6 + i0)];
        let v18 = bitcast<u32>(v17);
        let v37 = select(select(select((v18 | 2147483648u), (~v18), (v18 >= 2147483648u)), 2147483648u, ((v18 & 2147483647u) == 0u)), 4294967295u, ((bitcast<u32>(v17) & 2147483647u) > 2139095040u));
        if (((i0 == local) || (v37 > x0))) {
            x0 = v37;
            x1 = i0;
        }
    }
    let v43 = x1;
    a0[local] = x0;
    a1[local] = v43;
    workgroupBarrier();
    if ((local < 128u)) {
        let v48 = a0[(local + 128u)];
        let v51 = a1[(local + 128u)];
        let v52 = a0[local];
        let v53 = a1[local];
        if (((v48 > v52) || ((v48 == v52) && (v51 < v53)))) {
            a0[local] = v48;
            a1[local] = v51;
        }
    }
    workgroupBarrier();
    if ((local < 64u)) {
        let v63 = a0[(local + 64u)];
        let v66 = a1[(local + 64u)];
        let v67 = a0[local];
        let v68 = a1[local];
        if (((v63 > v67) || ((v63 == v67) && (v66 < v68)))) {
            a0[local] = v63;
            a1[local] = v66;
        }
    }
    workgroupBarrier();
    if ((local < 32u)) {
        let v78 = a0[(local + 32u)];
        let v81 = a1[(local + 32u)];
        let v82 = a0[local];
        let v83 = a1[local];
        if (((v78 > v82) || ((v78 == v82) && (v81 < v83)))) {
            a0[local] = v78;
            a1[local] = v81;
        }
    }
    workgroupBarrier();
    if ((local < 16u)) {
        let v93 = a0[(local + 16u)];
        let v96 = a1[(local + 16u)];
        let v97 = a0[local];
        let v98 = a1[local];
        if (((v93 > v97) || ((v93 == v97) && (v96 < v98)))) {
            a0[local] = v93;
            a1[local] = v96;
        }
    }
    workgroupBarrier();
    if ((local < 8u)) {
        let v108 = a0[(local + 8u)];
        let v111 = a1[(local + 8u)];
        let v112 = a0[local];
        let v113 = a1[local];
        if (((v108 > v112) || ((v108 == v112) && (v111 < v113)))) {
            a0[local] = v108;
            a1[local] = v111;
        }
    }
    workgroupBarrier();
    if ((local < 4u)) {
        let v123 = a0[(local + 4u)];
        let v126 = a1[(local + 4u)];
        let v127 = a0[local];
        let v128 = a1[local];
        if (((v123 > v127) || ((v123 == v127) && (v126 < v128)))) {
            a0[local] = v123;
            a1[local] = v126;
        }
    }
    workgroupBarrier();
    if ((local < 2u)) {
        let v138 = a0[(local + 2u)];
        let v141 = a1[(local + 2u)];
        let v142 = a0[local];
        let v143 = a1[local];
        if (((v138 > v142) || ((v138 == v142) && (v141 < v143)))) {
            a0[local] = v138;
            a1[local] = v141;
        }
    }
    workgroupBarrier();
    if ((local < 1u)) {
        let v153 = a0[(local + 1u)];
        let v156 = a1[(local + 1u)];
        let v157 = a0[local];
        let v158 = a1[local];
        if (((v153 > v157) || ((v153 == v157) && (v156 < v158)))) {
            a0[local] = v153;
            a1[local] = v156;
        }
    }
    workgroupBarrier();
    if ((local == 0u)) {
        let v167 = a1[0u];
        b1[group] = bitcast<i32>(v167);
    }
}
