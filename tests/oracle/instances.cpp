// Writes instances of the rows, and of what lies one step outside them, with the verdict of check: one line each,
//   legal|refused <tab> form <tab> section <tab> target:version <tab> instruction
// oracle.py asks the assembler the same. Usage:
//   oracle_instances [--depth D] [--samples N] [--part K/N] TARGET VERSION [PREFIX...]
//   oracle_instances [...] --since [PREFIX...]
//   oracle_instances --targets
// D: 0 legal mnemonics and one change of each operand; 1 also mnemonics that differ in a modifier, other orders, three
// changes; 2 all of it.
// --since: each form and each value of a slot at the PTX version that it needs, and at the version before it.
// --part: every Nth line by its hash. PREFIX: of form names, default all.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "ptx/base/text.h"
#include "ptx/check/check.h"
#include "tests/oracle/generate.h"

using namespace ptx;
using oracle::Choice;
using oracle::Modifiers;

namespace {

struct Settings {
  int depth = 1, samples = 4;
  unsigned part = 0, parts = 1;
  std::vector<std::string_view> prefixes;
  bool wants(const isa::Form& form) const {
    if (oracle::Generator::calls(form)) return false;
    for (const std::string_view p : prefixes) {
      if (form.id.starts_with(p)) return true;
    }
    return prefixes.empty();
  }
};

class Writer {
 public:
  Writer(const Settings& settings, check::ModuleTarget target)
      : settings_(settings),
        target_(target),
        module_symbols_(pool_.module),
        symbols_(module_symbols_, pool_.function(), pool_.item()),
        generator_(pool_, [this](std::size_t n) { return random_() % n; }) {
    if (target.version < isa::Version{8, 3}) std::erase(pool_.types, isa::Type::b128);  // there is none to declare
  }

  void form(const isa::Form& form) {
    form_ = &form;
    random_.seed(static_cast<unsigned>(std::hash<std::string_view>{}(form.id)));
    const std::vector<Modifiers> legal = mnemonics();
    for (std::size_t i = 0; i < legal.size(); ++i) instances(legal[i], i);
    if (settings_.depth == 0) return;
    for (std::size_t i = 0; i < legal.size() && i < (settings_.depth > 1 ? 40u : 12u); ++i) {
      last_ = generator_.match(form, legal[i]);
      const std::size_t orders = i < 2 ? (settings_.depth > 1 ? 100 : 24) : 6;
      for (const Modifiers& modifiers : generator_.orders(legal[i], orders)) plain(modifiers);
      for (const Modifiers& modifiers : generator_.beside(form, legal[i])) plain(modifiers);
    }
  }

  // One mnemonic, with the operands of its match.
  void one(const isa::Form& form, const Modifiers& modifiers) {
    form_ = &form;
    last_ = generator_.match(form, modifiers);
    if (last_) plain(modifiers);
  }

 private:
  // Those that are this row's. Where a value of a slot is not legal with the first values of the others, random ones
  // are tried.
  std::vector<Modifiers> mnemonics() {
    std::vector<Modifiers> found;
    std::set<std::string> seen;
    std::vector<Modifiers> broken;  // against a rule of the row
    const auto keep = [&](const Choice& c) {
      const Modifiers modifiers = generator_.modifiers(*form_, c);
      const bool legal = generator_.match(*form_, modifiers) != nullptr;
      if (seen.insert(oracle::join(*form_, modifiers)).second) (legal ? found : broken).push_back(modifiers);
      return legal;
    };
    const double combinations = generator_.combinations(*form_);
    if (combinations <= (settings_.depth > 1 ? 400 : settings_.depth ? 64 : 24)) {
      Choice c = generator_.first(*form_);
      do keep(c);
      while (generator_.next(*form_, c));
    } else {
      every_value(keep);
      if (form_->rules[0] != isa::Rule::none && settings_.depth) pairs(keep, settings_.depth > 1 ? 600 : 150);
      for (int i = 0; i < settings_.samples * (1 + settings_.depth); ++i) keep(generator_.random(*form_));
    }
    if (!found.empty()) {
      last_ = generator_.match(*form_, found.front());
      for (const Modifiers& modifiers : broken) plain(modifiers);
    }
    return found;
  }

  template <class Keep>
  void every_value(const Keep& keep) {
    keep(generator_.first(*form_));
    for (std::size_t s = 0; s < form_->slots.size(); ++s) {
      for (int v = 0; v < form_->slots[s].count; ++v) {
        Choice c = generator_.first(*form_);
        generator_.choose(*form_, c, s, v);
        for (int attempt = 0; !keep(c) && attempt < 60; ++attempt) {
          do c = generator_.random(*form_), generator_.choose(*form_, c, s, v);
          while (++attempt < 60 && !generator_.match(*form_, generator_.modifiers(*form_, c)));
        }
      }
    }
  }

  template <class Keep>
  void pairs(const Keep& keep, std::size_t at_most) {
    std::vector<Choice> all;
    for (std::size_t s = 0; s < form_->slots.size(); ++s) {
      for (std::size_t t = s + 1; t < form_->slots.size(); ++t) {
        for (int v = 0; v < form_->slots[s].count; ++v) {
          for (int w = 0; w < form_->slots[t].count; ++w) {
            Choice c = generator_.first(*form_);
            generator_.choose(*form_, c, s, v), generator_.choose(*form_, c, t, w);
            all.push_back(c);
          }
        }
      }
    }
    std::shuffle(all.begin(), all.end(), random_);
    for (std::size_t i = 0; i < all.size() && i < at_most; ++i) keep(all[i]);
  }

  // Legal operands, then one operand changed at a time: all changes for the first mnemonics of a row.
  void instances(const Modifiers& modifiers, std::size_t nth) {
    const isa::Match& match = *generator_.match(*form_, modifiers);
    const isa::Mnemonic& mnemonic = *isa::resolve(oracle::join(*form_, modifiers));
    const bool whole = nth < static_cast<std::size_t>(settings_.depth == 2 ? 3 : settings_.depth);
    const auto groups = generator_.operand_groups(match);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto operands = generator_.operands(*form_, match, groups[g]);
      const int count = static_cast<int>(operands.size());
      std::vector<int> changes;
      for (int at = 0; at < count; ++at) changes.push_back(generator_.changes(at));
      write(mnemonic, operands);
      if (!operands.empty()) operands.pop_back(), write(mnemonic, operands);
      if (whole || g == 0) {
        operands = generator_.operands(*form_, match, groups[g]);
        operands.push_back(pool_.reg(isa::Type::b32, 7)), write(mnemonic, operands);
      }
      if (g > 1 && !whole) continue;
      for (int at = 0; at < count; ++at) {
        const int all = changes[static_cast<std::size_t>(at)];
        const int some = whole && g < 2 ? all : settings_.depth == 2 ? 4 : settings_.depth == 1 ? 2 : nth < 4;
        for (int n = 1; n <= some; ++n) {
          const int change = some == all ? n : 1 + static_cast<int>(random_() % static_cast<unsigned>(all));
          write(mnemonic, generator_.operands(*form_, match, groups[g], at, change));
        }
      }
    }
  }

  // Only legal operands; those of the mnemonic before it where it is none of this row.
  void plain(const Modifiers& modifiers) {
    const isa::Mnemonic& mnemonic = *isa::resolve(oracle::join(*form_, modifiers));
    const isa::Match* match = generator_.match(*form_, modifiers);
    if (!match) match = last_;
    if (!match) return;
    const auto groups = generator_.operand_groups(*match);
    write(mnemonic, generator_.operands(*form_, *match, groups[0]));
    if (groups.size() > 1) write(mnemonic, generator_.operands(*form_, *match, groups[1]));
  }

  void write(const isa::Mnemonic& mnemonic, const oracle::Operands& operands) {
    ir::Instruction& i = pool_.put(mnemonic, operands);
    const std::string text = pool_.text();
    if (!seen_.insert(text).second || std::hash<std::string>{}(text) % settings_.parts != settings_.part) return;
    const auto problem = check::check_instruction(target_, pool_.function(), i, {}, &symbols_, pool_.statement());
    const bool refused = problem && problem->severity == Severity::error;
    std::printf("%s\t%.*s\t%.*s\t%s:%s\t%s\n", refused ? "refused" : "legal", static_cast<int>(form_->id.size()),
                form_->id.data(), static_cast<int>(form_->section.size()), form_->section.data(),
                isa::to_string(target_.sm).c_str(), isa::to_string(target_.version).c_str(), text.c_str());
  }

  const Settings& settings_;
  check::ModuleTarget target_;
  oracle::Pool pool_;
  check::ModuleSymbols module_symbols_;
  check::Symbols symbols_;
  std::mt19937 random_;
  oracle::Generator generator_;
  const isa::Form* form_ = nullptr;
  const isa::Match* last_ = nullptr;
  std::set<std::string> seen_;
};

// PTX versions from 4.0 on, the first that an assembler of today can be asked for.
constexpr isa::Version versions[] = {{4, 0}, {4, 1}, {4, 2}, {4, 3}, {5, 0}, {6, 0}, {6, 1}, {6, 2}, {6, 3},
                                     {6, 4}, {6, 5}, {7, 0}, {7, 1}, {7, 2}, {7, 3}, {7, 4}, {7, 5}, {7, 6},
                                     {7, 7}, {7, 8}, {8, 0}, {8, 1}, {8, 2}, {8, 3}, {8, 4}, {8, 5}, {8, 6},
                                     {8, 7}, {8, 8}, {9, 0}, {9, 1}, {9, 2}, {9, 3}, {9, 4}};

// The form and each value of its slots, at the version that check says it needs and the one before, on the first target
// that has it.
void since(const Settings& settings) {
  oracle::Pool pool;
  std::mt19937 random;
  const oracle::Generator generator(pool, [&](std::size_t n) { return random() % n; });
  std::map<std::string, std::unique_ptr<Writer>> writers;
  const auto ask = [&](const isa::Form& form, const Modifiers& modifiers, isa::Target target, isa::Version version) {
    if (version < isa::first_version(target).value_or(isa::Version{})) return;
    auto& writer = writers[cat(isa::to_string(target), isa::to_string(version))];
    if (!writer) writer = std::make_unique<Writer>(settings, check::ModuleTarget{target, version});
    writer->one(form, modifiers);
  };
  const auto both = [&](const isa::Form& form, const Modifiers& modifiers) {
    const isa::Match* match = generator.match(form, modifiers);
    if (!match) return;
    const isa::Version need = match->since;
    int targets = 0;  // the first two: a later one may know the version before
    for (const isa::Target target : isa::all_targets()) {
      const isa::Version first = isa::first_version(target).value_or(isa::Version{});
      if (!match->runs_on(target) || targets == 2) continue;
      const auto at = std::find_if(std::begin(versions), std::end(versions),
                                   [&](isa::Version v) { return v >= need && v >= first; });
      if (at == std::end(versions)) continue;
      ++targets;
      ask(form, modifiers, target, *at);
      if (at != std::begin(versions) && *at == need) ask(form, modifiers, target, at[-1]);
    }
  };
  for (const isa::Form& form : isa::forms()) {
    if (!settings.wants(form)) continue;
    random.seed(1);
    for (int i = 0; i < 4; ++i)
      both(form, generator.modifiers(form, i ? generator.random(form) : generator.first(form)));
    for (std::size_t s = 0; s < form.slots.size(); ++s) {
      for (int v = 0; v < form.slots[s].count; ++v) {
        if (form.values[static_cast<std::size_t>(form.slots[s].first + v)].need == 0 && v > 1) continue;
        Choice c = generator.first(form);
        generator.choose(form, c, s, v);
        for (int n = 0; n < 40 && !generator.match(form, generator.modifiers(form, c)); ++n)
          c = generator.random(form), generator.choose(form, c, s, v);
        both(form, generator.modifiers(form, c));
      }
    }
  }
}

// One line a target: its name, the first PTX version that knows it, the number that its hardware goes by today.
void targets() {
  for (const isa::Target target : isa::all_targets())
    std::printf("%s\t%s\t%d\n", isa::to_string(target).c_str(), isa::to_string(*isa::first_version(target)).c_str(),
                arch::architecture(target.number)->is);
}

int usage() {
  return std::fputs(
             "usage: oracle_instances [--depth D] [--samples N] [--part K/N] --since | --targets | TARGET VERSION "
             "[PREFIX...]\n",
             stderr),
         2;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool versions_too = false;
  std::vector<std::string_view> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--targets") return targets(), 0;
    if (argument == "--since") {
      versions_too = true;
    } else if (argument.starts_with("--") && i + 1 < argc) {
      const char* value = argv[++i];
      if (argument == "--depth") settings.depth = std::atoi(value);
      if (argument == "--samples") settings.samples = std::atoi(value);
      if (argument == "--part" && std::sscanf(value, "%u/%u", &settings.part, &settings.parts) != 2) return usage();
    } else {
      arguments.push_back(argument);
    }
  }
  if (versions_too) return settings.prefixes = arguments, since(settings), 0;
  unsigned major = 0, minor = 0;
  if (arguments.size() < 2 || settings.parts == 0) return usage();
  const auto target = isa::target_named(arguments[0]);
  if (!target || std::sscanf(std::string(arguments[1]).c_str(), "%u.%u", &major, &minor) != 2) return usage();
  settings.prefixes.assign(arguments.begin() + 2, arguments.end());
  Writer writer(settings, {*target, {static_cast<std::uint8_t>(major), static_cast<std::uint8_t>(minor)}});
  for (const isa::Form& form : isa::forms()) {
    if (settings.wants(form)) writer.form(form);
  }
}
