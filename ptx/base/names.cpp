#include "ptx/base/names.h"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace ptx {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::deque<std::string> texts{std::string()};  // a deque: views stay valid as it grows
  std::unordered_map<std::string_view, std::uint32_t> ids;
};

// Never destroyed: names are used from static destructors of clients.
Table& table() {
  static Table& instance = *new Table;
  return instance;
}

}  // namespace

Name::Name(std::string_view text) {
  if (text.empty()) return;
  Table& names = table();
  {
    std::shared_lock lock(names.mutex);
    if (auto found = names.ids.find(text); found != names.ids.end()) {
      id_ = found->second;
      return;
    }
  }
  std::unique_lock lock(names.mutex);
  if (auto found = names.ids.find(text); found != names.ids.end()) {
    id_ = found->second;
    return;
  }
  id_ = static_cast<std::uint32_t>(names.texts.size());
  names.ids.emplace(names.texts.emplace_back(text), id_);
}

std::string_view Name::view() const {
  Table& names = table();
  std::shared_lock lock(names.mutex);
  return names.texts[id_];
}

}  // namespace ptx
