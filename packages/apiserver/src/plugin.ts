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
import { z } from 'zod';
import { ApiServer } from './api-server.ts';
import { isServable } from './pipeline/runtime-config.ts';
import { encryptionSchema } from './storage/encryption/encryption-config.ts';

const seconds = z.number().positive();
const count = z.int().min(1);

/** The role that serves the Kubernetes API: the pipeline, and HTTP in front of it. */
export default Roles.plugin({
  id: 'apiserver',
  config: z.strictObject({
    /** Port 0 takes any that is free. */
    listen: z
      .strictObject({ address: z.string().min(1).default('127.0.0.1'), port: z.int().min(0).max(65_535).default(6443) })
      .prefault({}),
    /** The IP address under which other machines reach this server; unless given, that of the listener, or the machine's first. */
    advertiseAddress: z.string().min(1).optional(),
    /** Further names and addresses of the serving certificate. */
    certSANs: z.array(z.string().min(1)).default([]),
    requestTimeoutSeconds: seconds.max(3600).default(60),
    /** Reads and writes that are worked on at a time, together: priority levels share them out. Streams do not count. */
    maxRequestsInflight: count.default(400),
    maxMutatingRequestsInflight: count.default(200),
    maxStreamsPerConnection: count.default(250),
    /** Versions to serve besides the default ones, or not to: `api/all`, `api/beta`, `group/version`, `group/version/resource`. */
    runtimeConfig: z
      .record(z.string(), z.boolean())
      .superRefine((given, context) => {
        for (const name of Object.keys(given))
          if (!isServable(name)) context.addIssue({ code: 'custom', path: [name], message: `unknown api group ${JSON.stringify(name)}` });
      })
      .default({}),
    /** Resources that are encrypted at rest, and the keys. Absent: Secrets, with a generated key, in storage that this process alone writes and that was empty at the first start. */
    encryption: encryptionSchema.optional(),
    /** A file with a Policy of `audit.k8s.io/v1`: what sinks are told. Absent: of every request who asked for what, and the answer's code. */
    auditPolicy: z.string().min(1).optional(),
    /** Whether, without `auditPolicy`, sinks are spared what the components of the cluster read and repeat all the time. */
    defaultAuditPolicy: z.boolean().default(false),
    /** Whether kubelets have to show certificates of the cluster's CA. Upstream's sign their own unless they are told otherwise. */
    verifyKubelets: z.union([z.boolean(), z.literal('own')]).default('own'),
    /** How long a stop waits for requests that are under way. */
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
  },
  create: (given, context) => new ApiServer(given, context),
});
