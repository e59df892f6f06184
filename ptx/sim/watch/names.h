// What the author calls the registers of a launch. The language's side finds it in the author's source
// (Options::call_registers), which takes its time: it is asked when the first report or stop needs it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "ptx/base/place.h"
#include "ptx/ir/ir.h"

namespace ptx::sim {

struct Frame;
struct Operand;
struct Options;
struct Program;
struct Warp;

class RegisterNames {
 public:
  struct Called {
    std::string name;  // "row", "acc[3]", "row #2"
    Place place;       // where it was made
  };

  RegisterNames(const Program& program, const Options& options) : program_(program), options_(options) {}
  // nullptr: the author gave it no name, or named it in the text.
  const Called* find(Name function, const ir::Register& reg) const;
  // "`%r7` (`row`, kernel.py:12)"; "`%r7`".
  std::string describe(Name function, const ir::Register& reg) const;
  // The one register that the store at `pc` stores, if it has a name, as describe(); or empty.
  std::string describe_stored(std::uint32_t pc) const;
  // That the address of the access at `pc` in this space is in a register that has a name: "its address is ...", or
  // empty.
  std::string describe_address(std::uint32_t pc, isa::Space space) const;

 private:
  void ask() const;
  std::string named(std::uint32_t pc, const Operand& o) const;  // describe(); empty: it is no register, or has no name

  const Program& program_;
  const Options& options_;
  mutable std::once_flag asked_;
  mutable std::unordered_map<std::uint64_t, Called> names_;  // by function and name in the text
};

// describe() of a register of a frame of the warp; of the function that it is in.
std::string register_name(const Warp& warp, const Frame& frame, std::uint32_t slot);
std::string register_name(const Warp& warp, std::uint32_t slot);

}  // namespace ptx::sim
