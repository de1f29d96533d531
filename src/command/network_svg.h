// A drawing of a network: what computes after what.
#pragma once

#include <string>

#include <brim/deploy/summary.h>

namespace brim::command {

/// The network with what lies deeper than `depth` levels drawn as one box; below 0: all of it.
deploy::NetworkSummary collapsed(const deploy::NetworkSummary& network, int depth);

/// An SVG document, read from top to bottom: a box for each node, modules of modules as frames
/// around theirs, and branches that pass others by as curves beside them.
std::string network_svg(const deploy::NetworkSummary& network, const std::string& title);

}  // namespace brim::command
