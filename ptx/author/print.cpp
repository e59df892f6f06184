#include "ptx/author/print.h"

#include <bit>

#include "ptx/author/control.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/function.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

using isa::Type;

constexpr std::size_t most_values = 32;  // that CUDA's printf takes
constexpr std::string_view integers = "diouxXc", reals = "eEfFgGaA";

struct Spec {
  std::string flags;  // "08", ".3"
  char conversion = 0;
};

// One argument of vprintf: a register of 32 or 64 bits, and how printf shows it.
struct Passed {
  Reg reg;
  bool wide = false;
};

// A format and its values, judged whole before anything is written.
class Line {
 public:
  explicit Line(Builder& b) : b_(b) {}

  void plain(std::string_view text) {
    for (const char c : text) literal(c);
  }
  void format(std::string_view text, std::span<const Operand> values) {
    std::size_t used = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool twice = i + 1 < text.size() && text[i + 1] == c;
      if (c == '\0') b_.refuse(Code::bad_argument, "a format cannot contain a zero byte");
      if ((c == '{' || c == '}') && twice) {
        literal(c), ++i;
      } else if (c == '}') {
        b_.refuse(Code::bad_argument, cat("`", text, "`: a } without its {; }} is a brace"));
      } else if (c != '{') {
        literal(c);
      } else {
        const std::size_t end = text.find('}', i);
        if (end == text.npos) b_.refuse(Code::bad_argument, cat("`", text, "`: a { without its }; {{ is a brace"));
        const Spec made = spec(text.substr(i + 1, end - i - 1));
        if (used < values.size()) place(values[used], made);
        ++used;
        i = end;
      }
    }
    if (used != values.size())
      b_.refuse(Code::bad_argument, cat("`", text, "` has ", used, " {} and ", values.size(), " values"));
    if (count_ > most_values)
      b_.refuse(Code::bad_argument,
                cat("vprintf takes at most ", most_values, " values, not ", count_, "; packed ones count twice"));
    literal('\n');
  }

  // Conversions of the values, the format as a variable, the values in a buffer, the call.
  void write(std::string_view prefix) {
    for (const Part& part : parts_) {
      text_ += part.text;
      if (part.is_value) value(part.value, part.spec);
    }
    const std::uint32_t number = b_.state().next_print++;
    const std::string text = cat(b_.options().name, '_', prefix, "_text_", number);
    declare_text(text);
    const Reg values = write_values(cat(prefix, "_values_", number));
    const Reg format = b_.scalar(Type::u64);
    b_.emit("mov.u64", {Operand(format), Operand(text)});
    b_.emit("cvta.global.u64", {Operand(format), Operand(format)});
    call(b_, vprintf(), std::vector<Argument>{{Operand(format)}, {Operand(values)}}, {.uniform = false});
  }

 private:
  struct Part {  // literal text, then a value
    std::string text;
    bool is_value = false;
    Operand value;
    Spec spec;
  };
  enum class Shown : std::uint8_t { integer, real, halves, quad };

  void literal(char c) {
    if (parts_.empty() || parts_.back().is_value) parts_.emplace_back();
    parts_.back().text += c;
    if (c == '%') parts_.back().text += c;
  }

  Shown shown(const Operand& o) const {
    if (o.literal == Operand::Literal::integer) return Shown::integer;
    if (o.literal == Operand::Literal::real) return Shown::real;
    const bool symbol = o.ir.kind == ir::Operand::Kind::symbol;
    const bool reg = o.ir.kind == ir::Operand::Kind::reg || o.ir.kind == ir::Operand::Kind::special;
    if ((!symbol && !reg) || o.literal != Operand::Literal::none)
      b_.refuse(Code::bad_argument, "print shows registers, special registers, symbols and numbers");
    if (o.builder && o.builder != &b_)
      b_.refuse(Code::foreign_register, "print was given a register of another kernel");
    const isa::TypeInfo& info = isa::info(o.type);
    if (symbol || o.type == Type::pred) return Shown::integer;
    if (o.type == Type::f16x2 || o.type == Type::bf16x2) return Shown::halves;
    if (info.kind == isa::TypeKind::floating || o.type == Type::bf16) return Shown::real;
    return info.bits == 128 ? Shown::quad : Shown::integer;
  }
  void place(const Operand& o, const Spec& spec) {
    const Shown as = shown(o);
    const bool fits =
        !spec.conversion || (as == Shown::integer ? integers : reals).find(spec.conversion) != integers.npos;
    if (as == Shown::quad && (spec.conversion || !spec.flags.empty()))
      b_.refuse(Code::bad_argument, "a .b128 register takes {} only, and is printed as 32 hexadecimal digits");
    if (!fits)
      b_.refuse(Code::bad_argument,
                cat("{:", spec.flags, spec.conversion, "} is for ",
                    as == Shown::integer ? "numbers in floating point; an integer is shown by d i o u x X c"
                                         : "integers; a number in floating point is shown by e E f F g G a A"));
    if (parts_.empty() || parts_.back().is_value) parts_.emplace_back();
    parts_.back().is_value = true, parts_.back().value = o, parts_.back().spec = spec;
    count_ += as == Shown::halves || as == Shown::quad ? 2 : 1;
  }

  // "", ":", ":08x"
  Spec spec(std::string_view text) const {
    const std::string_view all = text;
    if (text.empty()) return {};
    const auto bad = [&] {
      b_.refuse(Code::bad_argument, cat("`{", all,
                                        "}` is no place for a value: {} or {:spec}, a spec of printf without %: "
                                        "flags -+ #0, width, .precision, one of d i o u x X c e E f F g G a A"));
    };
    if (text[0] != ':') bad();
    text.remove_prefix(1);
    Spec made;
    const std::size_t letter = text.find_first_not_of("-+ #0123456789.");
    made.flags = text.substr(0, letter);
    if (letter != text.npos) made.conversion = text[letter];
    const bool known = letter == text.npos || integers.find(made.conversion) != integers.npos ||
                       reals.find(made.conversion) != reals.npos;
    const bool one = letter == text.npos || letter + 1 == text.size();
    const std::size_t digits = made.flags.find_first_not_of("-+ #0");
    const std::string_view sizes =
        digits == std::string::npos ? std::string_view() : std::string_view(made.flags).substr(digits);
    if (!known || !one || sizes.size() > 5 || sizes.find_first_not_of("0123456789.") != sizes.npos ||
        sizes.find('.') != sizes.rfind('.'))
      bad();
    return made;
  }

  void integer(const Reg& reg, bool wide, const Spec& spec, std::string_view usual) {
    if (!spec.conversion && usual == "0x") text_ += "0x";
    const char conversion = spec.conversion ? spec.conversion : usual.back();
    text_ += cat('%', spec.flags, wide && conversion != 'c' ? "ll" : "", conversion);
    passed_.push_back({reg, wide && conversion != 'c'});
  }
  void real(const Reg& f64, const Spec& spec) {
    text_ += cat('%', spec.flags, spec.conversion ? spec.conversion : 'g');
    passed_.push_back({f64, true});
  }
  Reg converted(std::string_view mnemonic, Type to, const Operand& from) {
    const Reg made = b_.scalar(to);
    b_.emit(mnemonic, {Operand(made), from});
    return made;
  }
  Reg as_f64(const Operand& value, Type type) {
    if (type == Type::f64) return converted("mov.f64", Type::f64, value);
    if (type == Type::f16) return as_f64(Operand(converted("cvt.f32.f16", Type::f32, value)), Type::f32);
    if (type == Type::bf16) {  // the upper half of an f32
      const Reg zero = converted("mov.b16", Type::b16, Operand(0)), bits = b_.scalar(Type::b32);
      b_.emit("mov.b32", {Operand(bits), b_.vector({Operand(zero), value})});
      return as_f64(Operand(converted("mov.b32", Type::f32, Operand(bits))), Type::f32);
    }
    return converted("cvt.f64.f32", Type::f64, value);
  }

  void value(const Operand& o, const Spec& spec) {
    if (o.literal == Operand::Literal::integer) {
      const bool negative = o.ir.value < 0 && !o.ir.wide;
      return integer(converted("mov.b64", Type::b64, o), true, spec, negative ? "d" : "u");
    }
    if (o.literal == Operand::Literal::real) return real(converted("mov.f64", Type::f64, o), spec);
    if (o.ir.kind == ir::Operand::Kind::symbol) return integer(b_.from(o, Type::u64), true, spec, "0x");
    in_register(o, spec);
  }
  void in_register(const Operand& o, const Spec& spec) {
    const Type type = o.type;
    const isa::TypeInfo& info = isa::info(type);
    if (type == Type::pred) {
      const Reg bit = b_.scalar(Type::u32);
      b_.emit("selp.u32", {Operand(bit), Operand(1), Operand(0), o});
      return integer(bit, false, spec, "d");
    }
    if (type == Type::f16x2 || type == Type::bf16x2)
      return halves(o, type == Type::f16x2 ? Type::f16 : Type::bf16, spec);
    if (type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64)
      return real(as_f64(o, type), spec);
    if (info.bits == 128) return quad(o);
    if (info.bits == 64) return integer(converted("mov.b64", type, o), true, spec, usual(info));
    if (info.bits == 32) return integer(converted("mov.b32", type, o), false, spec, usual(info));
    const bool is_signed = info.kind == isa::TypeKind::signed_;
    const std::string_view widen =
        is_signed ? (info.bits == 16 ? "cvt.s32.s16" : "cvt.s32.s8") : (info.bits == 16 ? "cvt.u32.u16" : "cvt.u32.u8");
    const Reg wider = converted(widen, is_signed ? Type::s32 : Type::u32, o);
    integer(wider, false, spec, usual(info));
  }
  static std::string_view usual(const isa::TypeInfo& info) {
    return info.kind == isa::TypeKind::signed_ ? "d" : info.kind == isa::TypeKind::unsigned_ ? "u" : "0x";
  }
  void halves(const Operand& o, Type type, const Spec& spec) {
    const Reg low = b_.scalar(Type::b16), high = b_.scalar(Type::b16);
    b_.emit("mov.b32", {b_.vector({Operand(low), Operand(high)}), o});
    text_ += '(';
    real(as_f64(Operand(low), type), spec);
    text_ += ", ";
    real(as_f64(Operand(high), type), spec);
    text_ += ')';
  }
  void quad(const Operand& o) {
    const Reg low = b_.scalar(Type::b64), high = b_.scalar(Type::b64);
    b_.emit("mov.b128", {b_.vector({Operand(low), Operand(high)}), o});
    text_ += "0x%016llx%016llx";
    passed_.push_back({high, true});
    passed_.push_back({low, true});
  }

  // The register with the generic address of the buffer; zero where there are no values.
  Reg write_values(const std::string& buffer) {
    const Reg address = b_.scalar(Type::u64);
    if (passed_.empty()) {
      b_.emit("mov.u64", {Operand(address), Operand(0)});
      return address;
    }
    ir::Variable v;
    v.space = isa::Space::local, v.type = Type::b8, v.name = Name(buffer), v.alignment = 8, v.dims = {lay_out()};
    b_.variable(std::move(v), false);
    for (std::size_t i = 0; i < passed_.size(); ++i)
      b_.emit(passed_[i].wide ? "st.local.b64" : "st.local.b32",
              {Operand(b_.address(Operand(buffer), offsets_[i])), Operand(passed_[i].reg)});
    b_.emit("mov.u64", {Operand(address), Operand(buffer)});
    b_.emit("cvta.local.u64", {Operand(address), Operand(address)});
    return address;
  }
  std::uint32_t lay_out() {  // as C lays out a structure of them
    std::uint32_t at = 0;
    for (const Passed& p : passed_) {
      const std::uint32_t size = p.wide ? 8 : 4;
      at = (at + size - 1) / size * size;
      offsets_.push_back(at);
      at += size;
    }
    return (at + 7) / 8 * 8;
  }
  void declare_text(const std::string& name) {
    ir::Variable v;
    v.space = isa::Space::global, v.type = Type::b8, v.name = Name(name), v.alignment = 1;
    v.dims = {static_cast<std::int64_t>(text_.size() + 1)};
    std::string bytes = "{";
    for (const char c : text_) bytes += cat(static_cast<int>(static_cast<unsigned char>(c)), ", ");
    v.initializer = bytes + "0}";
    b_.variable(std::move(v), true);
  }
  Function vprintf() {
    auto& functions = b_.state().draft->functions;
    if (const auto found = functions.find(Name("vprintf")); found != functions.end()) return found->second;
    return declare(
        b_,
        {.name = "vprintf", .parameters = {{Type::u64}, {Type::u64}}, .returns = {{Type::s32}}, .linking = "extern"});
  }

  Builder& b_;
  std::vector<Part> parts_;
  std::size_t count_ = 0;  // of arguments of vprintf
  std::string text_;
  std::vector<Passed> passed_;
  std::vector<std::uint32_t> offsets_;
};

// `body` in the threads for which the guard is true.
template <class Body>
void where(Builder& b, ir::Guard guard, const Body& body) {
  if (guard.reg == ir::no_id) return body();
  const Reg predicate{&b, guard.reg, Type::pred};
  guard.negated ? begin_if(b, Not{predicate}) : begin_if(b, predicate);
  body();
  end_if(b);
  b.state().after_if = 0;  // no `else` belongs to this
}

}  // namespace

void print(Builder& b, std::string_view format, std::span<const Operand> values, ir::Guard guard) {
  Line line(b);
  line.format(format, values);
  where(b, guard, [&] { line.write("print"); });
}

void check(Builder& b, ir::Guard holds, std::string_view message, std::span<const Operand> values) {
  if (holds.reg == ir::no_id) b.refuse(Code::bad_argument, "check needs a predicate");
  Line line(b);
  const std::string_view file = b.place().file.view();
  line.plain(cat(file.substr(file.find_last_of("/\\") + 1), ':', b.place().line, ": check failed: "));
  line.format(message, values);
  holds.negated = !holds.negated;
  where(b, holds, [&] {
    line.write("check");
    b.emit("trap");
  });
}

}  // namespace ptx::author
