/** Decides how boxes, curves and texts are shaded; all edges are smoothed by distance, no multisampling. */

const HEAD = `#version 300 es
precision highp float;
precision highp int;
`;

export const BOX_VS = `${HEAD}
uniform vec2 uSize; uniform float uRatio;
layout(location=0) in vec4 aRect;
layout(location=1) in vec4 aParam; // radius, stripe, border, pattern
layout(location=2) in vec4 aFill;
layout(location=3) in vec4 aBorder;
layout(location=4) in vec4 aStripe;
out vec2 vAt; flat out vec2 vHalf; flat out vec4 vParam; flat out vec4 vFill; flat out vec4 vBorder; flat out vec4 vStripe;
void main() {
  vec2 c = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 half_ = aRect.zw * 0.5 * uRatio;
  vec2 mid = (aRect.xy + aRect.zw * 0.5) * uRatio;
  // Corners on whole pixels keep thin borders crisp; boxes under a few pixels stay where they are.
  if (half_.y > 4.0 && aParam.z > 0.0) { vec2 a = floor(mid - half_ + 0.5), b = floor(mid + half_ + 0.5); mid = (a + b) * 0.5; half_ = (b - a) * 0.5; }
  vec2 reach = half_ + 1.0;
  vAt = (c * 2.0 - 1.0) * reach;
  vHalf = half_; vParam = vec4(aParam.xyz * uRatio, aParam.w); vFill = aFill; vBorder = aBorder; vStripe = aStripe;
  vec2 p = (mid + vAt) / (uSize * uRatio) * 2.0 - 1.0;
  gl_Position = vec4(p.x, -p.y, 0.0, 1.0);
}`;

export const BOX_FS = `${HEAD}
in vec2 vAt; flat in vec2 vHalf; flat in vec4 vParam; flat in vec4 vFill; flat in vec4 vBorder; flat in vec4 vStripe;
out vec4 color;
void main() {
  float r = min(vParam.x, min(vHalf.x, vHalf.y));
  vec2 q = abs(vAt) - vHalf + r;
  float d = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - r;
  float shape = clamp(0.5 - d, 0.0, 1.0);
  if (shape <= 0.0) discard;
  vec4 c = vFill;
  if (vParam.w > 0.5) { float s = mod(vAt.x + vAt.y, 8.0); c.rgb = mix(c.rgb, vStripe.rgb, s < 1.6 ? 0.28 : 0.0); }
  if (vParam.y > 0.0) c = mix(c, vStripe, clamp(vParam.y - (vAt.x + vHalf.x) + 0.5, 0.0, 1.0) * vStripe.a);
  float b = vParam.z > 0.0 ? clamp(d + vParam.z + 0.5, 0.0, 1.0) * vBorder.a : 0.0;
  vec4 o = vec4(mix(c.rgb, vBorder.rgb, b), mix(c.a, 1.0, b));
  if (vFill.a < 1.0) o.a = mix(c.a, vBorder.a, b > 0.0 ? b : 0.0);
  float a = o.a * shape;
  color = vec4(o.rgb * a, a);
}`;

export const CURVE_VS = `${HEAD}
uniform vec2 uSize; uniform float uRatio; uniform float uSteps;
layout(location=0) in vec4 aA; // p0, c0
layout(location=1) in vec4 aB; // c1, p1
layout(location=2) in vec2 aWidth;
layout(location=3) in vec4 aColor;
out float vSide; flat out vec4 vColor; out float vHalf;
void main() {
  float t = float(gl_VertexID >> 1) / uSteps;
  float side = float(gl_VertexID & 1) * 2.0 - 1.0;
  vec2 p0 = aA.xy, c0 = aA.zw, c1 = aB.xy, p1 = aB.zw;
  float u = 1.0 - t;
  vec2 p = p0*(u*u*u) + c0*(3.0*u*u*t) + c1*(3.0*u*t*t) + p1*(t*t*t);
  vec2 d = (c0-p0)*(u*u) + (c1-c0)*(2.0*u*t) + (p1-c1)*(t*t);
  if (dot(d, d) < 1e-6) d = p1 - p0;
  if (dot(d, d) < 1e-6) d = vec2(0.0, 1.0);
  d = normalize(d);
  float w = mix(aWidth.x, aWidth.y, t) * 0.5 * uRatio;
  float reach = w + 1.0;
  vec2 n = vec2(-d.y, d.x);
  vec2 at = p * uRatio + n * side * reach;
  vSide = side * reach; vHalf = w; vColor = aColor;
  vec2 o = at / (uSize * uRatio) * 2.0 - 1.0;
  gl_Position = vec4(o.x, -o.y, 0.0, 1.0);
}`;

export const CURVE_FS = `${HEAD}
in float vSide; flat in vec4 vColor; in float vHalf;
out vec4 color;
void main() {
  float a = clamp(vHalf - abs(vSide) + 0.5, 0.0, 1.0) * vColor.a;
  color = vec4(vColor.rgb * a, a);
}`;

export const TEXT_VS = `${HEAD}
uniform vec2 uSize; uniform float uRatio; uniform float uAtlas;
layout(location=0) in vec4 aRect; // device pixels
layout(location=1) in vec4 aTexel;
layout(location=2) in vec4 aColor;
layout(location=3) in float aColored;
out vec2 vTexel; flat out vec4 vColor; flat out float vColored;
void main() {
  vec2 c = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vTexel = (aTexel.xy + c * aTexel.zw) / uAtlas;
  vColor = aColor; vColored = aColored;
  vec2 o = (aRect.xy + c * aRect.zw) / (uSize * uRatio) * 2.0 - 1.0;
  gl_Position = vec4(o.x, -o.y, 0.0, 1.0);
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
