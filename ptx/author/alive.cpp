#include "ptx/author/detail/alive.h"

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "ptx/base/diagnostic.h"

namespace ptx::author {
namespace {

struct Alive {
  std::mutex mutex;
  std::unordered_set<const Builder*> builders;
};
Alive& alive() {
  static Alive& shared = *new Alive;  // never destroyed: static kernels may outlive it
  return shared;
}
std::atomic<const Builder*> recent =
    nullptr;  // asked about last; no thread_local, which a shared library finds by a call

}  // namespace

void born(const Builder& builder) {
  const std::lock_guard lock(alive().mutex);
  alive().builders.insert(&builder);
}

void gone(const Builder& builder) {
  const std::lock_guard lock(alive().mutex);
  if (recent == &builder) recent = nullptr;
  alive().builders.erase(&builder);
}

void check_alive(const Builder* builder) {
  if (builder == recent.load(std::memory_order_relaxed) || !builder) return;
  {
    const std::lock_guard lock(alive().mutex);
    if (alive().builders.contains(builder)) return void(recent = builder);
  }
  throw Refused(
      Diagnostics{Diagnostic(Code::bad_operand, {}, "a register of a kernel that is finished, or was given up")});
}

}  // namespace ptx::author
