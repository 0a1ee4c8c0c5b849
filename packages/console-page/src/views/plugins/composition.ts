import { mergeHistograms, type Histogram } from './metrics.ts';

/** A plugin as `GET /oarlock/v1/composition` returns it. */
export interface PlacedPlugin {
  readonly name: string;
  readonly id: string;
  readonly slot: string;
  readonly needs: readonly string[];
  readonly config: unknown;
}
/** A plugin of another author, as `GET /oarlock/v1/plugins` returns it. */
export interface PluginHealth {
  readonly name: string;
  readonly healthy: boolean;
  readonly suspended: boolean;
  readonly reason?: string;
  readonly faults: Readonly<Record<string, number>>;
}

/** Parts of the data flow in the order in which the diagram shows them. Slots of a lane that a request passes one after the other have arrows. */
export const lanes = [
  { id: 'request', slots: ['authn/v1', 'authz/v1', 'admission/v1', 'storage/v1'], isFlow: true },
  { id: 'server', slots: ['audit/v1', 'paths/v1'], isFlow: false },
  { id: 'roles', slots: ['role/v1'], isFlow: false },
  { id: 'control', slots: ['scheduling/v1', 'controller/v1', 'cloud/v1'], isFlow: false },
  { id: 'node', slots: ['runtime/v1', 'network/v1', 'volume/v1', 'policy/v1', 'proxy/v1', 'dns/v1'], isFlow: false },
] as const;
export type LaneId = (typeof lanes)[number]['id'] | 'other';

export interface Lane {
  readonly id: LaneId;
  readonly isFlow: boolean;
  readonly slots: readonly { readonly slot: string; readonly plugins: readonly PlacedPlugin[] }[];
}

/** Returns the lanes with the slots that plugins fill. Slots of no lane are in the lane `other`. */
export function lanesOf(plugins: readonly PlacedPlugin[]): readonly Lane[] {
  const bySlot = new Map<string, PlacedPlugin[]>();
  for (const plugin of plugins) bySlot.set(plugin.slot, [...(bySlot.get(plugin.slot) ?? []), plugin]);
  const take = (slot: string) => ({ slot, plugins: bySlot.get(slot) ?? [] });
  const known = new Set<string>(lanes.flatMap(({ slots }) => slots));
  const others = [...bySlot.keys()].filter((slot) => !known.has(slot));
  return [...lanes, { id: 'other' as const, slots: others, isFlow: false }]
    .map(({ id, slots, isFlow }) => ({ id, isFlow, slots: slots.map(take).filter((each) => each.plugins.length > 0) }))
    .filter(({ slots }) => slots.length > 0);
}

/** The metrics of slots and roles as a whole, where plugins have none of their own. */
const sharedMetrics: Readonly<Record<string, string>> = {
  'authn/v1': 'authentication_duration_seconds',
  'authz/v1': 'authorization_duration_seconds',
  'storage/v1': 'etcd_request_duration_seconds',
  'runtime/v1': 'kubelet_runtime_operations_duration_seconds',
};
const roleMetrics: Readonly<Record<string, string>> = {
  apiserver: 'apiserver_request_duration_seconds',
  scheduler: 'scheduler_scheduling_attempt_duration_seconds',
  controllers: 'workqueue_work_duration_seconds',
  kubelet: 'kubelet_pod_start_duration_seconds',
};

const plain = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '');

export interface PluginLatency {
  readonly histogram: Histogram;
  /** True if the histogram counts all plugins of the slot together. */
  readonly isShared: boolean;
}

/** Returns the latency of a plugin: of a series with its name, or of its slot or role. Watches, which last long, are left out. */
export function latencyOf({ name, id, slot }: PlacedPlugin, histograms: readonly Histogram[]): PluginLatency | undefined {
  const prefix = `${slot.slice(0, slot.indexOf('/'))}-`;
  const names = new Set([name, id].flatMap((each) => [plain(each), plain(each.startsWith(prefix) ? each.slice(prefix.length) : each)]));
  const own = histograms.filter(
    ({ name: metric, labels }) =>
      metric !== 'workqueue_queue_duration_seconds' &&
      [labels['name'], labels['plugin'], labels['controller']].some((value) => value !== undefined && names.has(plain(value))),
  );
  const metric = own[0]?.name;
  const ownTotal = mergeHistograms(own.filter((each) => each.name === metric));
  if (ownTotal !== undefined) return { histogram: ownTotal, isShared: false };
  const shared = slot === 'role/v1' ? (roleMetrics[id] ?? roleMetrics[name]) : sharedMetrics[slot];
  const total = mergeHistograms(
    histograms.filter((each) => each.name === shared && each.labels['verb'] !== 'WATCH' && each.labels['verb'] !== 'CONNECT'),
  );
  return total && { histogram: total, isShared: slot !== 'role/v1' };
}
