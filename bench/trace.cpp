// Trace and emission from C++: nanoseconds an instruction, for kernels of growing size (it should not grow with them).
// Columns: instructions of the kernel; building (one method call an instruction, checked, with source lines); finishing
// (what is settled at the end, check of the whole function); emitting the text; all together; and the check of each
// instruction again by itself, which is a part of building. Best of several runs, one thread. The heap keeps what
// earlier kernels have freed; with `--cold` it gives memory back after each kernel, as glibc does by default, so that
// the page faults of a first kernel are measured as well.
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "ptx/author/kernel.h"
#include "ptx/check/check.h"

using namespace ptx::modifiers;
using ptx::author::Kernel, ptx::author::Reg;

namespace {

// Time of this thread: other work on the machine does not count.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Times {
  double build = 1e9, finish = 1e9, emit = 1e9, check = 1e9;
};

// A body like the examples': address arithmetic, loads, fma, stores; 8 instructions a turn.
void body(Kernel& k, const Reg& x, const Reg& tid, const Reg& sum, int turns) {
  const Reg w = k.scalar(f32), y = k.scalar(f32);
  for (int i = 0; i < turns; ++i) {
    const Reg index = tid + i;
    const Reg p = x + index * 4;
    k.ld(global, f32, w, k.at(p));
    k.fma(rn, f32, sum, w, w, sum);
    k.mul(f32, y, w, 0.5);
    k.st(global, f32, k.at(p, 128), y);
  }
}

// What tracing spends on the check of instructions.
bool check(ptx::ir::Module& module) {
  ptx::ir::Function& function = module.functions[0];
  const ptx::check::ModuleTarget target = ptx::check::target_of(module);
  bool legal = true;
  for (ptx::ir::Instruction& instruction : function.instructions)
    legal = !ptx::check::check_instruction(target, function, instruction) && legal;
  return legal;
}

Times measure(int turns, std::size_t& instructions) {
  Times best;
  for (int run = 0; run < 5; ++run) {
    const double t0 = now();
    Kernel k({.name = "bench"});
    const auto [x] = k.pointers({"X"});
    const Reg tid = k.from(k.tid_x(), u32), sum = k.scalar(f32, 0.0);
    body(k, x, tid, sum, turns);
    const double t1 = now();
    auto built = k.finish();
    const double t2 = now();
    const std::string text = ptx::ir::emit(built.module);
    const double t3 = now();
    if (!check(built.module)) std::puts("the check refuses the kernel");
    const double t4 = now();
    instructions = built.module.functions[0].instructions.size();
    const double n = static_cast<double>(instructions);
    const auto ns = [&](double a, double b) { return (b - a) / n; };
    best = {std::min(best.build, ns(t0, t1)), std::min(best.finish, ns(t1, t2)), std::min(best.emit, ns(t2, t3)),
            std::min(best.check, ns(t3, t4))};
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const bool cold = count > 1 && std::string_view(arguments[1]) == "--cold";
  if (!cold) mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, -1);
  std::printf("%12s %10s %10s %10s %10s %10s   ns an instruction\n", "instructions", "build", "finish", "emit", "all",
              "check");
  for (const int turns : {100, 1000, 10000, 100000}) {
    std::size_t instructions = 0;
    const Times t = measure(turns, instructions);
    std::printf("%12zu %10.1f %10.1f %10.1f %10.1f %10.1f\n", instructions, t.build, t.finish, t.emit,
                t.build + t.finish + t.emit, t.check);
  }
}
