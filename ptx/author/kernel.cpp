// The C++ face: mnemonics from modifiers, and the kernel that a thread is writing.
#include "ptx/author/kernel.h"

#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "ptx/author/detail/alive.h"
#include "ptx/author/detail/state.h"
#include "ptx/base/text.h"

namespace ptx::author {
namespace {

thread_local Kernel* writing = nullptr;

}  // namespace

Builder& here(Builder* builder, const std::source_location& at) {
  check_alive(builder);
  Builder& made = builder ? *builder : Kernel::current();
  made.set_place(at);
  return made;
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

// A kernel whose place in memory no other takes for a while after its end: registers know their kernel by its address,
// and one that has outlived its own must not be taken for one of the next.
class Placed {
 public:
  template <class... Arguments>
  explicit Placed(Arguments&&... arguments)
      : memory_(std::make_unique<Memory>()),
        kernel_(new(memory_->bytes) Kernel(std::forward<Arguments>(arguments)...)) {}
  Placed(const Placed&) = delete;
  ~Placed() {
    thread_local std::array<std::unique_ptr<Memory>, 32> left;
    thread_local std::size_t next = 0;
    kernel_->~Kernel();
    left[next++ % left.size()] = std::move(memory_);
  }

  Built write(const std::function<void(Kernel&)>& body) {
    if (kernel_->options().name.empty())
      kernel_->refuse(Code::bad_argument, "a kernel needs a name: {.name = \"scale\"}");
    const Writing restore(*kernel_);
    try {
      body(*kernel_);
    } catch (const Refused& refused) {
      throw refused.at(kernel_->options().place);  // an operand that was made before anybody knew its line
    }
    return kernel_->finish();
  }

 private:
  struct Memory {
    alignas(Kernel) std::byte bytes[sizeof(Kernel)];
  };
  std::unique_ptr<Memory> memory_;
  Kernel* kernel_;
};

}  // namespace

Place place_of(const std::source_location& at) { return Place{Name(at.file_name()), at.line(), at.column()}; }

Built kernel(Options options, const std::function<void(Kernel&)>& body, std::source_location at) {
  options.place = place_of(at);
  return Placed(std::move(options)).write(body);
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

const Reg Arguments::field(std::size_t i, std::size_t f) const {
  const std::size_t count = i < all.size() ? all[i].size() : all.size();
  if (i >= all.size() || f >= count)
    Kernel::current().refuse(Code::index_range, cat(i < all.size() ? "field " : "argument ", i < all.size() ? f : i,
                                                    " of ", count, " of a function: they count from 0"));
  const Operand& o = all[i][f];
  return {o.builder, o.ir.id, o.type};
}

namespace {}  // namespace

ir::Guard when(const Reg& predicate, std::source_location at) { return here(predicate.builder, at).guard(predicate); }
ir::Guard when(const Not& predicate, std::source_location at) {
  return here(predicate.reg.builder, at).guard(predicate);
}

Results Callable::call(std::initializer_list<Argument> arguments, const std::source_location& at) const {
  Kernel& k = Kernel::current();
  k.set_place(at);
  return {author::call(k, *this, std::span(arguments.begin(), arguments.size()), options)};
}

Module::Module(std::string target, isa::Version version, std::uint8_t address_size, std::source_location at)
    : options_{.target = std::move(target), .version = version, .place = place_of(at), .address_size = address_size},
      draft_(draft_of(options_)) {}
Module::~Module() = default;

Built Module::kernel(Options options, const std::function<void(Kernel&)>& body, std::source_location at) {
  options.place = place_of(at);
  options.target = options_.target;
  options.version = options_.version;
  return Placed(std::move(options), draft_).write(body);
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
