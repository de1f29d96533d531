// Which device a tensor lives on: a small value that names it, and queries for what there is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brim {

/// What a device is.
enum class DeviceKind : uint8_t {
  cpu,   ///< the host
  cuda,  ///< GPUs of NVIDIA
  sim    ///< virtual accelerators, on the CPU
};
inline constexpr int kDeviceKindCount = 3;  ///< how many kinds there are

std::string_view name(DeviceKind kind);  ///< "cpu", "cuda" or "sim"

/// `cpu`, `cuda:0` (alias `gpu:0`), `sim:1`. Naming a device does not need it to exist; using it
/// does.
struct Device {
  DeviceKind kind = DeviceKind::cpu;  ///< what it is
  int16_t index = 0;                  ///< which one of its kind, from 0

  constexpr Device() = default;
  /// An index that no device can have becomes -1, which is never available.
  constexpr Device(DeviceKind k, int i = 0)
      : kind(k), index(i < 0 || i > INT16_MAX ? int16_t{-1} : static_cast<int16_t>(i)) {}
  /// Parses "cpu", "cuda", "cuda:1", "gpu:0", "sim:0". Throws DeviceError on anything else.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}  ///< as above

  ///@{
  /// The device of that kind and index, whether it exists or not.
  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, index}; }
  static constexpr Device sim(int index = 0) { return {DeviceKind::sim, index}; }
  ///@}

  /// Number of usable devices of a kind ("cpu", "cuda" or "gpu", "sim"); 0 when its backend is
  /// absent.
  static int count(DeviceKind kind);
  /// The same by the kind's name. Throws DeviceError for another name.
  static int count(std::string_view kind);
  /// All usable devices of a kind.
  static std::vector<Device> all(DeviceKind kind);
  /// The same by the kind's name. Throws DeviceError for another name.
  static std::vector<Device> all(std::string_view kind);

  /// Devices named in a list: "cuda:0,cuda:1", "sim:all" (every one there is). Throws DeviceError
  /// for a name that is none, for one that stands there twice, and for "all" of a kind without
  /// devices.
  static std::vector<Device> list(std::string_view text);

  bool is_cpu() const { return kind == DeviceKind::cpu; }  ///< the host
  /// True when this device can be used in this process.
  bool available() const { return index >= 0 && index < count(kind); }
  std::string str() const;  ///< "cpu", "cuda:0"

  /// Whether all parts are equal.
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// Where tensors are made, and modules' parameters, if no device is named: the device of this
/// thread's innermost DeviceScope, the CPU outside of any.
Device default_device();

/// In this scope, and on this thread, what names no device is made on `device`: tensors of creation
/// ops and Tensor::from(), parameters of modules, as in a block of TensorFlow's tf.device() or of
/// an MXNet context. Scopes nest. A device that is named wins, and no tensor moves. Throws
/// DeviceError for a device that is not available.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);  ///< throws DeviceError unless `device` is available
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const Device outer_;
};

/// The i-th GPU if there is one, else the CPU (d2l.ai, section 6.7).
Device try_gpu(int index = 0);
/// All GPUs, or the CPU alone if there is none.
std::vector<Device> try_all_gpus();

}  // namespace brim
