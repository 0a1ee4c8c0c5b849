import { z } from 'zod';
import { isNamespacedSysctl } from './node/sysctls.ts';

const milliseconds = (least: number) => z.number().int().min(least).max(86_400_000);
const quantities = z.record(z.string(), z.string());
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
  /** Below these the node reports pressure. A quantity or a part: `100Mi`, `10%`; 0 turns one off. */
  evictionHard: z
    .strictObject({
      memoryAvailable: z.string().default('100Mi'),
      diskAvailable: z.string().default('10%'),
      inodesFree: z.string().default('5%'),
      pidAvailable: z.string().default('0'),
    })
    .prefault({}),
  /** The runtime of pods without a RuntimeClass; by default the first. */
  runtime: z.string().min(1).optional(),
  /** Sysctls that pods may set besides the safe ones: names, or `prefix*`. */
  allowedUnsafeSysctls: z
    .array(z.string().min(1).max(253).refine(isNamespacedSysctl, 'pods share this sysctl with the node: it cannot be allowed'))
    .default([]),
  /** Cgroup below which pods get theirs; by default the runtime decides. */
  cgroupRoot: z.string().startsWith('/').optional(),
  resolvConf: z.string().default('/etc/resolv.conf'),
  maxParallelImagePulls: z.number().int().min(1).max(100).default(5),
  containerLogMaxSize: z.string().default('10Mi'),
  containerLogMaxFiles: z.number().int().min(2).max(100).default(5),
  /** How often the node's state is looked at, and how often it is reported although nothing changed. */
  nodeStatusUpdateMs: milliseconds(100).default(10_000),
  nodeStatusReportMs: milliseconds(1000).default(300_000),
  nodeLeaseDurationSeconds: z.number().int().min(1).max(3600).default(40),
  /** How often runtimes are listed although no event asks for it. */
  syncFrequencyMs: milliseconds(1000).default(300_000),
  /** Whether Normal events are written; by default unless there are many nodes. */
  normalEvents: z.boolean().optional(),
  /** Whether volumes, hosts files and log directories are made; by default unless the runtime is simulated. */
  files: z.boolean().optional(),
});
export type KubeletConfig = z.output<typeof kubeletConfig>;
