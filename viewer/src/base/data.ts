/** Where the page's recording comes from: inside the page, or from the server that served it. */

/** The recording embedded by `glasshouse html`; null when there is none. */
export function embedded(doc: Document): Uint8Array | null {
  const text = doc.getElementById("glass-data")?.textContent?.trim();
  return text ? fromBase64(text) : null;
}

type NativeBase64 = { fromBase64?: (text: string) => Uint8Array };

export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as NativeBase64).fromBase64;
  if (native) return native(text);
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < out.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}
