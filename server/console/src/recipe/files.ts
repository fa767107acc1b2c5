// Regions files that the page reads and writes: those of clients/regionfile.

import { boundsOf } from "../limits";
import { text } from "../text";
import { blobsText, readBlobs, type Blobs } from "./blobs";
import { cocoRuns, labelImage, labelMePng, labelPng, outline, outside, pngMask, runLengths, union as unionOf } from "./mask";
import { rectangle, twiceArea, type ScaleLike, type Shape } from "./model";
import { simple } from "./outline";
import { nearest } from "./spelling";
import { squares } from "./stage";
import { readSvg, round } from "./svg";

/** Size is that of a frame, in pixels. */
export interface Size {
  width: number;
  height: number;
}

/** Drawn is the frame that regions were drawn on, where there is one. */
export interface Drawn extends Size {
  name: string;
}

interface OwnScale {
  mm_per_pixel: number | [number, number];
  origin?: [number, number];
}

interface Own {
  name?: string;
  rings?: [number, number][][];
  mask?: [number, number, number][];
  shape?: string;
  fill?: string;
  limits?: string[];
  reference?: Shape["reference"];
}

interface LabelMe {
  label?: string;
  points: [number, number][];
  shape_type?: string | null;
  flags?: Record<string, boolean> | null;
  group_id?: number | null;
  mask?: string | null;
  attributes?: object | null;
}

interface Attributes {
  limits?: string | string[];
}

interface Coco {
  images?: { id: number | string; file_name?: string; width?: number; height?: number }[];
  categories?: { id: number | string; name?: string }[];
  annotations: {
    id?: number | string;
    image_id?: number | string;
    category_id?: number | string;
    segmentation?: number[][] | { size?: unknown; counts?: unknown } | null;
    bbox?: [number, number, number, number];
    attributes?: Attributes | null;
  }[];
}

interface Geo {
  type: string;
  name?: string;
  id?: number | string;
  features?: Geo[];
  geometry?: Geo | null;
  geometries?: Geo[];
  properties?: (Attributes & { name?: string; label?: string; id?: number | string }) | null;
  coordinates?: unknown;
  crs?: unknown;
}

function unique(shapes: Shape[]): Shape[] {
  const seen = new Map<string, number>();
  shapes.forEach((s, i) => {
    s.name ||= `region-${i}`;
    const n = (seen.get(s.name) ?? 0) + 1;
    seen.set(s.name, n);
    if (n > 1) s.name = `${s.name}#${n}`;
  });
  return shapes;
}

/** Keys are those of an object that are read, and others that its format has. */
interface Keys {
  read: string[];
  known?: string[];
}

// The objects of the formats, as clients/regionfile has them.
const regionKeys: Keys = { read: ["name", "rings", "mask", "shape", "fill", "limits", "reference"] };
const recipeKeys: Keys = { read: ["name", "description", "fill", "scale", "regions", "reductions", "frames", "flat_field", "drawn_on"] };
const scaleKeys: Keys = { read: ["mm_per_pixel", "origin"] };
const drawnOnKeys: Keys = { read: ["name", "width", "height"] };
// What people name themselves. Other programs have a fill there, a shape and a mask; distances miss their reference anyway.
const attributeKeys: Keys = { read: ["limits"], known: ["fill", "shape", "mask", "rings", "regions", "reference"] };
const noteKeys: Keys = { ...attributeKeys, read: [] };
const labelMeKeys: Keys = { read: ["shapes", "imagePath", "imageWidth", "imageHeight", "flags"], known: ["version", "imageData", "description", "lineColor", "fillColor"] };
const labelMeShapeKeys: Keys = {
  read: ["label", "points", "shape_type", "group_id", "mask", "flags", "attributes"],
  known: ["description", "score", "difficult", "direction", "line_color", "fill_color"],
};
const cocoKeys: Keys = { read: ["images", "annotations", "categories"], known: ["info", "licenses", "type"] };
const cocoImageKeys: Keys = { read: ["id", "file_name", "width", "height"], known: ["license", "flickr_url", "coco_url", "date_captured"] };
const cocoCategoryKeys: Keys = { read: ["id", "name"], known: ["supercategory", "keypoints", "skeleton"] };
const cocoAnnotationKeys: Keys = {
  read: ["id", "image_id", "category_id", "segmentation", "bbox", "attributes"],
  known: ["area", "iscrowd", "keypoints", "num_keypoints", "score", "caption"],
};
const geoCollectionKeys: Keys = { read: ["type", "features", "name", "description", "crs"], known: ["bbox", "id", "properties"] };
const geoFeatureKeys: Keys = { read: ["type", "geometry", "properties", "id", "crs"], known: ["bbox"] };
const geoGeometryKeys: Keys = { read: ["type", "coordinates", "geometries", "crs"], known: ["bbox"] };

// What says the same elsewhere.
const otherNames: Record<string, string> = {
  fill_rule: "fill", fillrule: "fill", "fill-rule": "fill", holes: "rings", statistics: "reductions", stats: "reductions", blobs: "reductions",
  texture: "reductions", textures: "reductions", percentiles: "reductions", histogram: "reductions", color: "reductions", colors: "reductions",
  correlations: "reductions", units: "scale", unit: "scale", mm_per_pixel: "scale", origin: "scale", flat: "flat_field", size: "drawn_on",
  image: "drawn_on", image_size: "drawn_on", imagesize: "drawn_on", frame_size: "drawn_on", framesize: "drawn_on", width: "drawn_on",
  height: "drawn_on", imagewidth: "drawn_on", imageheight: "drawn_on", image_width: "drawn_on", image_height: "drawn_on",
  polygon: "segmentation", polygons: "segmentation", rle: "segmentation", requirement: "limits", requirements: "limits", criterion: "limits",
  criteria: "limits", spec: "limits", specs: "limits", specification: "limits", specifications: "limits", tolerance: "limits", tolerances: "limits",
  rule: "limits", rules: "limits", condition: "limits", conditions: "limits", constraint: "limits", constraints: "limits", threshold: "limits",
  thresholds: "limits",
};
// No verdict hangs on these.
const harmless = ["name", "description", "label", "id", "category_id", "imagePath", "file_name", "crs"];

const quantity = "(?:count|area|coverage|sum|mean|variance|stddev|min|max|median|mode|distinct|p\\d+|skewness|kurtosis|entropy|mad|iqr|width|height)\\b";
const firstQuantity = new RegExp(`^(?:(?:r|g|b|red|green|blue|gray|grey)[. ])?${quantity}`, "i");
const ofQuantity = new RegExp(`^(?:all|largest|smallest|blobs|covered|(?:"[^"]*"\\.)?(?:[a-z0-9.]+\\.)?${quantity})`, "i");

/** isLimit asks whether a text is a limit, or several with semicolons between. */
const isLimit = (s: string): boolean =>
  s.length < 4096 && /[<>=[(]/.test(s) && s.split(";").some((part) => {
    const b = boundsOf(part.trim());
    return (b.low !== undefined || b.high !== undefined) && ofQuantity.test(b.quantity.trim());
  });

/** Notes are what a reader finds beside regions. */
class Notes {
  readonly warnings: string[] = [];
  private readonly own = new Set<unknown>();

  /** leave warns of something that gives no region. With limits that is an error: nobody would hold parts to them. */
  leave(why: string, limits: string[]): void {
    if (limits.length) throw new Error(text.recipe.lostLimits(why));
    this.warnings.push(why);
  }

  /** keys are those of an object. One that looks like a misspelt one of those that are read, or belongs to another object,
   * is an error, but for names, on which no verdict hangs. */
  keys(o: object | null | undefined, of: Keys): void {
    if (!o || typeof o !== "object" || Array.isArray(o)) return;
    if (of.read.includes("limits")) this.own.add(o);
    const names = [...of.read, ...(of.known ?? [])];
    const free = of === attributeKeys || of === noteKeys;
    const ownFormat = [regionKeys, recipeKeys, scaleKeys, drawnOnKeys].includes(of);
    const files = [recipeKeys, labelMeKeys, cocoKeys, geoCollectionKeys];
    const plain = (key: string): string => key.toLowerCase().replace(/[-_]/g, "");
    for (const key of Object.keys(o)) {
      if (names.includes(key) || key === "limits") continue; // check tells of limits
      const has = (there: Keys): boolean => there.read.some((k) => plain(k) === plain(key) && !names.includes(k) && !harmless.includes(k));
      if (of === regionKeys && has(recipeKeys)) throw new Error(text.recipe.misplaced(key, true));
      if (files.includes(of) && ["regions", "shapes", "annotations", "features"].includes(key)) throw new Error(text.recipe.twoFormats(key));
      if (of === recipeKeys && has(regionKeys)) throw new Error(text.recipe.misplaced(key, false));
      if (!ownFormat && (has(recipeKeys) || has(regionKeys))) throw new Error(text.recipe.ownKey(key));
      if (of === scaleKeys && /^unit/i.test(key)) throw new Error(text.recipe.misspelt(key, "mm_per_pixel"));
      const other = free ? "" : (otherNames[key.toLowerCase()] ?? "");
      const near = of.read.includes(other) ? other : nearest(key, free ? of.read : names);
      if (of.read.includes(near) && !harmless.includes(near)) throw new Error(text.recipe.misspelt(key, near));
    }
  }

  /** flags are those of a LabelMe shape: what is set and holds a comparison is a limit. */
  flags(f: Record<string, unknown> | null | undefined): string[] {
    if (!f || typeof f !== "object" || Array.isArray(f)) return [];
    this.own.add(f);
    this.keys(Object.fromEntries(Object.entries(f).filter(([, on]) => on !== null && typeof on !== "boolean")), noteKeys);
    if (Object.keys(f).some((k) => k.toLowerCase() === "limits")) throw new Error(text.recipe.misplacedLimits);
    const set = Object.entries(f).flatMap(([k, on]) => (on ? [k] : []));
    const limits = set.filter((k) => /[<>=[(≤≥]/.test(k));
    const wrong = set.find((k) => !limits.includes(k) && firstQuantity.test(k));
    if (wrong) throw new Error(text.recipe.notLimit(wrong));
    return limits;
  }

  /** check refuses limits where nobody reads them. */
  check(o: unknown, key = ""): void {
    if (typeof o === "string" && !["name", "label", "file_name", "imagePath"].includes(key) && (isLimit(o) || isLimit(`${key} ${o}`)))
      throw new Error(text.recipe.misplacedLimits);
    if (typeof o !== "object" || o === null) return;
    if (Array.isArray(o)) {
      for (const v of o) if (typeof v !== "number") this.check(v, key);
      return;
    }
    const own = this.own.has(o);
    for (const [k, v] of Object.entries(o)) {
      if (own && (k === "limits" || typeof v === "boolean")) continue;
      if (k === "limits" || (v !== false && isLimit(k))) throw new Error(text.recipe.misplacedLimits);
      this.check(v, k);
    }
  }
}

const unreadable = (): Error => new Error(text.recipe.unreadable);

function limitsOf(a: Attributes | null | undefined): string[] {
  const l = a?.limits ?? [];
  if (typeof l !== "string") return l;
  const limits = l.split(";").map((s) => s.trim()).filter(Boolean);
  if (!limits.length) throw new Error(text.recipe.notLimit(l));
  return limits;
}

/** evenOdd reads the name of a fill rule. */
function evenOdd(fill: string | undefined): boolean {
  const name = (fill ?? "").toLowerCase().replace(/[-_]/g, "");
  if (!["", "nonzero", "evenodd"].includes(name)) throw unreadable();
  return name === "evenodd";
}

// The direction of a ring, clockwise on the screen or not.
const turned = (xy: number[], clockwise: boolean): number[] => (twiceArea(xy) > 0 === clockwise ? xy : pairsOf(xy).reverse().flat());

/** Regions are those of a file; warnings say what of it gives none. */
export interface Regions {
  name: string;
  shapes: Shape[];
  scale?: ScaleLike;
  blobs?: Blobs;
  drawnOn?: Size;
  warnings?: string[];
}

/** readFile is read for a file, which may be a PNG. */
export async function readFile(file: File, frame = ""): Promise<Regions> {
  const data = new Uint8Array(await file.arrayBuffer());
  if (String.fromCharCode(...data.subarray(0, 4)) !== "\x89PNG") return read(new TextDecoder().decode(data), frame);
  const shapes = (await labelImage(data)).map((l): Shape => ({ ...l, rings: [], evenOdd: false, limits: [] }));
  if (!shapes.length) throw new Error(text.recipe.emptyMask);
  return { name: "", shapes };
}

/** read makes regions of a file, at least one. frame is the name of the one at hand, for files that describe several. */
export async function read(content: string, frame = ""): Promise<Regions> {
  content = content.trimStart(); // and a byte order mark is white space
  if (content.startsWith("<")) {
    const svg = readSvg(content);
    if (!svg.shapes.length) throw new Error(text.recipe.noShapes);
    checkUnit(svg.shapes);
    return { ...svg, shapes: unique(svg.shapes) };
  }
  let top: unknown;
  try {
    top = JSON.parse(content);
  } catch {
    throw unreadable();
  }
  const notes = new Notes();
  const found = await regionsOf(top, frame, notes);
  notes.check(top);
  if (!found.shapes.length) throw new Error([text.recipe.emptyFile, ...notes.warnings.slice(0, 1)].join(" "));
  checkUnit(found.shapes);
  return { ...found, shapes: unique(found.shapes), warnings: notes.warnings };
}

/** checkUnit refuses coordinates that can't be pixels: those from 0 to 1, and those of regions that cover less than a pixel
 * together, by the squares around them. Masks and shapes have pixels. */
function checkUnit(shapes: Shape[]): void {
  if (shapes.some((s) => s.mask || s.made)) return;
  const least = (xy: number[]): number => xy.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (xy: number[]): number => xy.reduce((a, b) => Math.max(a, b), -Infinity);
  let covered = 0;
  for (const s of shapes) {
    const sides = [0, 1].map((axis) => s.rings.flatMap((xy) => xy.filter((_, i) => i % 2 === axis))).map((v) => most(v) - least(v));
    covered += Math.max(...sides) ** 2;
  }
  const all = shapes.flatMap((s) => s.rings).flat();
  if (least(all) >= 0 && most(all) <= 1) throw new Error(text.recipe.shares);
  if (covered < 1) throw new Error(text.recipe.lessThanPixel);
}

/** checkCrs refuses a reference system of GeoJSON whose coordinates are not pixels. */
function checkCrs(crs: unknown): void {
  if (crs === undefined || crs === null) return;
  const said = JSON.stringify(crs);
  if (!/\b(image(crs)?|pixels?|local(_cs)?|engineering(crs)?)\b/i.test(said)) throw new Error(text.recipe.crs(said));
}

const sizeOf = (width?: number | null, height?: number | null): Size | undefined => {
  if (!width !== !height) throw new Error(text.recipe.oneSide(width ?? 0, height ?? 0));
  return width && height ? { width, height } : undefined;
};

async function regionsOf(top: unknown, frame: string, notes: Notes): Promise<Regions> {
  const whole = (Array.isArray(top) ? { regions: top } : top) as { name?: string; fill?: string; scale?: OwnScale | null; reductions?: string[] | null; frames?: object | null; flat_field?: string | null; drawn_on?: Partial<Size> | null; imageWidth?: number | null; imageHeight?: number | null; regions?: Own[]; shapes?: LabelMe[]; annotations?: unknown; type?: string };
  if (Array.isArray(whole.regions)) {
    notes.keys(whole, recipeKeys);
    notes.keys(whole.scale, scaleKeys);
    notes.keys(whole.drawn_on, drawnOnKeys);
    for (const r of whole.regions) notes.keys(r, regionKeys);
    const asked = (whole.reductions ?? []).map((r) => [r, /^\s*blobs\s*\((.*)\)\s*$/i.exec(r)?.[1]] as const);
    const blobs = asked.flatMap(([, b]) => b ?? []);
    if (blobs.length > 1) throw new Error(text.recipe.blobs.unread(blobs[1]!));
    if (asked.length > blobs.length) notes.warnings.push(text.recipe.notRead("reductions"));
    if (Object.keys(whole.frames ?? {}).length) notes.warnings.push(text.recipe.notRead("frames"));
    if (whole.flat_field) notes.warnings.push(text.recipe.notRead("flat_field"));
    const s = whole.scale;
    const [x, y] = [s?.mm_per_pixel ?? 0].flat();
    return {
      name: whole.name ?? "",
      blobs: blobs[0] === undefined ? undefined : readBlobs(blobs[0]),
      drawnOn: sizeOf(whole.drawn_on?.width, whole.drawn_on?.height),
      scale: s ? { x: x!, y: y ?? x!, origin: s.origin && { x: s.origin[0], y: s.origin[1] } } : undefined,
      shapes: whole.regions.map((r) => ({
        name: r.name ?? "",
        rings: (r.rings ?? []).map((g) => g.flat()),
        mask: r.mask?.flat(),
        made: r.shape,
        evenOdd: evenOdd(r.fill || whole.fill),
        limits: r.limits ?? [],
        reference: r.reference,
      })),
    };
  }
  if (Array.isArray(whole.shapes)) notes.keys(whole, labelMeKeys);
  if (Array.isArray(whole.shapes)) return { name: "", shapes: await labelMe(whole.shapes, notes), drawnOn: sizeOf(whole.imageWidth, whole.imageHeight) };
  if (Array.isArray(whole.annotations)) return { name: "", shapes: coco(whole as unknown as Coco, frame, notes) };
  if (typeof whole.type === "string") return { name: whole.name ?? "", shapes: geoJson(whole as Geo, notes) };
  throw unreadable();
}

async function labelMe(all: LabelMe[], notes: Notes): Promise<Shape[]> {
  const shapes: Shape[] = [];
  const groups = new Map<string, Shape>();
  for (const s of all) {
    notes.keys(s, labelMeShapeKeys);
    notes.keys(s.attributes, noteKeys);
    const [a, b] = s.points;
    const kind = s.shape_type || "polygon";
    let rings: number[][] = [];
    let mask: number[] | undefined;
    if (kind === "polygon" || kind === "oriented_rectangle") rings = [s.points.flat()];
    else if (kind === "rectangle" && a && b) rings = [rectangle(a[0], a[1], b[0], b[1])];
    else if (kind === "circle" && a && b) rings = [round(a[0], a[1], Math.hypot(b[0] - a[0], b[1] - a[1]))];
    else if (kind === "mask" && a && s.mask) mask = await pngMask(s.mask, a);
    else if (["rectangle", "circle", "mask"].includes(kind)) throw unreadable();
    const limits = notes.flags(s.flags);
    if (!rings.length && !mask?.length) {
      // a line, a point, or a mask without pixels
      notes.leave(text.recipe.noArea(s.label ?? "", kind), limits);
      continue;
    }
    const key = JSON.stringify([s.label, s.group_id]);
    const one = typeof s.group_id === "number" ? groups.get(key) : undefined;
    if (one) {
      // Shapes of a group are one region, which covers what any of them does: masks a mask, and with others rings.
      if (one.mask && mask) one.mask = unionOf([...one.mask, ...mask]);
      else {
        const same = (r: number[][], m?: number[]): number[][] => (m ? outline(m) : r.length === 1 ? r.map((xy) => turned(xy, true)) : r);
        one.rings = [...same(one.rings, one.mask), ...same(rings, mask)];
        delete one.mask;
      }
      one.limits.push(...limits);
      continue;
    }
    const shape = { name: s.label ?? "", rings, ...(mask && { mask }), evenOdd: false, limits };
    groups.set(key, shape);
    shapes.push(shape);
  }
  return shapes;
}

function coco(c: Coco, frame: string, notes: Notes): Shape[] {
  notes.keys(c, cocoKeys);
  for (const m of c.images ?? []) {
    notes.keys(m, cocoImageKeys);
    sizeOf(m.width, m.height);
  }
  for (const k of c.categories ?? []) notes.keys(k, cocoCategoryKeys);
  const base = (s: string): string => s.replace(/^.*[\\/]/, "");
  const used = new Set(c.annotations.map((a) => String(a.image_id)));
  let images = [...used];
  if (used.size > 1) images = (c.images ?? []).filter((m) => used.has(String(m.id)) && base(m.file_name ?? "") === base(frame)).map((m) => String(m.id));
  if (!used.size) return [];
  if (images.length !== 1) throw new Error(text.recipe.manyImages);
  const known = new Set(c.images?.map((m) => String(m.id)));
  const image = c.images?.find((m) => String(m.id) === images[0]);
  const names = new Map(c.categories?.map((k) => [String(k.id), k.name]));
  return c.annotations.flatMap((a, i): Shape[] => {
    notes.keys(a, cocoAnnotationKeys);
    notes.keys(a.attributes, attributeKeys);
    const id = String(a.image_id);
    const dangling = id !== images[0] && known.size > 0 && !known.has(id);
    if (id !== images[0] && !dangling) return [];
    const category = names.get(String(a.category_id)) || String(a.category_id ?? "region");
    const name = `${category}#${a.id ?? i}`;
    const limits = limitsOf(a.attributes);
    if (dangling) {
      notes.leave(text.recipe.unknownImage(name, id), limits);
      return [];
    }
    const shape = (rings: number[][]): Shape => ({ name, rings, evenOdd: false, limits });
    let rings: number[][] = [];
    if (Array.isArray(a.segmentation)) rings = a.segmentation;
    else if (a.segmentation) {
      const mask = runLengths(a.segmentation.size, a.segmentation.counts);
      // One that is larger holds a region that reaches beyond its image.
      const [h, w] = a.segmentation.size as [number, number];
      if (image?.width && image.height && (w < image.width || h < image.height)) throw new Error(text.recipe.maskSize(name, w, h, image.width, image.height));
      if (mask.length) return [{ ...shape([]), mask }];
      notes.leave(text.recipe.noArea(category, "mask"), limits);
      return [];
    }
    if (!rings.length && a.bbox) rings = [rectangle(a.bbox[0], a.bbox[1], a.bbox[0] + a.bbox[2], a.bbox[1] + a.bbox[3])];
    if (!rings.length) throw unreadable();
    if (rings.length > 1) rings = rings.map((xy) => turned(xy, true));
    return [shape(rings)];
  });
}

function geoJson(g: Geo, notes: Notes): Shape[] {
  checkCrs(g.crs);
  notes.keys(g, g.type === "FeatureCollection" ? geoCollectionKeys : g.type === "Feature" ? geoFeatureKeys : geoGeometryKeys);
  if (g.type === "FeatureCollection") notes.keys(g.properties, noteKeys);
  if (g.type === "FeatureCollection") return (g.features ?? []).flatMap((f) => geoJson(f, notes));
  if (g.type !== "Feature") return geometryShapes(g, notes);
  notes.keys(g.properties, attributeKeys);
  notes.keys(g.geometry, geoGeometryKeys);
  const shapes = g.geometry ? geometryShapes(g.geometry, notes, g) : [];
  if (!g.geometry) notes.warnings.push(text.recipe.noArea(featureName(g), g.type));
  // Of a collection some members may have no area.
  if (!shapes.length) notes.leave(notes.warnings.pop()!, limitsOf(g.properties));
  return shapes;
}

const featureName = (of?: Geo): string => {
  const p = of?.properties;
  return String([p?.name, p?.label, p?.id, of?.id].find((v) => v !== undefined && v !== null && v !== "") ?? "");
};

/** geometryShapes are the regions of a geometry; there is a warning where it gives none. */
function geometryShapes(g: Geo, notes: Notes, of?: Geo): Shape[] {
  checkCrs(g.crs);
  const name = featureName(of);
  if (g.type === "GeometryCollection") {
    if (!g.geometries?.length) notes.warnings.push(text.recipe.noMembers(name, g.type));
    return (g.geometries ?? []).flatMap((x) => geometryShapes(x, notes, of));
  }
  // The last position of a ring is the first again.
  const ring = (at: [number, number][]): number[] => {
    const xy = at.flatMap(([x, y]) => [x, y]);
    return xy.length > 2 && xy[0] === xy.at(-2) && xy[1] === xy.at(-1) ? xy.slice(0, -2) : xy;
  };
  const shape = (rings: number[][], evenOdd: boolean): Shape[] => {
    if (rings.length) return [{ name, rings, evenOdd, limits: limitsOf(of?.properties) }];
    notes.warnings.push(text.recipe.noMembers(name, g.type));
    return [];
  };
  const polygon = (all: [number, number][][]): Shape[] => shape(all.map(ring), true);
  if (g.type === "Polygon") return polygon(g.coordinates as [number, number][][]);
  if (g.type !== "MultiPolygon") {
    if (!["Point", "MultiPoint", "LineString", "MultiLineString"].includes(g.type)) throw unreadable();
    notes.warnings.push(text.recipe.noArea(name, g.type));
    return [];
  }
  const members = (g.coordinates as [number, number][][][]).filter((m) => m.length);
  if (members.length === 1) return polygon(members[0]!);
  return shape(members.flatMap((m) => m.map((at, i) => turned(ring(at), i === 0))), false);
}

const pairsOf = (xy: number[]): number[][] => Array.from({ length: xy.length / 2 }, (_, i) => [xy[2 * i]!, xy[2 * i + 1]!]);

/** Format is one that regions are saved in. */
export type Format = "polyscan" | "labelme" | "coco" | "geojson" | "svg" | "png";

/** ends are those of names of files. */
export const ends: Record<Format, string> = { polyscan: ".json", labelme: ".labelme.json", coco: ".coco.json", geojson: ".geojson", svg: ".svg", png: ".png" };

/** write makes a file that polyscan reads the same regions from. It is an error where the format can't say what a region
 * covers. */
export async function write(format: Format, name: string, shapes: Shape[], frame: Drawn, scale?: ScaleLike, drawnOn?: Size, blobs?: Blobs): Promise<string | Uint8Array<ArrayBuffer>> {
  const made = shapes.find((s) => s.made);
  if (made && format !== "polyscan") throw new Error(text.recipe.noShape(made.name));
  switch (format) {
    case "polyscan": {
      const lines = shapes.map((s) =>
        JSON.stringify({ name: s.name, ...(s.made ? { shape: s.made } : s.mask ? { mask: runsOf(s.mask) } : { rings: s.rings.map(pairsOf) }), fill: s.evenOdd ? "evenodd" : "nonzero", ...(s.limits.length ? { limits: s.limits } : {}), reference: s.reference }));
      const mm = scale ? `"scale": ${JSON.stringify({ mm_per_pixel: [scale.x, scale.y || scale.x], origin: [scale.origin?.x ?? 0, scale.origin?.y ?? 0] })},\n` : "";
      const on = drawnOn ? `"drawn_on": ${JSON.stringify({ name: frame.name, width: drawnOn.width, height: drawnOn.height })},\n` : "";
      const asked = blobs ? `"reductions": ${JSON.stringify([`blobs(${blobsText(blobs)})`])},\n` : "";
      return `{\n"name": ${JSON.stringify(name)},\n${asked}${mm}${on}"regions": [\n${lines.join(",\n")}\n]\n}\n`;
    }
    case "labelme":
      return json({
        version: "5.5.0",
        flags: {},
        shapes: (await Promise.all(shapes.map((s, i) => labelMeShapes(s, i)))).flat(),
        imagePath: frame.name,
        imageData: null,
        imageHeight: frame.height,
        imageWidth: frame.width,
      });
    case "coco":
      return json({
        images: [{ id: 1, file_name: frame.name, width: frame.width, height: frame.height }],
        categories: shapes.map((s, i) => ({ id: i + 1, name: s.name })),
        annotations: shapes.map((s, i) => ({ id: i + 1, image_id: 1, category_id: i + 1, iscrowd: s.mask ? 1 : 0, segmentation: s.mask ? cocoRuns(inside(s), frame.width, frame.height) : union(s), attributes: { limits: s.limits } })),
      });
    case "png":
      return labelPng(shapes.map((s) => {
        if (!s.mask) throw new Error(text.recipe.onlyMasks(s.name));
        return { name: s.name, mask: inside(s) };
      }), frame.width, frame.height);
    case "geojson":
      return json({
        type: "FeatureCollection",
        name,
        features: shapes.map((s) => ({ type: "Feature", properties: { name: s.name, limits: s.limits }, geometry: geometry(s) })),
      });
    case "svg": {
      const escaped = (v: string): string => v.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
      const size = frame.width ? ` width="${frame.width}" height="${frame.height}" viewBox="0 0 ${frame.width} ${frame.height}"` : "";
      const paths = shapes.map((s) =>
        `<path fill-rule="${s.evenOdd ? "evenodd" : "nonzero"}" d="${s.mask ? squares(s.mask) : s.rings.map((xy) => `M${xy.join(" ")}Z`).join("")}"><title>${escaped(s.name)}</title></path>`);
      return `<svg xmlns="http://www.w3.org/2000/svg"${size} fill="#e69f0055" stroke="#d55e00">\n${paths.join("\n")}\n</svg>\n`;
    }
  }
}

/** runsOf are y, x0, x1 of each run. */
const runsOf = (mask: number[]): number[][] => Array.from({ length: mask.length / 3 }, (_, i) => mask.slice(3 * i, 3 * i + 3));

const json = (v: unknown): string => `${JSON.stringify(v, null, 1)}\n`;

/** inside is a mask for formats whose first pixel is the frame's. */
function inside(s: Shape): number[] {
  if (outside(s.mask!)) throw new Error(text.recipe.outside(s.name));
  return s.mask!;
}

/** labelMeShapes are those of a region: a mask, or a polygon for each ring. */
async function labelMeShapes(s: Shape, index: number): Promise<object[]> {
  const flags = Object.fromEntries(s.limits.map((l) => [l, true]));
  if (s.mask) return [{ label: s.name, group_id: null, shape_type: "mask", flags, ...(await labelMePng(s.mask)) }];
  return union(s).map((xy, k) => ({ label: s.name, points: pairsOf(xy), group_id: s.rings.length > 1 ? index : null, shape_type: "polygon", flags: k ? {} : flags }));
}

/** union is for formats whose regions are all that their polygons cover. */
function union(s: Shape): number[][] {
  const first = twiceArea(s.rings[0]!) > 0;
  const same = s.rings.every((xy) => twiceArea(xy) > 0 === first);
  if (!same || (s.evenOdd && (s.rings.length > 1 || !simple(s.rings)))) throw new Error(text.recipe.noHoles(s.name));
  return s.rings;
}

/** geometry is a Polygon, whose rings polyscan takes as even-odd, or a MultiPolygon, which is the union of its members. */
function geometry(s: Shape): unknown {
  const closed = (xy: number[]): number[][] => [...pairsOf(xy), [xy[0]!, xy[1]!]];
  if (s.mask) return { type: "MultiPolygon", coordinates: runsOf(s.mask).map(([y, x0, x1]) => [closed(rectangle(x0!, y!, x1!, y! + 1))]) };
  const first = twiceArea(s.rings[0]!) > 0;
  const out = s.rings.filter((xy) => twiceArea(xy) > 0 === first);
  if (s.evenOdd) return { type: "Polygon", coordinates: s.rings.map(closed) };
  const holes = s.rings.filter((xy) => !out.includes(xy));
  if (out.length > 1) return { type: "MultiPolygon", coordinates: out.map((xy, i) => [xy, ...(i ? [] : holes)].map(closed)) };
  if (!simple(s.rings)) throw new Error(text.recipe.overlaps(s.name));
  return { type: "Polygon", coordinates: [...out, ...holes].map(closed) };
}
