// The walk over the body of a kernel or function, which is the same in every language: statements and blocks in the
// order of the plan, comments at their lines, each register in front of what names it first. A language spells the
// lines (python_body.cpp, cpp_body.cpp).
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/base/text.h"
#include "ptx/transpile/detail/expressions.h"
#include "ptx/transpile/detail/families.h"
#include "ptx/transpile/detail/names.h"
#include "ptx/transpile/detail/operands.h"
#include "ptx/transpile/detail/plan.h"
#include "ptx/transpile/detail/python.h"
#include "ptx/transpile/detail/source.h"

namespace ptx::transpile {

class Body {
 public:
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  void write(std::uint32_t end);  // `end`: the line of the function's last brace

 protected:
  Body(Language language, const ir::Function& f, const Plan& plan, Source& out, Commentary& comments, Names names);
  virtual ~Body() = default;

  struct Part {                          // a block that branches leave or begin again
    std::string name, label;             // label: "" if it has none
    bool late = false, uniform = false;  // a branch in front of it leads into its middle
  };
  struct Switch {
    std::string index, otherwise;  // the register; the predicate that chooses the default, or ""
    std::uint32_t targets = 0;     // if more than its cases say
    bool uniform = false;
  };
  struct Case {
    std::vector<std::uint32_t> indices;
    bool otherwise = false, falls = false, uniform = false;
  };
  struct Opened {                      // a block
    std::size_t start = 0, lines = 0;  // where its head begins in the text; how many lines stood there then
    bool lambda = false;               // of C++
  };

  // ---- what a language spells: heads of blocks as a line, the other lines without what ends a statement
  virtual std::string when(const std::string& condition, bool uniform) = 0;
  virtual std::string otherwise(bool uniform) = 0;
  virtual std::string loop(const std::string& label, const std::string& name) = 0;  // name: "" if nothing names it
  virtual std::string part(const Part& one) = 0;
  virtual std::string entered(const std::string& name) = 0;
  virtual std::string leave(const std::string& name, bool again, const std::string& condition, bool uniform) = 0;
  virtual std::string loop_while(const std::string& predicate, bool uniform) = 0;
  virtual std::string choose(const Switch& one) = 0;
  virtual std::string option(const Case& one) = 0;
  virtual std::string repeat(const Node& node, Operands::Round& round) = 0;
  virtual std::string scope() = 0;
  // The same as a line that opens or closes it, where blocks are nested `deepest`.
  virtual std::string scope_line(bool opens) = 0;
  // A call: `callee` with arguments, each a value or the fields of a structure.
  struct Called {
    std::string callee;
    std::vector<std::vector<std::string>> arguments;
    std::vector<bool> structures;
    bool uniform = false, unloaded = false;
    std::vector<std::string> types, into;  // of results that are new; registers that take them
    std::vector<std::uint32_t> order;
  };
  virtual std::string called(const Called& call) = 0;
  // The names of several results that are new; "": the language has no such form.
  virtual std::string unpacked(const std::vector<std::string>& /*names*/) { return {}; }
  virtual void empty_block() = 0;                   // what stands in it
  virtual void end_block(const Opened& block) = 0;  // what stands behind it

  virtual std::string assigned(const std::string& name, const std::string& value) = 0;
  virtual std::string constant(const std::string& name, const std::string& text) = 0;  // a text
  virtual std::string named(const std::string& text) = 0;
  virtual std::string scalar(isa::Type type) = 0;
  virtual std::string array(const std::string& name, isa::Type type, std::size_t count) = 0;
  virtual void used(const std::string& expression, isa::Type type) = 0;  // what makes a register of that type
  virtual std::string call(std::string_view function, const std::string& arguments) = 0;
  virtual std::string raw(const std::string& text) = 0;
  virtual std::string variable(const ir::Variable& v) = 0;
  virtual void used(const FamilyCalls::Call&) {}
  virtual void used(isa::Type) {}  // its name stands in the program
  // A variable as an allocation of shared memory with this name, or (if it holds no type) of mbarrier objects; "": the
  // language has none.
  virtual std::string allocated(const std::string& name, const ir::Variable& v, const Contents& contents) = 0;
  virtual std::string directive(const std::string& text) = 0;
  virtual void registers(const ir::RegisterDeclaration& d) = 0;

  void line(std::string_view text);
  void say(const std::string& statement) { line(cat(statement, end_)); }
  std::string declared(std::string_view wanted);  // a name that ends with its scope
  std::string free_name(std::string_view letters);

  const ir::Function& f_;
  const Plan& plan_;
  Source& out_;
  Names names_;
  RegisterNames registers_;
  Operands operands_;

 private:
  void parameters();
  void long_names();
  void declarations();
  void note(std::uint32_t statement);
  void keep_comment();
  void at(std::uint32_t i);
  void nodes(const std::vector<Node>& list);
  void open(const std::string& head);
  void close();
  void close_scope();
  void block(const std::string& head, const std::vector<Node>& body);
  const ir::Instruction& branch(std::uint32_t statement);
  std::string predicate(const ir::Guard& guard, bool inverted = false);
  void when(const Node& node);
  void loop(const Node& node);
  std::string way_name(const Node& node, std::string_view wanted);
  void way(const Node& node);
  void leave(const Node& node);
  void wait(const Node& node);
  void call(const Node& node);
  std::vector<ir::RegisterId> fresh(const Call& call);
  void choose(const Node& node);
  void option(const Node& node, bool last);
  void repeat(const Node& node);
  std::string label(std::uint32_t name) const;

  void declare_before(std::uint32_t i);
  void declare(ir::RegisterId id);
  void declare(const PlannedArray& array);

  void statement(const ir::Statement& s, std::uint32_t i);
  void variable_of_body(const ir::Variable& v);
  bool stays_inside(const ir::Variable& v) const;
  bool holds_barriers(const ir::Variable& v) const;
  void say_why(std::uint32_t i);
  void instruction(std::uint32_t i, const ir::Instruction& instruction);
  void raised(std::uint32_t i, const ir::Instruction& instruction);
  std::string text_of(const ir::Instruction& instruction) const;
  const ir::Table* table_at(std::uint32_t i) const;

  const std::string_view end_;  // of a statement
  Commentary& comments_;
  std::vector<isa::Type> types_;  // the author's
  Expressions expressions_;
  FamilyCalls families_;
  struct Before {
    std::uint32_t statement, depth;
    ir::RegisterId id;
    auto operator<=>(const Before&) const = default;
  };
  std::vector<Before> before_;
  std::size_t next_before_ = 0, next_array_ = 0;
  std::vector<std::vector<std::string>> scopes_;  // names of each
  std::vector<bool> lines_of_scopes_;             // whether each is opened by a line
  std::vector<Opened> opened_;
  std::unordered_set<const char*> told_;                 // why branches stay
  std::unordered_map<std::uint32_t, std::string> ways_;  // names, by Node::way
  std::size_t lines_ = 0;                                // without comments
  std::string behind_;                                   // the comment that the next line has behind it
};

}  // namespace ptx::transpile
