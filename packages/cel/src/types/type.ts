/** The types without parameters, such as scalars. */
export type SimpleKind = 'bool' | 'int' | 'uint' | 'double' | 'string' | 'bytes' | 'null' | 'timestamp' | 'duration' | 'dyn' | 'error';

export type Type =
  | { readonly kind: SimpleKind }
  | { readonly kind: 'list'; readonly element: Type }
  | { readonly kind: 'map'; readonly key: Type; readonly value: Type }
  | ObjectType
  | { readonly kind: 'opaque'; readonly name: string; readonly parameter?: Type }
  | { readonly kind: 'type'; readonly of?: Type }
  | { readonly kind: 'param'; readonly name: string };

/** A struct type. Fields are resolved on first use, so that types can be recursive. */
export interface ObjectType {
  readonly kind: 'object';
  readonly name: string;
  /** Returns the type of a field by its escaped name; undefined if the struct has no such field. */
  field(name: string): Type | undefined;
  readonly fields: () => Iterable<string>;
}

const simple = <K extends SimpleKind>(kind: K): { readonly kind: K } => Object.freeze({ kind });

export const bool: Type = simple('bool');
export const int: Type = simple('int');
export const uint: Type = simple('uint');
export const double: Type = simple('double');
export const string: Type = simple('string');
export const bytes: Type = simple('bytes');
export const nullType: Type = simple('null');
export const timestamp: Type = simple('timestamp');
export const duration: Type = simple('duration');
export const dyn: Type = simple('dyn');
/** The type of an expression for which an issue has already been reported. */
export const error: Type = simple('error');
export const list = (element: Type): Type => ({ kind: 'list', element });
export const map = (key: Type, value: Type): Type => ({ kind: 'map', key, value });
export const param = (name: string): Type => ({ kind: 'param', name });
export const opaque = (name: string, parameter?: Type): Type => ({ kind: 'opaque', name, ...(parameter && { parameter }) });
export const typeOf = (of?: Type): Type => ({ kind: 'type', ...(of && { of }) });
export const optional = (of: Type): Type => opaque('optional_type', of);
export const object = (name: string, fields: Readonly<Record<string, Type>>): ObjectType => {
  const known = new Map(Object.entries(fields));
  return { kind: 'object', name, field: (field) => known.get(field), fields: () => known.keys() };
};

export const optionalOf = (type: Type): Type | undefined =>
  type.kind === 'opaque' && type.name === 'optional_type' ? type.parameter : undefined;

const names: Partial<Record<Type['kind'], string>> = {
  timestamp: 'google.protobuf.Timestamp',
  duration: 'google.protobuf.Duration',
  error: '!error!',
};

/** Formats a type as in the messages of cel-go: `list(map(string, int))`. */
export function formatType(type: Type): string {
  switch (type.kind) {
    case 'list':
      return `list(${formatType(type.element)})`;
    case 'map':
      return `map(${formatType(type.key)}, ${formatType(type.value)})`;
    case 'object':
      return type.name;
    case 'opaque':
      return type.parameter === undefined ? type.name : `${type.name}(${formatType(type.parameter)})`;
    case 'type':
      return type.of === undefined ? 'type' : `type(${formatType(type.of)})`;
    case 'param':
      return type.name;
    default:
      return names[type.kind] ?? type.kind;
  }
}

/** The types that type parameters are bound to, by parameter name. */
export type Substitution = Map<string, Type>;

export function substitute(type: Type, by: Substitution, open: Type | undefined = undefined): Type {
  switch (type.kind) {
    case 'param': {
      const known = by.get(type.name);
      return known === undefined ? (open ?? type) : substitute(known, by, open);
    }
    case 'list': {
      const element = substitute(type.element, by, open);
      return element === type.element ? type : list(element);
    }
    case 'map': {
      const [key, value] = [substitute(type.key, by, open), substitute(type.value, by, open)];
      return key === type.key && value === type.value ? type : map(key, value);
    }
    case 'opaque':
      return type.parameter === undefined ? type : opaque(type.name, substitute(type.parameter, by, open));
    case 'type':
      return type.of === undefined ? type : typeOf(substitute(type.of, by, open));
    default:
      return type;
  }
}

function occurs(name: string, type: Type, by: Substitution): boolean {
  switch (type.kind) {
    case 'param': {
      if (type.name === name) return true;
      const known = by.get(type.name);
      return known !== undefined && occurs(name, known, by);
    }
    case 'list':
      return occurs(name, type.element, by);
    case 'map':
      return occurs(name, type.key, by) || occurs(name, type.value, by);
    case 'opaque':
      return type.parameter !== undefined && occurs(name, type.parameter, by);
    case 'type':
      return type.of !== undefined && occurs(name, type.of, by);
    default:
      return false;
  }
}

const nullable = (type: Type) =>
  type.kind === 'object' || type.kind === 'timestamp' || type.kind === 'duration' || type.kind === 'opaque' || type.kind === 'null';

/**
 * Returns true if a value of type `actual` can be used where `wanted` is declared, and binds type parameters in `by`. `dyn` is compatible
 * with every type.
 */
export function assignable(wanted: Type, actual: Type, by: Substitution): boolean {
  if (wanted === actual) return true;
  if (wanted.kind === 'param') {
    const known = by.get(wanted.name);
    if (known !== undefined) {
      if (!assignable(known, actual, by)) return known.kind === 'param' || assignable(actual, known, by);
      // keep the more general type
      if (actual.kind === 'dyn' && known.kind !== 'dyn') by.set(wanted.name, actual);
      return true;
    }
    if (actual.kind === 'param' && actual.name === wanted.name) return true;
    if (occurs(wanted.name, actual, by)) return false;
    by.set(wanted.name, actual);
    return true;
  }
  if (actual.kind === 'param') {
    const known = by.get(actual.name);
    if (known !== undefined) return assignable(wanted, known, by);
    if (occurs(actual.name, wanted, by)) return false;
    by.set(actual.name, wanted);
    return true;
  }
  if (wanted.kind === 'dyn' || actual.kind === 'dyn' || wanted.kind === 'error' || actual.kind === 'error') return true;
  if (actual.kind === 'null') return nullable(wanted);
  if (wanted.kind === 'null') return nullable(actual);
  if (wanted.kind !== actual.kind) return false;
  switch (wanted.kind) {
    case 'list':
      return actual.kind === 'list' && assignable(wanted.element, actual.element, by);
    case 'map':
      return actual.kind === 'map' && assignable(wanted.key, actual.key, by) && assignable(wanted.value, actual.value, by);
    case 'object':
      return actual.kind === 'object' && wanted.name === actual.name;
    case 'opaque':
      return (
        actual.kind === 'opaque' &&
        wanted.name === actual.name &&
        (wanted.parameter === undefined || actual.parameter === undefined || assignable(wanted.parameter, actual.parameter, by))
      );
    default:
      return true;
  }
}
