// OpenMP regions for a device: what clang outlines, and its runtime's calls (which stay .extern).
void axpy(int n, float a, const float *x, float *y) {
#pragma omp target teams distribute parallel for map(to : x[0 : n]) map(tofrom : y[0 : n])
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}

double dot(int n, const double *x, const double *y) {
  double s = 0;
#pragma omp target teams distribute parallel for reduction(+ : s) map(to : x[0 : n], y[0 : n])
  for (int i = 0; i < n; ++i) s += x[i] * y[i];
  return s;
}

void nest(int n, int *h) {
#pragma omp target map(tofrom : h[0 : n])
  {
    int local[8];
    for (int k = 0; k < 8; ++k) local[k] = k;
#pragma omp parallel for schedule(dynamic, 4)
    for (int i = 0; i < n; ++i) {
#pragma omp atomic
      h[i & 7] += local[i & 7];
#pragma omp critical
      h[0] ^= i;
    }
  }
}
