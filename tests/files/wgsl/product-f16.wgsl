// Operands are read as vectors of four and rounded on the way to the workgroup's memory; the epilogue has the sum in f32; rows beyond the last are not stored.
// graph {
//   %0: f32[70, 128] = input "x"
//   %1: f32[128, 64] = param "w"
//   %2: f32[64] = param "b"
//   %3: f32[70, 64] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
//   %4: f32[1, 64] = reshape %2
//   %5: f32[70, 64] = broadcast %4
//   %6: f32[70, 64] = add %3, %5
//   output "y" %6
// }

// [2, 1, 1] workgroups
// dot [70 x 64] with epilogue
enable wgpu_cooperative_matrix;
enable f16;
@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> b3: array<f32>;
var<workgroup> a0: array<vec4<f16>, 1152>;
var<workgroup> a1: array<vec4<f16>, 1152>;
var<workgroup> a2: array<f32, 1280>;
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {
    let local = subgroup * 32u + place;
    let group = workgroup.x;
    let v7 = (group * 64u);
    let v14 = (local / 32u);
    let v18 = (local % 16u);
    let v20 = (local / 16u);
    let v22 = (v18 * 4u);
    let v25 = (v7 + v20);
    let v28 = ((v20 * 18u) + v18);
    var x0 = vec4<f16>(vec4<f32>(0.0f));
    let v32 = (local + 128u);
    let v34 = (v32 % 16u);
    let v36 = (v32 / 16u);
    let v38 = (v34 * 4u);
    let v41 = (v7 + v36);
    let v44 = ((v36 * 18u) + v34);
    var x1 = vec4<f16>(vec4<f32>(0.0f));
    let v48 = (local + 256u);
    let v50 = (v48 % 16u);
    let v52 = (v48 / 16u);
    let v54 = (v50 * 4u);
    let v57 = (v7 + v52);
    let v60 = ((v52 * 18u) + v50);
    var x2 = vec4<f16>(vec4<f32>(0.0f));
    let v64 = (local + 384u);
    let v66 = (v64 % 16u);
    let v68 = (v64 / 16u);
    let v70 = (v66 * 4u);
    let v73 = (v7 + v68);
    let v76 = ((v68 * 18u) + v66);
    var x3 = vec4<f16>(vec4<f32>(0.0f));
    let v80 = (local + 512u);
    let v82 = (v80 % 16u);
    let v84 = (v80 / 16u);
    let v86 = (v82 * 4u);
    let v89 = (v7 + v84);
    let v92 = ((v84 * 18u) + v82);
    var x4 = vec4<f16>(vec4<f32>(0.0f));
    let v96 = (local + 640u);
    let v98 = (v96 % 16u);
    let v100 = (v96 / 16u);
    let v102 = (v98 * 4u);
    let v105 = (v7 + v100);
    let v108 = ((v100 * 18u) + v98);
    var x5 = vec4<f16>(vec4<f32>(0.0f));
    let v112 = (local + 768u);
    let v114 = (v112 % 16u);
    let v116 = (v112 / 16u);
    let v118 = (v114 * 4u);
    let v121 = (v7 + v116);
    let v124 = ((v116 * 18u) + v114);
    var x6 = vec4<f16>(vec4<f32>(0.0f));
    let v128 = (local + 896u);
    let v130 = (v128 % 16u);
    let v132 = (v128 / 16u);
    let v134 = (v130 * 4u);
    let v137 = (v7 + v132);
    let v140 = ((v132 * 18u) + v130);
    var x7 = vec4<f16>(vec4<f32>(0.0f));
    let v145 = ((v14 / 2u) * 32u);
    let v149 = (local % 16u);
    let v151 = (local / 16u);
    let v153 = (v149 * 4u);
    let v158 = ((v151 * 18u) + v149);
    var x8 = vec4<f16>(vec4<f32>(0.0f));
    let v162 = (local + 128u);
    let v164 = (v162 % 16u);
    let v166 = (v162 / 16u);
    let v168 = (v164 * 4u);
    let v173 = ((v166 * 18u) + v164);
    var x9 = vec4<f16>(vec4<f32>(0.0f));
    let v177 = (local + 256u);
    let v179 = (v177 % 16u);
    let v181 = (v177 / 16u);
    let v183 = (v179 * 4u);
    let v188 = ((v181 * 18u) + v179);
    var x10 = vec4<f16>(vec4<f32>(0.0f));
    let v192 = (local + 384u);
    let v194 = (v192 % 16u);
    let v196 = (v192 / 16u);
    let v198 = (v194 * 4u);
    let v203 = ((v196 * 18u) + v194);
    var x11 = vec4<f16>(vec4<f32>(0.0f));
    let v207 = (local + 512u);
    let v209 = (v207 % 16u);
    let v211 = (v207 / 16u);
    let v213 = (v209 * 4u);
    let v218 = ((v211 * 18u) + v209);
    var x12 = vec4<f16>(vec4<f32>(0.0f));
    let v222 = (local + 640u);
    let v224 = (v222 % 16u);
    let v226 = (v222 / 16u);
    let v228 = (v224 * 4u);
    let v233 = ((v226 * 18u) + v224);
    var x13 = vec4<f16>(vec4<f32>(0.0f));
    let v237 = (local + 768u);
    let v239 = (v237 % 16u);
    let v241 = (v237 / 16u);
    let v243 = (v239 * 4u);
    let v248 = ((v241 * 18u) + v239);
    var x14 = vec4<f16>(vec4<f32>(0.0f));
    let v252 = (local + 896u);
    let v254 = (v252 % 16u);
    let v256 = (v252 / 16u);
    let v258 = (v254 * 4u);
    let v263 = ((v256 * 18u) + v254);
    var x15 = vec4<f16>(vec4<f32>(0.0f));
    let v268 = ((v14 % 2u) * 32u);
    var x16 = coop_mat16x16<f32, C>();
    var x17 = coop_mat16x16<f32, C>();
    var x18 = coop_mat16x16<f32, C>();
    var x19 = coop_mat16x16<f32, C>();
    let v288 = b0[(((min(v25, 69u) * 128u) + v22) / 4u)];
    x0 = vec4<f16>(v288);
    let v303 = b0[(((min(v41, 69u) * 128u) + v38) / 4u)];
    x1 = vec4<f16>(v303);
    let v318 = b0[(((min(v57, 69u) * 128u) + v54) / 4u)];
    x2 = vec4<f16>(v318);
    let v333 = b0[(((min(v73, 69u) * 128u) + v70) / 4u)];
    x3 = vec4<f16>(v333);
    let v348 = b0[(((min(v89, 69u) * 128u) + v86) / 4u)];
    x4 = vec4<f16>(v348);
    let v363 = b0[(((min(v105, 69u) * 128u) + v102) / 4u)];
    x5 = vec4<f16>(v363);
    let v378 = b0[(((min(v121, 69u) * 128u) + v118) / 4u)];
    x6 = vec4<f16>(v378);
    let v393 = b0[(((min(v137, 69u) * 128u) + v134) / 4u)];
    x7 = vec4<f16>(v393);
    let v406 = b1[((v153 + (v151 * 64u)) / 4u)];
    x8 = vec4<f16>(v406);
    let v419 = b1[((v168 + (v166 * 64u)) / 4u)];
    x9 = vec4<f16>(v419);
    let v432 = b1[((v183 + (v181 * 64u)) / 4u)];
    x10 = vec4<f16>(v432);
    let v445 = b1[((v198 + (v196 * 64u)) / 4u)];
    x11 = vec4<f16>(v445);
    let v458 = b1[((v213 + (v211 * 64u)) / 4u)];
    x12 = vec4<f16>(v458);
    let v471 = b1[((v228 + (v226 * 64u)) / 4u)];
    x13 = vec4<f16>(v471);
    let v484 = b1[((v243 + (v241 * 64u)) / 4u)];
    x14 = vec4<f16>(v484);
    let v497 = b1[((v258 + (v256 * 64u)) / 4u)];
    x15 = vec4<f16>(v497);
    for (var i0 = 0u; i0 < 128u; i0 += 64u) {
        a0[v28] = x0;
        a0[v44] = x1;
        a0[v60] = x2;
        a0[v76] = x3;
        a0[v92] = x4;
        a0[v108] = x5;
        a0[v124] = x6;
        a0[v140] = x7;
        a1[v158] = x8;
        a1[v173] = x9;
        a1[v188] = x10;
        a1[v203] = x11;
        a1[v218] = x12;
        a1[v233] = x13;
        a1[v248] = x14;
        a1[v263] = x15;
        workgroupBarrier();
        let v520 = (i0 + 64u);
        if ((v520 < 128u)) {
            let v536 = b0[(((min(v25, 69u) * 128u) + (v520 + v22)) / 4u)];
            x0 = vec4<f16>(v536);
            let v552 = b0[(((min(v41, 69u) * 128u) + (v520 + v38)) / 4u)];
            x1 = vec4<f16>(v552);
            let v568 = b0[(((min(v57, 69u) * 128u) + (v520 + v54)) / 4u)];
            x2 = vec4<f16>(v568);
            let v584 = b0[(((min(v73, 69u) * 128u) + (v520 + v70)) / 4u)];
            x3 = vec4<f16>(v584);
            let v600 = b0[(((min(v89, 69u) * 128u) + (v520 + v86)) / 4u)];
            x4 = vec4<f16>(v600);
            let v616 = b0[(((min(v105, 69u) * 128u) + (v520 + v102)) / 4u)];
            x5 = vec4<f16>(v616);
            let v632 = b0[(((min(v121, 69u) * 128u) + (v520 + v118)) / 4u)];
            x6 = vec4<f16>(v632);
            let v648 = b0[(((min(v137, 69u) * 128u) + (v520 + v134)) / 4u)];
            x7 = vec4<f16>(v648);
            let v662 = b1[((v153 + ((v520 + v151) * 64u)) / 4u)];
            x8 = vec4<f16>(v662);
            let v676 = b1[((v168 + ((v520 + v166) * 64u)) / 4u)];
            x9 = vec4<f16>(v676);
            let v690 = b1[((v183 + ((v520 + v181) * 64u)) / 4u)];
            x10 = vec4<f16>(v690);
            let v704 = b1[((v198 + ((v520 + v196) * 64u)) / 4u)];
            x11 = vec4<f16>(v704);
            let v718 = b1[((v213 + ((v520 + v211) * 64u)) / 4u)];
            x12 = vec4<f16>(v718);
            let v732 = b1[((v228 + ((v520 + v226) * 64u)) / 4u)];
            x13 = vec4<f16>(v732);
            let v746 = b1[((v243 + ((v520 + v241) * 64u)) / 4u)];
            x14 = vec4<f16>(v746);
            let v760 = b1[((v258 + ((v520 + v256) * 64u)) / 4u)];
            x15 = vec4<f16>(v760);
        }
        let v768 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(v145 * 18u)], 18u);
        let v774 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v145 + 16u) * 18u)], 18u);
        let v779 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(v268 / 4u)], 18u);
        x16 = coopMultiplyAdd(v768, v779, x16);
        x18 = coopMultiplyAdd(v774, v779, x18);
        let v789 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v268 + 16u) / 4u)], 18u);
        x17 = coopMultiplyAdd(v768, v789, x17);
        x19 = coopMultiplyAdd(v774, v789, x19);
        let v799 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v145 * 18u) + 4u)], 18u);
        let v806 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v145 + 16u) * 18u) + 4u)], 18u);
        let v812 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v268 / 4u) + 288u)], 18u);
        x16 = coopMultiplyAdd(v799, v812, x16);
        x18 = coopMultiplyAdd(v806, v812, x18);
        let v823 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v268 + 16u) / 4u) + 288u)], 18u);
        x17 = coopMultiplyAdd(v799, v823, x17);
        x19 = coopMultiplyAdd(v806, v823, x19);
        let v833 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v145 * 18u) + 8u)], 18u);
        let v840 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v145 + 16u) * 18u) + 8u)], 18u);
        let v846 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v268 / 4u) + 576u)], 18u);
        x16 = coopMultiplyAdd(v833, v846, x16);
        x18 = coopMultiplyAdd(v840, v846, x18);
        let v857 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v268 + 16u) / 4u) + 576u)], 18u);
        x17 = coopMultiplyAdd(v833, v857, x17);
        x19 = coopMultiplyAdd(v840, v857, x19);
        let v867 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v145 * 18u) + 12u)], 18u);
        let v874 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v145 + 16u) * 18u) + 12u)], 18u);
        let v880 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v268 / 4u) + 864u)], 18u);
        x16 = coopMultiplyAdd(v867, v880, x16);
        x18 = coopMultiplyAdd(v874, v880, x18);
        let v891 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v268 + 16u) / 4u) + 864u)], 18u);
        x17 = coopMultiplyAdd(v867, v891, x17);
        x19 = coopMultiplyAdd(v874, v891, x19);
        workgroupBarrier();
    }
    let v897 = (v14 * 320u);
    coopStoreT(x16, &a2[v897], 20u);
    let v899 = (v7 + v145);
    workgroupBarrier();
    for (var i1 = (local % 32u); i1 < 256u; i1 += 32u) {
        let v911 = (v899 + (i1 / 16u));
        let v914 = (v268 + (i1 % 16u));
        if ((v911 < 70u)) {
            let v926 = a2[((v897 + ((i1 / 16u) * 20u)) + (i1 % 16u))];
            let v939 = b2[v914];
            b3[((v911 * 64u) + v914)] = (v926 + v939);
        }
    }
    workgroupBarrier();
    coopStoreT(x17, &a2[v897], 20u);
    let v945 = (v7 + v145);
    let v948 = (v268 + 16u);
    workgroupBarrier();
    for (var i2 = (local % 32u); i2 < 256u; i2 += 32u) {
        let v958 = (v945 + (i2 / 16u));
        let v961 = (v948 + (i2 % 16u));
        if ((v958 < 70u)) {
            let v973 = a2[((v897 + ((i2 / 16u) * 20u)) + (i2 % 16u))];
            let v986 = b2[v961];
            b3[((v958 * 64u) + v961)] = (v973 + v986);
        }
    }
    workgroupBarrier();
    coopStoreT(x18, &a2[v897], 20u);
    let v994 = ((v7 + v145) + 16u);
    workgroupBarrier();
    for (var i3 = (local % 32u); i3 < 256u; i3 += 32u) {
        let v1005 = (v994 + (i3 / 16u));
        let v1008 = (v268 + (i3 % 16u));
        if ((v1005 < 70u)) {
            let v1020 = a2[((v897 + ((i3 / 16u) * 20u)) + (i3 % 16u))];
            let v1033 = b2[v1008];
            b3[((v1005 * 64u) + v1008)] = (v1020 + v1033);
        }
    }
    workgroupBarrier();
    coopStoreT(x19, &a2[v897], 20u);
    let v1041 = ((v7 + v145) + 16u);
    let v1043 = (v268 + 16u);
    workgroupBarrier();
    for (var i4 = (local % 32u); i4 < 256u; i4 += 32u) {
        let v1053 = (v1041 + (i4 / 16u));
        let v1056 = (v1043 + (i4 % 16u));
        if ((v1053 < 70u)) {
            let v1068 = a2[((v897 + ((i4 / 16u) * 20u)) + (i4 % 16u))];
            let v1081 = b2[v1056];
            b3[((v1053 * 64u) + v1056)] = (v1068 + v1081);
        }
    }
    workgroupBarrier();
}
