import { durationMs } from '@oarlock/api/duration';
import { z } from 'zod';
import { builtinPlugins } from './builtin.ts';
import { points } from './framework.ts';

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
      ...(Object.fromEntries(points.map((point) => [point, pluginSet.optional()])) as Record<
        (typeof points)[number],
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

/** What upstream has besides and is settled elsewhere here: accepted, and said to be without effect (`withoutEffect`). */
const elsewhere = {
  /** One thread does the work. */
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
 * A `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, with a few keys besides it for the one default profile. Arguments of
 * the built-in plugins are checked here, those of others when the plugins are made.
 */
export const configuration = z
  .strictObject({
    apiVersion: z.literal(apiVersion).optional(),
    kind: z.literal('KubeSchedulerConfiguration').optional(),
    profiles: z.array(profile).min(1).optional(),
    extenders: z.array(extender).default([]),
    /** How many of the nodes are looked at before the best of those that fit is taken; 0, the default: 50 % shrinking to 5 % with size. */
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
    ...elsewhere,

    /** Name of the one profile, when `profiles` is not given. */
    schedulerName: z.string().min(1).default('default-scheduler'),
    parallelBinds: z.number().int().min(1).max(10_000).default(200),
    /** Plugins that are not to run in any profile, by name such as ImageLocality. */
    disable: z.array(z.string()).default([]),
    /** Weights of scores by plugin name, in all profiles that do not weigh it themselves. */
    weights: z.record(z.string(), z.number().min(0).max(100)).default({}),
    leaderElect: z.boolean().default(false),
    leaseName: z.string().regex(objectName, 'a name of an object: lower case, digits, "-" and "."').default('oarlock-scheduler'),
    /** The leader is chosen among LeaseCandidates (KEP-4355), as with the feature gate CoordinatedLeaderElection; the server has to have them. */
    coordinated: z.boolean().default(false),
  })
  .superRefine((given, context) => {
    const complain = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (given.podMaxBackoffSeconds < given.podInitialBackoffSeconds)
      complain(['podMaxBackoffSeconds'], 'must be greater than or equal to podInitialBackoffSeconds');
    const names = new Set<string>();
    for (const [index, { schedulerName, pluginConfig: configs }] of (given.profiles ?? []).entries()) {
      if (names.has(schedulerName)) complain(['profiles', index, 'schedulerName'], `there are two profiles named ${schedulerName}`);
      names.add(schedulerName);
      const known = new Set<string>();
      for (const [at, { name, args }] of configs.entries()) {
        const path = ['profiles', index, 'pluginConfig', at];
        if (known.has(name)) complain([...path, 'name'], `${name} is configured twice`);
        known.add(name);
        for (const issue of faultsOf(name, args)) complain([...path, 'args', ...issue.path], issue.message);
      }
    }
    let binders = 0;
    for (const [index, { bindVerb, prioritizeVerb, weight, managedResources }] of given.extenders.entries()) {
      if (bindVerb !== '' && ++binders > 1) complain(['extenders', index, 'bindVerb'], 'only one extender can bind');
      if (prioritizeVerb !== '' && weight === 0) complain(['extenders', index, 'weight'], 'must have a positive weight applied to it');
      const resources = managedResources.map(({ name }) => name);
      for (const [at, name] of resources.entries())
        if (resources.indexOf(name) < at) complain(['extenders', index, 'managedResources', at, 'name'], `${name} is named twice`);
    }
  });
export type Configuration = z.output<typeof configuration>;

interface Fault {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

function faultsOf(name: string, args: Readonly<Record<string, unknown>>): readonly Fault[] {
  const plugin = builtinPlugins[name];
  if (args['kind'] !== undefined && args['kind'] !== `${name}Args`) return [{ path: ['kind'], message: `has to be ${name}Args` }];
  if (args['apiVersion'] !== undefined && args['apiVersion'] !== apiVersion)
    return [{ path: ['apiVersion'], message: `has to be ${apiVersion}` }];
  if (plugin === undefined) return [];
  const parsed = plugin.config.safeParse(plainArgs(args));
  return parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => ({ path: path.map((key) => (typeof key === 'symbol' ? String(key) : key)), message }));
}

const reasons: Readonly<Record<keyof typeof elsewhere, string>> = {
  parallelism: 'one thread does the work, and nodes are looked at one after the other',
  clientConnection: 'the connection to the API server is that of the process, without a limit of requests',
  enableProfiling: 'there are no paths of Go’s profiler',
  enableContentionProfiling: 'there are no locks to look at',
  delayCacheUntilActive: 'caches are shared with the other parts of the process',
};

/** The keys of a configuration that change nothing here, with why. */
export function withoutEffect(given: Configuration): readonly { readonly key: string; readonly because: string }[] {
  return (Object.keys(reasons) as (keyof typeof elsewhere)[])
    .filter((key) => given[key] !== undefined && given[key] !== false)
    .map((key) => ({ key, because: reasons[key] }));
}

/** Without the kind that upstream writes into them. */
export function plainArgs({
  apiVersion: _version,
  kind: _kind,
  ...args
}: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return args;
}

/** The profiles there are; one, when none is written down. */
export const profilesOf = ({ profiles, schedulerName }: Configuration): readonly Profile[] =>
  profiles ?? [{ schedulerName, plugins: {}, pluginConfig: [] }];
