// The definitions of one family, from its rows: included once a family, with PTX_FAMILY the .def file and PTX_SPACE the
// namespace of its C++ functions in ptx::author. Makes rows::PTX_SPACE::family.
namespace ptx::author::PTX_SPACE {}
namespace ptx::python::rows::PTX_SPACE {
namespace space = author::PTX_SPACE;
using namespace author;
using namespace author::PTX_SPACE;

#define WRITES(...)  // for readers of PTX

#define FAMILY(name, doc)
#define ARG(type, name, doc)
#define WORD(name, mnemonic, slot, doc)
#define OPT(type, name, value, doc) call.option(options.name);
#define KEY(type, name, value, doc) call.option(options.name);
#define MODIFIER(name, value, mnemonic, slot, doc) call.option(options.name);
#define INSTRUCTION(name, text, ...) \
  inline constexpr author::families::Template name##_form = author::families::read_template(text);
#define FUNCTION(name, result, parameters, doc, section) \
  inline void read_##name([[maybe_unused]] space::options::name& options, [[maybe_unused]] Call& call) { parameters }
#define HELPER(name, result, parameters, doc, section) \
  inline void read_##name([[maybe_unused]] space::options::name& options, [[maybe_unused]] Call& call) { parameters }
#include PTX_FAMILY
#undef ARG
#undef WORD
#undef OPT
#undef KEY
#undef MODIFIER
#undef INSTRUCTION
#undef FUNCTION
#undef HELPER

#define ARG(type, name, doc) Parameter{#name, doc, false, true, text_of<type>},
#define WORD(name, mnemonic, slot, doc) Parameter{#name, doc, false, true, nullptr, nullptr, mnemonic, slot},
#define OPT(type, name, value, doc)                       \
  Parameter{#name, doc, false, false, text_of<type>, [] { \
              const type it = value;                      \
              return Convert<type>::show(it);             \
            }},
#define KEY(type, name, value, doc)                      \
  Parameter{#name, doc, true, false, text_of<type>, [] { \
              const type it = value;                     \
              return Convert<type>::show(it);            \
            }},
#define MODIFIER(name, value, mnemonic, slot, doc)               \
  Parameter{#name,                                               \
            doc,                                                 \
            true,                                                \
            false,                                               \
            nullptr,                                             \
            [] {                                                 \
              const std::optional<Modifier> it = value;          \
              return Convert<std::optional<Modifier>>::show(it); \
            },                                                   \
            mnemonic,                                            \
            slot},
#define INSTRUCTION(...)
#define FUNCTION(name, result, parameters, doc, section) \
  inline constexpr Parameter name##_parameters[] = {parameters Parameter{}};
#define HELPER(name, result, parameters, doc, section) \
  inline constexpr Parameter name##_parameters[] = {parameters Parameter{}};
#include PTX_FAMILY
#undef ARG
#undef WORD
#undef OPT
#undef KEY
#undef MODIFIER
#undef INSTRUCTION
#undef FUNCTION
#undef HELPER
#undef FAMILY

#define ARG(type, name, doc)
#define WORD(name, mnemonic, slot, doc)
#define OPT(type, name, value, doc)
#define KEY(type, name, value, doc)
#define MODIFIER(name, value, mnemonic, slot, doc)
#define FAMILY(name, doc) inline constexpr std::string_view family_name = #name, family_doc = doc;
#define INSTRUCTION(...)
#define FUNCTION(name, result, parameters, doc, section)
#define HELPER(name, result, parameters, doc, section)
#include PTX_FAMILY
#undef FAMILY
#undef INSTRUCTION
#undef FUNCTION
#undef HELPER

#define FAMILY(name, doc)
#define INSTRUCTION(name, text, doc, ...) {family_name, #name, doc, "", &name##_form, {}, true, nullptr, instruction},
#define DEFINED(name, result, doc, section, guarded)                                                   \
  {family_name, #name,           doc,                                                                  \
   section,     nullptr,         std::span(name##_parameters).first(std::size(name##_parameters) - 1), \
   guarded,     text_of<result>, [](Call& call) { return invoke(call, &space::name, &read_##name); }},
#define FUNCTION(name, result, parameters, doc, section) DEFINED(name, result, doc, section, true)
#define HELPER(name, result, parameters, doc, section) DEFINED(name, result, doc, section, false)
inline const Definition definitions[] = {
#include PTX_FAMILY
};
inline const Family family{family_name, family_doc, definitions};

#undef FAMILY
#undef INSTRUCTION
#undef FUNCTION
#undef HELPER
#undef DEFINED
#undef ARG
#undef WORD
#undef OPT
#undef KEY
#undef MODIFIER
#undef WRITES
}  // namespace ptx::python::rows::PTX_SPACE
#undef PTX_FAMILY
#undef PTX_SPACE
