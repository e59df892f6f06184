// Mnemonics: which are legal, in which order, and what is said about the others.
#include <doctest/doctest.h>

#include "ptx/isa/form.h"
#include "ptx/isa/form_ids.h"

using namespace ptx::isa;

TEST_CASE("some flags may stand twice, as in the assembler") {
  const Mnemonic* m = resolve("add.sat.s32.sat");
  REQUIRE(m->matches.size() == 1);
  CHECK_FALSE(m->matches[0].in_order);
  CHECK(m->canonical == "add.sat.s32");
  CHECK(resolve("add.ftz.ftz.f32")->matches.empty());
  CHECK(resolve("add.s32.s32")->matches.empty());
}

TEST_CASE("a mnemonic is resolved once, to its form and values") {
  const Mnemonic* m = resolve("add.s32");
  REQUIRE(m->matches.size() == 1);
  CHECK(m == resolve("add.s32"));
  CHECK(m->opcode == "add");
  CHECK(m->matches[0].id == form_id::add_int);
  CHECK(m->matches[0].type() == Type::s32);
  CHECK(m->matches[0].in_order);
  CHECK(m->canonical == "add.s32");
  CHECK(m->matches[0].operands.size() == 3);
  CHECK(m->matches[0].operands[0].type == Type::s32);
}

TEST_CASE("modifiers match as a set, fixed ones and types keep their place") {
  const Mnemonic* m = resolve("atom.add.global.u32.relaxed.gpu");
  REQUIRE(m->matches.size() == 1);
  CHECK_FALSE(m->matches[0].in_order);
  CHECK(m->canonical == "atom.relaxed.gpu.global.add.u32");
  CHECK(m->matches[0].space() == Space::global);
  CHECK(resolve("mul.wide.u32")->matches.size() == 1);
  CHECK(resolve("mul.u32.wide")->matches.empty());
  CHECK_FALSE(resolve("cvt.rn.f16.f32")->matches.empty());
  CHECK(resolve("cvt.f32.rn.f16")->matches.empty());
}

TEST_CASE("words marked < keep their order among the two, and stand anywhere else") {
  const Mnemonic* m = resolve("mma.row.sync.s32.b1.b1.s32.and.aligned.popc.m16n8k256.col");
  REQUIRE(m->matches.size() == 1);
  CHECK(m->canonical == "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc");
  CHECK(resolve("mma.sync.aligned.m16n8k256.col.row.s32.b1.b1.s32.and.popc")->matches.empty());
  CHECK(resolve("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.popc.and")->matches.empty());
  CHECK(resolve("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32")->matches.at(0).value("alayout") == "col");
}

TEST_CASE("an optional modifier is there or not") {
  const Match& with = resolve("bra.uni")->matches.at(0);
  const Match& without = resolve("bra")->matches.at(0);
  CHECK(with.has("uni"));
  CHECK(with.value("uni") == "uni");
  CHECK_FALSE(without.has("uni"));
  CHECK(resolve("mbarrier.arrive.release.cta.shared.b64")->matches.size() == 2);
  CHECK(resolve("mbarrier.arrive.release.shared.b64")->matches.empty());  // .sem and .scope: both or none
}

TEST_CASE("an explanation lists what is legal") {
  CHECK(explain("ad.s32") == "no instruction is called `ad`; did you mean `add`?");
  const std::string scope = explain("fence.acq_rel.gpx");
  CHECK(scope.find("`.gpx` cannot follow `fence.acq_rel`") != scope.npos);
  CHECK(scope.find("did you mean `gpu`?") != scope.npos);
  const std::string open = explain("redux.sync.add");
  CHECK(open.find("is not complete") != open.npos);
  CHECK(open.find(".s32") != open.npos);
  CHECK(explain("mul.u32") == "`mul.u32` is not complete; behind `mul` stands one of .hi .lo .wide");
  CHECK(explain("ex2.f32") == "`ex2.f32` is not complete; behind `ex2` stands .approx");
  CHECK(explain("wgmma.mma_async.sync.aligned.m64n32k32.f32.bf16.bf16") ==
        "`wgmma.mma_async.sync.aligned.m64n32k32.f32.bf16.bf16` is not complete; `.m64n32k16` stands in place of "
        "`.m64n32k32`, or behind `wgmma.mma_async` stands .sp");
  CHECK(explain("exit.now") == "`.now` cannot follow `exit`, which takes no further modifier");
}
