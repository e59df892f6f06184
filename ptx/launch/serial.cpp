// Each struct lists its members once, in `fields`; writing and reading are the two archives that the list is shown to.
// Numbers are LEB128, signed ones zigzag. A change of any list is a new `version`.
#include "ptx/launch/serial.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>

#include "ptx/base/text.h"

namespace ptx::launch {
namespace {

constexpr std::string_view magic = "ptxl";
constexpr std::uint64_t version = 8;

class Writer {
 public:
  static constexpr bool reads = false;

  void number(std::unsigned_integral auto value) {
    std::uint64_t rest = value;
    for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<char>(rest | 0x80));
    bytes.push_back(static_cast<char>(rest));
  }
  void number(std::int64_t value) {
    number(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  template <class Enum>
  void choice(Enum value, Enum) {
    number(static_cast<std::uint64_t>(value));
  }
  void text(const std::string& value) {
    number(value.size());
    bytes += value;
  }
  template <class T>
  void list(std::vector<T>& items, auto each) {
    number(items.size());
    for (T& item : items) each(item);
  }
  void fail() {}

  std::string bytes;
};

class Reader {
 public:
  static constexpr bool reads = true;
  explicit Reader(std::string_view bytes) : rest(bytes) {}

  template <std::unsigned_integral T>
  void number(T& value) {
    const std::uint64_t read = next();
    if (read > std::numeric_limits<T>::max()) fail();
    value = static_cast<T>(read);
  }
  void number(std::int64_t& value) {
    const std::uint64_t read = next();
    value = static_cast<std::int64_t>(read >> 1 ^ (~(read & 1) + 1));
  }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    const std::uint64_t read = next();
    if (read > static_cast<std::uint64_t>(last)) fail();
    value = good ? static_cast<Enum>(read) : last;
  }
  void text(std::string& value) {
    value = rest.substr(0, count());
    rest.remove_prefix(value.size());
  }
  template <class T>
  void list(std::vector<T>& items, auto each) {
    const std::size_t size = count();
    for (std::size_t i = 0; good && i < size; ++i) each(items.emplace_back());
  }
  void fail() { good = false, rest = {}; }

  std::string_view rest;
  bool good = true;

 private:
  // The number of bytes or items. Each item has a byte at least, so there are never more than bytes.
  std::size_t count() {
    const std::uint64_t read = next();
    if (read > rest.size()) fail();
    return good ? read : 0;
  }
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return fail(), 0;
  }
};

template <class Archive>
void small(Archive& a, std::int32_t& value) {
  std::int64_t wide = value;
  a.number(wide);
  value = static_cast<std::int32_t>(wide);
}

// A row of a table of arch by its name: its number is another one where the table gets a row before it.
template <class Archive, class Row>
void named(Archive& a, Row& row, std::optional<Row> (*find)(std::string_view)) {
  std::string name(arch::name(row));
  a.text(name);
  const std::optional<Row> found = find(name);
  if (!found) return a.fail();
  row = *found;
}

template <class Archive>
void fields(Archive& a, Dim3& d) {
  a.number(d.x), a.number(d.y), a.number(d.z);
}

template <class Archive>
void fields(Archive& a, TensorArgument& t) {
  a.text(t.name);
  named(a, t.element, arch::element_named);
  a.list(t.shape, [&](Dimension& d) { a.number(d.size), a.text(d.symbol); });
  a.number(t.alignment);
  a.number(t.output), a.number(t.column_major), a.number(t.strided), a.number(t.untyped);
  a.number(t.written);
}

template <class Archive>
void fields(Archive& a, Attributes& t) {
  a.number(t.cooperative), a.number(t.dependent);
  small(a, t.priority), small(a, t.shared_carveout);
}

template <class Archive>
void fields(Archive& a, TensorMapRecipe& r) {
  a.number(r.tensor), a.number(r.rank);
  for (std::uint32_t& size : r.box) a.number(size);
  for (std::uint32_t& stride : r.element_strides) a.number(stride);
  bool other = r.element.has_value();
  Element element = r.element.value_or(Element{});
  a.number(other), named(a, element, arch::element_named);
  r.element = other ? std::optional(element) : std::nullopt;
  named(a, r.swizzle, arch::swizzle_named);
  a.choice(r.interleave, Interleave::b32);
  a.choice(r.fill, TensorMapRecipe::Fill::nan);
  a.choice(r.promotion, TensorMapRecipe::Promotion::b256);
  for (std::array<std::int32_t, 3>* corner : {&r.im2col.lower, &r.im2col.upper})
    for (std::int32_t& offset : *corner) small(a, offset);
  a.number(r.im2col.channels), a.number(r.im2col.pixels);
  a.number(r.spread), a.number(r.column_blocks), a.number(r.padding);
  if (r.rank > r.box.size()) a.fail();
}

template <class Archive>
void fields(Archive& a, Parameter& p) {
  a.choice(p.kind, Parameter::Kind::tensor_map);
  a.text(p.name);
  a.number(p.offset), a.number(p.size), a.number(p.source);
}

// Files once, then (file, line, column) a line.
template <class Archive>
void lines(Archive& a, std::vector<Place>& places) {
  std::vector<Name> known;
  const auto index_of = [&](Name file) {
    const auto found = std::find(known.begin(), known.end(), file);
    if (found == known.end()) return known.push_back(file), known.size() - 1;
    return static_cast<std::size_t>(found - known.begin());
  };
  for (const Place& place : places) index_of(place.file);
  a.list(known, [&](Name& file) {
    std::string name(file.view());
    a.text(name);
    if constexpr (Archive::reads) file = Name(name);
  });
  a.list(places, [&](Place& place) {
    std::size_t file = Archive::reads ? 0 : index_of(place.file);
    a.number(file), a.number(place.line), a.number(place.column);
    if (file >= known.size()) return a.fail();
    place.file = known[file];
  });
}

template <class Archive>
void name(Archive& a, Name& n) {
  std::string text(n.view());
  a.text(text);
  if constexpr (Archive::reads) n = Name(text);
}

template <class Archive>
void allocated(Archive& a, std::vector<Allocated>& all) {
  a.list(all, [&](Allocated& one) {
    name(a, one.name), name(a, one.array), name(a, one.place.file);
    a.number(one.offset), a.number(one.bytes), a.number(one.place.line), a.number(one.place.column);
  });
}

template <class Archive>
void fields(Archive& a, Record& r) {
  a.text(r.entry), a.text(r.target), a.text(r.assembler);
  fields(a, r.grid), fields(a, r.block), fields(a, r.cluster), fields(a, r.attributes);
  a.number(r.dynamic_shared);
  a.list(r.tensors, [&](TensorArgument& t) { fields(a, t); });
  a.list(r.scalars, [&](ScalarArgument& s) { a.text(s.name), a.text(s.type); });
  a.list(r.tensor_maps, [&](TensorMapRecipe& m) { fields(a, m); });
  a.list(r.parameters, [&](Parameter& p) { fields(a, p); });
  a.number(r.parameter_bytes);
  allocated(a, r.allocated);
  lines(a, r.lines);
}

std::uint64_t checksum(std::string_view bytes) {  // FNV-1a: against damage, not against malice
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

Diagnostic damaged(std::string_view why) {
  return Diagnostic(Code::bad_record, Place{}, cat("these bytes are not a launch record of this release: ", why));
}

}  // namespace

std::string serialise(const Record& record) {
  Writer body;
  Record copy = record;  // `fields` takes what it may also write
  fields(body, copy);
  return seal(body.bytes);
}

std::string seal(std::string_view body) {
  Writer header;
  header.bytes = magic;
  header.number(version), header.number(checksum(body));
  return header.bytes.append(body);
}

Expected<Record> deserialise(std::string_view bytes) {
  if (!bytes.starts_with(magic)) return damaged("they begin otherwise");
  Reader reader(bytes.substr(magic.size()));
  std::uint64_t written = 0, sum = 0;
  reader.number(written);
  if (!reader.good || written != version)
    return damaged(cat("their version is ", written, ", this release reads ", version));
  reader.number(sum);
  if (!reader.good || sum != checksum(reader.rest)) return damaged("they are damaged");
  Record record;
  fields(reader, record);
  if (!reader.good || !reader.rest.empty()) return damaged("they are inconsistent");
  return record;
}

}  // namespace ptx::launch
