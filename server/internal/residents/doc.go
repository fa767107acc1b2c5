// Package residents keeps frames on the device from call to call, and answers the calls of FrameService.
//
// It owns the names, idle times, copies in host memory and uploads of frames, and nothing of what is computed on them.
package residents
