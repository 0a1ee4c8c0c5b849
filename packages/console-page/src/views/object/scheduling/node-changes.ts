import type { KubeObject } from '../../../api/client.ts';

/** How the scheduler evaluates a node: with other fields, not at all, or beside a copy of it that has them. */
export type NodeChangeMode = 'edit' | 'remove' | 'copy';

/** A change of one node that is only evaluated. The fields have the forms of kubectl. */
export interface NodeChange {
  readonly node: KubeObject;
  readonly mode: NodeChangeMode;
  /** `KEY=VALUE:EFFECT`, separated by commas. */
  readonly taints: string;
  /** `KEY=VALUE`, separated by commas. */
  readonly labels: string;
  /** Allocatable quantities. */
  readonly cpu: string;
  readonly memory: string;
  readonly unschedulable: boolean;
}

interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}
interface NodeFields {
  readonly spec?: { readonly taints?: readonly Taint[]; readonly unschedulable?: boolean };
  readonly status?: { readonly allocatable?: Readonly<Record<string, string>> };
}

const effects: readonly string[] = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];
/** The label by which a node is its own topology domain. */
const hostnameLabel = 'kubernetes.io/hostname';

/** Returns the change that leaves a node as it is. */
export function unchangedNode(node: KubeObject): NodeChange {
  const { spec, status } = node as KubeObject & NodeFields;
  return {
    node,
    mode: 'edit',
    taints: (spec?.taints ?? []).map(({ key, value = '', effect }) => `${key}${value === '' ? '' : `=${value}`}:${effect}`).join(', '),
    labels: Object.entries(node.metadata.labels ?? {})
      .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
      .join(', '),
    cpu: status?.allocatable?.['cpu'] ?? '',
    memory: status?.allocatable?.['memory'] ?? '',
    unschedulable: spec?.unschedulable === true,
  };
}

const parts = (text: string): readonly string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** Parses taints in the form of kubectl. @throws Error if one has no key or no known effect */
export function parseTaints(text: string): readonly Taint[] {
  return parts(text).map((part) => {
    const [, key = '', value, effect = ''] = /^([^=:]+)(?:=([^:]*))?:(\w+)$/.exec(part) ?? [];
    if (!effects.includes(effect)) throw new Error(`"${part}" is no taint: use KEY=VALUE:EFFECT with the effect ${effects.join(', ')}`);
    return { key, ...(value !== undefined && { value }), effect };
  });
}

const parseLabels = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    parts(text).map((part) => {
      const [, key = part, value = ''] = /^([^=]+)=(.*)$/.exec(part) ?? [];
      return [key, value];
    }),
  );

/** Returns the node with the changed fields. The pods of the original are not on a copy. */
function changedNode({ node, mode, taints, labels, cpu, memory, unschedulable }: NodeChange): KubeObject {
  const { metadata, spec, status } = node as KubeObject & NodeFields;
  const name = mode === 'copy' ? `${metadata.name}-copy` : metadata.name;
  const ownLabels = { ...parseLabels(labels), ...(mode === 'copy' && { [hostnameLabel]: name }) };
  const { taints: _, unschedulable: __, ...rest } = spec ?? {};
  return {
    ...node,
    metadata: { ...metadata, name, labels: ownLabels },
    spec: { ...rest, taints: parseTaints(taints), ...(unschedulable && { unschedulable }) },
    status: { ...status, allocatable: { ...status?.allocatable, ...(cpu !== '' && { cpu }), ...(memory !== '' && { memory }) } },
  };
}

/** Returns the changes as the scheduler's path accepts them. @throws Error for an invalid taint */
export function nodeChangesOf(changes: readonly NodeChange[]): {
  readonly nodes?: readonly KubeObject[];
  readonly removedNodes?: readonly string[];
} {
  const removedNodes = changes.filter(({ mode }) => mode === 'remove').map(({ node }) => node.metadata.name);
  const nodes = changes.filter(({ mode }) => mode !== 'remove').map(changedNode);
  return { ...(nodes.length > 0 && { nodes }), ...(removedNodes.length > 0 && { removedNodes }) };
}
