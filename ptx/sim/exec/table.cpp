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
  Manner m;
  const std::string_view opcode = match.form->text(match.form->opcode);
  const bool atomic = opcode == "atom" || opcode == "red";
  const bool mbarrier = opcode == "mbarrier" && !match.has("init") && !match.has("inval");
  m.order = match.has("sc") || opcode == "membar"                                          ? Order::sc
            : match.has("acq_rel")                                                         ? Order::acq_rel
            : match.has("acquire")                                                         ? Order::acquire
            : match.has("release")                                                         ? Order::release
            : match.has("relaxed") || match.has("volatile") || match.has("mmio") || atomic ? Order::relaxed
            : opcode == "fence"                                                            ? Order::acq_rel
            : match.has("arrive") || match.has("arrive_drop")                              ? Order::release
            : match.has("wait") || match.has("test_wait") || match.has("try_wait")         ? Order::acquire
            : mbarrier                                                                     ? Order::relaxed
                                                                                           : Order::weak;
  m.scope = match.has("sys") || match.has("volatile") ? Scope::sys
            : match.has("cluster")                    ? Scope::cluster
            : match.has("cta") || mbarrier            ? Scope::cta
                                                      : Scope::gpu;
  if (opcode == "cp" && match.has("bulk")) m.proxy = Proxy::async;
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
