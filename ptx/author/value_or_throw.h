// What a function of the authoring face does with a refusal of the rooms below: it throws it.
#pragma once

#include <utility>

#include "ptx/author/value.h"
#include "ptx/base/expected.h"

namespace ptx::author {

// Throws Refused, with every reason.
template <class T>
T value_or_throw(Expected<T> result) {
  if (!result) throw Refused(result.why());
  return std::move(result).value();
}

}  // namespace ptx::author
