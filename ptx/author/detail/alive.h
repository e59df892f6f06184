// Which builders live: a register that C++ keeps longer than its kernel is refused, not followed.
#pragma once

#include "ptx/author/value.h"

namespace ptx::author {

void born(const Builder& builder);
void gone(const Builder& builder);
void check_alive(const Builder* builder);  // null is nobody's

}  // namespace ptx::author
