// Delaunator's triangulation of the points of a file, pairs of int32. Prints the least CPU time in milliseconds.
import { readFileSync } from "node:fs";
import Delaunator from "delaunator";

const bytes = readFileSync(process.argv[2]);
const points = Float64Array.from(new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4));
let best = Infinity;
for (let i = 0; i < Number(process.argv[3]); i++) {
    const start = process.cpuUsage();
    const d = new Delaunator(points);
    const used = process.cpuUsage(start);
    if (d.triangles.length === 0) process.exit(1);
    best = Math.min(best, (used.user + used.system) / 1e3);
}
console.log("delaunator triangulation,1M_points", best.toFixed(3));
