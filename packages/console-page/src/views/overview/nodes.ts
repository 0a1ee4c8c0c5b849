import type { KubeObject } from '../../api/client.ts';

export interface Node extends KubeObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: {
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

export interface NodeCounts {
  readonly ready: number;
  readonly notReady: readonly Node[];
  readonly cordoned: readonly Node[];
}

const isReady = ({ status }: Node): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;

/** Returns the nodes by their state. */
export function nodeCounts(nodes: readonly Node[]): NodeCounts {
  const notReady = nodes.filter((node) => !isReady(node));
  return { ready: nodes.length - notReady.length, notReady, cordoned: nodes.filter(({ spec }) => spec?.unschedulable === true) };
}
