// Kernels of C++ as C: what is written compiles without a warning and launches on the invented driver; what is refused.
#include "ptx/ahead/export.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "ptx/author/kernel.h"
#include "ptx/base/text.h"
#include "ptx/cuda/assemblers.h"
#include "tests/cuda/tools.h"

namespace ptx::ahead {
namespace {

namespace fs = std::filesystem;
using launch::Element, launch::output, launch::scalar, launch::tensor;
using namespace ptx::modifiers;

author::Built doubles() {
  return author::kernel({.name = "doubles", .target = "sm_90"}, [](author::Kernel& k) {
    k.add_pointer("x"), k.add_pointer("y"), k.add_raw("u32", "n"), k.add_raw("f32", "a");
    k.ret();
  });
}

interop::Program program(const launch::Shape& shape = {.block = {128}}) {
  auto x = tensor("x", Element::f32, {"n"});
  x.tensor.written = false;
  return {doubles(), {x, output("y", Element::f32, {"n"}), scalar("n", "u32"), scalar("a", "f32")}, shape};
}

// A kernel that loads with a tensor map; the map's recipe is all that the tests look at.
Kernel mapped(const launch::TensorMapRecipe& recipe, std::initializer_list<launch::Size> shape) {
  Variant variant;
  variant.record.entry = "maps", variant.record.target = "sm_90";
  launch::add_tensor(variant.record, tensor("x", Element::f32, shape).tensor);
  REQUIRE(launch::add_tensor_map(variant.record, "x", recipe));
  variant.images.push_back({"sm_90", {std::byte{0x7F}}});
  return {.name = "maps", .variants = {variant}};
}

std::string refusal(const Kernel& kernel, const std::vector<Flavour>& flavours = {}) {
  const auto made = write(kernel, flavours);
  return made ? "" : made.why().front().message;
}

bool says(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// A folder of one test: the loader knows a library by its path.
struct Folder {
  fs::path path;
  Folder() {
    static int count = 0;
    path = fs::temp_directory_path() / cat("ptx_ahead_", static_cast<long long>(getpid()), "_", ++count);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
};

// The functions of NAME.c, compiled by each C compiler that there is.
void* compiled(const Folder& folder, const std::vector<File>& files, const std::string& name,
               std::string_view compiler) {
  for (const File& file : files) std::ofstream(folder.path / file.name) << file.text;
  const std::string base = (folder.path / name).string();
  const std::string library = cat(base, "_", compiler, ".so");
  const std::string command =
      cat(compiler, " -std=c99 -pedantic -O0 -Wall -Wextra -Werror -shared -fPIC ", base, ".c -o ", library);
  REQUIRE(std::system(command.c_str()) == 0);
  void* made = dlopen(library.c_str(), RTLD_NOW);
  REQUIRE(made != nullptr);
  return made;
}

template <class F>
F* find(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

std::vector<std::string_view> compilers() {
  std::vector<std::string_view> found;
  for (const std::string_view each : {"gcc", "clang-19"})
    if (std::system(cat("command -v ", each, " > /dev/null").c_str()) == 0) found.push_back(each);
  return found;
}

struct Driver {
  void* library = dlopen(FAKE_CUDA, RTLD_NOW);
  Driver() {
    REQUIRE(library != nullptr);
    setenv("PYPTX_LIBCUDA", FAKE_CUDA, 1);
    void* context = nullptr;
    find<int(void**, int)>(library, "cuDevicePrimaryCtxRetain")(&context, 0);
    find<int(void*)>(library, "cuCtxSetCurrent")(context);
    journal();
  }
  std::string journal() { return find<const char*()>(library, "fake_journal")(); }
};

TEST_CASE("a kernel with a map launches on the driver, and its map is checked as in C++") {
  Driver driver;
  const Folder folder;
  launch::TensorMapRecipe recipe{.rank = 4, .swizzle = launch::Swizzle::b128};
  recipe.im2col = {{-1, -1}, {1, 1}, 32, 64};
  const Kernel kernel = mapped(recipe, {"n", 8, 8, "c"});
  const auto files = write(kernel);
  REQUIRE(files);
  for (const std::string_view compiler : compilers()) {
    void* library = compiled(folder, *files, "maps", compiler);
    auto* const launch = find<int(void*, std::int64_t, std::int64_t, void*)>(library, "maps_launch");
    auto* const error = find<const char*()>(library, "maps_error");
    alignas(64) static std::byte memory[64];
    CHECK_MESSAGE(launch(memory, 2, 64, nullptr) == 0, error());
    CHECK(says(driver.journal(), "im2col 74\nim2col from -1\nim2col to 1\nim2col columns 320064\n"));
    CHECK(launch(memory, 0, 64, nullptr) == 1);
    CHECK(error() == std::string("maps: x: a dimension of a tensor map must have 1 to 2^32 elements, not 0"));
    CHECK(launch(memory, 2, 3, nullptr) == 1);
    CHECK(says(error(), "strides of a tensor map must be multiples of 16 bytes"));
    CHECK(launch(memory + 4, 2, 64, nullptr) == 1);
    CHECK(says(error(), "x is no multiple of 16 bytes"));
  }
}

TEST_CASE("maps that interleave") {
  Driver driver;
  const Folder folder;
  launch::TensorMapRecipe recipe{.rank = 3, .box = {8, 4, 2}, .element_strides = {1, 2, 1}};
  recipe.interleave = launch::Interleave::b16;
  const auto files = write(mapped(recipe, {2, "h", 16}));
  REQUIRE(files);
  void* library = compiled(folder, *files, "maps", compilers().front());
  alignas(64) static std::byte memory[64];
  CHECK(find<int(void*, std::int64_t, void*)>(library, "maps_launch")(memory, 8, nullptr) == 0);
  CHECK(says(driver.journal(), "map modes 2120\n"));  // every second, interleave 1, promotion 128B
}

TEST_CASE("expressions and names that are none of C are refused") {
  Kernel kernel = mapped({.rank = 1, .box = {16}}, {"n"});
  CHECK(refusal(kernel).empty());
  kernel.variants[0].grid[0] = "(n + m) / 4";
  CHECK(says(refusal(kernel), "`m` is no size; sizes are n"));
  kernel.variants[0].grid[0] = "n; exit(1)";
  CHECK(says(refusal(kernel), "`;` is in no expression of sizes"));
  kernel.variants[0].grid[0] = "(n";
  CHECK(says(refusal(kernel), "parentheses do not match"));
  kernel.variants[0].grid[0] = "floor_div(n + 3, 4)";
  CHECK(refusal(kernel).empty());
  kernel.name = "a b";
  CHECK(says(refusal(kernel), "is one of C, not 'a b'"));
  kernel.name = "maps";
  CHECK(says(refusal(kernel, {Flavour::xla}), "may write its input `x`"));
  kernel.variants[0].record.tensors[0].name = "while";
  CHECK(says(refusal(kernel), "`while` cannot be the name of an argument"));
  kernel.variants[0].record.tensors[0].name = "n";
  CHECK(says(refusal(kernel), "the name of two arguments"));
  kernel.variants[0].record.tensors[0].name = "x";
  kernel.variants[0].record.tensors[0].column_major = true;
  CHECK(refusal(kernel, {Flavour::tvm, Flavour::torch}).empty());
  CHECK(says(refusal(kernel, {Flavour::xla}), "`x` is column-major"));
  Kernel narrow = kernel;
  REQUIRE(launch::add_scalar(narrow.variants[0].record, "s", "bf16"));
  CHECK(says(refusal(narrow, {Flavour::torch}), "no scalar of .bf16"));
  kernel.sizes = {"n", "m"};
  CHECK(says(refusal(kernel, {Flavour::torch}), "each is a dimension of one"));
  kernel.sizes.clear();
  kernel.variants[0].images.clear();
  CHECK(says(refusal(kernel), "no machine code"));
  kernel.variants.clear();
  CHECK(says(refusal(kernel), "at least one"));
  kernel = mapped({.rank = 1, .box = {16}, .element = Element::u2}, {"n"});
  CHECK(says(refusal(kernel), "x: tma_dtype: the copy engine has no type"));
}

TEST_CASE("a program is saved, with machine code and text; what is the same is not written again") {
  cuda::use(test_search());
  if (!cuda::choose_assembler(good_ptx, "sm_90")) {
    MESSAGE("skipped: no assembler");
    return;
  }
  Driver driver;
  const Folder folder;
  const Options options{.grid = {"floor_div(n + 127, 128)"}, .targets = {"sm_90"}, .flavours = {Flavour::xla}};
  const auto paths = save(program(), folder.path / "out", options);
  REQUIRE(paths.size() == 3);
  CHECK(paths[2].filename() == "doubles_xla.cpp");
  const auto written = fs::last_write_time(paths[1]);
  CHECK(save(program(), folder.path / "out", options) == paths);
  CHECK(fs::last_write_time(paths[1]) == written);

  void* library = compiled(folder, sources(program(), options), "doubles", compilers().front());
  auto* const launch = find<int(const void*, void*, std::int64_t, float, void*)>(library, "doubles_launch");
  alignas(64) static std::byte memory[64];
  CHECK(launch(memory, memory, 300, 2.0f, nullptr) == 0);
  CHECK(says(driver.journal(), "load 127\ndoubles 0\nlaunch 3\n"));

  CHECK_THROWS_AS(save(program(), folder.path, {.grid = {"m"}}), author::Refused);
  CHECK_THROWS_AS(save(program(), folder.path / "out" / "doubles.h", options), fs::filesystem_error);
}

}  // namespace
}  // namespace ptx::ahead
