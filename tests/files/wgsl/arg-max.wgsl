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
        let v33 = select(select(select((v14 | 2147483648u), (~v14), (v14 >= 2147483648u)), 2147483648u, ((v14 & 2147483647u) == 0u)), 4294967295u, ((bitcast<u32>(v13) & 2147483647u) > 2139095040u));
        if (((i0 == local) || (v33 > x0))) {
            x0 = v33;
            x1 = i0;
        }
    }
    let v39 = x1;
    a0[local] = x0;
    a1[local] = v39;
    workgroupBarrier();
    if ((local < 128u)) {
        let v44 = a0[(local + 128u)];
        let v47 = a1[(local + 128u)];
        let v48 = a0[local];
        let v49 = a1[local];
        if (((v44 > v48) || ((v44 == v48) && (v47 < v49)))) {
            a0[local] = v44;
            a1[local] = v47;
        }
    }
    workgroupBarrier();
    if ((local < 64u)) {
        let v59 = a0[(local + 64u)];
        let v62 = a1[(local + 64u)];
        let v63 = a0[local];
        let v64 = a1[local];
        if (((v59 > v63) || ((v59 == v63) && (v62 < v64)))) {
            a0[local] = v59;
            a1[local] = v62;
        }
    }
    workgroupBarrier();
    if ((local < 32u)) {
        let v74 = a0[(local + 32u)];
        let v77 = a1[(local + 32u)];
        let v78 = a0[local];
        let v79 = a1[local];
        if (((v74 > v78) || ((v74 == v78) && (v77 < v79)))) {
            a0[local] = v74;
            a1[local] = v77;
        }
    }
    workgroupBarrier();
    if ((local < 16u)) {
        let v89 = a0[(local + 16u)];
        let v92 = a1[(local + 16u)];
        let v93 = a0[local];
        let v94 = a1[local];
        if (((v89 > v93) || ((v89 == v93) && (v92 < v94)))) {
            a0[local] = v89;
            a1[local] = v92;
        }
    }
    workgroupBarrier();
    if ((local < 8u)) {
        let v104 = a0[(local + 8u)];
        let v107 = a1[(local + 8u)];
        let v108 = a0[local];
        let v109 = a1[local];
        if (((v104 > v108) || ((v104 == v108) && (v107 < v109)))) {
            a0[local] = v104;
            a1[local] = v107;
        }
    }
    workgroupBarrier();
    if ((local < 4u)) {
        let v119 = a0[(local + 4u)];
        let v122 = a1[(local + 4u)];
        let v123 = a0[local];
        let v124 = a1[local];
        if (((v119 > v123) || ((v119 == v123) && (v122 < v124)))) {
            a0[local] = v119;
            a1[local] = v122;
        }
    }
    workgroupBarrier();
    if ((local < 2u)) {
        let v134 = a0[(local + 2u)];
        let v137 = a1[(local + 2u)];
        let v138 = a0[local];
        let v139 = a1[local];
        if (((v134 > v138) || ((v134 == v138) && (v137 < v139)))) {
            a0[local] = v134;
            a1[local] = v137;
        }
    }
    workgroupBarrier();
    if ((local < 1u)) {
        let v149 = a0[(local + 1u)];
        let v152 = a1[(local + 1u)];
        let v153 = a0[local];
        let v154 = a1[local];
        if (((v149 > v153) || ((v149 == v153) && (v152 < v154)))) {
            a0[local] = v149;
            a1[local] = v152;
        }
    }
    workgroupBarrier();
    if ((local == 0u)) {
        let v163 = a1[0u];
        b1[group] = bitcast<i32>(v163);
    }
}
