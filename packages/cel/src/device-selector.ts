import { kubernetesEnvironment, storedEnvironment } from './checker/environment.ts';
import { estimateCost } from './cost-estimate.ts';
import { compile, type Compiled, type Program } from './program.ts';
import { constantSize, type DeclaredSize } from './types/declared-size.ts';
import { bool, dyn, formatType, map, object, opaque, string } from './types/type.ts';

/** The maximum cost of one evaluation of a selector, and the maximum estimated cost of a new selector (CELSelectorExpressionMaxCost upstream). */
export const maxSelectorCost = 1_000_000;

const variables = {
  device: object('kubernetes.DRADevice', {
    driver: string,
    attributes: map(string, map(string, dyn)),
    capacity: map(string, map(string, opaque('kubernetes.Quantity'))),
    allowMultipleAllocations: bool,
  }),
};
/** The environments of the CEL selectors of devices, in which the variable `device` is a device of a ResourceSlice. */
const forNew = kubernetesEnvironment({ bindings: true, variables });
const forStored = storedEnvironment({ variables });

/** The limits of the fields of a ResourceSlice, which bound the cost of selectors. */
const maxDriverName = 63;
const maxDomain = 63;
const maxIdentifier = 32;
const maxAttributes = 32;
const maxAttributeValue = 64;

const attributeSize: DeclaredSize = { max: maxAttributeValue };
/** All attributes have the same size, whatever their name is. */
const attributesById: DeclaredSize = {
  max: maxAttributes,
  key: { max: maxIdentifier },
  element: attributeSize,
  field: () => attributeSize,
};
const capacityById: DeclaredSize = { max: maxAttributes, key: { max: maxIdentifier }, element: constantSize };
const byDomain = (element: DeclaredSize): DeclaredSize => ({ max: maxAttributes, key: { max: maxDomain }, element });
const fields: ReadonlyMap<string, DeclaredSize> = new Map([
  ['driver', { max: maxDriverName }],
  ['attributes', byDomain(attributesById)],
  ['capacity', byDomain(capacityById)],
  ['allowMultipleAllocations', { max: 1 }],
]);
const deviceSize: DeclaredSize = { max: 0, field: (name) => fields.get(name) };

/** Compiles the CEL selector of a device; `stored` for one that an object in storage has. `message` is that of Kubernetes. */
export function compileDeviceSelector(expression: string, { stored = false }: { readonly stored?: boolean } = {}): Compiled {
  const compiled = compile(expression, stored ? forStored : forNew);
  if (compiled.program === undefined) return { ...compiled, message: `compilation failed: ${compiled.message}` };
  const { type } = compiled.program;
  if (type.kind === 'bool' || type.kind === 'dyn') return compiled;
  const message = `must evaluate to bool or the unknown type, not ${formatType(type)}`;
  return { issues: [{ at: 0, message }], message };
}

/** Returns the maximum cost of an evaluation of a selector, as Kubernetes estimates it from the limits of a ResourceSlice. */
export const estimateSelectorCost = (selector: Program): number => estimateCost(selector, deviceSize).max;
