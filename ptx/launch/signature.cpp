#include "ptx/launch/signature.h"

#include <algorithm>

#include "ptx/arch/element.h"
#include "ptx/base/text.h"

namespace ptx::launch {
namespace {

constexpr std::string_view map_suffix = "_tma_desc";

template <class... Pieces>
Diagnostic refused(const Pieces&... pieces) {
  return Diagnostic(Code::parameter_layout, Place{}, cat(pieces...));
}

Argument tensor_argument(std::string name, Element element, std::initializer_list<Size> shape, bool output) {
  Argument made;
  made.tensor = {std::move(name), element, {shape.begin(), shape.end()}, arch::alignment(element), output, false};
  return made;
}

// The argument that a parameter carries, by its name; null where none does.
const Argument* carried(const Signature& signature, std::string_view name) {
  const auto found =
      std::find_if(signature.begin(), signature.end(), [&](const Argument& a) { return a.name() == name; });
  return found == signature.end() ? nullptr : &*found;
}

bool is_map(std::string_view name) { return name.ends_with(map_suffix); }

std::string_view mapped(std::string_view name) { return name.substr(0, name.size() - map_suffix.size()); }

Expected<Done> append_declared(Record& record, const Signature& signature, const Declared& declared) {
  const Argument* argument = carried(signature, declared.name);
  if (argument == nullptr && is_map(declared.name)) {
    argument = carried(signature, mapped(declared.name));
    if (argument == nullptr || argument->boxes.empty())
      return refused("the kernel takes a tensor map of `", mapped(declared.name),
                     "`; the signature must give its box: tensor(...).boxed({...})");
    return add_tensor_map(record, argument->name(), argument->boxes.front());
  }
  if (argument == nullptr)
    return refused("parameter `", declared.name, "` of the kernel is no argument of the signature");
  const bool is_tensor = argument->kind == Argument::Kind::tensor;
  const Expected<std::uint32_t> size = is_tensor ? Expected<std::uint32_t>(8u) : scalar_bytes(argument->type);
  if (!size) return size.why();
  if (declared.bytes != *size)
    return refused("parameter ", declared.name, " has ", declared.bytes, " bytes, the signature's ",
                   is_tensor ? "tensor is an address of " : argument->type, is_tensor ? "8" : cat(" has ", *size));
  const auto kind = is_tensor ? Parameter::Kind::tensor : Parameter::Kind::scalar;
  std::uint32_t source = 0;
  for (const Argument* a = signature.data(); a != argument; ++a) source += a->kind == argument->kind ? 1 : 0;
  append(record, {kind, declared.name, 0, declared.bytes, source}, declared.alignment);
  return Done{};
}

}  // namespace

Argument tensor(std::string name, Element element, std::initializer_list<Size> shape) {
  return tensor_argument(std::move(name), element, shape, false);
}

Argument output(std::string name, Element element, std::initializer_list<Size> shape) {
  return tensor_argument(std::move(name), element, shape, true);
}

Argument scalar(std::string name, std::string type) {
  Argument made;
  made.kind = Argument::Kind::scalar;
  made.tensor.name = std::move(name);
  made.type = std::move(type);
  return made;
}

Expected<Record> make_record(const Signature& signature, const std::vector<Declared>& parameters, const Shape& shape) {
  Record record;
  record.grid = shape.grid, record.block = shape.block, record.cluster = shape.cluster;
  record.attributes = shape.attributes;
  record.assembler = shape.assembler;
  for (const Argument& argument : signature) {
    const auto carries = [&](const Declared& p) {
      return p.name == argument.name() || (is_map(p.name) && mapped(p.name) == argument.name());
    };
    if (std::none_of(parameters.begin(), parameters.end(), carries)) {
      std::string names;
      for (const Declared& p : parameters) names += cat(names.empty() ? "" : ", ", "`", p.name, "`");
      return refused("argument `", argument.name(), "` of the signature is no parameter of the kernel",
                     names.empty() ? ", which has none" : cat("; it has ", names));
    }
    if (carried(signature, argument.name()) != &argument)
      return refused("two arguments of the signature have the name `", argument.name(), "`");
    if (argument.kind == Argument::Kind::tensor)
      record.tensors.push_back(argument.tensor);
    else
      record.scalars.push_back({argument.name(), argument.type});
  }
  for (const Declared& declared : parameters)
    if (const auto done = append_declared(record, signature, declared); !done) return done.why();
  return record;
}

Expected<Element> element_named(std::string_view wanted) {
  if (const auto found = arch::element_named(wanted)) return *found;
  return refused("`", wanted, "` is no element type of tensors");
}

Expected<std::uint32_t> scalar_bytes(std::string_view type) {
  if (type == "pred") return 1u;
  if (type == "bf16") return 2u;
  for (const std::uint32_t bits : {8u, 16u, 32u, 64u})
    if (!type.empty() && std::string_view("usbf").find(type[0]) != type.npos && type.substr(1) == cat(bits))
      return bits / 8;
  return refused("`", type,
                 "` is no type of a scalar parameter; types are u, s, b or f with 8, 16, 32 or 64 bits, bf16, pred");
}

void add_tensor(Record& record, TensorArgument tensor, bool parameter) {
  const std::string name = tensor.name;
  record.tensors.push_back(std::move(tensor));
  if (parameter)
    append(record, {Parameter::Kind::tensor, name, 0, 8, static_cast<std::uint32_t>(record.tensors.size() - 1)});
}

Expected<Done> add_scalar(Record& record, std::string name, std::string type, std::uint32_t alignment) {
  const auto size = scalar_bytes(type);
  if (!size) return size.why();
  append(record, {Parameter::Kind::scalar, name, 0, *size, static_cast<std::uint32_t>(record.scalars.size())},
         alignment);
  record.scalars.push_back({std::move(name), std::move(type)});
  return Done{};
}

Expected<Done> add_tensor_map(Record& record, std::string_view tensor, TensorMapRecipe recipe) {
  const auto is_it = [&](const TensorArgument& argument) { return argument.name == tensor; };
  const auto found = std::find_if(record.tensors.begin(), record.tensors.end(), is_it);
  if (found == record.tensors.end()) return refused("no tensor `", tensor, "` to make a map of");
  if (recipe.rank == 0 || recipe.rank > recipe.box.size())
    return refused("a tensor map has rank 1 to ", recipe.box.size(), ", that of `", tensor, "` has ", recipe.rank);
  recipe.tensor = static_cast<std::uint32_t>(found - record.tensors.begin());
  found->alignment = std::max(found->alignment, 16u);
  append(record, {Parameter::Kind::tensor_map, cat(tensor, map_suffix), 0, 128,
                  static_cast<std::uint32_t>(record.tensor_maps.size())});
  record.tensor_maps.push_back(recipe);
  return Done{};
}

Expected<Done> repeat(Record& record, std::uint32_t copies, int axis) {
  std::uint32_t& grid = axis == 0 ? record.grid.x : axis == 1 ? record.grid.y : record.grid.z;
  if (grid != 1)
    return refused(record.entry, ": the axis of the grid that counts the batch is ", grid,
                   " blocks long in a single call; it must be 1");
  if (!record.tensor_maps.empty()) return refused(record.entry, ": a tensor map cannot describe a batch of tensors");
  grid = copies;
  for (TensorArgument& tensor : record.tensors) tensor.shape.insert(tensor.shape.begin(), {copies, {}});
  return Done{};
}

}  // namespace ptx::launch
