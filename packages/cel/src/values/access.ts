import { CelError, noSuchOverload } from './cel-error.ts';
import { FieldMap, isList, isMap, itemsOf, kindOf, mapGet, type Value } from './value.ts';

/**
 * Returns a field of a map or object, or undefined if the field is absent.
 * @throws CelError with code `no-such-overload` if `operand` cannot have fields
 */
export function fieldOf(operand: Value, field: string): Value | undefined {
  if (typeof operand === 'object' && operand !== null) {
    if (Object.getPrototypeOf(operand) === Object.prototype)
      return Object.hasOwn(operand, field) ? (operand as Record<string, Value>)[field] : undefined;
    if (operand instanceof FieldMap) return operand.source.get(field);
    if (isMap(operand)) return mapGet(operand, field);
  }
  if (operand === null) return undefined;
  throw noSuchOverload();
}

/**
 * Returns `operand[index]`, or undefined if there is no such element.
 * @throws CelError if `operand` cannot be indexed or the index has the wrong type
 */
export function elementOf(operand: Value, index: Value): Value | undefined {
  if (isList(operand)) {
    const items = itemsOf(operand);
    const at = positionOf(index);
    return at < 0 || at >= items.length ? undefined : items[at];
  }
  if (isMap(operand)) {
    const kind = kindOf(index);
    if (kind !== 'string' && kind !== 'int' && kind !== 'uint' && kind !== 'bool' && kind !== 'double') throw noSuchOverload();
    return mapGet(operand, index);
  }
  throw noSuchOverload();
}
function positionOf(index: Value): number {
  switch (kindOf(index)) {
    case 'int':
      return Number(index);
    case 'uint':
      return Number((index as { readonly value: bigint }).value);
    case 'double': {
      const at = typeof index === 'number' ? index : (index as { readonly value: number }).value;
      if (!Number.isInteger(at)) throw new CelError('invalid-argument', `unsupported index value: ${at}`);
      return at;
    }
    default:
      throw noSuchOverload();
  }
}
