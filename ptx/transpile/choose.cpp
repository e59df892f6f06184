// Which part of a module is written.
#include <algorithm>

#include "ptx/base/text.h"
#include "ptx/transpile/transpile.h"

namespace ptx::transpile {

Expected<ir::Module> chosen(ir::Module module, const Options& options) {
  using Item = ir::Module::Item;
  const auto is_kernel = [&](const Item& item) {
    return item.kind == Item::Kind::function && module.functions[item.index].entry;
  };
  if (!options.entry.empty()) {
    const Name wanted(options.entry);
    const auto is_wanted = [&](const Item& item) {
      return is_kernel(item) && module.functions[item.index].name == wanted;
    };
    if (std::none_of(module.items.begin(), module.items.end(), is_wanted)) {
      std::string names;
      for (const Item& item : module.items)
        if (is_kernel(item)) names += cat(names.empty() ? "" : ", ", module.functions[item.index].name.view());
      return Diagnostic(Code::bad_argument, {},
                        cat("the module has no .entry `", options.entry, "`; it has ", names.empty() ? "none" : names));
    }
    std::erase_if(module.items, [&](const Item& item) { return is_kernel(item) && !is_wanted(item); });
  }
  const auto kernels = std::count_if(module.items.begin(), module.items.end(), is_kernel);
  const bool of_one = !options.name.empty() || !options.arguments.empty() || options.launch;
  if (of_one && kernels != 1) {
    const std::string_view what = options.name.empty() ? "arguments are" : "a name is";
    return Diagnostic(Code::bad_argument, {},
                      cat(what, " for one kernel, the module has ", kernels, ": choose an entry"));
  }
  return module;
}

}  // namespace ptx::transpile
