import { optional } from '@oarlock/kernel/slot';
import { Admission } from '@oarlock/spi/admission';
import { Audit } from '@oarlock/spi/audit';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Loopback } from '@oarlock/spi/loopback';
import { Paths } from '@oarlock/spi/paths';
import { Process } from '@oarlock/spi/process';
import { Roles } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import { Workers } from '@oarlock/spi/workers';
import { z } from 'zod';
import { defaultConnectionConfig } from './http/connection-limits.ts';
import { ApiServer } from './server/api-server.ts';
import { isServable } from './pipeline/runtime-config.ts';
import { encryptionSchema } from './storage/encryption/encryption-config.ts';

const seconds = z.number().positive();
const count = z.int().min(1);
const maxWorkers = 64;

const connectionSchema = z
  .strictObject({
    /** TCP connections at a time. At the bound, connections without authenticated requests are closed first. */
    max: count.default(defaultConnectionConfig.max),
    /** Part of `max` that only administrators, nodes and components of the control plane can hold. */
    reserved: z.int().min(0).default(defaultConnectionConfig.reserved),
    /** Connections of one IPv4 address or IPv6 /64 network before a request is authenticated on them. */
    maxUnauthenticatedPerSource: count.default(defaultConnectionConfig.maxUnauthenticatedPerSource),
    /** At most 120, the bound of Node.js. */
    handshakeTimeoutSeconds: seconds.max(120).default(defaultConnectionConfig.handshakeTimeoutSeconds),
    headerTimeoutSeconds: seconds.max(3600).default(defaultConnectionConfig.headerTimeoutSeconds),
    bodyTimeoutSeconds: seconds.max(3600).default(defaultConnectionConfig.bodyTimeoutSeconds),
    idleTimeoutSeconds: seconds.max(86_400).default(defaultConnectionConfig.idleTimeoutSeconds),
    stalledStreamTimeoutSeconds: seconds.max(86_400).default(defaultConnectionConfig.stalledStreamTimeoutSeconds),
  })
  .superRefine(({ max, reserved }, context) => {
    if (reserved >= max) context.addIssue({ code: 'custom', path: ['reserved'], message: `must be less than max (${max})` });
  });

/** The role that serves the Kubernetes API. */
export default Roles.plugin({
  id: 'apiserver',
  config: z.strictObject({
    /** Port 0 selects a free port. */
    listen: z
      .strictObject({ address: z.string().min(1).default('127.0.0.1'), port: z.int().min(0).max(65_535).default(6443) })
      .prefault({}),
    /** The IP address at which other machines reach this server; by default that of the listener, or of the machine's first interface. */
    advertiseAddress: z.string().min(1).optional(),
    /** Additional names and addresses of the serving certificate. */
    certSANs: z.array(z.string().min(1)).default([]),
    /** Addresses to which no request of a client is proxied, such as one that stands for the loopback address of a host. */
    neverProxied: z.array(z.union([z.ipv4(), z.ipv6()])).default([]),
    requestTimeoutSeconds: seconds.max(3600).default(60),
    /** The interval in which storage discards revisions older than the interval (--etcd-compaction-interval). 0 disables compaction. */
    compactionIntervalSeconds: z.number().min(0).default(300),
    /** The sum of both limits is the number of concurrent requests, which priority levels share. Streams are not counted. */
    maxRequestsInflight: count.default(400),
    maxMutatingRequestsInflight: count.default(200),
    maxStreamsPerConnection: count.default(250),
    /** Bounds on connections, and how long a client may hold one without progress. */
    connections: connectionSchema.prefault({}),
    /** Enables or disables API versions (--runtime-config): `api/all`, `api/beta`, `group/version`, `group/version/resource`. */
    runtimeConfig: z
      .record(z.string(), z.boolean())
      .superRefine((features, context) => {
        for (const name of Object.keys(features))
          if (!isServable(name)) context.addIssue({ code: 'custom', path: [name], message: `unknown api group ${JSON.stringify(name)}` });
      })
      .default({}),
    /**
     * The resources that are encrypted at rest, and their keys. If absent: Secrets, with a generated key, if only this process writes the storage
     * and it was empty at the first start.
     */
    encryption: encryptionSchema.optional(),
    /** The path of an `audit.k8s.io/v1` Policy. By default all requests are audited at level Metadata. */
    auditPolicy: z.string().min(1).optional(),
    /** Whether the default audit policy applies if `auditPolicy` is absent; otherwise every request is recorded at level Metadata. */
    defaultAuditPolicy: z.boolean().default(false),
    /**
     * Whether the API server verifies kubelet certificates with the cluster's CA. Upstream's kubelets use self-signed certificates by
     * default.
     */
    verifyKubelets: z.union([z.boolean(), z.literal('own')]).default('own'),
    /**
     * The number of processes that serve the API on the port of the server. The composition starts the others, which use the storage of this process;
     * limits of requests and connections apply to each of them.
     */
    workers: count.max(maxWorkers).default(1),
    /** The time that a stop waits for active requests. */
    drainSeconds: seconds.max(300).default(5),
  }),
  needs: {
    storage: Storage,
    authn: Authn,
    authz: Authz,
    admission: Admission,
    audit: Audit,
    loopback: Loopback,
    cluster: Cluster,
    keys: Keys,
    paths: Paths,
    process: optional(Process),
    localNodes: optional(LocalNodes),
    workers: optional(Workers),
  },
  create: (dependencies, context) => new ApiServer(dependencies, context),
});
