// tcgen05: the modifiers of each instruction in the manual's order, and descriptors (manual 9.7.16.4). What is legal of
// an instruction the rows say (isa/forms/tcgen05.def).
#include "ptx/author/tcgen05.h"

#include "ptx/arch/instruction_descriptor.h"
#include "ptx/author/detail/descriptor.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"

namespace ptx::author::tcgen05 {

using isa::Type;
namespace fields = author::descriptor;
namespace word = arch::instruction_descriptor;

namespace {

Operand bracketed(Builder& b, const Operand& o) {
  return o.ir.kind == ir::Operand::Kind::address ? o : Operand(b.address(o));
}

void add_modifier(Text& text, const std::optional<Modifier>& given) {
  if (given) text << '.' << given->text;
}

// The predicate "accumulate into D": no row takes a number there.
Operand enabling(Builder& b, const Operand& enable) {
  if (enable.is_register() && enable.type == Type::pred) return enable;
  const Reg p = b.scalar(Type::pred);
  Operand number = enable;
  if (!enable.is_register()) {
    const Reg copy = b.scalar(Type::u32);
    b.emit("mov.u32", {copy, enable});
    number = copy;
  }
  b.emit("setp.ne.b32", {p, number, 0});
  return p;
}

// The lanes of D that are not written: a vector of masks. pyptx 0.1.1 wrote zeros if the author chose PTX 8.8 or later;
// so do we, also where the author chose no version.
std::optional<Operand> disabled_lanes(Builder& b, const options::mma& o) {
  if (o.disable_output_lane) return o.disable_output_lane;
  const isa::Version version = b.options().version;
  const bool scaled = o.kind && o.kind->text.starts_with("kind::mx");
  if (!o.lane_mask || o.sparse || scaled || (version != isa::Version{} && version < isa::Version{8, 8})) return {};
  const Reg zero = b.scalar(Type::u32);
  b.emit("mov.u32", {zero, 0});
  const bool pair = o.cta_group && o.cta_group->text == "cta_group::2";
  return b.vector(std::vector<Operand>(pair ? 8 : 4, zero));
}

std::string count_modifier(int count) { return cat(".x", count); }

}  // namespace

void ld(Builder& b, const std::vector<Operand>& to, const Operand& taddr, const options::ld& o) {
  Text text;
  text << "tcgen05.ld.sync.aligned";
  add_modifier(text, o.shape);
  text << count_modifier(o.count) << (o.pack ? ".pack::16b." : ".") << o.dtype.text;
  std::vector<Operand> operands{b.vector(to), bracketed(b, taddr)};
  if (o.split_offset) operands.push_back(*o.split_offset);
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

void st(Builder& b, const Operand& taddr, const std::vector<Operand>& from, const options::st& o) {
  Text text;
  text << "tcgen05.st.sync.aligned";
  add_modifier(text, o.shape);
  text << count_modifier(o.count) << (o.unpack ? ".unpack::16b." : ".") << o.dtype.text;
  std::vector<Operand> operands{bracketed(b, taddr)};
  if (o.split_offset) operands.push_back(*o.split_offset);
  operands.push_back(b.vector(from));
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

void cp(Builder& b, const Operand& taddr, const Operand& descriptor, const options::cp& o) {
  Text text;
  text << "tcgen05.cp";
  add_modifier(text, o.cta_group);
  add_modifier(text, o.size);
  add_modifier(text, o.multicast);
  if (o.src_fmt) text << ".b8x16." << o.src_fmt->text;
  b.emit(isa::resolve(text.view()), std::array{bracketed(b, taddr), descriptor}, o.pred);
}

void mma(Builder& b, const Operand& d, const Operand& a, const Operand& bb, const Operand& idesc,
         const options::mma& o) {
  const bool scaled = o.kind && o.kind->text.starts_with("kind::mx");
  if (scaled && !(o.scale_vec_a && o.scale_vec_b))
    b.refuse(Code::bad_argument, cat(o.kind->text, " takes the addresses of its scales: scale_vec_a and scale_vec_b"));
  if (o.sparse && !o.sparse_metadata) b.refuse(Code::bad_argument, "a sparse mma takes sparse_metadata");
  const Operand enable = o.pred_operand ? o.pred_operand->value
                         : o.scale_d    ? o.scale_d->value
                                        : Operand(o.enable_input_d);
  const Operand p = enabling(b, enable);
  Text text;
  text << (o.sparse ? "tcgen05.mma.sp" : "tcgen05.mma");
  add_modifier(text, o.cta_group);
  add_modifier(text, o.kind);
  if (scaled) text << ".block_scale";
  if (o.b_metadata) text << ".decompress::lut::b";
  add_modifier(text, o.scale_vectorsize);
  if (o.ashift) text << ".ashift";
  if (o.collector_a) text << ".collector::a::" << *o.collector_a;
  if (o.collector_b) text << ".collector::b::" << *o.collector_b;
  std::vector<Operand> operands{bracketed(b, d), o.a_is_tmem ? bracketed(b, a) : a, bb};
  if (o.b_metadata) operands.push_back(bracketed(b, *o.b_metadata));
  if (o.sparse) operands.push_back(bracketed(b, *o.sparse_metadata));
  operands.push_back(idesc);
  if (scaled) operands.insert(operands.end(), {bracketed(b, *o.scale_vec_a), bracketed(b, *o.scale_vec_b)});
  if (const auto lanes = disabled_lanes(b, o)) operands.push_back(*lanes);
  operands.push_back(p);
  if (o.scale_c) operands.push_back(*o.scale_c);
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

void mma_ws(Builder& b, const Operand& d, const Operand& a, const Operand& bb, const Operand& idesc,
            const options::mma_ws& o) {
  const Operand p = enabling(b, o.scale_d.value);
  Text text;
  text << "tcgen05.mma.ws" << (o.sparse_metadata ? ".sp" : "") << ".cta_group::1";
  add_modifier(text, o.kind);
  add_modifier(text, o.collector_usage);
  std::vector<Operand> operands{bracketed(b, d), o.a_is_tmem ? bracketed(b, a) : a, bb};
  if (o.sparse_metadata) operands.push_back(bracketed(b, *o.sparse_metadata));
  operands.insert(operands.end(), {idesc, p});
  if (o.zero_column_mask) operands.push_back(*o.zero_column_mask);
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

void commit(Builder& b, const Address& bar, const options::commit& o) {
  if (o.space && o.space->text != "cluster" && o.space->text != "shared::cluster")
    b.refuse(Code::bad_argument,
             cat("the `space` of tcgen05.commit is cluster, or None for a generic address, not ", o.space->text));
  if (o.multicast && !o.multicast_mask && !o.multicast_mask_32b)
    b.refuse(Code::bad_argument, "commit(multicast=True) needs multicast_mask=, the CTAs of the cluster");
  Text text;
  text << "tcgen05.commit";
  add_modifier(text, o.cta_group);
  text << ".mbarrier::arrive::one" << (o.a_read ? ".sync_restrict::shared::read::mma::a" : "")
       << (o.space ? ".shared::cluster" : "") << (o.multicast_mask ? ".multicast::cluster" : "")
       << (o.multicast_mask_32b ? ".multicast::cluster::32b.b64" : ".b64");
  std::vector<Operand> operands{Operand(bar)};
  for (const auto& mask : {o.multicast_mask, o.multicast_mask_32b})
    if (mask) operands.push_back(*mask);
  b.emit(isa::resolve(text.view()), operands, o.pred);
}

// Descriptors --------------------------------------------------------------------------------------------------------

namespace {

bool negated(Builder& b, std::string_view name, int scale) {
  if (scale != 1 && scale != -1) b.refuse(Code::bad_argument, cat(name, " = ", scale, "; legal: 1 -1"));
  return scale < 0;
}

// The kind of mma that multiplies elements of a type, and their code there (arch/elements.def).
const arch::ElementInfo& multiplied(Builder& b, std::string_view name, Type type) {
  for (const arch::ElementInfo& element : arch::element_table)
    if (element.lanes == 1 && element.name == isa::info(type).name && element.code != arch::no_code) return element;
  std::string legal;
  for (const arch::ElementInfo& element : arch::element_table)
    if (element.lanes == 1 && element.code != arch::no_code) legal += cat(' ', element.name);
  b.refuse(Code::bad_argument, cat(name, " = ", isa::info(type).name, "; legal:", legal));
}

std::uint64_t d_type(Builder& b, std::string_view kind, Type type) {
  const bool integers = kind == "i8", halves = kind == "f16" || kind == "f8f6f4";
  if (integers ? type == Type::s32 : type == Type::f32) return integers ? 2 : 1;
  if (halves && type == Type::f16) return 0;
  b.refuse(Code::bad_argument, cat("d_dtype = ", isa::info(type).name, "; legal with these operands: ",
                                   integers ? "s32"
                                   : halves ? "f32 f16"
                                            : "f32"));
}

}  // namespace

std::int64_t instruction_descriptor(Builder& b, const options::instruction_descriptor& o) {
  const Type b_type = o.b_dtype.value_or(o.a_dtype);
  const arch::ElementInfo &a = multiplied(b, "a_dtype", o.a_dtype), &bb = multiplied(b, "b_dtype", b_type);
  if (a.mma != bb.mma)
    b.refuse(Code::bad_argument, cat("a_dtype = ", a.name, " and b_dtype = ", bb.name,
                                     " have no kind in common: ", a.mma, " and ", bb.mma));
  if (o.m != 32 && o.m != 64 && o.m != 128 && o.m != 256)
    b.refuse(Code::bad_argument, cat("m = ", o.m, "; legal: 32 (mma_ws) 64 128 256"));
  if (o.n < 8 || o.n > 256 || o.n % 8 != 0)
    b.refuse(Code::bad_argument, cat("n = ", o.n, " is not a multiple of 8 in 8..256"));
  const bool scaled = o.scale_dtype.has_value();
  const bool four_bits = scaled && !o.mxf8f6f4 && o.a_dtype == Type::e2m1 && b_type == Type::e2m1;
  std::uint64_t bits = word::sparse.put(o.sparse) | word::negate_a.put(negated(b, "scale_a", o.scale_a)) |
                       word::negate_b.put(negated(b, "scale_b", o.scale_b)) | word::transpose_a.put(o.a_major.mn) |
                       word::transpose_b.put(o.b_major.mn) | word::n.put(static_cast<std::uint64_t>(o.n / 8)) |
                       word::m.put(static_cast<std::uint64_t>(o.m / 16)) |
                       word::a_type.put(four_bits ? 1 : static_cast<std::uint64_t>(a.code)) |
                       word::b_type.put(four_bits ? 1 : static_cast<std::uint64_t>(bb.code));
  if (!scaled) {  // table 42
    bits |= fields::field(b, "selector", o.selector, 0, o.sparse ? 3 : 0, word::selector.at) |
            word::saturate.put(o.saturate) | word::d_type.put(d_type(b, a.mma, o.d_dtype)) |
            fields::field(b, "max_shift", o.max_shift, word::max_shift);
    if (o.saturate && a.mma != "i8") b.refuse(Code::bad_argument, cat("only integers saturate, not ", a.name));
    return static_cast<std::int64_t>(bits);
  }
  // Tables 43 and 44: scaled blocks.
  if (a.mma != "f8f6f4") b.refuse(Code::bad_argument, cat("numbers of type ", a.name, " have no scales"));
  if (o.m < 128) b.refuse(Code::bad_argument, cat("m = ", o.m, "; legal with scales: 128 256"));
  const bool ue8m0 = *o.scale_dtype == Type::ue8m0;
  if (!ue8m0 && !(four_bits && *o.scale_dtype == Type::ue4m3))
    b.refuse(Code::bad_argument,
             cat("scale_dtype = ", isa::info(*o.scale_dtype).name, "; legal: ue8m0, and ue4m3 for e2m1"));
  if (o.k96 && !four_bits) b.refuse(Code::bad_argument, "k96 is for e2m1 of the kinds mxf4 and mxf4nvf4");
  bits |= fields::field(b, "scale_b_id", o.scale_b_id, word::scale_b_id) |
          fields::field(b, "scale_a_id", o.scale_a_id, word::scale_a_id) | word::scale_type.put(ue8m0) |
          word::k_96.put(o.k96);
  return static_cast<std::int64_t>(bits);
}

std::int64_t make_instr_desc_f16bf16_f32(Builder& b, const options::make_instr_desc_f16bf16_f32& o) {
  const auto type = isa::type_named(o.ab_dtype);
  if (type != Type::bf16 && type != Type::f16 && type != Type::tf32)
    b.refuse(Code::bad_argument, cat("ab_dtype ", o.ab_dtype, "; legal: f16 bf16 tf32"));
  const std::int64_t bits = instruction_descriptor(b, {.m = o.m,
                                                       .n = o.n,
                                                       .a_dtype = *type,
                                                       .a_major = o.a_major,
                                                       .b_major = o.b_major,
                                                       .scale_a = o.scale_a,
                                                       .scale_b = o.scale_b,
                                                       .sparse = o.sparse,
                                                       .max_shift = o.max_shift});
  return bits | std::int64_t{o.saturate} << 3;  // 0.1.1 sets the bit, which means nothing for floats
}

Reg masked_descriptor(Builder& b, const Operand& start, const options::masked_descriptor& o) {
  const Reg formed =
      wgmma::masked_descriptor(b, start, {.byte_offset = o.byte_offset, .mask = o.mask, .const_bits = o.const_bits});
  const Reg made = b.scalar(Type::b64);
  b.emit("mov.b64", {made, formed});
  return made;
}

std::int64_t descriptor_bits(Builder& b, const options::descriptor_bits& o) {
  // tcgen05 has a name of its own for the swizzle that keeps 32 bytes together.
  const auto swizzle = arch::swizzle_named(o.swizzle == "128B_BASE32B" ? "128B_ATOM_32B" : o.swizzle);
  if (!swizzle || arch::info(*swizzle).tcgen05 == arch::no_code)
    b.refuse(Code::bad_argument,
             cat("swizzle ", o.swizzle, "; legal: ", arch::swizzle_names(&arch::SwizzleInfo::tcgen05),
                 ", of which 128B_BASE32B is another name of 128B_ATOM_32B"));
  constexpr const arch::DescriptorFormat& format = arch::tcgen05_descriptor;
  const std::uint64_t bits = fields::offset(b, "leading_bytes", o.leading_bytes, format.leading) |
                             fields::offset(b, "stride_bytes", o.stride_bytes, format.stride) |
                             fields::field(b, "version", o.version, 0, 3, format.version.at) |
                             fields::field(b, "base_offset", o.base_offset, format.base_offset) |
                             fields::field(b, "lbo_mode", o.lbo_mode, format.absolute) |
                             format.swizzle.put(static_cast<std::uint64_t>(arch::info(*swizzle).tcgen05));
  return static_cast<std::int64_t>(bits | fields::offset(b, "start", o.start, format.start));
}

Reg descriptor(Builder& b, const Operand& start, const options::descriptor& o) {
  const std::int64_t bits = descriptor_bits(b, {.stride_bytes = o.stride_bytes,
                                                .leading_bytes = o.leading_bytes,
                                                .swizzle = o.swizzle,
                                                .version = o.version,
                                                .base_offset = o.base_offset,
                                                .lbo_mode = o.lbo_mode});
  return masked_descriptor(b, start, {.byte_offset = o.byte_offset, .const_bits = static_cast<std::uint64_t>(bits)});
}

}  // namespace ptx::author::tcgen05
