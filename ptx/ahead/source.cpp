#include "ptx/ahead/source.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "ptx/ahead/detail/exported.h"
#include "ptx/arch/target.h"
#include "ptx/base/text.h"
#include "ptx/cuda/driver.h"
#include "ptx/interop/plan.h"
#include "ptx/launch/limits.h"
#include "ptx/launch/overlap.h"
#include "ptx/launch/signature.h"
#include "ptx/launch/tensor_map.h"

namespace ptx::ahead {

extern const char runtime_text[], maps_text[], call_text[];  // written by CMake

namespace {

using launch::Parameter;
using launch::Record;
using launch::TensorArgument;
using Lines = std::vector<std::string>;

bool is_name(std::string_view text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 && std::ranges::all_of(text, is_part);
}

// Names that an argument cannot have: keywords of C and C++, and what the written functions call.
bool is_taken(std::string_view name) {
  constexpr std::string_view words =
      " alignas alignof and asm auto bool break case catch char class const continue default delete do double else "
      "enum "
      "explicit export extern false float for friend goto if inline int long namespace new not operator or private "
      "protected public register restrict return short signed sizeof static struct switch template this throw true try "
      "typedef typeid typename union unsigned using virtual void volatile while xor "
      "NULL NAME TARGETS DRIVER Code Variant Attribute Config TensorMap MapRecipe MapGeometry fail check find load "
      "lock "
      "bind enter leave encode loaded opened message variants which grid function result parameters attributes count "
      "config stream sizes names memset floor_div floor_mod int64_t shape strides box recipe view launch device run "
      "library ffi before data_of memory why TensorMemory memory_of refuse_overlap ";
  return words.find(cat(" ", name, " ")) != words.npos;
}

// Whether an expression is made of what Expression allows.
Expected<Done> check_expression(const Exported& exported, std::string_view what, std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
      const std::string_view word = text.substr(i, end - i);
      const bool number = std::ranges::all_of(word, [](char d) { return d >= '0' && d <= '9'; });
      if (!number && !exported.is_size(word) && word != "floor_div" && word != "floor_mod" && word != "INT64_C")
        return refused(cat(what, " `", text, "`: `", word, "` is no size; sizes are ",
                           exported.sizes.empty() ? "none" : join(exported.sizes)));
    } else if (std::string_view("+-*/%()?:<>=&|^!, ").find(c) == std::string_view::npos) {
      return refused(cat(what, " `", text, "`: `", c, "` is in no expression of sizes"));
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) break;
    i = end;
  }
  if (depth != 0 || text.empty()) return refused(cat(what, " `", text, "`: parentheses do not match"));
  return Done{};
}

// As a string of C that is a format of printf, too.
std::string escaped(std::string_view text) {
  Text made;
  for (const char c : text) made << (c == '"' || c == '\\' ? "\\" : c == '%' ? "%" : "") << c;
  return made.take();
}

std::string indented(const Lines& lines) {
  Text text;
  for (const std::string& line : lines)
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find('\n', at), line.size());
      text << "  " << std::string_view(line).substr(at, end - at) << '\n';
      at = end + 1;
    }
  return text.take();
}

// A variant's condition: the sizes that it is for.
std::string condition(const Variant& variant) {
  std::vector<std::string> each;
  for (const auto& [name, size] : variant.sizes) each.push_back(cat(name, " == ", size));
  return each.empty() ? "1" : join(each, " && ");
}

std::string made_for(const Kernel& kernel) {
  std::vector<std::string> each;
  for (const Variant& variant : kernel.variants)
    if (!variant.sizes.empty()) each.push_back(condition(variant));
  return each.empty() ? "It takes any sizes." : cat("Sizes that it is made for: ", join(each, "; "), ".");
}

// The same for all variants, or chosen by `which`.
std::string by_variant(const std::vector<std::string>& values) {
  std::string made = values.back();
  for (std::size_t i = values.size() - 1; i-- > 0;)
    if (values[i] != made) made = cat("which == ", i, " ? ", values[i], " : ", made);
  return made;
}

template <class F>
std::string by_variant(const Exported& exported, F value) {
  std::vector<std::string> values;
  for (const Variant& variant : exported.kernel.variants) values.push_back(value(variant));
  return by_variant(values);
}

std::string spell(const launch::Dimension& dimension) {
  return dimension.size < 0 ? dimension.symbol : cat(dimension.size);
}

// --- The header ---

std::string call_declaration(const Exported& exported) {
  std::vector<std::string> made;
  for (const TensorArgument& tensor : exported.record.tensors) made.push_back(cat("const PtxTensor *", tensor.name));
  for (const auto& scalar : exported.scalars) made.push_back(cat(c_type(scalar.type), " ", scalar.name));
  made.push_back("void *stream");
  return cat("int ", exported.kernel.name, "_call(", join(made), ")");
}

bool has_call(const Exported& exported) { return exported.sizes_are_in_shapes() && !exported.record.tensors.empty(); }

std::string header(const Exported& exported) {
  const std::string& name = exported.kernel.name;
  std::string guard = cat(name, "_H");
  std::ranges::transform(guard, guard.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::vector<std::string> declared;
  std::size_t width = 0;
  for (const Argument& each : exported.arguments()) width = std::max(width, each.name.size() + 1);
  Text notes;
  for (const Argument& each : exported.arguments()) {
    declared.push_back(cat("    ", each.declaration));
    notes << " *   " << each.name << std::string(width - each.name.size(), ' ') << each.note << '\n';
  }
  Text text;
  text << "/* " << exported.title << ": a kernel for NVIDIA GPUs, written by pyptx " << PTX_VERSION
       << ".  Link with -ldl -lpthread. */\n#ifndef " << guard << "\n#define " << guard << R"(

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PTX_LAUNCH_ERRORS
#define PTX_LAUNCH_ERRORS
enum {
  PTX_BAD_ARGUMENT = 1, /* a size, an address, strides */
  PTX_NO_DRIVER = 2,
  PTX_NO_CODE = 3, /* for this device */
  PTX_DRIVER_ERROR = 4
};

#ifndef PTX_DEVICE_TYPE
#define PTX_DEVICE_TYPE 2 /* kDLCUDA; tests on an invented driver have another */
#endif

/* DLPack's DLTensor, member for member: cast the address of one. */
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} PtxType;
typedef struct {
  void *data;
  int32_t device_type, device_id, ndim;
  PtxType dtype;
  const int64_t *shape, *strides;
  uint64_t byte_offset;
} PtxTensor;
#endif

/* Launches the kernel in the current CUDA context and returns 0, or one of the errors above.
 *
)" << notes.view()
       << " *\n * Tensors lie in device memory; they are packed, row-major if nothing else is said.  "
       << made_for(exported.kernel) << "\n */\nint " << name << "_launch(\n"
       << join(declared, ",\n") << ");\n";
  if (has_call(exported))
    text << "\n/* The same on the device of the tensors, which say their sizes and strides.  Their types are checked. "
            "*/\n"
         << call_declaration(exported) << ";\n";
  text << "\n/* What the last error of this thread was. */\nconst char *" << name << "_error(void);\n"
       << "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  return text.take();
}

// --- The source ---

std::string array(std::string_view name, const Image& image) {
  Text text;
  text << "__attribute__((aligned(64))) static const unsigned char " << name << "[] = {";
  const std::size_t count = image.bytes.size() + (image.text ? 1 : 0);  // a text ends with a zero
  for (std::size_t i = 0; i < count; ++i)
    text << (i % 32 == 0 ? "\n" : " ") << (i < image.bytes.size() ? static_cast<int>(image.bytes[i]) : 0) << ',';
  text << "};\n";
  return text.take();
}

std::string code_row(std::string_view name, const Image& image) {
  const arch::Architecture* const hardware = arch::architecture(image.target);
  const int number = hardware != nullptr ? hardware->is : 0;
  const char kind = image.text                                                   ? 'p'
                    : image.target.ends_with('a') || image.target.ends_with('f') ? image.target.back()
                                                                                 : 'c';
  return cat("{\"", image.target, "\", ", number / 10, ", ", number % 10, ", '", kind, "', ", name, "}");
}

std::string codes(const Kernel& kernel) {
  Text text, rows;
  for (std::size_t v = 0; v < kernel.variants.size(); ++v) {
    const Variant& variant = kernel.variants[v];
    std::vector<std::string> each;
    for (std::size_t i = 0; i < variant.images.size(); ++i) {
      const std::string name = cat("code_", v, "_", i);
      text << array(name, variant.images[i]);
      each.push_back(code_row(name, variant.images[i]));
    }
    text << "static const Code codes_" << v << "[] = {" << join(each, ",\n  ") << "};\n";
    rows << (v == 0 ? "" : ",") << "\n  {codes_" << v << ", " << variant.images.size() << ", "
         << variant.record.dynamic_shared << ", " << variant.record.cluster.count() << "}";
  }
  text << "static const Variant variants[] = {" << rows.view() << "};\n";
  return text.take();
}

std::string bad(std::string_view condition, std::string_view format, std::string_view values = {}) {
  return cat("if (", condition, ") return fail(PTX_BAD_ARGUMENT, NAME \": ", format, "\"", values, ");");
}

void check_arguments(const Exported& exported, Lines& body) {
  for (const std::string& name : exported.sizes) {
    body.push_back(bad(cat(name, " < 0"), cat(name, " is a size, not %lld"), cat(", (long long)", name)));
    for (const auto& scalar : exported.record.scalars)
      if (const auto bytes = launch::scalar_bytes(scalar.type); scalar.name == name && bytes && *bytes < 8) {
        const std::uint64_t most = (std::uint64_t{1} << (*bytes * 8 - (scalar.type[0] == 's' ? 1 : 0))) - 1;
        body.push_back(bad(cat(name, " > ", most), cat(name, " = %lld does not fit in .", scalar.type),
                           cat(", (long long)", name)));
      }
  }
  for (const TensorArgument& tensor : exported.record.tensors) {
    const std::uint32_t aligned = std::max(tensor.alignment, arch::alignment(tensor.element));
    if (aligned > 1)
      body.push_back(bad(cat("(uintptr_t)", tensor.name, " % ", aligned, " != 0"),
                         cat(tensor.name, " is no multiple of ", aligned, " bytes")));
    if (tensor.strided && !tensor.shape.empty()) {
      const std::string strides = cat(tensor.name, "_strides"), last = cat("[", tensor.shape.size() - 1, "]");
      body.push_back(bad(cat(strides, " == NULL || (", strides, last, " != 1 && ", spell(tensor.shape.back()), " > 1)"),
                         cat("elements of ", tensor.name, "'s innermost dimension lie next to each other")));
      for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i)
        body.push_back(bad(cat(strides, "[", i, "] < 0"), cat("the strides of ", tensor.name, " are not negative")));
    }
  }
}

// Whether the kernel writes to memory that could be another tensor's, or its own twice.
bool may_overlap(const launch::Record& record) {
  const auto written = [&](const TensorArgument& each) {
    return each.output || (each.written && launch::tells_written_inputs(record));
  };
  const auto alone = [&](const TensorArgument& each) { return record.tensors.size() == 1 && !each.strided; };
  return std::ranges::any_of(record.tensors, [&](const auto& each) { return written(each) && !alone(each); });
}

void check_overlaps(const Exported& exported, Lines& body) {
  const std::vector<TensorArgument>& tensors = exported.record.tensors;
  if (!may_overlap(exported.record)) return;
  const bool tells = launch::tells_written_inputs(exported.record);
  std::vector<std::string> places;
  std::string shapes;
  for (const TensorArgument& tensor : tensors) {
    std::vector<std::string> shape;
    for (const launch::Dimension& dimension : tensor.shape) shape.push_back(spell(dimension));
    const interop::DLDataType type = interop::spell(tensor.element);
    shapes += cat("  const int64_t shape_", tensor.name, "[] = {", shape.empty() ? "0" : join(shape), "};\n");
    places.push_back(cat("\n    memory_of(\"", tensor.name, "\", ", tensor.name, ", ", shape.size(), ", shape_",
                         tensor.name, ", ", tensor.strided ? cat(tensor.name, "_strides") : "NULL", ", ",
                         type.bits * type.lanes, ", ", int{tensor.output}, ", ",
                         int{!tensor.output && tells && tensor.written}, ")"));
  }
  body.push_back(cat("{\n", shapes, "  const TensorMemory memory[] = {", join(places, ","),
                     "};\n  char why[overlap_why_bytes];\n  const int which = refuse_overlap(memory, ", tensors.size(),
                     ", \"\", why);\n  if (which != 0) return fail(PTX_BAD_ARGUMENT, NAME \": %s: %s\", "
                     "memory[which - 1].name, why);\n}"));
}

// The variant and the grid, which is none where nothing is to do.
void choose(const Exported& exported, Lines& body) {
  body.push_back("int which = -1;\nint64_t grid[3] = {1, 1, 1};");
  for (std::size_t i = 0; i < exported.kernel.variants.size(); ++i) {
    const Variant& variant = exported.kernel.variants[i];
    body.push_back(cat(i > 0 ? "else " : "", "if (", condition(variant), ") {\n  which = ", i, ";\n  grid[0] = ",
                       variant.grid[0], ", grid[1] = ", variant.grid[1], ", grid[2] = ", variant.grid[2], ";\n}"));
  }
  std::string shown, values;
  for (const std::string& name : exported.sizes) {
    shown += cat(", ", name, " = %lld");
    values += cat(", (long long)", name);
  }
  const launch::Dim3 most = launch::Limits{}.grid;
  body.push_back(bad("which < 0", cat(made_for(exported.kernel), shown), values));
  body.push_back("if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return 0;");
  body.push_back(bad(cat("grid[0] < 0 || grid[0] > ", most.x, " || grid[1] < 0 || grid[1] > ", most.y,
                         " || grid[2] < 0 || grid[2] > ", most.z),
                     "a grid of %lld x %lld x %lld CTAs",
                     ", (long long)grid[0], (long long)grid[1], (long long)grid[2]"));
}

Expected<std::string> map(const Exported& exported, std::size_t index) {
  const launch::TensorMapRecipe& recipe = exported.record.tensor_maps[index];
  const TensorArgument& tensor = exported.record.tensors[recipe.tensor];
  const auto initial = launch::recipe_in_c(recipe, tensor.element);
  if (!initial) return refused(cat(tensor.name, ": ", initial.why().front().message));
  std::vector<std::string> shape, strides, box;
  for (const launch::Dimension& dimension : tensor.shape) shape.push_back(spell(dimension));
  for (std::size_t i = 0; i < shape.size(); ++i)
    strides.push_back(
        i + 1 == shape.size() ? "1" : join({shape.begin() + static_cast<std::ptrdiff_t>(i) + 1, shape.end()}, " * "));
  for (std::size_t i = 0; i < 5; ++i)
    box.push_back(by_variant(exported, [&](const Variant& variant) {
      return variant.boxes.empty() ? cat(variant.record.tensor_maps[index].box[i]) : variant.boxes[index][i];
    }));
  return cat("TensorMap map_", tensor.name, ";\n{\n  static const MapRecipe recipe = ", *initial,
             ";\n  const int64_t shape[] = {", join(shape), "};\n  const int64_t box[] = {", join(box), "};\n",
             tensor.strided ? cat("  const int64_t *const strides = ", tensor.name, "_strides;\n")
                            : cat("  const int64_t strides[] = {", join(strides), "};\n"),
             "  result = encode(&map_", tensor.name, ", \"", tensor.name, "\", &recipe, ", tensor.name, ", ",
             shape.size(), ", shape, strides, box);\n  if (result != 0) return result;\n}");
}

Expected<Done> fill_parameters(const Exported& exported, Lines& body) {
  std::vector<std::string> pointers;
  for (const Parameter& parameter : exported.record.parameters) {
    std::string place;
    if (parameter.kind == Parameter::Kind::tensor) {
      place = exported.record.tensors[parameter.source].name;
    } else if (parameter.kind == Parameter::Kind::tensor_map) {
      const auto made = map(exported, parameter.source);
      if (!made) return made.why();
      body.push_back(*made);
      place = cat("map_", exported.record.tensors[exported.record.tensor_maps[parameter.source].tensor].name);
    } else {
      const launch::ScalarArgument& scalar = exported.record.scalars[parameter.source];
      const auto fixed = exported.kernel.fixed.find(scalar.name);
      place = scalar.name;
      if (const bool size = exported.is_size(scalar.name); size || fixed != exported.kernel.fixed.end()) {
        place = cat("value_", scalar.name);
        body.push_back(cat("const ", c_type(scalar.type), " ", place, " = (", c_type(scalar.type), ")",
                           size ? scalar.name : fixed->second, ";"));
      }
    }
    pointers.push_back(cat("(void *)&", place));
  }
  body.push_back(cat("void *parameters[] = {", pointers.empty() ? "NULL" : join(pointers), "};"));
  return Done{};
}

void configure(const Exported& exported, Lines& body) {
  body.push_back("Attribute attributes[5];\nunsigned count = 0;\nmemset(attributes, 0, sizeof attributes);");
  for (std::size_t i = 0; i < exported.kernel.variants.size(); ++i)
    if (const launch::Dim3 c = exported.kernel.variants[i].record.cluster; c.count() != 1)
      body.push_back(cat("if (which == ", i, ") {\n  attributes[count].id = LAUNCH_CLUSTER;\n",
                         "  attributes[count].value.cluster[0] = ", c.x, ", attributes[count].value.cluster[1] = ", c.y,
                         ", attributes[count].value.cluster[2] = ", c.z, ";\n  ++count;\n}"));
  const launch::Attributes& asked = exported.record.attributes;
  const auto add = [&](std::string_view id, int value) {
    body.push_back(cat("attributes[count].id = ", id, ", attributes[count++].value.number = ", value, ";"));
  };
  if (asked.cooperative) add("LAUNCH_COOPERATIVE", 1);
  if (asked.dependent) add("LAUNCH_DEPENDENT", 1);
  if (asked.priority != 0) add("LAUNCH_PRIORITY", asked.priority);
  if (asked.shared_carveout >= 0) add("LAUNCH_CARVEOUT", asked.shared_carveout);
  const auto block = [&](std::uint32_t launch::Dim3::* axis) {
    return by_variant(exported, [&](const Variant& variant) { return cat(variant.record.block.*axis); });
  };
  body.push_back(
      cat("const Config config = {{(unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]},\n"
          "                       {",
          block(&launch::Dim3::x), ", ", block(&launch::Dim3::y), ", ", block(&launch::Dim3::z),
          "}, (unsigned)variants[which].shared, stream, attributes, count};"));
  body.push_back("return check(cuLaunchKernelEx(&config, function, parameters, NULL), \"cuLaunchKernelEx\");");
}

Expected<std::string> launch_function(const Exported& exported) {
  std::vector<std::string> declared;
  for (const Argument& each : exported.arguments()) declared.push_back(each.declaration);
  Lines body;
  check_arguments(exported, body);
  check_overlaps(exported, body);
  choose(exported, body);
  body.push_back(cat("void *function = NULL;\nint result = find(variants, which, \"", exported.record.entry,
                     "\", &function);\nif (result != 0) return result;"));
  if (const auto done = fill_parameters(exported, body); !done) return done.why();
  configure(exported, body);
  return cat("int ", exported.kernel.name, "_launch(", join(declared), ") {\n", indented(body), "}\n");
}

// What a tensor has to be, as a row of the runtime's table.
void want(const Exported& exported, const TensorArgument& tensor, Lines& body) {
  std::vector<std::string> types, shape;
  for (const auto& type : taken(tensor)) types.push_back(literal(type));
  for (const launch::Dimension& dimension : tensor.shape) {
    const auto at = std::ranges::find(exported.sizes, dimension.symbol) - exported.sizes.begin();
    shape.push_back(cat(dimension.size < 0 ? -1 - static_cast<std::int64_t>(at) : dimension.size));
  }
  body.push_back(cat("static const PtxType types_", tensor.name, "[] = {", join(types), "};"));
  body.push_back(cat("static const int64_t shape_", tensor.name, "[] = {", shape.empty() ? "0" : join(shape), "};"));
  body.push_back(cat("static const Wanted wanted_", tensor.name, " = {\"", tensor.name, "\", \"",
                     arch::name(tensor.element), "\", types_", tensor.name, ", ", types.size(), ", ",
                     tensor.shape.size(), ", shape_", tensor.name, ", ", int{tensor.column_major}, ", ",
                     int{tensor.strided}, "};"));
}

std::string call_function(const Exported& exported) {
  Lines body;
  std::vector<std::string> names, unknown, given;
  const std::vector<TensorArgument>& tensors = exported.record.tensors;
  for (const TensorArgument& tensor : tensors) {
    want(exported, tensor, body);
    if (tensor.strided) body.push_back(cat("int64_t room_", tensor.name, "[", tensor.shape.size(), "];"));
    const Argument argument = exported.arguments()[given.size()];
    const std::string_view declared = argument.declaration;
    given.push_back(cat("(", declared.substr(0, declared.size() - tensor.name.size()), ")data_of(", tensor.name, ")"));
  }
  for (const TensorArgument& tensor : tensors)
    if (tensor.strided) given.push_back(cat("strides_of(", tensor.name, ", room_", tensor.name, ")"));
  for (std::size_t i = 0; i < exported.sizes.size(); ++i) {
    names.push_back(cat("\"", exported.sizes[i], "\""));
    unknown.push_back("-1");
    given.push_back(cat("sizes[", i, "]"));
  }
  for (const auto& scalar : exported.scalars) given.push_back(scalar.name);
  body.push_back(cat("static const char *const names[] = {", names.empty() ? "NULL" : join(names), "};"));
  body.push_back(cat("int64_t sizes[] = {", unknown.empty() ? "0" : join(unknown), "};"));
  body.push_back("void *before = NULL;\nint result = 0;");
  for (const TensorArgument& tensor : tensors) {
    body.push_back(
        cat("if ((result = bind(&wanted_", tensor.name, ", ", tensor.name, ", sizes, names)) != 0) return result;"));
    if (&tensor != &tensors.front())
      body.push_back(bad(cat(tensor.name, "->device_id != ", tensors.front().name, "->device_id"),
                         cat(tensor.name, " is on device %d, ", tensors.front().name, " on %d"),
                         cat(", (int)", tensor.name, "->device_id, (int)", tensors.front().name, "->device_id")));
  }
  body.push_back(cat("if ((result = enter(", tensors.front().name, "->device_id, &before)) != 0) return result;"));
  body.push_back(cat("result = ", exported.kernel.name, "_launch(", join(given), ", stream);"));
  body.push_back("leave(before);\nreturn result;");
  return cat(call_declaration(exported), " {\n", indented(body), "}\n");
}

// Numbers of the driver's enumerations, from the one place that has them.
std::string numbers() {
  using Launch = cuda::CUlaunchAttribute;
  return cat("enum { ATTRIBUTE_MAJOR = ", int{cuda::compute_major}, ", ATTRIBUTE_MINOR = ", int{cuda::compute_minor},
             " };\nenum { FUNCTION_DYNAMIC_SHARED = ", int{cuda::function_max_dynamic_shared},
             ", FUNCTION_NONPORTABLE_CLUSTER = ", int{cuda::function_nonportable_cluster},
             " };\nenum {\n  LAUNCH_COOPERATIVE = ", int{Launch::cooperative},
             ",\n  LAUNCH_CLUSTER = ", int{Launch::cluster_dimension},
             ",\n  LAUNCH_DEPENDENT = ", int{Launch::programmatic_stream_serialization},
             ",\n  LAUNCH_PRIORITY = ", int{Launch::priority}, ",\n  LAUNCH_CARVEOUT = ", int{Launch::shared_carveout},
             "\n};\n");
}

constexpr std::string_view driver_of_maps =
    "#define DRIVER_OF_MAPS(_) \\\n"
    "  _(cuTensorMapEncodeTiled, (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, \\\n"
    "                             const uint32_t *, const uint32_t *, int, int, int, int)) \\\n"
    "  _(cuTensorMapEncodeIm2col, (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, \\\n"
    "                              const int32_t *, const int32_t *, uint32_t, uint32_t, const uint32_t *, int, int, "
    "\\\n"
    "                              int, int))\n";

Expected<std::string> source(const Exported& exported) {
  const bool maps = !exported.record.tensor_maps.empty();
  std::vector<std::string> targets;
  for (const Variant& variant : exported.kernel.variants)
    for (const Image& image : variant.images)
      if (std::ranges::find(targets, image.target) == targets.end()) targets.push_back(image.target);
  Text text;
  text << "/* Written by pyptx " << PTX_VERSION << ": the machine code of " << exported.title
       << ", and what launches it. */\n#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n";
  for (const std::string_view header : {"dlfcn", "pthread", "stdarg", "stddef", "stdint", "stdio", "stdlib", "string"})
    text << "#include <" << header << ".h>\n";
  text << "\n#include \"" << exported.kernel.name << ".h\"\n\n#define NAME \"" << escaped(exported.title)
       << "\"\n#define TARGETS \"" << join(targets) << "\"\n"
       << numbers() << (maps ? driver_of_maps : "#define DRIVER_OF_MAPS(_)\n") << runtime_text;
  if (may_overlap(exported.record)) text << '\n' << launch::overlap_in_c();
  if (maps) text << '\n' << launch::geometry_in_c() << '\n' << maps_text;
  text << '\n' << codes(exported.kernel) << '\n';
  const auto launched = launch_function(exported);
  if (!launched) return launched.why();
  text << *launched;
  if (has_call(exported)) text << '\n' << call_text << '\n' << call_function(exported);
  text << "\nconst char *" << exported.kernel.name << "_error(void) { return message; }\n";
  return text.take();
}

}  // namespace

Diagnostic refused(std::string message) {
  return Diagnostic(Code::parameter_layout, Place{}, cat("export: ", message));
}

std::string join(const std::vector<std::string>& pieces, std::string_view between) {
  Text text;
  for (const std::string& piece : pieces) text << (&piece == &pieces.front() ? "" : between) << piece;
  return text.take();
}

std::string c_type(std::string_view type) {
  if (type == "f32") return "float";
  if (type == "f64") return "double";
  const auto bytes = launch::scalar_bytes(type);
  return cat(type[0] == 's' ? "int" : "uint", bytes ? *bytes * 8 : 16, "_t");
}

std::string literal(const interop::DLDataType& type) {
  return cat("{", int{type.code}, ", ", int{type.bits}, ", ", type.lanes, "}");
}

std::vector<interop::DLDataType> taken(const TensorArgument& tensor) {
  std::vector<interop::DLDataType> made;
  for (std::size_t i = 0; i < arch::element_count; ++i) {
    const auto element = static_cast<arch::Element>(i);
    const interop::DLDataType type = interop::spell(element);
    if (launch::takes(tensor, element) && std::ranges::find(made, type) == made.end()) made.push_back(type);
  }
  return made;
}

Exported::Exported(const Kernel& kernel)
    : kernel(kernel),
      record(kernel.variants.front().record),
      title(kernel.title.empty() ? record.entry : kernel.title),
      sizes(kernel.sizes) {
  if (sizes.empty())
    for (const TensorArgument& tensor : record.tensors)
      for (const launch::Dimension& dimension : tensor.shape)
        if (dimension.size < 0 && !is_size(dimension.symbol)) sizes.push_back(dimension.symbol);
  for (const launch::ScalarArgument& scalar : record.scalars)
    if (!is_size(scalar.name) && !kernel.fixed.contains(scalar.name)) scalars.push_back(scalar);
}

bool Exported::is_size(std::string_view name) const { return std::ranges::find(sizes, name) != sizes.end(); }

bool Exported::sizes_are_in_shapes() const {
  const auto is_dimension = [&](const std::string& size) {
    return std::ranges::any_of(record.tensors, [&](const TensorArgument& tensor) {
      return std::ranges::any_of(tensor.shape, [&](const auto& each) { return each.size < 0 && each.symbol == size; });
    });
  };
  return std::ranges::all_of(sizes, is_dimension);
}

std::vector<Argument> Exported::arguments() const {
  std::vector<Argument> made;
  for (const TensorArgument& tensor : record.tensors) {
    const std::string_view element = arch::name(tensor.element);
    std::vector<std::string> shape;
    for (const launch::Dimension& dimension : tensor.shape) shape.push_back(spell(dimension));
    const bool plain =
        element == "f32" || element == "f64" ||
        ((element[0] == 'u' || element[0] == 's') && arch::info(tensor.element).bits >= 8 && element.size() <= 3);
    made.push_back(
        {cat(tensor.output || tensor.written ? "" : "const ", plain ? c_type(element) : "void", " *", tensor.name),
         tensor.name, cat(element, " (", join(shape), ")", tensor.column_major ? ", column-major" : "")});
  }
  for (const TensorArgument& tensor : record.tensors)
    if (tensor.strided)
      made.push_back({cat("const int64_t *", tensor.name, "_strides"), cat(tensor.name, "_strides"),
                      "elements, of each dimension"});
  for (const std::string& size : sizes) made.push_back({cat("int64_t ", size), size, "a size"});
  for (const auto& scalar : scalars)
    made.push_back({cat(c_type(scalar.type), " ", scalar.name), scalar.name, cat(".", scalar.type)});
  made.push_back({"void *stream", "stream", "a CUstream or cudaStream_t; NULL is the default one"});
  return made;
}

Expected<Done> Exported::check() const {
  if (!is_name(kernel.name)) return refused(cat("the name of a kernel is one of C, not '", kernel.name, "'"));
  std::vector<std::string> names = sizes;
  for (const TensorArgument& tensor : record.tensors) names.push_back(tensor.name);
  for (const launch::ScalarArgument& scalar : scalars) names.push_back(scalar.name);
  for (const std::string& name : names) {
    if (!is_name(name) || is_taken(name))
      return refused(cat("`", name, "` cannot be the name of an argument in C: give it another"));
    if (std::ranges::count(names, name) > 1)
      return refused(cat("`", name, "` is the name of two arguments: a size, a tensor and a scalar are named apart"));
  }
  for (const Variant& variant : kernel.variants) {
    if (variant.images.empty()) return refused("there is no machine code: name a target");
    for (const Image& image : variant.images)
      if (arch::architecture(image.target) == nullptr) return refused(cat("`", image.target, "` is no target"));
    for (const Expression& each : variant.grid)
      if (const auto done = check_expression(*this, "grid", each); !done) return done;
    for (const auto& box : variant.boxes)
      for (const Expression& each : box)
        if (const auto done = check_expression(*this, "box", each); !done) return done;
  }
  return Done{};
}

Expected<std::vector<File>> write(const Kernel& kernel, const std::vector<Flavour>& flavours) {
  if (kernel.variants.empty()) return refused("a kernel has a variant for each specialisation, and at least one");
  const Exported exported(kernel);
  if (const auto done = exported.check(); !done) return done.why();
  const auto text = source(exported);
  if (!text) return text.why();
  std::vector<File> files{{cat(kernel.name, ".h"), header(exported)}, {cat(kernel.name, ".c"), *text}};
  for (const Flavour each : flavours) {
    if (!has_call(exported))
      return refused(
          cat(exported.title, ": a library of a framework reads sizes off tensors: each is a dimension of one"));
    auto made = flavour(exported, each);
    if (!made) return made.why();
    files.push_back(std::move(made).value());
  }
  return files;
}

}  // namespace ptx::ahead
