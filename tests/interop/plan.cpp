#include "ptx/interop/plan.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "ptx/isa/types.h"

using namespace ptx;
using namespace ptx::interop;
using launch::Element;

namespace {

// Keeps what it is asked to run.
struct Recorder final : launch::Executor {
  struct Run final : launch::Program {
    explicit Run(Recorder& owner) : owner(owner) {}
    Expected<Done> run(const launch::Record&, std::span<const std::byte> parameters,
                       std::span<const launch::Buffer> buffers, void* stream) override {
      owner.parameters.assign(parameters.begin(), parameters.end());
      owner.buffers.assign(buffers.begin(), buffers.end());
      owner.aligned = reinterpret_cast<std::uintptr_t>(parameters.data()) % 64 == 0;
      owner.stream = stream;
      ++owner.runs;
      return Done{};
    }
    bool needs_buffers() const override { return owner.wants_buffers; }
    Recorder& owner;
  };

  std::string_view name() const override { return "recorder"; }
  Expected<std::shared_ptr<launch::Program>> prepare(std::string_view, const launch::Record&) override {
    return std::shared_ptr<launch::Program>(new Run(*this));
  }
  Expected<Done> encode(const launch::TensorMapRecipe& recipe, Element, const launch::Buffer& buffer,
                        std::span<std::byte, 128> out) override {
    ++encoded;
    if (recipe.box[0] > 256) return Diagnostic(Code::tensor_map_rule, Place{}, "box too large");
    std::memset(out.data(), static_cast<int>(buffer.shape.size()), out.size());
    return Done{};
  }

  std::vector<std::byte> parameters;
  std::vector<launch::Buffer> buffers;
  bool aligned = false, wants_buffers = true;
  void* stream = nullptr;
  int runs = 0, encoded = 0;
};

struct Tensor : DLTensor {
  Tensor(Element element, std::vector<std::int64_t> sizes, void* at = memory) : sizes(std::move(sizes)) {
    data = at;
    dtype = spell(element);
    ndim = static_cast<std::int32_t>(this->sizes.size());
    shape = this->sizes.data();
  }
  std::vector<std::int64_t> sizes;
  alignas(64) static inline std::byte memory[64];
};

// y[B, N] = f(x[B, N], w[N]) with a scalar, B and N as given (-1: symbolic).
launch::Record record(std::int64_t rows = 16, std::int64_t columns = 512) {
  launch::Record made;
  made.entry = "norm";
  const auto dimension = [](std::int64_t size, const char* symbol) {
    return launch::Dimension{size, size < 0 ? symbol : ""};
  };
  made.tensors = {{"X", Element::f32, {dimension(rows, "B"), dimension(columns, "N")}, 1, false},
                  {"W", Element::f32, {dimension(columns, "N")}, 16, false},
                  {"Y", Element::bf16, {dimension(rows, "B"), dimension(columns, "N")}, 1, true}};
  made.scalars = {{"eps", "f32"}};
  using Kind = launch::Parameter::Kind;
  made.parameters = {{Kind::tensor, "X", 0, 8, 0},
                     {Kind::tensor, "W", 8, 8, 1},
                     {Kind::tensor, "Y", 16, 8, 2},
                     {Kind::scalar, "eps", 24, 4, 0}};
  made.parameter_bytes = 28;
  return made;
}

std::byte output_memory[64];
bool allocate(void* context, std::size_t index, DLTensor& tensor) {
  CHECK(index == 0);
  CHECK(tensor.dtype == spell(Element::bf16));
  *static_cast<std::vector<std::int64_t>*>(context) = {tensor.shape, tensor.shape + tensor.ndim};
  tensor.data = output_memory;
  return true;
}

struct World {
  Recorder executor;
  std::vector<std::int64_t> output_shape;
  Framework framework{&output_shape, allocate, nullptr};
  std::unique_ptr<Plan> plan;

  explicit World(launch::Record of) {
    auto made = Plan::make(executor, {DeviceType::cpu, 0}, "text", std::move(of));
    REQUIRE_MESSAGE(made, to_string(made ? Diagnostics{} : made.why()));
    plan = std::move(made).value();
  }
  bool takes(std::vector<DLTensor> inputs) {
    Sizes sizes;
    return plan->takes(inputs, sizes);
  }
  // The only refusal of a call, in words; the code is checked.
  std::string refusal(Code code, std::vector<DLTensor> inputs, std::vector<std::uint64_t> scalars = {0}) {
    const auto done = plan->call(inputs, scalars, framework);
    REQUIRE_FALSE(done);
    REQUIRE(done.why().size() == 1);
    CHECK(done.why().front().code == code);
    CHECK(executor.runs == 0);
    return done.why().front().message;
  }
};

Diagnostic unmade(launch::Record of) {
  Recorder executor;
  const auto made = Plan::make(executor, {DeviceType::cpu, 0}, "text", std::move(of));
  REQUIRE_FALSE(made);
  return made.why().front();
}

template <class T>
T at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value;
  REQUIRE(offset + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("a call fills the parameter block, allocates outputs and runs once") {
  World world(record());
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  w.byte_offset = 32;
  world.framework.stream = &world;
  REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{std::bit_cast<std::uint32_t>(1.5f)},
                           world.framework));
  const Recorder& ran = world.executor;
  CHECK(ran.runs == 1);
  CHECK(ran.stream == &world);
  CHECK(ran.aligned);
  REQUIRE(ran.parameters.size() == 28);
  CHECK(at<void*>(ran.parameters, 0) == Tensor::memory);
  CHECK(at<void*>(ran.parameters, 8) == Tensor::memory + 32);
  CHECK(at<void*>(ran.parameters, 16) == output_memory);
  CHECK(at<float>(ran.parameters, 24) == 1.5f);
  CHECK(world.output_shape == std::vector<std::int64_t>{16, 512});
  REQUIRE(ran.buffers.size() == 3);
  CHECK(ran.buffers[0].bytes == 16 * 512 * 4);
  CHECK(ran.buffers[0].strides == std::vector<std::int64_t>{512, 1});
  CHECK(ran.buffers[2].bytes == 16 * 512 * 2);
  world.executor.wants_buffers = false;
  REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework));
  CHECK(ran.buffers.empty());
}

TEST_CASE("every refusal names kernel, argument, what came and what is needed") {
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  CHECK(World(record()).refusal(Code::argument_count, {x}) == "norm: expected 2 input arrays, got 1");
  CHECK(World(record()).refusal(Code::argument_count, {x, w}, {}) == "norm: expected 1 scalars, got 0");
  CHECK(World(record()).refusal(Code::wrong_element, {Tensor(Element::f16, {16, 512}), w}) ==
        "norm: argument `X`: its dtype is f16, the kernel takes f32");
  CHECK(World(record()).refusal(Code::wrong_rank, {x, Tensor(Element::f32, {1, 512})}) ==
        "norm: argument `W`: its rank is 2 (shape (1, 512)), the kernel takes rank 1");
  CHECK(World(record()).refusal(Code::wrong_dimension, {x, Tensor(Element::f32, {511})}) ==
        "norm: argument `W`: dimension 0 of shape (511,) is 511, the kernel takes 512 (dim mismatch)");
  Tensor odd(Element::f32, {512}, Tensor::memory + 4);
  CHECK(World(record()).refusal(Code::misaligned_tensor, {x, odd}) ==
        "norm: argument `W`: its data is aligned to only 4 bytes, the kernel needs 16");
  Tensor turned(Element::f32, {16, 512});
  std::int64_t strides[] = {1, 16};
  turned.strides = strides;
  CHECK(World(record()).refusal(Code::not_contiguous, {turned, w}) ==
        "norm: argument `X`: its strides are (1, 16) for shape (16, 512); the kernel takes row-major tensors "
        "(.contiguous(), np.ascontiguousarray)");
  Tensor away(Element::f32, {512});
  away.device = {DeviceType::cuda, 1};
  CHECK(World(record()).refusal(Code::wrong_device, {x, away}) ==
        "norm: argument `W`: it is on cuda:1, the call is on cpu");
  Tensor strange(Element::f32, {512});
  strange.dtype = {5, 64, 1};
  CHECK(World(record()).refusal(Code::wrong_element, {x, strange}) ==
        "norm: argument `W`: its dtype is complex64, the kernel takes f32");
}

TEST_CASE("symbolic dimensions are bound by the first argument and size the outputs") {
  World world(record(-1, -1));
  Tensor x(Element::f32, {3, 8}), w(Element::f32, {8});
  CHECK(world.takes(std::vector<DLTensor>{x, w}));
  REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework));
  CHECK(world.output_shape == std::vector<std::int64_t>{3, 8});
  Tensor other(Element::f32, {9});
  CHECK_FALSE(world.takes(std::vector<DLTensor>{x, other}));
  CHECK(World(record(-1, -1)).refusal(Code::conflicting_dimension, {x, other}) ==
        "norm: argument `W`: dimension 0 of shape (9,), `N`, is 9, an argument before it has 8 (conflicting sizes)");
  // What binds a size is refused: what else has it is judged by it, or not at all, and never for a reason of its own.
  CHECK(World(record(-1, -1)).refusal(Code::wrong_element, {Tensor(Element::f16, {3, 8}), w}) ==
        "norm: argument `X`: its dtype is f16, the kernel takes f32");
  CHECK(World(record(-1, -1)).refusal(Code::wrong_rank, {Tensor(Element::f32, {8}), w}) ==
        "norm: argument `X`: its rank is 1 (shape (8,)), the kernel takes rank 2");
  const auto both = World(record(-1, -1)).plan->refusals(std::vector<DLTensor>{Tensor(Element::f16, {3, 8}), other});
  REQUIRE(both.size() == 2);
  CHECK(both[1].code == Code::conflicting_dimension);
  launch::Record loose = record(-1, -1);
  loose.tensors[2].shape[0].symbol = "M";
  CHECK(unmade(loose).code == Code::unbound_dimension);
}

TEST_CASE("sizes of one, and no elements, are contiguous whatever their strides") {
  World world(record(1, 512));
  Tensor x(Element::f32, {1, 512}), w(Element::f32, {512});
  std::int64_t strides[] = {7, 1};
  x.strides = strides;
  CHECK(world.takes(std::vector<DLTensor>{x, w}));
  World empty(record(0, 512));
  Tensor none(Element::f32, {0, 512}, nullptr);
  none.strides = strides;
  CHECK(empty.takes(std::vector<DLTensor>{none, w}));

  launch::Record rows = record(0, 512);  // which may lie apart
  rows.tensors[0].strided = true;
  std::int64_t spread[] = {0, 0};  // of one number
  none.strides = spread;
  CHECK(World(rows).takes(std::vector<DLTensor>{none, w}));
}

TEST_CASE("an empty grid runs nothing, and its outputs are there") {
  launch::Record empty = record(0, 512);
  empty.grid.x = 0;
  World world(empty);
  Tensor none(Element::f32, {0, 512}, nullptr), w(Element::f32, {512});
  REQUIRE(world.plan->call(std::vector<DLTensor>{none, w}, std::vector<std::uint64_t>{0}, world.framework));
  CHECK(world.executor.runs == 0);
  CHECK(world.output_shape == std::vector<std::int64_t>{0, 512});
}

TEST_CASE("pinned and managed memory go where they can be reached") {
  World world(record());
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  x.device = {DeviceType::cuda_host, 0};
  CHECK(world.takes(std::vector<DLTensor>{x, w}));
  const auto nowhere = executor({static_cast<DeviceType>(8), 0});
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.why().front().code == Code::unsupported_device);
}

TEST_CASE("tensor maps lie in the parameter block by value") {
  launch::Record mapped = record();
  mapped.tensor_maps.resize(1);
  mapped.tensor_maps[0].tensor = 1;
  mapped.parameters.push_back({launch::Parameter::Kind::tensor_map, "W_tma_desc", 64, 128, 0});
  mapped.parameter_bytes = 192;
  World world(mapped);
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework));
  CHECK(world.executor.parameters[64] == std::byte{1});  // the rank, as the recorder writes it
  CHECK(world.executor.parameters[191] == std::byte{1});
  CHECK(world.executor.parameters[63] == std::byte{0});
  mapped.tensor_maps[0].box[0] = 257;
  CHECK(World(mapped).refusal(Code::tensor_map_rule, {x, w}) == "norm: argument `W`: box too large");
  mapped.parameters.back().offset = 32;
  CHECK(unmade(mapped).code == Code::parameter_layout);
}

TEST_CASE("a tensor map is encoded once for an address and a shape") {
  launch::Record mapped = record(-1, 512);
  mapped.tensor_maps.resize(1);
  mapped.parameters.push_back({launch::Parameter::Kind::tensor_map, "X_tma_desc", 64, 128, 0});
  mapped.parameter_bytes = 192;
  World world(mapped);
  const auto encoded_by = [](World& world, void* at, std::int64_t rows) {
    Tensor x(Element::f32, {rows, 512}, at), w(Element::f32, {512});
    const int before = world.executor.encoded;
    REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework));
    return world.executor.encoded - before;
  };
  void* const other = Tensor::memory + 32;
  CHECK(encoded_by(world, Tensor::memory, 16) == 1);
  CHECK(encoded_by(world, Tensor::memory, 16) == 0);
  CHECK(encoded_by(world, other, 16) == 1);
  CHECK(encoded_by(world, Tensor::memory, 8) == 1);  // freed, and used again with another shape
  CHECK(encoded_by(world, Tensor::memory, 16) == 1);
  CHECK(encoded_by(world, other, 16) == 0);
  World second(mapped);  // another plan has maps of its own
  CHECK(encoded_by(second, Tensor::memory, 16) == 1);
  std::thread([&] { CHECK(encoded_by(world, other, 16) == 1); }).join();  // and so has another thread
}

TEST_CASE("outputs that the caller brings are checked as inputs are") {
  World world(record(-1, 512));
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  void* const apart = reinterpret_cast<void*>(std::uintptr_t{1} << 40);  // nothing is written
  Tensor y(Element::bf16, {16, 512}, apart), few(Element::bf16, {8, 512}), wide(Element::f32, {16, 512});
  const auto with = [&](std::vector<DLTensor> outputs) {
    world.framework.outputs = outputs;
    return world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework);
  };
  REQUIRE(with({y}));
  CHECK(world.output_shape.empty());  // nothing was allocated
  CHECK(at<void*>(world.executor.parameters, 16) == apart);
  CHECK(with({few}).why().front().code == Code::conflicting_dimension);
  CHECK(with({wide}).why().front().code == Code::wrong_element);
  CHECK(with({y, y}).why().front().code == Code::argument_count);
}

TEST_CASE("memory that is written is an input's as a whole, or shares nothing with it") {
  launch::Record two = record(-1, -1);
  two.tensors[0].written = two.tensors[1].written = false;
  two.tensors[0].element = two.tensors[1].element = two.tensors[2].element = Element::f32;
  two.tensors[1].shape = two.tensors[2].shape = two.tensors[0].shape;
  two.tensors[1].alignment = 4;
  const auto tensor = [](std::int64_t element) {  // nothing is read or written
    return Tensor(Element::f32, {16, 512}, reinterpret_cast<void*>((std::uintptr_t{1} << 40) + 4 * element));
  };
  const auto says = [&](World& world, Tensor a, Tensor b, Tensor out) {
    const DLTensor inputs[] = {a, b}, outputs[] = {out};
    world.framework.outputs = outputs;
    const auto done = world.plan->call(inputs, std::vector<std::uint64_t>{0}, world.framework);
    if (done) return std::string("done");
    CHECK(done.why().front().code == Code::not_contiguous);
    return done.why().front().message;
  };
  constexpr std::int64_t all = 16 * 512;
  World world(two);
  CHECK(says(world, tensor(0), tensor(0), tensor(all)) == "done");
  CHECK(says(world, tensor(0), tensor(all), tensor(0)) == "done");  // in place
  CHECK(says(world, tensor(0), tensor(all), tensor(1)) ==
        "norm: argument `Y`: it shares a part of its memory with `X`, and the kernel writes it: pass a copy (.clone()) "
        "of one of them");
  CHECK(says(world, tensor(2 * all), tensor(0), tensor(all - 1)).find("with `W`") != std::string::npos);
  world.framework.fresh = true;  // a compiler's memory: what it shares is its business
  CHECK(says(world, tensor(0), tensor(all), tensor(1)) == "done");

  launch::Record in_place = two;  // an input that is written, and one that is read
  in_place.tensors[0].written = true;
  World writes(in_place);
  CHECK(says(writes, tensor(0), tensor(0), tensor(2 * all)) == "done");
  CHECK(says(writes, tensor(0), tensor(1), tensor(2 * all)).starts_with("norm: argument `X`: it shares a part"));

  launch::Record rows = two;  // whose rows may lie apart
  for (launch::TensorArgument& each : rows.tensors) each.strided = true;
  World apart(rows);
  std::int64_t strides[] = {1024, 1}, none[] = {0, 1};
  Tensor left = tensor(0), right = tensor(512), same = tensor(4 * all);
  left.strides = right.strides = strides, same.strides = none;
  CHECK(says(apart, left, left, right) ==
        "done");  // the halves of a matrix: there are gaps, and nobody asks what is there
  CHECK(says(apart, left, left, same).starts_with("norm: argument `Y`: several of its elements are the same memory"));
}

TEST_CASE("column-major tensors, where the kernel asks for them") {
  launch::Record columns = record();
  columns.tensors[0].column_major = true;
  World world(columns);
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  CHECK_FALSE(world.takes({x, w}));  // row-major
  std::int64_t strides[] = {1, 16};
  x.strides = strides;
  CHECK(world.takes({x, w}));
  strides[1] = 32;
  CHECK(world.refusal(Code::not_contiguous, {x, w}).find("column-major") != std::string::npos);
  columns.tensors[2].column_major = true;
  strides[1] = 16;
  CHECK(World(columns).refusal(Code::not_contiguous, {x, w}).starts_with("norm: argument `Y`"));
}

TEST_CASE("a framework that cannot allocate, or not well enough") {
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  World world(record());
  world.framework.allocate = [](void*, std::size_t, DLTensor&) { return false; };
  CHECK(world.refusal(Code::allocation_failed, {x, w}) ==
        "norm: argument `Y`: the framework could not allocate this output");
  world.framework.allocate = [](void*, std::size_t, DLTensor& tensor) {
    return tensor.data = Tensor::memory + 1, true;
  };
  CHECK(world.refusal(Code::misaligned_tensor, {x, w}).starts_with("norm: argument `Y`"));
}

TEST_CASE("records that do not hold together make no plan") {
  const auto broken = [](auto change) {
    launch::Record changed = record();
    change(changed);
    return unmade(changed).code;
  };
  using R = launch::Record;
  CHECK(broken([](R& r) { r.parameters[0].source = 3; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.parameters[2].offset = 21; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.parameters[0].size = 4; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.parameters[3].size = 0; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.parameter_bytes = 40000; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.tensors[0].alignment = 24; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.tensors[0].output = true; }) == Code::parameter_layout);
  CHECK(broken([](R& r) { r.tensors[0].shape.resize(33); }) == Code::parameter_layout);
  launch::Record many = record();
  many.tensors.resize(18, many.tensors.back());  // 16 outputs
  Recorder executor;
  CHECK(Plan::make(executor, {DeviceType::cpu, 0}, "text", many));
  CHECK(broken([](R& r) { r.tensors.resize(19, r.tensors.back()); }) == Code::parameter_layout);
}

TEST_CASE("large parameter blocks are aligned too") {
  launch::Record large = record();
  large.parameter_bytes = 4096;
  World world(large);
  Tensor x(Element::f32, {16, 512}), w(Element::f32, {512});
  REQUIRE(world.plan->call(std::vector<DLTensor>{x, w}, std::vector<std::uint64_t>{0}, world.framework));
  CHECK(world.executor.aligned);
  CHECK(world.executor.parameters.size() == 4096);
}

TEST_CASE("scalars become the bits of their parameter") {
  const auto bits = [](const char* type, auto value) {
    const auto packed = pack({"n", type}, value);
    REQUIRE_MESSAGE(packed, type);
    return packed.value();
  };
  using I = std::int64_t;
  CHECK(bits("u32", I{5}) == 5);
  CHECK(bits("s32", I{-1}) == 0xFFFFFFFF);
  CHECK(bits("s8", I{-128}) == 0x80);
  CHECK(bits("b16", I{-1}) == 0xFFFF);
  CHECK(bits("b16", I{65535}) == 0xFFFF);
  CHECK(bits("u64", ~std::uint64_t{0}) == ~std::uint64_t{0});
  CHECK(bits("s64", I{-2}) == ~std::uint64_t{1});
  CHECK(bits("pred", I{1}) == 1);
  CHECK(bits("f32", 1.5) == 0x3FC00000);
  CHECK(bits("f32", I{2}) == 0x40000000);
  CHECK(bits("f64", -0.0) == 0x8000000000000000);
  CHECK(bits("f16", 1.0) == 0x3C00);
  CHECK(bits("f16", 65504.0) == 0x7BFF);
  CHECK(bits("f16", 65520.0) == 0x7C00);           // rounds to infinity
  CHECK(bits("f16", 5.9604644775390625e-8) == 1);  // the smallest
  CHECK(bits("f16", 2.0 - 1.0 / 4096) == 0x4000);  // carries into the exponent
  CHECK(bits("f16", 6.097555160522461e-05) == 0x3FF);
  CHECK(bits("f16", 1.0 + 1.0 / 2048) == 0x3C00);  // ties to even
  CHECK(bits("bf16", -3.140625) == 0xC049);
  CHECK(bits("bf16", 1e39) == 0x7F80);
  CHECK(bits("bf16", std::nan("")) == 0x7FFF);  // the NaN that cvt makes
  CHECK(bits("f16", -std::nan("")) == 0x7FFF);

  const auto refused = [](const char* type, auto value) {
    const auto packed = pack({"n", type}, value);
    REQUIRE_FALSE_MESSAGE(packed, type);
    CHECK(packed.why().front().code == Code::wrong_scalar);
    return packed.why().front().message;
  };
  CHECK(refused("u32", I{-1}) == "argument `n`: -1 does not fit a parameter of type u32");
  refused("u8", I{256});
  refused("s8", I{128});
  refused("s8", I{-129});
  refused("s64", ~std::uint64_t{0});
  refused("pred", I{2});
  refused("pred", I{-1});
  refused("u32", 1.5);
  refused("f8", I{1});
  refused("", I{1});
  refused("u33", I{1});
}

TEST_CASE("types read back as they are spelled") {
  for (int i = 0; i <= static_cast<int>(arch::last_element); ++i) {
    const auto element = static_cast<Element>(i);
    if (element == Element::tf32) continue;  // a way to read f32, which frameworks have
    Element back;
    REQUIRE(read(spell(element), back));
    CHECK(back == element);
    CHECK(name(spell(element)) == arch::name(element));
    CHECK(spell(element).bits * spell(element).lanes == arch::info(element).bits);
    // Where PTX has a type of this name, it has these bits; packed pairs of 4-bit floats, too.
    if (const auto type = isa::type_named(arch::name(element)))
      CHECK(isa::info(*type).bits == arch::info(element).bits);
  }
  CHECK(name(DLDataType{7, 8, 1}) == "DLPack type 7 of 8 bits");
  CHECK(name(DLDataType{17, 4, 2}) == "e2m1x2");
  CHECK(name(DLDataType{17, 4, 8}) == "DLPack type 17 of 4 bitsx8");
}

TEST_CASE("a newer exchange table leads to the one of this ABI") {
  DLPackExchangeAPI old{{1, 2}, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  DLPackExchangeAPI next{{2, 0}, &old, nullptr, nullptr, nullptr, nullptr, nullptr};
  CHECK(usable(&next) == &old);
  CHECK(usable(&old) == &old);
  CHECK(usable(nullptr) == nullptr);
}
