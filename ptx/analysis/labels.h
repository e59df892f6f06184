// Labels by the scopes of the text: a label is seen in its whole block and in those inside, so two blocks may each have
// one of the same name.
#pragma once

#include <unordered_map>
#include <vector>

#include "ptx/ir/ir.h"

namespace ptx::analysis {

class Labels {
 public:
  explicit Labels(const ir::Function& function);

  // The statement of the label that `name` means in `statement`; no_id: none.
  std::uint32_t find(std::uint32_t name, std::uint32_t statement) const;

 private:
  static std::uint64_t key(std::uint32_t scope, std::uint32_t name) { return std::uint64_t{scope} << 32 | name; }
  std::unordered_map<std::uint64_t, std::uint32_t> labels_;
  std::vector<std::uint32_t> scopes_, parents_{0};
};

}  // namespace ptx::analysis
