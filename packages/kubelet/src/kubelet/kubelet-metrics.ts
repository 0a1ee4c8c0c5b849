import type { Pod } from '@oarlock/api/types/core-v1';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { CredentialProviders } from '../images/credential-provider/credential-providers.ts';
import type { ImagePullManager } from '../images/pull-manager/image-pull-manager.ts';
import type { Kubelet } from './kubelet.ts';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
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
  measurePods(kubelet, registers);
  countPatches(kubelet, registers);
  countImageRequests(kubelet, registers);
  measureStarts(kubelet, registers);
  if (kubelet.credentialProviders !== undefined) measureCredentialProviders(kubelet.credentialProviders, registers);
  if (kubelet.imagePullManager !== undefined) measurePullRecords(kubelet.imagePullManager, registers);
}

interface PodCounts {
  readonly runningPods: number;
  readonly containersByState: ReadonlyMap<string, number>;
  readonly activePods: Readonly<Record<'true' | 'false', number>>;
}

/** Counts in one pass: with tens of thousands of pods, each pass waits for their memory. */
function countPods(kubelet: Kubelet): PodCounts {
  let runningPods = 0;
  const containersByState = new Map<string, number>();
  const activePods = { true: 0, false: 0 };
  for (const { stage, record, state } of podWorkersOf(kubelet)) {
    if (state.readySandbox) runningPods += 1;
    for (const container of state.containers) containersByState.set(container.state, (containersByState.get(container.state) ?? 0) + 1);
    if (stage !== 'finished') activePods[isStatic(record.pod) ? 'true' : 'false'] += 1;
  }
  return { runningPods, containersByState, activePods };
}

function measurePods(kubelet: Kubelet, registers: Registry[]): void {
  let counted: PodCounts | undefined;
  // a scrape collects all metrics in one turn, and they share one count
  const counts = (): PodCounts => {
    if (counted === undefined) queueMicrotask(() => (counted = undefined));
    return (counted ??= countPods(kubelet));
  };
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
