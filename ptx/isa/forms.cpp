// The rows of all chapters as one table, and the look-up of an opcode's rows.
#include "ptx/isa/forms.h"

#include <algorithm>
#include <unordered_map>

#include "ptx/base/check.h"
#include "ptx/isa/form_ids.h"

namespace ptx::isa {

#define CHAPTER(name) std::span<const parsing::Entry> chapter_##name();
#include "ptx/isa/chapters.def"
#undef CHAPTER

namespace {

// Manual 9.4.1, operand size exceeding instruction-type size.
// st.async and st.bulk are not, as the assembler has it.
bool is_relaxed(const Form& form) {
  const std::string_view opcode = form.word(form.opcode);
  if (opcode == "st") return !form.id.starts_with("st_async") && !form.id.starts_with("st_bulk");
  return opcode == "ld" || opcode == "ldu" || opcode == "cvt" || opcode == "suld" || opcode == "sust" ||
         opcode == "sured";
}

// Of the others the assembler makes several instructions, and some of those widen what the address is in.
bool has_own_addresses(const Form& form) {
  const std::string_view opcode = form.word(form.opcode);
  for (const std::string_view own : {"ld", "ldu", "st", "atom", "red", "mbarrier", "multimem", "prefetch", "prefetchu",
                                     "applypriority", "discard"}) {
    if (opcode != own) continue;
    return form.id.find("async") == form.id.npos && std::none_of(form.operands.begin(), form.operands.end(),
                                                                 [](const OperandRow& row) { return row.bits != 0; });
  }
  return false;
}

void append(std::vector<Form>& forms, std::span<const parsing::Entry> chapter) {
  std::string_view section, title;
  for (const parsing::Entry& entry : chapter) {
    if (entry.form.text == nullptr) {
      section = entry.section, title = entry.title;
      continue;
    }
    forms.push_back(entry.form);
    forms.back().section = section;
    forms.back().title = title;
    const std::string_view opcode = entry.form.word(entry.form.opcode);
    forms.back().relaxed = is_relaxed(entry.form);
    forms.back().widens_all = entry.form.id.starts_with("cvt_pack") || entry.form.id == "cvt_x2_f32";
    forms.back().reads_special = opcode == "mov" || entry.form.id == "cvt_int";
    forms.back().braces_scalars =
        opcode == "mov" || opcode == "mma" || (forms.back().relaxed && opcode != "cvt" && opcode != "sured");
    forms.back().integers_for_floats = opcode == "tex" || opcode == "tld4";
    forms.back().own_addresses = has_own_addresses(entry.form);
    forms.back().names_variables = opcode == "mov";
  }
}

std::vector<Form> all_forms() {
  std::vector<Form> forms;
#define CHAPTER(name) append(forms, chapter_##name());
#include "ptx/isa/chapters.def"
#undef CHAPTER
  PTX_CHECK(forms.size() == form_count, "chapters.def and all.def list the same files in the same order");
  return forms;
}

}  // namespace

std::span<const Form> forms() {
  static const std::vector<Form> table = all_forms();
  return table;
}

std::span<const std::string_view> opcodes() {
  static constexpr std::string_view names[] = {
#define OPCODE(name) #name,
#define SECTION(number, title)
#define FORM(id, syntax, sets, since, ...)
#include "ptx/isa/forms/all.def"
#undef OPCODE
#undef SECTION
#undef FORM
  };
  return names;
}

std::string rule_text(Rule rule) {
  const auto in_words = [](std::string name) { return std::replace(name.begin(), name.end(), '_', ' '), name; };
  switch (rule) {
#define SLOT_RULE(name, legal) \
  case Rule::name: return legal;
#define OPERAND_RULE(name) \
  case Rule::name: return in_words(#name);
#define COUNT(name)
#include "ptx/isa/rules.def"
#undef SLOT_RULE
#undef OPERAND_RULE
#undef COUNT
    case Rule::none: break;
  }
  return {};
}

std::span<const FormId> forms_of(std::string_view opcode) {
  static const auto table = [] {
    std::unordered_map<std::string_view, std::vector<FormId>> ids;
    for (FormId id = 0; const Form& form : forms()) ids[form.word(form.opcode)].push_back(id++);
    return ids;
  }();
  const auto found = table.find(opcode);
  return found == table.end() ? std::span<const FormId>{} : std::span<const FormId>(found->second);
}

}  // namespace ptx::isa
