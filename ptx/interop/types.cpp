// Element types and devices as DLPack spells them, and scalars as the bits of a kernel parameter.
#include <bit>
#include <cmath>
#include <limits>

#include "ptx/arch/format.h"
#include "ptx/base/text.h"
#include "ptx/cuda/executor.h"
#include "ptx/interop/plan.h"
#include "ptx/sim/simulator.h"

namespace ptx::interop {
namespace {

using launch::Element;
// What a PTX scalar type holds: its class ('u', 's', 'b', 'f', 'h' for f16, 'x' for bf16) and its width in bits.
struct Scalar {
  char kind = 0;
  int bits = 0;
};

Scalar scalar(std::string_view type) {
  if (type == "f16") return {'h', 16};
  if (type == "bf16") return {'x', 16};
  if (type == "pred") return {'b', 1};
  if (type.size() < 2 || type.size() > 3 || std::string_view("usbf").find(type[0]) == std::string_view::npos) return {};
  const std::string_view digits = type.substr(1);
  const int bits = digits == "8" ? 8 : digits == "16" ? 16 : digits == "32" ? 32 : digits == "64" ? 64 : 0;
  return bits == 0 || (type[0] == 'f' && bits < 32) ? Scalar{} : Scalar{type[0], bits};
}

Diagnostic misfit(const launch::ScalarArgument& argument, std::string_view value) {
  return Diagnostic(
      Code::wrong_scalar, Place{},
      cat("argument `", argument.name, "`: ", value, " does not fit a parameter of type ", argument.type));
}

std::uint64_t pack_real(const Scalar& type, double value) {
  if (type.kind == 'h') return arch::narrow(arch::format::f16, value, arch::Rounding::rn, false);
  if (type.kind == 'x') return arch::narrow(arch::format::bf16, value, arch::Rounding::rn, false);
  if (type.bits == 32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<std::uint64_t>(value);
}

bool is_real(const Scalar& type) { return type.kind == 'h' || type.kind == 'x' || type.kind == 'f'; }

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
      cat("tensors on ", name(device), " run nowhere: kernels take CUDA tensors, and CPU tensors for the simulator"));
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::uint64_t value) {
  const Scalar type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, static_cast<double>(value));
  if (type.kind == 0) return misfit(argument, cat(value));
  const int usable = type.kind == 's' ? type.bits - 1 : type.bits;
  if (usable < 64 && (value >> usable) != 0) return misfit(argument, cat(value));
  return value;
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, std::int64_t value) {
  if (value >= 0) return pack(argument, static_cast<std::uint64_t>(value));
  const Scalar type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, static_cast<double>(value));
  if ((type.kind != 's' && type.kind != 'b') || type.bits == 1) return misfit(argument, cat(value));
  if (type.bits < 64 && value < -(std::int64_t{1} << (type.bits - 1))) return misfit(argument, cat(value));
  return type.bits == 64 ? static_cast<std::uint64_t>(value)
                         : static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << type.bits) - 1);
}

Expected<std::uint64_t> pack(const launch::ScalarArgument& argument, double value) {
  const Scalar type = scalar(argument.type);
  if (is_real(type)) return pack_real(type, value);
  return misfit(argument, Text().real(value).view());
}

}  // namespace ptx::interop
