/** How the tables beside the nodes are looked up: by node id, indexed when first asked for. */

import type { Recording } from "../model/recording";
import type { Table } from "../model/table";

/** Rows of a table by the node ids that a column names. */
type Index = ReadonlyMap<number, readonly number[]>;

export class GraphTables {
  private readonly indices = new Map<string, Promise<Index>>();

  constructor(
    private readonly recording: Recording,
    readonly graph: number,
  ) {}

  table(name: string): Promise<Table | null> {
    return this.recording.graphTable(this.graph, name);
  }

  /** Rows of `table` whose `column` (an id or a list of ids) holds `id`. */
  async rows(table: string, column: string, id: number): Promise<readonly number[]> {
    const key = `${table}.${column}`;
    let index = this.indices.get(key);
    if (!index) this.indices.set(key, (index = this.index(table, column)));
    return (await index).get(id) ?? [];
  }

  private async index(name: string, column: string): Promise<Index> {
    const out = new Map<number, number[]>();
    const table = await this.table(name);
    if (!table) return out;
    const add = (id: number, row: number): void => {
      const list = out.get(id);
      if (!list) out.set(id, [row]);
      else if (list[list.length - 1] !== row) list.push(row);
    };
    if (LISTS.has(`${name}.${column}`)) {
      const { offsets, values } = table.list(column);
      for (let r = 0; r < table.rows; r++) for (let i = offsets[r]; i < offsets[r + 1]; i++) add(values[i], r);
    } else {
      const ids = table.ints(column, -1);
      for (let r = 0; r < table.rows; r++) add(ids[r], r);
    }
    return out;
  }
}

const LISTS = new Set(["rewrites.before", "rewrites.after", "rejects.nodes", "kernels.ops"]);

const known = new WeakMap<Recording, Map<number, GraphTables>>();

export function tablesOf(recording: Recording, graph: number): GraphTables {
  let byGraph = known.get(recording);
  if (!byGraph) known.set(recording, (byGraph = new Map()));
  let tables = byGraph.get(graph);
  if (!tables) byGraph.set(graph, (tables = new GraphTables(recording, graph)));
  return tables;
}
