// The control flow of a kernel, whose bodies are C++ functions: k.if_(p, body), k.range(0, n, 1, body), which calls
// body(i) with the counter, a const Reg&. What each writes: control.h.
#pragma once

#include <functional>
#include <initializer_list>
#include <source_location>
#include <string_view>

#include "ptx/author/control.h"
#include "ptx/author/declarations.h"
#include "ptx/author/modifiers.h"

namespace ptx::author {

bool is_uniform(Builder& builder, Modifier modifier);  // refused (bad_argument) if it is another than uni

// What the body of Blocks::block, or of a loop, is given. `uni` in front: bra.uni.
class Block {
 public:
  Block(Builder& builder, std::uint32_t id) : builder_(&builder), id_(id) {}

  // To the place behind the block or loop.
  void leave(std::source_location at = std::source_location::current()) const { go(author::leave, {}, false, at); }
  void leave(Modifier uniform, std::source_location at = std::source_location::current()) const {
    go(author::leave, {}, is_uniform(*builder_, uniform), at);
  }
  template <class P>
  void leave(const P& predicate, std::source_location at = std::source_location::current()) const {
    go(author::leave, builder_->guard(predicate), false, at);
  }
  template <class P>
  void leave(Modifier uniform, const P& predicate, std::source_location at = std::source_location::current()) const {
    go(author::leave, builder_->guard(predicate), is_uniform(*builder_, uniform), at);
  }

  // Where the first turn of a block begins that is late.
  void enter() const { author::enter(*builder_, id_); }

  // To the beginning of the loop, or of a block with a label.
  void again(std::source_location at = std::source_location::current()) const { go(author::again, {}, false, at); }
  void again(Modifier uniform, std::source_location at = std::source_location::current()) const {
    go(author::again, {}, is_uniform(*builder_, uniform), at);
  }
  template <class P>
  void again(const P& predicate, std::source_location at = std::source_location::current()) const {
    go(author::again, builder_->guard(predicate), false, at);
  }
  template <class P>
  void again(Modifier uniform, const P& predicate, std::source_location at = std::source_location::current()) const {
    go(author::again, builder_->guard(predicate), is_uniform(*builder_, uniform), at);
  }

 private:
  void go(void (*where)(Builder&, std::uint32_t, ir::Guard, bool), ir::Guard predicate, bool uniform,
          const std::source_location& at) const {
    builder_->set_place(at);
    where(*builder_, id_, predicate, uniform);
  }

  Builder* builder_;
  std::uint32_t id_;
};

class Blocks : public Declarations {
 public:
  using Declarations::Declarations;

  template <class P>
  void if_(const P& predicate, const std::function<void()>& then, const std::function<void()>& otherwise = {},
           std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_if(*this, predicate);
    then();
    end_if(*this);
    if (!otherwise) return;
    begin_else(*this);
    otherwise();
    end_else(*this);
  }
  void loop(std::string_view label, ir::Guard predicate, const std::function<void()>& body,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_loop(*this, label, predicate);
    body();
    end_loop(*this);
  }
  // Blocks as compilers write them (control.h): no branch and no label more than is needed. `uni` in front: bra.uni.
  template <class P>
  void when(const P& predicate, const std::function<void()>& then,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    write_when(predicate, false, then);
  }
  template <class P>
  void when(Modifier uniform, const P& predicate, const std::function<void()>& then,
            std::source_location at = std::source_location::current()) {
    set_place(at);
    write_when(predicate, is_uniform(*this, uniform), then);
  }
  void otherwise(const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    write_otherwise(false, body);
  }
  void otherwise(Modifier uniform, const std::function<void()>& body,
                 std::source_location at = std::source_location::current()) {
    set_place(at);
    write_otherwise(is_uniform(*this, uniform), body);
  }
  // In the block, loop_while says when it runs again.
  void loop(std::string_view label, const std::function<void()>& body,
            std::source_location at = std::source_location::current()) {
    loop(label, ir::Guard{}, body, at);
  }
  // A loop that leave() and again() name.
  void loop(std::string_view label, const std::function<void(const Block&)>& body,
            std::source_location at = std::source_location::current()) {
    loop(label, ir::Guard{}, [&] { body({*this, open_block(*this)}); }, at);
  }
  // A part of the body that can be left, and with a label begun again.
  void block(const std::function<void(const Block&)>& body, std::source_location at = std::source_location::current()) {
    block(BlockOptions{}, body, at);
  }
  void block(std::string_view label, const std::function<void(const Block&)>& body,
             std::source_location at = std::source_location::current()) {
    block(BlockOptions{label}, body, at);
  }
  void block(const BlockOptions& options, const std::function<void(const Block&)>& body,
             std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_block(*this, options);
    body({*this, open_block(*this)});
    end_block(*this);
  }
  void loop_while(std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, {});
  }
  template <class P>
  void loop_while(const P& predicate, std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, guard(predicate));
  }
  template <class P>
  void loop_while(Modifier uniform, const P& predicate, std::source_location at = std::source_location::current()) {
    set_place(at);
    author::loop_while(*this, guard(predicate), is_uniform(*this, uniform));
  }
  // brx.idx: in the block, one case_ a target of the table.
  void switch_(const Reg& index, const SwitchOptions& options, const std::function<void()>& cases,
               std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_switch(*this, index, options);
    cases();
    end_switch(*this);
  }
  void switch_(const Reg& index, const std::function<void()>& cases,
               std::source_location at = std::source_location::current()) {
    switch_(index, SwitchOptions{}, cases, at);
  }
  void case_(std::initializer_list<std::uint32_t> indices, const CaseOptions& options,
             const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    begin_case(*this, {indices.begin(), indices.size()}, options);
    body();
    end_case(*this);
  }
  void case_(std::initializer_list<std::uint32_t> indices, const std::function<void()>& body,
             std::source_location at = std::source_location::current()) {
    case_(indices, CaseOptions{}, body, at);
  }
  void range(const Operand& start, const Operand& stop, const Operand& step,
             const std::function<void(const Reg&)>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    const Reg variable = begin_range(*this, start, stop, step);
    body(variable);
    end_range(*this);
  }
  void scope(const std::function<void()>& body, std::source_location at = std::source_location::current()) {
    set_place(at);
    open_scope();
    body();
    close_scope();
  }

 private:
  template <class P>
  void write_when(const P& predicate, bool uniform, const std::function<void()>& then) {
    begin_when(*this, guard(predicate), uniform);
    then();
    end_when(*this);
  }
  void write_otherwise(bool uniform, const std::function<void()>& body) {
    begin_otherwise(*this, uniform);
    body();
    end_otherwise(*this);
  }
};

}  // namespace ptx::author
