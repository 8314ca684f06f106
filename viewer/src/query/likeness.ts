/** Decides which nodes of two graphs are the same one: by id in stages of one graph, else by name, else by place. */

import { finish, mix } from "../base/hash";
import type { Graph } from "../model/graph";
import { markGroups } from "./marks";
import { coldList } from "./cold";
import type { Shown } from "./shown";

/** What another pane needs to know of every node shown: who it is and what it is. */
export interface Signature {
  /** Same file and graph: nodes are told by id. */
  readonly sameGraph: boolean;
  readonly keys: readonly string[];
  /** Changes when op, types, attributes or the producers (by key) change. */
  readonly hash: Int32Array;
}

export interface Compared {
  readonly mark: Uint8Array;
  readonly alone: number;
  readonly changed: number;
  readonly same: number;
}

const ADDED = 1;
const REMOVED = 2;
const CHANGED = 3;

export function keysOf(s: Shown, byId: boolean): string[] {
  const { h, graph } = s;
  const out: string[] = [];
  const seen = new Map<string, number>();
  const paths = new Map<number, string>();
  for (let n = 0; n < h.nodes; n++) {
    const r = h.stage.row[n];
    if (r < 0) {
      out.push(`output ${-1 - r}`);
      continue;
    }
    if (byId) {
      out.push(`#${graph.id[r]}`);
      continue;
    }
    const name = graph.strings.head(graph.name[r], 400);
    const base = name || `${pathOf(graph, r, paths)}/${graph.strings.head(graph.op[r], 200)}`;
    // Nameless twins are told apart by their order.
    const nth = seen.get(base) ?? 0;
    seen.set(base, nth + 1);
    out.push(nth === 0 ? base : `${base} ${nth}`);
  }
  return out;
}

function pathOf(graph: Graph, row: number, known: Map<number, string>): string {
  const from = graph.groupsOf.offsets[row];
  if (from === graph.groupsOf.offsets[row + 1]) return "";
  const g = graph.groupsOf.values[from];
  let path = known.get(g);
  if (path === undefined) known.set(g, (path = groupPath(graph, g)));
  return path;
}

export function groupPath(graph: Graph, group: number): string {
  const parts: string[] = [];
  for (let r = group; r >= 0; r = graph.groups.parent[r]) parts.push(graph.strings.head(graph.groups.name[r], 120));
  return parts.reverse().join("/");
}

function hashText(text: string): number {
  let x = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) x = Math.imul(x ^ text.charCodeAt(i), 0x01000193);
  return x;
}

export function signature(s: Shown, byId: boolean): Signature {
  const { h, graph } = s;
  const keys = keysOf(s, byId);
  const hash = new Int32Array(h.nodes);
  const texts = new Map<number, number>();
  const of = (text: number): number => {
    let v = texts.get(text);
    if (v === undefined) texts.set(text, (v = hashText(graph.strings.head(text, 2000))));
    return v;
  };
  const attrKeys = coldList(graph, "attr_keys");
  const attrValues = coldList(graph, "attr_values");
  for (let n = 0; n < h.nodes; n++) {
    const r = h.stage.row[n];
    let x = 7;
    if (r >= 0) {
      x = mix(x, of(graph.op[r]));
      for (let i = graph.outputs.offsets[r]; i < graph.outputs.offsets[r + 1]; i++) x = mix(x, of(graph.outputs.values[i]));
      for (let i = attrKeys.offsets[r]; i < attrKeys.offsets[r + 1]; i++) x = mix(mix(x, of(attrKeys.values[i])), of(attrValues.values[i]));
    }
    for (let i = h.stage.inputs.offsets[n]; i < h.stage.inputs.offsets[n + 1]; i++) {
      const src = h.stage.inputs.values[i];
      x = mix(x, src < 0 ? -1 : hashText(keys[src]));
    }
    hash[n] = finish(x);
  }
  return { sameGraph: byId, keys, hash };
}

/** Marks on what is shown here, seen from the other pane: left has what was removed, right what was added. */
export function compareWith(s: Shown, other: Signature, side: "left" | "right"): Compared {
  const mine = signature(s, other.sameGraph);
  const theirs = new Map<string, number>();
  other.keys.forEach((k, i) => theirs.set(k, other.hash[i]));
  const mark = new Uint8Array(s.h.nodes + s.h.groups);
  let alone = 0;
  let changed = 0;
  for (let n = 0; n < s.h.nodes; n++) {
    const h = theirs.get(mine.keys[n]);
    if (h === undefined) {
      mark[n] = side === "left" ? REMOVED : ADDED;
      alone++;
    } else if (h !== mine.hash[n]) {
      mark[n] = CHANGED;
      changed++;
    }
  }
  markGroups(s.h, mark);
  return { mark, alone, changed, same: s.h.nodes - alone - changed };
}
