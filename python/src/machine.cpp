// What this machine can do: its assembler, disassembler and devices; and the exceptions of everything that launches.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "ptx/base/text.h"
#include "ptx/cuda/assemblers.h"
#include "ptx/cuda/cache.h"
#include "ptx/cuda/executor.h"
#include "ptx/cuda/resources.h"
#include "python/src/launch.h"

namespace ptx::python {
namespace {

// The face knows where packages lie, and says so when it is imported.
void face_is_imported() { nb::module_::import_("pyptx.launch.call"); }

std::shared_ptr<const cuda::Assembler> assembler_of(const std::string& ptx, const std::string& target,
                                                    const std::string& choice) {
  face_is_imported();
  auto chosen = unlocked([&] { return cuda::choose_assembler(ptx, target, choice); });
  return value_or_raise(std::move(chosen));
}

std::string assembler_description(const std::string& ptx, const std::string& target, const std::string& choice) {
  face_is_imported();
  const auto chosen = cuda::choose_assembler(ptx, target, choice);
  return chosen ? cuda::describe(**chosen) : to_string(chosen.why());
}

std::vector<std::pair<std::string, std::string>> assemblers() {
  face_is_imported();
  return value_or_raise(cuda::assemblers())->explain();
}

std::string sass(const std::string& ptx, const std::string& target, const std::string& name, const Lines& lines,
                 bool ptx_lines, const std::string& choice) {
  const auto assembler = assembler_of(ptx, target, choice);
  const std::vector<Place> author = places(lines);
  const cuda::AssembleOptions options{author, name, ptx_lines};
  const auto cubin = value_or_raise(unlocked([&] { return assembler->assemble(ptx, target, options); }));
  return value_or_raise(unlocked([&] { return cuda::disassemble(cubin.bytes, ptx_lines); }));
}

nb::bytes machine_code(const std::string& ptx, const std::string& target, const std::string& name, const Lines& lines,
                       const std::string& choice) {
  const auto assembler = assembler_of(ptx, target, choice);
  const std::vector<Place> author = places(lines);
  const cuda::AssembleOptions options{author, name, false};
  const auto cubin = value_or_raise(
      unlocked([&] { return cuda::assemble_cached(*assembler, ptx, target, options, &cuda::cubin_cache()); }));
  return nb::bytes(reinterpret_cast<const char*>(cubin->bytes.data()), cubin->bytes.size());
}

// Assembled through the cache: ((registers, barriers, stack, spill stores, spill loads, static shared), (blocks, warps,
// warps that fit, limiter) of `threads` and `dynamic_shared`, remarks).
nb::tuple resources(const std::string& ptx, const std::string& target, const std::string& entry, const Lines& lines,
                    std::uint32_t threads, std::uint32_t dynamic_shared, const std::string& choice) {
  const auto assembler = assembler_of(ptx, target, choice);
  const std::vector<Place> author = places(lines);
  const cuda::AssembleOptions options{author, entry, false};
  const auto cubin = value_or_raise(
      unlocked([&] { return cuda::assemble_cached(*assembler, ptx, target, options, &cuda::cubin_cache()); }));
  const auto used = value_or_raise(cuda::read_resources(cubin->log, entry));
  const auto fits = value_or_raise(cuda::occupancy(target, used, threads, dynamic_shared));
  return nb::make_tuple(
      nb::make_tuple(used.registers, used.barriers, used.stack, used.spill_stores, used.spill_loads, used.shared),
      nb::make_tuple(fits.blocks, fits.warps, fits.most_warps, fits.limiter),
      nb::cast(cuda::read_log(cubin->log, ptx, options)));
}

// With the driver's JIT whatever assembler was chosen: for the current context's device.
nb::bytes assemble_with_driver(const std::string& ptx, const std::string& target) {
  const auto& driver = cuda::driver();
  if (!driver) raise_launch(driver.why());
  const auto jit = cuda::driver_jit(*driver);
  const auto cubin = value_or_raise(unlocked([&] { return jit->assemble(ptx, target, {}); }));
  return nb::bytes(reinterpret_cast<const char*>(cubin.bytes.data()), cubin.bytes.size());
}

}  // namespace

void set_error(const Diagnostics& why) { set_error(Phase::launch, why); }

[[noreturn]] void raise_launch(const Diagnostics& why) { raise(Phase::launch, why); }

void init_machine(nb::module_& m) {
  m.def(
      "use_packages", [](std::vector<std::string> folders) { cuda::use({std::move(folders)}); }, nb::arg("folders"),
      "Folders with Python packages in which assemblers are looked for, before the first is needed");
  m.def("assembler_description", &assembler_description, nb::arg("ptx") = "", nb::arg("target") = "",
        nb::arg("assembler") = "",
        "What assembles this text; without one, what assembles a text that every assembler knows");
  m.def("assemblers", &assemblers, "Each that was found, best first: what it is, and why it is taken or not");
  m.def(
      "use_assembler",
      [](const std::string& choice) {
        if (const auto done = cuda::use_assembler(choice); !done) raise_launch(done.why());
      },
      nb::arg("choice"));
  m.def(
      "check_assembler",
      [](const std::string& choice) {
        if (const auto parsed = cuda::parse_choice(choice); !parsed) raise_launch(parsed.why());
      },
      nb::arg("choice"), "Refuses what names no kind of assembler");
  m.def("disassembler_description", [] {
    face_is_imported();
    return cuda::disassembler_path().value_or("none");
  });
  m.def("sass", &sass, nb::arg("ptx"), nb::arg("target"), nb::arg("name") = "kernel", nb::arg("lines") = Lines{},
        nb::arg("ptx_lines") = false, nb::arg("assembler") = "");
  m.def("resources", &resources, nb::arg("ptx"), nb::arg("target"), nb::arg("entry"), nb::arg("lines"),
        nb::arg("threads"), nb::arg("dynamic_shared"), nb::arg("assembler") = "");
  m.def("cache_status", [] {
    const auto status = cuda::cubin_cache().status();
    return nb::make_tuple(status.folder, status.entries, status.bytes, status.most_bytes);
  });
  m.def(
      "cache_trim", [](std::uint64_t most_bytes) { return cuda::cubin_cache().trim(most_bytes); },
      nb::arg("most_bytes"));
  m.def("machine_code", &machine_code, nb::arg("ptx"), nb::arg("target"), nb::arg("name") = "kernel",
        nb::arg("lines") = Lines{}, nb::arg("assembler") = "", "The cubin of a text for a target");
  m.def("assemble_with_driver", &assemble_with_driver, nb::arg("ptx"), nb::arg("target"));
  m.def("driver_version", []() -> std::optional<std::string> {
    const auto& driver = cuda::driver();
    if (!driver) return std::nullopt;
    return cat("CUDA ", driver->version / 1000, ".", driver->version % 1000 / 10);
  });
  m.def("devices", [] {
    nb::list rows;
    for (int i = 0; i < cuda::device_count(); ++i)
      if (const auto facts = cuda::device_facts(i); facts)
        rows.append(nb::make_tuple(facts->name, facts->major, facts->minor));
    return rows;
  });
  m.def("device_capability", [](int device) -> std::optional<std::tuple<int, int>> {
    const auto facts = cuda::device_facts(device);
    if (!facts) return std::nullopt;
    return std::tuple(facts->major, facts->minor);
  });
}

}  // namespace ptx::python
