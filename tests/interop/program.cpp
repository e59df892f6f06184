// Kernels run from C++: a signature, values, the simulator; what is refused, and how.
#include "ptx/interop/program.h"

#include <doctest/doctest.h>

#include "ptx/author/kernel.h"
#include "ptx/sim/simulator.h"
#include "tests/interop/fake.h"

namespace ptx::interop {
namespace {

using launch::Element, launch::output, launch::scalar, launch::tensor;
using namespace ptx::modifiers;

// out[i] = a * x[i] + y[i], i < n
author::Built axpy() {
  return author::kernel({.name = "axpy", .target = "sm_80"}, [](author::Kernel& k) {
    k.add_pointer("x"), k.add_pointer("y"), k.add_pointer("out");
    k.add_raw("f32", "a"), k.add_raw("u32", "n");
    const std::string names[] = {"x", "y", "out"};
    const std::vector<author::Reg> p = k.global_pointers(names);
    const author::Reg factor = k.param(f32, "a"), count = k.param(u32, "n");
    const author::Reg first = k.from(k.ctaid_x(), u32) * 32;
    const author::Reg i = first + k.tid_x();
    k.ret(author::when(i >= count));
    const author::Reg v = k.scalar(f32), w = k.scalar(f32), offset = i * 4;
    k.ld(global, f32, v, k.at(p[0] + offset));
    k.ld(global, f32, w, k.at(p[1] + offset));
    k.fma(rn, f32, w, factor, v, w);
    k.st(global, f32, k.at(p[2] + offset), w);
    k.ret();
  });
}

const launch::Signature signature = {tensor("x", Element::f32, {"n"}), tensor("y", Element::f32, {"n"}),
                                     scalar("a", "f32"), scalar("n", "u32"), output("out", Element::f32, {"n"})};

std::string message(auto&& work) {
  try {
    work();
  } catch (const author::Refused& refused) {
    return refused.why().front().message;
  }
  return "";
}

TEST_CASE("vectors and scalars in, results in the caller's memory") {
  Program program(axpy(), signature, {.grid = {2}, .block = {32}});
  std::vector<float> x(50, 3), out(50);
  const std::vector<float> y(50, 1);
  program.run({x, y, 2, 50, out});
  CHECK(out[0] == 7);
  CHECK(out[49] == 7);
  program.run({x, y, 0.5, 10u, std::span(out)}, {.grid = launch::Dim3{1}});
  CHECK(out[9] == 2.5);
  CHECK(out[10] == 7);
  sim::Simulator own({.seed = 7});
  program.run({x, y, -1.0f, 50, out}, {.on = &own});
  CHECK(out[49] == -2);
  Program moved = std::move(program);
  moved.run({x, y, 1, 50, out});
  CHECK(out[49] == 4);
}

TEST_CASE("memory that is const is read and never written") {
  Program program(axpy(), signature, {.grid = {2}, .block = {32}});
  const std::vector<float> x(50, 3), y(50, 1), out(50);
  CHECK(message([&] { program.run({x, y, 2, 50, out}); }) ==
        "axpy: argument `out`: it is const, and the kernel writes it");
  CHECK(message([&] { program.run({x, y, 2, 50, std::span<const float>(out)}); }) != "");
  CHECK(message([&] { program.run({x, y, 2, 50, view(out, {50})}); }) != "");
  CHECK(out[0] == 0);
  Fake fake;
  CHECK(has(message([&] {
              program.run(
                  {device_view(x.data(), {50}), device_view(y.data(), {50}), 2, 50, device_view(out.data(), {50})});
            }),
            "argument `out`: it is const"));
}

TEST_CASE("memory that is const is read-only for the simulator, call by call") {
  const auto built = author::kernel({.name = "set", .target = "sm_80"}, [](author::Kernel& k) {
    auto [x] = k.pointers({"x"});
    k.st(global, u32, k.at(x), 1);
    k.ret();
  });
  Program program(built, {tensor("x", Element::u32, {"n"})}, {});
  std::vector<unsigned> x(4);
  const std::vector<unsigned>& constant = x;
  CHECK(message([&] { program.run({constant}); }).find("of `x`, which a kernel may only read") != std::string::npos);
  CHECK(x[0] == 0);
  program.run({x});
  CHECK(x[0] == 1);
}

TEST_CASE("memory of a GPU is launched on its driver") {
  Fake fake;
  Program program(axpy(), signature, {.block = {32}});
  std::vector<float> x(4, 1), out(4);
  program.run(
      {device_view(x.data(), {4}), device_view(Element::f32, x.data(), {4}), 1, 4, device_view(out.data(), {4})});
  CHECK(has(fake.journal(), "launch 1"));
  CHECK(message([&] { program.run({device_view(x.data(), {4}), x, 1, 4, out}); }) ==
        "axpy: argument `y`: it is on cpu, the call is on cuda:0");
}

TEST_CASE("tensors by their pointers and sizes") {
  Program program(axpy(), signature, {.block = {32}});
  std::vector<float> x(4, 1), out(4);
  DLTensor tensor;
  tensor.data = x.data(), tensor.ndim = 1, tensor.dtype = spell(Element::f32);
  CHECK(message([&] { program.run({tensor, x, 1, 4, out}); }) == "axpy: argument `x`: its DLTensor has no shape");
  std::int64_t size = 4;
  tensor.shape = &size;
  program.run({tensor, x, 1, 4, out});
  CHECK(out[3] == 2);
  std::vector<float> none;
  constexpr std::int64_t half = std::int64_t{1} << 32;
  CHECK(message([&] { view(none, {half, half}); }) ==
        "memory of 0 elements as a tensor of shape (4294967296, 4294967296)");
  CHECK(message([&] { view(x, {-2, -2}); }) == "memory of 4 elements as a tensor of shape (-2, -2)");
}

TEST_CASE("text of any origin, by the name of its entry") {
  const std::string text = ir::emit(axpy().module);
  Program program(Entry(text, "axpy"), signature, {.block = {32}});
  std::vector<float> x(4, 1), y(4, 1), out(4);
  program.run({x, y, 1, 4, out});
  CHECK(out[3] == 2);
  CHECK(message([&] { Entry(text, "other"); }) == "there is no such .entry (other); the module has: axpy");
  CHECK(message([&] { Entry(".version 8.0\n.target sm_80\n.entry k() { nonsense; }\n", ""); }) != "");
}

TEST_CASE("one kernel of a module of several") {
  author::Module module("sm_80");
  std::vector<author::Built> kernels;
  for (const int number : {7, 8})
    kernels.push_back(module.kernel({.name = number == 7 ? "seven" : "eight"}, [&](author::Kernel& k) {
      auto [x] = k.pointers({"x"});
      k.st(global, u32, k.at(x), number);
      k.ret();
    }));
  const author::Built built = module.finish();
  std::vector<std::uint32_t> x(1);
  Program(Entry(built, "eight", kernels[1]), {tensor("x", Element::u32, {"n"})}, {}).run({x});
  CHECK(x[0] == 8);
  Program(Entry(built, "seven", kernels[0]), {tensor("x", Element::u32, {"n"})}, {}).run({x});
  CHECK(x[0] == 7);
  CHECK(message([&] { Entry(built, "nine", kernels[0]); }) ==
        "there is no such .entry (nine); the module has: seven eight");
}

TEST_CASE("memory with several dimensions, and types that C++ has not") {
  const auto built = author::kernel({.name = "k", .target = "sm_80"}, [](author::Kernel& k) {
    auto [x] = k.pointers({"x"});
    const author::Reg h = k.scalar(b16, 0x3f80);
    k.st(global, b16, k.at(x, 2 * 5), h);
    k.ret();
  });
  Program program(built, {tensor("x", Element::bf16, {2, "columns"})}, {});
  std::vector<std::uint16_t> bits(6);
  program.run({view(Element::bf16, bits.data(), {2, 3})});
  CHECK(bits[5] == 0x3f80);
  std::vector<std::uint16_t> more(6);
  program.run({view(Element::bf16, more, {2, 3})});
  CHECK(more == bits);
  const std::vector<std::uint16_t> constant(6);
  CHECK(message([&] { view(Element::bf16, constant, {2, 4}); }) == "memory of 6 elements as a tensor of shape (2, 4)");
  CHECK(message([&] { program.run({view(Element::bf16, constant, {3, 2})}); }).find("dimension 0") !=
        std::string::npos);
  std::vector<std::int32_t> words(6);
  CHECK(message([&] { view(words, {2, 4}); }) == "memory of 6 elements as a tensor of shape (2, 4)");
  CHECK(message([&] { program.run({view(words, {2, 3})}); }) ==
        "k: argument `x`: its dtype is s32, the kernel takes bf16");
  CHECK(message([&] {
          program.run({view(Element::bf16, bits.data(), {3, 2})});
        }).find("dimension 0 of shape (3, 2) is 3, the kernel takes 2") != std::string::npos);
}

TEST_CASE("wrong values are refused with the argument's name, before anything runs") {
  Program program(axpy(), signature, {.block = {32}});
  std::vector<float> x(4, 1), y(5, 1), out(4, 9);
  CHECK(message([&] { program.run({x, x, 1, 4}); }) == "axpy: expected 5 arguments, got 4");
  CHECK(message([&] { program.run({x, y, 1, 4, out}); }).find("argument `y`") != std::string::npos);
  CHECK(message([&] { program.run({x, x, 1, -4, out}); }) == "argument `n`: -4 does not fit a parameter of type u32");
  CHECK(message([&] { program.run({x, x, out, 4, out}); }) == "argument `a`: a tensor where the kernel takes a f32");
  CHECK(message([&] { program.run({x, 2, 1, 4, out}); }) ==
        "axpy: argument `y`: a number where the kernel takes a tensor");
  CHECK(out[0] == 9);
  CHECK(message([&] { Program(axpy(), {tensor("x", Element::f32, {"n"})}, {}); }) ==
        "parameter `y` of the kernel is no argument of the signature");
}

TEST_CASE("what is refused before anything runs names the line of the call") {
  const auto place = [](auto&& work) {
    try {
      work();
    } catch (const author::Refused& refused) {
      return refused.why().front().place;
    }
    return Place{};
  };
  Program program(axpy(), signature, {.block = {32}});
  std::vector<float> x(4, 1), out(4);
  const std::uint32_t line = __LINE__;
  const Place places[] = {
      place([&] { program.run({x}); }),
      place([&] { program.run({x, x, 1, -4, out}); }),
      place([&] { program.run({x, x, 1, 4, view(out, {3})}); }),
      place([&] { Program(axpy(), {}, {}); }),
      place([&] { program.run({x, x, 1, 4, out}, {.grid = launch::Dim3{0}}); }),
      place([&] { Entry(program.text(), "other"); }),
  };
  for (std::uint32_t i = 0; i < std::size(places); ++i) {
    CHECK(places[i].file.view() == __FILE__);
    CHECK(places[i].line == line + 2 + i);
  }
  const Place text = place([&] { Entry(".version 8.0\n.target sm_80\n.entry k() { nonsense; }\n", ""); });
  CHECK(text.file.view() == "ptx");
  CHECK(text.line == 3);
}

TEST_CASE("what the simulator finds names the author's line") {
  Program program(axpy(), signature, {.block = {32}});
  std::vector<float> x(4, 1), out(4);
  try {
    program.run({x, x, 1, 5, out});  // n is a scalar of its own: the kernel reads a fifth element
    FAIL("nothing was refused");
  } catch (const author::Refused& refused) {
    CHECK(refused.why().front().code == Code::out_of_bounds);
    CHECK(refused.why().front().place.file.view() == __FILE__);
  }
}

}  // namespace
}  // namespace ptx::interop
