import { own } from '@oarlock/api/json/json';
import { parseQuantity, quantityValue, type ParsedQuantity } from '@oarlock/api/values/quantity';
import type { Container, EphemeralContainer, ObjectFieldSelector, Pod, ResourceFieldSelector } from '@oarlock/api/types/core-v1';
import { findContainer } from './pods.ts';
import type { Resources } from './resources.ts';

/** The downward API values that the pod object does not contain. */
export interface DownwardApiValues {
  readonly podIPs: readonly string[];
  readonly hostIPs: readonly string[];
  readonly nodeName: string;
}

const keyed = /^metadata\.(labels|annotations)\['(.*)'\]$/;

/** Formats labels or annotations as a downward API file. */
function formatMap(map: Readonly<Record<string, string>> | undefined): string {
  return Object.keys(map ?? {})
    .sort()
    .map((key) => `${key}=${JSON.stringify(map?.[key])}`)
    .join('\n');
}

/** Returns the value of a `fieldRef`; empty if the value is not known yet. @throws Error if the field path is not supported */
export function fieldValue(pod: Pod, { fieldPath }: ObjectFieldSelector, facts: DownwardApiValues): string {
  const { metadata, spec } = pod;
  const match = keyed.exec(fieldPath);
  if (match) return own(match[1] === 'labels' ? metadata?.labels : metadata?.annotations, match[2] ?? '') ?? '';
  switch (fieldPath) {
    case 'metadata.name':
      return metadata?.name ?? '';
    case 'metadata.namespace':
      return metadata?.namespace ?? '';
    case 'metadata.uid':
      return metadata?.uid ?? '';
    case 'metadata.labels':
      return formatMap(metadata?.labels);
    case 'metadata.annotations':
      return formatMap(metadata?.annotations);
    case 'spec.nodeName':
      return spec?.nodeName ?? facts.nodeName;
    case 'spec.serviceAccountName':
      return spec?.serviceAccountName ?? '';
    case 'status.podIP':
      return facts.podIPs[0] ?? '';
    case 'status.podIPs':
      return facts.podIPs.join(',');
    case 'status.hostIP':
      return facts.hostIPs[0] ?? '';
    case 'status.hostIPs':
      return facts.hostIPs.join(',');
    default:
      throw new Error(`unsupported fieldPath: ${fieldPath}`);
  }
}

/** Divides a quantity by the divisor and rounds up, as the downward API does. */
function divide(amount: ParsedQuantity, divisor: ParsedQuantity, milli: boolean): string {
  const scale = milli ? 1000 : 1;
  return String(Math.ceil(amount.scaled(scale) / (divisor.sign === 0 ? scale : divisor.scaled(scale))));
}

/** The resource that a container's field refers to, and the node's allocatable resources for missing limits. */
export interface ResourceSelection {
  readonly selector: ResourceFieldSelector;
  readonly self: Container | EphemeralContainer | undefined;
  readonly allocatable: Resources;
}

/**
 * Returns the value of a `resourceFieldRef`. A missing limit defaults to the node's allocatable quantity.
 * @throws Error if the container or the resource does not exist
 */
export function resourceValue(pod: Pod, { selector, self, allocatable }: ResourceSelection): string {
  const container =
    selector.containerName === undefined || selector.containerName === '' ? self : findContainer(pod, selector.containerName)?.container;
  if (!container) throw new Error(`container ${selector.containerName} not found`);
  const match = /^(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)$/.exec(selector.resource);
  const [, kind, name = ''] = match ?? [];
  if (!match) throw new Error(`unsupported container resource : ${selector.resource}`);
  const divisor = parseQuantity(selector.divisor ?? '0');
  const set = kind === 'limits' ? container.resources?.limits?.[name] : container.resources?.requests?.[name];
  const amount =
    set !== undefined ? parseQuantity(set) : kind === 'limits' && !name.startsWith('hugepages-') ? allocatable[name] : undefined;
  return amount === undefined ? '0' : divide(amount, divisor, name === 'cpu');
}

export const memoryCapacityOf = (capacity: Resources): number => (capacity['memory'] === undefined ? 0 : quantityValue(capacity['memory']));
