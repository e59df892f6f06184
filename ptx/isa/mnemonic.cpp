// Mnemonics: resolved once for the process, and what to say about those that match nothing.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>

#include "ptx/base/text.h"
#include "ptx/isa/forms.h"

namespace ptx::isa {

std::vector<std::string_view> split(std::string_view mnemonic) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t dot = mnemonic.find('.', begin);
    parts.push_back(mnemonic.substr(begin, dot - begin));
    if (dot == mnemonic.npos) return parts;
    begin = dot + 1;
  }
}

namespace {

std::string canonical(const Mnemonic& mnemonic, const Fit& fit) {
  std::vector<int> order(mnemonic.modifiers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return fit.element[a] < fit.element[b]; });
  std::string text(mnemonic.opcode);
  for (int i : order) text += cat('.', mnemonic.modifiers[static_cast<std::size_t>(i)]);
  return text;
}

bool may_repeat(std::string_view modifier) {
#define FLAG(name) \
  if (modifier == #name) return true;
#include "ptx/isa/flags.def"
#undef FLAG
  return false;
}

bool drop_repeated(std::vector<std::string_view>& modifiers) {
  const std::size_t before = modifiers.size();
  for (std::size_t i = 1; i < modifiers.size(); ++i) {
    const auto end = modifiers.begin() + static_cast<std::ptrdiff_t>(i);
    if (may_repeat(modifiers[i]) && std::find(modifiers.begin(), end, modifiers[i]) != end) modifiers.erase(end), --i;
  }
  return modifiers.size() != before;
}

std::unique_ptr<Mnemonic> make(std::string_view text) {
  auto made = std::make_unique<Mnemonic>();
  Mnemonic& m = *made;
  m.text = m.canonical = text;
  m.modifiers = split(m.text);
  m.opcode = m.modifiers.front();
  m.modifiers.erase(m.modifiers.begin());
  const bool repeated = drop_repeated(m.modifiers);
  m.traits = traits_of(m.opcode);
  const auto candidates = forms_of(m.opcode);
  m.known_opcode = !candidates.empty();
  for (const FormId id : candidates) {
    const Fit fit = matching::fit(forms()[id], m.modifiers);
    if (!fit.fits) continue;
    Match match = make_match(id, fit);
    match.in_order = match.in_order && !repeated;
    if (!broken_rule(match).empty()) continue;
    if (m.matches.empty()) m.canonical = canonical(m, fit);
    m.matches.push_back(std::move(match));
  }
  return made;
}

// Keys are views of the values' own text.
struct Cache {
  std::shared_mutex mutex;
  std::unordered_map<std::string_view, std::unique_ptr<Mnemonic>> mnemonics;
};

Cache& cache() {
  static Cache& shared = *new Cache;  // never destroyed: instructions of static modules point into it
  return shared;
}

bool fits_partly(std::string_view opcode, std::span<const std::string_view> modifiers) {
  for (const FormId id : forms_of(opcode)) {
    if (matching::fit(forms()[id], modifiers, true).fits) return true;
  }
  return false;
}

// Modifiers that, put in at `at`, make `modifiers` a form, or with `partly` the beginning of one.
std::vector<std::string_view> legal_at(std::string_view opcode, std::vector<std::string_view> modifiers, std::size_t at,
                                       bool partly) {
  std::vector<std::string_view> legal;
  const auto consider = [&](const Form& form, std::string_view modifier) {
    const auto there = modifiers.insert(modifiers.begin() + static_cast<std::ptrdiff_t>(at), modifier);
    const bool fits = matching::fit(form, modifiers, partly).fits;
    modifiers.erase(there);
    if (fits && std::find(legal.begin(), legal.end(), modifier) == legal.end()) legal.push_back(modifier);
  };
  for (const FormId id : forms_of(opcode)) {
    const Form& form = forms()[id];
    if (!matching::fit(form, modifiers, true).fits) continue;
    for (const Modifier& m : form.modifiers) {
      if (m.slot == Modifier::literal) {
        consider(form, form.text(m.text));
        continue;
      }
      const Slot& slot = form.slots[m.slot];
      for (const Value& value : form.values.subspan(slot.first, slot.count)) consider(form, form.text(value.text));
    }
  }
  return legal;
}

std::vector<std::string_view> legal_behind(std::string_view opcode, const std::vector<std::string_view>& modifiers) {
  return legal_at(opcode, modifiers, modifiers.size(), true);
}

int distance(std::string_view a, std::string_view b) {  // Levenshtein
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int corner = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = above;
    }
  }
  return row[b.size()];
}

// How far the numbers of two words lie from each other that have the same letters between them: m64n60k16 and
// m64n64k16.
std::optional<std::int64_t> numbers_apart(std::string_view a, std::string_view b) {
  const auto take = [](std::string_view& text) -> std::int64_t {
    constexpr std::int64_t most = 1'000'000;  // also of what is beyond 64 bits
    std::int64_t number = most;
    const char* end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return std::min(number, most);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::int64_t apart = 0;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      apart += std::abs(take(a) - take(b));
    } else if (a.front() != b.front()) {
      return {};
    } else {
      a.remove_prefix(1), b.remove_prefix(1);
    }
  }
  return a.empty() && b.empty() ? std::optional(apart) : std::nullopt;
}

// "; did you mean `x`?", or nothing if none is near.
std::string nearest(std::string_view name, std::span<const std::string_view> names) {
  int best = std::max<int>(1, static_cast<int>(name.size()) / 3) + 1;
  std::string_view found;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::string_view candidate : names)
    if (const auto apart = numbers_apart(name, candidate); apart && *apart < least) least = *apart, found = candidate;
  for (const std::string_view candidate : found.empty() ? names : std::span<const std::string_view>()) {
    const int d = distance(name, candidate);
    if (d < best) best = d, found = candidate;
  }
  return found.empty() ? std::string() : cat("; did you mean `", found, "`?");
}

std::string list(std::span<const std::string_view> modifiers) {
  constexpr std::size_t shown = 24;
  std::string text;
  for (std::size_t i = 0; i < modifiers.size() && i < shown; ++i) text += cat(i ? " ." : ".", modifiers[i]);
  if (modifiers.size() > shown) text += cat(" and ", modifiers.size() - shown, " more");
  return text;
}

std::string joined(std::string_view opcode, std::span<const std::string_view> modifiers) {
  std::string text(opcode);
  for (const std::string_view modifier : modifiers) text += cat('.', modifier);
  return text;
}

// Whether the word has several numbers, as shapes of matrices have: m64n32k16, 128x256b.
bool is_shape(std::string_view word) {
  int numbers = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto digit = [&](std::size_t at) { return word[at] >= '0' && word[at] <= '9'; };
    numbers += digit(i) && (i == 0 || !digit(i - 1));
  }
  return numbers > 1;
}

// The shape nearest to the one that is written, with which the modifiers are a form: " `.m64n32k16` in place of ...".
std::string other_shape(std::string_view opcode, const std::vector<std::string_view>& modifiers) {
  for (std::size_t at = 0; at < modifiers.size(); ++at) {
    if (!is_shape(modifiers[at])) continue;
    std::vector<std::string_view> rest = modifiers;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    std::string_view best;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const std::string_view shape : legal_at(opcode, rest, at, false))
      if (const auto apart = numbers_apart(modifiers[at], shape); apart && *apart < least) least = *apart, best = shape;
    if (!best.empty()) return cat("`.", best, "` stands in place of `.", modifiers[at], '`');
  }
  return {};
}

// All modifiers are known together, yet no row takes exactly them.
std::string explain_whole(std::string_view opcode, const std::vector<std::string_view>& modifiers) {
  for (const FormId id : forms_of(opcode)) {
    const Fit fit = matching::fit(forms()[id], modifiers);
    if (!fit.fits) continue;
    const std::string_view legal = broken_rule(make_match(id, fit));
    if (!legal.empty()) return cat('`', joined(opcode, modifiers), "`: ", legal);
  }
  const std::string begin = cat('`', joined(opcode, modifiers), "` is not complete; ");
  const std::string shape = other_shape(opcode, modifiers);
  for (std::size_t at = 0; at < modifiers.size(); ++at) {  // mul.u32
    const auto missing = legal_at(opcode, modifiers, at, false);
    const std::string before = joined(opcode, std::span(modifiers).first(at));
    if (!missing.empty())
      return cat(begin, shape, shape.empty() ? "" : ", or ", "behind `", before, "` stands ",
                 missing.size() > 1 ? "one of " : "", list(missing));
  }
  const auto next = legal_behind(opcode, modifiers);
  if (!next.empty()) return cat(begin, shape, shape.empty() ? "" : ", or ", "it may go on with ", list(next));
  return cat('`', joined(opcode, modifiers), "` is no form of `", opcode, '`', shape.empty() ? "" : ": ", shape);
}

}  // namespace

const Mnemonic* resolve(std::string_view text) {
  Cache& c = cache();
  {
    std::shared_lock lock(c.mutex);
    if (const auto found = c.mnemonics.find(text); found != c.mnemonics.end()) return found->second.get();
  }
  auto made = make(text);
  std::unique_lock lock(c.mutex);
  const std::string_view key = made->text;
  return c.mnemonics.try_emplace(key, std::move(made)).first->second.get();
}

std::vector<std::string_view> next_modifiers(std::string_view partial) {
  auto modifiers = split(partial);
  const std::string_view opcode = modifiers.front();
  modifiers.erase(modifiers.begin());
  return legal_behind(opcode, modifiers);
}

std::string explain(std::string_view mnemonic) {
  auto modifiers = split(mnemonic);
  const std::string_view opcode = modifiers.front();
  modifiers.erase(modifiers.begin());
  if (forms_of(opcode).empty()) return cat("no instruction is called `", opcode, '`', nearest(opcode, opcodes()));
  std::size_t good = 0;
  while (good < modifiers.size() && fits_partly(opcode, std::span(modifiers).first(good + 1))) ++good;
  if (good == modifiers.size()) return explain_whole(opcode, modifiers);
  const std::string_view wrong = modifiers[good];
  const auto next = legal_behind(opcode, {modifiers.begin(), modifiers.begin() + static_cast<std::ptrdiff_t>(good)});
  const std::string before = joined(opcode, std::span(modifiers).first(good));
  if (next.empty()) return cat("`.", wrong, "` cannot follow `", before, "`, which takes no further modifier");
  return cat("`.", wrong, "` cannot follow `", before, "`; legal there: ", list(next), nearest(wrong, next));
}

std::string explain_special(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SpecialRegister& row : special_registers()) names.push_back(row.name);
  return cat("PTX has no special register `", name, '`', nearest(name, names));
}

}  // namespace ptx::isa
