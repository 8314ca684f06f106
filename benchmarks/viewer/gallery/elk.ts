/** ELK layered on the boxes, edges, headers and written shapes of our drawing, with our spacing; the better of its two ways to route. */

import ELK, { type ElkNode } from "elkjs/lib/elk.bundled.js";
import { SUB_PX } from "../../../viewer/src/layout/style";
import type { Item, Made, Nest } from "./ours";
import { qualityOf, type Box, type Drawing, type Line } from "./strokes";

const SPACING = {
  "elk.algorithm": "layered", "elk.direction": "DOWN", "elk.spacing.nodeNode": "24", "elk.layered.spacing.nodeNodeBetweenLayers": "24",
  "elk.spacing.edgeEdge": "12", "elk.spacing.edgeNode": "12", "elk.layered.spacing.edgeNodeBetweenLayers": "12", "elk.layered.spacing.edgeEdgeBetweenLayers": "12",
};

export async function elkOf(graph: Made["graph"]): Promise<Drawing> {
  let best: Drawing | null = null;
  for (const routing of ["ORTHOGONAL", "POLYLINE"]) {
    const made = await layOut(graph.root, routing, "INCLUDE_CHILDREN").catch(() => layOut(graph.root, routing, "SEPARATE_CHILDREN"));
    const [a, b] = [best && qualityOf(best), qualityOf(made)];
    if (!a || b.crossings < a.crossings || (b.crossings === a.crossings && b.length < a.length)) best = made;
  }
  if (!best) throw new Error("ELK laid out nothing");
  return best;
}

async function layOut(root: Nest, routing: string, handling: string): Promise<Drawing> {
  const nets = new Map<string, string>();
  let edges = 0;
  const fill = (nest: Nest): Pick<ElkNode, "children" | "edges"> => ({
    children: nest.items.map(node),
    edges: nest.edges.map((e) => {
      const id = `e${edges++}`;
      nets.set(id, e.net);
      const label = { text: "f32", width: e.label, height: SUB_PX + 3, layoutOptions: { "elk.edgeLabels.placement": "TAIL" } };
      return { id, sources: [e.from], targets: [e.to], labels: e.label > 0 ? [label] : [] };
    }),
  });
  const node = (item: Item): ElkNode => {
    if (!item.group) return { id: item.id, width: item.w, height: item.h };
    const port = (side: string, kind: string, k: number) => ({
      id: `${item.id}|${kind}${k}`, width: 0, height: 0, layoutOptions: { "elk.port.side": side },
    });
    return {
      id: item.id,
      ...fill(item.group),
      ports: [
        ...Array.from({ length: item.group.ins }, (_, k) => port("NORTH", "in", k)),
        ...Array.from({ length: item.group.outs }, (_, k) => port("SOUTH", "out", k)),
      ],
      layoutOptions: { ...SPACING, "elk.edgeRouting": routing, "elk.portConstraints": "FIXED_SIDE", "elk.padding": "[top=26,left=14,bottom=14,right=14]", "elk.nodeSize.constraints": "MINIMUM_SIZE", "elk.nodeSize.minimum": `(${item.least},0)` },
    };
  };
  const options = { ...SPACING, "elk.edgeRouting": routing, "elk.hierarchyHandling": handling, "elk.padding": "[top=0,left=0,bottom=0,right=0]", "elk.json.edgeCoords": "ROOT", "elk.json.shapeCoords": "ROOT" };
  const laid = await new ELK().layout({ id: "root", layoutOptions: options, ...fill(root) });
  const boxes: Box[] = [];
  const lines: Line[] = [];
  const walk = (n: ElkNode): void => {
    for (const c of n.children ?? []) {
      if (c.children && c.children.length > 0) walk(c);
      else boxes.push({ x: c.x ?? 0, y: c.y ?? 0, w: c.width ?? 0, h: c.height ?? 0 });
    }
    for (const e of n.edges ?? []) {
      for (const s of e.sections ?? []) {
        const points = [s.startPoint, ...(s.bendPoints ?? []), s.endPoint].flatMap((p) => [p.x, p.y]);
        lines.push({ net: nets.get(e.id) ?? e.id, points });
      }
    }
  };
  walk(laid);
  return { width: laid.width ?? 0, height: laid.height ?? 0, boxes, lines };
}
