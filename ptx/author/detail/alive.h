// Which builders live: a register that C++ keeps longer than its kernel is refused, not followed.
#pragma once

#include <atomic>

#include "ptx/author/value.h"

namespace ptx::author {

void born(const Builder& builder);
void gone(const Builder& builder);
void look_for(const Builder* builder);  // refuses one that does not live

// The one asked about last; no thread_local, which a shared library finds by a call.
extern std::atomic<const Builder*> recently_alive;

// Every operand asks this. Null is nobody's.
inline void check_alive(const Builder* builder) {
  if (builder != recently_alive.load(std::memory_order_relaxed) && builder) look_for(builder);
}

}  // namespace ptx::author
