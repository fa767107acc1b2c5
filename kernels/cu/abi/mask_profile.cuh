// See ../mask_profile.cu.
#pragma once

#include "mask.cuh"

// See driver.ProfileSegment, driver.ProfilePlace and driver.ProfileBin.
struct ProfileSegment {
    int x, y, d_x, d_y;
    u32 bins, first;
    i64 low, high;
};
struct ProfilePlace {
    int origin;
    u32 bins;
    u64 first;
};
struct ProfileBin {
    u64 sum, count;
};

struct ProfileArgs {
    View p;
    const unsigned char *frame; // aligned words with a byte in between may be read
    const ProfilePlace *places;
    ProfileBin *bins;
    u64 all; // bins
    u64 stride;
    u32 first, count; // regions
    int row0, rows;   // of the frame
    int from_row, to_row;
    u32 pixel, at;         // bytes of a pixel, and that of the channel in it
    u32 channels, channel; // of the results
    u32 room;              // bins that a block has counters for
    int step, centre_x, centre_y;
    u32 segments, pad;
    ProfileSegment segment[MAX_PROFILE_SEGMENTS];
};

KERNEL(mask_profile_rows_gray8, ProfileArgs g);
KERNEL(mask_profile_rows_8, ProfileArgs g);
KERNEL(mask_profile_rows_16, ProfileArgs g);
KERNEL(mask_profile_columns_8, ProfileArgs g);
KERNEL(mask_profile_columns_16, ProfileArgs g);
KERNEL(mask_profile_radius_8, ProfileArgs g);
KERNEL(mask_profile_radius_16, ProfileArgs g);
KERNEL(mask_profile_line_8, ProfileArgs g);
KERNEL(mask_profile_line_16, ProfileArgs g);
