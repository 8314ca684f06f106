/** The steps of all ranks of a training on one clock: a lane for each rank, which meets the others in collectives. */

import type { Shown } from "./shown";
import { tablesOf } from "./tables";

export interface RankBar {
  /** Id of the node that runs then. */
  readonly node: number;
  readonly title: string;
  readonly start: number;
  readonly seconds: number;
  /** Whether the rank waits here for a collective. */
  readonly waits: boolean;
}

export interface RankLane {
  readonly rank: number;
  readonly graph: number;
  readonly bars: readonly RankBar[];
}

export interface RankLanes {
  readonly lanes: readonly RankLane[];
  readonly seconds: number;
  /** When everybody has left a collective. */
  readonly meetings: readonly number[];
  /** What stands out, in the words of the recording. */
  readonly notes: readonly string[];
}

/** How `record_ranks` calls the graph of a rank. */
const NAMED = /^(.*), rank (\d+)$/;
const WAITED = "waited (s)";

/** The graph shown, as all ranks ran it; no lanes where the file has one rank alone. */
export async function rankLanes(s: Shown): Promise<RankLanes> {
  const { graphs, facts } = s.recording.header;
  const shown = NAMED.exec(graphs[s.graph.index].name)?.[1];
  const lanes: RankLane[] = [];
  for (const [graph, { name }] of graphs.entries()) {
    const named = NAMED.exec(name);
    if (named && named[1] === shown) lanes.push({ rank: Number(named[2]), graph, bars: await bars(s, graph) });
  }
  lanes.sort((a, b) => a.rank - b.rank);
  const all = lanes.flatMap((lane) => lane.bars);
  return {
    lanes: lanes.length > 1 ? lanes : [],
    seconds: all.reduce((end, b) => Math.max(end, b.start + b.seconds), 0),
    meetings: lanes.length > 1 ? lanes[0].bars.filter((b) => b.waits).map((b) => b.start + b.seconds) : [],
    notes: Object.keys(facts)
      .filter((k) => k.startsWith("ranks: note "))
      .map((k) => facts[k])
      .filter((text) => text.startsWith(`${shown}:`)),
  };
}

async function bars(s: Shown, graph: number): Promise<RankBar[]> {
  const tables = tablesOf(s.recording, graph);
  const [times, kernels, data] = [
    await tables.table("times"),
    await tables.table("kernels"),
    await tables.table("data"),
  ];
  if (!times || !kernels) return [];
  const waited = new Map<number, number>();
  if (data) {
    const [names, nodes, numbers] = [data.ints("name"), data.ints("node"), data.floats("number")];
    for (let r = 0; r < data.rows; r++)
      if (s.recording.strings.at(names[r]) === WAITED) waited.set(nodes[r], numbers[r]);
  }
  const [nodes, seconds, starts, of] = [
    times.ints("node"),
    times.floats("seconds"),
    times.floats("start"),
    times.ints("kernel", -1),
  ];
  const names = kernels.ints("name");
  const titles = kernels.has("title") ? kernels.ints("title") : names;
  const titled = (k: number): string =>
    s.recording.strings.head(titles[k], 200) || s.recording.strings.head(names[k], 200);
  return Array.from({ length: times.rows }, (_, r) => ({
    node: nodes[r],
    title: of[r] >= 0 && of[r] < kernels.rows ? titled(of[r]) : "",
    start: starts[r],
    seconds: waited.get(nodes[r]) ?? seconds[r],
    waits: waited.has(nodes[r]),
  }));
}
