import { isIPv4, isIPv6 } from 'node:net';
import { encryptionSchema } from '@oarlock/apiserver/storage-encryption-config';
import { z } from 'zod';

/** How a plugin that requests wait for is kept from hurting them. */
const hosting = {
  /** How long one answer may take. */
  deadlineMs: z.int().min(1).max(60_000).optional(),
  /** What becomes of a request on which the plugin fails. */
  failurePolicy: z.enum(['Fail', 'Ignore']).optional(),
  /** `worker`: a thread and a heap of its own. */
  isolation: z.enum(['none', 'worker']).optional(),
  /** The heap of a worker, in MiB. */
  memoryMiB: z.int().min(16).max(16_384).optional(),
};
const hostingSchema = z.strictObject(hosting);
export type HostingSpec = z.output<typeof hostingSchema>;

/** `storage-memory`, `{ use: storage-memory }`, `{ use: ./my-plugin.ts, name: mine, config: {...} }`. */
const placement = z.union([
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
]);
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
const port = z.number().int().min(0).max(65535);

export const roleNames = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'] as const;
export type RoleName = (typeof roleNames)[number];

const spec = z.strictObject({
  /** What this process runs; `--roles` overrides it. */
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
    .prefault({}),
  /** Where the API server listens, and names and addresses its certificate has besides the machine's own. */
  server: z
    .strictObject({
      address: z.string().default('127.0.0.1'),
      port: port.default(6443),
      advertiseAddress: z.string().optional(),
      names: z.array(z.string()).default([]),
    })
    .prefault({}),
  storage: placement.default({ use: 'storage-embedded', config: {} }),
  /** Which resources are encrypted at rest, and with which keys; files are relative to the cluster file. */
  encryption: encryptionSchema.optional(),
  authn: z.array(placement).optional(),
  authz: z.array(placement).optional(),
  admission: z.array(placement).optional(),
  audit: z.array(placement).default([]),
  /** What the sinks of `audit` are told: a file with a Policy of `audit.k8s.io/v1`, relative to the cluster file. */
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
  /** Settings of the roles themselves, each checked by the role's own schema. */
  settings: z
    .strictObject({
      apiserver: z.record(z.string(), z.unknown()).default({}),
      controllers: z.record(z.string(), z.unknown()).default({}),
      scheduler: z.record(z.string(), z.unknown()).default({}),
      kubelet: z.record(z.string(), z.unknown()).default({}),
      proxy: z.record(z.string(), z.unknown()).default({}),
    })
    .prefault({}),
  /** Causes and times of everything that happens. `memory` keeps the latest spans in this process for `oarlock trace`. */
  tracing: z
    .strictObject({
      enabled: z.boolean().default(true),
      /** Spans kept in memory. */
      keep: z.number().int().min(100).max(1_000_000).default(20_000),
      /** An OTLP/HTTP collector such as http://localhost:4318. */
      otlp: z.url().optional(),
    })
    .prefault({}),
  log: z.strictObject({ level: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info') }).prefault({}),
});

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
