// Package curvefile reads drawings of diffusion curves, and writes them.
//
// # Formats
//
// A file is recognised by its content. It is UTF-8, with or without a byte order mark.
//
// polyscan's own is a JSON object:
//
//	{
//	  "version": 1,
//	  "width": 640, "height": 480,
//	  "curves": [
//	    {
//	      "id": "rim",
//	      "points": [[10, 10], [40, 0], [80, 90], [120, 50.5]],
//	      "left": [[0, 255, 0, 0], [1, 255, 128, 0]],
//	      "right": [[0, 0, 0, 255]],
//	      "blur": [[0, 0], [1, 2.5]],
//	      "barrier": true
//	    }
//	  ],
//	  "pixels": [[7, 3, 255, 255, 255]]
//	}
//
// Points are the control points of n cubic Béziers in a row, 3n+1 of them, x and y in pixels. A stop is a place along
// the curve, from 0 at its first point to n at its last, and what holds there: red, green and blue from 0 to 255, or
// the blur's standard deviation in pixels, 0 to 100. Of a curve only points have to be there, and stops on one side or
// "barrier". Left is to the left of somebody who walks along the curve on a screen. Pixels, which may be left out, are
// given under the curves: column, row, red, green and blue. Keys that are none of these, or come twice, are errors. The
// file may be compressed by gzip.
//
// The XML format of Orzan and others (Diffusion curves, 2008) is a curve_set of curves, each with a control_points_set,
// left_colors_set, right_colors_set and blur_points_set. In it x and y are exchanged, and so are R and B: y is what
// grows to the right, and R is blue. A globalID counts tenths of a segment; where one is larger than ten times the
// segments it counts, with all of its curve, parts of global_len, or of the largest. A best_scale is a standard
// deviation, of which more than 100 counts as that. Where a count, such as nb_curves, is not that of the elements the
// file is an error, as it may be a part of one. Elements and attributes of other names are skipped.
//
// # Limits and errors
//
// The size of a file, and how many curves and points it has, are bounded by [Options]. Errors are of type [*Error]: one
// line with the file, the line and column, the element and the reason. [errors.Is] tells the kinds apart. Nothing
// panics, on any input.
package curvefile
