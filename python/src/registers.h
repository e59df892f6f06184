// Where an author's program got its registers: noted while it is traced, so that messages can name them later
// (pyptx/body/registers.py). A trace may make thousands, so a note is a few numbers; all else waits until it is asked.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/author/builder.h"
#include "ptx/base/allocated.h"
#include "python/src/module.h"

namespace ptx::python {

// A word of MadeRegisters::by, as a number.
struct By {
  std::uint16_t number = 0;
  explicit By(std::string_view word);
};

// An instruction of a code object, which asked for a register or has it as an operand.
struct Spot {
  static constexpr std::uint32_t alone = 0xff;
  std::uint16_t code = 0, by = 0;                  // code: of author_code(); 0: unknown
  std::uint32_t at : 24 = 0, element : 8 = alone;  // at: half the offset; element: of a tuple, or which operand
};
static_assert(sizeof(Spot) == 8);

struct Noted {  // of a register
  Spot made, used;
};
// By RegisterId, in pieces: a trace neither copies nor asks the system for fresh pages as it grows.
class Notes {
 public:
  static constexpr std::size_t piece = 128;
  Noted& operator[](ir::RegisterId id) {
    while (id / piece >= pieces_.size()) pieces_.push_back(std::make_unique<Noted[]>(piece));
    return pieces_[id / piece][id % piece];
  }
  const Noted& operator[](ir::RegisterId id) const { return pieces_[id / piece][id % piece]; }
  std::size_t size() const { return piece * pieces_.size(); }

 private:
  std::vector<std::unique_ptr<Noted[]>> pieces_;
};

// The registers of one function of the text.
struct FunctionRegisters {
  Name function;
  Place place;
  Notes noted;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrays;  // the first, how many
  std::vector<std::pair<std::uint32_t, Name>> called;           // arguments, by the names of their parameters
  author::Builder::Settled settled;
};
using ModuleRegisters = std::vector<FunctionRegisters>;
std::vector<MadeRegisters> rows_of(const ModuleRegisters& registers);
// (function, base, index, count, is an array, element or operand, code object, offset, by, called, file, line) of each.
nb::list tuples_of(const std::vector<MadeRegisters>& rows);

class Returning;

// A builder that notes. All builders of this extension are such.
class Traced : public author::Builder {
 public:
  using Builder::Builder;

  void set_author(const Author& author) { author_ = author, set_place(author.place); }
  const Author& author() const { return author_; }
  // Where the author is; nowhere, unless that many frames of the package stand between the author's call and this.
  Spot here(By by, std::uint32_t wrappers = 0) const {
    const bool known = author_.wrappers == wrappers && by.number != 0 && author_.offset >> 25 == 0;
    return {known ? author_.code : std::uint16_t{0}, by.number, author_.offset / 2 & 0xffffff, Spot::alone};
  }
  // What the author's expression there gave. The first place counts.
  void give(ir::RegisterId id, const Spot& spot) {
    if (Noted& noted = noted_[id]; spot.code != 0 && noted.made.code == 0) noted.made = spot;
  }
  void give(const author::RegArray& array, const Spot& spot) {
    give(array.first, spot);
    arrays_.emplace_back(array.first, array.count);
  }
  void give(ir::RegisterId id, Name called) { called_.emplace_back(id, called); }
  // The author's expression here has this register as an operand.
  void use(const author::Reg& reg, By by, std::size_t operand) {
    if (reg.special || reg.builder != this || operand >= Spot::alone) return;
    Spot& used = noted_[reg.id].used;
    if (used.code != 0) return;
    used = here(by);
    used.element = operand & 0xff;
  }
  FunctionRegisters take();  // after finish()

 private:
  friend class Returning;
  Author author_;
  Returning* returning_ = nullptr;
  Notes noted_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> arrays_;
  std::vector<std::pair<std::uint32_t, Name>> called_;
};
inline Traced& traced(author::Builder& builder) { return static_cast<Traced&>(builder); }

// While it lives, what make() wraps is what the author's call of the function `by` returns. Made right behind active().
class Returning {
 public:
  explicit Returning(author::Builder& builder, By by, std::uint32_t wrappers = 0)
      : traced_(traced(builder)), outer_(traced_.returning_), spot_(traced_.here(by, wrappers)) {
    traced_.returning_ = this;
  }
  ~Returning() { traced_.returning_ = outer_; }
  Returning(const Returning&) = delete;
  Returning& operator=(const Returning&) = delete;

  static void give(const author::Reg& reg, std::size_t element = Spot::alone);  // of a tuple that is returned
  static void give(const author::RegArray& array);

 private:
  Traced& traced_;
  Returning* outer_;
  Spot spot_;
};

// What is no call, as MadeRegisters::by has it; what has a register as an operand begins with "(".
namespace by {
inline const By operation("+"), index("["), loop(":");  // a + b, a[i], for i in a
inline const By operand_of_operation("(+"), operand_of_instruction("(");
}  // namespace by

}  // namespace ptx::python
