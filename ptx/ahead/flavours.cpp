// Libraries of frameworks around NAME_call: each file is what the framework has to be told, and nothing of pyptx.
#include <algorithm>
#include <iterator>

#include "ptx/ahead/detail/exported.h"
#include "ptx/base/text.h"
#include "ptx/interop/plan.h"
#include "ptx/launch/signature.h"

namespace ptx::ahead {
namespace {

using launch::ScalarArgument;
using launch::TensorArgument;

// What the frameworks write of one scalar: they have 64-bit integers, floats of 64 bits, and truth values.
enum class Kind { integer, real, truth };

Kind kind_of(const ScalarArgument& scalar) {
  return scalar.type == "pred" ? Kind::truth : scalar.type[0] == 'f' ? Kind::real : Kind::integer;
}

std::string_view passed(const ScalarArgument& scalar) {
  constexpr std::string_view types[] = {"int64_t", "double", "bool"};
  return types[static_cast<int>(kind_of(scalar))];
}

std::string converted(const ScalarArgument& scalar) {
  if (kind_of(scalar) != Kind::integer) return cat("static_cast<", c_type(scalar.type), ">(", scalar.name, ")");
  return cat("fits<", c_type(scalar.type), ">(", scalar.name, ", \"", scalar.name, "\")");
}

// The arguments of NAME_call behind the tensors.
std::string behind(const Exported& exported, bool typed = false) {
  std::string made;
  for (const ScalarArgument& scalar : exported.scalars) made += cat(", ", typed ? scalar.name : converted(scalar));
  return made;
}

std::string head(const Exported& exported, std::string_view what, std::string_view includes) {
  return cat("// Written by pyptx ", PTX_VERSION, ": ", exported.title, " ", what, "\n#include \"",
             exported.kernel.name, ".h\"\n\n", includes, "\n");
}

bool any_integer(const Exported& exported) {
  return std::ranges::any_of(exported.scalars, [](const auto& each) { return kind_of(each) == Kind::integer; });
}

// A number that has to be one of a narrower type; `refuse` is a statement that throws.
std::string fits(const Exported& exported, std::string_view refuse) {
  if (!any_integer(exported)) return {};
  return cat(
      "template <class T>\nT fits(int64_t value, const char *name) {\n"
      "  const bool negative = value < 0 && !std::is_signed_v<T>;\n"
      "  if (negative || static_cast<int64_t>(static_cast<T>(value)) != value) ",
      refuse, "\n  return static_cast<T>(value);\n}\n\n");
}

// The lines of a switch from a framework's element types to DLPack's.
template <class Name>
std::string cases(Name name) {
  Text text;
  std::vector<std::string> seen;
  for (const arch::ElementInfo& row : arch::element_table) {
    const std::string label = name(row);
    if (label.empty() || std::ranges::find(seen, label) != seen.end()) continue;
    seen.push_back(label);
    const auto element = static_cast<arch::Element>(&row - arch::element_table);
    text << "    case " << label << ": return " << literal(interop::spell(element)) << ";\n";
  }
  text << "    default: return {255, 0, 1};\n";
  return text.take();
}

std::string views(const Exported& exported) {
  std::string made;
  for (const TensorArgument& tensor : exported.record.tensors)
    made += cat("  const PtxTensor view_", tensor.name, " = view(", tensor.name, ");\n");
  return made;
}

std::string addresses(const Exported& exported) {
  std::vector<std::string> made;
  for (const TensorArgument& tensor : exported.record.tensors) made.push_back(cat("&view_", tensor.name));
  return join(made);
}

// --- torch ---

// The enumerator of torch::headeronly::ScalarType that torch.NAME is; those of narrow floats are the names themselves.
std::string scalar_type(std::string_view framework) {
  struct Row {
    std::string_view framework, enumerator;
  };
  constexpr Row rows[] = {
      {"uint8", "Byte"},        {"uint16", "UInt16"}, {"uint32", "UInt32"},  {"uint64", "UInt64"}, {"int8", "Char"},
      {"int16", "Short"},       {"int32", "Int"},     {"int64", "Long"},     {"bool", "Bool"},     {"float16", "Half"},
      {"bfloat16", "BFloat16"}, {"float32", "Float"}, {"float64", "Double"},
  };
  if (framework.starts_with("float8_") || framework.ends_with("_x2")) return cat("ScalarType::F", framework.substr(1));
  const auto found = std::ranges::find(rows, framework, &Row::framework);
  return found == std::end(rows) ? std::string() : cat("ScalarType::", found->enumerator);
}

struct TorchOp {
  const Exported& exported;
  std::vector<const TensorArgument*> inputs, outputs;
  std::vector<std::string> sizes;  // of outputs alone: arguments of the operator

  explicit TorchOp(const Exported& exported) : exported(exported) {
    for (const TensorArgument& tensor : exported.record.tensors) (tensor.output ? outputs : inputs).push_back(&tensor);
    for (const std::string& size : exported.sizes)
      if (source_of(size).empty()) sizes.push_back(size);
  }

  // What gives a size: a dimension of an input; nothing where an output alone has it.
  std::string source_of(std::string_view size) const {
    for (const TensorArgument* tensor : inputs)
      for (std::size_t i = 0; i < tensor->shape.size(); ++i)
        if (tensor->shape[i].size < 0 && tensor->shape[i].symbol == size) return cat(tensor->name, ".size(", i, ")");
    return {};
  }

  Expected<Done> check() const {
    if (inputs.empty()) return refused(cat("torch: ", exported.title, " has no input, which would say the device"));
    for (const TensorArgument* tensor : outputs) {
      if (tensor->column_major)
        return refused(cat("torch: `", tensor->name, "` is column-major; torch makes outputs in row-major order"));
      if (scalar_type(arch::info(tensor->element).framework).empty())
        return refused(
            cat("torch: torch has no tensors of ", arch::name(tensor->element), " to make `", tensor->name, "` of"));
    }
    return Done{};
  }

  std::string result() const {
    if (outputs.empty()) return "void";
    if (outputs.size() == 1) return "Tensor";
    return cat("std::tuple<", join(std::vector<std::string>(outputs.size(), "Tensor")), ">");
  }

  // "Tensor X, Tensor(a!) Y, int n, float alpha"
  std::string schema() const {
    std::vector<std::string> made;
    char alias = 'a';
    for (const TensorArgument* tensor : inputs)
      made.push_back(tensor->written ? cat("Tensor(", alias++, "!) ", tensor->name) : cat("Tensor ", tensor->name));
    for (const std::string& size : sizes) made.push_back(cat("int ", size));
    constexpr std::string_view types[] = {"int ", "float ", "bool "};
    for (const auto& each : exported.scalars) made.push_back(cat(types[static_cast<int>(kind_of(each))], each.name));
    const std::string one =
        outputs.size() == 1 ? "Tensor" : cat("(", join(std::vector<std::string>(outputs.size(), "Tensor")), ")");
    return cat(exported.kernel.name, "(", join(made), ") -> ", one);
  }

  std::string parameters(bool meta) const {
    std::vector<std::string> made;
    for (const TensorArgument* tensor : inputs) {
      const bool read =
          std::ranges::any_of(outputs, [&](const TensorArgument* output) { return uses(*output, *tensor); });
      made.push_back(cat(meta && !read ? "[[maybe_unused]] " : "", "const Tensor &", tensor->name));
    }
    for (const std::string& size : sizes) made.push_back(cat("int64_t ", size));
    for (const auto& each : exported.scalars)
      made.push_back(cat(meta ? "[[maybe_unused]] " : "", passed(each), " ", each.name));
    return join(made);
  }

  // Whether the allocation of an output looks at an input.
  bool uses(const TensorArgument& output, const TensorArgument& input) const {
    if (&input == inputs.front()) return true;
    return std::ranges::any_of(output.shape, [&](const launch::Dimension& each) {
      return each.size < 0 && source_of(each.symbol).starts_with(cat(input.name, ".size("));
    });
  }

  std::string allocations() const {
    Text text;
    for (const TensorArgument* tensor : inputs)
      if (std::ranges::any_of(outputs, [&](const TensorArgument* output) { return uses(*output, *tensor); }))
        text << "  STD_TORCH_CHECK(" << tensor->name << ".dim() == " << tensor->shape.size() << ", \"" << exported.title
             << ": " << tensor->name << " has rank " << tensor->shape.size() << ", not \", " << tensor->name
             << ".dim());\n";
    for (const TensorArgument* tensor : outputs) {
      std::vector<std::string> shape;
      for (const launch::Dimension& each : tensor->shape) {
        const std::string source = each.size < 0 ? source_of(each.symbol) : cat(each.size);
        shape.push_back(source.empty() ? each.symbol : source);
      }
      text << "  const Tensor " << tensor->name << " = torch::stable::new_empty(" << inputs.front()->name << ", {"
           << join(shape) << "}, " << scalar_type(arch::info(tensor->element).framework) << ");\n";
    }
    return text.take();
  }

  std::string returned() const {
    std::vector<std::string> names;
    for (const TensorArgument* tensor : outputs) names.push_back(tensor->name);
    if (names.empty()) return {};
    return names.size() == 1 ? cat("  return ", names[0], ";\n") : cat("  return {", join(names), "};\n");
  }
};

Expected<std::string> torch(const Exported& exported) {
  const TorchOp op(exported);
  if (const auto done = op.check(); !done) return done.why();
  const std::string& name = exported.kernel.name;
  const std::string_view first = op.inputs.front()->name;
  return cat(head(exported, cat("as torch.ops.ptx.", name, ", over torch's stable ABI (torch 2.11 or later)."),
                  "#include <dlfcn.h>\n#include <torch/csrc/inductor/aoti_torch/c/shim.h>\n#include "
                  "<torch/csrc/stable/library.h>\n"
                  "#include <torch/csrc/stable/ops.h>\n#include <torch/csrc/stable/tensor.h>\n\n"
                  "#include <algorithm>\n#include <tuple>\n#include <type_traits>\n"),
             R"(#ifndef PTX_NAMESPACE
#define PTX_NAMESPACE ptx
#endif

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

PtxType type_of(const Tensor &tensor) {
  switch (tensor.scalar_type()) {
)",
             cases([](const arch::ElementInfo& row) { return scalar_type(row.framework); }), R"(  }
}

PtxTensor view(const Tensor &tensor) {
  return {tensor.data_ptr(), tensor.is_cuda() ? 2 : tensor.is_cpu() ? 1 : 0, std::max(tensor.get_device_index(), 0),
          static_cast<int32_t>(tensor.dim()), type_of(tensor), tensor.sizes().data(), tensor.strides().data(), 0};
}

void *stream_of(const Tensor &tensor) {
  if (!tensor.is_cuda()) return nullptr;
  // A torch without CUDA has no such function, and its library is loaded where a tensor is on a GPU.
  using CurrentStream = AOTITorchError (*)(int32_t device, void **stream);
  static const auto current = reinterpret_cast<CurrentStream>(
      dlsym(dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD), "aoti_torch_get_current_cuda_stream"));
  STD_TORCH_CHECK(current != nullptr, "libtorch_cuda.so does not say what its current stream is");
  void *stream = nullptr;
  TORCH_ERROR_CODE_CHECK(current(tensor.get_device_index(), &stream));
  return stream;
}

)",
             fits(exported,
                  cat("STD_TORCH_CHECK(false, \"", exported.title, ": \", name, \" = \", value, \" does not fit\");")),
             op.result(), " run(", op.parameters(false), ") {\n", op.allocations(), views(exported),
             "  STD_TORCH_CHECK(", name, "_call(", addresses(exported), behind(exported), ", stream_of(", first,
             ")) == 0, ", name, "_error());\n", op.returned(),
             "}\n\n// What torch.export and torch.compile ask: the outputs' shapes.\n", op.result(), " shapes(",
             op.parameters(true), ") {\n", op.allocations(), op.returned(), "}\n\n}  // namespace\n\n",
             "STABLE_TORCH_LIBRARY_FRAGMENT(PTX_NAMESPACE, library) { library.def(\"", op.schema(), "\"); }\n",
             "STABLE_TORCH_LIBRARY_IMPL(PTX_NAMESPACE, CUDA, library) { library.impl(\"", name,
             "\", TORCH_BOX(&run)); }\n", "// Which says that the tensors are not on a GPU.\n",
             "STABLE_TORCH_LIBRARY_IMPL(PTX_NAMESPACE, CPU, library) { library.impl(\"", name,
             "\", TORCH_BOX(&run)); }\n", "STABLE_TORCH_LIBRARY_IMPL(PTX_NAMESPACE, Meta, library) { library.impl(\"",
             name, "\", TORCH_BOX(&shapes)); }\n");
}

// --- XLA ---

Expected<std::string> xla(const Exported& exported) {
  std::vector<std::string> parameters;
  std::string bindings;
  for (const TensorArgument& tensor : exported.record.tensors) {
    if (tensor.column_major)
      return refused(cat("xla: `", tensor.name, "` is column-major; XLA's buffers are row-major here"));
    if (!tensor.output && tensor.written)
      return refused(cat("xla: the kernel may write its input `", tensor.name,
                         "`, and XLA's values are not written: make it an output, or say that it is only read"));
    parameters.push_back(cat(tensor.output ? "ffi::Result<ffi::AnyBuffer> " : "ffi::AnyBuffer ", tensor.name));
    bindings += tensor.output ? ".Ret<ffi::AnyBuffer>()" : ".Arg<ffi::AnyBuffer>()";
  }
  for (const ScalarArgument& scalar : exported.scalars) {
    const std::string type = kind_of(scalar) == Kind::truth ? "bool" : c_type(scalar.type);
    parameters.push_back(cat(type, " ", scalar.name));
    bindings += cat(".Attr<", type, ">(\"", scalar.name, "\")");
  }
  Text views;
  for (const TensorArgument& tensor : exported.record.tensors)
    views << "  const PtxTensor view_" << tensor.name << " = view(" << (tensor.output ? "*" : "") << tensor.name
          << ", device);\n";
  const std::string& name = exported.kernel.name;
  return cat(
      head(exported, cat("as a handler of XLA's FFI, ", name, "_xla: jax.ffi.register_ffi_target."),
           "#include \"xla/ffi/api/ffi.h\"\n"),
      R"(namespace {

namespace ffi = xla::ffi;

PtxType type_of(ffi::DataType type) {
  switch (static_cast<int>(type)) {
)",
      cases([](const arch::ElementInfo& row) { return row.xla == arch::no_code ? std::string() : cat(row.xla); }),
      R"(  }
}

PtxTensor view(const ffi::AnyBuffer &buffer, int32_t device) {
  return {buffer.untyped_data(), PTX_DEVICE_TYPE, device, static_cast<int32_t>(buffer.dimensions().size()),
          type_of(buffer.element_type()), buffer.dimensions().begin(), nullptr, 0};
}

#if PTX_DEVICE_TYPE == 2
#define PLACE int32_t device, void *stream,
#define BIND_PLACE .Ctx<ffi::DeviceOrdinal>().Ctx<ffi::PlatformStream<void *>>()
#else  // XLA's CPU has no stream
#define PLACE
#define BIND_PLACE
constexpr int32_t device = 0;
void *const stream = nullptr;
#endif

)",
      "ffi::Error run(PLACE ", join(parameters), ") {\n", views.view(), "  if (", name, "_call(", addresses(exported),
      behind(exported, true), ", stream) == 0) return ffi::Error::Success();\n  return ffi::Error::Internal(", name,
      "_error());\n}\n\n}  // namespace\n\nXLA_FFI_DEFINE_HANDLER_SYMBOL(", name,
      "_xla, run, ffi::Ffi::Bind() BIND_PLACE", bindings, ");\n");
}

// --- apache-tvm-ffi ---

std::string tvm(const Exported& exported) {
  std::vector<std::string> parameters;
  Text views;
  for (const TensorArgument& tensor : exported.record.tensors) {
    parameters.push_back(cat("DLTensor *", tensor.name));
    views << (views.size() == 0 ? "" : ", ") << "reinterpret_cast<const PtxTensor *>(" << tensor.name << ")";
  }
  for (const ScalarArgument& scalar : exported.scalars) parameters.push_back(cat(passed(scalar), " ", scalar.name));
  const std::string& name = exported.kernel.name;
  const std::string_view first = exported.record.tensors.front().name;
  return cat(head(exported, cat("as a function of a module of apache-tvm-ffi, ", name, "; outputs are the caller's."),
                  "#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/tvm_ffi.h>\n\n#include <type_traits>\n"),
             "namespace {\n\nstatic_assert(sizeof(DLTensor) == sizeof(PtxTensor));\n\n",
             fits(exported, cat("TVM_FFI_THROW(ValueError) << \"", exported.title,
                                ": \" << name << \" = \" << value << \" does not fit\";")),
             "void run(", join(parameters), ") {\n  void *const stream = TVMFFIEnvGetStream(", first,
             "->device.device_type, ", first, "->device.device_id);\n  if (", name, "_call(", views.view(),
             behind(exported), ", stream) != 0) TVM_FFI_THROW(ValueError) << ", name,
             "_error();\n}\n\n}  // namespace\n\n", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(", name, ", run)\n");
}

}  // namespace

Expected<Flavour> flavour_named(std::string_view name) {
  if (name == "torch") return Flavour::torch;
  if (name == "xla") return Flavour::xla;
  if (name == "tvm") return Flavour::tvm;
  return refused(cat("a flavour is torch, xla or tvm, not '", name, "'"));
}

Expected<File> flavour(const Exported& exported, Flavour flavour) {
  for (const ScalarArgument& scalar : exported.scalars)
    if (scalar.type == "f16" || scalar.type == "bf16")
      return refused(
          cat("a library of a framework has no scalar of .", scalar.type, ": make `", scalar.name, "` an .f32"));
  const std::string& name = exported.kernel.name;
  if (flavour == Flavour::tvm) return File{cat(name, "_tvm.cpp"), tvm(exported)};
  const bool is_torch = flavour == Flavour::torch;
  auto text = is_torch ? torch(exported) : xla(exported);
  if (!text) return text.why();
  return File{cat(name, is_torch ? "_torch.cpp" : "_xla.cpp"), std::move(text).value()};
}

}  // namespace ptx::ahead
