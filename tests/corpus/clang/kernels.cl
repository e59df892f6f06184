// OpenCL C: address spaces, vectors, images, local memory.  Its library's functions stay .extern.
__kernel void reduce(__global const float *x, __global float *y, __local float *s, int n, __constant float *w) {
  int i = get_global_id(0), l = get_local_id(0);
  s[l] = i < n ? x[i] * w[l & 15] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = get_local_size(0) / 2; d > 0; d >>= 1) {
    if (l < d) s[l] += s[l + d];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) y[get_group_id(0)] = s[0];
}

__kernel void vectors(__global float4 *x, __global const int4 *k, __global uchar16 *bytes) {
  int i = get_global_id(0);
  float4 v = x[i];
  int4 q = k[i];
  x[i] = v.wzyx * (float4)(q.x, q.y, q.z, q.w) + (float4)(1.0f, 2.0f, 3.0f, 4.0f);
  bytes[i] = bytes[i].s0123456789abcdef << (uchar)2;
}
