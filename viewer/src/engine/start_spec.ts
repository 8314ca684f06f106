/** Which view a file opens with, as far as nobody asked for another. */

import type { Header } from "../model/schema";
import type { ViewSpec } from "./api";

/** The last stage of the first graph that is no part of another, in the grouping that says most, unfolded as far as it reads. */
export function startSpec(header: Header, start: Partial<ViewSpec>): ViewSpec {
  const { graphs } = header;
  const graph =
    start.graph !== undefined && graphs[start.graph]
      ? start.graph
      : Math.max(
          0,
          graphs.findIndex((g) => g.parent < 0),
        );
  const last = graphs[graph].stages.length - 1;
  return {
    grouping: "",
    across: false,
    fold: { base: "first", changes: [] },
    ...start,
    graph,
    stage: Math.min(start.stage ?? last, last),
  };
}
