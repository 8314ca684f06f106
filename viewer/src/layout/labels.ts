/** Decides how texts travel to the page: each distinct text once, by number; 0 is the empty text. */

export class Interner {
  readonly texts: string[] = [""];
  private readonly ids = new Map<string, number>([["", 0]]);
  private sent = 0;

  id(text: string): number {
    let i = this.ids.get(text);
    if (i === undefined) {
      i = this.texts.length;
      this.texts.push(text);
      this.ids.set(text, i);
    }
    return i;
  }

  /** What was added since the last call. */
  news(): string[] {
    const out = this.texts.slice(this.sent);
    this.sent = this.texts.length;
    return out;
  }
}
