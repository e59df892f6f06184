// Programs with one seeded bug each, seeded/*.ptx, and the same programs mended. A file is the body of a kernel; the
// prelude below gives it registers, %r1 = %tid.x, %r2 = %ctaid.x, %rd1 = the buffer `p` of 4096 zeros.
//
//   // report: data_race          the rule; several words: any of these codes comes first
//   // target: sm_100a            else sm_90a
//   // run: grid 2,1,1 block 64,1,1 cluster 2,1,1
//   st.shared.u32 [s], %r1;       //@ this line is one of the two that the report names
//   bar.sync 0;                   //+ only in the mended program
//   bar.sync 1;                   //- only in the broken one
//
// A program is run under the plain schedule and must be reported; mended, it has no report under any of 20 schedules.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "ptx/sim/recording.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

constexpr std::string_view prelude =
    " .address_size 64 .visible .entry k(.param .u64 p) { .reg .pred %p<16>; "
    ".reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .b16 %h<8>; .reg .f32 %f<64>; .reg .b64 %never; "
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\n";

struct Program {
  std::string broken, mended;
  std::vector<std::string> rules;
  std::vector<std::uint32_t> lines;  // that the report names
  std::string checks = "all";
  sim_test::Fixture fixture;
};

Program read(const std::filesystem::path& path) {
  Program out;
  const std::string file = sim_test::read_file(path);
  out.fixture = sim_test::parse_fixture(file);
  if (out.fixture.arguments.empty()) out.fixture.arguments = {{"inout", std::string(8192, '0'), {}}};
  std::stringstream text(file);
  std::string line, word;
  std::string target = "sm_90a";
  for (std::uint32_t number = 2; std::getline(text, line); ++number) {
    std::stringstream words(line);
    if (words >> word && word == "//") {
      words >> word;
      if (word == "report:") {
        while (words >> word) out.rules.push_back(word);
      }
      if (word == "checks:") words >> out.checks;
      if (word == "target:") words >> target;
    }
    if (line.find("//@") != line.npos) out.lines.push_back(number);
    out.broken += (line.find("//+") == line.npos ? line : "") + "\n";
    out.mended += (line.find("//-") == line.npos ? line : "") + "\n";
  }
  const std::string head = ".version 8.6 .target " + target + std::string(prelude);
  out.broken = head + out.broken + "ret; }\n", out.mended = head + out.mended + "ret; }\n";
  return out;
}

sim::Options options(const Program& program, std::uint64_t seed) {
  const auto checks = sim::checks_named(program.checks);
  REQUIRE(checks);
  return {.budget = 1 << 22, .seed = seed, .checks = *checks};
}

// Every line that is marked is a site of the report. (Of arrivals a phase knows the lines and not the threads.)
bool names_lines(const sim::Report& report, const std::vector<std::uint32_t>& lines) {
  return std::all_of(lines.begin(), lines.end(), [&](std::uint32_t line) {
    const std::string word = "line " + std::to_string(line) + " ";
    const auto names = [&](const std::string& note) { return note.find(word) != note.npos; };
    const Diagnostic& d = report.diagnostic;
    if (d.code == Code::partial_phase && std::any_of(d.notes.begin(), d.notes.end(), names)) return true;
    return std::any_of(report.sites.begin(), report.sites.end(),
                       [&](const sim::Site& site) { return site.place.line == line; });
  });
}

}  // namespace

TEST_CASE("programs with a seeded bug are reported, and mended ones are not") {
  std::map<std::string, std::size_t> kinds;  // by the beginning of their names
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(PTX_SOURCE_DIR "/tests/sim/seeded"))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    CAPTURE(path);
    const Program program = read(path);
    REQUIRE(!program.rules.empty());
    const std::string name = path.filename().string();
    ++kinds[name.substr(0, name.find('_'))];
    sim::Options watched = options(program, 0);
    watched.recording = std::make_shared<sim::Recording>();
    const Diagnostics said = sim_test::run(program.broken, program.fixture, watched).diagnostics;
    const auto& reports = watched.recording->reports;
    const bool found = std::any_of(reports.begin(), reports.end(), [&](const sim::Report& report) {
      const bool is_rule = std::any_of(program.rules.begin(), program.rules.end(), [&](const std::string& rule) {
        return rule == info(report.diagnostic.code).name;
      });
      return is_rule && names_lines(report, program.lines);
    });
    CHECK_MESSAGE(found, to_string(said));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Diagnostics wrong = sim_test::run(program.mended, program.fixture, options(program, seed)).diagnostics;
      CHECK_MESSAGE(wrong.empty(), "mended, seed ", seed, ": ", to_string(wrong));
      if (!wrong.empty()) break;
    }
  }
  const auto some = [&](std::initializer_list<const char*> names) {
    std::size_t sum = 0;
    for (const char* name : names) sum += kinds[name];
    return sum;
  };
  CHECK(some({"hang", "livelock", "barrier"}) >= 30);
  CHECK(some({"race", "scope", "proxy", "async", "copies", "product", "stage", "tensor", "peer", "collective"}) >= 40);
  CHECK(some({"memory"}) >= 20);
  CHECK(some({"numerics"}) >= 10);
}

TEST_CASE("checks have the names of their rules") {
  CHECK(*sim::checks_named("none") == 0);
  CHECK(*sim::checks_named("data_race,missing_wait") ==
        (sim::bit(sim::Check::data_race) | sim::bit(sim::Check::missing_wait)));
  CHECK((*sim::checks_named("all") & sim::bit(sim::Check::loose_reuse)) == 0);
  CHECK(*sim::checks_named("all,loose_reuse,partial_phase,equal_stores,relayed_order,no_tensor_fence") ==
        (sim::Checks{1} << sim::check_names().size()) - 1);
  CHECK(*sim::checks_named("all,-collective_order") ==
        (*sim::checks_named("all") & ~sim::bit(sim::Check::collective_order)));
  CHECK((*sim::checks_named("all") & sim::bit(sim::Check::equal_stores)) == 0);
  CHECK(!sim::checks_named("-all"));
  const auto wrong = sim::checks_named("races");
  REQUIRE(!wrong);
  CHECK(wrong.why().front().code == Code::no_such_check);
  CHECK(wrong.why().front().message.find("data_race") != std::string::npos);
}
