// RMSNorm, one warp a row: y = x * rsqrt(mean(x * x) + eps) * w. Prints the PTX: the same bytes as
// examples/rms_norm.py.
#include <cstdio>
#include <string>
#include <vector>

#include "ptx/ptx.h"

using namespace ptx::modifiers;
using namespace ptx::author::literals;
using ptx::author::Kernel, ptx::author::Reg, ptx::author::RegArray;

constexpr int warp_size = 32;

std::string rms_norm(int N, double eps = 1e-6) {
  const int items = N / warp_size;
  const auto built = ptx::author::kernel({.name = "rms_norm", .target = "sm_90a"}, [&](Kernel& k) {
    auto [px, pw, py] = k.pointers({"X", "W", "Y"});
    const Reg row = k.from(k.ctaid_x(), u32);
    const Reg row_offset = row * (N * 4);
    px += row_offset;
    py += row_offset;

    const Reg tid = k.from(k.tid_x(), u32);
    const Reg sum = k.scalar(f32, 0.0);
    const RegArray x = k.array(f32, static_cast<unsigned>(items));
    for (int i = 0; i < items; ++i) {
      const Reg index = tid + i * warp_size;
      const Reg address = px + index * 4;
      k.ld(global, f32, x[i], k.at(address));
      k.fma(rn, f32, sum, x[i], x[i], sum);
    }

    ptx::author::warp::reduce_sum(k, sum);
    const Reg mean = k.scalar(f32);
    const Reg inverse = k.scalar(f32, 1.0 / N), epsilon = k.scalar(f32, eps), rstd = k.scalar(f32);
    k.mul(f32, mean, sum, inverse);
    k.add(f32, mean, mean, epsilon);
    k.rsqrt(approx, f32, rstd, mean);

    for (int i = 0; i < items; ++i) {
      const Reg index = tid + i * warp_size;
      const Reg offset = index * 4;
      const Reg weight = k.scalar(f32), y = k.scalar(f32);
      k.ld(global, f32, weight, k.at(pw + offset));
      "mul.f32"_ptx(y, x[i], rstd);
      "mul.f32"_ptx(y, y, weight);
      k.st(global, f32, k.at(py + offset), y);
    }
    k.ret();
  });
  return ptx::ir::emit(built.module);
}

int main(int argc, char** argv) {
  const int N = argc > 1 ? std::stoi(argv[argc - 1]) : 512;  // [rows] columns: the text does not depend on the rows
  std::fputs(rms_norm(N).c_str(), stdout);
}
