import { printable } from '@oarlock/primitives/printable-text';
import { formatTable } from '../../common/format-table.ts';
import type { ControlPlaneFacts } from './control-plane.ts';
import type { NodeFacts, PodFacts, TopFacts } from './top-facts.ts';

export const sortKeys = ['name', 'cpu', 'memory', 'restarts'] as const;
export type SortKey = (typeof sortKeys)[number];

type Row = readonly string[];

const cpu = (millicores: number | undefined): string => (millicores === undefined ? '<unknown>' : `${millicores}m`);
const memory = (bytes: number | undefined): string => (bytes === undefined ? '<unknown>' : `${Math.round(bytes / 1024 / 1024)}Mi`);
const share = (percent: number | undefined): string => (percent === undefined ? '<unknown>' : `${percent}%`);

interface Sortable {
  readonly name: string;
  readonly namespace?: string;
  readonly restarts?: number;
  readonly cpuMillicores?: number;
  readonly memoryBytes?: number;
}

/** Returns the objects with the highest figure first; by name for `name` and for equal figures. */
export function sorted<T extends Sortable>(items: readonly T[], key: SortKey): readonly T[] {
  const figure = ({ cpuMillicores = -1, memoryBytes = -1, restarts = 0 }: Sortable): number =>
    ({ name: 0, cpu: cpuMillicores, memory: memoryBytes, restarts })[key];
  const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
  return items.toSorted((a, b) => figure(b) - figure(a) || compare(a.namespace ?? '', b.namespace ?? '') || compare(a.name, b.name));
}

/** Returns the rows of the table of nodes, with a row of titles. */
export const nodeTable = (nodes: readonly NodeFacts[]): readonly Row[] => [
  ['NAME', 'STATUS', 'CPU(cores)', 'CPU(%)', 'MEMORY(bytes)', 'MEMORY(%)', 'PODS'],
  ...nodes.map(({ name, status, cpuMillicores, cpuPercent, memoryBytes, memoryPercent, pods }) => [
    ...[printable(name), status, cpu(cpuMillicores), share(cpuPercent), memory(memoryBytes), share(memoryPercent), String(pods)],
  ]),
];

/** Returns the rows of the table of pods, with a row of titles. */
export const podTable = (pods: readonly PodFacts[]): readonly Row[] => [
  ['NAMESPACE', 'NAME', 'READY', 'STATUS', 'RESTARTS', 'CPU(cores)', 'MEMORY(bytes)', 'NODE'],
  ...pods.map(({ namespace, name, ready, containers, status, restarts, cpuMillicores, memoryBytes, node }) => [
    ...[printable(namespace), printable(name), `${ready}/${containers}`, printable(status), String(restarts)],
    ...[cpu(cpuMillicores), memory(memoryBytes), node === '' ? '<none>' : printable(node)],
  ]),
];

const listed = (counts: Readonly<Record<string, number>> | undefined): string => {
  if (counts === undefined) return '<unknown>';
  const entries = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  return entries.length === 0 ? '<none>' : entries.map(([name, count]) => `${printable(name)}=${count}`).join(' ');
};
const count = (value: number | undefined): string => (value === undefined ? '<unknown>' : String(value));

const readinessOf = ({ ready, failedChecks }: ControlPlaneFacts): string =>
  ready === undefined ? '<unknown>' : ready ? 'Ready' : `NotReady ${failedChecks.map(printable).join(',')}`.trimEnd();

/** Returns the rows of the facts about the control plane, with a row of titles. */
export const controlPlaneTable = (facts: ControlPlaneFacts): readonly Row[] => [
  ['CONTROL PLANE', 'VALUE'],
  ['API server', readinessOf(facts)],
  ['requests in flight', count(facts.requestsInFlight)],
  ['watches and other long requests', count(facts.longRunningRequests)],
  ['pods in scheduler queues', listed(facts.pendingPods)],
  ['keys in controller queues', listed(facts.queueDepths)],
  ['stored objects', count(facts.storedObjects)],
  ['storage size', memory(facts.storageBytes)],
];

/** Returns all tables as text, for output that is not a terminal. */
export const formatTop = ({ nodes, pods, controlPlane, metricsMissing, nodesMissing }: TopFacts): string =>
  [
    formatTable(controlPlaneTable(controlPlane)),
    ...(nodesMissing === undefined ? [formatTable(nodeTable(nodes))] : []),
    formatTable(podTable(pods)),
    ...[
      ['No nodes', nodesMissing],
      ['No figures of use', metricsMissing],
      ['No figures of the control plane', controlPlane.missing],
    ].flatMap(([what, reason]) => (reason === undefined ? [] : [`${what}: ${printable(reason)}`])),
  ].join('\n\n');
