// The first guard that is not finite is the verdict, unless a kernel trapped or a window of the commit does not fit; a step that failed leaves a record.
// graph {
//   %0: f32[300] = param "w"
//   %1: f32[] = input "loss"
//   %2: i32[] = input "at"
//   %3: f32[8] = state "cache" {init=0.0}
//   %4: f32[2] = input "new"
//   update %3[%2] <- %4
//   guard "loss" %1
//   guard "w" %0
// }

// [1, 1, 1] workgroups
// write_region
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read> status: array<u32, 52>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let committed = status[0] == 0u;
    let v4 = ((group * 256u) + local);
    if ((committed && (v4 < 2u))) {
        let v11 = b1[0u];
        let v19 = b0[v4];
        b2[(v4 + bitcast<u32>(v11))] = v19;
    }
}

// [1, 1, 1] workgroups
// guards
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> b2: array<i32>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>, 52>;
var<workgroup> a0: array<u32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    var x0 = 4294967295u;
    for (var i0 = local; i0 < 1u; i0 += 256u) {
        let v6 = b0[0u];
        if (((bitcast<u32>(v6) & 2139095040u) == 2139095040u)) {
            x0 = min(x0, 2u);
        }
    }
    for (var i1 = local; i1 < 300u; i1 += 256u) {
        let v22 = b1[i1];
        if (((bitcast<u32>(v22) & 2139095040u) == 2139095040u)) {
            x0 = min(x0, 3u);
        }
    }
    a0[local] = x0;
    workgroupBarrier();
    for (var i2 = 0u; i2 < 8u; i2 += 1u) {
        let v38 = (128u >> (u32(i2) & 31u));
        if ((local < v38)) {
            let v44 = a0[local];
            let v45 = a0[(local + v38)];
            a0[local] = min(v44, v45);
        }
        workgroupBarrier();
    }
    if ((local == 0u)) {
        let v53 = b2[0u];
        let v61 = atomicLoad(&status[1u]);
        if ((((v53 < 0i) || (!(v53 < 7i))) && (v61 == 0u))) {
            atomicStore(&status[1u], 1u);
            atomicStore(&status[2u], 0u);
            atomicStore(&status[3u], bitcast<u32>(v53));
            atomicStore(&status[4u], bitcast<u32>(7i));
        }
        let v74 = a0[0u];
        let v80 = atomicLoad(&status[1u]);
        atomicStore(&status[0u], select(1u, select(v74, 0u, (v74 == 4294967295u)), (v80 == 0u)));
        let v87 = atomicLoad(&status[8u]);
        atomicStore(&status[8u], (v87 + 1u));
        let v92 = atomicLoad(&status[0u]);
        if ((!(v92 == 0u))) {
            let v97 = atomicLoad(&status[9u]);
            atomicStore(&status[9u], (v97 + 1u));
            let v102 = atomicLoad(&status[10u]);
            let v111 = (((v97 % 4u) * 8u) + 12u);
            for (var i3 = select(1u, 0u, ((v97 - v102) < 4u)); i3 < 2u; i3 += 1u) {
                let v121 = select(44u, v111, (i3 == 0u));
                atomicStore(&status[v121], (v97 + 1u));
                atomicStore(&status[(v121 + 1u)], v87);
                for (var i4 = 0u; i4 < 5u; i4 += 1u) {
                    let v133 = atomicLoad(&status[i4]);
                    atomicStore(&status[((v121 + 2u) + i4)], v133);
                }
            }
        }
    }
}
