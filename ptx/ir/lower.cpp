// Lowering: one pass over the nodes of a tree. Operands are in lower_operands.cpp, constants in constant.cpp.
#include "ptx/ir/lower.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_set>

#include "ptx/base/text.h"
#include "ptx/ir/detail/lower_operands.h"
#include "ptx/ir/detail/section.h"
#include "ptx/syntax/parse.h"
#include "ptx/syntax/print.h"

namespace ptx::ir {
namespace {

using syntax::NodeId;
using syntax::NodeKind;
using syntax::TokenId;
using syntax::TokenKind;

// A declaration of registers is as long as its number says; this bounds what a few bytes of text can ask for.
constexpr std::uint32_t max_registers = 1u << 22;

enum class Owner : std::uint8_t { none, func, entry };  // whose parameter is declared

// What the words before a declarator say.
struct Specifiers {
  Variable variable;
  bool space = false, type = false;
  bool known = true;  // all of its words
  int step = 0;       // how far they have come
};

class Lowering {
 public:
  explicit Lowering(const syntax::Tree& tree) : tree_(tree), lines_(tree.source(), tree.file()) {}

  Lowered run() {
    module_.target.clear();
    module_.address_size = 0;
    for (const NodeId id : tree_.children(0)) top_level(id);
    if (module_.version == isa::Version{}) refuse(Code::module_header, 0, "the module has no .version");
    if (module_.target.empty()) {
      refuse(Code::module_header, 0, "the module has no .target");
      module_.target = Module{}.target;
    }
    return {std::move(module_), std::move(diagnostics_)};
  }

 private:
  void refuse(Code code, NodeId id, std::string message) {
    const Span span = id == 0 ? Span{} : tree_.span(id);
    diagnostics_.emplace_back(code, lines_.place(span.begin), std::move(message));
    diagnostics_.back().span = span;
  }
  Place place(TokenId token) const { return lines_.place(tree_.token(token).begin); }
  std::string_view first_text(NodeId id) const { return tree_.text(tree_.node(id).first); }

  // Tokens as they are written, comments and the breaks of lines left out unless `breaks`.
  std::string words(TokenId first, TokenId last, bool breaks = false) const {
    std::string out;
    for (TokenId id = first; id != last; ++id) {
      const std::string_view trivia = tree_.trivia(id);
      if (id != first && !trivia.empty()) out += breaks && trivia.find('\n') != trivia.npos ? '\n' : ' ';
      out += tree_.text(id);
    }
    return out;
  }
  std::string words(NodeId id, bool breaks = false) const {
    return words(tree_.node(id).first, tree_.node(id).last, breaks);
  }

  // ---- the module

  // A module begins with .version, then .target (each more of it adds features), then .address_size if any.
  enum class Header : std::uint8_t { none, version, target, address_size, over };

  void header_step(NodeId id, Header least, Header most, Header next) {
    if (header_ < least || header_ > most) {
      refuse(Code::module_header, id,
             cat("`", first_text(id), "` stands out of order: a module begins with .version, .target, .address_size"));
    }
    header_ = std::max(header_, next);
  }

  void top_level(NodeId id) {
    switch (tree_.node(id).kind) {
      case NodeKind::directive: return module_directive(id);
      case NodeKind::section: return section(id);
      case NodeKind::function: header_ = Header::over; return function(id);
      case NodeKind::variable:
        header_ = Header::over;
        variables(id, [&](Variable v) {
          module_.items.push_back({Module::Item::Kind::variable, static_cast<std::uint32_t>(module_.variables.size()),
                                   place(tree_.node(id).first)});
          module_.variables.push_back(std::move(v));
        });
        return;
      default: return;  // out of place, and reported so
    }
  }
  void module_text(NodeId id, std::string text) {
    module_.items.push_back(
        {Module::Item::Kind::directive, static_cast<std::uint32_t>(module_.texts.size()), place(tree_.node(id).first)});
    module_.texts.push_back(std::move(text));
  }

  void section(NodeId id) {
    for (const NodeId data : tree_.children(id)) {
      if (tree_.node(data).kind != NodeKind::data) continue;
      if (std::string wrong = wrong_section_data(tree_, data); !wrong.empty())
        refuse(Code::bad_declaration, data, std::move(wrong));
    }
    module_text(id, words(id, true));
  }

  void module_directive(NodeId id) {
    const std::string_view word = first_text(id);
    if (word == ".version") return header_step(id, Header::none, Header::none, Header::version), version(id);
    if (word == ".target") return header_step(id, Header::version, Header::target, Header::target), target(id);
    if (word == ".address_size") {
      return header_step(id, Header::target, Header::target, Header::address_size), address_size(id);
    }
    header_ = Header::over;
    ascii_strings(id);
    if (word == ".file") file(id);
    module_text(id, words(id));
  }
  // `.file 2 "a.cu"`: each index once.
  void file(NodeId id) {
    const std::string_view written = id + 1 == tree_.node(id).end ? std::string_view() : first_text(id + 1);
    const auto index = integer(written);
    if (!index || *index >> 32)
      refuse(Code::directive_value, id, cat("`", written, "`: the index of a .file has 32 bits"));
    else if (!files_.insert(*index).second)
      refuse(Code::directive_value, id, cat("`", written, "` is the index of a .file above"));
  }
  void ascii_strings(NodeId id) {
    for (TokenId token = tree_.node(id).first; token != tree_.node(id).last; ++token) {
      const std::string_view text = tree_.text(token);
      if (tree_.token(token).kind == TokenKind::string &&
          std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
        return refuse(Code::directive_value, id, cat(text, ": a string of PTX has characters of ASCII alone"));
    }
  }
  void version(NodeId id) {
    const std::string text = words(tree_.node(id).first + 1, tree_.node(id).last);
    const char* const end = text.data() + text.size();
    isa::Version version;
    const auto major = std::from_chars(text.data(), end, version.major);
    const bool dot = major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
    const auto minor = dot ? std::from_chars(major.ptr + 1, end, version.minor) : major;
    if (!dot || minor.ec != std::errc() || minor.ptr != end || version.major == 0) {
      return refuse(Code::module_header, id, cat("`", text, "` is no version of PTX; a version reads 8.5"));
    }
    module_.version = version;
    module_.version_place = place(tree_.node(id).first);
  }
  void target(NodeId id) {
    std::string list;
    for (const NodeId name : tree_.children(id)) list += list.empty() ? words(name) : ", " + words(name);
    if (module_.target.empty()) module_.target_place = place(tree_.node(id).first);
    module_.target += module_.target.empty() ? list : ", " + list;
  }
  void address_size(NodeId id) {
    const std::string text = words(tree_.node(id).first + 1, tree_.node(id).last);
    if (text != "32" && text != "64") {
      return refuse(Code::module_header, id, cat("an address has 32 or 64 bits, not `", text, "`"));
    }
    module_.address_size = text == "32" ? 32 : 64;
  }

  // ---- variables

  // Calls `take` with each variable of a declaration; a declaration that says too little is reported.
  template <class Take>
  void variables(NodeId id, Take take, Owner owner = Owner::none) {
    const Specifiers all = specifiers(id, owner);
    if (!all.known) return;
    if (!all.space || !all.type) {
      return refuse(Code::bad_declaration, id,
                    all.space ? "a declaration names no type" : "a declaration names no state space");
    }
    for (const NodeId declarator : tree_.children(id)) take(declared(all.variable, declarator));
  }

  // .linking, then .space, .align n and .attribute(...) in any order, .v4, .type; of a parameter then .ptr .space
  // .align n. Returns false where a word stands behind one that it has to stand before.
  enum class Step : std::uint8_t { linking, space, vector, type, pointer, pointed, aligned };
  bool step(NodeId id, TokenId token, Specifiers& so_far, Step from, Step to) {
    if (so_far.step >= static_cast<int>(from) && so_far.step <= static_cast<int>(to)) return true;
    so_far.known = false;
    refuse(
        Code::bad_declaration, id,
        cat('`', tree_.text(token), "` stands out of order: a declaration reads .visible .global .align 8 .v2 .f32, ",
            "a parameter .param .u64 .ptr .global .align 8"));
    return false;
  }

  Specifiers specifiers(NodeId id, Owner owner) {
    const syntax::Node& node = tree_.node(id);
    const TokenId last = id + 1 == node.end ? node.last : tree_.node(id + 1).first;
    Specifiers result;
    for (TokenId token = node.first; token != last && result.known; ++token) {
      if (tree_.token(token).kind == TokenKind::dot_word) specifier(id, token, last, owner, result);
    }
    return result;
  }
  void specifier(NodeId id, TokenId& token, TokenId last, Owner owner, Specifiers& result) {
    Variable& v = result.variable;
    const std::string_view word = tree_.text(token).substr(1);
    const bool pointed = !v.pointer.empty();
    if (word == "align" && token + 1 != last) {
      const bool behind = (owner == Owner::entry || pointed) && result.step >= static_cast<int>(Step::type);
      if (!step(id, token, result, behind ? Step::type : Step::linking, behind ? Step::pointed : Step::space)) return;
      result.step = static_cast<int>(behind ? Step::aligned : Step::space);
      alignment(id, tree_.text(++token), v);
    } else if (word == "attribute") {
      if (step(id, token, result, Step::linking, Step::space)) v.attributes = attributes(token, last);
    } else if (word == "ptr" && owner != Owner::none) {
      if (!step(id, token, result, Step::type, Step::type)) return;
      v.pointer = ".ptr", result.step = static_cast<int>(Step::pointer);
    } else if (const auto space = isa::space_named(word); space && pointed) {
      if (!is_pointed(*space)) return unknown(id, word, result);
      if (!step(id, token, result, Step::pointer, Step::pointer)) return;
      v.pointer.append(" .").append(word), result.step = static_cast<int>(Step::pointed);
    } else if (space) {
      if (!step(id, token, result, Step::linking, result.space ? Step::linking : Step::space)) return;
      v.space = *space, result.space = true, result.step = static_cast<int>(Step::space);
    } else if (type_word(v, word)) {
      if (!step(id, token, result, Step::linking, Step::vector)) return;
      result.type = true, result.step = static_cast<int>(Step::type);
    } else if (word == "v2" || word == "v4" || word == "v8") {
      if (!step(id, token, result, Step::linking, Step::space)) return;
      v.vector = static_cast<std::uint8_t>(word[1] - '0'), result.step = static_cast<int>(Step::vector);
    } else if (word == "extern" || word == "visible" || word == "weak" || word == "common") {
      if (step(id, token, result, Step::linking, Step::linking)) v.linking += cat(v.linking.empty() ? "" : " .", word);
    } else {
      unknown(id, word, result);
    }
  }
  void unknown(NodeId id, std::string_view word, Specifiers& result) {
    result.known = false;
    refuse(Code::bad_declaration, id, cat("`.", word, "` is no word of a declaration"));
  }
  static bool is_pointed(isa::Space space) {
    return space == isa::Space::global || space == isa::Space::const_ || space == isa::Space::shared ||
           space == isa::Space::local;
  }
  void alignment(NodeId id, std::string_view bytes, Variable& v) {
    const std::uint64_t number = bytes == "WARP_SZ" ? 32 : integer(bytes).value_or(0);
    if (!v.pointer.empty()) {
      v.pointer.append(" .align ").append(bytes);
      if (!std::has_single_bit(number))
        refuse(Code::bad_declaration, id, cat("alignment ", bytes, " is not a power of two"));
      return;
    }
    v.alignment = static_cast<std::uint32_t>(number);
    if (v.alignment == 0) refuse(Code::bad_declaration, id, cat("an alignment of `", bytes, '`'));
  }
  static bool type_word(Variable& v, std::string_view word) {
    if (const auto type = isa::type_named(word)) return v.type = *type, true;
    if (is_opaque(word)) return v.opaque = word, true;
    return false;
  }
  // At `.attribute`: the text between its parentheses. Leaves the token on the last of them.
  std::string attributes(TokenId& token, TokenId last) const {
    const TokenId first = token + 2;
    int depth = 0;
    while (token + 1 < last) {
      const TokenKind kind = tree_.token(++token).kind;
      if (kind == TokenKind::left_paren) ++depth;
      if (kind == TokenKind::right_paren && --depth == 0) return words(first, token);
    }
    return {};
  }

  Variable declared(Variable v, NodeId declarator) {
    const syntax::Node& node = tree_.node(declarator);
    v.name = Name(node.first == node.last ? std::string_view() : first_text(declarator));
    for (const NodeId part : tree_.children(declarator)) {
      const bool empty = part + 1 == tree_.node(part).end;
      switch (tree_.node(part).kind) {
        case NodeKind::range: v.count = static_cast<std::int32_t>(count(part)); break;
        case NodeKind::dimension: v.dims.push_back(empty ? -1 : dimension(part)); break;
        case NodeKind::initializer: v.initializer = words(tree_.node(part).first + 1, tree_.node(part).last); break;
        default: break;
      }
    }
    return v;
  }
  std::int64_t dimension(NodeId part) {
    const NodeKind written = tree_.node(part + 1).kind;
    const auto size = constant(tree_, part + 1);
    const bool plain = written == NodeKind::literal || written == NodeKind::name;
    if (plain && size && size->kind != Constant::Kind::real && size->integer >= 0) return size->integer;
    const bool sum = !plain && size && size->kind != Constant::Kind::real && size->integer >= 0;
    refuse(Code::bad_declaration, part,
           cat("`", words(part), "` is no size of an array", sum ? cat(": write its value, ", size->integer) : ""));
    return 0;
  }
  // The number in `<n>`, at most as many as there may be registers.
  std::uint32_t count(NodeId range) {
    const auto number = range + 1 == tree_.node(range).end   ? std::optional<std::uint64_t>(0)
                        : first_text(range + 1) == "WARP_SZ" ? 32
                                                             : integer(first_text(range + 1));
    if (number && *number > 0 && *number <= max_registers) return static_cast<std::uint32_t>(*number);
    refuse(Code::bad_declaration, range,
           cat("`", words(range), "`: a declaration makes 1 to ", max_registers, " names"));
    return 1;
  }

  // ---- functions

  void function(NodeId id) {
    module_.items.push_back({Module::Item::Kind::function, static_cast<std::uint32_t>(module_.functions.size()),
                             place(tree_.node(id).first)});
    Function f;
    Scope scope;
    OperandLowering operands(tree_, module_, f, scope, diagnostics_, lines_);
    f.place = place(tree_.node(id).first);
    head(f, id);
    f.declaration = true;
    bool named = false;
    for (const NodeId part : tree_.children(id)) {
      switch (tree_.node(part).kind) {
        case NodeKind::name: f.name = Name(first_text(part)), named = true; break;
        case NodeKind::parameters: parameters(f, scope, part, named ? f.parameters : f.returns); break;
        case NodeKind::directive:
        case NodeKind::error: f.directives.push_back(words(part)); break;
        case NodeKind::block:
          f.declaration = false;
          body(f, scope, operands, part);
          break;
        default: break;
      }
    }
    module_.functions.push_back(std::move(f));
  }

  // [linkage] .entry|.func [.attribute(..)]
  void head(Function& f, NodeId id) {
    const syntax::Node& node = tree_.node(id);
    const TokenId last = id + 1 == node.end ? node.last : tree_.node(id + 1).first;
    for (TokenId token = node.first; token != last; ++token) {
      const std::string_view word = tree_.text(token);
      if (word == ".entry" || word == ".func")
        f.entry = word == ".entry";
      else if (word == ".attribute")
        f.attributes = attributes(token, last);
      else if (tree_.token(token).kind == TokenKind::dot_word)
        f.linking += cat(f.linking.empty() ? "" : " .", word.substr(1));
    }
  }

  // Parameters in registers are registers of the body that no statement declares.
  void parameters(Function& f, Scope& scope, NodeId id, std::vector<Variable>& list) {
    for (const NodeId parameter : tree_.children(id)) {
      variables(
          parameter,
          [&](Variable v) {
            if (v.space == isa::Space::reg) {
              scope.declare(v.name.view(), static_cast<RegisterId>(f.registers.size()));
              f.registers.push_back({v.type, v.vector, v.name, -1});
            }
            list.push_back(std::move(v));
          },
          f.entry ? Owner::entry : Owner::func);
    }
  }

  // ---- bodies

  static Statement& add(Function& f, Statement::Kind kind, std::size_t index, Place place) {
    return f.body.push_back({kind, static_cast<std::uint32_t>(index), place}), f.body.back();
  }

  // A block's statements; blocks in it by a walk, not by recursion, as they nest as deep as a text likes.
  void body(Function& f, Scope& scope, OperandLowering& operands, NodeId block) {
    std::vector<NodeId> open;
    for (NodeId id = block + 1;;) {
      while (!open.empty() && id == tree_.node(open.back()).end) {
        add(f, Statement::Kind::close, 0, place(tree_.node(open.back()).last - 1));
        scope.close();
        open.pop_back();
      }
      if (id == tree_.node(block).end) return;
      if (tree_.node(id).kind == NodeKind::block) {
        add(f, Statement::Kind::open, 0, place(tree_.node(id).first));
        scope.open();
        open.push_back(id++);
        continue;
      }
      statement(f, scope, operands, id);
      id = tree_.node(id).end;
    }
  }

  void statement(Function& f, Scope& scope, OperandLowering& operands, NodeId id) {
    const Place where = place(tree_.node(id).first);
    switch (tree_.node(id).kind) {
      case NodeKind::instruction:
        if (operands.instruction(id)) add(f, Statement::Kind::instruction, f.instructions.size() - 1, where);
        break;
      case NodeKind::label: add(f, Statement::Kind::label, Name(first_text(id)).id(), where); break;
      case NodeKind::variable: declaration(f, scope, id, where); break;
      case NodeKind::section: section(id); break;
      case NodeKind::directive: directive(f, id, where); break;
      default: break;
    }
  }

  void declaration(Function& f, Scope& scope, NodeId id, Place where) {
    bool joins = false;  // a, b of one declaration; ranges have one of their own
    variables(id, [&](Variable v) {
      if (v.space != isa::Space::reg) {
        add(f, Statement::Kind::variable, f.variables.size(), where);
        f.variables.push_back(std::move(v));
        return;
      }
      const bool range = v.count >= 0;
      const std::uint32_t count = range ? static_cast<std::uint32_t>(v.count) : 1;
      if (f.registers.size() + count > max_registers) {
        return refuse(Code::bad_declaration, id, cat("a function declares at most ", max_registers, " registers"));
      }
      const auto first = static_cast<RegisterId>(f.registers.size());
      if (joins && !range) {
        ++f.declarations.back().count;
      } else {
        add(f, Statement::Kind::registers, f.declarations.size(), where);
        f.declarations.push_back({first, count, range});
      }
      joins = !range;
      for (std::uint32_t i = 0; i < count; ++i) {
        f.registers.push_back({v.type, v.vector, v.name, range ? static_cast<std::int32_t>(i) : -1});
      }
      range ? scope.declare_range(v.name.view(), first, count) : scope.declare(v.name.view(), first);
    });
  }

  void directive(Function& f, NodeId id, Place where) {
    ascii_strings(id);
    if (first_text(id) == ".loc") {
      add(f, Statement::Kind::location, f.locations.size(), where);
      f.locations.push_back(location(id));
    } else if (first_text(id) == ".file") {
      file(id);
      module_text(id, words(id));
    } else {
      table(f, id);
      add(f, Statement::Kind::directive, f.texts.size(), where);
      f.texts.push_back(words(id));
    }
  }
  // What the check wants to know of prototypes and of tables of targets.
  void table(Function& f, NodeId id) {
    const std::string_view word = first_text(id);
    Table table;
    if (word == ".calltargets") {
      table.kind = Table::Kind::calls;
    } else if (word == ".branchtargets") {
      table.kind = Table::Kind::branches;
    } else if (word != ".callprototype") {
      return;
    }
    if (!f.body.empty() && f.body.back().kind == Statement::Kind::label) table.label = f.body.back().index;
    table.statement = static_cast<std::uint32_t>(f.body.size());
    bool named = false;
    for (const NodeId part : tree_.children(id)) {
      const NodeKind kind = tree_.node(part).kind;
      if (kind == NodeKind::parameters) {
        for (const NodeId parameter : tree_.children(part)) {
          variables(
              parameter, [&](Variable v) { (named ? table.parameters : table.returns).push_back(std::move(v)); },
              Owner::func);
        }
      } else if (table.kind == Table::Kind::prototype) {
        named = true;
      } else if (kind == NodeKind::name) {
        table.targets.emplace_back(first_text(part));
      }
    }
    f.tables.push_back(std::move(table));
  }
  Location location(NodeId id) {
    Location at;
    std::uint32_t* const numbers[] = {&at.file, &at.line, &at.column};
    int n = 0;
    TokenId rest = tree_.node(id).first + 1;
    for (const NodeId part : tree_.children(id)) {
      if (n == 3) break;
      const std::uint64_t number = integer(first_text(part)).value_or(std::uint64_t{1} << 32);
      if (number >> 32)
        refuse(Code::directive_value, part, cat("`", first_text(part), "`: a number of .loc has 32 bits"));
      *numbers[n++] = static_cast<std::uint32_t>(number);
      rest = tree_.node(part).last;
    }
    at.inlined = words(rest, tree_.node(id).last);
    return at;
  }

  const syntax::Tree& tree_;
  const syntax::Lines lines_;
  Module module_;
  Header header_ = Header::none;
  std::unordered_set<std::uint64_t> files_;
  Diagnostics diagnostics_;
};

}  // namespace

bool is_opaque(std::string_view word) { return word == "texref" || word == "samplerref" || word == "surfref"; }

Lowered lower(const syntax::Tree& tree) {
  if (tree.edited()) return lower(syntax::parse(syntax::print(tree), tree.file()).tree);
  return Lowering(tree).run();
}

}  // namespace ptx::ir
