// Directives: of a function, between its parameters and its body, and pragmas and tables inside it. Facts:
// isa/directives.def.
#include "ptx/isa/directives.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ptx/base/text.h"
#include "ptx/check/detail/module.h"
#include "ptx/syntax/token.h"

namespace ptx::check {

namespace {

using On = isa::FunctionDirective::On;

void check_gate(const ModuleTarget& target, std::string_view what, const isa::Requirement& need, const Place& place,
                Diagnostics& found) {
  if (!target.runs(need)) {
    found.emplace_back(Code::needs_target, place,
                       cat('`', what, "` needs ", isa::to_string(need), ", the target is ", isa::to_string(target.sm)));
  } else if (!target.has(need.version)) {
    found.emplace_back(
        Code::needs_version, place,
        cat('`', what, "` needs ", isa::to_string(need), ", the module is .version ", isa::to_string(target.version)));
  }
}

// The number of a pragma, as C reads it: blanks before it, 0x for sixteen and 0 for eight as base. (Beyond 64 bits the
// assembler takes the largest.)
bool is_pragma_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.starts_with('0')) {
    base = 8;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

// The values behind the word, between commas.
std::vector<std::string_view> values_of(std::string_view text) {
  std::vector<std::string_view> values;
  constexpr std::string_view gaps = " \t\n,;";
  for (std::size_t at = isa::first_word(text).size(); at < text.size();) {
    at = text.find_first_not_of(gaps, at);
    if (at == text.npos) break;
    std::size_t end = text[at] == '"' ? text.find('"', at + 1) : text.find_first_of(gaps, at);
    end = std::min(end == text.npos ? end : end + (text[at] == '"'), text.size());
    values.push_back(text.substr(at, end - at));
    at = end;
  }
  return values;
}

std::string_view unquoted(std::string_view s) { return s.size() >= 2 && s[0] == '"' ? s.substr(1, s.size() - 2) : s; }

bool is_value(const isa::FunctionDirective& row, std::string_view value) {
  if (value[0] == '"') return row.word == ".language" && isa::is_language(unquoted(value));
  const auto number = syntax::integer(value);
  return number && *number >= row.least && *number <= row.most;
}

// What has directives: a function or a .callprototype.
struct Owner {
  const std::vector<std::string>& directives;
  const std::vector<ir::Variable>& returns;
  const Place& place;
  bool entry = false, prototype = false;
};

void check_function_directive(const ModuleTarget& target, std::string_view text, const Owner& owner,
                              Diagnostics& found) {
  const std::string_view word = isa::first_word(text);
  const Place& place = owner.place;
  const auto refuse = [&](auto... what) {
    found.emplace_back(Code::directive_value, place, cat('`', word, "` ", what...));
  };
  if (word == ".pragma") {
    if (!owner.entry) return refuse("is legal only in a function's body, or in front of the body of an .entry");
    return check_pragma(target, text, PragmaPlace::header, place, found);
  }
  if (word == ".maxnctapersm" && target.has({2, 1})) return refuse("ended with PTX 2.0; write .minnctapersm");
  const isa::FunctionDirective* row = isa::function_directive(word);
  if (!row) return;
  if (owner.prototype && !row->prototype)
    return refuse("is no directive of a .callprototype; it takes .noreturn, .abi_preserve and .abi_preserve_control");
  if (row->on != On::both && (row->on == On::entry) != owner.entry) {
    return refuse("is for ", row->on == On::entry ? "an .entry" : "a .func");
  }
  check_gate(target, word, row->since, place, found);
  const auto values = values_of(text);
  const bool legal = std::all_of(values.begin(), values.end(), [&](std::string_view v) { return is_value(*row, v); });
  if (legal && values.size() <= row->numbers && values.empty() == (row->numbers == 0)) return;
  if (row->numbers == 0) return refuse("takes no value");
  refuse("takes ", row->numbers == 1 ? "one number" : "up to ", row->numbers == 1 ? "" : std::to_string(row->numbers),
         row->numbers == 1 ? "" : " numbers", " in ", row->least, "..", row->most);
}

void check_combinations(const ir::Function& function, Diagnostics& found) {
  const auto refuse = [&](auto... what) { found.emplace_back(Code::directive_value, function.place, cat(what...)); };
  for (const isa::DirectivePair& pair : isa::directive_pairs()) {
    const auto& all = function.directives;
    if (!first_of(all, pair.one) || pair.together == (first_of(all, pair.other) != nullptr)) continue;
    pair.together ? refuse('`', pair.one, "` needs `", pair.other, "` beside it")
                  : refuse('`', pair.one, "` and `", pair.other, "` exclude each other");
  }
  if (!function.declaration) return;
  for (const std::string& text : function.directives) {
    const isa::FunctionDirective* row = isa::function_directive(isa::first_word(text));
    if (row && !row->prototype) refuse('`', row->word, "` stands in front of a body, not in a declaration");
  }
}

void check_directives(const ModuleTarget& target, const Owner& owner, Diagnostics& found) {
  const auto refuse = [&](auto... what) { found.emplace_back(Code::directive_value, owner.place, cat(what...)); };
  const isa::FunctionDirective* before = nullptr;
  for (const std::string& text : owner.directives) {
    check_function_directive(target, text, owner, found);
    const isa::FunctionDirective* row = isa::function_directive(isa::first_word(text));
    if (row && before && !owner.entry && row->order < before->order)
      refuse('`', row->word, "` stands in front of `", before->word, '`');
    before = row;
    if (row && row->prototype && first_of(owner.directives, row->word) != &text)
      refuse('`', row->word, "` stands twice");
  }
  if (first_of(owner.directives, ".noreturn") && !owner.returns.empty())
    refuse("a function with `.noreturn` returns no value");
}

}  // namespace

void check_pragma(const ModuleTarget& target, std::string_view text, PragmaPlace where, const Place& place,
                  Diagnostics& found) {
  for (const std::string_view value : values_of(text)) {
    if (!value.starts_with('"')) {
      found.emplace_back(Code::directive_value, place, cat('`', value, "`: a pragma is a string, in quotation marks"));
      continue;
    }
    const std::string_view string = unquoted(value);
    const isa::Pragma* row = isa::pragma(string);
    const auto refuse = [&](std::string_view what) {
      found.emplace_back(Code::directive_value, place, cat("pragma `", string, "` ", what));
    };
    if (!row) {
      if (where == PragmaPlace::module || where == PragmaPlace::header) refuse("is no pragma of PTX");
      continue;
    }
    const bool inside = where == PragmaPlace::kernel || where == PragmaPlace::function;
    if (row->where != isa::Pragma::Where::any && !inside) {
      refuse("is legal only in the body of a function");
      continue;
    }
    if (row->where == isa::Pragma::Where::kernel && where != PragmaPlace::kernel) {
      refuse("is legal only in the body of an .entry");
      continue;
    }
    check_gate(target, string, row->since, place, found);
    if (row->number && !is_pragma_number(string.substr(std::min(string.size(), row->string.size() + 1))))
      refuse(cat("takes a number behind `", row->string, " `, and nothing behind the number"));
  }
}

void check_header(const ModuleTarget& target, const ir::Function& function, Diagnostics& found) {
  check_directives(target, {function.directives, function.returns, function.place, function.entry}, found);
  check_combinations(function, found);
}

const std::string* first_of(const std::vector<std::string>& directives, std::string_view word) {
  const auto at = std::find_if(directives.begin(), directives.end(),
                               [&](const std::string& text) { return isa::first_word(text) == word; });
  return at == directives.end() ? nullptr : &*at;
}

bool same_prototype_directives(const ir::Function& a, const ir::Function& b) {
  const auto has = [](const ir::Function& f, const std::string& text) {
    const isa::FunctionDirective* row = isa::function_directive(isa::first_word(text));
    if (!row || !row->prototype) return true;
    const std::string* other = first_of(f.directives, row->word);
    return other && values_of(*other) == values_of(text);
  };
  const auto all_in = [&](const ir::Function& x, const ir::Function& y) {
    return std::all_of(x.directives.begin(), x.directives.end(), [&](const std::string& text) { return has(y, text); });
  };
  return all_in(a, b) && all_in(b, a);
}

namespace {

// 10.34, 10.35 of PTX ISA 9.4: %perctamemoryoffset and %perctamemorysize.
void check_memory_per_cta(const ModuleTarget& target, const ir::Function& function, Diagnostics& found) {
  if (!function.entry || !target.has({9, 4}) || first_of(function.directives, ".minperctamemory")) return;
  const auto is_of_cta = [](const ir::Operand& o) {
    return o.kind == ir::Operand::Kind::special && Name::from_id(o.id).view().starts_with("%perctamemory");
  };
  if (std::none_of(function.operands.begin(), function.operands.end(), is_of_cta)) return;
  for (const ir::Statement& s : function.body) {
    if (s.kind != ir::Statement::Kind::instruction) continue;
    for (const ir::Operand& o : function.operands_of(function.instructions[s.index])) {
      if (!is_of_cta(o)) continue;
      found.emplace_back(
          Code::directive_value, s.place,
          cat('`', Name::from_id(o.id).view(), "` needs `.minperctamemory` in front of the kernel's body"));
    }
  }
}

}  // namespace

// 11.5.4: what is behind `inlined_at` is the place of a .loc above.
void check_locations(const ir::Module& module, Diagnostics& found) {
  std::set<ir::Spot> above;
  for (const ir::Function& function : module.functions) {
    for (const ir::Statement& s : function.body) {
      if (s.kind != ir::Statement::Kind::location) continue;
      const ir::Location& location = function.locations[s.index];
      if (const auto at = ir::inlined_at(location); at && !above.contains(*at)) {
        const auto [file, line, column] = *at;
        found.emplace_back(Code::directive_value, s.place,
                           cat("`inlined_at ", file, ' ', line, ' ', column, "`: no .loc above has this place"));
      }
      above.insert({location.file, location.line, location.column});
    }
  }
}

void check_body_directives(const ModuleTarget& target, const ir::Function& function, Diagnostics& found) {
  check_memory_per_cta(target, function, found);
  for (const ir::Statement& s : function.body) {
    if (s.kind != ir::Statement::Kind::directive) continue;
    const std::string_view text = function.texts[s.index];
    const std::string_view word = isa::first_word(text);
    if (word == ".pragma") {
      check_pragma(target, text, function.entry ? PragmaPlace::kernel : PragmaPlace::function, s.place, found);
    }
    if (const auto* need = isa::body_directive(word)) check_gate(target, word, *need, s.place, found);
  }
  for (const ir::Table& table : function.tables) {
    if (table.kind != ir::Table::Kind::prototype) continue;
    const Place& place = function.body[table.statement].place;
    check_prototype(target, table, place, found);
    check_directives(target, {table.directives, table.returns, place, false, true}, found);
  }
}

}  // namespace ptx::check
