// "fma.rn.f32"_ptx(d, a, b, c): an instruction whose mnemonic and number of operands are checked when C++ is compiled,
// against the same rows that everything else reads. Types of operands, and rules between operands (the size of a copy,
// say), are checked when it runs.
#pragma once

#include <algorithm>
#include <array>

#include "ptx/author/kernel.h"
#include "ptx/isa/fit.h"
#include "ptx/isa/row_parser.h"

namespace ptx::author {

template <std::size_t N>
struct FixedText {
  char text[N]{};
  consteval FixedText(const char (&from)[N]) { std::copy_n(from, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

namespace literal {

// Opcode, then the modifiers.
struct Words {
  std::array<std::string_view, isa::Fit::max_modifiers + 1> all;
  std::size_t count = 0;
};
consteval Words split(std::string_view text) {
  Words words;
  for (std::size_t begin = 0; begin <= text.size() && words.count < words.all.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    words.all[words.count++] = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return words;
}

struct Verdict {
  bool opcode = false, modifiers = false;
  std::array<bool, 32> counts{};  // numbers of operands that some form takes
};

// Operands of optional groups come and go together; a group with a condition is there exactly if its modifier is.
consteval void add_counts(const isa::Form& form, const isa::Fit& fit, Verdict& verdict) {
  std::size_t required = 0, optional[8] = {}, groups = 0;
  bool joined = false;
  std::uint8_t last = 0;
  for (const isa::OperandRow& row : form.operands) {
    const bool part = joined || row.inner;
    joined = row.pair;
    if (part) continue;
    bool present = row.group == 0;
    if (row.condition.size) {
      const std::string_view condition = form.text(row.condition);
      bool given = false;
      for (int i = 0; i < fit.count; ++i) {
        const isa::Modifier& m = form.modifiers[fit.element[i]];
        const bool literal = m.slot == isa::Modifier::literal;
        given = given || form.text(literal ? m.text : form.slots[m.slot].name) == condition ||
                (!literal && form.text(form.values[fit.value[i]].text) == condition);
      }
      if (!given) continue;
      present = true;
    }
    if (present) {
      ++required;
    } else {
      if (row.group != last) ++groups, last = row.group;
      ++optional[groups - 1];
    }
  }
  for (std::size_t subset = 0; subset < std::size_t{1} << groups; ++subset) {
    std::size_t count = required;
    for (std::size_t g = 0; g < groups; ++g) count += subset >> g & 1 ? optional[g] : 0;
    if (count < verdict.counts.size()) verdict.counts[count] = true;
  }
}

// Whether the row begins with modifiers that stay in their places, and the text with others: cp.async!.bulk! for
// cp.async.ca. clang counts steps, and gives up before it has read all rows of cp or tcgen05.
consteval bool begins_otherwise(std::string_view syntax, std::size_t at, std::string_view sets, const Words& words) {
  for (std::size_t i = 1; i < words.count && at < syntax.size() && syntax[at] == '.'; ++i) {
    const std::size_t end = syntax.find_first_of(".{! ", at + 1);
    if (end == syntax.npos || syntax[end] != '!') return false;
    const std::string_view word = syntax.substr(at + 1, end - at - 1);
    if (words.all[i] != word)  // a set's name stands for several
      return sets.find(word) == sets.npos && isa::parsing::shared_set(word).empty();
    at = end + 1;
  }
  return false;
}

consteval void judge_row(std::string_view syntax, std::string_view sets, std::string_view since, const Words& words,
                         Verdict& verdict) {
  const std::size_t end = std::min(syntax.find_first_of(".{ "), syntax.size());
  if (syntax.substr(0, end) != words.all[0]) return;
  verdict.opcode = true;
  if (begins_otherwise(syntax, end, sets, words)) return;
  const isa::parsing::Draft draft = isa::parsing::parse(syntax, sets, since);
  const isa::Form form = isa::parsing::form_of(draft);
  const std::span<const std::string_view> modifiers(words.all.data() + 1, words.count - 1);
  const isa::Fit fit = isa::matching::fit(form, modifiers);
  if (!fit.fits) return;
  verdict.modifiers = true;
  add_counts(form, fit, verdict);
}

// Every fourth row, from the one of this number on: one after the other, all rows of cp.async.bulk.tensor would be too
// many steps for clang. A copy of the text: with -fsanitize=undefined, g++ 12 knows no addresses in arguments of
// templates.
inline constexpr std::size_t turns = 4;
template <std::size_t N>
consteval Verdict judge(FixedText<N> text, std::size_t turn) {
  const Words words = split(text.view());
  Verdict verdict;
  std::size_t row = turn;
#define OPCODE(name, ...)
#define SECTION(number, title)
#define FORM(id, syntax, sets, since, ...) \
  if (row++ % turns == 0) judge_row(syntax, sets, since, words, verdict);
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
  return verdict;
}

consteval Verdict joined(const Verdict (&parts)[turns]) {
  Verdict all;
  for (const Verdict& part : parts) {
    all.opcode |= part.opcode, all.modifiers |= part.modifiers;
    for (std::size_t i = 0; i < all.counts.size(); ++i) all.counts[i] |= part.counts[i];
  }
  return all;
}

template <FixedText Text>
struct Instruction {
  static constexpr Verdict first = judge(Text, 0), second = judge(Text, 1), third = judge(Text, 2),
                           last = judge(Text, 3);
  static constexpr Verdict verdict = joined({first, second, third, last});
  static_assert(verdict.opcode, "no instruction of PTX has this opcode");
  static_assert(verdict.modifiers, "the modifiers are no form of the instruction");

  ir::Guard guard{};
  Instruction when(const auto& predicate) const { return {author::when(predicate)}; }

  template <class... Rest>
  void operator()(const Here& first, Rest&&... rest) const {
    static_assert(temporaries<Rest...> <= 1,
                  "two arguments append instructions, and C++ does not say which is first: name one");
    static_assert(verdict.counts[1 + sizeof...(Rest)], "the instruction takes another number of operands");
    Kernel& k = Kernel::current();
    k.set_place(first.at);
    const Operand operands[] = {first.operand, Operand(rest)...};
    k.emit(mnemonic(), operands, guard);
  }
  void operator()(std::source_location at = std::source_location::current()) const {
    static_assert(verdict.counts[0], "the instruction takes operands");
    Kernel& k = Kernel::current();
    k.set_place(at);
    k.emit(mnemonic(), {}, guard);
  }

 private:
  static const isa::Mnemonic* mnemonic() {
    static const isa::Mnemonic* const resolved = isa::resolve(Text.view());
    return resolved;
  }
};

}  // namespace literal

inline namespace literals {
template <FixedText Text>
constexpr auto operator""_ptx() {
  return literal::Instruction<Text>{};
}
}  // namespace literals

}  // namespace ptx::author
