/** How columns that only questions need are kept: joined over all stages once, then held. */

import type { Csr } from "../base/csr";
import type { Graph } from "../model/graph";

const known = new WeakMap<Graph, Map<string, Int32Array | Csr>>();

function keep<T extends Int32Array | Csr>(graph: Graph, column: string, make: () => T): T {
  let columns = known.get(graph);
  if (!columns) known.set(graph, (columns = new Map()));
  let found = columns.get(column) as T | undefined;
  if (!found) columns.set(column, (found = make()));
  return found;
}

export const coldInts = (graph: Graph, column: string, absent = 0): Int32Array =>
  keep(graph, column, () => graph.coldInts(column, absent));
export const coldList = (graph: Graph, column: string): Csr => keep(graph, column, () => graph.coldList(column));
