import type { Json } from '@oarlock/api/json/json';
import { CelError } from './cel-error.ts';
import { formatSeconds, formatTimestamp } from './time-text.ts';
import { Double, Duration, FieldMap, isList, isMap, itemsOf, mapGet, mapKeys, Timestamp, Uint, type Value } from './value.ts';

const maxNodes = 1_000_000;

/**
 * Converts a CEL value to JSON, so that the result of an expression can be stored.
 * @throws CelError with code `invalid-argument` if a value has no JSON form
 */
export function toJson(value: Value, entered: (struct: FieldMap, path: readonly string[]) => void = () => {}): Json {
  let left = maxNodes;
  const visit = (each: Value | undefined, path: readonly string[]): Json => {
    if (--left < 0) throw new CelError('out-of-range', 'the value is too large');
    switch (typeof each) {
      case 'undefined':
        return null;
      case 'string':
      case 'boolean':
        return each;
      case 'number':
        if (!Number.isFinite(each)) throw new CelError('invalid-argument', `${each} is not supported in JSON`);
        return each;
      case 'bigint':
        return Number(each);
      default:
        break;
    }
    if (each === null) return null;
    if (each instanceof Double) return each.value;
    if (each instanceof Uint) return Number(each.value);
    if (each instanceof Timestamp) return formatTimestamp(each);
    if (each instanceof Duration) return formatSeconds(each);
    if (each instanceof Uint8Array) return Buffer.from(each).toString('base64');
    if (isList(each)) return itemsOf(each).map((item) => visit(item, path));
    if (!isMap(each)) throw new CelError('invalid-argument', 'type conversion error: the value has no JSON form');
    if (each instanceof FieldMap) entered(each, path);
    const result: Record<string, Json> = {};
    for (const key of mapKeys(each)) {
      if (typeof key !== 'string' || key === '__proto__') throw new CelError('invalid-argument', `unsupported map key: ${String(key)}`);
      result[key] = visit(mapGet(each, key), [...path, key]);
    }
    return result;
  };
  return visit(value, []);
}
