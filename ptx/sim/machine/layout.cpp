#include "ptx/sim/machine/layout.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "ptx/base/text.h"

namespace ptx::sim {

namespace {

std::uint32_t element_bytes(const ir::Variable& v) {
  return v.opaque.empty() ? std::max<std::uint32_t>(1, isa::info(v.type).bits / 8) : 8;
}

constexpr std::uint64_t max_variable = 1ull << 30;  // bytes; more is a slip in a text

// Reads the text of an initializer (manual 5.4.4) into bytes.
class Initializer {
 public:
  Initializer(const ir::Variable& v, const Layout& layout, std::byte* out, std::uint64_t size)
      : variable_(v), layout_(layout), out_(out), size_(size), element_(element_bytes(v)), text_(v.initializer) {}

  bool read() {
    dims_ = variable_.dims;
    if (variable_.vector > 1) dims_.push_back(variable_.vector);
    for (std::int64_t& d : dims_) {
      if (d < 0) d = static_cast<std::int64_t>(size_ / element_);
    }
    return list(0, 0, size_) && peek() == '\0';
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) { return peek() == c && (++at_, true); }

  // Values from byte `begin` on, at nesting `depth`; an inner list fills one element of the dimension.
  bool list(std::size_t depth, std::uint64_t begin, std::uint64_t end) {
    if (!take('{')) return scalar(begin);
    std::uint64_t step = element_;
    for (std::size_t i = depth + 1; i < dims_.size(); ++i) step *= static_cast<std::uint64_t>(dims_[i]);
    while (!take('}')) {
      if (begin >= end) return false;
      const bool nested = peek() == '{';
      if (nested ? !list(depth + 1, begin, begin + step) : !scalar(begin)) return false;
      begin += nested ? step : element_;
      if (!take(',') && peek() != '}') return false;
    }
    return true;
  }

  bool scalar(std::uint64_t begin) {
    std::uint64_t bits = 0;
    if (!expression(bits) || begin + element_ > size_) return false;
    std::memcpy(out_ + begin, &bits, std::min<std::uint32_t>(element_, 8));
    return true;
  }

  bool expression(std::uint64_t& bits) {
    if (!term(bits)) return false;
    while (peek() == '+' || peek() == '-') {
      const bool minus = text_[at_++] == '-';
      std::uint64_t more = 0;
      if (!term(more)) return false;
      bits += minus ? 0 - more : more;
    }
    return true;
  }

  bool term(std::uint64_t& bits) {
    if (take('-')) return negative(bits);
    if (take('(')) return expression(bits) && take(')');
    const char c = peek();
    if ((c >= '0' && c <= '9') || c == '.') return number(bits, false);
    const std::string_view name = word();
    if (name.empty()) return false;
    if (name == "generic") {
      is_generic_ = true;
      const bool ok = take('(') && expression(bits) && take(')');
      is_generic_ = false;
      return ok;
    }
    const Resolved r = layout_.find(Name(name));
    if (r.kind != Resolved::Kind::address && r.kind != Resolved::Kind::function) return false;
    bits = r.value + (is_generic_ && is_shared(r.space) ? shared_window : 0);
    return true;
  }
  bool negative(std::uint64_t& bits) {
    const char c = peek();
    if ((c >= '0' && c <= '9') || c == '.') return number(bits, true);
    if (!term(bits)) return false;
    return bits = 0 - bits, true;
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::strchr("_$%.", text_[at_])))
      ++at_;
    return std::string_view(text_).substr(begin, at_ - begin);
  }

  // A number, or a mask: 0xFF00(address).
  bool number(std::uint64_t& bits, bool minus) {
    std::string digits(word());
    const bool exponent =
        !digits.starts_with("0x") && !digits.starts_with("0X") && (digits.ends_with('e') || digits.ends_with('E'));
    if (exponent && (peek() == '-' || peek() == '+')) digits += text_[at_++], digits += word();
    bool real = false;
    double value = 0;
    if (!literal(digits, bits, value, real)) return false;
    if (!real && take('(')) return mask(bits);
    const bool floating = isa::info(variable_.type).kind == isa::TypeKind::floating;
    if (floating && !real) value = static_cast<double>(bits), real = true;
    if (minus && real) value = -value;
    if (minus && !real) bits = 0 - bits;
    if (real)
      bits =
          element_ == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(value)) : std::bit_cast<std::uint64_t>(value);
    return true;
  }
  bool literal(std::string digits, std::uint64_t& bits, double& value, bool& real) {
    if (digits.size() > 2 && digits[0] == '0' && std::strchr("fFdD", digits[1])) {
      const bool single = digits[1] == 'f' || digits[1] == 'F';
      if (std::from_chars(digits.data() + 2, digits.data() + digits.size(), bits, 16).ptr !=
          digits.data() + digits.size())
        return false;
      real = true;
      value = single ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
      return true;
    }
    if (digits.find_first_of(".eE") != digits.npos && !digits.starts_with("0x") && !digits.starts_with("0X")) {
      real = true;
      return std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
    }
    if (digits.ends_with('U')) digits.pop_back();
    int base = 10, skip = 0;
    if (digits.starts_with("0x") || digits.starts_with("0X"))
      base = 16, skip = 2;
    else if (digits.starts_with("0b") || digits.starts_with("0B"))
      base = 2, skip = 2;
    else if (digits.size() > 1 && digits[0] == '0')
      base = 8, skip = 1;
    return std::from_chars(digits.data() + skip, digits.data() + digits.size(), bits, base).ec == std::errc();
  }
  bool mask(std::uint64_t& bits) {
    const std::uint64_t mask = bits;
    if (mask == 0 || !expression(bits)) return false;
    bits = (bits & mask) >> std::countr_zero(mask);
    return take(')');
  }

  const ir::Variable& variable_;
  const Layout& layout_;
  std::byte* out_;
  std::uint64_t size_;
  std::uint32_t element_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::int64_t> dims_;
  bool is_generic_ = false;
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
  std::uint32_t align = 16;
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
    if (!Initializer(*v, *this, m->data, m->size).read()) {
      return cat("the initial value of `", v->name.view(),
                 "` cannot be read: ", std::string_view(v->initializer).substr(0, 60));
    }
  }
  return std::nullopt;
}

}  // namespace ptx::sim
