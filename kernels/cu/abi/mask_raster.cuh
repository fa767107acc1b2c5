// See ../mask_raster.cu.
#pragma once

#include "mask.cuh"

KERNEL(mask_raster_row_spans, View p, PreparedRegion r, unsigned char *dst, u64 stride);
KERNEL(mask_raster_items, View p, u32 first, u32 count, unsigned char *dst, u64 stride, u32 labels, u32 pad);
KERNEL(mask_raster_naive, View p, PreparedRegion r, unsigned char *dst, u64 stride);
KERNEL(mask_raster_tiled, View p, PreparedRegion r, unsigned char *dst, u64 stride);
KERNEL(mask_raster_edge_filtered, View p, PreparedRegion r, unsigned char *dst, u64 stride);
KERNEL(mask_raster_tiled_edge_filtered, View p, PreparedRegion r, unsigned char *dst, u64 stride);
