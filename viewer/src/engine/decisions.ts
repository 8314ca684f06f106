/** Where a decision not to act is shown: on the drawn edge between the nodes that it was about. */

import { Details } from "../query/details";
import { idOf, type Shown } from "../query/shown";
import { findStrokes, tensorOf } from "./strokes";

export interface Decision {
  readonly group: number;
  readonly edge: number;
  readonly text: string;
}

/** More notes on the edges of one node would hide the drawing; the details have all of them. */
const MOST = 6;

/** What passes decided against at a node, each on the edge to the other node, as far as that is drawn. */
export async function decisionsAt(s: Shown, item: number): Promise<Decision[]> {
  const out: Decision[] = [];
  if (item < 0 || item >= s.h.nodes) return out;
  const key = (group: number, edge: number): string => `${group} ${edge}`;
  const own = new Set<string>();
  const pairs = findStrokes(s.session, item);
  for (let i = 0; i < pairs.length; i += 2) own.add(key(pairs[i], pairs[i + 1]));
  const taken = new Set<string>();
  for (const r of await new Details(s).rejects(idOf(s.stage, item))) {
    for (const o of r.others) {
      if (o.item < 0 || out.length >= MOST) continue;
      const other = findStrokes(s.session, s.session.drawnItem(o.item));
      for (let i = 0; i < other.length; i += 2) {
        const at = key(other[i], other[i + 1]);
        if (!own.has(at) || taken.has(at)) continue;
        // Two readers of one tensor share its edge; the decision was about the edge between them.
        const maker = producerOf(s, other[i], other[i + 1]);
        if (maker !== item && maker !== o.item) continue;
        taken.add(at);
        out.push({ group: other[i], edge: other[i + 1], text: `${r.pass}: ${r.why}` });
        break;
      }
    }
  }
  return out;
}

function producerOf({ session }: Shown, group: number, edge: number): number {
  const shape = session.shape(group);
  return shape ? session.producer(tensorOf(session.problem(group).problem, shape.edgeTensor[edge])) : -1;
}
