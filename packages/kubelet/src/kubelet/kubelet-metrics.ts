import type { Pod } from '@oarlock/api/types/core-v1';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { CredentialProviders } from '../images/credential-provider/credential-providers.ts';
import type { ImagePullManager } from '../images/pull-manager/image-pull-manager.ts';
import type { Kubelet } from './kubelet.ts';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
import type { ResizeRejection } from '../pod-util/resize-status.ts';
import { configSourceAnnotation } from '../pod-util/config-source.ts';

function* podWorkersOf(kubelet: Kubelet): Generator<PodWorker> {
  for (const agent of kubelet.agents.values()) yield* agent.pods.workers;
}

const isStatic = ({ metadata }: Pod) => (metadata?.annotations?.[configSourceAnnotation] ?? 'api') !== 'api';

/** Registers the kubelet's metrics, under upstream's names where the meaning is the same. Values are collected at scrape time. */
export function registerKubeletMetrics(kubelet: Kubelet, registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: 'kubelet_node_name',
    help: "The node's name. The count is always 1.",
    registers,
    labelNames: ['node'],
    collect() {
      this.reset();
      for (const name of kubelet.agents.keys()) this.set({ node: name }, 1);
    },
  });
  new Gauge({
    name: 'kubelet_cgroup_version',
    help: 'cgroup version on the hosts.',
    registers,
    collect() {
      if (kubelet.cgroupVersion !== undefined) this.set(kubelet.cgroupVersion);
    },
  });
  const counts = sharedCounts(kubelet);
  measurePods(counts, registers);
  measureResizesAndVolumes(counts, registers);
  countPatches(kubelet, registers);
  countImageRequests(kubelet, registers);
  measureStarts(kubelet, registers);
  if (kubelet.credentialProviders !== undefined) measureCredentialProviders(kubelet.credentialProviders, registers);
  if (kubelet.imagePullManager !== undefined) measurePullRecords(kubelet.imagePullManager, registers);
}

interface PodCounts {
  readonly runningPods: number;
  readonly containersByState: ReadonlyMap<string, number>;
  /** The number of static pods and of other pods, by upstream's value of the label `static`. */
  readonly activePods: Readonly<Record<'true' | '', number>>;
  readonly desiredPods: Readonly<Record<'true' | '', number>>;
  readonly mirrorPods: number;
  readonly pendingResizes: Readonly<Record<ResizeRejection['reason'], number>>;
  /** The volumes of pods on runtimes with files, keyed by plugin and state. */
  readonly volumes: ReadonlyMap<string, { readonly plugin_name: string; readonly state: string; readonly count: number }>;
}

/** Counts in one pass: with tens of thousands of pods, each pass waits for their memory. */
function countPods(kubelet: Kubelet): PodCounts {
  let runningPods = 0;
  const containersByState = new Map<string, number>();
  let mirrorPods = 0;
  const activePods = { true: 0, '': 0 };
  const desiredPods = { true: 0, '': 0 };
  const pendingResizes = { Deferred: 0, Infeasible: 0 };
  const volumes = new Map<string, { plugin_name: string; state: string; count: number }>();
  const countVolume = (plugin: string, state: string) => {
    const key = `${plugin} ${state}`;
    const known = volumes.get(key);
    if (known) known.count += 1;
    else volumes.set(key, { plugin_name: plugin, state: `${state}_state_of_world`, count: 1 });
  };
  const { volumeManager } = kubelet.context;
  for (const worker of podWorkersOf(kubelet)) {
    const { stage, record, state } = worker;
    if (state.readySandbox) runningPods += 1;
    for (const container of state.containers) containersByState.set(container.state, (containersByState.get(container.state) ?? 0) + 1);
    const label = isStatic(record.pod) ? 'true' : '';
    if (stage !== 'finished') activePods[label] += 1;
    if (worker.isDesired) desiredPods[label] += 1;
    if (record.static && record.apiPod !== undefined) mirrorPods += 1;
    const pending = stage === 'syncing' ? record.resize?.report.pending : undefined;
    if (pending !== undefined) pendingResizes[pending.reason] += 1;
    if (record.runtime?.hollow !== false) continue;
    for (const { plugin } of record.volumes.values()) countVolume(plugin, 'actual');
    if (stage === 'syncing') for (const plugin of volumeManager.desiredPlugins(record.pod, record.volumes)) countVolume(plugin, 'desired');
  }
  return { runningPods, containersByState, activePods, desiredPods, mirrorPods, pendingResizes, volumes };
}

/** Returns the counts of the pods, which the metrics of one scrape share. */
function sharedCounts(kubelet: Kubelet): () => PodCounts {
  let counted: PodCounts | undefined;
  // a scrape collects all metrics in one turn
  return () => {
    if (counted === undefined) queueMicrotask(() => (counted = undefined));
    return (counted ??= countPods(kubelet));
  };
}

function measurePods(counts: () => PodCounts, registers: Registry[]): void {
  new Gauge({
    name: 'kubelet_running_pods',
    help: 'Number of pods that have a running pod sandbox',
    registers,
    collect() {
      this.set(counts().runningPods);
    },
  });
  new Gauge({
    name: 'kubelet_running_containers',
    help: 'Number of containers currently running',
    registers,
    labelNames: ['container_state'],
    collect() {
      this.reset();
      for (const [state, count] of counts().containersByState) this.set({ container_state: state.toLowerCase() }, count);
    },
  });
  new Gauge({
    name: 'kubelet_active_pods',
    help: 'The number of pods the kubelet considers active and which are being considered when admitting new pods.',
    registers,
    labelNames: ['static'],
    collect() {
      for (const [label, count] of Object.entries(counts().activePods)) this.set({ static: label }, count);
    },
  });
  new Gauge({
    name: 'kubelet_desired_pods',
    help: 'The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.',
    registers,
    labelNames: ['static'],
    collect() {
      for (const [label, count] of Object.entries(counts().desiredPods)) this.set({ static: label }, count);
    },
  });
  new Gauge({
    name: 'kubelet_mirror_pods',
    help: 'The number of mirror pods the kubelet will try to create (one per admitted static pod)',
    registers,
    collect() {
      this.set(counts().mirrorPods);
    },
  });
}

function measureResizesAndVolumes(counts: () => PodCounts, registers: Registry[]): void {
  new Gauge({
    name: 'kubelet_pod_pending_resizes',
    help: 'Number of pending resizes for pods.',
    registers,
    labelNames: ['reason'],
    collect() {
      this.reset();
      for (const [reason, count] of Object.entries(counts().pendingResizes))
        if (count > 0) this.set({ reason: reason.toLowerCase() }, count);
    },
  });
  new Gauge({
    name: 'volume_manager_total_volumes',
    help: 'Number of volumes in Volume Manager',
    registers,
    labelNames: ['plugin_name', 'state'],
    collect() {
      this.reset();
      for (const { count, ...labels } of counts().volumes.values()) this.set(labels, count);
    },
  });
}

function countImageRequests(kubelet: Kubelet, registers: Registry[]): void {
  const requests = new Counter({
    name: 'kubelet_image_manager_ensure_image_requests_total',
    help: 'Number of ensure-image requests processed by the kubelet.',
    registers,
    labelNames: ['pull_policy', 'present_locally', 'pull_required'],
  });
  for (const { imageManager } of kubelet.runtimes)
    imageManager.listener = ({ pullPolicy, presentLocally = 'unknown', pullRequired = 'unknown' }) =>
      requests.inc({
        pull_policy: pullPolicy.toLowerCase(),
        present_locally: String(presentLocally),
        pull_required: String(pullRequired),
      });
}

function measurePullRecords(manager: ImagePullManager, registers: Registry[]): void {
  const named = (name: string) => `kubelet_imagemanager_${name}`;
  const gauges: readonly (readonly [name: string, help: string, value: () => number])[] = [
    ['ondisk_pullintents', 'Number of ImagePullIntents stored on disk.', () => manager.intentCount],
    ['ondisk_pulledrecords', 'Number of ImagePulledRecords stored on disk.', () => manager.pulledRecordCount],
    [
      'inmemory_pullintents_usage_percent',
      'The ImagePullIntents in-memory cache usage in percent.',
      () => manager.cacheUsagePercent.intents,
    ],
    [
      'inmemory_pulledrecords_usage_percent',
      'The ImagePulledRecords in-memory cache usage in percent.',
      () => manager.cacheUsagePercent.pulledRecords,
    ],
  ];
  for (const [name, help, value] of gauges)
    new Gauge({
      name: named(name),
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  const checks = new Counter({
    name: named('image_mustpull_checks_total'),
    help: 'Counter for how many times kubelet checked whether credentials need to be re-verified to access an image',
    registers,
    labelNames: ['result'],
  });
  manager.listener = (result) => checks.inc({ result });
}

function measureCredentialProviders(providers: CredentialProviders, registers: Registry[]): void {
  const named = (name: string) => `kubelet_credential_provider_${name}`;
  const labelNames = ['plugin_name'];
  const duration = new Histogram({
    name: named('plugin_duration'),
    help: 'Duration of execution in seconds for credential provider plugin',
    registers,
    labelNames,
  });
  const errors = new Counter({
    name: named('plugin_errors_total'),
    help: 'Number of errors from credential provider plugin',
    registers,
    labelNames,
  });
  new Gauge({
    name: named('config_info'),
    help: 'Information about the last applied credential provider configuration with hash as label',
    registers,
    labelNames: ['hash'],
    collect() {
      this.reset();
      if (providers.configHash !== '') this.set({ hash: providers.configHash }, 1);
    },
  });
  providers.listener = (name, { seconds, failed }) => {
    duration.observe({ plugin_name: name }, seconds);
    if (failed) errors.inc({ plugin_name: name });
  };
}

/** Upstream's buckets of the pod start duration, from half a second to an hour. Seconds. */
const startBuckets = [0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600];

function measureStarts(kubelet: Kubelet, registers: Registry[]): void {
  const measured = (name: string, help: string) =>
    new Histogram({ name: `kubelet_pod_start_${name}`, help, registers, buckets: startBuckets });
  const seen = measured('duration_seconds', 'Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run');
  const sli = measured(
    'sli_duration_seconds',
    'Duration in seconds to start a pod since creation, excluding time to pull images and run init containers',
  );
  const total = measured(
    'total_duration_seconds',
    'Duration in seconds to start a pod since creation, including time to pull images and run init containers',
  );
  kubelet.context.startupLatency.listener = (start) => {
    seen.observe(start.sinceFirstSeen / 1000);
    sli.observe(start.sli / 1000);
    total.observe(start.total / 1000);
  };
}

function countPatches(kubelet: Kubelet, registers: Registry[]): void {
  let seen = 0;
  new Counter({
    name: 'kubelet_pod_status_patches_total',
    help: 'Pod statuses sent to the API server.',
    registers,
    collect() {
      const { patchCount: patches } = kubelet.context.statusManager;
      this.inc(patches - seen);
      seen = patches;
    },
  });
}
