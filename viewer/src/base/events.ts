/** How parts of the page hear of each other: named events with typed payloads. */

export class Emitter<E extends Record<string, unknown>> {
  private readonly listeners = new Map<keyof E, Set<(value: never) => void>>();

  on<K extends keyof E>(event: K, listener: (value: E[K]) => void): () => void {
    let set = this.listeners.get(event);
    if (!set) this.listeners.set(event, (set = new Set()));
    set.add(listener as (value: never) => void);
    return () => set.delete(listener as (value: never) => void);
  }

  emit<K extends keyof E>(event: K, value: E[K]): void {
    for (const l of [...(this.listeners.get(event) ?? [])]) (l as (value: E[K]) => void)(value);
  }
}
