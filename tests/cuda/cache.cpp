#include "ptx/cuda/cache.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ptx/base/sha256.h"
#include "ptx/base/text.h"
#include "ptx/cuda/detail/tools.h"

using namespace ptx;
using namespace ptx::cuda;
namespace fs = std::filesystem;

namespace {

struct Named final : Assembler {
  explicit Named(std::string version) : text(std::move(version)) {}
  Kind kind() const override { return Kind::ptxas; }
  const std::string& path() const override { return text; }
  const std::string& version() const override { return text; }
  Expected<Cubin> assemble(std::string_view ptx, std::string_view, const AssembleOptions&) const override {
    ++count;
    Cubin cubin;
    cubin.bytes.assign(ptx.size(), std::byte{42});
    cubin.log = "said";
    return cubin;
  }
  std::string text;
  mutable std::atomic<int> count = 0;
};

Cubin cubin(std::string_view bytes) {
  Cubin made;
  for (const char byte : bytes) made.bytes.push_back(static_cast<std::byte>(byte));
  made.log = "a log";
  return made;
}

std::string only_file(const std::string& folder) {
  std::string found;
  for (const auto& at : fs::recursive_directory_iterator(folder))
    if (at.is_regular_file()) found = at.path().string();
  return found;
}

}  // namespace

TEST_CASE("SHA-256 of FIPS 180-4") {
  CHECK(hexadecimal(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hexadecimal(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hexadecimal(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("an entry is found by all that it depends on") {
  const Named a("13.0"), b("13.5");
  const std::string key = CubinCache::key(a, "text", "sm_90a", false);
  CHECK(key == CubinCache::key(a, "text", "sm_90a", false));
  for (const auto& other : {CubinCache::key(b, "text", "sm_90a", false), CubinCache::key(a, "Text", "sm_90a", false),
                            CubinCache::key(a, "text", "sm_90", false), CubinCache::key(a, "text", "sm_90a", true)})
    CHECK(other != key);
}

TEST_CASE("what is written is read; every damage is a miss and is removed") {
  const Scratch scratch;
  const CubinCache cache(scratch.file("cache"), 1 << 20);
  const std::string key(64, 'a'), other(64, 'b');
  CHECK_FALSE(cache.read(key));
  REQUIRE(cache.write(key, cubin("0123456789")));
  const auto read = cache.read(key);
  REQUIRE(read);
  CHECK(read->log == "a log");
  CHECK(read->bytes == cubin("0123456789").bytes);
  CHECK(cache.status().entries == 1);

  const std::string file = only_file(scratch.folder()), good = read_file(file);
  const auto misses_as = [&](const std::string& content) {
    REQUIRE(write_file(file, content));
    CHECK_FALSE(cache.read(key));
    CHECK_FALSE(fs::exists(file));
  };
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    misses_as(flipped);
  }
  for (std::size_t size = 1; size < good.size(); ++size) misses_as(good.substr(0, size));
  misses_as(good + "x");
  REQUIRE(write_file(file, good));
  CHECK(cache.read(key));
  REQUIRE(cache.write(other, cubin("other")));  // the file of another entry under this name
  fs::copy_file(file, fs::path(scratch.file("cache")) / other.substr(0, 2) / (other.substr(2) + ".cubin"),
                fs::copy_options::overwrite_existing);
  CHECK_FALSE(cache.read(other));
}

TEST_CASE("the least recently used go first") {
  const Scratch scratch;
  const CubinCache cache(scratch.file("cache"), 1 << 20);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(cache.write(std::string(64, static_cast<char>('a' + i)), cubin(std::string(1000, 'x'))));
    for (const auto& at : fs::recursive_directory_iterator(scratch.folder()))
      if (at.is_regular_file()) fs::last_write_time(at.path(), at.last_write_time() - std::chrono::hours(1));
  }
  CHECK(cache.trim(2500) == 2);
  CHECK_FALSE(cache.read(std::string(64, 'a')));
  CHECK_FALSE(cache.read(std::string(64, 'b')));
  CHECK(cache.read(std::string(64, 'd')));
  CHECK(cache.clear() == 2);
  CHECK(cache.status().entries == 0);
}

TEST_CASE("a folder that cannot be is no error") {
  const CubinCache none("", 1000), impossible("/proc/nowhere", 1000);
  CHECK_FALSE(none.write(std::string(64, 'a'), cubin("x")));
  CHECK_FALSE(none.read(std::string(64, 'a')));
  CHECK_FALSE(impossible.write(std::string(64, 'a'), cubin("x")));
  CHECK(impossible.status().entries == 0);
}

TEST_CASE("assembled once: in the process, then on disk") {
  const Scratch scratch;
  const CubinCache cache(scratch.file("cache"), 1 << 20);
  const Named assembler("cached");
  const auto make = [&](std::string_view text) { return assemble_cached(assembler, text, "sm_90a", {}, &cache); };
  REQUIRE(make("cached text 1"));
  REQUIRE(make("cached text 1"));
  CHECK(assembler.count.load() == 1);
  CHECK(cache.status().entries == 1);
  REQUIRE(cache.write(CubinCache::key(assembler, "cached text 2", "sm_90a", false), cubin("from disk")));
  const auto found = make("cached text 2");
  REQUIRE(found);
  CHECK((*found)->bytes == cubin("from disk").bytes);
  CHECK(assembler.count.load() == 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 20; ++n) CHECK(make(cat("cached text ", 10 + (n + i) % 5)));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(cache.status().entries == 7);
}
