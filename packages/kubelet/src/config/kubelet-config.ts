import { isIP } from 'node:net';
import { z } from 'zod';
import { allowlistPatternProblem, credentialVerificationPolicies } from '../images/pull-manager/credential-verification-policy.ts';
import { isNamespacedSysctl } from '../pod-util/sysctls.ts';

const milliseconds = (least: number) => z.number().int().min(least).max(86_400_000);
const quantities = z.record(z.string(), z.string());
const threshold = z.string().regex(/^(\d+(\.\d+)?%|\d+(\.\d+)?([kMGTPE]i?)?)$/, 'a quantity, or a percentage such as 10%');
/** Returns the schema of an optional value for each eviction threshold. */
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

function checkAllowlistPattern(pattern: string, context: z.RefinementCtx): void {
  const message = allowlistPatternProblem(pattern);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
}

const kubeletFields = z.strictObject({
  /** The node's name. With `count`, the prefix of all node names. */
  nodeName: z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, 'a DNS name in lower case'),
  /** The number of nodes in this process, named `<nodeName>-<i>`. Requires simulated runtimes. */
  count: z.number().int().min(1).max(10_000).optional(),
  /** The node's address; by default the machine's first external address, or 127.0.0.1 if the API server is on a loopback address. */
  address: z.string().min(1).optional(),
  /**
   * The address that the kubelet's API listens on; by default all addresses, or the node's address if that is a loopback address. Port 0 selects
   * any free port.
   */
  serverAddress: z.string().min(1).optional(),
  port: z.number().int().min(0).max(65_535).default(10_250),
  /** The PEM files of the serving certificate and key; by default the cluster's CA issues the certificate. */
  tls: z.strictObject({ certificateFile: z.string().min(1), keyFile: z.string().min(1) }).optional(),
  /** The directory of pods' volumes and files; by default the plugin's data directory. */
  rootDir: z.string().min(1).optional(),
  /** The directory of container logs; by default `logs` below `rootDir`. */
  logDir: z.string().min(1).optional(),
  /** An in-memory directory for Secrets and tokens; by default these files are in `rootDir`, which has mode 0700. */
  volatileDir: z.string().min(1).optional(),
  labels: z.record(z.string(), z.string()).default({}),
  taints: z.array(taint).default([]),
  registerNode: z.boolean().default(true),
  /** The node's pod CIDR until the Node object has `spec.podCIDR`. */
  podCIDR: z.string().optional(),
  maxPods: z.number().int().min(1).max(10_000).default(110),
  /** Overrides the machine's capacity, for example `{ cpu: "4" }`. */
  capacity: quantities.default({}),
  /** Resources that are not allocatable to pods. */
  reserved: quantities.default({}),
  /**
   * Hard eviction thresholds. If less is available, the node reports the pressure condition and evicts pods, one at a time. A threshold is a
   * quantity (`100Mi`) or a percentage (`10%`); 0 disables the threshold. `disk` is the file system of pods, `image` the file system of images.
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
  /** Soft eviction thresholds. A soft threshold takes effect after it was met for `forSeconds`; the evicted pods get a grace period. */
  evictionSoft: perThreshold(z.strictObject({ below: threshold, forSeconds: z.number().int().min(1).max(86_400) })),
  /** The quantity that must be available beyond a threshold before the threshold is no longer met. */
  evictionMinimumReclaim: perThreshold(threshold),
  /** The maximum grace period of pods that a soft eviction threshold evicts. */
  evictionMaxPodGraceSeconds: z.number().int().min(0).max(86_400).default(0),
  /** The minimum time that a pressure condition stays True after its threshold was last met. */
  evictionPressureTransitionSeconds: z.number().int().min(0).max(86_400).default(300),
  /**
   * Image garbage collection. If disk usage exceeds `highPercent`, unused images are removed until disk usage is `lowPercent`. Images younger
   * than `minimumAgeSeconds` are kept. Images unused for `maximumAgeSeconds` are always removed; 0 disables this rule.
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
  /** The name of the runtime for pods without a RuntimeClass; by default the first configured runtime. */
  runtime: z.string().min(1).optional(),
  /** The sysctls that pods may set in addition to the safe sysctls: names, or prefixes that end with `*`. */
  allowedUnsafeSysctls: z
    .array(z.string().min(1).max(253).refine(isNamespacedSysctl, 'this sysctl is not namespaced: it cannot be allowed'))
    .default([]),
  /** Creates a cgroup per pod and per QoS class. If false, the runtimes place the containers. */
  cgroupsPerQos: z.boolean().default(true),
  /** The parent cgroup of `kubepods` (upstream's default is `/`). No other kubelet may use it. By default derived from the node's identity. */
  cgroupRoot: z.string().startsWith('/').optional(),
  /** The maximum number of processes and threads of a pod; -1 for no limit. */
  podPidsLimit: z.number().int().min(-1).default(-1),
  /** The directory that the kubelet's endpoint `/logs/` serves. */
  systemLogDir: z.string().startsWith('/').default('/var/log'),
  resolvConf: z.string().default('/etc/resolv.conf'),
  /** The DNS servers of pods with the policy ClusterFirst; by default the DNS Service. If empty, these pods use the servers of `resolvConf`. */
  clusterDNS: z
    .array(z.string().refine((text) => isIP(text) !== 0, 'an IP address'))
    .max(3)
    .optional(),
  /**
   * The credential provider plugins of image pulls: a CredentialProviderConfig of kubelet.config.k8s.io, or a directory of them (upstream's flag
   * --image-credential-provider-config), and the directory of the programs (--image-credential-provider-bin-dir).
   */
  imageCredentialProviderConfig: z.string().startsWith('/').optional(),
  imageCredentialProviderBinDir: z.string().startsWith('/').optional(),
  /**
   * When a pod needs its own credentials for an image that is present: never, unless the image was preloaded, unless `preloadedImagesVerificationAllowlist`
   * has its repository (`registry.example/app`, or `registry.example/*`), or always.
   */
  imagePullCredentialsVerificationPolicy: z.enum(credentialVerificationPolicies).default('NeverVerifyPreloadedImages'),
  preloadedImagesVerificationAllowlist: z.array(z.string().superRefine(checkAllowlistPattern)).default([]),
  maxParallelImagePulls: z.number().int().min(1).max(100).default(5),
  containerLogMaxSize: z.string().default('10Mi'),
  containerLogMaxFiles: z.number().int().min(2).max(100).default(5),
  /**
   * Graceful node shutdown: `graceSeconds` for all pods, of which the last `criticalGraceSeconds` are for critical pods; or a grace period per
   * priority. With 0, pods are not terminated before the machine shuts down.
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
  /**
   * The directory of the device plugin registration socket `kubelet.sock` (upstream: /var/lib/kubelet/device-plugins). By default, no device
   * plugin can register.
   */
  devicePluginDir: z.string().startsWith('/').max(90).optional(),
  /** The directory in which DRA drivers register (upstream: /var/lib/kubelet/plugins_registry). By default, no DRA driver can register. */
  pluginRegistryDir: z.string().startsWith('/').max(90).optional(),
  /** Static pods: `path` is a directory of manifests or one manifest, `url` returns a Pod or a PodList. */
  staticPods: z
    .strictObject({
      path: z.string().startsWith('/').optional(),
      url: z.url().optional(),
      urlHeaders: z.record(z.string(), z.string()).default({}),
      everyMs: milliseconds(100).default(20_000),
    })
    .prefault({}),
  /** How long an exec, attach or port-forward session may transfer nothing before its connection is closed; 0 for no limit. */
  streamingConnectionIdleTimeoutMs: milliseconds(0).default(14_400_000),
  /** How often the node's status is computed. `nodeStatusReportMs` is how often an unchanged status is reported. */
  nodeStatusUpdateMs: milliseconds(100).default(10_000),
  nodeStatusReportMs: milliseconds(1000).default(300_000),
  nodeLeaseDurationSeconds: z.number().int().min(1).max(3600).default(40),
  /** The period of the PLEG's relist of the runtimes. */
  syncFrequencyMs: milliseconds(1000).default(300_000),
  /** How long the measured usage of a pod's volumes is valid. */
  volumeStatsAggPeriodMs: milliseconds(1000).default(60_000),
  /** Records Normal events. By default, they are recorded only if the process has one node. */
  normalEvents: z.boolean().optional(),
  /** Creates volumes, hosts files and log directories. By default true, except for simulated runtimes. */
  files: z.boolean().optional(),
});
export const kubeletConfig = kubeletFields.superRefine((config, context) => {
  const keys = ['imageCredentialProviderConfig', 'imageCredentialProviderBinDir'] as const;
  const missing = keys.filter((key) => config[key] === undefined);
  if (missing.length === 1)
    context.addIssue({ code: 'custom', path: [...missing], message: `required, because ${keys.join(' and ')} belong together` });
  const { imagePullCredentialsVerificationPolicy: policy, preloadedImagesVerificationAllowlist: allowlist } = config;
  if (allowlist.length > 0 && policy !== 'NeverVerifyAllowlistedImages')
    context.addIssue({
      code: 'custom',
      path: ['preloadedImagesVerificationAllowlist'],
      message: 'can only be set with imagePullCredentialsVerificationPolicy "NeverVerifyAllowlistedImages"',
    });
});
export type KubeletConfig = z.output<typeof kubeletConfig>;
