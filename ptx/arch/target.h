// Targets and PTX versions: which exist, which hardware each is, and how large that hardware is. The rows are
// targets.def. What an instruction needs of a target is a fact of the instruction and stands in isa/.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ptx::arch {

struct Version {
  std::uint8_t major = 0, minor = 0;
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

// sm_90, sm_90a (architecture specific), sm_100f (family specific).
struct Target {
  std::uint16_t number = 0;
  char suffix = 0;  // 0, 'a' or 'f'
  friend constexpr bool operator==(const Target&, const Target&) = default;
};

// One kind of multiprocessor. Sizes are 0 where no source gives them (see targets.def).
struct Architecture {
  std::uint16_t number = 0;               // 90: sm_90, compute capability 9.0
  std::uint16_t is = 0;                   // the same hardware under its present number: 110 for 101, else `number`
  Version since{}, since_a{}, since_f{};  // first PTX versions of its targets; {} where there is no such target
  std::uint32_t warps = 0, ctas = 0;      // resident on one multiprocessor
  std::uint32_t sm_shared = 0;            // bytes of shared memory of a multiprocessor
  std::uint32_t cta_shared = 0;           // bytes that one CTA may ask for (opt-in)
  std::uint32_t cluster = 1;              // CTAs of the largest cluster
  std::uint32_t tensor_columns = 0;       // of tensor memory

  // Bytes of shared memory that the system takes of each CTA's share, and the unit in which shares are given.
  std::uint32_t reserved_shared() const { return number >= 80 ? 1024 : 0; }
  std::uint32_t shared_unit() const { return number >= 80 ? 128 : 256; }
};

// The same everywhere since sm_75, the oldest with sizes.
inline constexpr std::uint32_t sm_registers = 65536;       // of a multiprocessor, 32 bits each, in four equal parts
inline constexpr std::uint32_t warp_register_unit = 256;   // a warp is given registers in multiples of it
inline constexpr std::uint32_t thread_registers = 255;     // the most that one thread has
inline constexpr std::uint32_t cta_threads = 1024;         // the most threads of a CTA
inline constexpr std::uint32_t static_shared = 48 * 1024;  // bytes that a CTA has without asking the driver
inline constexpr std::uint32_t portable_cluster = 8;       // CTAs that every architecture with clusters takes

std::span<const Architecture> architectures();            // in the order of their numbers
const Architecture* architecture(int number);             // null where no row has it
const Architecture* architecture(std::string_view name);  // of "sm_90a"; null where it is no target

std::span<const Target> all_targets();                      // in the order of their numbers: plain, a, f
std::optional<Target> target_named(std::string_view name);  // "sm_90a"
std::optional<Version> first_version(Target target);        // smallest .version that knows the target
bool exists(Version version);  // whether the manual, or the newest assembler, has a PTX of this version

// What `f` targets share: 10 for sm_100, 103 and 107, 11 for sm_110 (sm_101), 12 for sm_120 and 121.
int family(int number);

// The most specific target of a device of this compute capability: sm_90a, sm_120a, sm_89; where no row knows the
// device, sm_ and its number.
Target target_of_device(int major, int minor);

// Whether code for `have` may use what `need` has: a plain target has all that earlier ones have; what needs `a` is of
// that architecture alone; what needs `f` is of its family from that architecture on.
bool meets(Target have, Target need);

// How a kernel for `code` is assembled for a device of number `device`: the device's own plain target for a plain one
// (sm_90 for sm_75 on 9.0), under the device's name for an `a` target (sm_110a for sm_101a on 11.0), as it stands for
// an `f` target, unless that is the device itself under another number. None where the device does not run it.
std::optional<Target> assembled_for(Target code, int device);

std::string to_string(Target target);
std::string to_string(Version version);

}  // namespace ptx::arch
