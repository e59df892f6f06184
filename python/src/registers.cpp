#include "python/src/registers.h"

#include <nanobind/stl/string.h>

#include <string>
#include <unordered_map>

namespace ptx::python {

namespace {
struct Words {
  std::vector<Name> words{Name()};
  std::unordered_map<Name, std::uint16_t> numbers;
};
Words& words() {  // under Python's lock
  static Words& all = *new Words;
  return all;
}
}  // namespace

By::By(std::string_view word) {
  Words& all = words();
  const auto [found, fresh] = all.numbers.try_emplace(Name(word), static_cast<std::uint16_t>(all.words.size()));
  if (fresh && all.words.size() <= 0xffff) all.words.push_back(Name(word));
  number = found->second < all.words.size() && all.words[found->second] == found->first ? found->second : 0;
}

FunctionRegisters Traced::take() {
  return {Name(options().name), options().place, std::move(noted_), std::move(arrays_), std::move(called_), settled()};
}

void Returning::give(const author::Reg& reg, std::size_t element) {
  if (reg.special || !reg.builder) return;
  Traced& traced = python::traced(*reg.builder);
  if (!traced.returning_ || element > Spot::alone) return;
  Spot spot = traced.returning_->spot_;
  spot.element = element & 0xff;
  traced.give(reg.id, spot);
}

void Returning::give(const author::RegArray& array) {
  Traced& traced = python::traced(*array.builder);
  if (traced.returning_) traced.give(array, traced.returning_->spot_);
}

namespace {

MadeRegisters row_of(const FunctionRegisters& f, ir::RegisterId id, const Spot& spot) {
  const ir::Register& r = f.settled.of(id);
  MadeRegisters row;
  row.function = f.function, row.base = r.base, row.index = r.index;
  row.element = spot.element == Spot::alone ? -1 : static_cast<std::int32_t>(spot.element), row.code = spot.code,
  row.offset = 2 * spot.at, row.by = words().words[spot.by];
  row.place = spot.code ? author_place(spot.code, row.offset) : f.place;
  return row;
}

}  // namespace

std::vector<MadeRegisters> rows_of(const ModuleRegisters& registers) {
  std::vector<MadeRegisters> rows;
  for (const FunctionRegisters& f : registers) {
    const std::unordered_map<std::uint32_t, std::uint32_t> arrays(f.arrays.begin(), f.arrays.end());
    const std::unordered_map<std::uint32_t, Name> called(f.called.begin(), f.called.end());
    for (const auto& [id, name] : f.called) {
      rows.push_back(row_of(f, id, {}));
      rows.back().called = name;
    }
    for (ir::RegisterId id = 0; id < f.noted.size(); ++id) {
      const Noted& noted = f.noted[id];
      const auto array = arrays.find(id);
      if (noted.made.code != 0) {
        rows.push_back(row_of(f, id, noted.made));
        if (array != arrays.end()) rows.back().count = array->second, rows.back().array = true;
      }
      if (noted.used.code != 0 && !called.contains(id)) rows.push_back(row_of(f, id, noted.used));
    }
  }
  return rows;
}

nb::list tuples_of(const std::vector<MadeRegisters>& rows) {
  const auto text = [](Name name) { return std::string(name.view()); };
  nb::list tuples;
  for (const MadeRegisters& r : rows)
    tuples.append(nb::make_tuple(text(r.function), text(r.base), r.index, r.count, r.array, r.element,
                                 author_code(r.code), r.offset, text(r.by), text(r.called), text(r.place.file),
                                 r.place.line));
  return tuples;
}

}  // namespace ptx::python
