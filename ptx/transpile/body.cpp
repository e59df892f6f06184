#include "ptx/transpile/detail/body.h"

#include <algorithm>
#include <utility>

#include "ptx/base/check.h"
#include "ptx/base/text.h"

namespace ptx::transpile {

using ir::Statement;

namespace {

bool is_uniform(const ir::Instruction& branch) { return branch.mnemonic->canonical.ends_with(".uni"); }

}  // namespace

Body::Body(Language language, const ir::Function& f, const Plan& plan, Source& out, Commentary& comments, Names names)
    : f_(f),
      plan_(plan),
      out_(out),
      names_(std::move(names)),
      registers_(f.registers.size()),
      operands_(language, f, registers_),
      end_(language == Language::cpp ? ";" : ""),
      comments_(comments),
      types_(f.registers.size()),
      expressions_(language, f, plan, types_, operands_),
      families_(language, f, operands_),
      scopes_(1) {}

void Body::write(std::uint32_t end) {
  for (const std::string& name : plan_.arguments) names_.take(name);
  for (const auto& [at, call] : plan_.calls)
    if (names_.is_free(call.spelled)) names_.take(call.spelled);
  parameters();
  if (plan_.expressions) long_names();
  operands_.set_walks(plan_.walks);
  if (!plan_.spelled.empty()) operands_.set_spelled(plan_.spelled);
  if (plan_.raised) declarations(), operands_.rename_labels();
  if (plan_.shaped) {
    nodes(plan_.nodes);
  } else {
    for (std::uint32_t i = 0; i < f_.body.size(); ++i) at(i);
  }
  comments_.until(end);
  for (const isa::Type one : operands_.named_types()) used(one);
  if (lines_ == 0) empty_block();
}

// Parameters in registers, which no statement declares.
void Body::parameters() {
  for (ir::RegisterId id = 0; id < f_.registers.size() && is_parameter(f_, f_.registers[id]); ++id) {
    const std::string text = ir::name(f_.registers[id]);
    registers_[id] = declared(text);
    types_[id] = f_.registers[id].type;
    say(assigned(registers_[id], named(text)));
  }
}

// Mangled names of parameters that stand at several places.
void Body::long_names() {
  constexpr std::size_t longest = 40;
  for (const ir::Variable& v : f_.parameters) {
    const std::string_view text = v.name.view();
    const auto names = [&](const ir::Operand& o) { return o.kind == ir::Operand::Kind::symbol && o.id == v.name.id(); };
    if (text.size() <= longest || std::count_if(f_.operands.begin(), f_.operands.end(), names) < 2) continue;
    std::string wanted(short_name(text, f_.name.view()));
    for (char& c : wanted) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (wanted.size() > longest) continue;
    const std::string name = names_.take(wanted);
    say(constant(name, quoted(text)));
    operands_.add_symbol(v.name.id(), name, false);
  }
}

void Body::line(std::string_view text) {
  out_.line(text, std::exchange(behind_, {}));
  ++lines_;
}

// ---- comments

void Body::note(std::uint32_t statement) {
  keep_comment();
  comments_.until(f_.body[statement].place.line);
  behind_ = comments_.behind(f_.body[statement].place.line);
}

// What stood behind something that is not written has a line of its own.
void Body::keep_comment() {
  if (!behind_.empty()) out_.comment(std::exchange(behind_, {}));
}

void Body::at(std::uint32_t i) {
  note(i);
  statement(f_.body[i], i);
  keep_comment();
}

// ---- blocks

void Body::nodes(const std::vector<Node>& list) {
  for (const Node& node : list) {
    switch (node.kind) {
      case Node::Kind::statement: at(node.at); break;
      case Node::Kind::when: when(node); break;
      case Node::Kind::loop: loop(node); break;
      case Node::Kind::call: call(node); break;
      case Node::Kind::wait: wait(node); break;
      case Node::Kind::choose: choose(node); break;
      case Node::Kind::option: break;
      case Node::Kind::block: way(node); break;
      case Node::Kind::enter:
        note(node.at);
        say(entered(ways_[node.way]));
        if (node.end != ir::no_id) statement(f_.body[node.at], node.at);
        break;
      case Node::Kind::leave:
      case Node::Kind::again: leave(node); break;
      case Node::Kind::repeat: repeat(node); break;
    }
  }
}

void Body::open(const std::string& head) {
  opened_.push_back({out_.size(), 0, head.find("[&]") != head.npos});
  line(head);
  opened_.back().lines = lines_;
  out_.indent();
}

void Body::close() {
  keep_comment();
  const Opened block = opened_.back();
  opened_.pop_back();
  if (lines_ == block.lines) empty_block();
  out_.dedent();
  end_block(block);
}

void Body::block(const std::string& head, const std::vector<Node>& body) {
  open(head);
  nodes(body);
  close();
}

const ir::Instruction& Body::branch(std::uint32_t statement) {
  note(statement);
  return f_.instructions[f_.body[statement].index];
}

std::string Body::predicate(const ir::Guard& guard, bool inverted) {
  std::string text;
  operands_.guard(text, guard, inverted);
  return text;
}

void Body::when(const Node& node) {
  const ir::Instruction& over = branch(node.at);
  declare_before(node.at);
  block(when(predicate(over.guard, true), is_uniform(over)), node.body);
  if (node.end != ir::no_id) block(otherwise(is_uniform(branch(node.end))), node.otherwise);
}

void Body::loop(const Node& node) {
  note(node.at);
  declare_before(node.at);
  const std::string name = way_name(node, "loop");
  open(loop(label(f_.body[node.at].index), name));
  nodes(node.body);
  const ir::Instruction& back = branch(node.end);
  declare_before(node.end);
  const bool endless = back.guard.reg == ir::no_id, uniform = is_uniform(back);
  if (!endless || !uniform) say(loop_while(endless ? "" : predicate(back.guard), uniform));
  close();
  if (!name.empty()) names_.release(name);
}

// What the program calls a block or loop that something leaves or begins again; "" if nothing does.
std::string Body::way_name(const Node& node, std::string_view wanted) {
  if (node.way == ir::no_id) return {};
  return ways_[node.way] = names_.take(wanted);
}

void Body::way(const Node& node) {
  keep_comment();
  comments_.until(f_.body[node.at].place.line);
  declare_before(node.at);
  Part one;
  one.name = way_name(node, "part");
  if (node.end != ir::no_id) one.label = label(f_.body[node.end].index);
  one.late = node.late != ir::no_id;
  one.uniform = one.late && is_uniform(branch(node.late));
  block(part(one), node.body);
  names_.release(one.name);
}

void Body::leave(const Node& node) {
  const ir::Instruction& over = branch(node.at);
  declare_before(node.at);
  const std::string condition = over.guard.reg == ir::no_id ? "" : predicate(over.guard);
  say(leave(ways_[node.way], node.kind == Node::Kind::again, condition, is_uniform(over)));
}

void Body::wait(const Node& node) {
  const Wait one = wait_of(f_, node);
  const ir::Instruction& tried = branch(one.tried);
  declare_before(node.end);
  const auto made =
      families_.waiting(tried, {one.leave ? "leave" : "", one.uniform ? "uniform" : "", one.braces ? "braces" : ""});
  PTX_CHECK(made.has_value(), "what shape() takes for a wait is one");
  used(*made);
  say(made->text);
}

// The results, if each is new; else those that are new are declared, and all take what is loaded.
std::vector<ir::RegisterId> Body::fresh(const Call& call) {
  std::vector<ir::RegisterId> results, made;
  for (const std::uint32_t at : call.results) {
    const ir::RegisterId id = f_.operands[f_.instructions[f_.body[at].index].first].id;
    results.push_back(id);
    const PlannedRegister& planned = plan_.registers[id];
    if (planned.where == PlannedRegister::Where::inside && planned.statement == at) made.push_back(id);
  }
  const bool wide = !call.scalar || isa::info(f_.registers[results[0]].type).bits == call.bits;
  const bool several = results.size() > 1 && unpacked({}).empty();
  if (made.size() == results.size() && wide && !several) return made;
  for (const ir::RegisterId id : made) declare(id);
  return {};
}

void Body::call(const Node& node) {
  const Call& one = plan_.calls.at(node.at);
  note(node.at);
  declare_before(node.end);
  const auto operand = [&](std::uint32_t at, std::size_t n) {
    const ir::Instruction& i = f_.instructions[f_.body[at].index];
    std::string text;
    PTX_CHECK(operands_.operand(text, *i.mnemonic, f_.operands[i.first + n], n, 2), "a call takes plain values");
    return text;
  };
  Called made{one.spelled, {}, one.structures, one.uniform, one.unloaded, {}, {}, one.order};
  for (const auto& fields : one.arguments) {
    std::vector<std::string>& values = made.arguments.emplace_back();
    for (const std::uint32_t at : fields) values.push_back(operand(at, 1));
  }
  const std::vector<ir::RegisterId> results = one.results.empty() ? std::vector<ir::RegisterId>() : fresh(one);
  if (results.empty())
    for (const std::uint32_t at : one.results) made.into.push_back(operand(at, 0));
  std::vector<std::string> names;
  bool plain = one.scalar;
  for (const ir::RegisterId id : results) {
    isa::Type& type = types_[id] = plan_.registers[id].type;
    const isa::Type whole = isa::type_named(cat('u', one.bits)).value_or(isa::Type::none);
    if (one.scalar && plan_.bits && isa::info(type).kind == isa::TypeKind::bits) type = whole;
    plain = plain && type == whole;
    made.types.emplace_back(isa::info(type).name);
    if (!plain) operands_.name(type);
  }
  if (plain) made.types.clear();
  const std::string text = called(made);
  for (const ir::RegisterId id : results) names.push_back(registers_[id] = names_.take(plan_.registers[id].name));
  if (names.empty()) return say(text);
  say(assigned(names.size() > 1 ? unpacked(names) : names[0], text));
}

void Body::choose(const Node& node) {
  declare_before(node.end);
  Switch one;
  if (f_.body[node.at].kind == Statement::Kind::instruction) one.otherwise = predicate(branch(node.at).guard);
  const ir::Instruction& jump = branch(node.end);
  one.targets = node.targets;
  one.uniform = is_uniform(jump);
  operands_.operand(one.index, *jump.mnemonic, f_.operands_of(jump)[0], 0, 2);
  open(choose(one));
  for (const Node& each : node.body) option(each, &each == &node.body.back());
  close();
}

void Body::option(const Node& node, bool last) {
  Case one;
  for (const std::uint32_t index : node.indices)
    index == ir::no_id ? static_cast<void>(one.otherwise = true) : one.indices.push_back(index);
  one.falls = node.end == ir::no_id && !last;
  one.uniform = node.end != ir::no_id && is_uniform(f_.instructions[f_.body[node.end].index]);
  note(node.at);
  block(option(one), node.body);
}

void Body::repeat(const Node& node) {
  const std::size_t comments = comments_.written();
  keep_comment();
  comments_.until(f_.body[node.at].place.line);
  declare_before(node.at);
  Operands::Round round;
  const std::string head = repeat(node, round);
  operands_.rounds().push_back(round);
  block(head, node.body);
  operands_.rounds().pop_back();
  for (const std::string& name : round.names) names_.release(name);
  comments_.skip_known(comments, f_.body[node.end].place.line);
}

std::string Body::free_name(std::string_view letters) {
  for (const char letter : letters)
    if (const std::string name(1, letter); names_.is_free(name)) return names_.take(name);
  return names_.take(letters.substr(0, 1));
}

std::string Body::label(std::uint32_t name) const { return quoted(operands_.label(name)); }

// ---- registers that are declared where they are written

void Body::declarations() {
  const auto& planned = plan_.registers;
  for (ir::RegisterId id = 0; id < planned.size(); ++id) {
    if (!registers_[id].empty()) continue;  // a parameter
    if (planned[id].where == PlannedRegister::Where::ahead) declare(id);
    if (planned[id].where == PlannedRegister::Where::before)
      before_.push_back({planned[id].statement, planned[id].depth, id});
  }
  std::sort(before_.begin(), before_.end());
}

// What the statement, or the block that begins with it, is the first to name, but for its own first operand.
void Body::declare_before(std::uint32_t i) {
  if (!plan_.raised) return;
  const std::string behind = std::exchange(behind_, {});
  const std::pair here(i, static_cast<std::uint32_t>(operands_.rounds().size()));
  for (; next_array_ < plan_.arrays.size(); ++next_array_) {
    const PlannedArray& array = plan_.arrays[next_array_];
    if (std::pair(array.statement, array.depth) > here) break;
    if (!array.elements.empty()) declare(array);
  }
  for (; next_before_ < before_.size(); ++next_before_) {
    const Before& next = before_[next_before_];
    if (std::pair(next.statement, next.depth) > here) break;
    declare(next.id);
  }
  behind_ = behind;
}

void Body::declare(ir::RegisterId id) {
  registers_[id] = names_.take(plan_.registers[id].name);
  types_[id] = plan_.registers[id].type;
  say(assigned(registers_[id], scalar(types_[id])));
}

void Body::declare(const PlannedArray& array) {
  const std::string name = names_.take(array.name);
  isa::Type of = isa::Type::none;
  for (std::size_t n = 0; n < array.elements.size(); ++n) {
    const ir::RegisterId id = array.elements[n];
    if (id == ir::no_id) continue;
    of = plan_.registers[id].type;
    registers_[id] = cat(name, '[', n, ']');
    types_[id] = of;
  }
  operands_.add_array(name, array.elements);
  say(this->array(name, of, array.elements.size()));
}

std::string Body::declared(std::string_view wanted) {
  scopes_.back().push_back(names_.take(wanted));
  return scopes_.back().back();
}

// ---- statements

void Body::statement(const Statement& s, std::uint32_t i) {
  using Kind = Statement::Kind;
  switch (s.kind) {
    case Kind::instruction: return instruction(i, f_.instructions[s.index]);
    case Kind::label:
      if (plan_.shaped && plan_.unneeded_label[i]) return;
      if (const ir::Table* table = table_at(i + 1)) return say(raw(operands_.table(*table)));
      return say(call("label", label(s.index)));
    case Kind::registers:
      if (!plan_.raised) registers(f_.declarations[s.index]);
      return;
    case Kind::variable: return variable_of_body(f_.variables[s.index]);
    case Kind::open:
      say_why(i);
      declare_before(i);  // what is there behind the block, too
      lines_of_scopes_.push_back(opened_.size() >= deepest);
      lines_of_scopes_.back() ? say(scope_line(true)) : open(scope());
      scopes_.emplace_back();
      return;
    case Kind::close: return close_scope();
    case Kind::location: {
      const ir::Location& at = f_.locations[s.index];
      const std::string rest = at.inlined.empty() ? "" : cat(", ", quoted(at.inlined));
      return say(call("location", cat(at.file, ", ", at.line, ", ", at.column, rest)));
    }
    case Kind::comment: return out_.comment(f_.texts[s.index]);
    case Kind::directive:
      if (table_at(i) && i > 0 && f_.body[i - 1].kind == Kind::label) return;  // written with its label
      return say(directive(f_.texts[s.index]));
  }
}

void Body::close_scope() {
  const bool is_line = lines_of_scopes_.back();
  is_line ? say(scope_line(false)) : close();
  lines_of_scopes_.pop_back();
  const std::vector<std::string> names = std::move(scopes_.back());
  scopes_.pop_back();
  if (is_line && !scopes_.empty())  // a line ends no block of the program, and its names live on
    scopes_.back().insert(scopes_.back().end(), names.begin(), names.end());
  for (const std::string& name : names)
    if (!is_line) names_.release(name);
}

// Shared memory that an allocation writes in the same way: .shared .align 16 .b8 x[64]; or, of barriers, .align 8 .b64.
void Body::variable_of_body(const ir::Variable& v) {
  const auto once = [&] {
    const auto same = [&](const ir::Variable& other) { return other.name == v.name; };
    return std::count_if(f_.variables.begin(), f_.variables.end(), same) == 1;
  };
  const bool plain = v.space == isa::Space::shared && v.dims.size() == 1 && v.dims[0] > 0 && v.alignment != 0 &&
                     v.vector == 1 && v.opaque.empty() && v.count < 0 && v.linking.empty() && v.attributes.empty() &&
                     v.initializer.empty();
  const bool barriers = v.type == isa::Type::b64 && v.alignment == 8;
  if (!plan_.allocates || scopes_.size() > 1 || !plain || (v.type != isa::Type::b8 && !barriers) || !once() ||
      (barriers && !holds_barriers(v)) || !stays_inside(v))
    return say(variable(v));
  const std::string name = names_.take(unmangled(v.name.view()));
  const auto known = plan_.contents.find(&v);
  const Contents contents = barriers                        ? Contents()
                            : known != plan_.contents.end() ? known->second
                                                            : Contents{v.type, {v.dims[0]}};
  const std::string text = allocated(name, v, contents);
  if (text.empty()) {
    names_.release(name);
    return say(variable(v));
  }
  say(text);
  operands_.add_symbol(v.name.id(), name, barriers);
}

// Whether every [v+bytes] lies in the variable: authors are refused what does not.
bool Body::stays_inside(const ir::Variable& v) const {
  const std::int64_t size = v.dims[0] * isa::info(v.type).bits / 8;
  const auto inside = [&](const ir::Operand& o) {
    if (o.kind != ir::Operand::Kind::address) return true;
    const ir::Operand& base = f_.children(o)[0];
    if (base.kind != ir::Operand::Kind::symbol || base.id != v.name.id()) return true;
    return o.value >= 0 && o.value <= size;
  };
  return std::all_of(f_.operands.begin(), f_.operands.end(), inside);
}

// Whether an instruction on mbarrier objects names it.
bool Body::holds_barriers(const ir::Variable& v) const {
  for (const ir::Instruction& i : f_.instructions) {
    if (!i.mnemonic || i.mnemonic->opcode != "mbarrier") continue;
    for (const ir::Operand& o : f_.operands_of(i))
      for (const ir::Operand& part : f_.children(o))
        if (part.kind == ir::Operand::Kind::symbol && part.id == v.name.id()) return true;
  }
  return false;
}

// In front of a call that stays; of branches in front of the first for each reason.
void Body::say_why(std::uint32_t i) {
  const auto why = plan_.kept.find(i);
  if (why == plan_.kept.end()) return;
  const bool branch = f_.body[i].kind == Statement::Kind::instruction;
  if (branch && !told_.insert(why->second).second) return;
  out_.comment(why->second);
}

const ir::Table* Body::table_at(std::uint32_t i) const {
  for (const ir::Table& table : f_.tables)
    if (table.statement == i && table.label != ir::no_id) return &table;
  return nullptr;
}

void Body::instruction(std::uint32_t i, const ir::Instruction& instruction) {
  if (plan_.shaped && instruction.mnemonic && instruction.mnemonic->opcode == "brx") out_.comment(kept_table);
  say_why(i);
  if (plan_.raised) return raised(i, instruction);
  std::string text;
  say(operands_.call(text, instruction) ? text : raw(text_of(instruction)));
}

void Body::raised(std::uint32_t i, const ir::Instruction& instruction) {
  declare_before(i);
  const ir::Operand* first = instruction.count ? &f_.operands[instruction.first] : nullptr;
  const bool is_register = first && first->kind == ir::Operand::Kind::reg;
  const PlannedRegister* planned = is_register ? &plan_.registers[first->id] : nullptr;
  const bool fresh = planned && planned->where == PlannedRegister::Where::inside && planned->statement == i;
  std::optional<std::string> text;
  if (plan_.expressions && fresh) {
    text = expressions_.made(instruction);
    if (text) used(*text, types_[first->id]);
  } else if (plan_.expressions && is_register) {
    text = expressions_.in_place(instruction);
    if (!text && planned->where == PlannedRegister::Where::element) text = expressions_.into_element(instruction);
  }
  if (plan_.expressions && !text && fresh) {
    if (auto made = families_.call(instruction, true); made && expressions_.keeps(first->id, made->type)) {
      types_[first->id] = made->type;
      used(*made);
      text = std::move(made->text);
    }
  }
  if (fresh && !text) {
    types_[first->id] = planned->type;
    registers_[first->id] = scalar(planned->type);
  }
  if (plan_.expressions && !text)
    if (auto made = families_.call(instruction, false)) used(*made), text = std::move(made->text);
  if (!text) operands_.call(text.emplace(), instruction);
  if (!fresh) return say(*text);
  registers_[first->id] = names_.take(planned->name);
  say(assigned(registers_[first->id], *text));
}

// An instruction that has no spelling as a call.
std::string Body::text_of(const ir::Instruction& instruction) const {
  std::string text;
  if (instruction.guard.reg != ir::no_id)
    text = cat(instruction.guard.negated ? "@!" : "@", ir::name(f_.registers[instruction.guard.reg]), ' ');
  if (instruction.mnemonic) text += instruction.mnemonic->canonical;
  std::string_view before = " ";
  for (const ir::Operand& o : f_.operands_of(instruction)) {
    text.append(before).append(ir::to_string(f_, o));
    before = ", ";
  }
  return text + ';';
}

}  // namespace ptx::transpile
