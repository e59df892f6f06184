// The scalar and packed video instructions, which no compiler writes any more.
#define R2(text, d, a, b) asm volatile(text : "=r"(d) : "r"(a), "r"(b))
#define R3(text, d, a, b, c) asm volatile(text : "=r"(d) : "r"(a), "r"(b), "r"(c))
extern "C" __global__ void video(int* p, int a, int b, int c) {
    R3("vadd.s32.u32.s32.sat %0, %1.b0, %2.h1, %3;", p[0], a, b, c); R2("vsub.u32.s32.s32 %0, %1, %2;", p[1], a, b);
    R3("vabsdiff.s32.s32.s32.add %0, %1, %2.b3, %3;", p[2], a, b, c); R3("vmin.s32.s32.s32.max %0, %1.h0, %2, %3;", p[3], a, b, c);
    R3("vmax.u32.u32.u32 %0.h1, %1, %2, %3;", p[4], a, b, c); R2("vshl.u32.u32.u32.wrap %0, %1, %2;", p[5], a, b);
    R2("vshr.s32.s32.u32.clamp %0, %1, %2;", p[6], a, b); R3("vmad.s32.s32.s32.shr7 %0, %1.b0, %2.b1, %3;", p[7], a, b, c);
    R3("vmad.u32.u32.u32.po %0, %1, %2, %3;", p[8], a, b, c); R2("vset.s32.u32.lt %0, %1, %2;", p[9], a, b);
    R3("vadd2.s32.s32.s32.sat %0.h10, %1.h32, %2, %3;", p[10], a, b, c); R3("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", p[11], a, b, c);
    R3("vavrg4.u32.u32.u32 %0.b3210, %1, %2.b7654, %3;", p[12], a, b, c); R3("vset4.u32.u32.ne.add %0, %1, %2, %3;", p[13], a, b, c);
}
