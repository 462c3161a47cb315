#include <arpa/inet.h>

#include "verbs_fake.hpp"

namespace tutti::transport::testing {

verbs::Gid ipv4_gid(int index, const std::string& address) {
  verbs::Gid gid;
  gid.index = index;
  gid.roce_v2 = true;
  gid.raw[10] = gid.raw[11] = 0xff;
  ::inet_pton(AF_INET, address.c_str(), gid.raw.data() + 12);
  return gid;
}

std::vector<FakeDevice> fake_devices(int count) {
  std::vector<FakeDevice> devices;
  for (int k = 0; k < count; ++k) {
    FakeDevice device;
    device.name = "fake" + std::to_string(k);
    device.gids = {ipv4_gid(1, "10.9.0." + std::to_string(k + 1))};
    devices.push_back(device);
  }
  return devices;
}

}  // namespace tutti::transport::testing
