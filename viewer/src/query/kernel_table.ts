/** The table of kernels (of timed or working nodes, where a file has no kernels): what each is, where it stands and its figures. */

import { nodeTitle, soleHome } from "../model/labels";
import { insideRow } from "../model/hierarchy";
import { countsOf } from "../model/counts";
import { groupPath } from "./likeness";
import { byItem, measure, measureNames } from "./measures";
import { idOf, nodeOfId, type Shown } from "./shown";
import { tablesOf } from "./tables";

export interface KernelLine {
  readonly item: number;
  /** The module that is this op and nothing else; -1 where there is none. */
  readonly home: number;
  readonly title: string;
  readonly path: string;
  readonly op: string;
  /** NaN where nothing is known. */
  readonly seconds: number;
  readonly limit: number;
  readonly error: number;
  readonly flops: number;
  readonly bytes: number;
}

export interface KernelLines {
  readonly lines: readonly KernelLine[];
  /** Sum of all times. */
  readonly total: number;
  /** Why there are no times, where the file has them for another stage. */
  readonly note: string;
}

/** More lines than this are no table for people; the slowest are kept. */
const MOST = 20000;

export async function kernelLines(s: Shown): Promise<KernelLines> {
  const { h, graph } = s;
  const names = new Set((await measureNames(s)).map((m) => m.name));
  const column = async (name: string): Promise<Float64Array> => {
    const m = names.has(name) ? await measure(s, name) : null;
    return m ? byItem(h, m) : new Float64Array(h.nodes + h.groups).fill(NaN);
  };
  const time = names.has("time") ? await measure(s, "time") : null;
  const [seconds, error, flops, written] = [
    await column("time"),
    await column("error"),
    await column("flops"),
    await column("bytes"),
  ];
  const table = await tablesOf(s.recording, graph.index).table("kernels");
  const here = nodeOfId(s.stage);
  const unfolded = new Map(countsOf(h).unfolded.map((g) => [graph.id[insideRow(h, g)], h.nodes + g] as const));
  const lines: KernelLine[] = [];
  const line = (item: number, title: string, limit: number, moved: number): void => {
    const around = h.raw[h.parent[item] - h.nodes];
    const path = around >= 0 ? groupPath(graph, h.rows.file[around]).replace(/\//g, ".") : "";
    const r = item < h.nodes ? s.stage.row[item] : insideRow(h, item - h.nodes);
    lines.push({
      item,
      home: item < h.nodes ? soleHome(h, item) : -1,
      title,
      path,
      op: graph.strings.head(graph.op[r], 60),
      seconds: seconds[item],
      error: error[item],
      flops: flops[item] > 0 ? flops[item] : NaN,
      bytes: moved > 0 ? moved : written[item],
      limit: limit > 0 && seconds[item] > 0 ? limit / seconds[item] : NaN,
    });
  };
  if (table && table.rows > 0 && !time?.absent) {
    const [ids, titles, kernelNames] = [
      table.ints("node", -1),
      table.has("title") ? table.ints("title") : null,
      table.ints("name"),
    ];
    const [limit, read, wrote, runs] = [
      table.floats("limit_seconds"),
      table.floats("bytes_read"),
      table.floats("bytes_written"),
      table.ints("runs", 1),
    ];
    for (let r = 0; r < table.rows; r++) {
      const item = here.get(ids[r]) ?? unfolded.get(ids[r]);
      if (item === undefined) continue;
      const title =
        (titles && s.recording.strings.head(titles[r], 200)) || s.recording.strings.head(kernelNames[r], 200);
      line(item, title, limit[r], (read[r] + wrote[r]) * runs[r]);
    }
  }
  if (lines.length === 0)
    for (let n = 0; n < h.nodes; n++) {
      const r = s.stage.row[n];
      if (r >= 0 && idOf(s.stage, n) >= 0 && graph.strings.at(graph.kind[r]) !== "source")
        line(n, nodeTitle(h, n), NaN, NaN);
    }
  lines.sort((a, b) => (b.seconds || 0) - (a.seconds || 0) || (b.flops || 0) - (a.flops || 0) || a.item - b.item);
  lines.length = Math.min(lines.length, MOST);
  return { lines, total: seconds[h.nodes] || 0, note: time?.absent ?? "" };
}
