/** Decides how a table is handed to panels: plain objects, texts left out until one is asked for. */

import type { ColumnSpec } from "../model/schema";
import type { Strings } from "../model/strings";
import type { Table } from "../model/table";
import type { PlainRow } from "./api";

type Cell = PlainRow[string];

export function plainRows(table: Table, spec: Readonly<Record<string, ColumnSpec>>, strings: Strings, wanted?: readonly string[]): PlainRow[] {
  const readers: [string, (row: number) => Cell][] = [];
  for (const [name, column] of Object.entries(spec)) {
    if (wanted && !wanted.includes(name)) continue;
    switch (column.type) {
      case "int": {
        const v = table.ints(name, Number(column.default ?? 0));
        readers.push([name, (r) => v[r]]);
        break;
      }
      case "float": {
        const v = table.floats(name, Number(column.default ?? 0));
        readers.push([name, (r) => v[r]]);
        break;
      }
      case "bool": {
        const v = table.ints(name);
        readers.push([name, (r) => v[r] !== 0]);
        break;
      }
      case "str": {
        const v = table.ints(name);
        const absent = table.has(name) ? null : String(column.default ?? "");
        readers.push([name, (r) => absent ?? strings.at(v[r])]);
        break;
      }
      case "list<int>":
      case "list<str>": {
        const v = table.list(name);
        const text = column.type === "list<str>";
        readers.push([name, (r) => {
          const part = Array.from(v.values.subarray(v.offsets[r], v.offsets[r + 1]));
          return text ? part.map((i) => strings.at(i)) : part;
        }]);
        break;
      }
      case "text":
        break; // asked for one by one
    }
  }
  const out: PlainRow[] = [];
  for (let r = 0; r < table.rows; r++) {
    const row: Record<string, Cell> = {};
    for (const [name, read] of readers) row[name] = read(r);
    out.push(row);
  }
  return out;
}
