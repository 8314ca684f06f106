/** How plain elements are made: text is always text, so no name in a file can become markup. */

type Attributes = Readonly<Record<string, string | number | boolean | ((e: Event) => void)>>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") out.addEventListener(name, value);
    else if (value === true) out.setAttribute(name, "");
    else if (value !== false) out.setAttribute(name, String(value));
  }
  out.append(...children);
  return out;
}
