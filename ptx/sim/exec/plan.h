// What a handler works out of a match once and reads at each call: Bound::plan.
#pragma once

#include <deque>
#include <mutex>
#include <unordered_map>

#include "ptx/isa/form.h"

namespace ptx::sim {

// make(match), made once. Plans live for the process, as matches do.
template <class Plan>
const Plan& plan_of(const isa::Match& match, Plan (*make)(const isa::Match&)) {
  static std::mutex mutex;
  static std::deque<Plan> plans;
  static std::unordered_map<const isa::Match*, const Plan*> known;
  const std::lock_guard lock(mutex);
  const Plan*& plan = known[&match];
  if (!plan) plan = &plans.emplace_back(make(match));
  return *plan;
}

}  // namespace ptx::sim
