import { z } from 'zod';
import { isNamespacedSysctl } from './node/sysctls.ts';

const milliseconds = (least: number) => z.number().int().min(least).max(86_400_000);
const quantities = z.record(z.string(), z.string());
const threshold = z.string().regex(/^(\d+(\.\d+)?%|\d+(\.\d+)?([kMGTPE]i?)?)$/, 'a quantity, or a part such as 10%');
/** Something for some of the thresholds, by their names. */
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
  /** The node's name; the first part of the nodes' names with `count`. */
  nodeName: z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'a DNS name in lower case'),
  /** So many nodes `<nodeName>-<i>` in this process; for simulated runtimes only. */
  count: z.number().int().min(1).max(10_000).optional(),
  /** The node's address; by default the one under which others reach this machine, or 127.0.0.1 when the API server is there. */
  address: z.string().min(1).optional(),
  /** Where the kubelet's own API listens; by default on all addresses, or on the node's when that is a loopback address. 0: any port. */
  serverAddress: z.string().min(1).optional(),
  port: z.number().int().min(0).max(65_535).default(10_250),
  /** PEM files of the serving certificate; by default one is issued. */
  tls: z.strictObject({ certificateFile: z.string().min(1), keyFile: z.string().min(1) }).optional(),
  /** Volumes and files of pods; by default the plugin's data directory. */
  rootDir: z.string().min(1).optional(),
  /** Container logs; by default `logs` below `rootDir`. */
  logDir: z.string().min(1).optional(),
  /** A directory in memory for secrets and tokens; by default they are below `rootDir`, which only the kubelet's user may enter. */
  volatileDir: z.string().min(1).optional(),
  labels: z.record(z.string(), z.string()).default({}),
  taints: z.array(taint).default([]),
  registerNode: z.boolean().default(true),
  /** Used while the node's object names no range. */
  podCIDR: z.string().optional(),
  maxPods: z.number().int().min(1).max(10_000).default(110),
  /** Over what the machine has: `{ cpu: "4" }`. */
  capacity: quantities.default({}),
  /** Kept from pods. */
  reserved: quantities.default({}),
  /**
   * Below these the node reports pressure and evicts pods, one at a time. A quantity or a part: `100Mi`, `10%`; 0 turns one off. `disk` is where
   * pods are, `image` where the runtime keeps images.
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
  /** Thresholds that have to be met for some time, and let pods end with grace. */
  evictionSoft: perThreshold(z.strictObject({ below: threshold, forSeconds: z.number().int().min(1).max(86_400) })),
  /** What has to be there beyond a threshold before it counts as left. */
  evictionMinimumReclaim: perThreshold(threshold),
  /** The longest grace of pods that a soft threshold evicts. */
  evictionMaxPodGraceSeconds: z.number().int().min(0).max(86_400).default(0),
  /** How long a condition stays after its cause has gone. */
  evictionPressureTransitionSeconds: z.number().int().min(0).max(86_400).default(300),
  /** Images that nobody uses go when the disk is so full, until it is not; not before they are so old; and at any rate when unused for so long (0: never). */
  imageGc: z
    .strictObject({
      highPercent: z.number().int().min(1).max(100).default(85),
      lowPercent: z.number().int().min(0).max(100).default(80),
      minimumAgeSeconds: z.number().int().min(0).default(120),
      maximumAgeSeconds: z.number().int().min(0).default(0),
      periodMs: milliseconds(1000).default(300_000),
    })
    .refine(({ highPercent, lowPercent }) => lowPercent < highPercent, 'lowPercent has to be below highPercent')
    .prefault({}),
  /** The runtime of pods without a RuntimeClass; by default the first. */
  runtime: z.string().min(1).optional(),
  /** Sysctls that pods may set besides the safe ones: names, or `prefix*`. */
  allowedUnsafeSysctls: z
    .array(z.string().min(1).max(253).refine(isNamespacedSysctl, 'pods share this sysctl with the node: it cannot be allowed'))
    .default([]),
  /** Whether pods get cgroups of their own, bounded by what they ask for as a whole; else runtimes place containers where they like. */
  cgroupsPerQos: z.boolean().default(true),
  /** Cgroup below which `kubepods` is, of this kubelet alone: `/` is upstream's default. By default one by the node's identity: a machine may have several. */
  cgroupRoot: z.string().startsWith('/').optional(),
  /** Processes and threads that a pod may have; -1: as many as there are. */
  podPidsLimit: z.number().int().min(-1).default(-1),
  /** What `/logs/` shows of the machine. */
  systemLogDir: z.string().startsWith('/').default('/var/log'),
  resolvConf: z.string().default('/etc/resolv.conf'),
  maxParallelImagePulls: z.number().int().min(1).max(100).default(5),
  containerLogMaxSize: z.string().default('10Mi'),
  containerLogMaxFiles: z.number().int().min(2).max(100).default(5),
  /** When the machine goes down pods get so long, of which critical ones have the last part for themselves; or each priority has a time of its own. 0: they get none. */
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
      'criticalGraceSeconds is a part of graceSeconds',
    )
    .prefault({}),
  /** Where device plugins register (`kubelet.sock`), as upstream's /var/lib/kubelet/device-plugins; by default there are none. */
  devicePluginDir: z.string().startsWith('/').max(90).optional(),
  /** Where DRA drivers register, as upstream's /var/lib/kubelet/plugins_registry; by default there are none. */
  pluginRegistryDir: z.string().startsWith('/').max(90).optional(),
  /** Pods that run without an API server: a directory of manifests (or one file), and a URL that gives one pod or a list. */
  staticPods: z
    .strictObject({
      path: z.string().startsWith('/').optional(),
      url: z.url().optional(),
      urlHeaders: z.record(z.string(), z.string()).default({}),
      everyMs: milliseconds(100).default(20_000),
    })
    .prefault({}),
  /** How often the node's state is looked at, and how often it is reported although nothing changed. */
  nodeStatusUpdateMs: milliseconds(100).default(10_000),
  nodeStatusReportMs: milliseconds(1000).default(300_000),
  nodeLeaseDurationSeconds: z.number().int().min(1).max(3600).default(40),
  /** How often runtimes are listed although no event asks for it. */
  syncFrequencyMs: milliseconds(1000).default(300_000),
  /** How long what was measured of a pod's volumes is told before they are measured again. */
  volumeStatsAggPeriodMs: milliseconds(1000).default(60_000),
  /** Whether Normal events are written; by default unless there are many nodes. */
  normalEvents: z.boolean().optional(),
  /** Whether volumes, hosts files and log directories are made; by default unless the runtime is simulated. */
  files: z.boolean().optional(),
});
export type KubeletConfig = z.output<typeof kubeletConfig>;
