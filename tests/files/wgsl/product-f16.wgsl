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
    let v31 = (local + 128u);
    let v33 = (v31 % 16u);
    let v35 = (v31 / 16u);
    let v37 = (v33 * 4u);
    let v40 = (v7 + v35);
    let v43 = ((v35 * 18u) + v33);
    var x1 = vec4<f16>(vec4<f32>(0.0f));
    let v46 = (local + 256u);
    let v48 = (v46 % 16u);
    let v50 = (v46 / 16u);
    let v52 = (v48 * 4u);
    let v55 = (v7 + v50);
    let v58 = ((v50 * 18u) + v48);
    var x2 = vec4<f16>(vec4<f32>(0.0f));
    let v61 = (local + 384u);
    let v63 = (v61 % 16u);
    let v65 = (v61 / 16u);
    let v67 = (v63 * 4u);
    let v70 = (v7 + v65);
    let v73 = ((v65 * 18u) + v63);
    var x3 = vec4<f16>(vec4<f32>(0.0f));
    let v76 = (local + 512u);
    let v78 = (v76 % 16u);
    let v80 = (v76 / 16u);
    let v82 = (v78 * 4u);
    let v85 = (v7 + v80);
    let v88 = ((v80 * 18u) + v78);
    var x4 = vec4<f16>(vec4<f32>(0.0f));
    let v91 = (local + 640u);
    let v93 = (v91 % 16u);
    let v95 = (v91 / 16u);
    let v97 = (v93 * 4u);
    let v100 = (v7 + v95);
    let v103 = ((v95 * 18u) + v93);
    var x5 = vec4<f16>(vec4<f32>(0.0f));
    let v106 = (local + 768u);
    let v108 = (v106 % 16u);
    let v110 = (v106 / 16u);
    let v112 = (v108 * 4u);
    let v115 = (v7 + v110);
    let v118 = ((v110 * 18u) + v108);
    var x6 = vec4<f16>(vec4<f32>(0.0f));
    let v121 = (local + 896u);
    let v123 = (v121 % 16u);
    let v125 = (v121 / 16u);
    let v127 = (v123 * 4u);
    let v130 = (v7 + v125);
    let v133 = ((v125 * 18u) + v123);
    var x7 = vec4<f16>(vec4<f32>(0.0f));
    let v138 = ((v14 / 2u) * 32u);
    let v142 = (local % 16u);
    let v144 = (local / 16u);
    let v146 = (v142 * 4u);
    let v151 = ((v144 * 18u) + v142);
    var x8 = vec4<f16>(vec4<f32>(0.0f));
    let v154 = (local + 128u);
    let v156 = (v154 % 16u);
    let v158 = (v154 / 16u);
    let v160 = (v156 * 4u);
    let v165 = ((v158 * 18u) + v156);
    var x9 = vec4<f16>(vec4<f32>(0.0f));
    let v168 = (local + 256u);
    let v170 = (v168 % 16u);
    let v172 = (v168 / 16u);
    let v174 = (v170 * 4u);
    let v179 = ((v172 * 18u) + v170);
    var x10 = vec4<f16>(vec4<f32>(0.0f));
    let v182 = (local + 384u);
    let v184 = (v182 % 16u);
    let v186 = (v182 / 16u);
    let v188 = (v184 * 4u);
    let v193 = ((v186 * 18u) + v184);
    var x11 = vec4<f16>(vec4<f32>(0.0f));
    let v196 = (local + 512u);
    let v198 = (v196 % 16u);
    let v200 = (v196 / 16u);
    let v202 = (v198 * 4u);
    let v207 = ((v200 * 18u) + v198);
    var x12 = vec4<f16>(vec4<f32>(0.0f));
    let v210 = (local + 640u);
    let v212 = (v210 % 16u);
    let v214 = (v210 / 16u);
    let v216 = (v212 * 4u);
    let v221 = ((v214 * 18u) + v212);
    var x13 = vec4<f16>(vec4<f32>(0.0f));
    let v224 = (local + 768u);
    let v226 = (v224 % 16u);
    let v228 = (v224 / 16u);
    let v230 = (v226 * 4u);
    let v235 = ((v228 * 18u) + v226);
    var x14 = vec4<f16>(vec4<f32>(0.0f));
    let v238 = (local + 896u);
    let v240 = (v238 % 16u);
    let v242 = (v238 / 16u);
    let v244 = (v240 * 4u);
    let v249 = ((v242 * 18u) + v240);
    var x15 = vec4<f16>(vec4<f32>(0.0f));
    let v254 = ((v14 % 2u) * 32u);
    var x16 = coop_mat16x16<f32, C>();
    var x17 = coop_mat16x16<f32, C>();
    var x18 = coop_mat16x16<f32, C>();
    var x19 = coop_mat16x16<f32, C>();
    let v274 = b0[(((min(v25, 69u) * 128u) + v22) / 4u)];
    x0 = vec4<f16>(v274);
    let v289 = b0[(((min(v40, 69u) * 128u) + v37) / 4u)];
    x1 = vec4<f16>(v289);
    let v304 = b0[(((min(v55, 69u) * 128u) + v52) / 4u)];
    x2 = vec4<f16>(v304);
    let v319 = b0[(((min(v70, 69u) * 128u) + v67) / 4u)];
    x3 = vec4<f16>(v319);
    let v334 = b0[(((min(v85, 69u) * 128u) + v82) / 4u)];
    x4 = vec4<f16>(v334);
    let v349 = b0[(((min(v100, 69u) * 128u) + v97) / 4u)];
    x5 = vec4<f16>(v349);
    let v364 = b0[(((min(v115, 69u) * 128u) + v112) / 4u)];
    x6 = vec4<f16>(v364);
    let v379 = b0[(((min(v130, 69u) * 128u) + v127) / 4u)];
    x7 = vec4<f16>(v379);
    let v392 = b1[((v146 + (v144 * 64u)) / 4u)];
    x8 = vec4<f16>(v392);
    let v405 = b1[((v160 + (v158 * 64u)) / 4u)];
    x9 = vec4<f16>(v405);
    let v418 = b1[((v174 + (v172 * 64u)) / 4u)];
    x10 = vec4<f16>(v418);
    let v431 = b1[((v188 + (v186 * 64u)) / 4u)];
    x11 = vec4<f16>(v431);
    let v444 = b1[((v202 + (v200 * 64u)) / 4u)];
    x12 = vec4<f16>(v444);
    let v457 = b1[((v216 + (v214 * 64u)) / 4u)];
    x13 = vec4<f16>(v457);
    let v470 = b1[((v230 + (v228 * 64u)) / 4u)];
    x14 = vec4<f16>(v470);
    let v483 = b1[((v244 + (v242 * 64u)) / 4u)];
    x15 = vec4<f16>(v483);
    for (var i0 = 0u; i0 < 128u; i0 += 64u) {
        a0[v28] = x0;
        a0[v43] = x1;
        a0[v58] = x2;
        a0[v73] = x3;
        a0[v88] = x4;
        a0[v103] = x5;
        a0[v118] = x6;
        a0[v133] = x7;
        a1[v151] = x8;
        a1[v165] = x9;
        a1[v179] = x10;
        a1[v193] = x11;
        a1[v207] = x12;
        a1[v221] = x13;
        a1[v235] = x14;
        a1[v249] = x15;
        workgroupBarrier();
        let v506 = (i0 + 64u);
        if ((v506 < 128u)) {
            let v522 = b0[(((min(v25, 69u) * 128u) + (v506 + v22)) / 4u)];
            x0 = vec4<f16>(v522);
            let v538 = b0[(((min(v40, 69u) * 128u) + (v506 + v37)) / 4u)];
            x1 = vec4<f16>(v538);
            let v554 = b0[(((min(v55, 69u) * 128u) + (v506 + v52)) / 4u)];
            x2 = vec4<f16>(v554);
            let v570 = b0[(((min(v70, 69u) * 128u) + (v506 + v67)) / 4u)];
            x3 = vec4<f16>(v570);
            let v586 = b0[(((min(v85, 69u) * 128u) + (v506 + v82)) / 4u)];
            x4 = vec4<f16>(v586);
            let v602 = b0[(((min(v100, 69u) * 128u) + (v506 + v97)) / 4u)];
            x5 = vec4<f16>(v602);
            let v618 = b0[(((min(v115, 69u) * 128u) + (v506 + v112)) / 4u)];
            x6 = vec4<f16>(v618);
            let v634 = b0[(((min(v130, 69u) * 128u) + (v506 + v127)) / 4u)];
            x7 = vec4<f16>(v634);
            let v648 = b1[((v146 + ((v506 + v144) * 64u)) / 4u)];
            x8 = vec4<f16>(v648);
            let v662 = b1[((v160 + ((v506 + v158) * 64u)) / 4u)];
            x9 = vec4<f16>(v662);
            let v676 = b1[((v174 + ((v506 + v172) * 64u)) / 4u)];
            x10 = vec4<f16>(v676);
            let v690 = b1[((v188 + ((v506 + v186) * 64u)) / 4u)];
            x11 = vec4<f16>(v690);
            let v704 = b1[((v202 + ((v506 + v200) * 64u)) / 4u)];
            x12 = vec4<f16>(v704);
            let v718 = b1[((v216 + ((v506 + v214) * 64u)) / 4u)];
            x13 = vec4<f16>(v718);
            let v732 = b1[((v230 + ((v506 + v228) * 64u)) / 4u)];
            x14 = vec4<f16>(v732);
            let v746 = b1[((v244 + ((v506 + v242) * 64u)) / 4u)];
            x15 = vec4<f16>(v746);
        }
        let v754 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(v138 * 18u)], 18u);
        let v760 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v138 + 16u) * 18u)], 18u);
        let v765 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(v254 / 4u)], 18u);
        x16 = coopMultiplyAdd(v754, v765, x16);
        x18 = coopMultiplyAdd(v760, v765, x18);
        let v775 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v254 + 16u) / 4u)], 18u);
        x17 = coopMultiplyAdd(v754, v775, x17);
        x19 = coopMultiplyAdd(v760, v775, x19);
        let v785 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v138 * 18u) + 4u)], 18u);
        let v792 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v138 + 16u) * 18u) + 4u)], 18u);
        let v798 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v254 / 4u) + 288u)], 18u);
        x16 = coopMultiplyAdd(v785, v798, x16);
        x18 = coopMultiplyAdd(v792, v798, x18);
        let v809 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v254 + 16u) / 4u) + 288u)], 18u);
        x17 = coopMultiplyAdd(v785, v809, x17);
        x19 = coopMultiplyAdd(v792, v809, x19);
        let v819 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v138 * 18u) + 8u)], 18u);
        let v826 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v138 + 16u) * 18u) + 8u)], 18u);
        let v832 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v254 / 4u) + 576u)], 18u);
        x16 = coopMultiplyAdd(v819, v832, x16);
        x18 = coopMultiplyAdd(v826, v832, x18);
        let v843 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v254 + 16u) / 4u) + 576u)], 18u);
        x17 = coopMultiplyAdd(v819, v843, x17);
        x19 = coopMultiplyAdd(v826, v843, x19);
        let v853 = coopLoadT<coop_mat16x16<f16, A>>(&a0[((v138 * 18u) + 12u)], 18u);
        let v860 = coopLoadT<coop_mat16x16<f16, A>>(&a0[(((v138 + 16u) * 18u) + 12u)], 18u);
        let v866 = coopLoadT<coop_mat16x16<f16, B>>(&a1[((v254 / 4u) + 864u)], 18u);
        x16 = coopMultiplyAdd(v853, v866, x16);
        x18 = coopMultiplyAdd(v860, v866, x18);
        let v877 = coopLoadT<coop_mat16x16<f16, B>>(&a1[(((v254 + 16u) / 4u) + 864u)], 18u);
        x17 = coopMultiplyAdd(v853, v877, x17);
        x19 = coopMultiplyAdd(v860, v877, x19);
        workgroupBarrier();
    }
    let v883 = (v14 * 320u);
    coopStoreT(x16, &a2[v883], 20u);
    let v885 = (v7 + v138);
    workgroupBarrier();
    for (var i1 = (local % 32u); i1 < 256u; i1 += 32u) {
        let v897 = (v885 + (i1 / 16u));
        let v900 = (v254 + (i1 % 16u));
        if ((v897 < 70u)) {
            let v912 = a2[((v883 + ((i1 / 16u) * 20u)) + (i1 % 16u))];
            let v925 = b2[v900];
            b3[((v897 * 64u) + v900)] = (v912 + v925);
        }
    }
    workgroupBarrier();
    coopStoreT(x17, &a2[v883], 20u);
    let v931 = (v7 + v138);
    let v934 = (v254 + 16u);
    workgroupBarrier();
    for (var i2 = (local % 32u); i2 < 256u; i2 += 32u) {
        let v944 = (v931 + (i2 / 16u));
        let v947 = (v934 + (i2 % 16u));
        if ((v944 < 70u)) {
            let v959 = a2[((v883 + ((i2 / 16u) * 20u)) + (i2 % 16u))];
            let v972 = b2[v947];
            b3[((v944 * 64u) + v947)] = (v959 + v972);
        }
    }
    workgroupBarrier();
    coopStoreT(x18, &a2[v883], 20u);
    let v980 = ((v7 + v138) + 16u);
    workgroupBarrier();
    for (var i3 = (local % 32u); i3 < 256u; i3 += 32u) {
        let v991 = (v980 + (i3 / 16u));
        let v994 = (v254 + (i3 % 16u));
        if ((v991 < 70u)) {
            let v1006 = a2[((v883 + ((i3 / 16u) * 20u)) + (i3 % 16u))];
            let v1019 = b2[v994];
            b3[((v991 * 64u) + v994)] = (v1006 + v1019);
        }
    }
    workgroupBarrier();
    coopStoreT(x19, &a2[v883], 20u);
    let v1027 = ((v7 + v138) + 16u);
    let v1029 = (v254 + 16u);
    workgroupBarrier();
    for (var i4 = (local % 32u); i4 < 256u; i4 += 32u) {
        let v1039 = (v1027 + (i4 / 16u));
        let v1042 = (v1029 + (i4 % 16u));
        if ((v1039 < 70u)) {
            let v1054 = a2[((v883 + ((i4 / 16u) * 20u)) + (i4 % 16u))];
            let v1067 = b2[v1042];
            b3[((v1039 * 64u) + v1042)] = (v1054 + v1067);
        }
    }
    workgroupBarrier();
}
