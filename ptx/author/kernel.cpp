// The C++ face: mnemonics from modifiers, and the kernel that a thread is writing.
#include "ptx/author/kernel.h"

#include "ptx/base/text.h"

namespace ptx::author {
namespace {

thread_local Kernel* writing = nullptr;

}  // namespace

Kernel& Kernel::current() {
  if (!writing)
    throw Refused(Diagnostics{Diagnostic(Code::no_kernel, {}, "no kernel is being written in this thread")});
  return *writing;
}

const isa::Mnemonic* Kernel::mnemonic(const char* opcode, std::span<const Modifier> modifiers) {
  Known key;
  key.opcode = opcode;
  std::size_t slot = reinterpret_cast<std::uintptr_t>(opcode) / 8;
  for (std::size_t i = 0; i < modifiers.size() && i < key.modifiers.size(); ++i) {
    key.modifiers[i] = static_cast<std::uint16_t>(modifiers[i].id + 1);
    slot = slot * 31 + modifiers[i].id;
  }
  Known& known = known_[slot % known_.size()];
  const bool fits = modifiers.size() <= key.modifiers.size();
  if (fits && known.opcode == opcode && known.modifiers == key.modifiers) return known.mnemonic;
  Text text;
  text << opcode;
  for (const Modifier& modifier : modifiers) text << '.' << modifier.text;
  key.mnemonic = isa::resolve(text.view());
  if (fits) known = key;
  return key.mnemonic;
}

Built kernel(Options options, const std::function<void(Kernel&)>& body, std::source_location at) {
  options.place = Place{Name(at.file_name()), at.line(), at.column()};
  Kernel made(std::move(options));
  Kernel* const outer = std::exchange(writing, &made);
  struct Restore {
    Kernel* outer;
    ~Restore() { writing = outer; }
  } restore{outer};
  body(made);
  return made.finish();
}

}  // namespace ptx::author
