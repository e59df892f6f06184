// What programs of both languages have in common: a module, its comments, the names of its functions.
#pragma once

#include <string>
#include <vector>

#include "ptx/arch/target.h"
#include "ptx/ir/lower.h"
#include "ptx/transpile/detail/comments.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/plan.h"
#include "ptx/transpile/transpile.h"

namespace ptx::transpile {

class ProgramBase {
 protected:
  ProgramBase(const syntax::Tree& tree, const ir::Module& module, const Options& options, Language language)
      : module_(module),
        options_(options),
        comments_(comments_of(tree, options.sugar < Sugar::all)),
        ends_(ends_of_functions(tree)),
        names_(language) {}

  std::string name_of(const ir::Function& f) {
    if (f.entry && !options_.name.empty()) return names_.take(options_.name);
    return names_.take(options_.sugar == Sugar::none ? f.name.view() : unmangled(f.name.view()));
  }
  Plan plan(const ir::Function& f, Language language) const {
    Plan made = plan_of(module_, f, options_.sugar, language);
    made.allocates = made.expressions && f.entry && static_shared(module_) <= arch::static_shared;
    find_contents(f, made);
    return made;
  }
  // The line that the function of an item ends at.
  std::uint32_t end_of(const ir::Module::Item& item) const {
    return ends_.size() > item.index ? ends_[item.index] : item.place.line;
  }

  const ir::Module& module_;
  const Options& options_;
  const std::vector<Comment> comments_;
  const std::vector<std::uint32_t> ends_;
  Names names_;
};

template <class Program>
Expected<std::string> program_of(const syntax::Tree& tree, const Options& options) {
  const auto module = chosen(ir::lower(tree).module, options);
  if (!module) return module.why();
  return Program(tree, module.value(), options).write();
}

}  // namespace ptx::transpile
