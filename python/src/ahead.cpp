// Kernels as C sources: what the face has traced and assembled, to files' names and texts.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ptx/ahead/source.h"
#include "ptx/interop/program.h"
#include "python/src/launch.h"

namespace ptx::python {
namespace {

using Boxes = std::vector<std::array<std::string, 5>>;
using Images = std::vector<std::tuple<std::string, nb::bytes, bool>>;
using Variant =
    std::tuple<const launch::Record*, std::map<std::string, std::int64_t>, std::array<std::string, 3>, Boxes, Images>;

ahead::Variant variant_of(const Variant& given) {
  const auto& [record, sizes, grid, boxes, images] = given;
  ahead::Variant made{*record, {sizes.begin(), sizes.end()}, grid, boxes, {}};
  for (const auto& [target, bytes, text] : images) {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.c_str());
    made.images.push_back({target, {begin, begin + bytes.size()}, text});
  }
  return made;
}

std::vector<std::pair<std::string, std::string>> c_sources(std::string name, std::string title,
                                                           const std::vector<Variant>& variants,
                                                           std::vector<std::string> sizes,
                                                           std::map<std::string, std::string> fixed,
                                                           const std::vector<std::string>& flavours) {
  ahead::Kernel kernel{std::move(name), std::move(title), {}, std::move(sizes), std::move(fixed)};
  for (const Variant& each : variants) kernel.variants.push_back(variant_of(each));
  std::vector<ahead::Flavour> asked;
  for (const std::string& each : flavours) asked.push_back(value_or_raise(ahead::flavour_named(each)));
  std::vector<std::pair<std::string, std::string>> files;
  for (ahead::File& file : value_or_raise(ahead::write(kernel, asked)))
    files.emplace_back(std::move(file.name), std::move(file.text));
  return files;
}

// (name, target, (name, bytes) of each parameter) of an .entry of PTX text.
nb::tuple ptx_entry(const std::string& text, const std::string& file, const std::string& name) {
  try {
    const interop::Entry entry(text, name, file);
    nb::list parameters;
    for (const launch::Declared& each : entry.parameters) parameters.append(nb::make_tuple(each.name, each.bytes));
    return nb::make_tuple(entry.name, entry.target, parameters);
  } catch (const author::Refused& refused) {
    if (refused.why().front().code == Code::no_such_entry) throw nb::value_error(refused.why().front().message.c_str());
    raise(Phase::parse, refused.why());
  }
}

}  // namespace

void init_ahead(nb::module_& m) {
  m.def(
      "c_sources", &c_sources, nb::arg("name"), nb::arg("title"), nb::arg("variants"), nb::arg("sizes"),
      nb::arg("fixed"), nb::arg("flavours"),
      "(name, text) of each file of a kernel as C. A variant is a record, the sizes that it is for, grid and boxes as "
      "expressions of C, and (target, bytes, whether they are text) of each image");
  m.def("ptx_entry", &ptx_entry, nb::arg("text"), nb::arg("file"), nb::arg("entry"),
        "(name, target, (name, bytes) of each parameter) of an .entry of this name, or of the only one");
}

}  // namespace ptx::python
