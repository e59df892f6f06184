// The handlers under an invented XLA: its table of functions, call frames filled by hand. What jaxlib's own XLA does
// with them is in python/tests/test_jax_*.py, but there is no GPU: here "CUDA" runs against tests/cuda/fake.
#include "ptx/interop/xla.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include "ptx/base/text.h"
#include "ptx/launch/serial.h"
#include "tests/interop/fake.h"

namespace ptx::interop::xla {
struct Error {
  std::string message;
  ErrorCode code;
};
struct ExecutionContext {
  void* site = nullptr;
  std::int64_t type = 0;
  std::int32_t ordinal = 0;
};
}  // namespace ptx::interop::xla

using namespace ptx;
using namespace ptx::interop;
using namespace ptx::interop::xla;

namespace {

// `multiply`: by a scalar parameter instead of by two.
std::string text_of(bool multiply) {
  return cat(
      ".version 8.0\n.target sm_75\n.address_size 64\n"
      ".visible .entry twice(.param .u64 X, .param .u64 Y",
      multiply ? ", .param .f32 factor" : "",
      ")\n{\n"
      ".reg .b64 %rd<3>;\n.reg .b32 %r<2>;\n.reg .f32 %f<3>;\n",
      multiply ? "ld.param.f32 %f2, [factor];\n" : "mov.f32 %f2, 0f40000000;\n",
      "ld.param.u64 %rd0, [X];\nld.param.u64 %rd1, [Y];\n"
      "mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 4;\n"
      "add.s64 %rd0, %rd0, %rd2;\nadd.s64 %rd1, %rd1, %rd2;\n"
      "ld.global.f32 %f0, [%rd0];\nmul.f32 %f1, %f0, %f2;\nst.global.f32 [%rd1], %f1;\nret;\n}\n");
}

launch::Record record(bool multiply = false) {
  launch::Record made;
  made.entry = "twice", made.target = "sm_75", made.block = {32, 1, 1};
  made.tensors = {{"X", launch::Element::f32, {{32, ""}}, 1, false}, {"Y", launch::Element::f32, {{32, ""}}, 1, true}};
  launch::append(made, {launch::Parameter::Kind::tensor, "X", 0, 8, 0});
  launch::append(made, {launch::Parameter::Kind::tensor, "Y", 0, 8, 1});
  if (multiply) {
    made.scalars = {{"factor", "f32"}};
    launch::append(made, {launch::Parameter::Kind::scalar, "factor", 0, 4, 0});
  }
  return made;
}

const TypeInfo* registered[2];
std::vector<std::string> names;

const Api& api() {
  static const Api table = [] {
    Api made{};
    made.struct_size = sizeof made;
    made.error_create = [](ErrorCreate* args) { return new Error{args->message, args->code}; };
    made.stream_get = [](StreamGet* args) -> Error* { return args->stream = reinterpret_cast<void*>(0x77), nullptr; };
    made.type_register = [](TypeRegister* args) -> Error* {
      names.emplace_back(args->name.data, args->name.size);
      registered[names.size() - 1] = args->info;
      return args->type->id = static_cast<std::int64_t>(names.size()), nullptr;
    };
    made.state_set = [](StateSet* args) -> Error* {
      args->context->site = args->state, args->context->type = args->type->id;
      return nullptr;
    };
    made.state_get = [](StateGet* args) -> Error* {
      if (args->context->site == nullptr || args->context->type != args->type->id)
        return new Error{"no state of this type", ErrorCode::internal};
      return args->state = args->context->site, nullptr;
    };
    made.device_ordinal_get = [](DeviceOrdinalGet* args) -> Error* {
      return args->ordinal = args->context->ordinal, nullptr;
    };
    return made;
  }();
  return table;
}

// One call site: attributes, two buffers of 32 elements.
struct Call {
  // `values`: the scalars are the first argument.
  explicit Call(std::string_view platform, bool values = false)
      : handlers(xla::handlers(platform, values)), as_argument(values) {
    attributes = {
        {"in_place", ""}, {"ptx", text_of(values)}, {"record", launch::serialise(record(values))}, {"scalars", ""}};
    for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i);
  }
  ~Call() {
    if (context.site != nullptr) registered[context.type - 1]->deleter(context.site);
  }

  // The message of the error, empty where there was none.
  std::string run(Handler* handler) {
    std::vector<ByteSpan> keys, values;
    for (const auto& [key, value] : attributes)
      keys.push_back({key.data(), key.size()}), values.push_back({value.data(), value.size()});
    std::vector<ByteSpan*> key_pointers;
    std::vector<void*> value_pointers;
    std::vector<AttributeType> types(keys.size(), AttributeType::string);
    for (std::size_t i = 0; i < keys.size(); ++i)
      key_pointers.push_back(&keys[i]), value_pointers.push_back(&values[i]);
    Buffer buffers[] = {{sizeof(Buffer), nullptr, dtype, x, 1, &size}, {sizeof(Buffer), nullptr, dtype, y, 1, &size}};
    std::int64_t count = static_cast<std::int64_t>(words.size());
    const auto bits = static_cast<DataType>(arch::info(launch::Element::u32).xla);
    Buffer scalars{sizeof(Buffer), nullptr, bits, words.data(), 1, &count};
    void* arguments[] = {&scalars, &buffers[0]};
    void* outputs[] = {&buffers[1]};
    std::int32_t kinds[] = {buffer_type, buffer_type};
    CallFrame frame{};
    frame.struct_size = sizeof frame;
    frame.api = &api();
    frame.context = &context;
    frame.arguments = {sizeof(Values), nullptr, as_argument ? 2 : 1, kinds, arguments + (as_argument ? 0 : 1)};
    frame.results = {sizeof(Values), nullptr, results, kinds, outputs};
    frame.attributes = {
        sizeof(Attributes),   nullptr, static_cast<std::int64_t>(keys.size()), types.data(), key_pointers.data(),
        value_pointers.data()};
    const std::unique_ptr<Error> error(handler(&frame));
    return error ? error->message : std::string();
  }
  std::string run_all() {
    for (Handler* stage : {handlers.instantiate, handlers.initialize, handlers.execute})
      if (std::string why = run(stage); !why.empty()) return why;
    return {};
  }

  Handlers handlers;
  bool as_argument;
  std::vector<std::uint32_t> words;
  std::map<std::string, std::string> attributes;
  ExecutionContext context;
  alignas(64) float x[32], y[32] = {};
  std::int64_t size = 32, results = 1;
  DataType dtype = static_cast<DataType>(arch::info(launch::Element::f32).xla);
};

}  // namespace

TEST_CASE("handlers say what they are") {
  CHECK((xla::handlers("tpu").execute == nullptr));
  for (const bool values : {false, true}) {
    const Handlers all = xla::handlers(values ? "CUDA" : "cpu", values);
    for (Handler* handler : {all.instantiate, all.initialize, all.execute}) {
      Metadata metadata{};
      metadata.struct_size = sizeof metadata;
      MetadataExtension asked{{sizeof(MetadataExtension), ExtensionType::metadata, nullptr}, &metadata};
      CallFrame frame{};
      frame.extensions = &asked.base;
      CHECK((handler(&frame) == nullptr));
      CHECK(metadata.version.major == 0);
      CHECK(metadata.version.minor == 3);
      CHECK(metadata.traits == (values ? 0 : command_buffer_compatible));
    }
  }
}

TEST_CASE("cpu: the simulator runs the kernel on XLA's buffers") {
  Call call("cpu");
  CHECK(call.run_all() == "");
  CHECK(call.y[31] == 62.0f);
  CHECK(std::count(names.begin(), names.end(), "pyptx.Site.cpu") == 1);
  Call again("cpu");
  CHECK(again.run(again.handlers.instantiate) == "");
  CHECK(again.run(again.handlers.execute) == "");  // where a platform has no such stage as initialize
  CHECK(again.y[31] == 62.0f);
  CHECK(std::count(names.begin(), names.end(), "pyptx.Site.cpu") == 1);
}

TEST_CASE("CUDA: loaded once a device, launched on XLA's stream") {
  Fake fake;
  Call call("CUDA"), other("CUDA");
  const std::string why = call.run_all();
  REQUIRE_MESSAGE(why == "", why);
  std::string journal = fake.journal();
  CHECK(has(journal, "load"));
  CHECK(has(journal, "launch 1"));
  CHECK(has(journal, cat("stream ", 0x77)));
  CHECK(call.run(call.handlers.execute) == "");
  CHECK(other.run_all() == "");  // another site of the same content
  journal = fake.journal();
  CHECK_FALSE(has(journal, "load"));
  CHECK(has(journal, "launch 1"));
  call.context.ordinal = 64;
  CHECK(has(call.run(call.handlers.execute), "no GPUs beyond 62"));
}

TEST_CASE("one content on the GPU and on the CPU has a plan for each") {
  Fake fake;
  Call gpu("CUDA");
  REQUIRE(gpu.run_all() == "");
  Call cpu("cpu");
  CHECK(cpu.run_all() == "");
  CHECK(cpu.y[31] == 62.0f);
}

TEST_CASE("scalars as an argument: another value is no other program") {
  for (const char* platform : {"cpu", "CUDA"}) {
    Fake fake;
    Call call(platform, true);
    for (const float factor : {3.0f, 4.0f}) {
      call.words = {std::bit_cast<std::uint32_t>(factor), 0};
      const std::string why = factor == 3 ? call.run_all() : call.run(call.handlers.execute);
      REQUIRE_MESSAGE(why == "", why);
      if (platform == std::string_view("cpu"))
        CHECK(call.y[31] == 31 * factor);
      else
        CHECK(has(fake.journal(), "fetch 8"));
    }
    call.words = {1};
    CHECK(has(call.run(call.handlers.execute), "passes no scalars of the kernel"));
    call.attributes["scalars"] = "12345678";
    CHECK(has(call.run(call.handlers.instantiate), "other scalars"));
  }
}

TEST_CASE("programs that do not hold together are errors") {
  const auto refused = [](std::string_view part, auto change) {
    Call call("cpu");
    change(call);
    const std::string why = call.run_all();
    CHECK_MESSAGE(has(why, part), why);
  };
  refused("has the attributes", [](Call& c) { c.attributes.erase("ptx"); });
  refused("has the attributes", [](Call& c) { c.attributes["scalars"] = "odd"; });
  refused("PTX4114", [](Call& c) { c.attributes["record"] = "nonsense"; });
  refused("other scalars", [](Call& c) { c.attributes["scalars"] = "12345678"; });
  refused("in the kernel twice", [](Call& c) { c.attributes["ptx"] = "text"; });
  refused("takes 2 results of a kernel with 1 and 1", [](Call& c) { c.results = 2; });
  refused("argument `X` is of a type", [](Call& c) { c.dtype = static_cast<DataType>(18); });
  refused("argument `X`", [](Call& c) { c.dtype = static_cast<DataType>(arch::info(launch::Element::s32).xla); });
  refused("argument `X`", [](Call& c) { c.size = 31; });
  Call unmade("cpu");
  CHECK(unmade.run(unmade.handlers.execute) == "no state of this type");
}

TEST_CASE("an input that is written in place lies where its result does") {
  Call call("cpu");
  call.attributes["in_place"] = std::string(1, '\0');
  call.attributes["record"] = [] {
    launch::Record made = record();
    made.tensors.pop_back(), made.parameters[1].source = 0;
    return launch::serialise(made);
  }();
  CHECK(has(call.run_all(), "argument 0 is written in place, but its result lies elsewhere"));
}
