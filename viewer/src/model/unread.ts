/** Values that nothing reads (weights that quantisation left behind) stand in a list, not in the first row of a drawing. */

import type { Graph } from "./graph";
import { addedColumns, addedGroups } from "./made";
import type { StageGraph } from "./stage";

/** One such value is no crowd. */
const LEAST = 2;
const ALL_GROUPINGS = -1;

/** The stage's graph with a group for what nothing reads; the graph itself when there is hardly any. */
export function withUnread(stage: StageGraph): Graph {
  const { graph } = stage;
  const unread: number[] = [];
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (
      r < 0 ||
      stage.isInput[n] ||
      stage.users.offsets[n + 1] > stage.users.offsets[n] ||
      stage.inputs.offsets[n + 1] > stage.inputs.offsets[n]
    )
      continue;
    if (graph.strings.at(graph.kind[r]) === "source") unread.push(r);
  }
  if (unread.length < LEAST || unread.length > stage.count / 2) return graph;
  const home = new Int32Array(graph.rows).fill(-1);
  for (const r of unread) home[r] = graph.groups.rows;
  const groups = addedColumns(graph, ALL_GROUPINGS, [-1], [graph.strings.intern("not read")]);
  return graph.joined([], { ...graph, groups, groupsOf: addedGroups(graph, home) });
}
