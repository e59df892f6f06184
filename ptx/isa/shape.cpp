#include "ptx/isa/shape.h"

#include <charconv>

#include "ptx/isa/row.h"

namespace ptx::isa {

int detail::number_behind(std::string_view text, char letter) {
  const std::size_t at = text.find(letter);
  int n = 0;
  if (at != text.npos) std::from_chars(text.data() + at + 1, text.data() + text.size(), n);
  return n;
}

std::vector<Type> named_types(const Match& match) {
  std::vector<Type> types;
  const Form& form = *match.form;
  for (const Modifier& m : form.modifiers) {
    const bool literal = m.slot == Modifier::literal;
    if (!literal && match.values[m.slot] == Match::absent) continue;
    const std::string_view word = literal ? form.text(m.text) : form.text(form.values[match.values[m.slot]].text);
    if (const auto type = type_named(word)) types.push_back(*type);
  }
  return types;
}

MatrixShape matrix_shape(const Match& match) {
  std::string_view text = match.value("shape");
  for (const Modifier& m : match.form->modifiers) {  // or a literal: m8n8k4
    const std::string_view word = m.slot == Modifier::literal ? match.form->text(m.text) : std::string_view{};
    if (word.size() > 3 && word[0] == 'm' && word[1] >= '0' && word[1] <= '9') text = word;
  }
  using detail::number_behind;
  return {number_behind(text, 'm'), number_behind(text, 'n'), number_behind(text, 'k')};
}

}  // namespace ptx::isa
