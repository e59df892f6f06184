#include "ptx/cuda/assemblers.h"

#include <cstdlib>
#include <map>

#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"
#include "ptx/cuda/driver.h"

namespace ptx::cuda {
namespace {

constexpr Assembler::Kind kinds[] = {Assembler::Kind::ptxas, Assembler::Kind::driver, Assembler::Kind::nvjitlink};

// Where `word` stands outside of comments.
std::size_t find_code(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(word)) return at;
    const bool line = rest.starts_with("//");
    if (!line && !rest.starts_with("/*")) continue;
    const auto end = line ? text.find('\n', at) : text.find("*/", at + 2);
    if (end == text.npos) break;
    at = line ? end : end + 1;
  }
  return text.npos;
}

// The .version of a text; none if it has none: the assembler reports that.
std::optional<arch::Version> version_of(std::string_view ptx) {
  const auto at = find_code(ptx, ".version");
  if (at == ptx.npos) return std::nullopt;
  const auto number = ptx.find_first_not_of(" \t", at + 8);
  if (number == ptx.npos) return std::nullopt;
  const arch::Version version = release_of(ptx.substr(number, ptx.find_first_of(" \t\r\n", number) - number));
  return version == arch::Version{} ? std::nullopt : std::optional(version);
}

// How relocatable code differs from the kernel, read off the assembler's log; empty: it does not. nvJitLink serializes
// wgmma in kernels with a call or a division, which whole-program compilers do not; where those serialize it, the
// kernel's own code is the reason.
std::string_view changed(Assembler::Kind kind, std::string_view log) {
  if (log.find("to maintain compatibility across compilation units") != log.npos) return "setmaxnreg is dropped";
  if (kind == Assembler::Kind::nvjitlink && log.find("wgmma.mma_async instructions are serialized") != log.npos)
    return "wgmma.mma_async is serialized";
  return {};
}

// An assembler that is refused where its log says that it compiled relocatable code and that this changes the kernel:
// nvJitLink always does, the driver's JIT must not.
class Guarded final : public Assembler {
 public:
  Guarded(std::shared_ptr<const Assembler> inner, std::string advice)
      : inner_(std::move(inner)), advice_(std::move(advice)) {}
  Kind kind() const override { return inner_->kind(); }
  const std::string& path() const override { return inner_->path(); }
  const std::string& version() const override { return inner_->version(); }
  Expected<Cubin> assemble(std::string_view ptx, std::string_view target,
                           const AssembleOptions& options) const override {
    auto cubin = inner_->assemble(ptx, target, options);
    if (!cubin) return cubin;
    const std::string_view change = changed(kind(), cubin->log);
    if (change.empty()) return cubin;
    Diagnostic why(Code::assembler_changes, Place{},
                   cat(options.name, ": ", describe(*inner_), " compiles relocatable code, in which ", change));
    why.notes.push_back(advice_);
    return why;
  }

 private:
  std::shared_ptr<const Assembler> inner_;
  std::string advice_;
};

std::string wanted(std::optional<arch::Version> ptx, std::string_view target) {
  return ptx ? cat("PTX ", to_string(*ptx), ", ", target) : std::string(target);
}

std::string title(const FoundAssembler& found) {
  if (found.assembler != nullptr) return describe(*found.assembler);
  return found.kind == Assembler::Kind::driver ? "the driver's JIT" : cat(name_of(found.kind), " ", found.path);
}

}  // namespace

struct Assemblers::Asked {
  std::optional<arch::Version> ptx;
  std::string_view target;
  bool setmaxnreg = false;
};

bool AssemblerChoice::allows(const FoundAssembler& found) const {
  return !kind || (*kind == found.kind && (path.empty() || path == found.path));
}

Expected<AssemblerChoice> parse_choice(std::string_view text) {
  AssemblerChoice choice;
  if (text.empty() || text == "auto") return choice;
  choice.text = text;
  const std::string_view name = text.substr(0, text.find(':'));
  const bool has_path = name.size() < text.size();
  if (has_path) choice.path = text.substr(name.size() + 1);
  for (const Assembler::Kind kind : kinds)
    if (name_of(kind) == name) choice.kind = kind;
  const bool path_is_good = has_path ? !choice.path.empty() && choice.kind != Assembler::Kind::driver : true;
  if (choice.kind && path_is_good) return choice;
  return Diagnostic(Code::bad_assembler_choice, Place{},
                    cat("`", text,
                        "` is no choice of an assembler: auto, ptxas, ptxas:FILE, driver, nvjitlink and "
                        "nvjitlink:FILE are"));
}

const std::vector<FoundAssembler>& Assemblers::of(Assembler::Kind kind) const {
  std::lock_guard lock(mutex_);
  auto& found = found_[static_cast<std::size_t>(kind)];
  if (found) return *found;
  const std::string path = choice_.kind == kind ? choice_.path : std::string();
  switch (kind) {
    case Assembler::Kind::ptxas: found = find_ptxas(search_, path); break;
    case Assembler::Kind::nvjitlink: found = find_nvjitlink(search_, path); break;
    case Assembler::Kind::driver: {
      FoundAssembler jit{kind, {}, nullptr, {}};
      if (driver_)
        jit.assembler = driver_jit(*driver_);
      else
        jit.why_not = "there is no CUDA driver";
      found.emplace(1, std::move(jit));
    }
  }
  if (kind != Assembler::Kind::ptxas)
    for (FoundAssembler& one : *found)
      if (one.assembler != nullptr) one.assembler = std::make_shared<Guarded>(std::move(one.assembler), advice());
  return *found;
}

// Why an assembler is not taken for a text; empty: it may be.
std::string Assemblers::refusal(const FoundAssembler& found, const Asked& asked) const {
  if (!choice_.allows(found)) return cat("`", choice_.text, "` was asked for");
  if (found.assembler == nullptr) return found.why_not;
  const Release release = release_of(found.assembler->version());
  if (driver_ && !loads(*driver_, release))
    return cat("this driver, of CUDA ", to_string(*driver_), ", does not load code of a later major release");
  if (asked.ptx && *asked.ptx > newest_ptx(release)) return cat("it reads PTX up to ", to_string(newest_ptx(release)));
  if (!asked.target.empty() && !knows_target(release, asked.target)) return cat("it makes no code for ", asked.target);
  if (asked.setmaxnreg && found.kind == Assembler::Kind::nvjitlink)
    return "it compiles relocatable code, in which setmaxnreg is dropped";
  return {};
}

std::string Assemblers::advice() const {
  if (driver_ && driver_->major < 13)
    return cat("for this driver, of CUDA ", to_string(*driver_),
               ": pip install nvidia-cuda-nvcc-cu12 (for PTX up to 8.8)");
  return "pip install pyptx[asm], which brings ptxas, or install the CUDA toolkit";
}

AssemblerResult Assemblers::choose(std::string_view ptx, std::string_view target) const {
  const Asked asked{version_of(ptx), target, find_code(ptx, "setmaxnreg.") != ptx.npos};
  Diagnostic why(Code::no_assembler, Place{},
                 cat("no assembler at hand compiles this kernel (", wanted(asked.ptx, target), ") as it is written"));
  bool any = false;
  for (const Assembler::Kind kind : kinds) {
    for (const FoundAssembler& found : of(kind)) {
      const std::string reason = refusal(found, asked);
      if (reason.empty()) return found.assembler;
      any |= found.assembler != nullptr;
      why.notes.push_back(cat(title(found), ": ", reason));
    }
    if (of(kind).empty()) why.notes.push_back(cat("no ", name_of(kind), " was found"));
  }
  if (!any) why.message = "no PTX assembler was found";
  why.notes.push_back(advice());
  return why;
}

std::vector<std::pair<std::string, std::string>> Assemblers::explain() const {
  // Reasons by kind: of the first that can be taken, and of those that come after it.
  constexpr std::string_view last_resort = "the last resort: kernels with setmaxnreg are refused";
  constexpr std::string_view taken[] = {"the newest whose code can be used", "no ptxas can be", last_resort};
  constexpr std::string_view passed[] = {"not newer", "for texts that no ptxas here reads", last_resort};
  std::vector<std::pair<std::string, std::string>> rows;
  bool first = true;
  for (const Assembler::Kind kind : kinds)
    for (const FoundAssembler& found : of(kind)) {
      std::string reason = refusal(found, {});
      if (reason.empty()) {
        const std::string_view role = choice_.kind ? "it was asked for" : taken[static_cast<int>(kind)];
        reason = first ? cat("taken: ", role) : std::string(passed[static_cast<int>(kind)]);
        first = false;
      }
      std::string what = title(found);
      if (found.assembler != nullptr)
        what += cat(", PTX up to ", to_string(newest_ptx(release_of(found.assembler->version()))));
      rows.emplace_back(std::move(what), std::move(reason));
    }
  return rows;
}

namespace {

struct Process {
  std::mutex mutex;
  Search search;
  std::optional<AssemblerChoice> choice;                                       // none: $PYPTX_ASSEMBLER's
  std::map<std::string, std::shared_ptr<const Assemblers>, std::less<>> made;  // by what a kernel chose; "": nothing
};

Process& process() {
  static Process& instance = *new Process;
  return instance;
}

Search chosen_search() {
  std::lock_guard lock(process().mutex);
  return process().search;
}

// $PYPTX_ASSEMBLER, or what use_assembler said instead.
Expected<AssemblerChoice> choice_of(const Process& own) {
  if (own.choice) return *own.choice;
  const char* variable = std::getenv("PYPTX_ASSEMBLER");
  auto choice = parse_choice(variable != nullptr ? variable : "auto");
  if (choice) return choice;
  Diagnostics why = choice.why();
  why.front().message = cat("$PYPTX_ASSEMBLER: ", why.front().message);
  return why;
}

}  // namespace

void use(Search search) {
  std::lock_guard lock(process().mutex);
  process().search = std::move(search);
  process().made.clear();
}

Expected<Done> use_assembler(std::string_view text) {
  auto choice = parse_choice(text);
  if (!choice) return choice.why();
  std::lock_guard lock(process().mutex);
  process().choice = std::move(*choice);
  process().made.clear();
  return Done{};
}

Expected<std::shared_ptr<const Assemblers>> assemblers(std::string_view choice) {
  std::lock_guard lock(process().mutex);
  Process& own = process();
  if (const auto found = own.made.find(choice); found != own.made.end()) return found->second;
  auto chosen = choice.empty() ? choice_of(own) : parse_choice(choice);
  if (!chosen) return chosen.why();
  auto made = std::make_shared<const Assemblers>(own.search, std::move(*chosen), driver_release());
  return own.made.emplace(choice, std::move(made)).first->second;
}

AssemblerResult choose_assembler(std::string_view ptx, std::string_view target, std::string_view choice) {
  const auto all = assemblers(choice);
  if (!all) return all.why();
  return (*all)->choose(ptx, target);
}

Expected<std::string> disassemble(std::span<const std::byte> cubin, bool ptx_lines) {
  return disassemble(cubin, chosen_search(), ptx_lines);
}

std::optional<std::string> disassembler_path() { return disassembler_path(chosen_search()); }

}  // namespace ptx::cuda
