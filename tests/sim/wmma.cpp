// wmma of every type: matrices in memory by rows and by columns, with and without a stride.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "ptx/arch/format.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

struct Case {
  std::string shape;
  int m, n, k;
  std::string type, sum;  // of A and B; of C and D
  int a, b, c;            // registers
  std::string a_layout = "row", b_layout = "col", c_layout = "row", op = "";
  int padding = 0;  // elements behind each line of C and D
};

int bits_of(const std::string& type) {
  return type == "b1" ? 1 : type == "f64" ? 64 : type == "tf32" ? 32 : type == "bf16" ? 16 : std::stoi(type.substr(1));
}

std::uint64_t encode(const std::string& type, int value) {
  const int bits = bits_of(type);
  if (type == "f64") return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  if (type == "f32" || type == "tf32") return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (type == "f16") return arch::narrow(arch::format::f16, value, arch::Rounding::rn, false);
  if (type == "bf16") return arch::narrow(arch::format::bf16, value, arch::Rounding::rn, false);
  return static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << bits) - 1);
}

// A matrix in memory, which also says where an element lies.
struct Matrix {
  std::string type;
  int rows, columns, stride;
  bool by_rows;
  std::vector<int> values;
  Matrix(std::string type, int rows, int columns, const std::string& layout, int padding)
      : type(std::move(type)),
        rows(rows),
        columns(columns),
        stride((layout == "row" ? columns : rows) + padding),
        by_rows(layout == "row"),
        values(static_cast<std::size_t>(rows * columns)) {}
  int& at(int row, int column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  std::size_t place(int row, int column) const {
    return static_cast<std::size_t>(by_rows ? row * stride + column : column * stride + row);
  }
  std::vector<std::byte> bytes() {
    const auto bits = static_cast<std::size_t>(bits_of(type));
    std::vector<std::byte> out(static_cast<std::size_t>((by_rows ? rows : columns) * stride) * bits / 8);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const std::uint64_t value = encode(type, at(row, column));
        for (std::size_t i = 0; i < bits; ++i) {
          const std::size_t bit = place(row, column) * bits + i;
          out[bit / 8] |= static_cast<std::byte>((value >> i & 1) << (bit % 8));
        }
      }
    }
    return out;
  }
};

std::string list(char letter, int registers) {
  std::string out = "{";
  for (int i = 0; i < registers; ++i) out += (i ? ", %" : "%") + std::string(1, letter) + std::to_string(i);
  return out + "}";
}

std::string kernel(const Case& c) {
  const bool wide = c.type == "f64", named = c.type != "f16";
  const std::string small = wide ? "f64" : "b32", sum = c.sum == "f16" ? "b32" : c.sum;
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry e(.param .u64 a, .param .u64 b, "
      ".param .u64 c, .param .u64 d)\n{\n.reg .b64 %p;\n.reg ." +
      small + " %a<8>, %b<8>;\n.reg ." + sum + " %c<8>, %d<8>;\n";
  const std::string stride = c.padding ? ", " + std::to_string((c.c_layout == "row" ? c.n : c.m) + c.padding) : "";
  const auto move = [&](const std::string& what, char letter, int registers, const std::string& layout,
                        const std::string& type, bool store) {
    const std::string address = "[%p]", fragment = list(letter, registers);
    text += std::string("ld.param.u64 %p, [") + letter + "];\nwmma." + what + ".sync.aligned." + layout + "." +
            c.shape + ".global." + type + " " + (store ? address + ", " + fragment : fragment + ", " + address) +
            (letter == 'c' || letter == 'd' ? stride : "") + ";\n";
  };
  move("load.a", 'a', c.a, c.a_layout, c.type, false), move("load.b", 'b', c.b, c.b_layout, c.type, false);
  move("load.c", 'c', c.c, c.c_layout, c.sum, false);
  text += "wmma.mma" + c.op + ".sync.aligned." + c.a_layout + "." + c.b_layout + "." + c.shape + "." + c.sum +
          (named ? "." + c.type + "." + c.type : "") + "." + c.sum + " " + list('d', c.c) + ", " + list('a', c.a) +
          ", " + list('b', c.b) + ", " + list('c', c.c) + ";\n";
  move("store.d", 'd', c.c, c.c_layout, c.sum, true);
  return text + "ret;\n}\n";
}

void check(const Case& c) {
  CAPTURE(c.shape);
  CAPTURE(c.type);
  std::mt19937 numbers(5);
  Matrix a(c.type, c.m, c.k, c.a_layout, 0), b(c.type, c.k, c.n, c.b_layout, 0);
  Matrix sums(c.sum, c.m, c.n, c.c_layout, c.padding), d(c.sum, c.m, c.n, c.c_layout, c.padding);
  const bool positive = c.type == "b1" || c.type[0] == 'u';
  for (Matrix* x : {&a, &b}) {
    for (int& value : x->values)
      value = static_cast<int>(numbers() % 2) - (positive ? 0 : static_cast<int>(numbers() % 2));
  }
  for (int& value : sums.values) value = static_cast<int>(numbers() % 40) - 20;
  for (int row = 0; row < c.m; ++row) {
    for (int column = 0; column < c.n; ++column) {
      int& sum = d.at(row, column) = sums.at(row, column);
      for (int k = 0; k < c.k; ++k) {
        const int x = a.at(row, k), y = b.at(k, column);
        sum += c.op == ".xor.popc" ? x ^ y : x * y;
      }
    }
  }
  const auto hex = [](Matrix& x) { return sim_test::to_hex(x.bytes()); };
  // What lies between the lines stays as it is.
  const std::string nothing(d.bytes().size() * 2, '0');
  sim_test::Fixture f;
  f.block.x = 32;
  f.arguments = {{"in", hex(a), {}}, {"in", hex(b), {}}, {"in", hex(sums), {}}, {"inout", nothing, {}}};
  const auto result = sim_test::run(kernel(c), f);
  REQUIRE_MESSAGE(result.diagnostics.empty(), to_string(result.diagnostics));
  CHECK(result.outputs[0] == hex(d));
}

}  // namespace

TEST_CASE("wmma of every type and shape") {
  struct Shape {
    std::string name;
    int m, n;
  };
  const Shape shapes[] = {{"m16n16k16", 16, 16}, {"m8n32k16", 8, 32}, {"m32n8k16", 32, 8}};
  for (const Shape& s : shapes) {
    for (const char* a : {"row", "col"}) {
      for (const char* b : {"row", "col"}) {
        check({s.name, s.m, s.n, 16, "f16", "f32", 8, 8, 8, a, b, b});
        check({s.name, s.m, s.n, 16, "f16", "f16", 8, 8, 4, a, b, a, "", 8});
        const int in_a = s.m / 4, in_b = s.n / 4;  // registers of .bf16
        check({s.name, s.m, s.n, 16, "bf16", "f32", in_a, in_b, 8, a, b, a});
        check({s.name, s.m, s.n, 16, "s8", "s32", in_a / 2, in_b / 2, 8, a, b, b, "", 8});
        check({s.name, s.m, s.n, 16, "u8", "s32", in_a / 2, in_b / 2, 8, a, b, a});
      }
    }
  }
  for (const char* layout : {"row", "col"}) {
    check({"m16n16k8", 16, 16, 8, "tf32", "f32", 4, 4, 8, layout, "row", layout});
    check({"m8n8k4", 8, 8, 4, "f64", "f64", 1, 1, 2, layout, "col", layout, "", 2});
    check({"m8n8k32", 8, 8, 32, "s4", "s32", 1, 1, 2, "row", "col", layout});
    check({"m8n8k32", 8, 8, 32, "u4", "s32", 1, 1, 2, "row", "col", layout});
    check({"m8n8k128", 8, 8, 128, "b1", "s32", 1, 1, 2, "row", "col", layout, ".xor.popc"});
    check({"m8n8k128", 8, 8, 128, "b1", "s32", 1, 1, 2, "row", "col", layout, ".and.popc"});
  }
}
