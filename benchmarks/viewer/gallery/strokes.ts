/** A drawing as plain geometry: boxes and poly-lines, whoever made it, and how good it is. */

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** One stroke; strokes of one net carry the same tensor, and may run on top of each other. */
export interface Line {
  readonly net: string;
  /** x, y pairs; a stroke in several pieces (a wrapped edge) has several of these. */
  readonly points: readonly number[];
}

export interface Drawing {
  readonly width: number;
  readonly height: number;
  /** Leaves: they must not overlap. */
  readonly boxes: readonly Box[];
  readonly lines: readonly Line[];
}

export interface Quality {
  readonly crossings: number;
  readonly length: number;
  readonly overlaps: number;
  readonly through: number;
  readonly width: number;
  readonly height: number;
}

const CELL = 64;

/** Calls `visit` for each pair of rectangles that share a cell of a grid, once. */
function pairs(n: number, bounds: (i: number) => readonly [number, number, number, number], visit: (a: number, b: number) => void): void {
  const cells = new Map<number, number[]>();
  const seen = new Set<number>();
  for (let i = 0; i < n; i++) {
    const [x0, y0, x1, y1] = bounds(i);
    for (let cx = Math.floor(x0 / CELL); cx <= Math.floor(x1 / CELL); cx++) {
      for (let cy = Math.floor(y0 / CELL); cy <= Math.floor(y1 / CELL); cy++) {
        const key = (cx + 50000) * 4194304 + cy + 50000;
        const list = cells.get(key);
        if (!list) cells.set(key, [i]);
        else {
          for (const j of list) {
            const k = j * n + i;
            if (seen.has(k)) continue;
            seen.add(k);
            visit(j, i);
          }
          list.push(i);
        }
      }
    }
  }
}

/** Whether two segments cross at a point inside both; touching ends and overlaps do not count. */
function cross(a: readonly number[], b: readonly number[]): boolean {
  const side = (px: number, py: number, qx: number, qy: number, x: number, y: number): number => (qx - px) * (y - py) - (qy - py) * (x - px);
  const e = 1e-3;
  const s1 = side(a[0], a[1], a[2], a[3], b[0], b[1]);
  const s2 = side(a[0], a[1], a[2], a[3], b[2], b[3]);
  const s3 = side(b[0], b[1], b[2], b[3], a[0], a[1]);
  const s4 = side(b[0], b[1], b[2], b[3], a[2], a[3]);
  return ((s1 > e && s2 < -e) || (s1 < -e && s2 > e)) && ((s3 > e && s4 < -e) || (s3 < -e && s4 > e));
}

/** Strokes of one tensor lie on each other where they leave: how much of their length is drawn more than once. */
function doubled(d: Drawing, segments: readonly number[][], owner: readonly number[]): number {
  const lines = new Map<string, [number, number][]>();
  const slanted = new Set<string>();
  let out = 0;
  segments.forEach((s, i) => {
    const net = d.lines[owner[i]].net;
    const upright = Math.abs(s[0] - s[2]) < 0.05;
    if (!upright && Math.abs(s[1] - s[3]) >= 0.05) {
      const key = `${net} ${s.map((v) => v.toFixed(1)).join()}`;
      if (slanted.has(key)) out += Math.hypot(s[2] - s[0], s[3] - s[1]);
      slanted.add(key);
      return;
    }
    const key = `${net} ${upright ? "x" : "y"}${(upright ? s[0] : s[1]).toFixed(1)}`;
    const ends: [number, number] = upright ? [Math.min(s[1], s[3]), Math.max(s[1], s[3])] : [Math.min(s[0], s[2]), Math.max(s[0], s[2])];
    const known = lines.get(key);
    if (known) known.push(ends);
    else lines.set(key, [ends]);
  });
  for (const list of lines.values()) {
    list.sort((a, b) => a[0] - b[0]);
    let reach = -Infinity;
    for (const [a, b] of list) {
      out += Math.max(0, Math.min(reach, b) - a);
      reach = Math.max(reach, b);
    }
  }
  return out;
}

export function qualityOf(d: Drawing): Quality {
  let length = 0;
  const segments: number[][] = [];
  const owner: number[] = [];
  d.lines.forEach((l, i) => {
    for (let k = 0; k + 3 < l.points.length; k += 2) {
      const s = l.points.slice(k, k + 4);
      const long = Math.hypot(s[2] - s[0], s[3] - s[1]);
      if (long < 1e-6) continue;
      length += long;
      segments.push(s);
      owner.push(i);
    }
  });
  length -= doubled(d, segments, owner);
  let crossings = 0;
  const box = (i: number): readonly [number, number, number, number] => {
    const [x0, y0, x1, y1] = segments[i];
    return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
  };
  pairs(segments.length, box, (a, b) => {
    if (d.lines[owner[a]].net !== d.lines[owner[b]].net && cross(segments[a], segments[b])) crossings++;
  });
  let overlaps = 0;
  const slack = 0.5;
  pairs(d.boxes.length, (i) => [d.boxes[i].x, d.boxes[i].y, d.boxes[i].x + d.boxes[i].w, d.boxes[i].y + d.boxes[i].h], (i, j) => {
    const [p, q] = [d.boxes[i], d.boxes[j]];
    if (p.x + p.w > q.x + slack && q.x + q.w > p.x + slack && p.y + p.h > q.y + slack && q.y + q.h > p.y + slack) overlaps++;
  });
  // Strokes that run through a box that is none of their ends (an end lies on the border).
  let through = 0;
  const inside = (s: readonly number[], b: Box): boolean => {
    const [x0, y0, x1, y1] = [b.x + 2, b.y + 2, b.x + b.w - 2, b.y + b.h - 2];
    if (Math.max(s[0], s[2]) <= x0 || Math.min(s[0], s[2]) >= x1 || Math.max(s[1], s[3]) <= y0 || Math.min(s[1], s[3]) >= y1) return false;
    for (let k = 0; k <= 8; k++) {
      const x = s[0] + ((s[2] - s[0]) * k) / 8;
      const y = s[1] + ((s[3] - s[1]) * k) / 8;
      if (x > x0 && x < x1 && y > y0 && y < y1) return true;
    }
    return false;
  };
  const hit = new Set<string>();
  pairs(
    segments.length + d.boxes.length,
    (i) => (i < segments.length ? box(i) : [d.boxes[i - segments.length].x, d.boxes[i - segments.length].y, d.boxes[i - segments.length].x + d.boxes[i - segments.length].w, d.boxes[i - segments.length].y + d.boxes[i - segments.length].h]),
    (i, j) => {
      if (i >= segments.length || j < segments.length) return;
      if (inside(segments[i], d.boxes[j - segments.length])) hit.add(`${owner[i]},${j}`);
    },
  );
  through = hit.size;
  return { crossings, length, overlaps, through, width: d.width, height: d.height };
}
