// Which assembler a text gets: with invented ptxas programs of any release, and with those of this machine.
#include "ptx/cuda/assemblers.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ptx/base/text.h"
#include "tests/cuda/tools.h"

using namespace ptx;
using namespace ptx::cuda;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view wgmma_ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .f32 x)
{
	.reg .f32 %f<7>;
	.reg .u64 %rd<1>;
	ld.param.f32 %f5, [x];
	mov.f32 %f0, 0f00000000;
	mov.f32 %f1, 0f00000000;
	mov.f32 %f2, 0f00000000;
	mov.f32 %f3, 0f00000000;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, 0, 0, 1, 1, 1, 0, 0;
	div.rn.f32 %f6, %f5, 0f40400000;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	ld.param.u64 %rd0, [out];
	add.f32 %f0, %f0, %f6;
	st.global.f32 [%rd0], %f0;
	ret;
}
)";

// A folder of packages, each with a ptxas that is a script.
class Packages {
 public:
  Packages() : root_(fs::temp_directory_path() / cat("pyptx-test-", getpid())) { fs::remove_all(root_); }
  ~Packages() { fs::remove_all(root_); }
  std::string file(std::string_view package) const { return (root_ / package / "nvidia/cu13/bin/ptxas").string(); }
  // A ptxas that tells `version`, and otherwise does `rest`.
  void add(std::string_view package, std::string_view version, std::string_view rest = "exit 1") {
    script(package, cat("[ $1 = --version ] && echo release 1.2, V", version, " && exit 0\n", rest));
  }
  void script(std::string_view package, std::string_view body) {
    fs::create_directories(fs::path(file(package)).parent_path());
    std::ofstream(file(package)) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(file(package), fs::perms::owner_all);
    if (search.packages.empty() || search.packages.back() != root_ / package)
      search.packages.push_back((root_ / package).string());
  }
  Search search{{}, false};

 private:
  fs::path root_;
};

std::string told(const Assemblers& assemblers) {
  std::string lines;
  for (const auto& [what, why] : assemblers.explain()) lines += cat(what, ": ", why, "\n");
  return lines;
}

std::string text_of(std::string_view version) {
  return cat("// a\n/* .version 1.0 */\n.version ", version, "\n.target sm_80\n");
}

}  // namespace

TEST_CASE("a choice is a kind, or a kind and its file") {
  for (const std::string_view text : {"", "auto"}) CHECK_FALSE(parse_choice(text)->kind);
  CHECK(parse_choice("ptxas")->kind == Assembler::Kind::ptxas);
  CHECK(parse_choice("driver")->kind == Assembler::Kind::driver);
  CHECK(parse_choice("nvjitlink:/a:b")->path == "/a:b");
  CHECK(parse_choice("nvjitlink:/a:b")->kind == Assembler::Kind::nvjitlink);
  for (const std::string_view wrong : {"ptxas:", "nvcc", "driver:/lib/libcuda.so", "/usr/bin/ptxas", "auto:x"}) {
    const auto refused = parse_choice(wrong);
    REQUIRE_FALSE(refused);
    CHECK(refused.why().front().code == Code::bad_assembler_choice);
    CHECK(refused.why().front().message ==
          cat("`", wrong,
              "` is no choice of an assembler: auto, ptxas, ptxas:FILE, driver, nvjitlink and nvjitlink:FILE are"));
  }
}

TEST_CASE("the newest ptxas whose code the driver loads, that knows the text") {
  Packages packages;
  packages.add("a", "13.0.88");
  packages.add("b", "14.1.2");
  packages.add("c", "12.9.86");
  packages.add("d", "13.5.37");
  packages.add("e", "13.5.40");
  packages.add("f", "13.5.40");  // no newer than e, which is found first
  const auto chosen = [&](std::optional<Release> driver, std::string_view version, std::string_view target = "sm_80") {
    const auto found = Assemblers(packages.search, {}, driver).choose(text_of(version), target);
    REQUIRE_MESSAGE(found, to_string(found ? Diagnostics{} : found.why()));
    return (*found)->kind() == Assembler::Kind::ptxas ? (*found)->path() : describe(**found);
  };
  CHECK(chosen(std::nullopt, "8.0") == packages.file("b"));
  CHECK(chosen(Release{14, 0}, "8.0") == packages.file("b"));
  CHECK(chosen(Release{13, 0}, "8.0") == packages.file("e"));  // 13.5 on a driver of 13.0
  CHECK(chosen(Release{13, 0}, "9.5") == packages.file("e"));
  CHECK(chosen(Release{12, 4}, "8.0") == packages.file("c"));  // 12.9 on a driver of 12.4
  CHECK(chosen(Release{13, 0}, "8.0", "sm_70") == packages.file("c"));

  const auto refused = Assemblers(packages.search, {}, Release{12, 4}).choose(text_of("9.0"), "sm_80");
  REQUIRE_FALSE(refused);
  CHECK(refused.why().front().code == Code::no_assembler);
  CHECK(refused.why().front().message == "no assembler at hand compiles this kernel (PTX 9.0, sm_80) as it is written");
  const auto& notes = refused.why().front().notes;
  REQUIRE(notes.size() == 9);
  CHECK(notes[0] == cat("ptxas 14.1.2 (", packages.file("b"),
                        "): this driver, of CUDA 12.4, does not load code of a later major release"));
  CHECK(notes[5] == cat("ptxas 12.9.86 (", packages.file("c"), "): it reads PTX up to 8.8"));
  CHECK(notes[6] == "the driver's JIT 12.4 (libcuda.so.1): it reads PTX up to 8.4");
  CHECK(notes[7] == "no nvjitlink was found");
  CHECK(notes[8].find("pip install nvidia-cuda-nvcc-cu12") != std::string::npos);
}

TEST_CASE("the driver's JIT where its version suffices") {
  Packages packages;
  packages.add("old", "12.0.1");
  const auto chosen = [&](std::string_view version) {
    const auto found = Assemblers(packages.search, {}, Release{13, 0}).choose(text_of(version), "sm_90a");
    return found ? describe(**found) : std::string("refused");
  };
  CHECK(chosen("8.0") == cat("ptxas 12.0.1 (", packages.file("old"), ")"));
  CHECK(chosen("9.0") == "the driver's JIT 13.0 (libcuda.so.1)");
  CHECK(chosen("9.1") == "refused");
}

TEST_CASE("a choice holds, and what was found is explained") {
  Packages packages;
  packages.add("a", "13.0.88");
  packages.add("b", "13.5.37");
  packages.script("c", "exit 3");
  const auto choice = parse_choice(cat("ptxas:", packages.file("a")));
  REQUIRE(choice);
  const Assemblers asked(packages.search, *choice, Release{13, 0});
  const auto found = asked.choose(text_of("8.0"), "sm_80");
  REQUIRE(found);
  CHECK((*found)->version() == "13.0.88");
  CHECK_FALSE(asked.choose(text_of("9.5"), "sm_80"));  // although b would do

  const std::string a = cat("ptxas 13.0.88 (", packages.file("a"), "), PTX up to 9.0: ");
  const std::string b = cat("ptxas 13.5.37 (", packages.file("b"), "), PTX up to 9.5: ");
  const std::string c = cat("ptxas ", packages.file("c"), ": ");
  const std::string jit = "the driver's JIT 13.0 (libcuda.so.1), PTX up to 9.0: ";
  const std::string because = cat("`", choice->text, "` was asked for\n");
  CHECK(told(asked) == cat(b, because, a, "taken: it was asked for\n", c, because, jit, because));
  CHECK(told(Assemblers(packages.search, {}, Release{13, 0})) ==
        cat(b, "taken: the newest whose code can be used\n", a, "not newer\n", c, packages.file("c"),
            " --version ended with 3\n", jit, "for texts that no ptxas here reads\n"));
}

TEST_CASE("without any assembler, the refusal says what was looked for and what to install") {
  const auto refused = Assemblers({{"/nonexistent"}, false}, {}, std::nullopt).choose(good_ptx, "sm_90");
  REQUIRE_FALSE(refused);
  const Diagnostic& why = refused.why().front();
  CHECK(why.code == Code::no_assembler);
  CHECK(why.message == "no PTX assembler was found");
  std::string notes;
  for (const std::string& note : why.notes) notes += note + "\n";
  CHECK(notes ==
        "no ptxas was found\nthe driver's JIT: there is no CUDA driver\nno nvjitlink was found\n"
        "pip install pyptx[asm], which brings ptxas, or install the CUDA toolkit\n");
  const auto file = Assemblers({{}, false}, *parse_choice("ptxas:/nonexistent/ptxas"), std::nullopt).choose("", "");
  REQUIRE_FALSE(file);
  CHECK(file.why().front().notes[0].find("/nonexistent/ptxas does not start: No such file") != std::string::npos);
  const auto tool = disassemble({}, Search{{"/nonexistent"}, false});
  REQUIRE_FALSE(tool);
  CHECK(tool.why().front().code == Code::no_disassembler);
}

TEST_CASE("a ptxas that is broken, hangs or writes nothing is an error that says so") {
  Packages packages;
  const auto said = [&](std::string_view rest) {
    packages.add("odd", "13.0.1", rest);
    const auto found = find_ptxas(packages.search);
    REQUIRE(found.size() == 1);
    REQUIRE(found[0].assembler);
    const auto refused = found[0].assembler->assemble(good_ptx, "sm_90", {});
    REQUIRE_FALSE(refused);
    CHECK(refused.why().front().code == Code::assembler_failed);
    return refused.why().front().message;
  };
  const std::string file = packages.file("odd");
  CHECK(said("echo oops; kill -9 $$") == cat(file, " ended with 137: oops\n"));
  CHECK(said("exit 0") == cat(file, " ended without writing code: "));
  CHECK(said("cat; exit 4") == cat(file, " ended with 4: "));  // it has nothing to read
  setenv("PYPTX_ASSEMBLER_SECONDS", "0.3", 1);
  const auto before = std::chrono::steady_clock::now();
  CHECK(said("exec sleep 60") == cat(file, " has not ended after 0.3 s and was stopped"));
  CHECK(said("exec >&- 2>&-; exec sleep 60") == cat(file, " has not ended after 0.3 s and was stopped"));
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));
  unsetenv("PYPTX_ASSEMBLER_SECONDS");

  const auto why_not = [&] {
    const auto found = find_ptxas(packages.search);
    CHECK(found.at(0).assembler == nullptr);
    return found.at(0).why_not;
  };
  packages.script("odd", "exit 3");
  CHECK(why_not() == cat(file, " --version ended with 3"));
  packages.script("odd", "echo release 1.2");
  CHECK(why_not() == cat(file, " --version does not tell its release"));
  fs::permissions(file, fs::perms::owner_read);
  CHECK(why_not() == cat(file, " does not start: Permission denied"));
}

TEST_CASE("a file that is no library is no nvJitLink") {
  Packages packages;
  const std::string file = cat(packages.file("odd"), "/../../lib/libnvJitLink.so.13");
  packages.add("odd", "13.0.1");
  fs::create_directories(fs::path(packages.file("odd")).parent_path().parent_path() / "lib");
  std::ofstream(fs::path(packages.file("odd")).parent_path().parent_path() / "lib/libnvJitLink.so.13") << "no library";
  const auto found = find_nvjitlink(packages.search);
  REQUIRE(found.size() == 1);
  CHECK(found[0].assembler == nullptr);
  CHECK(found[0].why_not.find("libnvJitLink.so.13") != std::string::npos);
}

TEST_CASE("setmaxnreg is in the code, or the kernel is refused") {
  const Assemblers compilers(test_search(), *parse_choice("ptxas"), std::nullopt);
  if (const auto found = compilers.choose(register_budgets_ptx, "sm_90a")) {
    for (const FoundAssembler& each : find_ptxas(test_search())) {
      const auto cubin = each.assembler->assemble(register_budgets_ptx, "sm_90a", {});
      REQUIRE(cubin);
      const auto code = disassemble(cubin->bytes, test_search());
      if (!code && code.why().front().code == Code::no_disassembler) {
        MESSAGE("skipped: no nvdisasm, no cuobjdump");
        continue;
      }
      REQUIRE(code);
      CHECK_MESSAGE(code->find("USETMAXREG.DEALLOC") != std::string::npos, describe(*each.assembler));
      CHECK_MESSAGE(code->find("USETMAXREG.TRY_ALLOC") != std::string::npos, describe(*each.assembler));
    }
  } else {
    MESSAGE("skipped: no ptxas");
  }
  const Assemblers linker(test_search(), *parse_choice("nvjitlink"), std::nullopt);
  const auto other = linker.choose(cat("// no setmaxnreg.\n", good_ptx), "sm_90");
  if (!other) {
    MESSAGE("skipped: no nvJitLink");
    return;
  }
  CHECK((*other)->assemble(good_ptx, "sm_90", {}));
  const auto refused = linker.choose(register_budgets_ptx, "sm_90a");
  REQUIRE_FALSE(refused);
  CHECK(refused.why().front().code == Code::no_assembler);
  const auto& notes = refused.why().front().notes;
  CHECK(notes.back().find("pip install pyptx[asm]") != std::string::npos);
  CHECK(notes[notes.size() - 2] ==
        cat(describe(**other), ": it compiles relocatable code, in which setmaxnreg is dropped"));
  // What the text does not show, the log does.
  const auto dropped = (*other)->assemble(register_budgets_ptx, "sm_90a", {{}, "budgets", false});
  REQUIRE_FALSE(dropped);
  CHECK(dropped.why().front().code == Code::assembler_changes);
  CHECK(dropped.why().front().message ==
        cat("budgets: ", describe(**other), " compiles relocatable code, in which setmaxnreg is dropped"));
  const auto serialized = (*other)->assemble(wgmma_ptx, "sm_90a", {});
  REQUIRE_FALSE(serialized);
  CHECK(serialized.why().front().message.ends_with("in which wgmma.mma_async is serialized"));
  CHECK(serialized.why().front().notes.back().find("pip install pyptx[asm]") != std::string::npos);
}

TEST_CASE("the process' own choice") {
  setenv("PYPTX_ASSEMBLER", "gas", 1);
  const auto wrong = assemblers();
  REQUIRE_FALSE(wrong);
  CHECK(wrong.why().front().code == Code::bad_assembler_choice);
  CHECK(wrong.why().front().message.starts_with("$PYPTX_ASSEMBLER: `gas` is no choice"));
  Packages packages;
  packages.add("a", "13.0.88");
  packages.add("b", "13.5.37");
  use(packages.search);
  setenv("PYPTX_ASSEMBLER", cat("ptxas:", packages.file("a")).c_str(), 1);
  const auto version = [] {
    const auto found = choose_assembler("", "");
    return found ? (*found)->version() : to_string(found.why());
  };
  CHECK(version() == "13.0.88");
  CHECK_FALSE(use_assembler("gas"));
  CHECK(version() == "13.0.88");
  REQUIRE(use_assembler(cat("ptxas:", packages.file("b"))));
  CHECK(version() == "13.5.37");
  REQUIRE(use_assembler("auto"));
  CHECK(version() == "13.5.37");
  unsetenv("PYPTX_ASSEMBLER");
  use({});
}
