// Ranks that are processes, connected by TCP.
#pragma once

#include <memory>

#include <brim/dist/launch.h>

#include "dist/transport.h"
#include "dist/watch.h"

namespace brim::dist {

struct Connected {
  std::unique_ptr<Transport> transport;
  std::shared_ptr<Watch> watch;  ///< over the others; null where there are none
};

/// What tcp_group() makes a group of.
Connected connect_over_tcp(const TcpOptions& options);

}  // namespace brim::dist
