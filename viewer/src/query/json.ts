/** What the JSON export holds: the graph of one stage, node by node, in words of the file. */

import { coldInts, coldList } from "./cold";
import type { Shown } from "./shown";

export function toJson(s: Shown): string {
  const { graph, stage, recording } = s;
  const { strings } = recording;
  const info = graph.info.stages[stage.stage];
  const files = coldInts(graph, "file");
  const lines = coldInts(graph, "line");
  const keys = coldList(graph, "attr_keys");
  const values = coldList(graph, "attr_values");
  const path = (row: number): string => {
    const parts: string[] = [];
    for (let r = row; r >= 0; r = graph.groups.parent[r]) parts.push(strings.at(graph.groups.name[r]));
    return parts.reverse().join("/");
  };
  const paths = new Map<number, string>();
  const parts: string[] = [];
  for (let n = 0; n < stage.count; n++) {
    const r = stage.row[n];
    if (r < 0) continue;
    const groups: Record<string, string> = {};
    for (let i = graph.groupsOf.offsets[r]; i < graph.groupsOf.offsets[r + 1]; i++) {
      const g = graph.groupsOf.values[i];
      let p = paths.get(g);
      if (p === undefined) paths.set(g, (p = path(g)));
      groups[strings.at(graph.groups.grouping[g])] = p;
    }
    const attrs: Record<string, string> = {};
    for (let i = keys.offsets[r]; i < keys.offsets[r + 1]; i++)
      attrs[strings.at(keys.values[i])] = strings.at(values.values[i]);
    const inputs: (readonly [number, number])[] = [];
    for (let i = graph.inputs.offsets[r]; i < graph.inputs.offsets[r + 1]; i++)
      inputs.push([graph.inputs.values[i], graph.ports.values[i] ?? 0]);
    parts.push(
      JSON.stringify({
        id: graph.id[r],
        op: strings.at(graph.op[r]),
        name: strings.at(graph.name[r]) || undefined,
        kind: strings.at(graph.kind[r]) || undefined,
        inputs,
        outputs: Array.from(
          graph.outputs.values.subarray(graph.outputs.offsets[r], graph.outputs.offsets[r + 1]),
          (t) => strings.at(t),
        ),
        attrs: keys.offsets[r] < keys.offsets[r + 1] ? attrs : undefined,
        groups,
        source: lines[r] > 0 ? `${strings.at(files[r])}:${lines[r]}` : undefined,
      }),
    );
  }
  const head = JSON.stringify({
    title: recording.header.title,
    graph: graph.info.name,
    stage: info.name,
    inputs: info.inputs,
    outputs: info.output_nodes.map((id, k) => [id, info.output_ports[k] ?? 0]),
  });
  return `${head.slice(0, -1)},"nodes":[\n${parts.join(",\n")}\n]}\n`;
}
