#include "ptx/sim/exec/table.h"

#include "ptx/isa/form_ids.h"
#include "ptx/isa/row.h"

namespace ptx::sim {

#define OPCODE(...)
#define SECTION(...)
#define FORM(...)
#define CHAPTER(name) Bound bind_##name(const isa::Match& match);
#include "ptx/isa/forms/all.def"
#undef FORM

Bound bind(const isa::Match& match) {
  switch (match.id) {
#define FORM(id, ...) case isa::form_id::id:
#define CHAPTER(name) return bind_##name(match);
#include "ptx/isa/forms/all.def"
#undef FORM
#undef SECTION
#undef OPCODE
    default: return {};
  }
}

Mods mods(const isa::Match& match) {
  Mods mods;
#define MOD(name, word) mods.name = match.has(word);
#include "ptx/sim/exec/mods.def"
#undef MOD
  mods.rn = mods.approx = mods.full = false;
#define MOD(name, word) mods.modified = mods.modified || mods.name;
#include "ptx/sim/exec/mods.def"
#undef MOD
  return mods;
}

SlotTypes slot_types(const isa::Match& match) {
  SlotTypes types;
  int count = 0;
  for (const isa::Modifier& modifier : match.form->modifiers) {
    if (modifier.slot == isa::Modifier::literal) continue;
    const std::string_view slot = match.form->text(match.form->slots[modifier.slot].name);
    const std::string_view before = slot.substr(0, slot.size() < 4 ? 0 : slot.size() - 4);
    if (!slot.ends_with("type") || before.ends_with('_') || before.ends_with('m') || count == 4) continue;
    types.at[count++] = match.type(slot);
  }
  return types;
}

Manner manner(const isa::Match& match) {
  using isa::Trait;
  const auto is = [&](Trait trait) { return match.form->is(trait); };
  Manner m;
  m.order = match.has("sc")                                                      ? Order::sc
            : match.has("acq_rel")                                               ? Order::acq_rel
            : match.has("acquire")                                               ? Order::acquire
            : match.has("release")                                               ? Order::release
            : match.has("relaxed") || match.has("volatile") || match.has("mmio") ? Order::relaxed
            : is(Trait::sequential)                                              ? Order::sc
            : is(Trait::acquires_and_releases)                                   ? Order::acq_rel
            : is(Trait::acquires)                                                ? Order::acquire
            : is(Trait::releases)                                                ? Order::release
            : is(Trait::relaxed)                                                 ? Order::relaxed
                                                                                 : Order::weak;
  m.scope = match.has("sys") || match.has("volatile")  ? Scope::sys
            : match.has("cluster")                     ? Scope::cluster
            : match.has("cta") || is(Trait::cta_scope) ? Scope::cta
                                                       : Scope::gpu;
  if (is(Trait::async_proxy)) m.proxy = Proxy::async;
  if (match.has("nc") || match.has("proxy::readonly")) m.proxy = Proxy::read_only;
  return m;
}

isa::Type value_type(const isa::Match& match) {
  if (match.type() != isa::Type::none) return match.type();
  for (const isa::Modifier& modifier : match.form->modifiers) {
    if (modifier.slot != isa::Modifier::literal) continue;
    if (const auto type = isa::type_named(match.form->text(modifier.text))) return *type;
  }
  return isa::Type::none;
}

}  // namespace ptx::sim
