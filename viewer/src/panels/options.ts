/** How a page starts: what its maker put beside the recording, and where further files come from. */

export interface ServedFile {
  readonly id: string;
  readonly name: string;
}

export interface Options {
  readonly theme?: "light" | "dark";
  readonly grouping?: string;
  readonly color?: string;
  readonly graph?: number;
  readonly stage?: number;
  readonly query?: string;
  /** What is selected: "slowest", or the first hit of a search. */
  readonly select?: string;
  /** One line that tells a newcomer what to do next. */
  readonly hint?: string;
  /** Two panes from the start. */
  readonly compare?: boolean;
  /** There only when a server serves the page. */
  readonly server?: { readonly files: readonly ServedFile[]; readonly open: string; readonly limit: number };
}

export function readOptions(doc: Document): Options {
  const text = doc.getElementById("glass-options")?.textContent;
  if (!text) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Options) : {};
  } catch {
    return {};
  }
}

/** Calls to the page's own server; the token from the page's link goes with each. */
export class Server {
  private readonly token = new URLSearchParams(location.search).get("token") ?? "";

  private async call(path: string, init: RequestInit = {}): Promise<Response> {
    const answer = await fetch(path, { ...init, headers: { "X-Glasshouse-Token": this.token } });
    if (!answer.ok) throw new Error((await answer.text()) || `The server said ${answer.status}.`);
    return answer;
  }

  async recording(id: string): Promise<Uint8Array> {
    return new Uint8Array(await (await this.call(`/api/recording/${encodeURIComponent(id)}`)).arrayBuffer());
  }

  /** Has a file of any known format converted; it stays on this machine. */
  async upload(name: string, data: Blob): Promise<ServedFile> {
    return (await (
      await this.call(`/api/open?name=${encodeURIComponent(name)}`, { method: "POST", body: data })
    ).json()) as ServedFile;
  }
}
