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
        let v15 = b0[(v6 + i0)];
        let v16 = bitcast<u32>(v15);
        let v35 = select(select(select((v16 | 2147483648u), (~v16), (v16 >= 2147483648u)), 2147483648u, ((v16 & 2147483647u) == 0u)), 4294967295u, ((bitcast<u32>(v15) & 2147483647u) > 2139095040u));
        if (((i0 == local) || (v35 > x0))) {
            x0 = v35;
            x1 = i0;
        }
    }
    let v41 = x1;
    a0[local] = x0;
    a1[local] = v41;
    workgroupBarrier();
    if ((local < 128u)) {
        let v46 = a0[(local + 128u)];
        let v49 = a1[(local + 128u)];
        let v50 = a0[local];
        let v51 = a1[local];
        if (((v46 > v50) || ((v46 == v50) && (v49 < v51)))) {
            a0[local] = v46;
            a1[local] = v49;
        }
    }
    workgroupBarrier();
    if ((local < 64u)) {
        let v61 = a0[(local + 64u)];
        let v64 = a1[(local + 64u)];
        let v65 = a0[local];
        let v66 = a1[local];
        if (((v61 > v65) || ((v61 == v65) && (v64 < v66)))) {
            a0[local] = v61;
            a1[local] = v64;
        }
    }
    workgroupBarrier();
    if ((local < 32u)) {
        let v76 = a0[(local + 32u)];
        let v79 = a1[(local + 32u)];
        let v80 = a0[local];
        let v81 = a1[local];
        if (((v76 > v80) || ((v76 == v80) && (v79 < v81)))) {
            a0[local] = v76;
            a1[local] = v79;
        }
    }
    workgroupBarrier();
    if ((local < 16u)) {
        let v91 = a0[(local + 16u)];
        let v94 = a1[(local + 16u)];
        let v95 = a0[local];
        let v96 = a1[local];
        if (((v91 > v95) || ((v91 == v95) && (v94 < v96)))) {
            a0[local] = v91;
            a1[local] = v94;
        }
    }
    workgroupBarrier();
    if ((local < 8u)) {
        let v106 = a0[(local + 8u)];
        let v109 = a1[(local + 8u)];
        let v110 = a0[local];
        let v111 = a1[local];
        if (((v106 > v110) || ((v106 == v110) && (v109 < v111)))) {
            a0[local] = v106;
            a1[local] = v109;
        }
    }
    workgroupBarrier();
    if ((local < 4u)) {
        let v121 = a0[(local + 4u)];
        let v124 = a1[(local + 4u)];
        let v125 = a0[local];
        let v126 = a1[local];
        if (((v121 > v125) || ((v121 == v125) && (v124 < v126)))) {
            a0[local] = v121;
            a1[local] = v124;
        }
    }
    workgroupBarrier();
    if ((local < 2u)) {
        let v136 = a0[(local + 2u)];
        let v139 = a1[(local + 2u)];
        let v140 = a0[local];
        let v141 = a1[local];
        if (((v136 > v140) || ((v136 == v140) && (v139 < v141)))) {
            a0[local] = v136;
            a1[local] = v139;
        }
    }
    workgroupBarrier();
    if ((local < 1u)) {
        let v151 = a0[(local + 1u)];
        let v154 = a1[(local + 1u)];
        let v155 = a0[local];
        let v156 = a1[local];
        if (((v151 > v155) || ((v151 == v155) && (v154 < v156)))) {
            a0[local] = v151;
            a1[local] = v154;
        }
    }
    workgroupBarrier();
    if ((local == 0u)) {
        let v165 = a1[0u];
        b1[group] = bitcast<i32>(v165);
    }
}
