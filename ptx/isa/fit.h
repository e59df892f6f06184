// How written modifiers fill a form: in the manual's order, or in another that the assembler takes. Constexpr, as
// author/literal.h asks it at compile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ptx/isa/row.h"

namespace ptx::isa {

// How the written modifiers fill a form.
struct Fit {
  static constexpr int max_modifiers = 24;
  bool fits = false, in_order = true;
  int count = 0;
  std::uint8_t element[max_modifiers] = {};  // of each: index into Form::modifiers
  std::uint8_t value[max_modifiers] = {};    // of each: index into Form::values, 0xff for a literal
};

namespace matching {

constexpr int value_of(const Form& form, const Modifier& m, std::string_view modifier) {
  const Slot& slot = form.slots[m.slot];
  for (int v = slot.first; v < slot.first + slot.count; ++v) {
    if (form.text(form.values[static_cast<std::size_t>(v)].text) == modifier) return v;
  }
  return -1;
}

// Types keep their order among themselves, and so do state spaces and the two priorities of createpolicy.
constexpr bool ordered(std::string_view a, std::string_view b) {
  constexpr std::string_view priority = "L2::evict_";
  return (type_named(a) && type_named(b)) || (space_named(a) && space_named(b)) ||
         (a.starts_with(priority) && b.starts_with(priority));
}

// Whether modifier i may fill element e, given the modifiers before it. The assembler takes two modifiers in the other
// order (add.ftz.rn.f32), unless the row fixes the place of one, or both are types or both are state spaces.
constexpr bool may_follow(const Form& form, std::span<const std::string_view> modifiers, const Fit& fit, std::size_t i,
                          std::size_t e) {
  for (std::size_t j = 0; j < i; ++j) {
    if (fit.element[j] == e) return false;
    if (fit.element[j] < e) continue;
    if (form.modifiers[e].fixed || form.modifiers[fit.element[j]].fixed) return false;
    if (form.modifiers[e].before_next && fit.element[j] == e + 1) return false;
    if (ordered(modifiers[i], modifiers[j])) return false;
  }
  return true;
}

constexpr bool complete(const Form& form, std::size_t modifiers, const Fit& fit) {
  std::uint32_t filled = 0, begun = 0;
  for (std::size_t i = 0; i < modifiers; ++i) {
    filled |= 1u << fit.element[i];
    begun |= 1u << form.modifiers[fit.element[i]].group;
  }
  for (std::size_t e = 0; e < form.modifiers.size(); ++e) {
    const int group = form.modifiers[e].group;
    if ((filled >> e & 1) == 0 && (group == 0 || (begun >> group & 1))) return false;
  }
  return true;
}

// Tries elements in the row's order, so that a reading in order is found first. With `partial`, required ones may be
// missing.
constexpr bool assign(const Form& form, std::span<const std::string_view> modifiers, Fit& fit, std::size_t i,
                      bool partial) {
  if (i == modifiers.size()) return partial || complete(form, modifiers.size(), fit);
  for (std::size_t e = 0; e < form.modifiers.size(); ++e) {
    const Modifier& m = form.modifiers[e];
    const bool literal = m.slot == Modifier::literal;
    const int value = literal ? (form.text(m.text) == modifiers[i] ? 0xff : -1) : value_of(form, m, modifiers[i]);
    if (value < 0 || !may_follow(form, modifiers, fit, i, e)) continue;
    fit.element[i] = static_cast<std::uint8_t>(e);
    fit.value[i] = static_cast<std::uint8_t>(value);
    if (assign(form, modifiers, fit, i + 1, partial)) return true;
  }
  return false;
}

constexpr Fit fit(const Form& form, std::span<const std::string_view> modifiers, bool partial = false) {
  Fit fit;
  if (modifiers.size() > form.modifiers.size() || modifiers.size() > Fit::max_modifiers) return fit;
  fit.count = static_cast<int>(modifiers.size());
  fit.fits = assign(form, modifiers, fit, 0, partial);
  for (std::size_t i = 1; fit.fits && i < modifiers.size(); ++i)
    fit.in_order = fit.in_order && fit.element[i - 1] < fit.element[i];
  return fit;
}

}  // namespace matching

}  // namespace ptx::isa
