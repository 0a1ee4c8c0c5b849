import { isIPv4, isIPv6 } from 'node:net';
import { emulatedVersions, featureFaults } from '@oarlock/api/component-helpers/feature-gates';
import { formatCIDR, parseCIDR } from '@oarlock/api/net/cidr';
import { encryptionSchema } from '@oarlock/apiserver/storage/encryption/encryption-config';
import { z } from 'zod';
import { isValidityPeriod } from './certificate-validity.ts';

const deadlineMs = z.int().min(1).max(3_600_000);
/** Settings that isolate the cluster from a plugin. */
const hosting = {
  /** Time limit of one call to the plugin, in milliseconds; or limits by method, such as `{ reconcile: 60000 }`. */
  deadlineMs: z.union([deadlineMs, z.record(z.string(), deadlineMs)]).optional(),
  /** Whether a request fails if the plugin fails while it handles the request. */
  failurePolicy: z.enum(['Fail', 'Ignore']).optional(),
  /** Where the plugin runs: in the process of its role, or in a thread or process of its own. */
  placement: z.enum(['host', 'thread', 'process']).optional(),
  /** Heap limit of the plugin's own thread or process, in MiB. */
  memoryMiB: z.int().min(16).max(16_384).optional(),
};
const hostingSchema = z.strictObject(hosting);
export type HostingSpec = z.output<typeof hostingSchema>;

/** A plugin: `storage-memory`, `{ use: storage-memory }`, or `{ use: ./my-plugin.ts, name: mine, config: {...} }`. */
const placement = z.union(
  [
    z
      .string()
      .min(1)
      .transform((use): { use: string; name?: string | undefined; config: Record<string, unknown> } & HostingSpec => ({ use, config: {} })),
    z.strictObject({
      use: z.string().min(1),
      name: z
        .string()
        .regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/, 'a name of letters, digits, ".", "_" and "-"')
        .optional(),
      config: z.record(z.string(), z.unknown()).default({}),
      ...hosting,
    }),
  ],
  'one plugin: its name, or a map with the keys use, name and config',
);
export type PlacementSpec = z.output<typeof placement>;

const isRange = (text: string): boolean => {
  const [, address = '', bits = ''] = /^([0-9a-fA-F.:]+)\/(\d{1,3})$/.exec(text) ?? [];
  return (isIPv4(address) && Number(bits) <= 32) || (isIPv6(address) && Number(bits) <= 128);
};
const isPortRange = (text: string): boolean => {
  const [, from = '', to = ''] = /^(\d{1,5})-(\d{1,5})$/.exec(text) ?? [];
  return from !== '' && Number(from) >= 1 && Number(from) <= Number(to) && Number(to) <= 65_535;
};
const cidr = z.string().refine(isRange, 'an address range such as 10.244.0.0/16');
type Ranges = Partial<Record<'podCIDRs' | 'serviceCIDRs', string[] | undefined>>;
/** Reports two ranges of one IP family, and Service ranges with addresses of pods. */
function checkRanges({ value, issues }: z.core.ParsePayload<Ranges>): void {
  const parsed = (key: keyof Ranges) => (value[key] ?? []).flatMap((text) => parseCIDR(text) ?? []);
  const report = (key: keyof Ranges, index: number, message: string) =>
    issues.push({ code: 'custom', path: [key, index], message, input: value[key]?.[index] });
  for (const key of ['podCIDRs', 'serviceCIDRs'] as const) {
    const [first, second] = parsed(key);
    if (second !== undefined && first?.family === second.family)
      report(key, 1, `a range of the other IP family, because the first one is ${first.family}`);
  }
  for (const [index, own] of parsed('serviceCIDRs').entries()) {
    const other = parsed('podCIDRs').find(({ family, first, last }) => own.family === family && own.first <= last && first <= own.last);
    if (other !== undefined) report('serviceCIDRs', index, `a range without addresses of pods: ${formatCIDR(other)} is in podCIDRs`);
  }
}
const port = z.number().int().min(0).max(65535);

type Features = { featureGates?: Record<string, boolean>; emulationVersion?: string | undefined };
/** Reports feature gates that do not exist, that are locked, or that Oarlock does not switch. */
function checkFeatures({ value, issues }: z.core.ParsePayload<Features>): void {
  for (const { gate, message } of featureFaults(value))
    issues.push({ code: 'custom', path: ['featureGates', gate], message, input: value.featureGates?.[gate] });
}

export const roleNames = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'] as const;
export type RoleName = (typeof roleNames)[number];

const spec = z
  .strictObject({
    /** Roles of this process; `--roles` overrides them. */
    roles: z
      .array(z.enum(roleNames))
      .min(1)
      .default([...roleNames]),
    networking: z
      .strictObject({
        podCIDRs: z.array(cidr).min(1).max(2).optional(),
        serviceCIDRs: z.array(cidr).min(1).max(2).optional(),
        domain: z
          .string()
          .regex(/^[a-z0-9.-]{1,253}$/, 'a DNS domain in lower case')
          .default('cluster.local'),
        nodePorts: z.string().refine(isPortRange, 'a range of ports such as 30000-32767').default('30000-32767'),
      })
      .check(checkRanges)
      .prefault({}),
    /** Feature gates of Kubernetes by name (--feature-gates). All servers and nodes of the cluster have the same values. */
    featureGates: z.record(z.string(), z.boolean()).default({}),
    /** The version of Kubernetes whose defaults and API the cluster has (--emulated-version). If absent, that of Oarlock. */
    emulationVersion: z.enum(emulatedVersions).optional(),
    /** Address that the API server listens on, and further names and addresses for its certificate. */
    server: z
      .strictObject({
        address: z.string().default('127.0.0.1'),
        /** If absent, 6443 or, if another program of this host uses it, a free port. */
        port: port.optional(),
        advertiseAddress: z.string().optional(),
        names: z.array(z.string()).default([]),
      })
      .prefault({}),
    /** A port of 127.0.0.1 from which a process without an API server forwards connections to the API servers. */
    apiServerBalancer: z.strictObject({ port: port.default(6444) }).optional(),
    /**
     * Whether the node of an ordinary user gets a user, a mount and a network namespace, in which plugins run that need root.
     */
    rootless: z.boolean().default(false),
    storage: placement.default({ use: 'storage-embedded', config: {} }),
    /**
     * Resources that are encrypted at rest, and the keys. Paths are relative to the cluster file. If absent, Secrets are encrypted in a new data
     * directory.
     */
    encryption: encryptionSchema.optional(),
    /** Service account tokens that the API server issues. */
    serviceAccountTokens: z
      .strictObject({
        /** The algorithm of the signing key. A key of another type is replaced at the start. If absent, the key is kept; a new key is for ES256. */
        algorithm: z.enum(['ES256', 'RS256']).optional(),
        /** The claim `iss`, and the base URL of the discovery document (--service-account-issuer). */
        issuer: z.url({ protocol: /^https$/, error: 'an HTTPS URL' }).optional(),
      })
      .prefault({}),
    /** The lifetime of certificates that the cluster issues, as a Go duration, as in kubeadm's configuration. They are renewed in time. */
    certificateValidityPeriod: z.string().refine(isValidityPeriod, 'a duration from 10m0s to 87600h0m0s, such as 8760h0m0s').optional(),
    authn: z.array(placement).optional(),
    authz: z.array(placement).optional(),
    admission: z.array(placement).optional(),
    audit: z.array(placement).optional(),
    /** File with the audit.k8s.io/v1 Policy for the sinks in `audit`, relative to the cluster file. */
    auditPolicy: z.string().min(1).optional(),
    /** Files with an AuthenticationConfiguration and an AuthorizationConfiguration of `apiserver.config.k8s.io/v1`, relative to the cluster file. */
    authenticationConfig: z.string().min(1).optional(),
    authorizationConfig: z.string().min(1).optional(),
    scheduling: z.array(placement).default([]),
    controllers: z.array(placement).default([]),
    runtimes: z.array(placement).default([]),
    network: placement.optional(),
    volumes: z.array(placement).default([]),
    policy: placement.optional(),
    proxy: placement.optional(),
    dns: placement.optional(),
    cloud: placement.optional(),
    /** Handlers of non-resource paths of the API server, such as the web console. */
    paths: z.array(placement).default([]),
    /** Settings of the roles; each role's own schema checks them. */
    settings: z
      .strictObject({
        apiserver: z.record(z.string(), z.unknown()).default({}),
        controllers: z.record(z.string(), z.unknown()).default({}),
        scheduler: z.record(z.string(), z.unknown()).default({}),
        kubelet: z.record(z.string(), z.unknown()).default({}),
        proxy: z.record(z.string(), z.unknown()).default({}),
      })
      .prefault({}),
    /** Tracing of requests and reconciliations. The latest spans are kept in memory for `oarlock trace`. */
    tracing: z
      .strictObject({
        enabled: z.boolean().default(true),
        /** Number of spans kept in memory. */
        keep: z.number().int().min(100).max(1_000_000).default(20_000),
        /** URL of an OTLP/HTTP collector such as http://localhost:4318. */
        otlp: z.url().optional(),
      })
      .prefault({}),
    log: z.strictObject({ level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info') }).prefault({}),
  })
  .check(checkFeatures);

export const clusterSchema = z.strictObject({
  apiVersion: z.literal('oarlock.dev/v1'),
  kind: z.literal('Cluster'),
  metadata: z
    .strictObject({ name: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a DNS label in lower case') })
    .default({ name: 'oarlock' }),
  spec: spec.prefault({}),
});

export type ClusterSpec = z.output<typeof spec>;
export type ClusterDocument = z.input<typeof clusterSchema>;
