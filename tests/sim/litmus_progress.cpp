// Progress: random programs of two threads that exchange one word and go on or back by what they find (the shape of
// Sorensen et al., Specifying and Testing GPU Workgroup Progress Models, which Dat3M's tests of liveness have, too).
// Relaxed atomics of one word are sequentially consistent, so all interleavings say what may come. Where each fair
// schedule ends, no run may be stuck; where none does, each is reported; and nothing else is ever read.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "ptx/base/text.h"
#include "tests/sim/run.h"

using namespace ptx;

namespace {

constexpr std::size_t threads = 2;

// Exchanges the word with 0 or 1, or reads it; if it finds `seen`, goes to `target`, else on.
struct Step {
  int written = 0;  // 2: it reads
  int seen = 0, target = 0;
};
using Program = std::array<std::vector<Step>, threads>;
struct State {
  std::array<int, threads> at{}, found{};
  int word = 0;
  auto operator<=>(const State&) const = default;
};

bool is_over(const Program& p, const State& s, std::size_t t) { return s.at[t] == static_cast<int>(p[t].size()); }
bool is_over(const Program& p, const State& s) { return is_over(p, s, 0) && is_over(p, s, 1); }

State after(const Program& p, State s, std::size_t t) {
  const Step& step = p[t][static_cast<std::size_t>(s.at[t])];
  s.found[t] = s.word;
  s.at[t] = s.word == step.seen ? step.target : s.at[t] + 1;
  if (step.written != 2) s.word = step.written;
  return s;
}

std::set<State> reachable(const Program& p, const State& from) {
  std::set<State> all;
  std::vector<State> left{from};
  while (!left.empty()) {
    const State s = left.back();
    left.pop_back();
    if (!all.insert(s).second) continue;
    for (std::size_t t = 0; t < threads; ++t) {
      if (!is_over(p, s, t)) left.push_back(after(p, s, t));
    }
  }
  return all;
}

struct Verdict {
  bool always = true;  // it ends in each fair schedule
  std::set<State> ends{};
};

// A fair schedule need not end if some states reach each other, and each thread that is not over takes a step there.
Verdict judge(const Program& p) {
  Verdict out;
  const std::set<State> all = reachable(p, {});
  std::map<State, std::set<State>> from;
  for (const State& s : all) from[s] = reachable(p, s);
  for (const State& s : all) {
    if (is_over(p, s)) out.ends.insert(s);
    std::array<bool, threads> steps{};
    for (std::size_t t = 0; t < threads; ++t) steps[t] = is_over(p, s, t);
    for (const State& other : from[s]) {
      if (!from[other].contains(s)) continue;
      for (std::size_t t = 0; t < threads; ++t)
        steps[t] = steps[t] || (!is_over(p, other, t) && from[after(p, other, t)].contains(s));
    }
    if (!is_over(p, s) && steps[0] && steps[1]) out.always = false;
  }
  return out;
}

Program random_program(std::mt19937& random) {
  Program p;
  for (auto& steps : p) {
    steps.resize(1 + random() % 3);
    for (Step& step : steps) {
      step.written = static_cast<int>(random() % 3), step.seen = static_cast<int>(random() % 2);
      step.target = static_cast<int>(random() % (steps.size() + 1));
    }
  }
  return p;
}

// Where the two threads are: two CTAs, two warps, two lanes of a warp.
enum class Where : std::uint8_t { ctas, warps, lanes };

std::string text_of(const Program& p, Where where) {
  std::string text =
      cat(".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<2>; "
          ".reg .b32 %r<4>; .reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, ",
          where == Where::ctas ? "%ctaid.x" : "%tid.x", ";\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra t0_0;\n",
          "setp.eq.u32 %p1, %r1, ", where == Where::warps ? 32 : 1, ";\n@%p1 bra t1_0;\nret;\n");
  for (std::size_t t = 0; t < threads; ++t) {
    for (std::size_t i = 0; i < p[t].size(); ++i) {
      const Step& step = p[t][i];
      text += cat("t", t, "_", i, ":\n");
      text += step.written == 2 ? "ld.relaxed.gpu.global.u32 %r2, [%rd1];\n"
                                : cat("atom.relaxed.gpu.global.exch.b32 %r2, [%rd1], ", step.written, ";\n");
      text += cat("setp.eq.u32 %p1, %r2, ", step.seen, ";\n@%p1 bra t", t, "_", step.target, ";\n");
    }
    text += cat("t", t, "_", p[t].size(), ":\nst.global.u32 [%rd1+", 64 + 4 * t, "], %r2;\nret;\n");
  }
  return text + "}\n";
}

int word(const sim_test::Result& result, std::size_t at) {
  return std::stoi(result.outputs[0].substr(2 * at, 2), nullptr, 16);
}

}  // namespace

TEST_CASE("threads that wait for each other get on, wherever they are") {
  std::mt19937 random(1);
  std::array<int, 3> kinds{};  // that always end, may end, never end
  for (int number = 0; number < 250; ++number) {
    const Program p = random_program(random);
    const Verdict verdict = judge(p);
    const int kind = verdict.always ? 0 : verdict.ends.empty() ? 2 : 1;
    ++kinds[static_cast<std::size_t>(kind)];
    for (const Where where : {Where::ctas, Where::warps, Where::lanes}) {
      const std::string text = text_of(p, where);
      CAPTURE(text);
      sim_test::Fixture f;
      f.grid = {where == Where::ctas ? 2u : 1u, 1, 1};
      f.block = {where == Where::ctas ? 1u : where == Where::warps ? 64u : 2u, 1, 1};
      f.arguments = {{"inout", std::string(256, '0'), {}}};
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const sim::Options options{.budget = 1 << 14, .seed = seed, .checks = *sim::checks_named("all")};
        const auto result = sim_test::run(text, f, options);
        const bool ended = result.diagnostics.empty();
        if (kind == 0) REQUIRE_MESSAGE(ended, "seed ", seed, ": ", to_string(result.diagnostics));
        if (kind == 2) REQUIRE_MESSAGE(!ended, "seed ", seed);
        if (!ended) {
          const Code code = result.diagnostics[0].code;
          REQUIRE_MESSAGE((code == Code::livelock || code == Code::budget_exceeded), to_string(result.diagnostics));
          continue;
        }
        const auto came = [&](const State& s) {
          return s.word == word(result, 0) && s.found[0] == word(result, 64) && s.found[1] == word(result, 68);
        };
        REQUIRE_MESSAGE(std::any_of(verdict.ends.begin(), verdict.ends.end(), came), "seed ", seed);
      }
    }
  }
  for (const int count : kinds) CHECK(count >= 10);
}
