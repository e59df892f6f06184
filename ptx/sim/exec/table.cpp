#include "ptx/sim/exec/table.h"

#include "ptx/isa/form_ids.h"
#include "ptx/isa/row.h"

namespace ptx::sim {

#define CHAPTER(name) Bound bind_##name(const isa::Match& match);
#include "ptx/isa/chapters.def"
#undef CHAPTER

Bound bind(const isa::Match& match) {
  switch (match.id) {
#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, ...) case isa::form_id::id:
#define ROWS_OF(chapter) return bind_##chapter(match);
#include "ptx/isa/forms/integer.def"
    ROWS_OF(integer)
#include "ptx/isa/forms/extended.def"
    ROWS_OF(extended)
#include "ptx/isa/forms/floating.def"
    ROWS_OF(floating)
#include "ptx/isa/forms/half.def"
    ROWS_OF(half)
#include "ptx/isa/forms/mixed.def"
    ROWS_OF(mixed)
#include "ptx/isa/forms/compare.def"
    ROWS_OF(compare)
#include "ptx/isa/forms/half_compare.def"
    ROWS_OF(half_compare)
#include "ptx/isa/forms/logic.def"
    ROWS_OF(logic)
#include "ptx/isa/forms/move.def"
    ROWS_OF(move)
#include "ptx/isa/forms/convert.def"
    ROWS_OF(convert)
#include "ptx/isa/forms/async.def"
    ROWS_OF(async)
#include "ptx/isa/forms/tensor.def"
    ROWS_OF(tensor)
#include "ptx/isa/forms/multimem.def"
    ROWS_OF(multimem)
#include "ptx/isa/forms/fabric.def"
    ROWS_OF(fabric)
#include "ptx/isa/forms/compress.def"
    ROWS_OF(compress)
#include "ptx/isa/forms/texture.def"
    ROWS_OF(texture)
#include "ptx/isa/forms/surface.def"
    ROWS_OF(surface)
#include "ptx/isa/forms/control.def"
    ROWS_OF(control)
#include "ptx/isa/forms/sync.def"
    ROWS_OF(sync)
#include "ptx/isa/forms/atomic.def"
    ROWS_OF(atomic)
#include "ptx/isa/forms/matrix.def"
    ROWS_OF(matrix)
#include "ptx/isa/forms/wgmma.def"
    ROWS_OF(wgmma)
#include "ptx/isa/forms/tcgen05.def"
    ROWS_OF(tcgen05)
#include "ptx/isa/forms/stack.def"
    ROWS_OF(stack)
#include "ptx/isa/forms/video.def"
    ROWS_OF(video)
#include "ptx/isa/forms/simd_video.def"
    ROWS_OF(simd_video)
#include "ptx/isa/forms/misc.def"
    ROWS_OF(misc)
#undef ROWS_OF
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

isa::Type value_type(const isa::Match& match) {
  if (match.type() != isa::Type::none) return match.type();
  for (const isa::Modifier& modifier : match.form->modifiers) {
    if (modifier.slot != isa::Modifier::literal) continue;
    if (const auto type = isa::type_named(match.form->text(modifier.text))) return *type;
  }
  return isa::Type::none;
}

}  // namespace ptx::sim
