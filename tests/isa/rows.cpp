// The rows themselves: names, self-agreement, and what the parser of the notation refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ptx/isa/form.h"
#include "ptx/isa/form_ids.h"
#include "ptx/isa/row_parser.h"

using namespace ptx::isa;

namespace {

// The mnemonic with every required word and the first value of each required slot.
std::string shortest(const Form& form) {
  std::string text(form.text(form.opcode));
  for (const Modifier& m : form.modifiers) {
    if (m.group != 0) continue;
    const Slice chosen = m.slot == Modifier::literal ? m.text : form.values[form.slots[m.slot].first].text;
    text += '.';
    text += form.text(chosen);
  }
  return text;
}

const char* error_of(std::string_view syntax, std::string_view sets = "", std::string_view since = "1.0") {
  try {
    parsing::parse(syntax, sets, since);
    return "";
  } catch (const char* error) {
    return error;
  }
}

}  // namespace

TEST_CASE("every row has a name of its own, a section and a known opcode") {
  std::set<std::string_view> ids, used;
  const std::set<std::string_view> opcodes(ptx::isa::opcodes().begin(), ptx::isa::opcodes().end());
  CHECK(opcodes.size() == ptx::isa::opcodes().size());
  CHECK(forms().size() == form_count);
  for (const Form& form : forms()) {
    INFO(form.id);
    CHECK(ids.insert(form.id).second);
    CHECK_FALSE(form.section.empty());
    CHECK(opcodes.contains(form.text(form.opcode)));
    CHECK(form.since().version >= Version{1, 0});
    used.insert(form.text(form.opcode));
  }
  CHECK(used == opcodes);
}

TEST_CASE("every row is found by its own mnemonic, in order") {
  for (const Form& form : forms()) {
    const std::string text = shortest(form);
    INFO(form.id, ": ", text);
    const Mnemonic* m = resolve(text);
    const auto found =
        std::find_if(m->matches.begin(), m->matches.end(), [&](const Match& match) { return match.form == &form; });
    if (found == m->matches.end()) {  // the first values may break a rule of the row
      CHECK(form.rules[0] != Rule::none);
      continue;
    }
    CHECK(found->in_order);
    if (found == m->matches.begin()) CHECK(m->canonical == text);
  }
}

TEST_CASE("values of rows know targets that exist") {
  for (const Form& form : forms()) {
    for (const Requirement& need : form.needs) {
      for (const Target target : need.targets) {
        INFO(form.id);
        if (target.number != 0) CHECK(first_version(target).has_value());
      }
    }
  }
}

TEST_CASE("a malformed row does not parse") {
  CHECK(std::string(error_of("add.type d, a, b", ".type = u32")).empty());
  CHECK(error_of("add.type d, a, b") == std::string("row: an operand has no type"));
  CHECK(error_of("add.u32.s32 d, a") == std::string("row: two literal types, so an operand has to name its own"));
  CHECK(error_of("add.u32 d, a b") == std::string("row: another character was expected here"));
  CHECK(error_of("add.u32 d, a:u33") == std::string("row: neither a type nor a slot"));
  CHECK(error_of("add{.x", "") == std::string("row: a brace is not closed"));
  CHECK(error_of("add.u32 d", ".type = u32") == std::string("row: a set is not used in the syntax"));
  CHECK(error_of("add.type d", ".type = .nothing") == std::string("row: no such set in slots.def"));
  CHECK(error_of("add.type d", ".type =") == std::string("row: an empty set"));
  CHECK(error_of("add.u32 d:list(u32,nothing)") == std::string("row: no such count in rules.def"));
  CHECK(error_of("add.u32 d", "", "8.0 sm90") == std::string("row: another character was expected here"));
  CHECK(error_of("add.u32 d", "", "8") == std::string("row: another character was expected here"));
}

TEST_CASE("frag(T,M) counts the registers of a thread's part of a matrix") {
  const auto lengths = [](std::string_view mnemonic) {
    std::string text;
    for (const Pattern& p : resolve(mnemonic)->matches.at(0).operands)
      text += std::to_string(p.length) + std::string(info(p.type).name) + ' ';
    return text;
  };
  CHECK(lengths("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16") == "2f16x2 4f16x2 2f16x2 2f16x2 ");
  CHECK(lengths("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16") == "8f32 2f16x2 2f16x2 4f16x2 ");
  CHECK(lengths("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64") == "4f64 8f64 4f64 4f64 ");
  CHECK(lengths("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32") == "4f32 4b32 2b32 4f32 ");
  CHECK(lengths("mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32") == "4s32 2b32 2b32 4s32 0b32 0 ");
  CHECK(lengths("wmma.load.b.sync.aligned.row.m8n32k16.bf16") == "8bf16x2 0 0u32 ");
  CHECK(lengths("wgmma.mma_async.sp.sync.aligned.m64n64k32.f16.f16.f16").starts_with("16f16x2 "));
}

TEST_CASE("a family of shapes is one value a number") {
  const Match& match = resolve("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16")->matches.at(0);
  CHECK(match.value("shape") == "m64n128k16");
  CHECK(match.operands[0].length == 64);
  CHECK(resolve("wgmma.mma_async.sync.aligned.m64n20k16.f32.bf16.bf16")->matches.empty());
}
