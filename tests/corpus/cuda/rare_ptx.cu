// Inline PTX for what no compiler writes: mul24, szext, cnot, slct, testp, pmevent, brkpt and kin;
// declarations of every kind inside asm; literals in each base; several statements on a line; odd names.
#define R1(text, d, a) asm volatile(text : "=r"(d) : "r"(a))
#define R2(text, d, a, b) asm volatile(text : "=r"(d) : "r"(a), "r"(b))
#define R3(text, d, a, b, c) asm volatile(text : "=r"(d) : "r"(a), "r"(b), "r"(c))
extern "C" __global__ void rare_integers(int* p, int a, int b, int c) {
    R2("mul24.lo.s32 %0, %1, %2;", p[0], a, b); R2("mul24.hi.u32 %0, %1, %2;", p[1], a, b);
    R3("mad24.lo.u32 %0, %1, %2, %3;", p[2], a, b, c); R3("mad24.hi.sat.s32 %0, %1, %2, %3;", p[3], a, b, c);
    R1("cnot.b32 %0, %1;", p[4], a); R2("slct.u32.s32 %0, %1, 5, %2;", p[5], a, b);
    R2("szext.wrap.s32 %0, %1, %2;", p[6], a, b); R2("szext.clamp.u32 %0, %1, %2;", p[7], a, b);
    R2("bmsk.clamp.b32 %0, %1, %2;", p[8], a, b); R1("bfind.shiftamt.s32 %0, %1;", p[9], a);
    R3("bfe.s32 %0, %1, %2, %3;", p[10], a, b, c); R2("fns.b32 %0, %1, %2, 1;", p[11], a, b);
    R3("lop3.b32 %0, %1, %2, %3, 0xE8;", p[12], a, b, c); R3("dp2a.hi.u32.s32 %0, %1, %2, %3;", p[13], a, b, c);
    asm volatile("{ .reg .pred p, q; lop3.or.b32 %0|p, %1, %2, %3, 0x96, q; setp.lt.and.s32 p|q, %1, %2, !p; @!q neg.s32 %0, %0; }" : "=r"(p[14]) : "r"(a), "r"(b), "r"(c));
    R3("prmt.b32.f4e %0, %1, %2, %3;", p[15], a, b, c); R3("prmt.b32.rc16 %0, %1, %2, %3;", p[16], a, b, c);
    R3("shf.l.wrap.b32 %0, %1, %2, %3;", p[17], a, b, c); R2("add.sat.s32 %0, %1, %2;", p[18], a, b);
    asm volatile("set.lt.u32.s32 %0, %1, %2; set.eq.xor.s32.u32 %0, %1, %2, 1;" : "=r"(p[19]) : "r"(a), "r"(b));
}
extern "C" __global__ void rare_floats(float* f, double* d, int* p) {
    asm volatile("{ .reg .pred p; testp.finite.f32 p, %1; selp.b32 %0, 1, 0, p; testp.subnormal.f64 p, %2; @p mov.b32 %0, 2; }" : "=r"(p[0]) : "f"(f[0]), "d"(d[0]));
    asm volatile("copysign.f32 %0, %0, 0fBF800000; slct.f32.f32 %0, %0, 1e-5, 2.5; add.ftz.f32 %0, %0, 0f3f800000;" : "+f"(f[1]));
    asm volatile("fma.rz.f64 %0, %0, 0d3ff0000000000000, 1.5E+3; mul.rp.f64 %0, %0, .5; add.rm.f64 %0, %0, 1.;" : "+d"(d[1]));
    asm volatile("mov.u32 %0, 0b1011; add.u32 %0, %0, 0777; add.u32 %0, %0, 0xFFU; add.u32 %0, %0, (3 + 4) * 2 - -1; add.s32 %0, %0, (1 << 4) | 1;" : "=r"(p[1]));
    asm volatile("tanh.approx.f32 %0, %0; ex2.approx.ftz.f32 %0, %0; sin.approx.f32 %0, %0; rsqrt.approx.ftz.f64 %1, %1; rcp.approx.ftz.f64 %1, %1;" : "+f"(f[2]), "+d"(d[2]));
    asm volatile("cvt.rni.sat.f32.f32 %0, %0; cvt.ftz.rpi.s32.f32 %1, %0; cvt.sat.u8.s32 %1, %1; cvt.rn.f32.u64 %0, %2;" : "+f"(f[3]), "=r"(p[2]) : "l"((long long)p[3]));
}
extern "C" __global__ void rare_control(int* p, int a) {
    asm volatile("pmevent 3;" ::); asm volatile("pmevent.mask 0x8001;" ::);
    asm volatile("{ .reg .b64 $s; .reg .b32 _u, %%v<4>; mov.b32 _u, %0; mov.b32 %%v1, _u; st.global.b32 [%1+4], %%v1; }" :: "r"(a), "l"(p));
    asm volatile("{\n\t.reg .pred P;\n\tsetp.eq.s32 P, %0, 0;\n\t@P bra $L_done_%=;\n\t{ .reg .u32 x; mov.u32 x, 7; { .reg .u32 x; mov.u32 x, 8; st.global.u32 [%1], x; } st.global.u32 [%1], x; }\n\t$L_done_%=:\n\t}" :: "r"(a), "l"(p));
    asm volatile("{ .reg .b32 i; and.b32 i, %0, 1; ts%=: .branchtargets $A%=, $B%=; brx.idx i, ts%=; $A%=: st.global.b32 [%1], 1; $B%=: }" :: "r"(a), "l"(p));
    if (a == 77) asm volatile("brkpt;"); if (a == 78) asm volatile("trap;"); if (a == 79) asm volatile("exit;");
    asm volatile("{ .shared .align 8 .b8 here[64]; .reg .b32 x; mov.b32 x, here; st.shared.b32 [here+12], x; ld.shared.b32 x, [x+8]; st.global.b32 [%0+8], x; }" :: "l"(p));
    asm volatile("prefetch.global.L2 [%0]; prefetchu.L1 [%0]; prefetch.global.L2::evict_last [%0];" :: "l"(p));
    asm volatile("{ .reg .pred p; isspacep.global p, %0; @p isspacep.shared p, %0; @p isspacep.local p, %0; @p st.global.u8 [%1], 3; }" :: "l"(p), "l"(p));
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void rare_memory(int* p, float* f) {
    unsigned long long pol;
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.25;" : "=l"(pol));
    asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2; st.global.L2::cache_hint.b32 [%1+4], %0, %2;" : "=r"(p[0]) : "l"(p), "l"(pol));
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], 0x1000, 0x2000;" : "=l"(pol) : "l"(p));
    asm volatile("createpolicy.cvt.L2.b64 %0, 0x14F0000000000000;" : "=l"(pol));
    asm volatile("applypriority.global.L2::evict_normal [%0], 128; discard.global.L2 [%0], 128;" :: "l"(p));
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]) : "l"(f + 4));
    asm volatile("ld.global.nc.L1::evict_last.L2::128B.v2.u64 {%0, %1}, [%2];" : "=l"(pol), "=l"(*(unsigned long long*)f) : "l"(f + 4));
    asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %0}; }" :: "l"(pol));
    asm volatile("ld.weak.global.cg.u8 %0, [%1]; ld.relaxed.cluster.global.u32 %0, [%1]; st.mmio.relaxed.sys.global.u32 [%1], %0;" : "=r"(p[1]) : "l"(p));
}
#endif
