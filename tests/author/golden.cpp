#include "golden.h"

#include <fstream>
#include <sstream>

namespace ptx::author::testing {

std::string fixture(const std::string& name) {
  std::ifstream file(std::string(PTX_SOURCE_DIR) + "/python/tests/goldens/" + name + ".txt");
  REQUIRE_MESSAGE(file.good(), "no golden " << name);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t at = all.find("---\n");
  REQUIRE(at != std::string::npos);
  return all.substr(at + 4);
}

std::string trace(const std::function<void(Builder&)>& body, Options options) {
  if (options.name == "kernel") options.name = "k";
  Builder builder(std::move(options));
  body(builder);
  return ir::emit(builder.finish().module);
}

std::string body_of(const std::string& text) {
  const std::size_t begin = text.find("\n{\n") + 3;
  return text.substr(begin, text.rfind("}\n") - begin);
}

void golden(const std::string& name, const std::function<void(Builder&)>& body, Options options) {
  INFO(name);
  const std::string wanted = fixture(name);
  const std::string made = trace(body, std::move(options));
  CHECK((wanted.starts_with(".version") ? made : body_of(made)) == wanted);
}

Code refusal(const std::function<void(Builder&)>& body, Options options) {
  try {
    trace(body, std::move(options));
  } catch (const Refused& refused) {
    return refused.why().front().code;
  }
  return Code{};
}

}  // namespace ptx::author::testing
