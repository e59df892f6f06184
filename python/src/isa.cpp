// The rows of the ISA as Python values: what `pyptx isa`, the reference pages and the stub of `ptx.inst` are made of.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <set>

#include "ptx/check/check.h"
#include "ptx/ir/lower.h"
#include "ptx/isa/form.h"
#include "ptx/isa/spelling.h"
#include "ptx/sim/fragments.h"
#include "ptx/sim/simulator.h"
#include "ptx/syntax/parse.h"
#include "python/src/module.h"

namespace ptx::python {
namespace {

using Texts = std::vector<std::string>;

// Each set: its name, and its values with what a value needs beyond the form ("" if nothing). An optional literal that
// needs nothing more is a set of itself; the syntax has said all of it, and it is left out.
std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> sets(const isa::Form& form) {
  decltype(sets(form)) all;
  for (const isa::Slot& slot : form.slots) {
    const isa::Value& only = form.values[slot.first];
    if (slot.count == 1 && only.need == 0 && form.text(only.text) == form.text(slot.name)) continue;
    auto& values = all.emplace_back(form.text(slot.name), decltype(all)::value_type::second_type{}).second;
    for (std::size_t i = slot.first; i < slot.first + std::size_t{slot.count}; ++i) {
      const isa::Value& value = form.values[i];
      values.emplace_back(form.text(value.text), value.need ? isa::to_string(form.needs[value.need]) : "");
    }
  }
  return all;
}

// Every modifier that may stand in a mnemonic of the form, in the row's order.
Texts modifiers(const isa::Form& form) {
  Texts all;
  for (const isa::Modifier& modifier : form.modifiers) {
    if (modifier.slot == isa::Modifier::literal) {
      all.emplace_back(form.text(modifier.text));
      continue;
    }
    const isa::Slot& slot = form.slots[modifier.slot];
    for (std::size_t i = slot.first; i < slot.first + std::size_t{slot.count}; ++i)
      all.emplace_back(form.text(form.values[i].text));
  }
  return all;
}

Texts rules(const isa::Form& form) {
  Texts texts;
  for (const isa::Rule rule : form.rules)
    if (rule != isa::Rule::none) texts.push_back(isa::rule_text(rule));
  return texts;
}

Texts targets(const isa::Form& form) {
  Texts names;
  for (const isa::Target target : isa::all_targets())
    if (isa::meets(target, form.since())) names.push_back(isa::to_string(target));
  return names;
}

// The forms that the instructions of a text are read by.
std::set<std::string> forms_used(const nb::bytes& text) {
  syntax::Parsed parsed = syntax::parse({text.c_str(), text.size()}, Name());
  ir::Lowered lowered = ir::lower(parsed.tree);
  check::check(lowered.module);
  std::set<std::string> used;
  for (const ir::Function& function : lowered.module.functions)
    for (const ir::Instruction& instruction : function.instructions)
      if (instruction.match) used.emplace(instruction.match->form->id);
  return used;
}

nb::list fragments(const std::string& mnemonic) {
  const auto found = sim::fragments(mnemonic);
  if (!found) throw nb::value_error(found.why().front().message.c_str());
  nb::list all;
  for (const sim::FragmentTable& table : *found)
    all.append(nb::make_tuple(table.name, table.matrices, table.rows, table.columns, table.bits, table.registers,
                              table.threads, table.at));
  return all;
}

}  // namespace

void init_isa(nb::module_& m) {
  nb::class_<isa::Form>(m, "Form", "One form of an instruction: a row of the ISA")
      .def_prop_ro("id", [](const isa::Form& form) { return form.id; })
      .def_prop_ro("opcode", [](const isa::Form& form) { return form.text(form.opcode); })
      .def_prop_ro("section", [](const isa::Form& form) { return form.section; })
      .def_prop_ro("title", [](const isa::Form& form) { return form.title; })
      .def_prop_ro("syntax", [](const isa::Form& form) { return form.syntax; })
      .def_prop_ro("sets", sets)
      .def_prop_ro("modifiers", modifiers, "Every modifier that it may have")
      .def_prop_ro("since", [](const isa::Form& form) { return isa::to_string(form.since()); })
      .def_prop_ro("targets", targets)
      .def_prop_ro("rules", rules)
      .def_prop_ro(
          "unsimulated", [](const isa::Form& form) { return sim::unsimulated(form.id); },
          "Why the simulator does not run it; empty: it does");
  m.def(
      "forms",
      [] {
        nb::list all;
        for (const isa::Form& form : isa::forms()) all.append(nb::cast(&form, nb::rv_policy::reference));
        return all;
      },
      "Every form, in the manual's order");
  m.def(
      "forms_of",
      [](const std::string& mnemonic) {
        std::vector<std::string> ids;
        for (const isa::Match& match : isa::resolve(mnemonic)->matches) ids.emplace_back(match.form->id);
        return ids;
      },
      nb::arg("mnemonic"), "The names of the forms that a whole mnemonic is read by");
  m.def("forms_used", forms_used, nb::arg("text"));
  m.def("fragments", fragments, nb::arg("mnemonic"),
        "(name, matrices, rows, columns, bits, registers, threads, where the elements of the threads lie) of each "
        "matrix of an "
        "instruction");
  m.def(
      "next_modifiers",
      [](const std::string& partial) {
        const auto next = isa::next_modifiers(partial);
        return Texts(next.begin(), next.end());
      },
      nb::arg("partial"), "What may follow the beginning of a mnemonic");
  m.def(
      "python_name", [](const std::string& text) { return isa::python_name(text); }, nb::arg("text"),
      "A modifier or an opcode as a name of Python: shared__cta, _2d, global_");
  m.def(
      "explain", [](const std::string& mnemonic) { return isa::explain(mnemonic); }, nb::arg("mnemonic"),
      "Why no form has these modifiers");
  m.def("special_registers", [] {
    nb::list rows;  // (name, type, elements, first version and target)
    for (const isa::SpecialRegister& row : isa::special_registers())
      rows.append(nb::make_tuple(std::string(row.name), std::string(isa::info(row.type).name), row.vector,
                                 isa::to_string(row.since)));
    return rows;
  });
}

}  // namespace ptx::python
