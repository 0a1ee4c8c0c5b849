import { durationMs } from '@oarlock/api/values/duration';
import { z } from 'zod';
import { inTreePlugins } from '../plugins/registry.ts';
import { extensionPoints } from '../framework/framework.ts';

const apiVersion = 'kubescheduler.config.k8s.io/v1';

const objectName = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const duration = z
  .string()
  .refine((text) => {
    try {
      return durationMs(text) >= 0;
    } catch {
      return false;
    }
  }, 'a duration such as 15s')
  .transform(durationMs);
const percentage = z.number().int().min(0).max(100);
const enabled = z.strictObject({ name: z.string().min(1), weight: z.number().int().min(0).max(100).optional() });
const disabled = z.strictObject({ name: z.string().min(1), weight: z.number().int().optional() });
const pluginSet = z.strictObject({ enabled: z.array(enabled).default([]), disabled: z.array(disabled).default([]) });
export type PluginSet = z.output<typeof pluginSet>;

const pluginConfig = z.strictObject({ name: z.string().min(1), args: z.record(z.string(), z.unknown()).default({}) });

const profile = z.strictObject({
  schedulerName: z.string().min(1).default('default-scheduler'),
  percentageOfNodesToScore: percentage.optional(),
  plugins: z
    .strictObject({
      multiPoint: pluginSet.optional(),
      ...(Object.fromEntries(extensionPoints.map((point) => [point, pluginSet.optional()])) as Record<
        (typeof extensionPoints)[number],
        z.ZodOptional<typeof pluginSet>
      >),
    })
    .default({}),
  pluginConfig: z.array(pluginConfig).default([]),
});
export type Profile = z.output<typeof profile>;

const bytes = z.base64().transform((text) => Buffer.from(text, 'base64').toString('utf8'));
const extender = z.strictObject({
  urlPrefix: z.url({ protocol: /^https?$/ }),
  filterVerb: z.string().default(''),
  preemptVerb: z.string().default(''),
  prioritizeVerb: z.string().default(''),
  weight: z.number().int().min(0).default(0),
  bindVerb: z.string().default(''),
  enableHTTPS: z.boolean().default(false),
  tlsConfig: z
    .strictObject({
      insecure: z.boolean().default(false),
      serverName: z.string().optional(),
      certFile: z.string().optional(),
      keyFile: z.string().optional(),
      caFile: z.string().optional(),
      certData: bytes.optional(),
      keyData: bytes.optional(),
      caData: bytes.optional(),
    })
    .prefault({}),
  httpTimeout: duration.default(30_000),
  nodeCacheCapable: z.boolean().default(false),
  managedResources: z.array(z.strictObject({ name: z.string().min(1), ignoredByScheduler: z.boolean().default(false) })).default([]),
  ignorable: z.boolean().default(false),
});
export type ExtenderConfig = z.output<typeof extender>;

/** Keys of upstream's configuration that have no effect here. The configuration accepts them, and `ignoredKeys` reports them. */
const keysConfiguredElsewhere = {
  /** Ignored, because scheduling runs on one thread. */
  parallelism: z.number().int().min(1).optional(),
  clientConnection: z
    .strictObject({
      kubeconfig: z.string().optional(),
      acceptContentTypes: z.string().optional(),
      contentType: z.string().optional(),
      qps: z.number().optional(),
      burst: z.number().int().optional(),
    })
    .optional(),
  enableProfiling: z.boolean().optional(),
  enableContentionProfiling: z.boolean().optional(),
  delayCacheUntilActive: z.boolean().optional(),
};

/**
 * A `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, with additional keys. Validates the arguments of in-tree
 * plugins; other plugins validate their arguments in `withArgs`.
 */
export const configuration = z
  .strictObject({
    apiVersion: z.literal(apiVersion).optional(),
    kind: z.literal('KubeSchedulerConfiguration').optional(),
    profiles: z.array(profile).min(1).optional(),
    extenders: z.array(extender).default([]),
    /** The percentage of feasible nodes at which the search ends. The default 0 means 50 %, decreasing to 5 % with the size of the cluster. */
    percentageOfNodesToScore: percentage.optional(),
    podInitialBackoffSeconds: z.number().positive().default(1),
    podMaxBackoffSeconds: z.number().positive().default(10),
    leaderElection: z
      .strictObject({
        leaderElect: z.boolean().default(true),
        leaseDuration: duration.default(15_000),
        renewDeadline: duration.default(10_000),
        retryPeriod: duration.default(2000),
        resourceLock: z.literal('leases').default('leases'),
        resourceName: z.string().min(1).max(253).optional(),
        resourceNamespace: z.string().min(1).max(63).default('kube-system'),
      })
      .optional(),
    ...keysConfiguredElsewhere,

    /** The scheduler name of the default profile if `profiles` is absent. */
    schedulerName: z.string().min(1).default('default-scheduler'),
    parallelBinds: z.number().int().min(1).max(10_000).default(200),
    /** Names of plugins that are disabled in all profiles, such as ImageLocality. */
    disable: z.array(z.string()).default([]),
    /** Score weights by plugin name. They apply to all profiles that do not set a weight for the plugin. */
    weights: z.record(z.string(), z.number().min(0).max(100)).default({}),
    leaderElect: z.boolean().default(false),
    leaseName: z.string().regex(objectName, 'must be an object name: lower-case letters, digits, "-" and "."').default('oarlock-scheduler'),
    /** Enables coordinated leader election (KEP-4355). Requires an API server that serves LeaseCandidates. */
    coordinated: z.boolean().default(false),
  })
  .superRefine((config, context) => {
    const addIssue = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (config.podMaxBackoffSeconds < config.podInitialBackoffSeconds)
      addIssue(['podMaxBackoffSeconds'], 'must be greater than or equal to podInitialBackoffSeconds');
    const names = new Set<string>();
    for (const [index, { schedulerName, pluginConfig: configs }] of (config.profiles ?? []).entries()) {
      if (names.has(schedulerName)) addIssue(['profiles', index, 'schedulerName'], `there are two profiles named ${schedulerName}`);
      names.add(schedulerName);
      const known = new Set<string>();
      for (const [at, { name, args }] of configs.entries()) {
        const path = ['profiles', index, 'pluginConfig', at];
        if (known.has(name)) addIssue([...path, 'name'], `${name} is configured twice`);
        known.add(name);
        for (const issue of argsErrors(name, args)) addIssue([...path, 'args', ...issue.path], issue.message);
      }
    }
    let binders = 0;
    for (const [index, { bindVerb, prioritizeVerb, weight, managedResources }] of config.extenders.entries()) {
      if (bindVerb !== '' && ++binders > 1) addIssue(['extenders', index, 'bindVerb'], 'only one extender can bind');
      if (prioritizeVerb !== '' && weight === 0) addIssue(['extenders', index, 'weight'], 'must have a positive weight applied to it');
      const resources = managedResources.map(({ name }) => name);
      for (const [at, name] of resources.entries())
        if (resources.indexOf(name) < at) addIssue(['extenders', index, 'managedResources', at, 'name'], `${name} is named twice`);
    }
  });
export type Configuration = z.output<typeof configuration>;

interface ConfigurationError {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

function argsErrors(name: string, args: Readonly<Record<string, unknown>>): readonly ConfigurationError[] {
  const plugin = inTreePlugins[name];
  if (args['kind'] !== undefined && args['kind'] !== `${name}Args`) return [{ path: ['kind'], message: `must be ${name}Args` }];
  if (args['apiVersion'] !== undefined && args['apiVersion'] !== apiVersion)
    return [{ path: ['apiVersion'], message: `must be ${apiVersion}` }];
  if (plugin === undefined) return [];
  const parsed = plugin.config.safeParse(plainArgs(args));
  return parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => ({ path: path.map((key) => (typeof key === 'symbol' ? String(key) : key)), message }));
}

const ignoredKeyReasons: Readonly<Record<keyof typeof keysConfiguredElsewhere, string>> = {
  parallelism: 'nodes are evaluated sequentially on one thread',
  clientConnection: 'the scheduler uses the connection of its process, which has no client-side rate limit',
  enableProfiling: 'there is no pprof endpoint',
  enableContentionProfiling: 'there are no locks to profile',
  delayCacheUntilActive: 'the caches are shared with other roles of the process',
};

/** Returns the configured keys that have no effect, each with the reason. */
export function ignoredKeys(config: Configuration): readonly { readonly key: string; readonly reason: string }[] {
  return (Object.keys(ignoredKeyReasons) as (keyof typeof keysConfiguredElsewhere)[])
    .filter((key) => config[key] !== undefined && config[key] !== false)
    .map((key) => ({ key, reason: ignoredKeyReasons[key] }));
}

/** Returns the arguments of a plugin without `apiVersion` and `kind`. */
export function plainArgs({
  apiVersion: _version,
  kind: _kind,
  ...args
}: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return args;
}

/** Returns the configured profiles, or the default profile if there are none. */
export const profilesOf = ({ profiles, schedulerName }: Configuration): readonly Profile[] =>
  profiles ?? [{ schedulerName, plugins: {}, pluginConfig: [] }];
