// PTX text from ir. One pass over the statements into one buffer; nothing is judged here. The form of the text is the
// contract of `emit` in ir.h; where a line came from is noted beside it.
#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstring>
#include <unordered_map>

#include "ptx/ir/ir.h"
#include "ptx/ir/since.h"

namespace ptx::ir {
namespace {

// The text while it grows. Every append is inline: a line is a dozen of them, and a call for each was half the time.
class Buffer {
 public:
  Buffer& operator<<(std::string_view piece) {
    char* const to = room(piece.size());
    // Most pieces are a register's name or a separator: a loop of bytes is quicker than a call for these.
    if (piece.size() > 8) {
      std::memcpy(to, piece.data(), piece.size());
    } else {
      for (std::size_t i = 0; i < piece.size(); ++i) to[i] = piece[i];
    }
    used_ += piece.size();
    return *this;
  }
  Buffer& operator<<(const char* piece) { return *this << std::string_view(piece); }
  Buffer& operator<<(char c) { return *room(1) = c, ++used_, *this; }
  Buffer& operator<<(std::integral auto value) {
    char* const begin = room(24);
    used_ += static_cast<std::size_t>(std::to_chars(begin, begin + 24, value).ptr - begin);
    return *this;
  }
  void reserve(std::size_t bytes) { buffer_.resize(bytes); }
  std::string take() { return buffer_.resize(used_), std::move(buffer_); }

 private:
  char* room(std::size_t bytes) {
    if (used_ + bytes > buffer_.size()) buffer_.resize(2 * buffer_.size() + bytes);
    return buffer_.data() + used_;
  }
  std::string buffer_;
  std::size_t used_ = 0;
};

// Names by id without the lock of the name table: a kernel uses few, again and again.
class NameViews {
 public:
  std::string_view operator()(std::uint32_t id) {
    Entry& entry = entries_[id % entries_.size()];
    if (entry.id != id) entry = {id, Name::from_id(id).view()};
    return entry.text;
  }
  std::string_view operator()(Name name) { return (*this)(name.id()); }

 private:
  struct Entry {
    std::uint32_t id = no_id;
    std::string_view text;
  };
  std::array<Entry, 256> entries_;
};

void hexadecimal(Buffer& out, std::uint64_t bits, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out << "0123456789ABCDEF"[bits >> shift & 15];
}

class Operands {
 public:
  Operands(Buffer& out, const Function& function, NameViews& names) : out_(out), function_(function), names_(names) {}

  void print(const Operand& o) {
    using Kind = Operand::Kind;
    if (o.negated) out_ << '!';
    if (o.minus) out_ << '-';
    switch (o.kind) {
      case Kind::none: break;
      case Kind::reg:
        if (o.id >= function_.registers.size()) break;
        print(function_.registers[o.id]);
        component(o);
        break;
      case Kind::special: out_ << names_(o.id), component(o); break;
      case Kind::integer: o.wide ? out_ << o.bits : out_ << o.value; break;
      case Kind::f32: out_ << "0f", hexadecimal(out_, o.bits, 8); break;
      case Kind::f64: out_ << "0d", hexadecimal(out_, o.bits, 16); break;
      case Kind::symbol: out_ << names_(o.id), offset(o.value); break;
      case Kind::address: address(o); break;
      case Kind::vector: out_ << '{', children(o, ", "), out_ << '}'; break;
      case Kind::list: out_ << '(', children(o, ", "), out_ << ')'; break;
      case Kind::pair: children(o, "|"); break;
      case Kind::element: children(o, "["), offset(o.value), out_ << ']'; break;
      case Kind::sum: children(o, {}), offset(o.value); break;
      case Kind::sink: out_ << '_'; break;
      case Kind::text: out_ << names_(o.id); break;
    }
  }
  void print(const Register& reg) {
    out_ << names_(reg.base);
    if (reg.index >= 0) out_ << reg.index;
  }

 private:
  void component(const Operand& o) {
    if (o.component < 4) out_ << '.' << "xyzw"[o.component];
    if (o.component == Operand::part) out_ << '.' << names_(static_cast<std::uint32_t>(o.value));
  }
  void offset(std::int64_t bytes) {
    if (bytes != 0) out_ << '+' << bytes;  // PTX writes a negative offset as base+-4
  }
  void children(const Operand& o, std::string_view between) {
    bool first = true;
    for (const Operand& child : function_.children(o)) {
      if (!first) out_ << between;
      first = false;
      print(child);
    }
  }
  void address(const Operand& o) {
    out_ << '[';
    const auto parts = function_.children(o);
    if (!parts.empty()) print(parts[0]);
    offset(o.value);
    for (std::size_t i = 1; i < parts.size(); ++i) out_ << ", ", print(parts[i]);
    out_ << ']';
    if (o.unified) out_ << ".unified";
  }

  Buffer& out_;
  const Function& function_;
  NameViews& names_;
};

void print_type(Buffer& out, isa::Type type, std::uint8_t vector, const std::string& opaque) {
  if (!opaque.empty()) {
    out << " ." << opaque;
    return;
  }
  if (vector > 1) out << " .v" << static_cast<int>(vector);
  out << " ." << isa::info(type).name;
}

void print_variable(Buffer& out, const Variable& v, NameViews& names) {
  if (!v.linking.empty()) out << '.' << v.linking << ' ';
  out << '.' << isa::name(v.space);
  if (!v.attributes.empty()) out << " .attribute(" << v.attributes << ')';
  if (v.alignment) out << " .align " << v.alignment;
  print_type(out, v.type, v.vector, v.opaque);
  if (!v.pointer.empty()) out << ' ' << v.pointer;
  out << ' ' << names(v.name);
  if (v.count >= 0) out << '<' << v.count << '>';
  for (const std::int64_t dim : v.dims) {
    out << '[';
    if (dim >= 0) out << dim;
    out << ']';
  }
  if (!v.initializer.empty()) out << " = " << v.initializer;
}

class Emitter {
 public:
  Emitter(const Module& module, const EmitOptions& options, std::vector<Place>* lines)
      : module_(module), options_(options), lines_(lines) {
    if (lines_) lines_->assign(1, Place{});
    std::size_t statements = 0;
    for (const Function& f : module.functions) statements += f.body.size();
    out_.reserve(256 + 44 * statements);
  }

  std::string run() {
    header();
    for (const Module::Item& item : module_.items) {
      switch (item.kind) {
        case Module::Item::Kind::variable:
          print_variable(out_, module_.variables[item.index], names_);
          out_ << ';', end_line();
          break;
        case Module::Item::Kind::function: function(module_.functions[item.index]); break;
        case Module::Item::Kind::directive: lines_of(module_.texts[item.index]); break;
      }
    }
    return out_.take();
  }

 private:
  void end_line(const Place& place = {}) {
    out_ << '\n';
    if (lines_) lines_->push_back(place);
  }
  void lines_of(std::string_view text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      out_ << text.substr(begin, end - begin), end_line();
      begin = end + 1;
    }
  }

  void header() {
    const isa::Version version = module_.version == isa::Version{0, 0} ? smallest_version(module_) : module_.version;
    out_ << ".version " << isa::to_string(version), end_line();
    out_ << ".target " << module_.target, end_line();
    if (module_.address_size) out_ << ".address_size " << static_cast<int>(module_.address_size), end_line();
    if (options_.locations) files();
  }

  // Indices above those that the module's own .file directives use.
  void files() {
    for (const std::string& text : module_.texts) {
      if (!text.starts_with(".file ")) continue;
      std::uint32_t index = 0;
      std::from_chars(text.data() + 6, text.data() + text.size(), index);
      next_file_ = std::max(next_file_, index + 1);
    }
    for (const Function& function : module_.functions) {
      for (const Statement& statement : function.body) {
        if (statement.kind != Statement::Kind::instruction || statement.place.line == 0 ||
            !files_.try_emplace(statement.place.file, next_file_).second)
          continue;
        out_ << ".file " << next_file_++ << " \"" << statement.place.file.view() << '"', end_line();
      }
    }
  }

  void parameters(const std::vector<Variable>& list) {
    out_ << '(';
    for (std::size_t i = 0; i < list.size(); ++i) {
      end_line();
      out_ << '\t';
      print_variable(out_, list[i], names_);
      if (i + 1 < list.size()) out_ << ',';
    }
    if (!list.empty()) end_line();
    out_ << ')';
  }

  void function(const Function& f) {
    end_line();
    if (!f.linking.empty()) out_ << '.' << f.linking << ' ';
    out_ << (f.entry ? ".entry " : ".func ");
    if (!f.attributes.empty()) out_ << ".attribute(" << f.attributes << ") ";
    if (!f.returns.empty()) {
      out_ << '(';
      for (std::size_t i = 0; i < f.returns.size(); ++i) {
        if (i) out_ << ", ";
        print_variable(out_, f.returns[i], names_);
      }
      out_ << ") ";
    }
    out_ << names_(f.name);
    parameters(f.parameters);
    for (const std::string& directive : f.directives) end_line(f.place), out_ << directive;
    if (f.declaration) {
      out_ << ';', end_line(f.place);
      return;
    }
    end_line(f.place);
    out_ << '{', end_line();
    Operands operands(out_, f, names_);
    last_ = {};
    for (const Statement& s : f.body) statement(f, s, operands);
    out_ << '}', end_line();
  }

  void location(const Place& place) {
    if (place.line == 0 || (place.file == last_.file && place.line == last_.line)) return;
    last_ = place;
    out_ << "\t.loc " << files_[place.file] << ' ' << place.line << ' ' << place.column, end_line(place);
  }

  void statement(const Function& f, const Statement& s, Operands& operands) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::instruction:
        if (options_.locations) location(s.place);
        instruction(f, f.instructions[s.index], operands);
        break;
      case Kind::label: out_ << names_(s.index) << ':'; break;
      case Kind::registers: declaration(f, f.declarations[s.index], operands); break;
      case Kind::variable: out_ << '\t', print_variable(out_, f.variables[s.index], names_), out_ << ';'; break;
      case Kind::open: out_ << '{'; break;
      case Kind::close: out_ << '}'; break;
      case Kind::location: {
        const Location& at = f.locations[s.index];
        out_ << "\t.loc " << at.file << ' ' << at.line << ' ' << at.column << at.inlined;
        break;
      }
      case Kind::comment: out_ << "\t// " << f.texts[s.index]; break;
      case Kind::directive: out_ << '\t' << f.texts[s.index]; break;
    }
    end_line(s.place);
  }

  void instruction(const Function& f, const Instruction& i, Operands& operands) {
    out_ << '\t';
    if (i.guard.reg != no_id) {
      out_ << (i.guard.negated ? "@!" : "@");
      if (i.guard.reg < f.registers.size()) operands.print(f.registers[i.guard.reg]);
      out_ << ' ';
    }
    if (i.mnemonic) out_ << i.mnemonic->canonical;
    const char* before = " ";
    for (const Operand& o : f.operands_of(i)) {
      out_ << before;
      before = ", ";
      operands.print(o);
    }
    out_ << ';';
  }

  void declaration(const Function& f, const RegisterDeclaration& d, Operands& operands) {
    const Register& first = f.registers[d.first];
    out_ << "\t.reg";
    print_type(out_, first.type, first.vector, {});
    if (d.range) {
      out_ << ' ' << names_(first.base) << '<' << d.count << ">;";
      return;
    }
    for (std::uint32_t i = 0; i < d.count; ++i) {
      out_ << (i ? ", " : " ");
      operands.print(f.registers[d.first + i]);
    }
    out_ << ';';
  }

  const Module& module_;
  const EmitOptions& options_;
  std::vector<Place>* lines_;
  Buffer out_;
  NameViews names_;
  std::unordered_map<Name, std::uint32_t> files_;
  std::uint32_t next_file_ = 1;
  Place last_;
};

}  // namespace

std::string to_string(const Function& function, const Operand& operand) {
  Buffer out;
  NameViews names;
  Operands(out, function, names).print(operand);
  return out.take();
}

std::string emit(const Module& module, const EmitOptions& options, std::vector<Place>* lines) {
  return Emitter(module, options, lines).run();
}

}  // namespace ptx::ir
