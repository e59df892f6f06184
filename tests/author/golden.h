// Goldens of authoring: python/tests/goldens/NAME.txt holds Python source, `---`, and the text that it stands for (the
// whole module, or the body). Here the same text is asked of the C++ functions; python/tests asks it of the Python
// source.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "ptx/author/builder.h"

namespace ptx::author::testing {

std::string fixture(const std::string& name);  // the text behind ---
std::string trace(const std::function<void(Builder&)>& body, Options options = {});
std::string body_of(const std::string& text);  // between the braces
void golden(const std::string& name, const std::function<void(Builder&)>& body, Options options = {});
Code refusal(const std::function<void(Builder&)>& body, Options options = {});  // Code{} if nothing was refused

}  // namespace ptx::author::testing
