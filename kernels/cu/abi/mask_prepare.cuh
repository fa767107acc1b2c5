// See ../mask_prepare.cu.
#pragma once

#include "mask.cuh"

KERNEL(mask_prepare_row_spans, View p);
KERNEL(mask_prepare_prefix, View p);
KERNEL(mask_prepare_naive, View p);
KERNEL(mask_prepare_tiled, View p);
KERNEL(mask_prepare_edge_filtered, View p);
KERNEL(mask_prepare_tiled_edge_filtered, View p);
