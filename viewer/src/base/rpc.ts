/** How page and worker talk: calls with answers, progress on the way, and calling off. */

import { Cancelled, GlassError, plainError, type PlainError } from "./errors";

export interface Progress {
  readonly text: string;
  readonly done: number;
  readonly total: number;
}

/** What a served method gets beside its argument. */
export interface Call {
  readonly cancelled: boolean;
  progress(p: Progress): void;
  /** Lets messages through (so that a cancel can arrive) and throws Cancelled when one did. */
  breathe(): Promise<void>;
  /** Lets calls that wait be answered first. Only for what reads: the view can be another one afterwards. */
  giveWay(): Promise<void>;
  /** Buffers that the answer hands over instead of copying. */
  transfer(buffers: ArrayBuffer[]): void;
}

/** Methods by name, each with one argument: what both sides agree on. */
export type Api = Record<string, { readonly arg: unknown; readonly result: unknown }>;
export type Served<A extends Api> = {
  [K in keyof A]: (arg: A[K]["arg"], call: Call) => Promise<A[K]["result"]> | A[K]["result"];
};

interface Asked {
  readonly id: number;
  readonly method: string;
  readonly arg: unknown;
}
type Request = Asked | { readonly cancel: number };
type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: PlainError }
  | { readonly id: number; readonly progress: Progress };

export interface Port {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onmessage: ((e: MessageEvent) => void) | null;
}

export interface CallOptions {
  readonly transfer?: Transferable[];
  readonly onProgress?: (p: Progress) => void;
  readonly signal?: AbortSignal;
}

export class Client<A extends Api> {
  private next = 1;
  private readonly waiting = new Map<
    number,
    { resolve: (v: unknown) => void; reject: (e: Error) => void; onProgress?: (p: Progress) => void }
  >();

  constructor(private readonly port: Port) {
    port.onmessage = (e: MessageEvent): void => {
      const m = e.data as Answer;
      const w = this.waiting.get(m.id);
      if (!w) return;
      if ("progress" in m) {
        w.onProgress?.(m.progress);
        return;
      }
      this.waiting.delete(m.id);
      if ("error" in m) w.reject(revive(m.error));
      else w.resolve(m.value);
    };
  }

  call<K extends keyof A & string>(method: K, arg: A[K]["arg"], options: CallOptions = {}): Promise<A[K]["result"]> {
    const id = this.next++;
    return new Promise<A[K]["result"]>((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, onProgress: options.onProgress });
      options.signal?.addEventListener("abort", () => {
        if (!this.waiting.delete(id)) return;
        this.port.postMessage({ cancel: id } satisfies Request);
        reject(new Cancelled());
      });
      this.port.postMessage({ id, method, arg } satisfies Request, options.transfer ?? []);
    });
  }

  /** Ends the other side; set by whoever started it. */
  stop: () => void = () => undefined;

  /** The worker died: whoever waits learns of it. */
  fail(error: Error): void {
    for (const w of this.waiting.values()) w.reject(error);
    this.waiting.clear();
  }
}

function revive(e: PlainError): Error {
  if (e.name === "Cancelled") return new Cancelled();
  if (e.name !== "GlassError") return new Error(e.message);
  const prefix = e.where ? `${e.where}: ` : "";
  return new GlassError(e.message.startsWith(prefix) ? e.message.slice(prefix.length) : e.message, e.where, e.help);
}

export function serve<A extends Api>(port: Port, methods: Served<A>): void {
  const off = new Set<number>();
  const channel = new MessageChannel();
  let wake: (() => void) | null = null;
  channel.port1.onmessage = (): void => wake?.();
  const turn = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
      channel.port2.postMessage(0);
    });
  // One call at a time: the engine's state is not to be changed under a running layout.
  const waiting: Asked[] = [];
  let busy = false;
  const answerAll = async (): Promise<void> => {
    for (let m = waiting.shift(); m; m = waiting.shift()) await answer(m);
  };
  const answer = async (m: Asked): Promise<void> => {
    let transfer: Transferable[] = [];
    const breathe = async (): Promise<void> => {
      await turn();
      if (off.has(m.id)) throw new Cancelled();
    };
    const call: Call = {
      get cancelled() {
        return off.has(m.id);
      },
      progress: (p) => port.postMessage({ id: m.id, progress: p } satisfies Answer),
      breathe,
      giveWay: async () => {
        await breathe();
        await answerAll();
      },
      transfer: (buffers) => (transfer = buffers),
    };
    try {
      if (off.has(m.id)) throw new Cancelled();
      const method = methods[m.method as keyof A];
      const value = await method(m.arg as A[keyof A]["arg"], call);
      port.postMessage({ id: m.id, value } satisfies Answer, transfer);
    } catch (error) {
      port.postMessage({ id: m.id, error: plainError(error) } satisfies Answer);
    } finally {
      off.delete(m.id);
    }
  };
  port.onmessage = (e: MessageEvent): void => {
    const m = e.data as Request;
    if ("cancel" in m) {
      off.add(m.cancel);
      return;
    }
    waiting.push(m);
    if (busy) return;
    busy = true;
    void answerAll().then(() => (busy = false));
  };
}
