import type { Schema } from '@oarlock/api/schema/schema';

/** Random numbers from a seed (mulberry32). */
export class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }
}

const names = [
  'a',
  'b',
  'main',
  'x',
  'default',
  'web-0',
  'kube-system',
  'A_b',
  'a/b',
  '',
  'ö',
  '-',
  'a.b.c',
  'x'.repeat(70),
  '__proto',
  'constructor',
  'toString',
];
const texts = [
  ...names,
  '1',
  '10.0.0.1',
  '10.96.0.7',
  '::1',
  '10.1.0.0/16',
  '100m',
  '1Gi',
  '-1',
  '1e400',
  '25%',
  '101%',
  '*/5 * * * *',
  '2026-01-01T00:00:00Z',
  '2026-01-01T00:00:00.000000Z',
  'not a time',
  'TCP',
  'UDP',
  'Always',
  'Never',
  'ClusterIP',
  'NodePort',
  'None',
  'ReadWriteOnce',
  'IPv4',
  'In',
  'Exists',
  'Equal',
  'RollingUpdate',
  'True',
  'v1',
  'apps/v1',
  'Pod',
  'Deployment',
  'YQ==',
  '!',
  '\u0000',
  '\ud800',
  '{}',
  '^(a+)+$',
  'kubernetes.io/x',
  'example.com/x',
  'https://example.com',
  'rbac.authorization.k8s.io',
  'ClusterRole',
  '*',
];
const numbers = [0, 1, -1, 2, 3, 80, 443, 65535, 65536, 30080, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 53, 1.5, 1e300, -0];

/** Returns small random JSON. */
export function anything(dice: Dice, depth = 0): unknown {
  switch (dice.below(depth > 3 ? 5 : 7)) {
    case 0:
      return null;
    case 1:
      return dice.chance(0.5);
    case 2:
      return dice.pick(numbers);
    case 3:
    case 4:
      return dice.pick(texts);
    case 5:
      return Array.from({ length: dice.below(3) }, () => anything(dice, depth + 1));
    default:
      return Object.fromEntries(Array.from({ length: dice.below(3) }, () => [dice.pick(names), anything(dice, depth + 1)]));
  }
}

/** Returns a value that mostly has the type of the schema; sometimes another type, an unknown field, or null. */
export function valueOf(dice: Dice, schema: Schema, depth = 0): unknown {
  if (dice.chance(0.006)) return anything(dice);
  switch (schema.type) {
    case 'object': {
      const result: Record<string, unknown> = {};
      if (schema.properties === undefined) {
        const values = schema.additionalProperties;
        for (let i = dice.below(3); i > 0; i--)
          result[dice.pick(names)] = values === undefined ? anything(dice, 2) : valueOf(dice, values, depth + 1);
        return result;
      }
      const required = new Set(schema.required);
      const some = depth > 6 ? 0 : 3 / Math.max(schema.properties.size, 1);
      for (const [name, property] of schema.properties)
        if (dice.chance(required.has(name) ? 0.9 : some)) result[name] = valueOf(dice, property, depth + 1);
      if (dice.chance(0.02)) result[dice.pick(names)] = anything(dice);
      return result;
    }
    case 'array':
      return Array.from({ length: depth > 6 ? 0 : dice.below(3) }, () =>
        schema.items === undefined ? anything(dice) : valueOf(dice, schema.items, depth + 1),
      );
    case 'string':
      return schema.format === 'int-or-string' && dice.chance(0.5) ? dice.pick(numbers) : dice.pick(texts);
    case 'integer':
    case 'number':
      return dice.pick(numbers);
    case 'boolean':
      return dice.chance(0.5);
    case 'any':
      return anything(dice);
  }
}

/** Returns a copy with one or two changes: a member replaced, removed or added. */
export function mutated(dice: Dice, schema: Schema | undefined, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return dice.chance(0.9) && schema !== undefined ? valueOf(dice, schema) : anything(dice);
  if (Array.isArray(value)) {
    const list = [...(value as unknown[])];
    const at = dice.below(list.length + 1);
    const what = dice.next();
    if (at === list.length || what < 0.2)
      list.splice(at, 0, list.length > 0 && dice.chance(0.4) ? dice.pick(list) : valueOf(dice, schema?.items ?? { type: 'any' }));
    else if (what < 0.4) list.splice(at, 1);
    else list[at] = mutated(dice, schema?.items, list[at]);
    return list;
  }
  const object: Record<string, unknown> = { ...value };
  const present = Object.keys(object);
  const known = [...(schema?.properties?.keys() ?? [])];
  const key =
    present.length > 0 && dice.chance(0.7)
      ? dice.pick(present)
      : known.length > 0 && dice.chance(0.9)
        ? dice.pick(known)
        : dice.pick(names);
  const type = schema?.properties?.get(key) ?? schema?.additionalProperties;
  if (dice.chance(0.1)) delete object[key];
  else if (key in object && dice.chance(0.8)) object[key] = mutated(dice, type, object[key]);
  else object[key] = type === undefined ? anything(dice) : valueOf(dice, type);
  return object;
}
