import { goSyntax, goText, goTypeOf } from '../../json/go-print.ts';
import { elementText } from './field-path.ts';
import type { FieldType, ListType, MapType } from '../field-type.ts';
import { listItemToPathElement, ListItemError } from './list-items.ts';
import { asList, asMap, formOf, type Members } from './typed-value.ts';

/** The maximum number of errors that one message lists. */
const maxFaults = 100;

/**
 * Returns an error message that lists the fields of an apply configuration whose values do not conform to the type, in Kubernetes' words;
 * undefined if the configuration is valid.
 */
export function typeErrors(type: FieldType, value: unknown): string | undefined {
  const faults: string[] = [];
  new Check(faults).value(type, value, '');
  if (faults.length === 0) return undefined;
  return faults.length === 1 ? faults[0] : `errors:\n${faults.map((fault) => `  ${fault}`).join('\n')}`;
}

class Check {
  readonly #faults: string[];
  constructor(faults: string[]) {
    this.#faults = faults;
  }

  #fault(path: string, message: string): void {
    if (this.#faults.length < maxFaults) this.#faults.push(path === '' ? message : `${path}: ${message}`);
  }

  value(type: FieldType, value: unknown, path: string): void {
    if (value === undefined || value === null) return;
    switch (formOf(type, value)) {
      case 'map':
        return this.#map(type.map, value, path);
      case 'list':
        return this.#list(type.list, value, path);
      case 'scalar':
        return this.#scalar(type.scalar, value, path);
    }
  }

  #scalar(scalar: FieldType['scalar'], value: unknown, path: string): void {
    const found = typeof value === 'bigint' ? 'number' : typeof value;
    if (found === scalar) return;
    if (scalar === 'number') this.#fault(path, `expected numeric (int or float), got ${goTypeOf(value)}`);
    else if (scalar === 'untyped') {
      if (found === 'object') this.#fault(path, `expected any scalar, got ${goUnstructured(value)}`);
    } else this.#fault(path, `expected ${scalar ?? ''}, got &value.valueUnstructured{Value:${goSyntax(value)}}`);
  }

  #map(map: MapType | undefined, value: unknown, path: string): void {
    const members = asMap(value);
    if (map === undefined || members === undefined) return this.#fault(path, `expected map, got ${goUnstructured(value)}`);
    this.#members(map, members, path);
  }

  #members({ fields, values }: MapType, members: Members, path: string): void {
    for (const key of Object.keys(members)) {
      const type = fields.get(key)?.type ?? values;
      const below = `${path}${elementText(`f:${key}`)}`;
      if (type === undefined) this.#fault(below, 'field not declared in schema');
      else this.value(type, members[key], below);
    }
  }

  #list(list: ListType | undefined, value: unknown, path: string): void {
    const items = asList(value);
    if (list === undefined || items === undefined) return this.#fault(path, `expected list, got ${goUnstructured(value)}`);
    const seen = new Set<string>();
    for (const [i, item] of items.entries()) {
      let below = `${path}[${i}]`;
      if (list.relation !== 'atomic') {
        const element = listItemToPathElement(list, item);
        if (element instanceof ListItemError) {
          this.#fault(path, `element ${i}: ${element.message}`);
          continue;
        }
        if (seen.has(element)) this.#fault(path, `duplicate entries for key ${elementText(element)}`);
        seen.add(element);
        below = path + elementText(element);
      }
      this.value(list.items, item, below);
    }
  }
}

const goUnstructured = (value: unknown): string => `&{${goText(value)}}`;
