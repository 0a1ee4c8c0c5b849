import type { ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import type { Condition } from '@oarlock/api/types/meta-v1';
import { z } from 'zod';

const extend = <T extends z.ZodType>(type: T, keywords: Readonly<Record<string, unknown>>): T =>
  type.meta({ ...type.meta(), ...keywords }) as unknown as T;

/** Adds a CEL rule (`x-kubernetes-validations`), which the API server evaluates on every write. `self` is the value, `oldSelf` the stored one. */
export function rule<T extends z.ZodType>(type: T, expression: string, options: Omit<ValidationRule, 'rule'> | string = {}): T {
  const added: ValidationRule = { rule: expression, ...(typeof options === 'string' ? { message: options } : options) };
  const rules = (type.meta()?.['x-kubernetes-validations'] ?? []) as readonly ValidationRule[];
  return extend(type, { 'x-kubernetes-validations': [...rules, added] });
}

/** A rule that rejects changes of a value after the creation of the object. */
export const immutable = <T extends z.ZodType>(type: T, message = 'the field is immutable'): T => rule(type, 'self == oldSelf', message);

/** A list whose items are distinct by the given fields. Managers of server-side apply own items, not the list. */
export const listMap = <T extends z.ZodArray>(type: T, ...keys: readonly string[]): T =>
  extend(type, { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys });

/** A list of distinct scalars. Managers of server-side apply own items, not the list. */
export const listSet = <T extends z.ZodArray>(type: T): T => extend(type, { 'x-kubernetes-list-type': 'set' });

/** An object that one manager of server-side apply owns as a whole. */
export const atomicMap = <T extends z.ZodType>(type: T): T => extend(type, { 'x-kubernetes-map-type': 'atomic' });

/** A number or a string, such as a port or `25%`. */
export const intOrString = (): z.ZodUnion<[z.ZodInt, z.ZodString]> =>
  extend(z.union([z.int(), z.string()]), { 'x-kubernetes-int-or-string': true });

const quantityPattern =
  '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$';
/** A resource quantity, such as `500m` or `1Gi`. */
export const quantity = (): z.ZodUnion<[z.ZodInt, z.ZodString]> => extend(intOrString(), { pattern: quantityPattern });

/** A duration in Go's notation, such as `1h30m`. */
export const goDuration = (): z.ZodString => extend(z.string(), { format: 'go-duration' });

/** An object of the type `T` that the API server stores as it is, without validation: `objectOf<PodTemplateSpec>()`. */
export const objectOf = <T extends object>(): z.ZodType<T, T> => z.looseObject({}) as unknown as z.ZodType<T, T>;

/** `metav1.Condition` with upstream's limits. */
const condition: z.ZodType<Condition, Condition> = z.object({
  type: z
    .string()
    .max(316)
    .regex(/^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/)
    .describe('type of condition in CamelCase or in foo.example.com/CamelCase.'),
  status: z.enum(['True', 'False', 'Unknown']).describe('status of the condition, one of True, False, Unknown.'),
  observedGeneration: z
    .int()
    .min(0)
    .optional()
    .describe('the .metadata.generation that the condition was set based upon.') as z.ZodType<number>,
  lastTransitionTime: z.iso.datetime().describe('the last time the condition transitioned from one status to another.'),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .describe("a programmatic identifier with the reason for the condition's last transition."),
  message: z.string().max(32_768).describe('a human readable message with details about the transition.'),
}) as unknown as z.ZodType<Condition, Condition>;

/** The field `conditions` of a status: a list of `metav1.Condition` with one item per type. */
export const conditions = (): z.ZodArray<z.ZodType<Condition, Condition>> => listMap(z.array(condition), 'type');
