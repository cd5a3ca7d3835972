// The data: base64 of gzip of a JSON text and the bytes of arrays; see _payload.py.
const NONE = 0xffff;

/** Unpacks the block; returns the JSON with an array in place of each description. */
async function readPayload(text) {
  const packed = bytesOf(text.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const plain = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(plain.buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(plain.subarray(4, 4 + length)));
  const base = 4 + length;
  for (const [name, place] of Object.entries(data.arrays)) {
    data.arrays[name] = unshuffled(plain, base + place.start, place.count, place.type);
  }
  return data;
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** An array whose first bytes come first, then all second bytes, and so on. */
function unshuffled(bytes, start, count, type) {
  const Kind = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array }[type];
  const size = Kind.BYTES_PER_ELEMENT;
  if (size === 1) return bytes.slice(start, start + count);
  const out = new Uint8Array(count * size);
  for (let place = 0; place < size; place++) {
    const from = start + place * count;
    for (let i = 0, to = place; i < count; i++, to += size) out[to] = bytes[from + i];
  }
  return new Kind(out.buffer);
}

/** Frames, stored as differences modulo 2^16, as the whole values. */
function undoDifferences(values, n) {
  for (let i = n; i < values.length; i++) values[i] = values[i] + values[i - n];
  return values;
}

/** Coordinates of frame f: one Float32Array for each dimension. */
function coordinates(codes, f, n, d, range) {
  const out = [];
  for (let axis = 0; axis < d; axis++) {
    const from = (f * d + axis) * n;
    const low = range.low[axis];
    const step = (range.high[axis] - low) / 0xffff;
    const points = new Float32Array(n);
    for (let i = 0; i < n; i++) points[i] = low + step * codes[from + i];
    out.push(points);
  }
  return out;
}
