#include "ptx/cuda/executor.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <thread>

using namespace ptx;
using namespace ptx::cuda;

namespace {

// Assembles nothing: the image is one byte, and each text is counted.
class FakeAssembler final : public Assembler {
 public:
  Kind kind() const override { return Kind::ptxas; }
  const std::string& path() const override { return nothing_; }
  const std::string& version() const override { return nothing_; }
  Expected<Cubin> assemble(std::string_view, std::string_view target, const AssembleOptions& options) const override {
    ++count;
    last_target = target;
    last_lines.assign(options.lines.begin(), options.lines.end());
    return Cubin{{std::byte{42}}, {}, {}};
  }
  mutable int count = 0;
  mutable std::string last_target;
  mutable std::vector<Place> last_lines;

 private:
  std::string nothing_ = "fake";
};

struct Fake {
  Expected<Driver> driver = open_driver(FAKE_CUDA);
  FakeAssembler assembler;
  std::unique_ptr<launch::Executor> executor;
  void* library = dlopen(FAKE_CUDA, RTLD_NOW);

  Fake() {
    REQUIRE_MESSAGE(driver, to_string(driver ? Diagnostics{} : driver.why()));
    auto made = make_executor(driver.value(), 0, assembler);
    REQUIRE(made);
    executor = std::move(made).value();
    journal();
  }
  template <class F>
  F symbol(const char* name) {
    return reinterpret_cast<F>(dlsym(library, name));
  }
  std::string journal() { return symbol<const char* (*)()>("fake_journal")(); }
};

launch::Record record() {
  launch::Record made;
  made.entry = "k";
  made.target = "sm_90a";
  made.grid = {16, 1, 1};
  made.block = {32, 1, 1};
  for (const char* name : {"a", "b"}) {
    launch::Parameter parameter;
    parameter.name = name;
    launch::append(made, parameter);
  }
  return made;
}

Code refusal(const launch::Record& record, const Limits& limits = {}) {
  const auto fits = check(record, limits);
  REQUIRE_FALSE(fits);
  CHECK(fits.why().front().message.starts_with("k: "));
  return fits.why().front().code;
}

}  // namespace

TEST_CASE("a launch is one call in the primary context, on the given stream") {
  Fake fake;
  auto program = fake.executor->prepare("text 1", record());
  REQUIRE(program);
  CHECK(fake.journal() == "push 1\nload 42\nk 0\npop 0\n");
  CHECK(fake.executor->name() == "cuda:0");
  CHECK_FALSE((*program)->needs_buffers());

  std::uint64_t parameters[2] = {0x1122334455667788, 99};
  auto* const stream = reinterpret_cast<void*>(std::uintptr_t{77});
  const unsigned sizes[] = {8, 8};
  fake.symbol<void (*)(const unsigned*, unsigned)>("fake_set_sizes")(sizes, 2);
  REQUIRE((*program)->run(record(), std::as_bytes(std::span(parameters)), {}, stream));
  fake.symbol<void (*)(const unsigned*, unsigned)>("fake_set_sizes")(nullptr, 0);
  CHECK(fake.journal() == "push 1\nlaunch 16\nshared 0\nstream 77\nbytes 16\npop 0\n");
  CHECK(std::memcmp(fake.symbol<const void* (*)()>("fake_parameters")(), parameters, 16) == 0);
}

TEST_CASE("dynamic shared memory and clusters are allowed before the launch") {
  Fake fake;
  launch::Record large = record();
  large.dynamic_shared = 200000;
  large.cluster = {16, 1, 1};
  auto program = fake.executor->prepare("text 2", large);
  REQUIRE(program);
  CHECK(fake.journal() == "push 1\nload 42\nk 0\ndynamic shared 200000\nnonportable cluster 1\npop 0\n");
  REQUIRE((*program)->run(large, {}, {}, nullptr));
  CHECK(fake.journal() == "push 1\ncluster 4016\nlaunch 16\nshared 200000\nstream 0\nbytes 0\npop 0\n");
  large.cluster = {8, 1, 1};  // portable
  large.dynamic_shared = 231424;
  REQUIRE(fake.executor->prepare("text 2", large));
  CHECK(fake.journal() == "push 1\nk 0\ndynamic shared 231424\npop 0\n");
  large.dynamic_shared = 232448;  // with the 1,024 static bytes that the fake reports, too many
  const auto refused = fake.executor->prepare("text 2", large);
  REQUIRE_FALSE(refused);
  CHECK(refused.why().front().code == Code::launch_limits);
}

TEST_CASE("what a launch asks beside its shape goes with it") {
  Fake fake;
  launch::Record asked = record();
  asked.attributes = {true, true, -3, 50};
  auto program = fake.executor->prepare("text with attributes", asked);
  REQUIRE(program);
  fake.journal();
  REQUIRE((*program)->run(asked, {}, {}, nullptr));
  CHECK(fake.journal() ==
        "push 1\nattribute 2001\nattribute 6001\nattribute 7997\nattribute 14050\nlaunch 16\nshared 0\nstream 0\n"
        "bytes 0\npop 0\n");
}

TEST_CASE("a text is assembled and loaded once; an empty grid launches nothing") {
  Fake fake;
  launch::Record empty = record();
  empty.grid.y = 0;
  launch::Record written = record();
  written.lines = {{}, {Name("k.py"), 7, 0}};
  REQUIRE(fake.executor->prepare("text 3", written));
  CHECK(fake.assembler.last_lines == written.lines);
  auto program = fake.executor->prepare("text 3", empty);
  REQUIRE(program);
  CHECK(fake.assembler.count == 1);
  CHECK(fake.assembler.last_target == "sm_90a");
  fake.journal();
  REQUIRE((*program)->run(empty, {}, {}, nullptr));
  CHECK(fake.journal().empty());
}

TEST_CASE("errors of the driver carry its own name and words") {
  Fake fake;
  auto program = fake.executor->prepare("text 4", record());
  REQUIRE(program);
  fake.symbol<void (*)(int)>("fake_fail_next_launch")(700);
  const auto failed = (*program)->run(record(), {}, {}, nullptr);
  REQUIRE_FALSE(failed);
  CHECK(failed.why().front().code == Code::driver_error);
  CHECK(failed.why().front().message ==
        "k: cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), as the test asked");
  CHECK(failed.why().front().notes.size() == 1);  // it may be an earlier launch's fault
  fake.symbol<void (*)(int)>("fake_fail_next_launch")(1);
  const auto own = (*program)->run(record(), {}, {}, nullptr);
  REQUIRE_FALSE(own);
  CHECK(own.why().front().notes.empty());
  launch::Record missing = record();
  missing.entry = "missing";
  const auto none = fake.executor->prepare("text 4", missing);
  REQUIRE_FALSE(none);
  CHECK(none.why().front().message.starts_with("missing: cuModuleGetFunction failed"));
}

TEST_CASE("no library, no device") {
  const auto none = open_driver("/nonexistent/libcuda.so.1");
  REQUIRE_FALSE(none);
  CHECK(none.why().front().code == Code::no_driver);
  REQUIRE(none.why().front().notes.size() == 1);
  CHECK(none.why().front().notes[0].find("simulator") != std::string::npos);
  const auto other = open_driver("libm.so.6");  // a library, but no driver
  REQUIRE_FALSE(other);
  CHECK(other.why().front().code == Code::no_driver);
  Fake fake;
  const auto second = make_executor(fake.driver.value(), 1, fake.assembler);
  REQUIRE_FALSE(second);
  CHECK(second.why().front().code == Code::no_device);
}

TEST_CASE("tensor maps are encoded by the driver, after our rules") {
  Fake fake;
  alignas(64) std::byte data[64], map[128];
  launch::TensorMapRecipe recipe;
  recipe.box = {64, 8, 1, 1, 1};
  recipe.swizzle = launch::Swizzle::b128;
  launch::Buffer buffer{data, {64, 256}, {256, 1}, 0};
  REQUIRE(fake.executor->encode(recipe, launch::Element::bf16, buffer, map));
  CHECK(fake.journal() == "push 1\nmap 923\nmap modes 1020\npop 0\n");  // bf16 = 9, rank 2, 128-byte swizzle = 3; L2 2
  CHECK(map[127] == std::byte{0x5A});
  recipe.element_strides[1] = 2;
  recipe.fill = launch::TensorMapRecipe::Fill::nan, recipe.promotion = launch::TensorMapRecipe::Promotion::b256;
  recipe.swizzle = launch::Swizzle::b128_atom_32;
  REQUIRE(fake.executor->encode(recipe, launch::Element::bf16, buffer, map));
  CHECK(fake.journal() == "push 1\nmap 924\nmap modes 2031\npop 0\n");
  launch::TensorMapRecipe pixels;
  pixels.rank = 4;
  pixels.im2col = {{-1, -2, 0}, {-3, -4, 0}, 64, 128};
  const launch::Buffer image{data, {2, 16, 16, 64}, {16 * 16 * 64, 16 * 64, 64, 1}, 0};
  REQUIRE(fake.executor->encode(pixels, launch::Element::bf16, image, map));
  CHECK(fake.journal() == "push 1\nim2col 94\nim2col from -1\nim2col to -3\nim2col columns 640128\npop 0\n");
  recipe.box[0] = 128;
  const auto wide = fake.executor->encode(recipe, launch::Element::bf16, buffer, map);
  REQUIRE_FALSE(wide);
  CHECK(wide.why().front().code == Code::tensor_map_rule);
}

TEST_CASE("the driver's JIT assembles, names bad lines, and says what it is too old for") {
  Fake fake;
  const auto jit = driver_jit(fake.driver.value());
  CHECK(describe(*jit) == "the driver's JIT 13.0 (libcuda.so.1)");
  fake.journal();
  const auto cubin = jit->assemble("fine", "sm_90", {});
  REQUIRE(cubin);
  CHECK(fake.journal() == "jit 102\nunload 0\n");
  CHECK(std::memcmp(cubin->bytes.data(), "fine", 5) == 0);  // the driver compiles it again when it is loaded to run
  const auto code = disassemble(cubin->bytes, {});
  REQUIRE_FALSE(code);
  CHECK(code.why()[0].code == Code::disassembler_failed);
  CHECK(code.why()[0].message.find("does not show the code that it makes") != std::string::npos);
  const auto refused = jit->assemble("one\n bad", "sm_90", {});
  REQUIRE_FALSE(refused);
  REQUIRE(refused.why().size() == 1);
  CHECK(refused.why()[0].code == Code::assembler_error);
  CHECK(refused.why()[0].place == Place{Name("kernel.ptx"), 2, 0});
  const auto older = jit->assemble("newer", "sm_90", {});
  REQUIRE_FALSE(older);
  CHECK(older.why()[0].code == Code::driver_error);
  REQUIRE(older.why()[0].notes.size() == 1);
  CHECK(older.why()[0].notes[0].find("pip install pyptx[asm]") != std::string::npos);
}

TEST_CASE("the shape of a launch is held against the device") {
  CHECK(check(record(), {}));
  launch::Record most = record();
  most.grid = {2147483632, 65535, 65535};
  most.block = {1, 1, 64};
  most.cluster = {16, 1, 1};
  most.dynamic_shared = 232448;
  CHECK(check(most, {}));
  most.block = {32, 32, 1};
  CHECK(check(most, {}));
  launch::Record bad = record();
  bad.block = {1025, 1, 1};
  CHECK(refusal(bad) == Code::launch_limits);
  bad.block = {64, 32, 1};  // 2,048 threads
  CHECK(refusal(bad) == Code::launch_limits);
  bad.block = {0, 1, 1};
  CHECK(refusal(bad) == Code::launch_limits);
  bad = record();
  bad.grid = {1, 65536, 1};
  CHECK(refusal(bad) == Code::launch_limits);
  bad = record();
  bad.dynamic_shared = 232449;
  CHECK(refusal(bad) == Code::launch_limits);
  bad = record();
  bad.cluster = {3, 1, 1};  // 16 blocks are no multiple of 3
  CHECK(refusal(bad) == Code::launch_limits);
  bad.cluster = {32, 1, 1};
  CHECK(refusal(bad) == Code::launch_limits);
}

TEST_CASE("which code a device runs") {
  const auto arch = [](std::string_view target, int major, int minor) {
    const auto found = architecture(target, major, minor);
    if (found) return *found;
    CHECK(found.why().front().code == Code::target_mismatch);
    return std::string("refused");
  };
  CHECK(arch("sm_90a", 9, 0) == "sm_90a");
  CHECK(arch("sm_90a", 10, 0) == "refused");
  CHECK(arch("sm_75", 9, 0) == "sm_90");
  CHECK(arch("sm_100", 9, 0) == "refused");
  CHECK(arch("sm_100f", 10, 3) == "sm_100f");
  CHECK(arch("sm_103f", 10, 0) == "refused");
  CHECK(arch("sm_100f", 12, 0) == "refused");
  CHECK(arch("sm_120", 12, 1) == "sm_121");
  CHECK(arch("sm_101a", 11, 0) == "sm_110a");  // renamed in PTX 9.0
  CHECK(arch("sm_", 9, 0) == "refused");
  CHECK(arch("sm_90x", 9, 0) == "refused");
  CHECK(arch("compute_90", 9, 0) == "refused");
  CHECK(arch("", 9, 0) == "refused");
}
