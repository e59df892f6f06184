// Single and double precision: rounding intrinsics, the whole of the math library, fast variants.
extern "C" __global__ void rounding(float* f, double* d, float a, float b, float c, double x, double y, double z) {
    f[0] = __fadd_rn(a, b) + __fadd_rz(a, b) * __fadd_ru(a, b) - __fadd_rd(a, b);
    f[1] = __fmul_rn(a, b) + __fmul_rz(a, b) * __fmul_ru(a, b) - __fmul_rd(a, b);
    f[2] = __fmaf_rn(a, b, c) + __fmaf_rz(a, b, c) * __fmaf_ru(a, b, c) - __fmaf_rd(a, b, c);
    f[3] = __fdiv_rn(a, b) + __fdiv_rz(a, b) * __fdiv_ru(a, b) - __fdiv_rd(a, b) + __fdividef(a, b);
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
