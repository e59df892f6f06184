// What one release of the assembler takes although the rows, which follow the manual, refuse it: ptxas_13_5.def. check
// asks here about lines that it has refused, and about no others. A line that is explained becomes a warning; nothing
// here makes a legal line illegal.
#pragma once

#include <string>
#include <string_view>

#include "ptx/ir/view.h"

namespace ptx::quirks {

// What was refused. Of a rule there is neither pattern nor operand.
struct Case {
  const ir::View& view;
  const isa::Match& match;
  const ir::Instruction& instruction;
  const isa::Pattern* pattern = nullptr;
  const ir::Operand* given = nullptr;
};

// Collects what the assembler is known to excuse while one match is tried.
class Excuses {
 public:
  explicit Excuses(const ir::Instruction& instruction) : instruction_(instruction) {}

  void begin() { first_ = {}, reason_ = {}; }
  bool covers(const ir::View& view, const isa::Match& match, const ir::Problem& problem);
  bool covers(const ir::View& view, const isa::Match& match, isa::Rule rule);
  bool covers_target(const ir::View& view, const isa::Match& match);
  // Whether one operand more, or one less, than the form has is taken.
  bool extra(const ir::View& view, const isa::Match& match);
  bool missing(const ir::View& view, const isa::Match& match);

  const ir::Problem& first() const { return first_; }  // of an operand; none where a rule or the number was excused
  std::string_view reason() const { return reason_; }

 private:
  const ir::Instruction& instruction_;
  ir::Problem first_;
  std::string_view reason_;
};

// The mnemonic that the assembler reads: without modifiers that it passes over, with modifiers that it does not miss.
struct Reread {
  const isa::Mnemonic* mnemonic = nullptr;  // null: no form either
  std::string reason;
};
Reread reread(const isa::Mnemonic& mnemonic);

}  // namespace ptx::quirks
