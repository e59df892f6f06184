// Single and double precision: rounding intrinsics, the whole of the math library, fast variants.
extern "C" __global__ void rounding(float* f, double* d, float a, float b, float c, double x, double y, double z) {
    f[0] = __fadd_rn(a, b) + __fadd_rz(a, b) * __fadd_ru(a, b) - __fadd_rd(a, b);
    f[1] = __fmul_rn(a, b) + __fmul_rz(a, b) * __fmul_ru(a, b) - __fmul_rd(a, b);
    f[2] = __fmaf_rn(a, b, c) + __fmaf_rz(a, b, c) * __fmaf_ru(a, b, c) - __fmaf_rd(a, b, c);
    f[3] = __fdiv_rn(a, b) + __fdiv_rz(a, b) * __fdiv_ru(a, b) - __fdiv_rd(a, b) + __fdividef(a, b);
    f[10] = __frcp_rd(a) + __frcp_ru(b) + __fsqrt_ru(c) + __fsqrt_rz(a) + __fsub_ru(a, b) + __fsub_rd(b, c);
    f[4] = __frcp_rn(a) + __frcp_rz(b) * __fsqrt_rn(a) - __fsqrt_rd(b) + __frsqrt_rn(c);
    f[5] = __fsub_rn(a, b) + __fsub_rz(a, b) + __saturatef(a) + __fmaf_ieee_rn(a, b, c);
    d[0] = __dadd_rn(x, y) + __dadd_rz(x, y) * __dmul_ru(x, y) - __dmul_rd(x, y) + __fma_rn(x, y, z) + __fma_rz(x, y, z);
    d[1] = __ddiv_rn(x, y) + __ddiv_ru(x, y) + __drcp_rn(x) + __dsqrt_rn(y) + __dsqrt_rz(z) + __dsub_rd(x, y);
    f[6] = __double2float_rn(x) + __double2float_rz(x) + __int2float_rn(int(a)) + __uint2float_ru(unsigned(b)) + __ll2float_rd(x);
    f[7] = __float2int_rn(a) + __float2int_rz(b) + __float2uint_ru(c) + __float2ll_rd(a) + __float2ull_rn(b) + __double2int_rn(x);
    d[2] = __int2double_rn(int(a)) + __ll2double_rn(x) + __ull2double_rz(y) + __double2ll_ru(x) + __hiloint2double(3, 4);
    f[8] = __sinf(a) + __cosf(b) + __expf(c) + __logf(a) + __log2f(b) + __exp10f(c) + __powf(a, b) + __tanf(c) + __tanhf(a);
    f[9] = (a < b) + (a != b) * (isnan(a) ? 2 : 3) + isinf(b) + signbit(c) + isfinite(a) + fminf(a, b) + fmaxf(b, c);
}
extern "C" __global__ void integers(float* f, double* d, int* i, unsigned* u, long long* l, unsigned long long* ul, signed char* c, unsigned char* uc, short* s, unsigned short* us) {
#define BOTH(r) f[0] = __int2float_##r(i[0]); f[1] = __uint2float_##r(u[0]); f[2] = __ll2float_##r(l[0]); f[3] = __ull2float_##r(ul[0]); f[4] = __double2float_##r(d[0]); d[1] = __ll2double_##r(l[0]); d[2] = __ull2double_##r(ul[0]); \
    i[1] = __float2int_##r(f[5]); u[1] = __float2uint_##r(f[6]); l[1] = __float2ll_##r(f[7]); ul[1] = __float2ull_##r(f[8]); i[2] = __double2int_##r(d[3]); u[2] = __double2uint_##r(d[4]); l[2] = __double2ll_##r(d[5]); ul[2] = __double2ull_##r(d[6]); f += 9, d += 7, i += 3, u += 3, l += 3, ul += 3;
    BOTH(rn) BOTH(rz) BOTH(ru) BOTH(rd)
    f[0] = c[0]; f[1] = uc[0]; f[2] = s[0]; f[3] = us[0]; c[1] = f[4]; uc[1] = f[5]; s[1] = f[6]; us[1] = f[7]; d[0] = c[0]; d[1] = us[0]; uc[2] = d[2]; s[2] = d[3]; c[3] = i[0]; l[0] = c[4]; d[4] = f[8];
}
extern "C" __global__ void library_single(float* f, float a, float b, float c) {
    int e; float s, co;
    f[0] = sinf(a) + cosf(b) + tanf(c) + asinf(a) + acosf(b) + atanf(c) + atan2f(a, b);
    f[1] = sinhf(a) + coshf(b) + tanhf(c) + expf(a) + exp2f(b) + expm1f(c) + logf(a) + log2f(b) + log10f(c) + log1pf(a);
    f[2] = powf(a, b) + sqrtf(c) + rsqrtf(a) + cbrtf(b) + hypotf(a, b) + fmodf(a, b) + remainderf(b, c) + fdimf(a, c);
    f[3] = floorf(a) + ceilf(b) + truncf(c) + roundf(a) + rintf(b) + nearbyintf(c) + lroundf(a) + llrintf(b);
    f[4] = frexpf(a, &e) + ldexpf(b, e) + modff(c, &s) + s + logbf(a) + ilogbf(b) + copysignf(a, c) + nextafterf(a, b);
    f[5] = erff(a) + erfcf(b) + tgammaf(c) + lgammaf(a) + j0f(b) + y1f(c) + normcdff(a) + erfinvf(b) + sinpif(c);
    sincosf(a, &s, &co);
    f[6] = s + co + norm3df(a, b, c) + fabsf(a);
}
extern "C" __global__ void library_double(double* f, double a, double b, double c) {
    int e; double s, co;
    f[0] = sin(a) + cos(b) + tan(c) + asin(a) + atan2(a, b) + sinh(a) + tanh(c) + exp(a) + exp2(b) + log(a) + log2(b) + log10(c);
    f[1] = pow(a, b) + sqrt(c) + rsqrt(a) + cbrt(b) + hypot(a, b) + fmod(a, b) + floor(a) + ceil(b) + trunc(c) + round(a) + rint(b);
    f[2] = frexp(a, &e) + ldexp(b, e) + modf(c, &s) + erf(a) + erfc(b) + tgamma(c) + lgamma(a) + fmin(a, b) + fmax(b, c) + fabs(a);
    sincos(a, &s, &co);
    f[3] = s + co + a / b + (a < b) + isnan(c);
}
#if __CUDA_ARCH__ >= 1000
extern "C" __global__ void pairs(float2* f) {
    f[0] = __fadd2_rn(f[1], f[2]); f[1] = __fmul2_rz(f[2], f[3]); f[4] = __ffma2_rn(f[1], f[2], f[3]); f[5] = __ffma2_ru(f[1], f[2], f[3]); f[6] = __fadd2_rd(f[7], f[8]);
}
#endif
