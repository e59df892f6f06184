// Control flow: each function writes the labels and branches that the comment above it shows, and no others.
// begin_/end_ pairs are for languages with blocks of their own (Python's `with`). They nest; the innermost ends first.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <string>

#include "ptx/author/builder.h"

namespace ptx::author {

// @!p bra $_else_n; ... bra $_endif_m; $_else_n: $_endif_m:
void begin_if(Builder& builder, const Reg& predicate);
void begin_if(Builder& builder, const Not& predicate);
void end_if(Builder& builder);
void begin_else(Builder& builder);  // refused (else_without_if) unless an if block ended just before
void end_else(Builder& builder);

// @!p bra L; ... L:  and with an otherwise block: @!p bra L; ... bra M; L: ... M:  No branch more than is needed, as
// compilers write it. `uniform`: the branch is bra.uni.
void begin_when(Builder& builder, ir::Guard guard, bool uniform = false);
void end_when(Builder& builder);
void begin_otherwise(Builder& builder,
                     bool uniform = false);  // refused (else_without_if) unless when() ended just before
void end_otherwise(Builder& builder);

// label: ... @p bra label;  The body runs once before the predicate is asked. Without a predicate: bra.uni.
// A label that stands already gets a number (label_1); inside, bra(label) means this loop.
void begin_loop(Builder& builder, std::string_view label, ir::Guard predicate = {});
void end_loop(Builder& builder);
// Called in the body of a loop: the innermost loop ends in `@predicate bra label`. Without a predicate it goes on for
// ever, by `bra`, or by `bra.uni` where it is `uniform`.
void loop_while(Builder& builder, ir::Guard predicate, bool uniform = false);

// A part of the body that leave() ends: nothing, or, where it is left, a label behind it. With a label, which gets a
// number as that of a loop does: the label in front, where again() goes. `late`: before that `bra E`, and E: where
// enter() says that the first turn begins.
struct BlockOptions {
  std::string_view label{};
  bool late = false;
  bool uniform = false;  // that is bra.uni
};
void begin_block(Builder& builder, const BlockOptions& options = {});
void end_block(Builder& builder);
// The block or loop that has just begun, for leave() and again() inside of it.
std::uint32_t open_block(Builder& builder);
// @p bra L, where L stands behind the block or loop; behind a loop's own branch back.
void leave(Builder& builder, std::uint32_t block, ir::Guard predicate = {}, bool uniform = false);
void enter(Builder& builder, std::uint32_t block);
// @p bra label of the loop or block.
void again(Builder& builder, std::uint32_t block, ir::Guard predicate = {}, bool uniform = false);

// @p bra D; t: .branchtargets A, B, ...; brx.idx index, t;  the cases, each behind its label, and the label of the end.
// A case ends in a branch to the end, but for the last one and those that fall into the next.
struct SwitchOptions {
  ir::Guard otherwise{};    // p above: who goes to the default case without a look into the table
  std::uint32_t count = 0;  // of targets; 0: up to the last that a case has
  bool uniform = false;     // brx.idx.uni
};
struct CaseOptions {
  bool otherwise = false;  // the default: targets without a case go here; if there is none, they go to the end
  bool falls = false;      // no branch at its end
  bool uniform = false;    // that is bra.uni
};
void begin_switch(Builder& builder, const Reg& index, const SwitchOptions& options = {});
void end_switch(Builder& builder);  // refused (bad_argument) if the switch has no case, or has no default that it needs
void begin_case(Builder& builder, std::span<const std::uint32_t> indices, const CaseOptions& options = {});
void end_case(Builder& builder);

// for k in start, start + step, ... before stop. The variable is %ri{n}: of `type` if given, else 64-bit if a bound is,
// else of the type of a register `stop`, else s32. A step that is a register may be negative if the type is signed.
Reg begin_range(Builder& builder, const Operand& start, const Operand& stop, const Operand& step,
                isa::Type type = isa::Type::none);
void end_range(Builder& builder);

// `body` unroll times a turn, then the rest as a ladder of ifs. `total` is an integer (the body is repeated, no loop)
// or a register; unroll is a power of two.
void kloop(Builder& builder, const Operand& total, std::uint32_t unroll, const std::function<void()>& body,
           std::string_view label = "kloop");

void kloop(Kernel& kernel, const Operand& total, std::uint32_t unroll, const std::function<void()>& body,
           std::string_view label = "kloop", std::source_location at = std::source_location::current());

void begin_intrinsic(Builder& builder, std::string_view text);  // // BEGIN text
void end_intrinsic(Builder& builder);                           // // END name of the text up to its parenthesis

void label(Builder& builder, std::string_view name);
void bra(Builder& builder, std::string_view label, ir::Guard guard = {});
void ret(Builder& builder, ir::Guard guard = {});

// A ring of `stages` slots: which one is next, and how often the ring has been round (its parity).
struct Pipeline {
  std::uint32_t stages = 1;
  Reg cursor, phase;
  struct Position {
    Reg stage, phase;
  };
  Position advance(std::source_location at = std::source_location::current()) const;  // with the author's line
};
Pipeline::Position advance(const Pipeline& ring);  // setp selp xor selp add
Pipeline pipeline(Builder& builder, std::uint32_t stages, std::optional<Reg> cursor = {},
                  std::optional<Reg> phase = {});
Pipeline pipeline(Kernel& kernel, std::uint32_t stages, std::optional<Reg> cursor = {}, std::optional<Reg> phase = {},
                  std::source_location at = std::source_location::current());

}  // namespace ptx::author
