/**
 * Lines: what comes as bytes, colours, smoothing, ranges, the nearest one. Pure: the tests import this in Node.
 *
 * @typedef {{ x: Float64Array, seconds: Float64Array, y: Float64Array, marks?: number[] }} Line points of a trial, by step and by
 *   seconds; `marks`: the steps after which a scheduler compared it
 */

/**
 * Read numbers out of a buffer, which may begin at any byte.
 * @template {Float32ArrayConstructor | Float64ArrayConstructor} T
 * @param {DataView | ArrayBuffer} buffer @param {T} type @returns {InstanceType<T>}
 */
export function floats(buffer, type) {
  const bytes = buffer instanceof ArrayBuffer ? buffer.slice(0) : buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength);
  const whole = bytes.byteLength - (bytes.byteLength % type.BYTES_PER_ELEMENT);
  return /** @type {InstanceType<T>} */ (new type(/** @type {ArrayBuffer} */ (bytes.slice(0, whole))));
}

/**
 * Cut numbers that came in one piece into those of each trial.
 * @template {Float32Array | Float64Array} A
 * @param {A} all @param {string[]} ids @param {number[]} lengths @returns {Map<string, A>}
 */
export function cut(all, ids, lengths) {
  let at = 0;
  return new Map(ids.map((id, index) => [id, /** @type {A} */ (all.slice(at, (at += lengths[index] ?? 0)))]));
}

/**
 * Smooth by a running mean without the bias of its start. Gaps stay gaps.
 * @param {Float64Array} y @param {number} weight from 0, which changes nothing, to below 1
 */
export function smooth(y, weight) {
  if (weight <= 0) return y;
  let [mean, count] = [0, 0];
  return y.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    count += 1;
    return mean / (1 - weight ** count);
  });
}

/** The index of the value in a sorted array that is nearest to another. @param {ArrayLike<number>} sorted @param {number} value */
export function nearest(sorted, value) {
  let [low, high] = [0, sorted.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return value - sorted[low] <= sorted[high] - value ? low : high;
}

/**
 * The range of a scale: from the 2nd to the 98th per cent of what is in sight, with a margin.
 * @param {number[]} values finite ones @param {{ log?: boolean, all?: boolean }} [options] @returns {[number, number]}
 */
export function range(values, { log = false, all = false } = {}) {
  const sorted = Float64Array.from(log ? values.filter((value) => value > 0) : values).sort();
  if (!sorted.length) return log ? [0.1, 1] : [0, 1];
  const [low, high] = all ? [sorted[0], sorted[sorted.length - 1]] : [at(sorted, 0.02), at(sorted, 0.98)];
  if (log) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
  const margin = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  const bottom = low >= 0 && low - margin < 0 ? 0 : low - margin;
  return [bottom, high + margin];
}

/** @param {Float64Array} sorted @param {number} share */
const at = (sorted, share) => sorted[Math.round(share * (sorted.length - 1))];

/**
 * Give each trial that is shown a colour, and keep that of before.
 * @param {Map<string, number>} slots changed in place: ids with the number of their colour @param {string[]} ids @param {number} [count]
 */
export function assign(slots, ids, count = 8) {
  const shown = ids.slice(0, count);
  for (const id of [...slots.keys()]) if (!shown.includes(id)) slots.delete(id);
  const free = Array.from({ length: count }, (_, slot) => slot).filter((slot) => ![...slots.values()].includes(slot));
  for (const id of shown) if (!slots.has(id)) slots.set(id, free.shift() ?? 0);
  return slots;
}

/** The names of which two maps do not say the same. @param {Map<string, string>} before @param {Map<string, string>} now */
export const differing = (before, now) => [...new Set([...before.keys(), ...now.keys()])].filter((name) => before.get(name) !== now.get(name));

/**
 * Move labels apart that would lie on each other. @param {number[]} tops sorted or not @param {number} height of a label @param {number} bottom
 * @returns {number[]} in the order of `tops`
 */
export function spread(tops, height, bottom) {
  const order = tops.map((top, index) => ({ top, index })).sort((a, b) => a.top - b.top);
  let next = -Infinity;
  for (const label of order) next = (label.top = Math.max(label.top, next)) + height;
  let limit = bottom - height;
  for (const label of order.reverse()) {
    label.top = Math.min(label.top, limit);
    limit = label.top - height;
  }
  return order.sort((a, b) => a.index - b.index).map((label) => label.top);
}

/**
 * Thin a line for drawing: keep the least and the largest value of each piece.
 * @param {ArrayLike<number>} y @param {number} most @returns {number[]} the indices that stay
 */
export function thin(y, most) {
  if (y.length <= most) return Array.from({ length: y.length }, (_, index) => index);
  const pieces = Math.floor(most / 2);
  const kept = new Set([0, y.length - 1]);
  for (let piece = 0; piece < pieces; piece += 1) {
    const [from, to] = [Math.floor((piece * y.length) / pieces), Math.floor(((piece + 1) * y.length) / pieces)];
    let [low, high] = [from, from];
    for (let index = from; index < to; index += 1) {
      if (y[index] < y[low]) low = index;
      if (y[index] > y[high]) high = index;
    }
    kept.add(low).add(high);
  }
  return [...kept].sort((a, b) => a - b);
}
