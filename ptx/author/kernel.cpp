// The C++ face: mnemonics from modifiers, and the kernel that a thread is writing.
#include "ptx/author/kernel.h"

#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

thread_local Kernel* writing = nullptr;

}  // namespace

void operators::put(const Reg& a, const Here& b) {
  check_alive(a.builder);
  if (a.builder) a.builder->set_place(b.at);
}

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

bool is_uniform(Builder& b, Modifier modifier) {
  if (modifier.text != "uni")
    b.refuse(Code::bad_argument, cat("a branch takes the modifier `uni`, not `", modifier.text, '`'));
  return true;
}

namespace {

// `made` is what this thread writes, until the end of the block.
struct Writing {
  Kernel* outer;
  explicit Writing(Kernel& made) : outer(std::exchange(writing, &made)) {}
  ~Writing() { writing = outer; }
};

Place place_of(const std::source_location& at) { return Place{Name(at.file_name()), at.line(), at.column()}; }

}  // namespace

Built kernel(Options options, const std::function<void(Kernel&)>& body, std::source_location at) {
  options.place = place_of(at);
  Kernel made(std::move(options));
  const Writing restore(made);
  body(made);
  return made.finish();
}

Callable Kernel::func(FunctionOptions options, const Body& body, std::source_location at) {
  set_place(at);
  options.place = place_of(at);
  const Callable made{author::declare(*this, std::move(options))};
  if (body) define(made, body, at);
  return made;
}

Callable Kernel::function(std::string_view name, CallOptions options, std::source_location at) {
  set_place(at);
  return {author::function_named(*this, name), std::move(options)};
}

void Kernel::define(const Callable& function, const Body& body, std::source_location at) {
  set_place(at);
  Kernel made(function, *this);
  const Writing restore(made);
  body(made, Arguments{arguments(made)});
  made.finish_function();
}

Results Callable::call(std::initializer_list<Argument> arguments, const std::source_location& at) const {
  Kernel& k = Kernel::current();
  k.set_place(at);
  return {author::call(k, *this, std::span(arguments.begin(), arguments.size()), options)};
}

Module::Module(std::string target, isa::Version version, std::uint8_t address_size)
    : options_{.target = std::move(target), .version = version, .address_size = address_size},
      draft_(draft_of(options_)) {}
Module::~Module() = default;

Built Module::kernel(Options options, const std::function<void(Kernel&)>& body, std::source_location at) {
  options.place = place_of(at);
  options.target = options_.target;
  options.version = options_.version;
  Kernel made(std::move(options), draft_);
  const Writing restore(made);
  body(made);
  return made.finish();
}

void Module::beside(const std::function<void(Kernel&)>& body, Options options, std::source_location at) {
  options.place = place_of(at);
  options.name.clear();
  options.target = options_.target;
  options.version = options_.version;
  Kernel made(std::move(options), draft_);
  const Writing restore(made);
  body(made);
}

Built Module::finish() {
  Built built;
  draft_->finish(built);
  return built;
}

}  // namespace ptx::author
