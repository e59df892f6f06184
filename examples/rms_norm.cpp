// RMSNorm, one warp for each row: y = x * rsqrt(mean(x * x) + eps) * w. Prints the same PTX as
// examples/rms_norm.py; with --run, runs it on the simulator and compares with plain C++.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ptx/ptx.h"

using namespace ptx::modifiers;
using namespace ptx::author::literals;
using ptx::author::Kernel, ptx::author::Reg, ptx::author::RegArray;

constexpr int warp_size = 32;

ptx::author::Built rms_norm(int N, double eps = 1e-6) {
  const int items = N / warp_size;
  return ptx::author::kernel({.name = "rms_norm", .target = "sm_90a"}, [&](Kernel& k) {
    auto [px, pw, py] = k.pointers({"X", "W", "Y"});
    const Reg row = k.from(k.ctaid_x(), u32);
    const Reg row_offset = row * (N * 4);
    px += row_offset;
    py += row_offset;

    const Reg tid = k.from(k.tid_x(), u32);
    const Reg sum = k.scalar(f32, 0.0);
    const RegArray x = k.array(f32, items);
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
}

// The largest difference from the same sums in double.
double run(int rows, int N) {
  ptx::Program program(rms_norm(N),
                       {ptx::tensor("X", ptx::Element::f32, {"rows", N}), ptx::tensor("W", ptx::Element::f32, {N}),
                        ptx::output("Y", ptx::Element::f32, {"rows", N})},
                       {.grid = {static_cast<std::uint32_t>(rows)}, .block = {warp_size}});
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(N);
  std::vector<float> x(count), w(static_cast<std::size_t>(N)), y(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 1 + 0.01f * static_cast<float>(i % 7);
  program.run({ptx::view(x, {rows, N}), w, ptx::view(y, {rows, N})});

  double worst = 0;
  for (std::size_t row = 0; row < count; row += w.size()) {
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) sum += double{x[row + i]} * x[row + i];
    const double scale = 1 / std::sqrt(sum / N + 1e-6);
    for (std::size_t i = 0; i < w.size(); ++i)
      worst = std::max(worst, std::fabs(y[row + i] - x[row + i] * scale * w[i]));
  }
  return worst;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--run") {
    const double worst = run(8, 512);
    std::printf("rms_norm: 8 rows of 512 on the simulator, largest difference %.1e\n", worst);
    return worst < 1e-5 ? 0 : 1;
  }
  const int N = argc > 1 ? std::stoi(argv[argc - 1]) : 512;  // [rows] columns: the text does not depend on the rows
  std::fputs(ptx::ir::emit(rms_norm(N).module).c_str(), stdout);
}
