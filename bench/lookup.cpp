// Looking a mnemonic up: nanoseconds the first time in the process, and each time after. Columns: rows of its opcode;
// first (matched against these rows and no others); again (one look-up in a hash table, whatever there are of rows).
// A spelling of its own is a mnemonic of its own, so `first` is measured once a line: read the column as a size.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "ptx/isa/form.h"

using namespace ptx::isa;

namespace {

double now() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

double again(std::string_view text) {
  constexpr int turns = 100000;
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const double start = now();
    for (int i = 0; i < turns; ++i) {
      if (resolve(text)->matches.empty()) return -1;
    }
    best = std::min(best, (now() - start) / turns);
  }
  return best;
}

}  // namespace

int main() {
  std::printf("%zu rows\n%6s %10s %10s\n", forms().size(), "rows", "first, ns", "again, ns");
  resolve("nanosleep.u32");  // the tables of the process
  for (const std::string_view text :
       {"isspacep.global", "bfind.u32", "add.rn.ftz.sat.f32", "atom.acq_rel.gpu.global.add.u32",
        "ld.relaxed.gpu.global.v4.f32", "cvt.rn.satfinite.e4m3x2.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "tcgen05.mma.cta_group::1.kind::f16",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"}) {
    const auto rows = std::count_if(forms().begin(), forms().end(), [&](const Form& form) {
      return form.text(form.opcode) == text.substr(0, text.find('.'));
    });
    const double start = now();
    resolve(text);
    const double first = now() - start;
    std::printf("%6zd %10.0f %10.1f  %.*s\n", static_cast<std::ptrdiff_t>(rows), first, again(text),
                static_cast<int>(text.size()), text.data());
  }
}
