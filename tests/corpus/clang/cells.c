// Plain C for clang's NVPTX target: structures, recursion, a switch, constants, builtins, atomics.
typedef struct {
  float x, y;
  int tag[3];
} cell;

static __attribute__((noinline)) int collatz(unsigned n) {
  int steps = 0;
  for (; n != 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  return steps;
}

static __attribute__((noinline)) double poly(double x, const double *c, int n) {
  double y = 0;
  while (n-- > 0) y = y * x + c[n];
  return y;
}

__attribute__((noinline)) long gcd(long a, long b) { return b ? gcd(b, a % b) : a; }

void run(float *out, const int *in, cell *cells, int n) {
  for (int i = 0; i < n; ++i) {
    cell c = cells[i];
    switch (c.tag[0] & 7) {
      case 0: c.x = collatz(in[i]); break;
      case 1: c.y = (float)poly(c.x, (const double[]){1.0, 2.0, 0.5}, 3); break;
      case 2: c.tag[1] = (int)gcd(in[i], 36); break;
      case 3: c.x = __builtin_popcount(in[i]); break;
      case 4: c.y = in[i] / 7.0f; break;
      case 5: c.x = __builtin_clz(in[i]); break;
      default: c.tag[2] ^= in[i] << 3;
    }
    out[i] = c.x + c.y;
    cells[i] = c;
    __atomic_fetch_add(&cells[i].tag[1], 1, __ATOMIC_RELAXED);
  }
}
