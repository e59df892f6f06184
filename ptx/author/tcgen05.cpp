// tcgen05: the words of each instruction in the manual's order. What is legal the rows say (isa/forms/tcgen05.def).
#include "ptx/author/tcgen05.h"

#include "ptx/arch/matrix.h"
#include "ptx/author/detail/state.h"
#include "ptx/author/matrix.h"
#include "ptx/base/text.h"

namespace ptx::author::tcgen05 {

using isa::Type;

namespace {

std::string_view group(Builder& b, int cta_group) {
  if (cta_group != 1 && cta_group != 2) b.refuse(Code::bad_argument, cat("cta_group = ", cta_group, "; legal: 1 2"));
  return cta_group == 2 ? ".cta_group::2" : ".cta_group::1";
}

template <class... Words>
const isa::Mnemonic* words(const Words&... parts) {
  return isa::resolve(cat("tcgen05.", parts...));
}

Operand bracketed(Builder& b, const Operand& o) {
  return o.ir.kind == ir::Operand::Kind::address ? o : Operand(b.address(o));
}

// The predicate "accumulate into D".
Operand predicate(Builder& b, const Operand& enable) {
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

}  // namespace

void alloc(Builder& b, const Address& to, const Operand& columns, int cta_group) {
  b.emit(words("alloc", group(b, cta_group), ".sync.aligned.shared::cta.b32"), std::array{Operand(to), columns});
}

void dealloc(Builder& b, const Operand& taddr, const Operand& columns, int cta_group) {
  b.emit(words("dealloc", group(b, cta_group), ".sync.aligned.b32"), std::array{taddr, columns});
}

void relinquish_alloc_permit(Builder& b, int cta_group) {
  b.emit(words("relinquish_alloc_permit", group(b, cta_group), ".sync.aligned"), {});
}

void mma(Builder& b, const Mma& what) {
  const bool scaled = what.kind.starts_with("mx");
  if (scaled && !(what.scale_a && what.scale_b))
    b.refuse(Code::bad_argument, cat("kind ", what.kind, " takes the addresses of its scales: scale_a and scale_b"));
  if (what.sparse && !what.sparse_metadata) b.refuse(Code::bad_argument, "a sparse mma takes sparse_metadata");
  const Operand p = predicate(b, what.enable_d);
  Text text;
  text << (what.sparse ? "mma.sp" : "mma") << group(b, what.cta_group) << ".kind::" << what.kind;
  if (scaled) text << ".block_scale";
  if (!what.scale_vectorsize.empty()) text << '.' << what.scale_vectorsize;
  if (what.ashift) text << ".ashift";
  if (!what.collector_a.empty()) text << ".collector::a::" << what.collector_a;
  std::vector<Operand> operands{bracketed(b, what.d), what.a_is_tmem ? bracketed(b, what.a) : what.a, what.b};
  if (what.sparse) operands.push_back(bracketed(b, *what.sparse_metadata));
  operands.push_back(what.idesc);
  if (scaled) operands.insert(operands.end(), {bracketed(b, *what.scale_a), bracketed(b, *what.scale_b)});
  // The contract writes a mask of zeros (no lane disabled) from PTX 8.8 on, and when the version is left to us.
  const isa::Version version = b.options().version;
  if (!what.sparse && !scaled && (version == isa::Version{} || version >= isa::Version{8, 8})) {
    const Reg zero = b.scalar(Type::u32);
    b.emit("mov.u32", {zero, 0});
    operands.push_back(b.vector(std::vector<Operand>(what.cta_group == 2 ? 8 : 4, zero)));
  }
  operands.push_back(p);
  if (what.scale_d) operands.push_back(*what.scale_d);
  b.emit(words(text.view()), operands, what.guard);
}

void commit(Builder& b, const Address& bar, int cta_group, const std::optional<Operand>& multicast,
            std::string_view space) {
  if (space != "cluster")
    b.refuse(Code::bad_argument, cat("tcgen05.commit takes a barrier in .shared::cluster, not .shared::", space));
  const isa::Mnemonic* m = words("commit", group(b, cta_group), ".mbarrier::arrive::one",
                                 multicast ? ".shared::cluster.multicast::cluster.b64" : ".shared::cluster.b64");
  if (multicast) {
    b.emit(m, std::array{Operand(bar), *multicast});
  } else {
    b.emit(m, std::array{Operand(bar)});
  }
}

void fence_before_thread_sync(Builder& b) { b.emit("tcgen05.fence::before_thread_sync"); }
void fence_after_thread_sync(Builder& b) { b.emit("tcgen05.fence::after_thread_sync"); }
void wait_ld(Builder& b) { b.emit("tcgen05.wait::ld.sync.aligned"); }
void wait_st(Builder& b) { b.emit("tcgen05.wait::st.sync.aligned"); }

void ld(Builder& b, std::span<const Operand> to, const Operand& taddr, std::string_view shape, int count, bool pack) {
  b.emit(words("ld.sync.aligned.", shape, ".x", count, pack ? ".pack::16b.b32" : ".b32"),
         std::array{b.vector(to), bracketed(b, taddr)});
}

void st(Builder& b, const Operand& taddr, std::span<const Operand> from, std::string_view shape, int count,
        bool unpack) {
  b.emit(words("st.sync.aligned.", shape, ".x", count, unpack ? ".unpack::16b.b32" : ".b32"),
         std::array{bracketed(b, taddr), b.vector(from)});
}

void cp(Builder& b, const Operand& taddr, const Operand& descriptor, int cta_group, std::string_view size) {
  b.emit(words("cp", group(b, cta_group), '.', size), std::array{bracketed(b, taddr), descriptor});
}

void shift(Builder& b, const Operand& taddr, int cta_group) {
  b.emit(words("shift", group(b, cta_group), ".down"), std::array{bracketed(b, taddr)});
}

namespace {

[[noreturn]] void refuse(std::string message) {
  throw Refused(Diagnostics{Diagnostic(Code::bad_argument, {}, std::move(message))});
}

std::uint32_t major_bit(std::string_view major) {
  if (major != "K" && major != "MN") refuse(cat("major ", major, "; legal: K MN"));
  return major == "MN";
}

}  // namespace

std::uint32_t instruction_descriptor(const InstructionDescriptor& of) {
  if (of.m != 64 && of.m != 128 && of.m != 256) refuse(cat("m = ", of.m, "; legal: 64 128 256"));
  if (of.n < 8 || of.n > 256 || of.n % 8 != 0) refuse(cat("n = ", of.n, " is not a multiple of 8 in 8..256"));
  if (of.max_shift < 0 || of.max_shift > 3) refuse(cat("max_shift = ", of.max_shift, "; legal: 0 to 3"));
  for (const int scale : {of.scale_a, of.scale_b}) {
    if (scale != 1 && scale != -1) refuse(cat("scale ", scale, "; legal: 1 -1"));
  }
  const auto type = arch::element_named(of.ab_type);
  const std::string_view kind = type ? arch::info(*type).mma : "";
  if (kind != "f16" && kind != "tf32") refuse(cat("ab_dtype ", of.ab_type, "; legal: f16 bf16 tf32"));
  const auto format = static_cast<std::uint32_t>(arch::info(*type).code);
  return static_cast<std::uint32_t>(of.sparse) << 2 | static_cast<std::uint32_t>(of.saturate) << 3 | 1u << 4 |
         format << 7 | format << 10 | static_cast<std::uint32_t>(of.scale_a < 0) << 13 |
         static_cast<std::uint32_t>(of.scale_b < 0) << 14 | major_bit(of.a_major) << 15 | major_bit(of.b_major) << 16 |
         static_cast<std::uint32_t>(of.n / 8) << 17 | static_cast<std::uint32_t>(of.m / 16) << 24 |
         static_cast<std::uint32_t>(of.max_shift) << 30;
}

Reg masked_descriptor(Builder& b, const Operand& start, std::int64_t offset, std::uint64_t mask, std::uint64_t bits) {
  const Reg formed = wgmma::masked_descriptor(b, start, offset, mask, bits);
  const Reg made = b.scalar(Type::b64);
  b.emit("mov.b64", {made, formed});
  return made;
}

Reg descriptor(Builder& b, const Operand& start, const Descriptor& of) {
  for (const auto& [name, bytes] : {std::pair{"stride_bytes", of.stride}, std::pair{"leading_bytes", of.leading}}) {
    if (bytes < 0 || bytes % 16 != 0 || bytes >> 4 > 0x3fff)
      b.refuse(Code::bad_argument,
               cat(name, " = ", bytes, " does not fit a descriptor: a multiple of 16 up to 262128"));
  }
  if (of.version < 0 || of.version > 3 || of.base_offset < 0 || of.base_offset > 7 || of.lbo_mode < 0 ||
      of.lbo_mode > 1)
    b.refuse(Code::bad_argument,
             "a field of the descriptor is out of range: version 0..3, base_offset 0..7, lbo_mode 0..1");
  // The instruction's own name for the one that keeps 32 bytes together.
  const auto swizzle = arch::swizzle_named(of.swizzle == "128B_BASE32B" ? "128B_ATOM_32B" : of.swizzle);
  if (!swizzle || arch::info(*swizzle).tcgen05 == arch::no_code)
    b.refuse(Code::bad_argument, cat("swizzle ", of.swizzle, "; legal: NONE 32B 64B 128B 128B_BASE32B"));
  const auto layout = static_cast<std::uint64_t>(arch::info(*swizzle).tcgen05);
  const std::uint64_t bits =
      static_cast<std::uint64_t>(of.leading >> 4) << 16 | static_cast<std::uint64_t>(of.stride >> 4) << 32 |
      static_cast<std::uint64_t>(of.version) << 46 | static_cast<std::uint64_t>(of.base_offset) << 49 |
      static_cast<std::uint64_t>(of.lbo_mode) << 52 | layout << 61;
  return masked_descriptor(b, start, of.offset, 0x3FFF0, bits);
}

}  // namespace ptx::author::tcgen05
