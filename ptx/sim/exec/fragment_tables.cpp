#include "ptx/sim/exec/fragment_tables.h"

#include <algorithm>

#include "ptx/base/text.h"

namespace ptx::sim {

namespace {

std::vector<FragmentTable> tables(const isa::Match& match) {
  const std::string_view opcode = match.form->text(match.form->opcode);
  if (opcode == "mma") return mma_fragments(match);
  if (opcode == "wmma") return match.has("mma") ? mma_fragments(match) : strided_fragments(match);
  if (opcode == "ldmatrix" || opcode == "stmatrix") return rows_fragments(match);
  if (opcode == "movmatrix") return movmatrix_fragments();
  if (opcode == "wgmma" && match.has("mma_async")) return wgmma_fragments(match);
  if (opcode == "tcgen05" && (match.has("ld") || match.has("st"))) return tensor_fragments(match);
  return {};
}

}  // namespace

Expected<std::vector<FragmentTable>> fragments(std::string_view mnemonic) {
  const isa::Mnemonic* found = isa::resolve(mnemonic);
  if (found->matches.empty()) return Diagnostic(Code::illegal_modifiers, Place{}, isa::explain(mnemonic));
  std::vector<FragmentTable> all;
  for (const isa::Match& match : found->matches) {  // forms of one mnemonic differ in where A comes from
    for (FragmentTable& table : tables(match)) {
      const auto same = [&](const FragmentTable& other) { return other.name == table.name; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(std::move(table));
    }
  }
  if (all.empty())
    return Diagnostic(Code::bad_argument, Place{}, cat("`", mnemonic, "` has no matrices in the registers of threads"));
  return all;
}

}  // namespace ptx::sim
