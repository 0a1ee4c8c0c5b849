import { z } from 'zod';
import { isNamespacedSysctl } from '../pod-util/sysctls.ts';

const milliseconds = (least: number) => z.number().int().min(least).max(86_400_000);
const quantities = z.record(z.string(), z.string());
const threshold = z.string().regex(/^(\d+(\.\d+)?%|\d+(\.\d+)?([kMGTPE]i?)?)$/, 'a quantity, or a percentage such as 10%');
/** An optional value per eviction threshold. */
const perThreshold = <T extends z.ZodType>(one: T) =>
  z
    .strictObject({
      memoryAvailable: one.optional(),
      diskAvailable: one.optional(),
      inodesFree: one.optional(),
      imageAvailable: one.optional(),
      imageInodesFree: one.optional(),
      pidAvailable: one.optional(),
    })
    .prefault({});
const taint = z.strictObject({
  key: z.string().min(1),
  value: z.string().optional(),
  effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']),
});

export const kubeletConfig = z.strictObject({
  /** The node's name; with `count`, the prefix of the nodes' names. */
  nodeName: z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'a DNS name in lower case'),
  /** The number of nodes `<nodeName>-<i>` in this process. Requires simulated runtimes. */
  count: z.number().int().min(1).max(10_000).optional(),
  /** The node's address; by default the machine's first external address, or 127.0.0.1 if the API server is on a loopback address. */
  address: z.string().min(1).optional(),
  /** Where the kubelet's API listens; by default all addresses, or the node's if that is a loopback address. Port 0: any free port. */
  serverAddress: z.string().min(1).optional(),
  port: z.number().int().min(0).max(65_535).default(10_250),
  /** PEM files of the serving certificate; by default the cluster's CA issues one. */
  tls: z.strictObject({ certificateFile: z.string().min(1), keyFile: z.string().min(1) }).optional(),
  /** The directory of volumes and files of pods; by default the plugin's data directory. */
  rootDir: z.string().min(1).optional(),
  /** The directory of container logs; by default `logs` below `rootDir`. */
  logDir: z.string().min(1).optional(),
  /** A directory in memory for secrets and tokens; by default they are below `rootDir`, which has mode 0700. */
  volatileDir: z.string().min(1).optional(),
  labels: z.record(z.string(), z.string()).default({}),
  taints: z.array(taint).default([]),
  registerNode: z.boolean().default(true),
  /** The pod CIDR until the Node object has one. */
  podCIDR: z.string().optional(),
  maxPods: z.number().int().min(1).max(10_000).default(110),
  /** Overrides the machine's capacity: `{ cpu: "4" }`. */
  capacity: quantities.default({}),
  /** Resources that are not allocatable to pods. */
  reserved: quantities.default({}),
  /**
   * Hard eviction thresholds. Below one of them the node reports pressure and evicts pods, one at a time. A quantity or a percentage: `100Mi`,
   * `10%`; 0 turns a threshold off. `disk` is the file system of pods, `image` that of the runtime's images.
   */
  evictionHard: z
    .strictObject({
      memoryAvailable: threshold.default('100Mi'),
      diskAvailable: threshold.default('10%'),
      inodesFree: threshold.default('5%'),
      imageAvailable: threshold.default('15%'),
      imageInodesFree: threshold.default('5%'),
      pidAvailable: threshold.default('0'),
    })
    .prefault({}),
  /** Soft eviction thresholds: they must be met for some time, and evicted pods get a grace period. */
  evictionSoft: perThreshold(z.strictObject({ below: threshold, forSeconds: z.number().int().min(1).max(86_400) })),
  /** How much must be available beyond a threshold before it is no longer met. */
  evictionMinimumReclaim: perThreshold(threshold),
  /** The longest grace period of pods that a soft threshold evicts. */
  evictionMaxPodGraceSeconds: z.number().int().min(0).max(86_400).default(0),
  /** How long a pressure condition stays after its threshold is no longer met. */
  evictionPressureTransitionSeconds: z.number().int().min(0).max(86_400).default(300),
  /**
   * Image garbage collection: above `highPercent` of disk usage unused images are removed until `lowPercent` is reached. Images younger than
   * `minimumAgeSeconds` are kept; images unused for `maximumAgeSeconds` are removed in any case (0: never).
   */
  imageGc: z
    .strictObject({
      highPercent: z.number().int().min(1).max(100).default(85),
      lowPercent: z.number().int().min(0).max(100).default(80),
      minimumAgeSeconds: z.number().int().min(0).default(120),
      maximumAgeSeconds: z.number().int().min(0).default(0),
      periodMs: milliseconds(1000).default(300_000),
    })
    .refine(({ highPercent, lowPercent }) => lowPercent < highPercent, 'lowPercent must be below highPercent')
    .prefault({}),
  /** The runtime of pods without a RuntimeClass; by default the first one. */
  runtime: z.string().min(1).optional(),
  /** Sysctls that pods may set besides the safe ones: names, or `prefix*`. */
  allowedUnsafeSysctls: z
    .array(z.string().min(1).max(253).refine(isNamespacedSysctl, 'this sysctl is not namespaced: it cannot be allowed'))
    .default([]),
  /** Creates cgroups per pod and QoS class; otherwise runtimes place containers themselves. */
  cgroupsPerQos: z.boolean().default(true),
  /** The parent cgroup of `kubepods`, of this kubelet only: upstream's default is `/`. By default derived from the node's identity. */
  cgroupRoot: z.string().startsWith('/').optional(),
  /** The maximum number of processes and threads of a pod; -1: no limit. */
  podPidsLimit: z.number().int().min(-1).default(-1),
  /** The directory that `/logs/` serves. */
  systemLogDir: z.string().startsWith('/').default('/var/log'),
  resolvConf: z.string().default('/etc/resolv.conf'),
  maxParallelImagePulls: z.number().int().min(1).max(100).default(5),
  containerLogMaxSize: z.string().default('10Mi'),
  containerLogMaxFiles: z.number().int().min(2).max(100).default(5),
  /**
   * Graceful node shutdown: the grace period of all pods, its last part for critical pods; or a grace period per priority. 0: pods are not
   * terminated before the machine shuts down.
   */
  shutdown: z
    .strictObject({
      graceSeconds: z.number().int().min(0).max(86_400).default(0),
      criticalGraceSeconds: z.number().int().min(0).max(86_400).default(0),
      byPriority: z
        .array(z.strictObject({ priority: z.number().int(), seconds: z.number().int().min(0).max(86_400) }))
        .max(100)
        .default([]),
    })
    .refine(
      ({ graceSeconds, criticalGraceSeconds }) => criticalGraceSeconds <= graceSeconds,
      'criticalGraceSeconds must not exceed graceSeconds',
    )
    .prefault({}),
  /** Where device plugins register (`kubelet.sock`), as upstream's /var/lib/kubelet/device-plugins; by default none can. */
  devicePluginDir: z.string().startsWith('/').max(90).optional(),
  /** Where DRA drivers register, as upstream's /var/lib/kubelet/plugins_registry; by default none can. */
  pluginRegistryDir: z.string().startsWith('/').max(90).optional(),
  /** Static pods: a directory of manifests (or one file), and a URL that returns a Pod or a PodList. */
  staticPods: z
    .strictObject({
      path: z.string().startsWith('/').optional(),
      url: z.url().optional(),
      urlHeaders: z.record(z.string(), z.string()).default({}),
      everyMs: milliseconds(100).default(20_000),
    })
    .prefault({}),
  /** How often the node's state is collected, and how often an unchanged status is reported. */
  nodeStatusUpdateMs: milliseconds(100).default(10_000),
  nodeStatusReportMs: milliseconds(1000).default(300_000),
  nodeLeaseDurationSeconds: z.number().int().min(1).max(3600).default(40),
  /** The relist period of the runtimes. */
  syncFrequencyMs: milliseconds(1000).default(300_000),
  /** How long the measured usage of a pod's volumes is valid. */
  volumeStatsAggPeriodMs: milliseconds(1000).default(60_000),
  /** Records Normal events; by default only if the process has one node. */
  normalEvents: z.boolean().optional(),
  /** Makes volumes, hosts files and log directories; by default unless the runtime is simulated. */
  files: z.boolean().optional(),
});
export type KubeletConfig = z.output<typeof kubeletConfig>;
