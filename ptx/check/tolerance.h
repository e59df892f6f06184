// Where the assembler is known to take what the rows refuse: tolerance.def. A cold path, asked about refused lines
// alone.
#pragma once

#include <string_view>

#include "ptx/check/detail/operands.h"

namespace ptx::check {

// What was refused. Of a rule there is neither pattern nor operand.
struct Case {
  const View& view;
  const isa::Match& match;
  const ir::Instruction& instruction;
  const isa::Pattern* pattern = nullptr;
  const ir::Operand* given = nullptr;
};

// Collects what it excuses while one match is tried.
class Excuses {
 public:
  explicit Excuses(const ir::Instruction& instruction) : instruction_(instruction) {}

  void begin() { first_ = {}, reason_ = {}; }
  bool covers(const View& view, const isa::Match& match, const Problem& problem);
  bool covers(const View& view, const isa::Match& match, isa::Rule rule);
  bool covers_target(const View& view, const isa::Match& match);
  // Whether one operand more, or one less, than the form has is taken.
  bool extra(const View& view, const isa::Match& match);
  bool missing(const View& view, const isa::Match& match);

  const Problem& first() const { return first_; }  // of an operand; none where a rule or the number was excused
  std::string_view reason() const { return reason_; }

 private:
  const ir::Instruction& instruction_;
  Problem first_;
  std::string_view reason_;
};

// The mnemonic that the assembler reads: without words that it passes over, with words that it does not miss.
struct Reread {
  const isa::Mnemonic* mnemonic = nullptr;  // null: no form either
  std::string reason;
};
Reread reread(const isa::Mnemonic& mnemonic);

}  // namespace ptx::check
