// The indices are sorted, so that each row adds its updates in their order, without atomics.
// graph {
//   %0: f32[9, 8] = constant 0.0
//   %1: i32[20] = input "i"
//   %2: f32[20, 8] = input "u"
//   %3: f32[9, 8] = scatter_add %0, %1, %2 {batch=0}
//   output "y" %3
// }

// [3, 1, 1] workgroups
// scatter: sort
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> b3: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<u32>;
@group(0) @binding(4) var<storage, read_write> w1: array<u32>;
@group(0) @binding(5) var<storage, read_write> status: array<atomic<u32>, 52>;
var<workgroup> a0: array<u32, 256>;
var<workgroup> a1: array<u32, 256>;
var<workgroup> a2: array<u32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v2 = (group < 2u);
    if (v2) {
        let v5 = (group / 2u);
        let v8 = (v5 * 20u);
        let v20 = (((group % 2u) * 16u) + (local / 16u));
        let v23 = (local % 16u);
        let v27 = (v8 + min(v20, 19u));
        let v31 = b1[v27];
        let v35 = min(max(v31, 0i), 8i);
        var x0 = 0u;
        var x1 = 0u;
        var x2 = 0u;
        for (var i0 = (v8 + v23); i0 < (v8 + 20u); i0 += 16u) {
            let v46 = b1[i0];
            let v50 = min(max(v46, 0i), 8i);
            let v51 = (v50 == v35);
            x0 = (x0 + u32((v50 < v35)));
            x1 = (x1 + u32(v51));
            x2 = (x2 + u32((v51 && (i0 < v27))));
        }
        a0[local] = x0;
        a1[local] = x1;
        a2[local] = x2;
        workgroupBarrier();
        if (((v23 == 0u) && (v20 < 20u))) {
            if (v31 < 0 || v31 >= 9) {
                if (atomicCompareExchangeWeak(&status[1], 0u, 1u).exchanged) {
                    atomicStore(&status[2], v27);
                    atomicStore(&status[3], bitcast<u32>(v31));
                    atomicStore(&status[4], 9u);
                }
            }
            for (var i1 = (local + 1u); i1 < (local + 16u); i1 += 1u) {
                let v82 = a0[i1];
                x0 = (x0 + v82);
                let v85 = a1[i1];
                x1 = (x1 + v85);
                let v88 = a2[i1];
                x2 = (x2 + v88);
            }
            let v92 = x1;
            let v93 = x2;
            let v97 = (((v5 * 20u) + x0) + v93);
            w0[v97] = v27;
            w1[v97] = select(0u, v92, (v93 == 0u));
        }
    }
    if ((!v2)) {
        let v109 = (((group - 2u) * 256u) + local);
        if ((v109 < 72u)) {
            let v117 = b0[0u];
            b3[v109] = v117;
        }
    }
}

// [1, 1, 1] workgroups
// scatter
@group(0) @binding(0) var<storage, read_write> b1: array<i32>;
@group(0) @binding(1) var<storage, read_write> b2: array<f32>;
@group(0) @binding(2) var<storage, read_write> b3: array<f32>;
@group(0) @binding(3) var<storage, read_write> w0: array<u32>;
@group(0) @binding(4) var<storage, read_write> w1: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 160u)) {
        let v8 = (v4 / 8u);
        let v10 = (v4 % 8u);
        let v11 = w1[v8];
        if ((0u < v11)) {
            let v15 = w0[v8];
            let v19 = b1[v15];
            let v32 = (((((v15 / 20u) * 9u) + bitcast<u32>(min(max(v19, 0i), 8i))) * 8u) + v10);
            let v36 = b3[v32];
            var x0 = v36;
            let v38 = (v11 / 8u);
            for (var i0 = 0u; i0 < v38; i0 += 1u) {
                let v46 = w0[(v8 + (i0 * 8u))];
                let v52 = w0[(v8 + ((i0 * 8u) + 1u))];
                let v58 = w0[(v8 + ((i0 * 8u) + 2u))];
                let v64 = w0[(v8 + ((i0 * 8u) + 3u))];
                let v70 = w0[(v8 + ((i0 * 8u) + 4u))];
                let v76 = w0[(v8 + ((i0 * 8u) + 5u))];
                let v82 = w0[(v8 + ((i0 * 8u) + 6u))];
                let v88 = w0[(v8 + ((i0 * 8u) + 7u))];
                let v98 = b2[((v46 * 8u) + v10)];
                let v108 = b2[((v52 * 8u) + v10)];
                let v118 = b2[((v58 * 8u) + v10)];
                let v128 = b2[((v64 * 8u) + v10)];
                let v138 = b2[((v70 * 8u) + v10)];
                let v148 = b2[((v76 * 8u) + v10)];
                let v158 = b2[((v82 * 8u) + v10)];
                let v168 = b2[((v88 * 8u) + v10)];
                x0 = (x0 + v98);
                x0 = (x0 + v108);
                x0 = (x0 + v118);
                x0 = (x0 + v128);
                x0 = (x0 + v138);
                x0 = (x0 + v148);
                x0 = (x0 + v158);
                x0 = (x0 + v168);
            }
            for (var i1 = (v38 * 8u); i1 < v11; i1 += 1u) {
                let v191 = w0[(v8 + i1)];
                let v201 = b2[((v191 * 8u) + v10)];
                x0 = (x0 + v201);
            }
            b3[v32] = x0;
        }
    }
}
