#include "ptx/sim/machine/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/base/text.h"
#include "ptx/ir/initial.h"

namespace ptx::sim {

namespace {

std::uint32_t element_bytes(const ir::Variable& v) {
  return v.opaque.empty() ? std::max<std::uint32_t>(1, isa::info(v.type).bits / 8) : 8;
}

constexpr std::uint64_t max_variable = 1ull << 30;  // bytes; more is a slip in a text

// Puts the initial value of a variable (manual 5.4.4) into its bytes.
class Initializer {
 public:
  Initializer(const ir::Variable& v, const Layout& layout, std::byte* out, std::uint64_t size)
      : variable_(v), layout_(layout), out_(out), size_(size), element_(element_bytes(v)) {}

  bool write() {
    const auto values = ir::initial_values(variable_.initializer);
    if (!values) return false;
    values_ = *values;
    dims_ = variable_.dims;
    if (variable_.vector > 1) dims_.push_back(variable_.vector);
    for (std::int64_t& d : dims_) {
      if (d < 0) d = static_cast<std::int64_t>(size_ / element_);
    }
    return list(0, 0, size_) && at_ == values_.size();
  }

 private:
  // Values from byte `begin` on, at nesting `depth`; an inner list fills one element of the dimension.
  bool list(std::size_t depth, std::uint64_t begin, std::uint64_t end) {
    if (values_[at_].kind != Kind::open) return scalar(begin);
    std::uint64_t step = element_;
    for (std::size_t i = depth + 1; i < dims_.size(); ++i) step *= static_cast<std::uint64_t>(dims_[i]);
    for (++at_; values_[at_].kind != Kind::close;) {
      if (begin >= end) return false;
      const bool nested = values_[at_].kind == Kind::open;
      if (nested ? !list(depth + 1, begin, begin + step) : !scalar(begin)) return false;
      begin += nested ? step : element_;
    }
    ++at_;
    return true;
  }

  bool scalar(std::uint64_t begin) {
    const ir::Initial& value = values_[at_++];
    if (begin + element_ > size_) return false;
    std::uint64_t bits = value.bits;
    if (value.kind == Kind::address) {
      const Resolved r = layout_.find(value.name);
      if (r.kind != Resolved::Kind::address && r.kind != Resolved::Kind::function) return false;
      bits += r.value + (value.generic && is_shared(r.space) ? shared_window : 0);
    } else if (isa::info(variable_.type).kind == isa::TypeKind::floating) {
      bits = floating(value);
    } else if (value.kind == Kind::real && element_ == 4) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    }
    if (value.mask) bits = (bits & value.mask) >> std::countr_zero(value.mask);
    std::memcpy(out_ + begin, &bits, std::min<std::uint32_t>(element_, 8));
    return true;
  }
  std::uint64_t floating(const ir::Initial& value) const {
    const double number = value.kind == Kind::real     ? std::bit_cast<double>(value.bits)
                          : value.kind == Kind::single ? std::bit_cast<float>(static_cast<std::uint32_t>(value.bits))
                                                       : static_cast<double>(static_cast<std::int64_t>(value.bits));
    if (element_ != 4) return std::bit_cast<std::uint64_t>(number);
    return value.kind == Kind::single ? value.bits : std::bit_cast<std::uint32_t>(static_cast<float>(number));
  }

  using Kind = ir::Initial::Kind;
  const ir::Variable& variable_;
  const Layout& layout_;
  std::byte* out_;
  std::uint64_t size_;
  std::uint32_t element_;
  std::vector<ir::Initial> values_;
  std::size_t at_ = 0;
  std::vector<std::int64_t> dims_;
};

// `a[]` is as long as its initializer.
std::uint64_t size_of(const ir::Variable& v) {
  const std::uint64_t size = ir::bytes(v);
  if (v.dims.empty() || v.dims[0] >= 0 || v.initializer.empty()) return size;
  std::uint64_t elements = 1;
  int depth = 0;
  for (char c : v.initializer) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    elements += c == ',' && depth == 1;
  }
  for (std::size_t i = 1; i < v.dims.size(); ++i) elements *= static_cast<std::uint64_t>(v.dims[i]);
  return elements * element_bytes(v) * v.vector;
}

}  // namespace

std::uint32_t stride(const ir::Variable& v) { return element_bytes(v) * std::max<std::uint32_t>(1, v.vector); }

std::uint32_t alignment(const ir::Variable& v) { return v.alignment ? v.alignment : stride(v); }

Layout::Layout(const ir::Module& module, const std::unordered_map<std::uint32_t, bool>& used,
               const std::vector<const ir::Function*>& functions, Program& program)
    : program_(program) {
  std::vector<const ir::Variable*> dynamic;
  auto each = [&](const ir::Variable& v) {
    if (is_shared(v.space) && (v.linking.find("extern") != std::string::npos || (!v.dims.empty() && v.dims[0] < 0))) {
      dynamic.push_back(&v);
    } else {
      place(v);
    }
  };
  for (const ir::Variable& v : module.variables) {
    if (!is_shared(v.space) || used.contains(v.name.id())) each(v);
  }
  for (const ir::Function* f : functions) {
    for (const ir::Variable& v : f->variables) {
      if (is_shared(v.space) || v.space == isa::Space::global || v.space == isa::Space::const_) each(v);
    }
  }
  std::uint32_t align = dynamic.empty() ? 1 : 16;
  for (const ir::Variable* v : dynamic) align = std::max(align, alignment(*v));
  program.static_shared = (program.static_shared + align - 1) / align * align;
  for (const ir::Variable* v : dynamic) {
    const Resolved r{Resolved::Kind::address, program.static_shared, isa::Space::shared, stride(*v)};
    variables_[v] = names_[v->name.id()] = r;
    program.shared_variables.push_back({std::string(v->name.view()), program.static_shared, ~0ull});
  }
}

void Layout::place(const ir::Variable& v) {
  if (size_of(v) > max_variable) return too_large_.push_back(std::string(v.name.view()));
  if (is_shared(v.space)) return place_shared(v);
  ModuleVariable& m = program_.variables.emplace_back();
  m.name = v.name;
  m.space = v.space;
  m.size = size_of(v);
  m.storage.resize((m.size + 256 + 7) / 8);
  const auto start = reinterpret_cast<std::uint64_t>(m.storage.data());
  m.data = reinterpret_cast<std::byte*>((start + 255) / 256 * 256);
  variables_[&v] =
      names_[v.name.id()] = {Resolved::Kind::address, reinterpret_cast<std::uint64_t>(m.data), v.space, stride(v)};
  if (!v.initializer.empty()) initialized_.push_back({&v, &m});
}

void Layout::place_shared(const ir::Variable& v) {
  const std::uint32_t align = alignment(v);
  const std::uint32_t begin = (program_.static_shared + align - 1) / align * align;
  program_.static_shared = static_cast<std::uint32_t>(std::min<std::uint64_t>(begin + size_of(v), 1u << 31));
  variables_[&v] = names_[v.name.id()] = {Resolved::Kind::address, begin, isa::Space::shared, stride(v)};
  program_.shared_variables.push_back({std::string(v.name.view()), begin, program_.static_shared});
}

Resolved Layout::find(Name name) const {
  const auto found = names_.find(name.id());
  return found == names_.end() ? Resolved{} : found->second;
}

Resolved Layout::find(const ir::Variable& variable) const {
  const auto found = variables_.find(&variable);
  return found == variables_.end() ? Resolved{} : found->second;
}

std::optional<std::string> Layout::initialize() {
  if (!too_large_.empty()) return cat("`", too_large_[0], "` is larger than ", max_variable, " bytes");
  for (const auto& [v, m] : initialized_) {
    if (!Initializer(*v, *this, m->data, m->size).write()) {
      return cat("the initial value of `", v->name.view(),
                 "` cannot be read: ", std::string_view(v->initializer).substr(0, 60));
    }
  }
  return std::nullopt;
}

}  // namespace ptx::sim
