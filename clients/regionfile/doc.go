// Package regionfile reads regions from the files people already have.
//
// # Formats
//
// A file is recognised by its content, never by its extension:
//
//   - polyscan's own: a JSON array of {"name", "rings"} or {"name", "mask"}, optionally with "fill", "limits" and
//     "reference";
//   - a polyscan recipe: a JSON object with "regions" (the array above) and optionally "name", "description", "fill"
//     and "reductions";
//   - LabelMe: a JSON object with "shapes" (polygon, rectangle, oriented_rectangle, circle, mask);
//   - COCO instances: a JSON object with "annotations" (polygons, bounding boxes, run-length masks, plain or
//     compressed);
//   - GeoJSON: Feature, FeatureCollection, Polygon, MultiPolygon, GeometryCollection, with pixels for coordinates;
//   - SVG: path, polygon, polyline, rect, circle and ellipse, with transforms and viewBox;
//   - PNG masks and label images: each value other than 0 is a region.
//
// Text is UTF-8, with or without a byte order mark. Each format's file in this package says what is read, what is
// skipped with a warning and what is an error.
//
// # Coordinates
//
// All coordinates handed out are pixels: x grows right, y grows down, and pixel (i, j) covers [i, i+1) × [j, j+1). No
// format is shifted by half a pixel. Each coordinate is finite and its magnitude is below 2^22, the
// range in which the server can represent it. Rings are closed implicitly, from the last vertex to the first.
//
// # Limits
//
// A file is data from a stranger. Its size, the number of its regions and vertices, its nesting and the pixels of its
// masks are bounded by [Options] and by documented constants. Time and memory are linear in the size of the file and in
// the vertices that it describes, except that turning run lengths from columns to rows sorts them. Nothing panics,
// on any input.
//
// # Errors
//
// Errors are of type [*Error]: one line with the file, the element and the reason. [errors.Is] tells the kinds apart.
package regionfile
