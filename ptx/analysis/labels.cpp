#include "ptx/analysis/labels.h"

namespace ptx::analysis {

using ir::Statement;

Labels::Labels(const ir::Function& function) {
  std::uint32_t scope = 0;
  for (std::uint32_t s = 0; s < function.body.size(); ++s) {
    const Statement& statement = function.body[s];
    if (statement.kind == Statement::Kind::open) {
      parents_.push_back(scope);
      scope = static_cast<std::uint32_t>(parents_.size() - 1);
    } else if (statement.kind == Statement::Kind::close) {
      scope = parents_[scope];
    } else if (statement.kind == Statement::Kind::label) {
      labels_.try_emplace(key(scope, statement.index), s);
    }
    scopes_.push_back(scope);
  }
}

std::uint32_t Labels::find(std::uint32_t name, std::uint32_t statement) const {
  for (std::uint32_t scope = scopes_[statement];; scope = parents_[scope]) {
    if (const auto found = labels_.find(key(scope, name)); found != labels_.end()) return found->second;
    if (scope == 0) return ir::no_id;
  }
}

}  // namespace ptx::analysis
