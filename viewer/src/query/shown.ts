/** What questions are asked about: the file, the graph and the view that the worker holds right now. */

import type { LayoutSession } from "../layout/session";
import type { Graph } from "../model/graph";
import type { Hierarchy } from "../model/hierarchy";
import type { Recording } from "../model/recording";
import { idMap, type StageGraph } from "../model/stage";

export interface Shown {
  readonly recording: Recording;
  readonly graph: Graph;
  readonly stage: StageGraph;
  readonly h: Hierarchy;
  readonly session: LayoutSession;
  /** Any graph of the file: bodies of nodes, the other side of a comparison. */
  readonly other: (index: number) => Promise<Graph>;
}

/** Node of a stage by the id it has in all stages; undefined when it is not alive here. */
export interface NodeOfId {
  get(id: number): number | undefined;
}

const maps = new WeakMap<StageGraph, NodeOfId>();

export function nodeOfId(stage: StageGraph): NodeOfId {
  let map = maps.get(stage);
  if (!map) {
    const live: number[] = [];
    for (let r = 0; r < stage.graph.rows; r++) if (stage.nodeOfRow[r] >= 0) live.push(r);
    const rows = idMap(stage.graph, live);
    map = {
      get: (id) => {
        const r = rows.get(id) ?? -1;
        // A tensor that is recorded as a node is found at what makes it.
        return r < 0 ? undefined : stage.nodeOfRow[r];
      },
    };
    maps.set(stage, map);
  }
  return map;
}

/** The id of a node; -1 for the graph's outputs, which have none. */
export const idOf = (stage: StageGraph, node: number): number =>
  stage.row[node] < 0 ? -1 : stage.graph.id[stage.row[node]];
