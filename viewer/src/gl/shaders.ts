/** How marks are shaded; edges are smoothed by distance, so no multisampling is needed. */

const HEAD = `#version 300 es
precision highp float;
`;

// Positions come in device pixels.
const PLACE = `
uniform vec2 uSize;
void place(vec2 device) { vec2 o = device / uSize * 2.0 - 1.0; gl_Position = vec4(o.x, -o.y, 0.0, 1.0); }
`;

export const FILL_VS = `${HEAD}${PLACE}
layout(location=0) in vec2 aAt;
layout(location=1) in vec4 aColor;
flat out vec4 vColor;
void main() { vColor = aColor; place(aAt); }`;

export const FILL_FS = `${HEAD}
flat in vec4 vColor;
out vec4 color;
void main() { color = vColor; }`;

export const BOX_VS = `${HEAD}${PLACE}
layout(location=0) in vec2 aMiddle;
layout(location=1) in vec2 aAt; // from the middle
layout(location=2) in vec2 aHalf;
layout(location=3) in vec4 aParam; // radius, stripe, border, pattern
layout(location=4) in vec4 aFill;
layout(location=5) in vec4 aBorder;
layout(location=6) in vec4 aStripe;
out vec2 vAt; flat out vec2 vHalf; flat out vec4 vParam; flat out vec4 vFill; flat out vec4 vBorder; flat out vec4 vStripe;
void main() {
  vAt = aAt; vHalf = aHalf; vParam = aParam; vFill = aFill; vBorder = aBorder; vStripe = aStripe;
  place(aMiddle + aAt);
}`;

export const BOX_FS = `${HEAD}
in vec2 vAt; flat in vec2 vHalf; flat in vec4 vParam; flat in vec4 vFill; flat in vec4 vBorder; flat in vec4 vStripe;
out vec4 color;
void main() {
  float r = min(vParam.x, min(vHalf.x, vHalf.y));
  vec2 q = abs(vAt) - vHalf + r;
  float d = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - r;
  float shape = clamp(0.5 - d, 0.0, 1.0);
  vec4 c = vFill;
  if (vParam.w > 0.5) { float s = mod(vAt.x + vAt.y, 8.0); c.rgb = mix(c.rgb, vStripe.rgb, s < 1.6 ? 0.28 : 0.0); }
  if (vParam.y > 0.0) c = mix(c, vStripe, clamp(vParam.y - (vAt.x + vHalf.x) + 0.5, 0.0, 1.0) * vStripe.a);
  float b = vParam.z > 0.0 ? clamp(d + vParam.z + 0.5, 0.0, 1.0) * vBorder.a : 0.0;
  vec4 o = vec4(mix(c.rgb, vBorder.rgb, b), mix(c.a, 1.0, b));
  if (vFill.a < 1.0) o.a = mix(c.a, vBorder.a, b > 0.0 ? b : 0.0);
  float a = o.a * shape;
  color = vec4(o.rgb * a, a);
}`;

export const STROKE_VS = `${HEAD}${PLACE}
layout(location=0) in vec2 aAt;
layout(location=1) in vec2 aSide; // distance from the middle line, half width
layout(location=2) in vec4 aColor;
out vec2 vSide; flat out vec4 vColor;
void main() { vSide = aSide; vColor = aColor; place(aAt); }`;

export const STROKE_FS = `${HEAD}
in vec2 vSide; flat in vec4 vColor;
out vec4 color;
void main() {
  float a = clamp(vSide.y - abs(vSide.x) + 0.5, 0.0, 1.0) * vColor.a;
  color = vec4(vColor.rgb * a, a);
}`;

export const TEXT_VS = `${HEAD}${PLACE}
uniform float uAtlas;
layout(location=0) in vec2 aAt;
layout(location=1) in vec2 aTexel;
layout(location=2) in vec4 aColor;
layout(location=3) in float aColored;
out vec2 vTexel; flat out vec4 vColor; flat out float vColored;
void main() { vTexel = aTexel / uAtlas; vColor = aColor; vColored = aColored; place(aAt); }`;

export const TEXT_FS = `${HEAD}
uniform sampler2D uTexture;
in vec2 vTexel; flat in vec4 vColor; flat in float vColored;
out vec4 color;
void main() {
  vec4 t = texture(uTexture, vTexel);
  if (vColored > 0.5) { color = vec4(t.rgb * t.a, t.a) * vColor.a; return; }
  float a = t.a * vColor.a;
  color = vec4(vColor.rgb * a, a);
}`;
