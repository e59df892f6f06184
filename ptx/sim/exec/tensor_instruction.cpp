#include "ptx/sim/exec/tensor_instruction.h"

#include <algorithm>
#include <vector>

#include "ptx/arch/instruction_descriptor.h"
#include "ptx/base/text.h"

namespace ptx::sim {

namespace {

namespace fields = arch::instruction_descriptor;
using arch::BitField;

constexpr std::string_view kinds[] = {"kind::f16",      "kind::tf32", "kind::f8f6f4",  "kind::i8",
                                      "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"};

// .collector::buffer::op: the bit of the buffer, and what becomes of it.
void read_collector(std::string_view text, TensorMma& out) {
  if (text.empty()) return;
  text.remove_prefix(std::string_view("collector::").size());
  const std::string_view buffer = text.substr(0, text.find(':')), use = text.substr(text.rfind(':') + 1);
  out.collector = static_cast<u8>(buffer == "a" || buffer == "b" ? 1 : 2 << (buffer[1] - '0'));
  out.fills = use == "fill", out.uses = use == "use" || use == "lastuse";
  out.keeps = use == "fill" || use == "use";
}

}  // namespace

std::string_view name(MmaKind kind) { return kinds[static_cast<int>(kind)]; }

const char* read_match(const isa::Match& match, TensorMma& out) {
  const auto kind = std::find(std::begin(kinds), std::end(kinds), match.value("kind"));
  if (kind == std::end(kinds) || match.has("decompress::lut::b")) return "tcgen05 of sm_107f alone";
  out.kind = static_cast<MmaKind>(kind - std::begin(kinds));
  out.pair = match.has("cta_group::2");
  out.sparse = match.has("sp");
  out.stationary = match.has("ws");
  out.shift_a = match.has("ashift");
  out.a_in_tensor = match.operands[1].kind == isa::OperandKind::address;
  read_collector(match.value(out.stationary ? "collector_usage" : "collector_a"), out);
  if (!match.has("block_scale")) return "";
  const std::string_view vector = match.value("scale_vectorsize");
  out.scales = vector == "scale_vec::4X" || vector == "block16" ? 4 : out.kind == MmaKind::mxf8f6f4 ? 1 : 2;
  return "";
}

namespace {

// Judges fields one after the other; the first that is illegal stays.
struct Reader {
  const TensorMma& mma;
  u32 bits;
  std::string wrong{};

  std::string where(std::string_view name, BitField field) const {
    return cat(name, " (bit", field.bits > 1 ? "s " : " ", field.at,
               field.bits > 1 ? cat(" to ", field.at + field.bits - 1) : std::string(), ") = ", field.of(bits));
  }
  void refuse(std::string_view name, BitField field, std::string_view legal) {
    if (wrong.empty()) wrong = cat(where(name, field), "; legal with .", sim::name(mma.kind), ": ", legal);
  }
  void zero(std::string_view name, BitField field) {
    if (field.of(bits) != 0) refuse(name, field, "0");
  }
  bool flag(std::string_view name, BitField field, bool may_be) {
    if (!may_be) zero(name, field);
    return field.of(bits) != 0;
  }
  // The element of A or B with that code; kinds of 4 bits alone have one of their own.
  isa::Type element(std::string_view field_name, BitField field) {
    const u32 code = field.of(bits);
    if (mma.four_bits()) {
      if (code != 1) refuse(field_name, field, "1 (e2m1)");
      return isa::Type::e2m1;
    }
    std::string_view kind = sim::name(mma.kind).substr(6);
    if (mma.scaled()) kind = "f8f6f4";
    std::string legal;
    for (const arch::ElementInfo& e : arch::element_table) {
      if (e.mma != kind || e.lanes != 1) continue;
      if (e.code == static_cast<int>(code)) return isa::type_named(e.name).value_or(isa::Type::none);
      legal += cat(legal.empty() ? "" : ", ", e.code, " (", e.name, ")");
    }
    refuse(field_name, field, legal);
    return isa::Type::none;
  }
  isa::Type result() {
    const u32 code = fields::d_type.of(bits);
    const bool integers = mma.kind == MmaKind::i8, halves = mma.kind == MmaKind::f16 || mma.kind == MmaKind::f8f6f4;
    if (integers ? code == 2 : code == 1) return integers ? isa::Type::s32 : isa::Type::f32;
    if (halves && code == 0) return isa::Type::f16;
    refuse("dtype", fields::d_type, integers ? "2 (s32)" : halves ? "0 (f16), 1 (f32)" : "1 (f32)");
    return isa::Type::none;
  }
};

void read_scales(Reader& r, TensorShape& out) {
  const bool any_byte = r.mma.kind == MmaKind::mxf8f6f4;
  r.zero("a reserved field", BitField{0, 2}), r.zero("a reserved field", BitField{3, 1});
  r.zero("a reserved field", BitField{6, 1}), r.zero("a reserved field", BitField{24, 3});
  if (!any_byte) r.zero("a reserved field", BitField{12, 1});
  out.d = isa::Type::f32;
  out.scale_a_id = fields::scale_a_id.of(r.bits), out.scale_b_id = fields::scale_b_id.of(r.bits);
  const auto judge = [&](std::string_view name, BitField field) {
    const u32 id = field.of(r.bits);
    if (r.mma.scales == 4 && id != 0) r.refuse(name, field, "0, as there are 4 scale factors");
    if (r.mma.scales == 2 && id % 2) r.refuse(name, field, "0, 2");
  };
  judge("the id of scale_A", fields::scale_a_id), judge("the id of scale_B", fields::scale_b_id);
  out.scale = fields::scale_type.of(r.bits) ? isa::Type::ue8m0 : isa::Type::ue4m3;
  const bool may_be_ue4m3 = r.mma.kind == MmaKind::mxf4nvf4 && r.mma.scales == 4;
  if (out.scale == isa::Type::ue4m3 && !may_be_ue4m3)
    r.refuse("the type of the scale factors", fields::scale_type, "1 (ue8m0)");
  if (any_byte) {
    r.zero("a reserved field", BitField{31, 1});
  } else if (fields::k_96.of(r.bits)) {
    r.refuse("the K dimension", fields::k_96,
             "0; where the scale factors of K = 96 lie is in figures of the manual alone");
  }
}

void read_plain(Reader& r, TensorShape& out) {
  r.zero("a reserved field", BitField{6, 1}), r.zero("a reserved field", BitField{23, 1});
  r.zero("a reserved field", BitField{29, 1});
  const bool integers = r.mma.kind == MmaKind::i8;
  out.saturate = r.flag("saturate", fields::saturate, integers);
  out.d = r.result();
  out.selector = fields::selector.of(r.bits);
  // Of 32 bits of metadata a row has two places in 64; those of 64 bits have one.
  const bool chooses = r.mma.kind == MmaKind::f16 || r.mma.kind == MmaKind::tf32;
  if (r.mma.sparse && !chooses) r.zero("the sparsity selector", fields::selector);
  out.max_shift = fields::max_shift.of(r.bits);
  if (!r.mma.stationary) r.zero("the maximum shift", fields::max_shift);
  if (out.d == isa::Type::f16 && out.a == isa::Type::bf16) r.refuse("dtype", fields::d_type, "1 (f32), as A is bf16");
  if (out.d == isa::Type::f16 && out.b == isa::Type::bf16) r.refuse("dtype", fields::d_type, "1 (f32), as B is bf16");
}

// Table 39.
void judge_shape(Reader& r, TensorShape& out) {
  const TensorMma& mma = r.mma;
  std::vector<int> legal = mma.pair         ? std::vector{128, 256}
                           : mma.stationary ? std::vector{32, 64, 128}
                           : mma.scaled()   ? std::vector{128}
                                            : std::vector{64, 128};
  if (mma.pair && mma.scaled() && mma.sparse) legal = {256};
  out.m = static_cast<int>(fields::m.of(r.bits)) * 16, out.n = static_cast<int>(fields::n.of(r.bits)) * 8;
  if (std::find(legal.begin(), legal.end(), out.m) == legal.end()) {
    std::string text = "M =";
    for (const int m : legal) text += cat(" ", m);
    r.refuse("M / 16", fields::m, cat(text, mma.pair ? " with cta_group::2" : mma.stationary ? " with .ws" : ""));
  }
  const bool bytes = mma.kind == MmaKind::i8 || mma.kind == MmaKind::f8f6f4 || mma.kind == MmaKind::mxf8f6f4;
  const bool coarse = mma.kind == MmaKind::i8 && (mma.pair || out.n > 32);
  const int step = (coarse || (bytes && out.transpose_b) ? 16 : 8) * mma.ctas();
  const bool fits = mma.stationary ? out.n == 64 || out.n == 128 || (out.n == 256 && !mma.sparse)
                                   : out.n >= step && out.n <= 256 && out.n % step == 0;
  if (!fits)
    r.refuse("N / 8", fields::n,
             mma.stationary ? cat("N = 64 128", mma.sparse ? "" : " 256", " with .ws")
                            : cat("N = ", step, " to 256 in steps of ", step));
}

}  // namespace

std::string read_instruction(const TensorMma& mma, u32 bits, TensorShape& out) {
  Reader r{mma, bits};
  out.a = r.element("atype", fields::a_type),
  out.b = r.element("btype", mma.four_bits() ? BitField{10, 2} : fields::b_type);
  if (fields::sparse.of(bits) != (mma.sparse ? 1u : 0u))
    r.refuse("sparsity", fields::sparse, mma.sparse ? "1 with .sp" : "0 without .sp");
  const bool negates = mma.kind != MmaKind::i8, transposes = !mma.four_bits();
  out.negate_a = r.flag("negate A", fields::negate_a, negates),
  out.negate_b = r.flag("negate B", fields::negate_b, negates);
  out.transpose_a = r.flag("transpose A", fields::transpose_a, transposes && !mma.a_in_tensor);
  out.transpose_b = r.flag("transpose B", fields::transpose_b, transposes);
  mma.scaled() ? read_scales(r, out) : read_plain(r, out);
  judge_shape(r, out);
  if (mma.shift_a && out.m < 128) r.refuse("M / 16", fields::m, "M = 128, 256 with .ashift");
  const int width = mma.kind == MmaKind::f16 ? 16 : mma.kind == MmaKind::tf32 ? 8 : mma.four_bits() ? 64 : 32;
  out.stored = width, out.k = mma.sparse ? 2 * width : width;
  return r.wrong;
}

DataPath data_path(const TensorMma& mma, const TensorShape& shape) {
  const u32 rows = static_cast<u32>(shape.m / mma.ctas());
  const bool folds = mma.stationary || (mma.pair && !mma.sparse);
  return {rows, folds ? 128 / rows : 1, rows == 64 && !folds};
}

}  // namespace ptx::sim
