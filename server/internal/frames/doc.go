// Package frames reads the frames of requests: resident ones, raw pixels in messages or in shared memory, and image
// files, which are decoded within the host's budget once their headers have been checked. It writes image files as
// well.
//
// It is at the bottom: every room that takes a frame has a [Reader]. It knows where frames lie only through [Residents]
// and [Shared].
package frames
