/** Our drawing as plain geometry, and the same boxes and edges as a problem for ELK. */

import type { DrawList } from "../../../viewer/src/gl/draw_list";
import type { GroupView, Scene } from "../../../viewer/src/gl/scene";
import { Pen } from "../../../viewer/src/gl/stroke";
import { Measure } from "../../../viewer/src/layout/measure";
import { headerWidth, SUB_PX, TITLE_PX } from "../../../viewer/src/layout/style";
import type { Box, Drawing, Line } from "./strokes";

/** A box, or an open group with ports on its border. */
export interface Item {
  readonly id: string;
  readonly w: number;
  readonly h: number;
  readonly group: Nest | null;
  /** Room for a group's header. */
  readonly least: number;
}

export interface Nest {
  readonly items: Item[];
  readonly ins: number;
  readonly outs: number;
  /** Ends: an item, or a port as `port:in:3` of an item or (item "") of the group itself. */
  readonly edges: { readonly from: string; readonly to: string; readonly net: string; readonly label: number }[];
}

export interface Made {
  readonly drawing: Drawing;
  readonly wrapped: number;
  readonly cuts: number;
  readonly graph: { readonly root: Nest; readonly count: number; readonly edges: number };
}

/** Collects what a pen draws as one poly-line; curves in twelve steps. */
class Collector {
  points: number[] = [];

  line(x0: number, y0: number, x1: number, y1: number): void {
    if (this.points.length === 0) this.points.push(x0, y0);
    this.points.push(x1, y1);
  }

  curve(x0: number, y0: number, x1: number, y1: number, x2: number, y2: number, x3: number, y3: number): void {
    if (this.points.length === 0) this.points.push(x0, y0);
    for (let k = 1; k <= 12; k++) {
      const t = k / 12;
      const u = 1 - t;
      const at = (a: number, b: number, c: number, d: number): number => u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d;
      this.points.push(at(x0, x1, x2, x3), at(y0, y1, y2, y3));
    }
  }
}

const nearest = (places: Float32Array, at: number): number => {
  let best = 0;
  for (let k = 1; k < places.length; k++) if (Math.abs(places[k] - at) < Math.abs(places[best] - at)) best = k;
  return best;
};

export function drawingOf(scene: Scene): Made {
  const boxes: Box[] = [];
  const lines: Line[] = [];
  const measure = new Measure();
  const list = new Collector();
  const pen = new Pen(list as unknown as DrawList, 1e9, 1e9, scene.across);
  let wrapped = 0;
  let cuts = 0;
  let count = 0;
  let edges = 0;
  const walk = (view: GroupView, x: number, y: number, path: string): Nest => {
    const { shape } = view;
    const r = shape.rect;
    const items: Item[] = [];
    const opened: (GroupView | null)[] = [];
    for (let i = 0; i < view.count; i++) {
      const inner = scene.open(view, i);
      opened.push(inner);
      const [w, h] = [r[4 * i + 2], r[4 * i + 3]];
      if (w === 0) continue;
      count++;
      const id = `${path}/${i}`;
      if (inner) {
        items.push({ id, w, h, group: walk(inner, x + r[4 * i], y + r[4 * i + 1], id), least: headerWidth(measure, scene.title(view, i), scene.sub(view, i)) });
        continue;
      }
      items.push({ id, w, h, group: null, least: 0 });
      boxes.push({ x: x + r[4 * i], y: y + r[4 * i + 1], w, h });
      if (!shape.small[i] && measure.width(scene.title(view, i), TITLE_PX, "bold") > w - 14) cuts++;
    }
    const nest: Nest = { items, ins: shape.inAt.length, outs: shape.outAt.length, edges: [] };
    const tagOf = new Map<number, number>();
    for (let k = 0; k < shape.tagEdge.length; k++) {
      const [tx, ty, w, h] = shape.tagRect.subarray(4 * k, 4 * k + 4);
      boxes.push({ x: x + tx, y: y + ty, w, h });
      // The connectors of a wrapped edge are of our drawing alone: ELK draws that edge whole.
      if (shape.tagEdge[k] >= 0 && shape.edgeKind[shape.tagEdge[k]] === 2) {
        tagOf.set(shape.tagEdge[k], k);
        items.push({ id: `${path}/tag${k}`, w, h, group: null, least: 0 });
        count++;
      }
    }
    const p = shape.points;
    const named = new Set<string>();
    for (let e = 0; e < shape.edgeSrc.length; e++) {
      const net = `${path}:${shape.edgeTensor[e]}`;
      edges++;
      let jumped = false;
      list.points = [];
      const flush = (): void => {
        if (list.points.length > 2) lines.push({ net, points: list.points });
        list.points = [];
      };
      for (let i = shape.pathStart[e] + 1; i < shape.pathStart[e + 1]; i++) {
        if (Number.isNaN(p[3 * i + 2])) {
          jumped = true;
          flush();
          continue;
        }
        pen.stretch(x + p[3 * i - 3], y + p[3 * i - 2], x + p[3 * i], y + p[3 * i + 1], p[3 * i + 2], 1, 0);
      }
      flush();
      if (jumped) wrapped++;
      const first = shape.pathStart[e];
      const last = shape.pathStart[e + 1] - 1;
      const [s, t] = [shape.edgeSrc[e], shape.edgeDst[e]];
      const tag = tagOf.get(e);
      const from = tag !== undefined ? `${path}/tag${tag}`
        : s < 0 ? `${path}|in${-1 - s}` : opened[s]?.shape.outAt.length ? `${path}/${s}|out${nearest(opened[s].shape.outAt, p[3 * first] - r[4 * s])}` : `${path}/${s}`;
      const to = t < 0 ? `${path}|out${-1 - t}` : opened[t]?.shape.inAt.length ? `${path}/${t}|in${nearest(opened[t].shape.inAt, p[3 * last] - r[4 * t])}` : `${path}/${t}`;
      // A shape is written once beside the edges of a tensor.
      const text = shape.edgeLabel[e] && !named.has(net) ? scene.labels[shape.edgeLabel[e]] : "";
      if (text) named.add(net);
      nest.edges.push({ from, to, net, label: text ? measure.width(text, SUB_PX, "mono") : 0 });
    }
    return nest;
  };
  const { root } = scene;
  if (!root) throw new Error("nothing is drawn");
  const nest = walk(root, 0, 0, "");
  return { drawing: { width: root.shape.w, height: root.shape.h, boxes, lines }, wrapped, cuts, graph: { root: nest, count, edges } };
}
