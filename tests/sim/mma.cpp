// mma of every type and shape on the simulator: integers as factors, whose sums every tensor core gives exactly.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "ptx/arch/format.h"
#include "ptx/arch/fragment.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

struct Case {
  std::string mnemonic;        // without operands
  int m, n, k, bits;           // of an element of A and B
  int a, b, c;                 // registers; those of C are those of D
  const arch::Format* format;  // of A and B; nullptr: integers, by `is_signed`
  bool is_signed = true;
  int sum_bits = 32;  // of an element of C; 16: f16
  std::string target = "sm_90a", version = "8.7";
  std::string rest = "";  // operands behind c
  int shift = 0;          // of an element in its bits
  int sparse = 0;         // elements of a chunk of A, of which half are stored
  int factor = 1;         // of the whole product
};

std::string list(char letter, int registers) {
  std::string out = "{";
  for (int i = 0; i < registers; ++i) out += (i ? ", %" : "%") + std::string(1, letter) + std::to_string(i);
  return out + "}";
}

std::string kernel(const Case& c) {
  const std::string sum = c.sum_bits == 16 ? "b32" : c.format ? "f32" : "s32";
  std::string text = ".version " + c.version + "\n.target " + c.target + "\n.address_size 64\n" +
                     ".visible .entry e(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %t<2>, %e;\n.reg .b64 %p<2>;\n";
  text += ".reg .b32 %a<8>, %b<8>;\n.reg ." + sum + " %c<8>, %d<8>;\n";
  text += "ld.param.u64 %p0, [in];\nld.param.u64 %p1, [out];\nmov.u32 %t0, %tid.x;\n";
  const int words = c.a + c.b + c.c + 1;
  text += "mad.wide.u32 %p0, %t0, " + std::to_string(4 * words) + ", %p0;\n";
  text += "mad.wide.u32 %p1, %t0, " + std::to_string(4 * c.c) + ", %p1;\n";
  int at = 0;
  const auto load = [&](char letter, int registers, const std::string& type) {
    for (int i = 0; i < registers; ++i, at += 4) {
      text += "ld.global." + type + " %" + letter + std::to_string(i) + ", [%p0+" + std::to_string(at) + "];\n";
    }
  };
  load('a', c.a, "b32"), load('b', c.b, "b32"), load('c', c.c, sum);
  text += "ld.global.b32 %e, [%p0+" + std::to_string(at) + "];\n";
  text += c.mnemonic + " " + list('d', c.c) + ", " + list('a', c.a) + ", " + list('b', c.b) + ", " + list('c', c.c) +
          c.rest + ";\n";
  for (int i = 0; i < c.c; ++i) {
    text += "st.global." + sum + " [%p1+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  }
  return text + "ret;\n}\n";
}

std::uint32_t encode(const arch::Format* format, int value, int bits) {
  const std::uint32_t all = bits == 32 ? ~0u : (1u << bits) - 1;
  if (!format) return static_cast<std::uint32_t>(value) & all;
  const std::uint32_t narrow = arch::narrow(*format, value, arch::Rounding::rn, false);
  return format == &arch::format::tf32 ? narrow << 13 : narrow;
}
std::uint32_t encode_sum(const Case& c, int value) {
  if (!c.format) return static_cast<std::uint32_t>(value);
  if (c.sum_bits == 16) return arch::narrow(arch::format::f16, value, arch::Rounding::rn, false);
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// Packs fragments of random matrices, runs the kernel, and compares D with the product in integers.
void check(const Case& c) {
  CAPTURE(c.mnemonic);
  std::mt19937 numbers(7);
  const int stored = c.sparse ? c.k / 2 : c.k, words = c.a + c.b + c.c + 1;
  const int least = c.format || c.is_signed ? -1 : 0;
  const auto random = [&](int low, int high) {
    return low + static_cast<int>(numbers() % static_cast<unsigned>(high - low + 1));
  };
  std::vector<int> a(static_cast<std::size_t>(c.m * stored)), b(static_cast<std::size_t>(c.k * c.n)),
      sums(static_cast<std::size_t>(c.m * c.n));
  for (int& x : a) x = random(c.bits == 1 ? 0 : least, 1);
  for (int& x : b) x = random(c.bits == 1 ? 0 : least, 1);
  for (int& x : sums) x = random(-20, 20);
  std::vector<std::uint32_t> input(static_cast<std::size_t>(32 * words));
  const arch::Fragment fa = arch::multiplicand(c.bits, c.m), fb = arch::multiplicand(c.bits, c.n),
                       fc = arch::accumulator(c.m);
  const auto put = [&](arch::Cell cell, const arch::Fragment& f, int first, int bits, std::uint32_t value) {
    const int together = std::max(1, 32 / bits), i = f.element(cell);
    input[static_cast<std::size_t>(f.lane(cell) * words + first + i / together)] |= value << (i % together * bits);
  };
  for (int row = 0; row < c.m; ++row) {
    for (int k = 0; k < stored; ++k)
      put({row, k}, fa, 0, c.bits, encode(c.format, a[static_cast<std::size_t>(row * stored + k)], c.bits) << c.shift);
    for (int n = 0; n < c.n; ++n)
      put({row, n}, fc, c.a + c.b, c.sum_bits, encode_sum(c, sums[static_cast<std::size_t>(row * c.n + n)]));
  }
  for (int n = 0; n < c.n; ++n) {
    for (int k = 0; k < c.k; ++k)
      put({n, k}, fb, c.a, c.bits, encode(c.format, b[static_cast<std::size_t>(k * c.n + n)], c.bits) << c.shift);
  }
  // Which column a stored element of A is: 0b1000 stores the parts 0 and 2 of each chunk, 0b1110 the second of two.
  const std::uint32_t metadata = c.sparse == 2 ? 0xeeeeeeee : 0x88888888;
  for (int lane = 0; lane < 32; ++lane)
    input[static_cast<std::size_t>(lane * words + words - 1)] = c.sparse ? metadata : 0x80808080;
  const auto column = [&](int i) {
    if (!c.sparse) return i;
    if (c.sparse == 2) return 2 * i + 1;
    return c.sparse == 8 ? i / 2 * 4 + i % 2 : 2 * i;
  };
  sim_test::Fixture f;
  f.block.x = 32;
  f.arguments = {{"in", sim_test::to_hex(std::as_bytes(std::span(input))), {}}, {"out", std::to_string(128 * c.c), {}}};
  const auto result = sim_test::run(kernel(c), f);
  REQUIRE_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
  const auto bytes = sim_test::from_hex(result.outputs[0]);
  std::vector<std::uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  const bool is_xor = c.mnemonic.find("xor") != std::string::npos;
  int wrong = 0;
  for (int row = 0; row < c.m; ++row) {
    for (int n = 0; n < c.n; ++n) {
      int sum = sums[static_cast<std::size_t>(row * c.n + n)];
      for (int k = 0; k < stored; ++k) {
        const int x = a[static_cast<std::size_t>(row * stored + k)],
                  y = b[static_cast<std::size_t>(column(k) * c.n + n)];
        sum += is_xor ? x ^ y : c.factor * x * y;
      }
      const int i = fc.element({row, n}), together = 32 / c.sum_bits;
      const std::uint32_t word = out[static_cast<std::size_t>(fc.lane({row, n}) * c.c + i / together)];
      wrong += (c.sum_bits == 16 ? word >> (i % 2 * 16) & 0xffff : word) != encode_sum(c, sum);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("dense products") {
  using namespace arch::format;
  const std::string mma = "mma.sync.aligned.", half = ".row.col.f32.f16.f16.f32", whole = ".row.col.s32.";
  for (const char* target : {"sm_80", "sm_90a", "sm_120a"}) {
    check({mma + "m16n8k8" + half, 16, 8, 8, 16, 2, 1, 4, &f16, true, 32, target});
    check({mma + "m16n8k16" + half, 16, 8, 16, 16, 4, 2, 4, &f16, true, 32, target});
    check({mma + "m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, 16, 4, 2, 2, &f16, true, 16, target});
    check({mma + "m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 16, 4, 2, 4, &bf16, true, 32, target});
    check({mma + "m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 32, 4, 2, 4, &tf32, true, 32, target});
    check({mma + "m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 32, 2, 1, 4, &tf32, true, 32, target});
  }
  for (const char* target : {"sm_89", "sm_90a", "sm_120a"}) {
    check({mma + "m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, 8, 4, 2, 4, &e4m3, true, 32, target});
    check({mma + "m16n8k16.row.col.f16.e5m2.e5m2.f16", 16, 8, 16, 8, 2, 1, 2, &e5m2, true, 16, target});
  }
  check({mma + "m8n8k16" + whole + "s8.s8.s32", 8, 8, 16, 8, 1, 1, 2, nullptr});
  check({mma + "m16n8k32" + whole + "s8.s8.s32", 16, 8, 32, 8, 4, 2, 4, nullptr});
  check({mma + "m16n8k16" + whole + "u8.u8.s32", 16, 8, 16, 8, 2, 1, 4, nullptr, false});
  check({mma + "m8n8k32" + whole + "s4.s4.s32", 8, 8, 32, 4, 1, 1, 2, nullptr});
  check({mma + "m16n8k64" + whole + "s4.s4.s32", 16, 8, 64, 4, 4, 2, 4, nullptr});
  check({mma + "m16n8k32" + whole + "u4.u4.s32", 16, 8, 32, 4, 2, 1, 4, nullptr, false});
  check({mma + "m8n8k128" + whole + "b1.b1.s32.xor.popc", 8, 8, 128, 1, 1, 1, 2, nullptr});
  check({mma + "m16n8k256" + whole + "b1.b1.s32.and.popc", 16, 8, 256, 1, 4, 2, 4, nullptr});
}

TEST_CASE("products with .kind and scale factors") {
  using namespace arch::format;
  const std::string mma = "mma.sync.aligned.", factors = ", %e, {0, 0}, %e, {0, 0}";
  const std::string bytes = mma + "m16n8k32.row.col.kind::f8f6f4.f32.", f32 = ".f32";
  check({bytes + "e3m2.e3m2.f32", 16, 8, 32, 8, 4, 2, 4, &e3m2, true, 32, "sm_120a"});
  check({bytes + "e2m1.e2m1.f32", 16, 8, 32, 8, 4, 2, 4, &e2m1, true, 32, "sm_120a", "8.7", "", 2});
  // Every byte of %e is 0x80: 2 as .ue8m0, and for .ue4m3, which has no sign, 0.
  const std::string mx = mma + "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.";
  check({mx + "e4m3.e4m3.f32.ue8m0", 16, 8, 32, 8, 4, 2, 4, &e4m3, true, 32, "sm_120a", "8.7", factors, 0, 0, 4});
  const std::string f4 = mma + "m16n8k64.row.col.kind::";
  check({f4 + "mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 16, 8, 64, 4, 4, 2, 4, &e2m1, true, 32, "sm_120a", "8.7",
         factors, 0, 0, 4});
  check({f4 + "mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 16, 8, 64, 4, 4, 2, 4, &e2m1, true, 32,
         "sm_120a", "8.7", factors, 0, 0, 0});
}

TEST_CASE("sparse products") {
  using namespace arch::format;
  const std::string sp = "mma.sp::ordered_metadata.sync.aligned.";
  const auto sparse = [&](const std::string& mnemonic, int k, int bits, int registers, const arch::Format* format,
                          int chunk, int selectors, int sum = 32) {
    for (int selector = 0; selector < selectors; ++selector) {
      check({sp + mnemonic, 16, 8, k, bits, registers, registers, sum == 16 ? 2 : 4, format, true, sum, "sm_90a", "8.7",
             ", %e, " + std::to_string(selector), 0, chunk});
    }
  };
  sparse("m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 2, &f16, 4, 4);
  sparse("m16n8k32.row.col.f16.f16.f16.f16", 32, 16, 4, &f16, 4, 2, 16);
  sparse("m16n8k32.row.col.f32.bf16.bf16.f32", 32, 16, 4, &bf16, 4, 2);
  sparse("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32, 2, &tf32, 2, 4);
  sparse("m16n8k16.row.col.f32.tf32.tf32.f32", 16, 32, 4, &tf32, 2, 2);
  sparse("m16n8k64.row.col.f32.e4m3.e4m3.f32", 64, 8, 4, &e4m3, 4, 1);
  sparse("m16n8k32.row.col.s32.s8.s8.s32", 32, 8, 2, nullptr, 4, 2);
  sparse("m16n8k64.row.col.s32.s8.s8.s32", 64, 8, 4, nullptr, 4, 1);
  sparse("m16n8k64.row.col.s32.s4.s4.s32", 64, 4, 2, nullptr, 8, 2);
  sparse("m16n8k128.row.col.s32.s4.s4.s32", 128, 4, 4, nullptr, 8, 1);
}

TEST_CASE("m8n8k4 of .f16: four products, by rows and by columns") {
  // Of product p, A and B are p + 1 times matrices of ones: every sum is 4 * (p + 1).
  for (const char* layouts : {"row.col", "col.row", "row.row", "col.col"}) {
    const std::string text = std::string(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry e(.param .u64 out)
{
.reg .b32 %t, %a, %b, %n;
.reg .f32 %d<8>;
.reg .b64 %p;
.reg .f32 %z;
.reg .b16 %h;
ld.param.u64 %p, [out];
mov.u32 %t, %tid.x;
mad.wide.u32 %p, %t, 32, %p;
shr.u32 %n, %t, 2;
and.b32 %n, %n, 3;
add.u32 %n, %n, 1;
cvt.rn.f16.u32 %h, %n;
mov.b32 %a, {%h, %h};
mov.b32 %b, 0x3c003c00;
mov.f32 %z, 0f3f800000;
mma.sync.aligned.m8n8k4.)") + layouts +
                             R"(.f32.f16.f16.f32 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, {%a, %a},
  {%b, %b}, {%z, %z, %z, %z, %z, %z, %z, %z};
st.global.v4.f32 [%p], {%d0, %d1, %d2, %d3};
st.global.v4.f32 [%p+16], {%d4, %d5, %d6, %d7};
ret;
})";
    sim_test::Fixture f;
    f.block.x = 32;
    f.arguments = {{"out", "1024", {}}};
    const auto result = sim_test::run(text, f);
    REQUIRE_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
    const auto bytes = sim_test::from_hex(result.outputs[0]);
    for (int i = 0; i < 256; ++i) {
      float sum;
      std::memcpy(&sum, bytes.data() + 4 * i, 4);
      CHECK(sum == static_cast<float>(4 * (i / 8 / 4 % 4 + 1) + 1));
    }
  }
}
