// Decodes one function's body. Internal to decode.
#pragma once

#include <map>
#include <unordered_map>

#include "ptx/isa/row.h"
#include "ptx/sim/exec/table.h"
#include "ptx/sim/machine/layout.h"
#include "ptx/sim/machine/select.h"

namespace ptx::sim {

// Rows of constants, each value once; addresses of shared variables in rows of their own.
class Constants {
 public:
  explicit Constants(Program& program) : program_(program) {}
  Operand row(std::uint64_t value, std::uint8_t cell) { return row(rows_, value, cell).first; }
  Operand shared_address(std::uint64_t value, std::uint8_t cell);
  Operand local_address(std::uint64_t value, std::uint8_t cell);

 private:
  using Rows = std::unordered_map<std::uint64_t, std::uint32_t>;
  std::pair<Operand, bool> row(Rows* rows, std::uint64_t value, std::uint8_t cell);  // and whether it is new
  Program& program_;
  Rows rows_[4], addresses_[4], locals_[4];  // by kind of cell
};

class FunctionDecoder {
 public:
  FunctionDecoder(const ir::Function& function, FunctionCode& code, Program& program, const Layout& layout,
                  Constants& constants, const std::vector<Place>& lines, Diagnostics& diagnostics)
      : f_(function),
        code_(code),
        program_(program),
        layout_(layout),
        constants_(constants),
        lines_(lines),
        diagnostics_(diagnostics) {}

  void signature();  // parameters, returns and registers: what callers need
  void body(const std::map<std::uint32_t, Name>& files);

 private:
  struct Blocks {  // of statements, for names that live in blocks
    std::vector<std::uint32_t> of, parents;
  };
  struct Use {  // one instruction while it is decoded
    const ir::Instruction& instruction;
    std::string_view mnemonic;
    Place place;
    std::uint32_t block = 0;
    Operand guard;
    bool guarded = false;
    std::uint32_t scratch = 0;  // rows taken
    std::uint32_t traits = 0;   // of the form
  };
  struct Extension {  // a narrow result for a wide register
    Operand from, to;
    bool sign;
  };

  void lay_out_registers();
  void formal(const ir::Variable& v, ir::RegisterId& next, std::vector<Passed>& list);
  void pass_register(ir::RegisterId id, std::uint8_t component, std::vector<Passed>& list) const;
  void find_blocks();
  void instruction(const ir::Statement& statement, std::uint32_t block);
  void lane_operands(Use& use, const Selection& selection, const Bound& bound, Op& op);
  void warp_operands(Use& use, const Selection& selection, Op& op);
  void control_operands(Use& use, const Selection& selection, Op& op);
  void call_operands(Use& use, const Selection& selection, Op& op);
  std::vector<Passed> passed(Use& use, const ir::Operand* list);

  Operand source(Use& use, const ir::Operand& o, isa::Type type, std::uint8_t cell);
  Operand destination(Use& use, const ir::Operand* o, std::uint8_t cell, bool sign, std::vector<Extension>* extensions);
  Operand address(Use& use, const ir::Operand& o, isa::Space space);
  Operand element(Use& use, const ir::Operand& o, isa::Space space);
  Operand symbol(Use& use, Name name, std::int64_t offset, std::uint8_t cell);
  Operand special(Use& use, std::string_view name, std::uint8_t cell);
  Operand frame_address(Use& use, std::uint64_t offset, std::uint8_t cell);
  Operand in_register(const ir::Operand& o) const;
  Operand scratch(Use& use, std::uint8_t cell);
  Operand resized_to(Use& use, Operand from, std::uint8_t cell);
  Resolved resolve(Name name, std::uint32_t block) const;

  Op& emit(Use& use, Op op, const std::vector<Operand>& destinations, const std::vector<Operand>& sources);
  void refuse(const Place& place, std::string message);
  std::uint32_t label(Name name, std::uint32_t block) const;  // its key in labels_, or 0xffffffff
  const ir::Operand* find_operand(const Selection& selection, isa::OperandKind kind) const;

  const ir::Function& f_;
  FunctionCode& code_;
  Program& program_;
  const Layout& layout_;
  Constants& constants_;
  const std::vector<Place>& lines_;
  Diagnostics& diagnostics_;

  std::vector<Operand> registers_;  // by RegisterId; components follow each other
  static constexpr std::uint32_t scratch_bytes = 64 + (4 + 8 + 16) * lanes;
  std::uint32_t scratch_base_ = 0, scratch_rows_ = 0;
  Blocks blocks_;
  std::unordered_map<std::uint64_t, Resolved> names_;           // (block, name) of variables
  std::unordered_map<std::uint64_t, std::uint32_t> labels_;     // (block, name) -> pc
  std::unordered_map<std::uint64_t, const ir::Table*> tables_;  // (block, name) of a label -> what stands behind it
  struct Jump {
    std::uint32_t op;
    Name name;
    std::uint32_t block;
    Place place;
    std::int32_t table = -1;  // entry of program_.tables[op's target]
  };
  std::vector<Jump> jumps_;
  std::vector<Operand> pending_;  // of the op being made
  Place source_;                  // of the last .loc
};

}  // namespace ptx::sim
