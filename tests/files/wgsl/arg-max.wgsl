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
        let v13 = b0[(v6 + i0)];
        let v14 = bitcast<u32>(v13);
        let v16 = (v14 & 2147483647u);
        let v30 = select(select(select((v14 | 2147483648u), (~v14), (v14 >= 2147483648u)), 2147483648u, (v16 == 0u)), 4294967295u, (v16 > 2139095040u));
        if (((i0 == local) || (v30 > x0))) {
            x0 = v30;
            x1 = i0;
        }
    }
    let v36 = x1;
    a0[local] = x0;
    a1[local] = v36;
    workgroupBarrier();
    if ((local < 128u)) {
        let v41 = a0[(local + 128u)];
        let v44 = a1[(local + 128u)];
        let v45 = a0[local];
        let v46 = a1[local];
        if (((v41 > v45) || ((v41 == v45) && (v44 < v46)))) {
            a0[local] = v41;
            a1[local] = v44;
        }
    }
    workgroupBarrier();
    if ((local < 64u)) {
        let v56 = a0[(local + 64u)];
        let v59 = a1[(local + 64u)];
        let v60 = a0[local];
        let v61 = a1[local];
        if (((v56 > v60) || ((v56 == v60) && (v59 < v61)))) {
            a0[local] = v56;
            a1[local] = v59;
        }
    }
    workgroupBarrier();
    if ((local < 32u)) {
        let v71 = a0[(local + 32u)];
        let v74 = a1[(local + 32u)];
        let v75 = a0[local];
        let v76 = a1[local];
        if (((v71 > v75) || ((v71 == v75) && (v74 < v76)))) {
            a0[local] = v71;
            a1[local] = v74;
        }
    }
    workgroupBarrier();
    if ((local < 16u)) {
        let v86 = a0[(local + 16u)];
        let v89 = a1[(local + 16u)];
        let v90 = a0[local];
        let v91 = a1[local];
        if (((v86 > v90) || ((v86 == v90) && (v89 < v91)))) {
            a0[local] = v86;
            a1[local] = v89;
        }
    }
    workgroupBarrier();
    if ((local < 8u)) {
        let v101 = a0[(local + 8u)];
        let v104 = a1[(local + 8u)];
        let v105 = a0[local];
        let v106 = a1[local];
        if (((v101 > v105) || ((v101 == v105) && (v104 < v106)))) {
            a0[local] = v101;
            a1[local] = v104;
        }
    }
    workgroupBarrier();
    if ((local < 4u)) {
        let v116 = a0[(local + 4u)];
        let v119 = a1[(local + 4u)];
        let v120 = a0[local];
        let v121 = a1[local];
        if (((v116 > v120) || ((v116 == v120) && (v119 < v121)))) {
            a0[local] = v116;
            a1[local] = v119;
        }
    }
    workgroupBarrier();
    if ((local < 2u)) {
        let v131 = a0[(local + 2u)];
        let v134 = a1[(local + 2u)];
        let v135 = a0[local];
        let v136 = a1[local];
        if (((v131 > v135) || ((v131 == v135) && (v134 < v136)))) {
            a0[local] = v131;
            a1[local] = v134;
        }
    }
    workgroupBarrier();
    if ((local < 1u)) {
        let v146 = a0[(local + 1u)];
        let v149 = a1[(local + 1u)];
        let v150 = a0[local];
        let v151 = a1[local];
        if (((v146 > v150) || ((v146 == v150) && (v149 < v151)))) {
            a0[local] = v146;
            a1[local] = v149;
        }
    }
    workgroupBarrier();
    if ((local == 0u)) {
        let v160 = a1[0u];
        b1[group] = bitcast<i32>(v160);
    }
}
