// Element types and devices as DLPack spells them, and scalars as the bits of a kernel parameter.
#include "ptx/isa/types.h"

#include <bit>
#include <cmath>
#include <limits>

#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/plan.h"
#include "ptx/isa/half.h"
#include "ptx/sim/simulator.h"

namespace ptx::interop {
namespace {

using isa::Type;
using isa::TypeKind;
using launch::Element;

// The type of a scalar parameter; none: no number of a call is one (packed and 128-bit types, narrow floats but bf16).
Type scalar(std::string_view name) {
  const Type type = isa::type_named(name).value_or(Type::none);
  const isa::TypeInfo& t = isa::info(type);
  const bool number =
      type == Type::bf16 || type == Type::pred || isa::is_integer(t.kind) || t.kind == TypeKind::floating;
  const bool whole = t.bits >= 8 && t.bits <= 64;
  return number && (whole || type == Type::pred) ? type : Type::none;
}

Diagnostic misfit(const launch::ScalarArgument& argument, std::string_view value) {
  return Diagnostic(
      Code::wrong_scalar, Place{},
      cat("argument `", argument.name, "`: ", value, " does not fit a parameter of type ", argument.type));
}

std::uint64_t pack_real(Type type, double value) {
  if (const arch::Format* half = isa::half_format(type)) return arch::narrow(*half, value, arch::Rounding::rn, false);
  if (type == Type::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<std::uint64_t>(value);
}

bool is_real(Type type) { return type == Type::bf16 || isa::info(type).kind == TypeKind::floating; }

}  // namespace

DLDataType spell(Element element) {
  const arch::ElementInfo& row = arch::info(element);
  return {static_cast<std::uint8_t>(row.dlpack), static_cast<std::uint8_t>(row.value_bits()), row.lanes};
}

bool read(DLDataType type, Element& element) {
  for (std::size_t i = 0; i < arch::element_count; ++i)
    if (element = static_cast<Element>(i); spell(element) == type) return true;
  return false;
}

std::string name(DLDataType type) {
  if (Element element; read(type, element)) return std::string(arch::name(element));
  constexpr std::string_view codes[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string lanes = type.lanes == 1 ? "" : cat("x", type.lanes);
  if (type.code < std::size(codes)) return cat(codes[type.code], static_cast<int>(type.bits), lanes);
  return cat("DLPack type ", static_cast<int>(type.code), " of ", static_cast<int>(type.bits), " bits", lanes);
}

std::string name(DLDevice device) {
  switch (device.type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return cat("cuda:", device.id);
    case DeviceType::cuda_host: return "cpu (pinned)";
    case DeviceType::cuda_managed: return cat("cuda:", device.id, " (managed)");
  }
  return cat("DLPack device ", static_cast<std::int32_t>(device.type), ":", device.id);
}

DLDevice normal(DLDevice device) {
  if (device.type == DeviceType::cuda_managed) return {DeviceType::cuda, device.id};
  if (device.type == DeviceType::cuda_host || device.type == DeviceType::cpu) return {DeviceType::cpu, 0};
  return device;
}

Expected<launch::Executor*> executor(DLDevice device) {
  device = normal(device);
  if (device.type == DeviceType::cuda) return cuda::executor(device.id);
  if (device.type == DeviceType::cpu) return &sim::simulator();
  return Diagnostic(
      Code::unsupported_device, Place{},
      cat("tensors on ", name(device), " cannot run: kernels take CUDA tensors, and CPU tensors for the simulator"));
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::uint64_t value) {
  const Type type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, static_cast<double>(value));
  const isa::TypeInfo& t = isa::info(type);
  const int usable = t.kind == TypeKind::signed_ ? t.bits - 1 : t.bits;
  if (type == Type::none || (usable < 64 && (value >> usable) != 0)) return misfit(argument, cat(value));
  return value;
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::int64_t value) {
  if (value >= 0) return pack(argument, static_cast<std::uint64_t>(value));
  const Type type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, static_cast<double>(value));
  const isa::TypeInfo& t = isa::info(type);
  const bool negative = type != Type::none && (t.kind == TypeKind::signed_ || t.kind == TypeKind::bits);
  if (!negative || (t.bits < 64 && value < -(std::int64_t{1} << (t.bits - 1)))) return misfit(argument, cat(value));
  const std::uint64_t all = static_cast<std::uint64_t>(value);
  return t.bits == 64 ? all : all & ((std::uint64_t{1} << t.bits) - 1);
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, double value) {
  const Type type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, value);
  return misfit(argument, Text().real(value).view());
}

}  // namespace ptx::interop
