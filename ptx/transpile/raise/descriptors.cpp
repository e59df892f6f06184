// Numbers that are the fields of a descriptor, as the calls that put them together: of a matrix in shared memory
// (wgmma, tcgen05) and of an instruction (tcgen05.mma). A number is one if it is moved, added or joined to a register
// that reaches such an operand, and if each of its bits is in a field.
#include <algorithm>

#include "ptx/arch/descriptor.h"
#include "ptx/arch/element.h"
#include "ptx/arch/instruction_descriptor.h"
#include "ptx/base/text.h"
#include "ptx/transpile/detail/plan.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {
namespace {

using arch::BitField;
using ir::Operand;
using Kind = Operand::Kind;

// A call with arguments by name; types among them are remembered.
class Call {
 public:
  Call(Language language, std::string_view family, std::string_view function)
      : cpp_(language == Language::cpp),
        made_{.head = cpp_ ? cat("ptx::author::", family, "::", function, "(k, {")
                           : cat("ptx.", family, '.', function, '('),
              .start_name = {},
              .rest = {},
              .end = cpp_ ? "})" : ")"} {}

  void give(std::string_view name, const std::string& value) {
    made_.rest += cat(made_.rest.empty() ? "" : ", ", named(name), value);
  }
  void start(std::int64_t bytes) { made_.start_name = named("start"), made_.start = bytes; }
  void number(std::string_view name, std::int64_t value, std::int64_t usual) {
    if (value != usual) give(name, cat(value));
  }
  void truth(std::string_view name, bool value) {
    if (value) give(name, cpp_ ? "true" : "True");
  }
  void major(std::string_view name, bool mn) {
    if (mn) give(name, cpp_ ? "{.mn = true}" : "\"MN\"");
  }
  void type(std::string_view name, isa::Type value) {
    give(name, std::string(isa::info(value).name));
    made_.types.push_back(value);
  }
  Spelled take() { return std::move(made_); }

 private:
  std::string named(std::string_view name) const { return cat(cpp_ ? "." : "", name, cpp_ ? " = " : "="); }

  bool cpp_;
  Spelled made_;
};

struct Field {
  std::int64_t start = 0, leading = 0, stride = 0;
  int version = 0, base = 0, absolute = 0, swizzle = 0;
};

// The fields; nothing where a bit is in none, or where they say no more than where the matrix starts.
std::optional<Field> fields_of(const arch::DescriptorFormat& f, std::uint64_t bits) {
  std::uint64_t put = 0;
  const auto read = [&](BitField field) {
    put |= field.put(field.of(bits));
    return field.of(bits);
  };
  Field made;
  made.start = std::int64_t{read(f.start)} * 16;
  if (put == bits) return {};
  made.leading = std::int64_t{read(f.leading)} * 16;
  made.stride = std::int64_t{read(f.stride)} * 16;
  made.version = static_cast<int>(read(f.version));
  made.base = static_cast<int>(read(f.base_offset));
  made.absolute = static_cast<int>(read(f.absolute));
  made.swizzle = static_cast<int>(read(f.swizzle));
  return put == bits && made.version <= 3 ? std::optional(made) : std::nullopt;
}

std::optional<Spelled> wgmma_bits(Language language, std::uint64_t bits) {
  const auto f = fields_of(arch::wgmma_descriptor, bits);
  if (!f) return {};
  Call call(language, "wgmma", "descriptor_bits");
  call.start(f->start);
  call.number("leading_byte_offset", f->leading, 0);
  call.number("stride_byte_offset", f->stride, 0);
  call.number("swizzle", f->swizzle, 0);
  call.number("base_offset", f->base, 0);
  return call.take();
}

std::optional<Spelled> tcgen05_bits(Language language, std::uint64_t bits) {
  const auto f = fields_of(arch::tcgen05_descriptor, bits);
  if (!f) return {};
  const auto swizzle = std::find_if(std::begin(arch::swizzle_table), std::end(arch::swizzle_table),
                                    [&](const arch::SwizzleInfo& one) { return one.tcgen05 == f->swizzle; });
  if (swizzle == std::end(arch::swizzle_table)) return {};
  Call call(language, "tcgen05", "descriptor_bits");
  call.start(f->start);
  call.number("stride_bytes", f->stride, 1024);
  call.number("leading_bytes", f->leading, 16);
  if (swizzle->name != "128B") call.give("swizzle", quoted(swizzle->name));
  call.number("version", f->version, 1);
  call.number("base_offset", f->base, 0);
  call.number("lbo_mode", f->absolute, 0);
  return call.take();
}

// The type with this code, of the kind of mma.
std::optional<isa::Type> multiplied(std::string_view kind, std::uint32_t code) {
  for (const arch::ElementInfo& element : arch::element_table)
    if (element.mma == kind && element.lanes == 1 && element.code == static_cast<std::int16_t>(code))
      return isa::type_named(element.name);
  return {};
}

// As author::tcgen05::instruction_descriptor puts it together, of the kinds without scale factors; `kind`: f16, tf32,
// f8f6f4, i8.
std::optional<Spelled> instruction_bits(Language language, std::string_view kind, std::uint64_t bits) {
  namespace word = arch::instruction_descriptor;
  std::uint64_t put = 0;
  const auto read = [&](BitField field) {
    put |= field.put(field.of(bits));
    return field.of(bits);
  };
  const auto a = multiplied(kind, read(word::a_type)), b = multiplied(kind, read(word::b_type));
  const std::uint32_t m = read(word::m) * 16, n = read(word::n) * 8, d = read(word::d_type);
  const bool integers = kind == "i8";
  if (!a || !b || d > 2 || integers != (d == 2) || (d == 0 && kind == "tf32")) return {};
  if ((m != 32 && m != 64 && m != 128 && m != 256) || n < 8 || n > 256) return {};
  Call call(language, "tcgen05", "instruction_descriptor");
  call.give("m", cat(m));
  call.give("n", cat(n));
  call.type("a_dtype", *a);
  if (*a != *b) call.type("b_dtype", *b);
  if (d != 1) call.type("d_dtype", integers ? isa::Type::s32 : isa::Type::f16);
  call.major("a_major", read(word::transpose_a));
  call.major("b_major", read(word::transpose_b));
  call.number("scale_a", read(word::negate_a) ? -1 : 1, 1);
  call.number("scale_b", read(word::negate_b) ? -1 : 1, 1);
  const bool saturates = read(word::saturate), sparse = read(word::sparse);
  if (saturates && !integers) return {};
  call.truth("saturate", saturates);
  call.truth("sparse", sparse);
  if (sparse) call.number("selector", read(word::selector), 0);
  call.number("max_shift", read(word::max_shift), 0);
  return put == bits ? std::optional(call.take()) : std::nullopt;
}

class Descriptors {
 public:
  Descriptors(const ir::Function& f, Language language, Plan& plan)
      : f_(f), language_(language), plan_(plan), reached_(f.registers.size()) {}

  void run() {
    bool any = false;
    for (const ir::Instruction& i : f_.instructions) any = seed(i) || any;
    // A number mostly stands above what reads it: one way up finds it, and loops want another.
    for (int rounds = 0; any && rounds < 8; ++rounds) {
      any = false;
      for (auto i = f_.instructions.rbegin(); i != f_.instructions.rend(); ++i) any = follow(*i) || any;
    }
  }

 private:
  struct Reached {
    enum class By : std::uint8_t { none, wgmma, tcgen05, instruction, several } by = By::none;
    std::string_view kind{};  // of the instruction
    bool operator==(const Reached&) const = default;
  };
  using By = Reached::By;

  bool reach(const Operand& o, Reached what) {
    if (o.kind != Kind::reg || o.component != 0xff) return false;
    Reached& known = reached_[o.id];
    if (known == what || known.by == By::several) return false;
    known = known.by == By::none ? what : Reached{By::several};
    return true;
  }
  bool is_wide(const Operand& o) const { return o.kind == Kind::reg && isa::info(f_.registers[o.id].type).bits == 64; }

  // The operands that are descriptors.
  bool seed(const ir::Instruction& i) {
    if (!i.mnemonic) return false;
    const std::string_view text = i.mnemonic->canonical;
    const bool wgmma = text.starts_with("wgmma.mma_async"), mma = text.starts_with("tcgen05.mma");
    if (!wgmma && !mma && !text.starts_with("tcgen05.cp")) return false;
    bool any = false;
    for (const Operand& o : f_.operands_of(i)) {
      if (is_wide(o))
        any = reach(o, {wgmma ? By::wgmma : By::tcgen05}) || any;
      else if (mma && o.kind == Kind::reg && isa::info(f_.registers[o.id].type).bits == 32)
        any = reach(o, {By::instruction, kind_of(text)}) || any;
    }
    return any;
  }
  static std::string_view kind_of(std::string_view text) {
    constexpr std::string_view word = ".kind::";
    const std::size_t at = text.find(word);
    if (at == text.npos) return {};
    text.remove_prefix(at + word.size());
    return text.substr(0, text.find('.'));
  }

  // mov.b64 d, {low, high}; and the other way round.
  bool packed(const Operand& d, const Operand& source) {
    bool any = false;
    if (d.kind == Kind::reg && source.kind == Kind::vector && reached_[d.id].by != By::none)
      for (const Operand& half : f_.children(source)) any = reach(half, reached_[d.id]) || any;
    if (d.kind == Kind::vector && source.kind == Kind::reg)
      for (const Operand& half : f_.children(d))
        if (half.kind == Kind::reg && reached_[half.id].by != By::none) any = reach(source, reached_[half.id]) || any;
    return any;
  }

  bool follow(const ir::Instruction& i) {
    if (!i.mnemonic || i.count < 2) return false;
    const std::string_view opcode = i.mnemonic->opcode;
    const auto operands = f_.operands_of(i);
    if (opcode == "mov" && packed(operands[0], operands[1])) return true;
    if ((opcode != "mov" && opcode != "add" && opcode != "or") || operands[0].kind != Kind::reg) return false;
    const Reached what = reached_[operands[0].id];
    if (what.by == By::none || what.by == By::several) return false;
    bool any = false;
    for (const Operand& o : operands.subspan(1)) {
      any = reach(o, what) || any;
      const bool whole = what.by == By::instruction || is_wide(operands[0]);  // no half of it
      if (o.kind != Kind::integer || o.wide || !whole) continue;
      if (auto text = spelled(what, o.bits)) plan_.spelled.insert_or_assign(&o, std::move(*text));
    }
    return any;
  }
  std::optional<Spelled> spelled(const Reached& what, std::uint64_t bits) const {
    if (what.by == By::wgmma) return wgmma_bits(language_, bits);
    if (what.by == By::tcgen05) return tcgen05_bits(language_, bits);
    return instruction_bits(language_, what.kind, bits);
  }

  const ir::Function& f_;
  const Language language_;
  Plan& plan_;
  std::vector<Reached> reached_;  // by register
};

}  // namespace

void spell_descriptors(const ir::Function& function, Language language, Plan& plan) {
  Descriptors(function, language, plan).run();
}

}  // namespace ptx::transpile
