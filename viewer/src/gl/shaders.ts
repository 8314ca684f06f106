/** Decides how marks are shaded. Marks lie in a data texture and vertices fetch what they need by number. */

// Plain triangles with fetched data rather than instanced attributes: a software renderer runs every
// instance as a draw of its own, some 30 µs each, and 1,600 marks would take a whole frame.
// All edges are smoothed by distance, so no multisampling is needed.
const HEAD = `#version 300 es
precision highp float;
precision highp int;
`;

const VERTEX = `${HEAD}
precision highp usampler2D;
uniform usampler2D uData; uniform int uFirst; uniform vec2 uSize; uniform float uRatio;
uvec4 word(int i) { return texelFetch(uData, ivec2(i & 1023, i >> 10), 0); }
vec4 number4(int i) { return uintBitsToFloat(word(i)); }
vec4 color4(uint c) { return vec4(c & 255u, (c >> 8) & 255u, (c >> 16) & 255u, c >> 24) / 255.0; }
// Two triangles from six vertices: corners 0 1 2, 2 1 3.
vec2 corner(int v) { int k = v < 3 ? v : v == 3 ? 2 : v == 4 ? 1 : 3; return vec2(k & 1, k >> 1); }
void place(vec2 device) { vec2 o = device / (uSize * uRatio) * 2.0 - 1.0; gl_Position = vec4(o.x, -o.y, 0.0, 1.0); }
`;

const boxVertex = (vertices: number, at: string): string => `${VERTEX}
out vec2 vAt; flat out vec2 vHalf; flat out vec4 vParam; flat out vec4 vFill; flat out vec4 vBorder; flat out vec4 vStripe;
void main() {
  int i = (uFirst + gl_VertexID / ${vertices}) * 3, v = gl_VertexID % ${vertices};
  vec4 rect = number4(i), param = number4(i + 1); // radius, stripe, border, pattern
  uvec4 colors = word(i + 2);
  vec2 half_ = rect.zw * 0.5 * uRatio;
  vec2 mid = (rect.xy + rect.zw * 0.5) * uRatio;
  // Corners on whole pixels keep thin borders crisp; boxes under a few pixels stay where they are.
  if (half_.y > 4.0 && param.z > 0.0) { vec2 a = floor(mid - half_ + 0.5), b = floor(mid + half_ + 0.5); mid = (a + b) * 0.5; half_ = (b - a) * 0.5; }
  vec2 reach = half_ + 1.0;
  ${at}
  vHalf = half_; vParam = vec4(param.xyz * uRatio, param.w);
  vFill = color4(colors.x); vBorder = color4(colors.y); vStripe = color4(colors.z);
  place(mid + vAt);
}`;

export const BOX_VERTICES = 6;
export const BOX_VS = boxVertex(BOX_VERTICES, "vAt = (corner(v) * 2.0 - 1.0) * reach;");

/** The same box, but only a band along its border: four trapezoids between outer and inner corners. */
export const RING_VERTICES = 24;
export const RING_VS = boxVertex(RING_VERTICES, `
  float band = ceil((param.x + param.z) * uRatio) + 2.0;
  vec2 c = corner(v % 6); // x: along the side, y: inner
  int k = (v / 6 + int(c.x)) & 3;
  vec2 turn = vec2(k == 1 || k == 2 ? 1.0 : -1.0, k >= 2 ? 1.0 : -1.0);
  vAt = turn * mix(reach, max(half_ - band, 0.0), c.y);`);

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

export const FILL_VERTICES = 6;
export const FILL_VS = `${VERTEX}
flat out vec4 vColor;
void main() {
  int i = (uFirst + gl_VertexID / 6) * 2;
  vec4 rect = number4(i);
  vColor = color4(word(i + 1).x);
  place((rect.xy + corner(gl_VertexID % 6) * rect.zw) * uRatio);
}`;

export const FILL_FS = `${HEAD}
flat in vec4 vColor;
out vec4 color;
void main() { color = vColor; }`;

const STROKE_OUT = `out float vSide; flat out vec4 vColor; out float vHalf;`;

export const LINE_VERTICES = 6;
export const LINE_VS = `${VERTEX}
${STROKE_OUT}
void main() {
  int i = (uFirst + gl_VertexID / 6) * 2;
  vec4 ends = number4(i), more = number4(i + 1); // widths, colour
  vec2 c = corner(gl_VertexID % 6);
  vec2 d = ends.zw - ends.xy;
  d = dot(d, d) < 1e-6 ? vec2(0.0, 1.0) : normalize(d);
  float w = mix(more.x, more.y, c.x) * 0.5 * uRatio;
  vSide = (c.y * 2.0 - 1.0) * (w + 1.0); vHalf = w; vColor = color4(word(i + 1).z);
  place(mix(ends.xy, ends.zw, c.x) * uRatio + vec2(-d.y, d.x) * vSide);
}`;

export const CURVE_VS = `${VERTEX}
uniform int uSteps;
${STROKE_OUT}
void main() {
  int each = uSteps * 6, v = gl_VertexID % each;
  int i = (uFirst + gl_VertexID / each) * 3;
  vec4 A = number4(i), B = number4(i + 1), more = number4(i + 2);
  vec2 c = corner(v % 6);
  // Samples gather at the ends, where a wide S-curve turns.
  float t = 0.5 - 0.5 * cos(3.14159265 * (float(v / 6) + c.x) / float(uSteps));
  vec2 p0 = A.xy, c0 = A.zw, c1 = B.xy, p1 = B.zw;
  float u = 1.0 - t;
  vec2 p = p0*(u*u*u) + c0*(3.0*u*u*t) + c1*(3.0*u*t*t) + p1*(t*t*t);
  vec2 d = (c0-p0)*(u*u) + (c1-c0)*(2.0*u*t) + (p1-c1)*(t*t);
  if (dot(d, d) < 1e-6) d = p1 - p0;
  d = dot(d, d) < 1e-6 ? vec2(0.0, 1.0) : normalize(d);
  float w = mix(more.x, more.y, t) * 0.5 * uRatio;
  vSide = (c.y * 2.0 - 1.0) * (w + 1.0); vHalf = w; vColor = color4(word(i + 2).z);
  place(p * uRatio + vec2(-d.y, d.x) * vSide);
}`;

export const STROKE_FS = `${HEAD}
in float vSide; flat in vec4 vColor; in float vHalf;
out vec4 color;
void main() {
  float a = clamp(vHalf - abs(vSide) + 0.5, 0.0, 1.0) * vColor.a;
  color = vec4(vColor.rgb * a, a);
}`;

export const TEXT_VERTICES = 6;
export const TEXT_VS = `${VERTEX}
uniform float uAtlas;
out vec2 vTexel; flat out vec4 vColor; flat out float vColored;
void main() {
  int i = (uFirst + gl_VertexID / 6) * 3;
  vec4 rect = number4(i), texel = number4(i + 1); // device pixels, texels
  uvec4 more = word(i + 2);
  vec2 c = corner(gl_VertexID % 6);
  vTexel = (texel.xy + c * texel.zw) / uAtlas;
  vColor = color4(more.x); vColored = float(more.y);
  place(rect.xy + c * rect.zw);
}`;

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
