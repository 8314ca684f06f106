/** How texts travel to the page: each distinct text once, by number; 0 is the empty text. */

/** Between the two lines of a label that has two: of private use, so that no name of a model has it for a reason. */
export const LINE = "\ue000";

export class Interner {
  readonly texts: string[] = [""];
  private readonly ids = new Map<string, number>([["", 0]]);
  private sent = 0;

  id(text: string): number {
    let i = this.ids.get(text);
    if (i === undefined) {
      i = this.texts.length;
      // Control characters have no look, and those that turn the direction of writing could fake another name.
      this.texts.push(text.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, " "));
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
