// Regions files that the page reads and writes. The command line reads more: polyscan regions FILE converts the others.

import { text } from "../text";
import { circle, rectangle, type Shape } from "./model";

interface Own {
  name?: string;
  rings?: [number, number][][];
  fill?: string;
  limits?: string[];
  reference?: Shape["reference"];
}

interface LabelMe {
  label?: string;
  points: [number, number][];
  shape_type?: string | null;
  flags?: Record<string, boolean> | null;
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

/** read reads polyscan's own files, recipes and LabelMe's. */
export function read(content: string): { name: string; shapes: Shape[] } {
  let top: unknown;
  try {
    top = JSON.parse(content);
  } catch {
    throw new Error(text.recipe.unreadable);
  }
  const whole = (Array.isArray(top) ? { regions: top } : top) as { name?: string; fill?: string; regions?: Own[]; shapes?: LabelMe[] };
  if (Array.isArray(whole.regions)) {
    return {
      name: whole.name ?? "",
      shapes: unique(whole.regions.map((r) => ({
        name: r.name ?? "",
        rings: (r.rings ?? []).map((g) => g.flat()),
        evenOdd: (r.fill ?? whole.fill) === "evenodd",
        limits: r.limits ?? [],
        reference: r.reference,
      }))),
    };
  }
  if (Array.isArray(whole.shapes)) {
    const shapes = whole.shapes.map((s): Shape => {
      const [a, b] = s.points;
      const kind = s.shape_type || "polygon";
      let ring: number[];
      if (kind === "polygon" || kind === "oriented_rectangle") ring = s.points.flat();
      else if (kind === "rectangle" && a && b) ring = rectangle(a[0], a[1], b[0], b[1]);
      else if (kind === "circle" && a && b) ring = circle(a[0], a[1], Math.hypot(b[0] - a[0], b[1] - a[1]));
      else throw new Error(text.recipe.unreadable);
      const limits = Object.entries(s.flags ?? {}).filter(([k, on]) => on && /[<>=[(]/.test(k)).map(([k]) => k);
      return { name: s.label ?? "", rings: [ring], evenOdd: false, limits };
    });
    return { name: "", shapes: unique(shapes) };
  }
  throw new Error(text.recipe.unreadable);
}

/** write makes a file as polyscan regions does: one region a line. */
export function write(name: string, shapes: Shape[]): string {
  const lines = shapes.map((s) => {
    const rings = s.rings.map((xy) => Array.from({ length: xy.length / 2 }, (_, i) => [xy[2 * i], xy[2 * i + 1]]));
    return JSON.stringify({ name: s.name, rings, fill: s.evenOdd ? "evenodd" : "nonzero", ...(s.limits.length ? { limits: s.limits } : {}), reference: s.reference });
  });
  return `{\n"name": ${JSON.stringify(name)},\n"regions": [\n${lines.join(",\n")}\n]\n}\n`;
}
