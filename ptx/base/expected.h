// Expected<T>: a value or the diagnostics that say why there is none. libstdc++ 12 has no std::expected.
#pragma once

#include <utility>
#include <variant>

#include "ptx/base/diagnostic.h"
#include "ptx/base/fail.h"

namespace ptx {

template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::move(value)) {}
  Expected(Diagnostic why) : state_(Diagnostics{std::move(why)}) {}
  Expected(Diagnostics why) : state_(std::move(why)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() & { return check(), std::get<0>(state_); }
  const T& value() const& { return check(), std::get<0>(state_); }
  T&& value() && { return check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Diagnostics& why() const { return std::get<1>(state_); }

 private:
  void check() const {
    if (state_.index() != 0) fail_check("there is a value", why().front().message);
  }
  std::variant<T, Diagnostics> state_;
};

// Expected<Done> is what a function returns that makes no value: it was done, or the reasons why not.
struct Done {};

}  // namespace ptx
