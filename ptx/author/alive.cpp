#include "ptx/author/detail/alive.h"

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

}  // namespace

std::atomic<const Builder*> recently_alive = nullptr;

void born(const Builder& builder) {
  const std::lock_guard lock(alive().mutex);
  alive().builders.insert(&builder);
}

void gone(const Builder& builder) {
  const std::lock_guard lock(alive().mutex);
  if (recently_alive == &builder) recently_alive = nullptr;
  alive().builders.erase(&builder);
}

void look_for(const Builder* builder) {
  {
    const std::lock_guard lock(alive().mutex);
    if (alive().builders.contains(builder)) return void(recently_alive = builder);
  }
  throw Refused(Diagnostics{
      Diagnostic(Code::bad_operand, {}, "the register belongs to a kernel that is finished, or was abandoned")});
}

}  // namespace ptx::author
