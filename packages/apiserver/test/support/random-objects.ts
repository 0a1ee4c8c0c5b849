import type { KubeObject } from '@oarlock/api/object';
import { messageOf, type FieldDescriptor, type MessageDescriptor } from '../../src/endpoints/negotiation/internal/protobuf-messages.ts';

const maxDepth = 6;

/**
 * Returns an object of a kind with a random subset of its fields. No field has a value that protobuf cannot distinguish from absence. Equal
 * seeds return equal objects.
 */
export function randomObject(apiVersion: string, kind: string, seed: number): KubeObject {
  const message = messageOf(apiVersion, kind);
  if (message === undefined) throw new Error(`no message for ${apiVersion} ${kind}`);
  return { kind, apiVersion, ...new Maker(seed).members(message, 0) };
}

class Maker {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** The mulberry32 generator. */
  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
  #below(limit: number): number {
    return Math.floor(this.#next() * limit);
  }
  #one<T>(values: readonly T[]): T {
    return values[this.#below(values.length)] as T;
  }

  members({ byName, inlined }: MessageDescriptor, depth: number): Record<string, unknown> {
    const created: Record<string, unknown> = {};
    for (const field of inlined) Object.assign(created, this.members(field.message(), depth + 1));
    for (const [name, field] of byName) {
      if (
        this.#next() > (depth < 2 ? 0.9 : 0.5) ||
        (depth >= maxDepth && (field.type === 'message' || field.type.startsWith('JSONSchema')))
      )
        continue;
      created[name] = this.#field(field, depth);
    }
    return created;
  }

  #field(field: FieldDescriptor, depth: number): unknown {
    if (field.map)
      return Object.fromEntries(
        Array.from({ length: 1 + this.#below(3) }, (_, i) => [`${i}/${this.#text()}`, this.#value(field, depth, true)]),
      );
    if (field.repeated) return Array.from({ length: 1 + this.#below(3) }, () => this.#value(field, depth, true));
    return this.#value(field, depth, field.keepsZero);
  }

  #value(field: FieldDescriptor, depth: number, zeros: boolean): unknown {
    switch (field.type) {
      case 'string':
        return zeros && this.#next() < 0.2 ? '' : this.#text();
      case 'bytes':
        return Buffer.from(this.#text()).toString('base64');
      case 'bool':
        return zeros ? this.#next() < 0.5 : true;
      case 'int32':
        return this.#one([...(zeros ? [0] : []), 1, -1, 127, 128, 65_536, 2 ** 31 - 1, -(2 ** 31)]);
      case 'int64':
        return this.#one([...(zeros ? [0] : []), 1, -1, 2 ** 31, 2 ** 32, -(2 ** 40), Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]);
      case 'double':
        return this.#one([0.5, -1.25, 1e300]);
      case 'Quantity':
        return this.#one(['0', '1', '100m', '1Gi', '12e6']);
      case 'Time':
        return this.#one(['2026-01-31T23:59:59Z', '1970-01-01T00:00:00Z', '1901-02-03T04:05:06Z', '2199-12-31T00:00:00Z']);
      case 'MicroTime':
        return this.#one(['2026-01-31T23:59:59.000000Z', '1969-12-31T23:59:59.999999Z', '2026-01-31T23:59:59.012345Z']);
      case 'IntOrString':
        return this.#one([0, 80, -1, '50%', '']);
      case 'FieldsV1':
        return { 'f:spec': { 'k:{"name":"ü"}': { '.': {} } } };
      case 'RawExtension':
      case 'JSON':
        return this.#one<unknown>([{ a: [1, 'ü', null, { b: {} }] }, ...(field.type === 'JSON' ? ['text', 0, false, []] : [])]);
      case 'ExtraValue':
      case 'Verbs':
        return [this.#text(), this.#text()];
      case 'JSONSchemaPropsOrBool':
        return this.#next() < 0.5 ? this.#next() < 0.5 : this.#schema(depth);
      case 'JSONSchemaPropsOrArray':
        return this.#next() < 0.5 ? [this.#schema(depth)] : this.#schema(depth);
      case 'JSONSchemaPropsOrStringArray':
        return this.#next() < 0.5 ? [this.#text()] : this.#schema(depth);
      case 'message':
        return this.members(field.message(), depth + 1);
    }
  }

  #schema(depth: number): unknown {
    const message = messageOf('apiextensions.k8s.io/v1', 'JSONSchemaProps');
    return message === undefined ? {} : this.members(message, depth + 2);
  }

  /** Long strings and strings outside ASCII, whose lengths the encoder computes differently. */
  #text(): string {
    const length = this.#one([1, 3, 10, 47, 48, 49, 127, 128, 300]);
    const letters = this.#one(['abcdefghij', 'aäöüé', 'a漢字', 'a🙂']);
    return Array.from({ length }, () => this.#one([...letters])).join('');
  }
}
