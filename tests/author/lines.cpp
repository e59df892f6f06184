// The C++ face: whatever is refused, and whatever is appended, has the author's own line.
#include <set>

#include "golden.h"
#include "ptx/author/barrier.h"
#include "ptx/author/copy.h"
#include "ptx/author/kernel.h"
#include "ptx/author/matrix.h"
#include "ptx/author/shared.h"
#include "ptx/author/tcgen05.h"
#include "ptx/author/warp.h"

namespace ptx::author::testing {
namespace {

struct Case {
  std::uint32_t line;
  std::function<void(Kernel&)> body;
};

constexpr std::uint32_t call = __LINE__ + 5;  // of kernel() below

// Of the first thing that is refused; 0: nothing is.
std::uint32_t refused_line(const std::function<void(Kernel&)>& body, const char* target = "sm_90a") {
  try {
    author::kernel({.name = "k", .target = target}, body);
  } catch (const Refused& refused) {
    const Place& place = refused.why().front().place;
    return place.file.view() == __FILE__ ? place.line : 0xffffffff;
  }
  return 0;
}

}  // namespace

TEST_CASE("what is refused has its own line") {
  using namespace ptx::modifiers;
  const Case cases[] = {
      // declarations and statements
      {__LINE__, [](Kernel& k) { k.add_pointer("a b"); }},
      {__LINE__, [](Kernel& k) { k.add_raw("u33", "n"); }},
      {__LINE__, [](Kernel& k) { k.param(u32, "n"); }},
      {__LINE__, [](Kernel& k) { k.pointers({"a b"}); }},
      {__LINE__, [](Kernel& k) { k.scalar(rn); }},
      {__LINE__, [](Kernel& k) { k.scalar(u32, "1x"); }},
      {__LINE__, [](Kernel& k) { k.scalar(u32, 1.5); }},
      {__LINE__, [](Kernel& k) { k.array(f32, 0); }},
      {__LINE__, [](Kernel& k) { k.array(f32, -1); }},
      {__LINE__, [](Kernel& k) { k.alloc_array(f32, 1 << 20); }},
      {__LINE__, [](Kernel& k) { k.from("missing", u32); }},
      {__LINE__, [](Kernel& k) { k.special("%tidx"); }},
      {__LINE__, [](Kernel& k) { k.label("a b"); }},
      {__LINE__, [](Kernel& k) { k.label("a"), k.label("a"); }},
      {__LINE__, [](Kernel& k) { k.emit("add.f33"); }},
      {__LINE__, [](Kernel& k) { k.variable({.dims = {0}}); }},
      // elements
      {__LINE__, [](Kernel& k) { k.array(f32, 4)[4]; }},
      {__LINE__, [](Kernel& k) { k.array(f32, 4)[-1]; }},
      {__LINE__, [](Kernel& k) { k.vector(k.array(f32, 4), 3, 2); }},
      {__LINE__, [](Kernel& k) { k.elements(k.array(f32, 4), 3, 2); }},
      {__LINE__, [](Kernel& k) { k.array(f32, 4).set(4, k.scalar(f32)); }},
      {__LINE__, [](Kernel& k) { k.scalar(f32).as(u64); }},
      // shared memory
      {__LINE__, [](Kernel& k) { shared(k, f32, {0}); }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4})[4]; }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4})[k.scalar(u64)]; }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4}).load(4); }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4}).store(0, k.scalar(u32)); }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4, 4}).load(0, 4); }},
      {__LINE__, [](Kernel& k) { k.at(shared(k, f32, {4}), 20); }},
      {__LINE__, [](Kernel& k) { shared(k, f32, {4, 4}).store(4, 0, 1.0); }},
      {__LINE__, [](Kernel& k) { wgmma_tile(k, bf16, {64}, false); }},
      {__LINE__, [](Kernel& k) { barriers(k, 0); }},
      {__LINE__, [](Kernel& k) { barriers(k, 2)[2]; }},
      {__LINE__, [](Kernel& k) { barriers(k, 2)[k.scalar(f32)]; }},
      {__LINE__, [](Kernel& k) { shared_base(k); }},
      // operators
      {__LINE__, [](Kernel& k) { -k.scalar(pred); }},
      {__LINE__, [](Kernel& k) { 1 + k.scalar(pred); }},
      {__LINE__, [](Kernel& k) { apply_swizzle(k.scalar(u64), Swizzle::b128); }},
      {__LINE__, [](Kernel& k) { compare_halves(Compare::lt, k.scalar(pred), 1); }},
      // families
      {__LINE__, [](Kernel& k) { pipeline(k, 0); }},
      {__LINE__, [](Kernel& k) { kloop(k, 4, 3, [] {}); }},
      {__LINE__, [](Kernel& k) { warp::reduce_sum(k, k.scalar(f32), {.width = 3}); }},
      {__LINE__, [](Kernel& k) { mbarrier::wait(k, k.at("missing"), 0); }},
      {__LINE__, [](Kernel& k) { mbarrier::array(k, k.scalar(u32), 0, 2)[2]; }},
      {__LINE__, [](Kernel& k) { matrix::ldmatrix(k, {}, k.at(k.scalar(u32))); }},
      {__LINE__, [](Kernel& k) { wgmma::make_descriptor(k, "missing", {.swizzle = 9}); }},
      {__LINE__, [](Kernel& k) { tcgen05::instruction_descriptor(k, {.m = 3}); }},
      {__LINE__, [](Kernel& k) { tensor_copy::prefetch(k, k.scalar(u64), {}); }},
  };
  for (const Case& each : cases) CHECK(refused_line(each.body) == each.line);
  CHECK(refused_line([](Kernel& k) { k.ret(); }, "sm_99") == call);
  std::uint32_t line = __LINE__ + 1;
  const auto with = [](const char* target) { return author::Module(target); };
  try {
    Module m = with("sm_99");
    m.kernel({.name = "k"}, [](Kernel& k) { k.ret(); });
    m.finish();
  } catch (const Refused& refused) {
    CHECK(refused.why().front().place.line == line);
  }
}

TEST_CASE("what is refused says what is legal") {
  using namespace ptx::modifiers;
  const auto said = [](const std::function<void(Kernel&)>& body, const char* target = "sm_90a") {
    try {
      author::kernel({.name = "k", .target = target}, body);
    } catch (const Refused& refused) {
      return refused.why().front().message;
    }
    return std::string("nothing");
  };
  CHECK(
      said([](Kernel& k) { k.add(k.scalar(f32), 1.0, 1.0); }).starts_with("`add` is not complete; it may go on with"));
  CHECK(said([](Kernel& k) { k.add_raw("u32", "n"), k.param(f64, "n"); }) ==
        "the parameter `n` is of .u32, which has fewer bits than .f64");
  CHECK(said([](Kernel& k) { k.array(f32, 4)[4]; }) == "register 4 of an array of 4: they are 0 to 3");
  CHECK(said([](Kernel& k) { k.special("%clock65"); }) ==
        "PTX has no special register `%clock65`; did you mean `%clock64`?");
  CHECK(said([](Kernel& k) { k.special("tid.x"); }).ends_with("`tid.x`; did you mean `%tid.x`?"));
  CHECK(said([](Kernel& k) { k.array(f32, -1); }) == "an array of -1 registers; legal: 1 to 65536");
  CHECK(said([](Kernel& k) { k.ret(); }, "sm90")
            .starts_with("`.target sm90`: no target has this name; they are sm_75, 80, "));
}

TEST_CASE("what is appended has its own line") {
  using namespace ptx::modifiers;
  std::vector<std::uint32_t> lines;
  const auto built = author::kernel({.name = "k"}, [&](Kernel& k) {
    const auto here = [&](std::uint32_t line) { lines.push_back(line); };
    here(__LINE__), k.pointers({"x"});
    here(__LINE__), k.add_raw("u32", "n");
    const Reg n = k.param(u32, "n");
    here(__LINE__ - 1);
    const Reg a = k.from(k.tid_x(), u32);
    here(__LINE__ - 1);
    const Reg b = k.scalar(u32, 3);
    here(__LINE__ - 1);
    here(__LINE__), k.at(n, a);
    here(__LINE__), -a.as(s32);
    here(__LINE__), 2 + b;
    const Shared s = shared(k, u32, {2, 4});
    here(__LINE__), s[a];
    here(__LINE__), s[0].load(a);
    here(__LINE__), s.store(0, 1, b);
    const Barriers bars = barriers(k, 2);
    here(__LINE__), bars[a];
    here(__LINE__), warp::reduce_sum(k, b);
    here(__LINE__), mbarrier::wait(k, bars[0], 0);
    const Pipeline ring = pipeline(k, 2);
    here(__LINE__ - 1);
    here(__LINE__), ring.advance();
    here(__LINE__), cluster::sync(k);
    here(__LINE__), apply_swizzle(b, Swizzle::b128);
    here(__LINE__), k.ret();
  });
  std::set<std::uint32_t> expected(lines.begin(), lines.end()), found;
  for (const ir::Statement& statement : built.module.functions[0].body) {
    if (statement.kind == ir::Statement::Kind::instruction) found.insert(statement.place.line);
  }
  expected.erase(lines[1]);  // a parameter is no instruction
  CHECK(found == expected);
}

}  // namespace ptx::author::testing
